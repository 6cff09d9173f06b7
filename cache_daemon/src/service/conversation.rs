//! A login's conversation over a socket.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use privacyidea_contract::Secret;
use privacyidea_contract::wire::{Reply, Request, STEP, Stream, Version};

use super::stop::{Awaited, Stop};
use crate::authentication::{Conversation, ConversationEnded};
use crate::settings::SERVER_TIMEOUT_MAX;

/// How long the peer may take to read a reply, or to send the rest of an answer that has begun.
pub(super) const PEER: Duration = Duration::from_secs(5);
/// How long a person may take for one answer.
const ANSWER: Duration = Duration::from_secs(5 * 60);
/// How long a login may take altogether, however many questions it has.
const LOGIN: Duration = Duration::from_secs(10 * 60);
/// How long a login waits for its turn at the work.
const TURN: Duration = Duration::from_secs(10);
// The longest work between two questions, in seconds: the server, and the state database twice.
const _: () = assert!(
    TURN.as_secs() + SERVER_TIMEOUT_MAX + 2 * 5 < STEP.as_secs(),
    "the PAM module would not wait for it"
);

/// How many logins may be at work at the same time; those that wait for a person do not count.
pub(super) struct Turns {
    free: Mutex<usize>,
    one_freed: Condvar,
}

/// A turn at the work, given back when dropped.
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    /// So many at the same time.
    #[must_use]
    pub(super) fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), one_freed: Condvar::new() }
    }

    /// Waits for a turn. None: there was none in time.
    #[must_use]
    pub(super) fn take(&self) -> Option<Turn<'_>> {
        self.take_before(Instant::now() + TURN)
    }

    fn take_before(&self, deadline: Instant) -> Option<Turn<'_>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            free = self.one_freed.wait_timeout(free, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *free -= 1;
        Some(Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.one_freed.notify_one();
    }
}

/// The person at the other end of a socket.
pub(super) struct SocketConversation<'a> {
    stream: &'a mut Stream,
    stop: &'a Stop,
    turns: &'a Turns,
    turn: Option<Turn<'a>>,
    end: Instant,
}

impl<'a> SocketConversation<'a> {
    /// Begins; `turn` is given back while the person thinks.
    #[must_use]
    pub(super) fn new(stream: &'a mut Stream, stop: &'a Stop, turns: &'a Turns, turn: Turn<'a>) -> Self {
        Self { stream, stop, turns, turn: Some(turn), end: Instant::now() + LOGIN }
    }

    fn send(&mut self, reply: &Reply) -> Result<(), ConversationEnded> {
        self.stream.send_reply(reply, Instant::now() + PEER).map_err(|_| ConversationEnded)
    }

    fn wait_for_answer(&mut self) -> Result<Secret, ConversationEnded> {
        let deadline = self.end.min(Instant::now() + ANSWER);
        match self.stop.wait(self.stream.socket(), deadline) {
            Ok(Awaited::Ready) => {}
            Ok(Awaited::TimedOut) | Err(_) => return Err(ConversationEnded),
        }
        match self.stream.receive_request(Instant::now() + PEER) {
            Ok(Request::Answer(secret)) => Ok(secret),
            Ok(_) | Err(_) => Err(ConversationEnded),
        }
    }
}

impl Conversation for SocketConversation<'_> {
    fn ask(&mut self, text: &str, echo: bool) -> Result<Secret, ConversationEnded> {
        self.send(&Reply::Ask { text: text.to_owned(), echo })?;
        self.turn = None;
        let answer = self.wait_for_answer()?;
        self.turn = Some(self.turns.take().ok_or(ConversationEnded)?);
        Ok(answer)
    }

    fn tell(&mut self, text: &str, error: bool) -> Result<(), ConversationEnded> {
        self.send(&Reply::Tell { text: text.to_owned(), error })
    }

    fn export(&mut self, name: &str, value: &str) -> Result<(), ConversationEnded> {
        if self.stream.version() == Version::One {
            // A module from before the last upgrade, in a program that still runs.
            return Ok(());
        }
        self.send(&Reply::Export { name: name.to_owned(), value: value.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use privacyidea_contract::wire::Lookup;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    /// Asks once while `person` sits at the other end.
    fn ask(
        stop: &Stop,
        turns: &Turns,
        person: impl FnOnce(Stream) + Send,
    ) -> Result<Secret, ConversationEnded> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut stream = Stream::new(ours);
        std::thread::scope(|scope| {
            scope.spawn(move || person(Stream::new(theirs)));
            let turn = turns.take().unwrap();
            SocketConversation::new(&mut stream, stop, turns, turn).ask("One-time code: ", false)
        })
    }

    #[test]
    fn the_answer_comes_back_and_the_turn_is_free_while_the_person_thinks() {
        let (stop, turns) = (Stop::new().unwrap(), Turns::new(1));
        let answer = ask(&stop, &turns, |mut stream| {
            let Ok(Reply::Ask { text, echo: false }) = stream.receive_reply(soon()) else {
                panic!("no question")
            };
            assert_eq!(text, "One-time code: ");
            drop(turns.take_before(soon()).expect("the only turn is free"));
            stream.send_request(&Request::Answer("755224".into()), soon()).unwrap();
        });
        assert!(answer.is_ok_and(|secret| secret.expose() == b"755224"));
    }

    #[test]
    fn whoever_hangs_up_or_says_something_else_has_ended_the_conversation() {
        let (stop, turns) = (Stop::new().unwrap(), Turns::new(1));
        assert!(ask(&stop, &turns, drop).is_err());
        let other = ask(&stop, &turns, |mut stream| {
            let other = Request::Lookup(Lookup::PasswdById(1000));
            stream.send_request(&other, soon()).unwrap();
        });
        assert!(other.is_err());
        assert!(turns.take_before(Instant::now()).is_some(), "the turn came back");
    }

    #[test]
    fn a_turn_is_not_waited_for_without_end() {
        let turns = Turns::new(1);
        let taken = turns.take().unwrap();
        assert!(turns.take_before(Instant::now()).is_none());
        drop(taken);
        assert!(turns.take_before(Instant::now()).is_some());
    }
}
