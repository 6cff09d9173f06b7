//! One question to the resolvers at a time for the same key: whoever comes meanwhile gets the same answer.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use privacyidea_contract::wire::{Lookup, Reply};

use super::lock;

/// The questions that are being asked.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<Lookup, Arc<Flight>>>);

#[derive(Default)]
struct Flight {
    answer: Mutex<Option<Reply>>,
    answered: Condvar,
}

impl Flights {
    /// Asks, or waits for who is asking the same already.
    pub(super) fn ask(&self, lookup: &Lookup, ask: impl FnOnce() -> Reply) -> Reply {
        let mut flights = lock(&self.0);
        if let Some(flight) = flights.get(lookup).map(Arc::clone) {
            drop(flights);
            return flight.wait();
        }
        let flight = Arc::new(Flight::default());
        flights.insert(lookup.clone(), Arc::clone(&flight));
        drop(flights);
        // Lands with the answer, and with "unavailable" if `ask` panics, so that nobody waits for ever.
        let mut landing = Landing { flights: self, lookup, flight, answer: Reply::Unavailable };
        landing.answer = ask();
        landing.answer.clone()
    }
}

impl Flight {
    fn wait(&self) -> Reply {
        let mut answer = lock(&self.answer);
        loop {
            match answer.as_ref() {
                Some(answer) => return answer.clone(),
                None => answer = self.answered.wait(answer).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

struct Landing<'a> {
    flights: &'a Flights,
    lookup: &'a Lookup,
    flight: Arc<Flight>,
    answer: Reply,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        lock(&self.flights.0).remove(self.lookup);
        *lock(&self.flight.answer) = Some(self.answer.clone());
        self.flight.answered.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn the_same_question_is_asked_once_at_a_time() {
        let flights = Flights::default();
        let asked = AtomicU32::new(0);
        let lookup = Lookup::PasswdById(2000);
        let (under_way, go_on) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            let leader = scope.spawn(|| {
                flights.ask(&lookup, || {
                    under_way.wait();
                    go_on.wait();
                    asked.fetch_add(1, Ordering::SeqCst);
                    Reply::Groups(vec![7])
                })
            });
            under_way.wait();
            let flight = Arc::clone(&lock(&flights.0)[&lookup]);
            let followers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        flights.ask(&lookup, || {
                            asked.fetch_add(1, Ordering::SeqCst);
                            Reply::NotFound
                        })
                    })
                })
                .collect();
            // The flight, its map, this test and each follower hold it: all are waiting then.
            while Arc::strong_count(&flight) < 3 + followers.len() {
                std::thread::yield_now();
            }
            assert!(matches!(flights.ask(&Lookup::GroupById(2000), || Reply::NotFound), Reply::NotFound));
            go_on.wait();
            for thread in followers.into_iter().chain([leader]) {
                assert!(matches!(thread.join().expect("no panic"), Reply::Groups(gids) if gids == [7]));
            }
        });
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        assert!(lock(&flights.0).is_empty());
    }

    #[test]
    fn a_panic_leaves_nobody_waiting() {
        let flights = Flights::default();
        let lookup = Lookup::PasswdById(2000);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            flights.ask(&lookup, || panic!("on purpose"));
        }));
        assert!(panicked.is_err());
        assert!(matches!(flights.ask(&lookup, || Reply::NotFound), Reply::NotFound));
    }
}
