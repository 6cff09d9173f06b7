//! What the administrator is to be told, each thing once when it becomes true.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// So many lines wait to be written; the oldest go first.
const WAITING_MAX: usize = 500;

/// Lines for the journal.
#[derive(Default)]
pub(super) struct Notices(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    waiting: VecDeque<String>,
    /// What is true of each topic now.
    true_now: BTreeMap<String, String>,
}

impl Notices {
    /// Something that happened.
    pub(super) fn event(&self, sentence: String) {
        self.with(|inner| inner.say(sentence));
    }

    /// What is wrong with a topic (`None`: nothing). Said if it is not what was wrong before, and when it is right
    /// again.
    pub(super) fn state(&self, topic: &str, problem: Option<&str>) {
        self.with(|inner| {
            let before = inner.true_now.get(topic).map(String::as_str);
            if before == problem {
                return;
            }
            match problem {
                Some(problem) => {
                    inner.true_now.insert(topic.to_owned(), problem.to_owned());
                    inner.say(problem.to_owned());
                }
                None => {
                    inner.true_now.remove(topic);
                    inner.say(format!("{topic} is well again"));
                }
            }
        });
    }

    /// [`Self::state`] without saying that it is right again.
    pub(super) fn forget(&self, topic: &str) {
        self.with(|inner| inner.true_now.remove(topic));
    }

    /// Takes what is waiting.
    pub(super) fn take(&self) -> Vec<String> {
        self.with(|inner| inner.waiting.drain(..).collect())
    }

    fn with<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inner {
    fn say(&mut self, sentence: String) {
        if self.waiting.len() == WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(sentence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_said_when_it_changes() {
        let notices = Notices::default();
        for problem in [None, Some("away"), Some("away"), Some("far away"), None, None] {
            notices.state("the map", problem);
        }
        assert_eq!(notices.take(), ["away", "far away", "the map is well again"]);
        assert!(notices.take().is_empty());
    }

    #[test]
    fn only_so_many_wait() {
        let notices = Notices::default();
        (0..WAITING_MAX + 3).for_each(|number| notices.event(number.to_string()));
        let waiting = notices.take();
        assert_eq!((waiting.len(), waiting[0].as_str()), (WAITING_MAX, "3"));
    }
}
