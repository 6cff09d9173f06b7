use std::collections::VecDeque;

use super::*;
use crate::server::{Answer, Check, OfflineBatch, Poll, TransactionId};
use crate::tokens::{Failures, OfflineToken, offline_hash};

const NOW: UnixSeconds = 5000;

/// Answers in order; an `Err` of the first kind is of `reachable`.
struct Scripted<'a> {
    reachable: Result<(), Failure>,
    answers: Mutex<VecDeque<Result<Refilled, Failure>>>,
    /// Happens while the request is on its way.
    meanwhile: &'a (dyn Fn() + Sync),
}

impl Server for Scripted<'_> {
    fn check(&self, _check: &Check<'_>) -> Result<Answer, Failure> {
        unreachable!("nobody logs in")
    }

    fn poll(&self, _transaction: &TransactionId) -> Result<Poll, Failure> {
        unreachable!("nothing is polled")
    }

    fn refill(&self, refill: &Refill<'_>) -> Result<Refilled, Failure> {
        assert_eq!((refill.serial, refill.password.expose()), ("PI1", &b"pin123456"[..]));
        assert_eq!(refill.refill_token.expose(), "first");
        (self.meanwhile)();
        self.answers.lock().unwrap().pop_front().expect("a further request")
    }

    fn reachable(&self) -> Result<(), Failure> {
        self.reachable.clone()
    }
}

fn value(counter: u64) -> OfflineValue {
    OfflineValue { counter, hash: offline_hash(&counter.to_be_bytes(), 1) }
}

/// Values 4 to 9 are left of the token PI1.
fn state() -> (tempfile::TempDir, State) {
    let directory = tempfile::tempdir().unwrap();
    let state = State::open(&directory.path().join("state.db")).unwrap();
    state.change(|transaction| transaction.replace_offline(&token(4..=9), "first")).unwrap();
    (directory, state)
}

fn token(counters: std::ops::RangeInclusive<u64>) -> OfflineToken {
    OfflineToken {
        serial: "PI1".into(),
        user: "carla".into(),
        realm: String::new(),
        code_alone: false,
        next: *counters.start(),
        fetched: 1000,
        failures: Failures::default(),
        last_used: None,
        left: 0,
        values: counters.map(value).collect(),
    }
}

fn new_values() -> Result<Refilled, Failure> {
    Ok(Refilled::Batch(OfflineBatch {
        serial: "PI1".into(),
        user: None,
        refill_token: RefillToken::new("second".into()),
        values: (10..=12).map(|n| (n, value(n).hash.as_str().to_owned())).collect(),
    }))
}

fn dropped() -> Result<Refilled, Failure> {
    Ok(Refilled::Dropped { reason: "The token is not valid.".into() })
}

fn lost() -> Result<Refilled, Failure> {
    Err(Failure::Unreachable("no answer within 10 s".into()))
}

fn try_once(state: &State, answer: Result<Refilled, Failure>) -> Outcome {
    try_meanwhile(state, answer, &|| ())
}

fn try_meanwhile(state: &State, answer: Result<Refilled, Failure>, meanwhile: &(dyn Fn() + Sync)) -> Outcome {
    let server = Scripted { reachable: Ok(()), answers: Mutex::new([answer].into()), meanwhile };
    attempt("PI1", &"pin123456".into(), &server, state, NOW)
}

fn counters(state: &State) -> Vec<u64> {
    let tokens = state.offline_tokens(None, 100).unwrap();
    tokens.iter().flat_map(|token| token.values.iter().map(|value| value.counter)).collect()
}

fn refill_token(state: &State) -> Option<(String, bool)> {
    let basis = state.change(|transaction| transaction.refill_basis("PI1")).unwrap();
    basis.map(|basis| (basis.refill_token.to_string(), basis.unanswered))
}

#[test]
fn new_values_come_with_their_refill_token_and_a_new_age() {
    let (_directory, state) = state();
    assert_eq!(try_once(&state, new_values()), Outcome::Done(Severity::Info, "3 new values".into()));
    assert_eq!(counters(&state), (4..=12).collect::<Vec<_>>());
    assert_eq!(refill_token(&state), Some(("second".into(), false)));
    assert_eq!(state.offline_tokens(None, 1).unwrap()[0].fetched, NOW);
}

#[test]
fn what_the_server_takes_back_is_removed() {
    let (_directory, state) = state();
    let Outcome::Done(Severity::Warning, text) = try_once(&state, dropped()) else { panic!("no word of it") };
    assert!(text.contains("The token is not valid."), "{text}");
    assert!(state.offline_tokens(None, 1).unwrap().is_empty());
}

#[test]
fn a_no_after_a_lost_answer_costs_no_values() {
    let (_directory, state) = state();
    assert!(matches!(try_once(&state, lost()), Outcome::Later(_)));
    assert_eq!(refill_token(&state), Some(("first".into(), true)));
    assert!(matches!(try_once(&state, dropped()), Outcome::Done(Severity::Warning, _)));
    assert_eq!((counters(&state).len(), refill_token(&state)), (6, None));
    // The request was lost, not the answer.
    let (_directory, state) = self::state();
    try_once(&state, lost());
    try_once(&state, new_values());
    assert_eq!(refill_token(&state), Some(("second".into(), false)));
}

#[test]
fn a_server_that_is_away_or_says_so_has_lost_nothing() {
    let (_directory, state) = state();
    let away = Failure::Unreachable("no route".into());
    let server = Scripted { reachable: Err(away), answers: Mutex::default(), meanwhile: &|| () };
    assert!(matches!(attempt("PI1", &"pin123456".into(), &server, &state, NOW), Outcome::Later(_)));
    assert!(matches!(try_once(&state, Err(Failure::Unable("907".into()))), Outcome::Later(_)));
    assert_eq!(refill_token(&state), Some(("first".into(), false)));
    try_once(&state, dropped());
    assert!(counters(&state).is_empty(), "its no counts");
}

#[test]
fn a_batch_that_came_meanwhile_stays_as_it_is() {
    for answer in [new_values(), dropped()] {
        let (_directory, state) = state();
        let log_in = || {
            let replaced =
                state.change(|transaction| transaction.replace_offline(&token(40..=41), "of a login"));
            assert!(replaced.is_ok());
        };
        try_meanwhile(&state, answer, &log_in);
        assert_eq!(counters(&state), [40, 41]);
        assert_eq!(refill_token(&state), Some(("of a login".into(), false)));
    }
}

#[test]
fn values_used_meanwhile_do_not_come_back() {
    let (_directory, state) = state();
    let log_in = || {
        assert!(state.change(|transaction| transaction.use_offline_value("PI1", &value(9))).unwrap());
    };
    try_meanwhile(&state, new_values(), &log_in);
    assert_eq!(counters(&state), [10, 11, 12]);
}

#[test]
fn a_token_that_is_gone_is_nobodys_business() {
    let (_directory, state) = state();
    state.change(|transaction| transaction.remove_offline("PI1")).unwrap();
    let server = Scripted { reachable: Ok(()), answers: Mutex::default(), meanwhile: &|| () };
    let outcome = attempt("PI1", &"pin123456".into(), &server, &state, NOW);
    assert_eq!(outcome, Outcome::Done(Severity::Info, String::new()));
}

#[test]
fn absurd_values_are_not_kept() {
    let (_directory, state) = state();
    let Ok(Refilled::Batch(mut batch)) = new_values() else { unreachable!() };
    batch.values.insert(11, "$pbkdf2-sha512$999999$AAAA$AAAA".into());
    let outcome = try_once(&state, Ok(Refilled::Batch(batch)));
    assert!(matches!(outcome, Outcome::Done(Severity::Error, _)), "{outcome:?}");
    assert_eq!((counters(&state).len(), refill_token(&state)), (6, None));
}

#[test]
fn waits_double_from_a_minute_to_an_hour_and_end() {
    let (mut queue, mut now) = (Queue::default(), Instant::now());
    queue.put("PI1", "pin123456".into(), now);
    let mut waits = Vec::new();
    loop {
        let (serial, wanted) = queue.take_due(now).expect("due");
        assert!(queue.take_due(now).is_none(), "one for each token");
        match queue.put_again(&serial, wanted, now) {
            Again::Later => {
                let due = queue.next_due().expect("waiting");
                assert!(queue.take_due(due - Duration::from_millis(1)).is_none());
                waits.push((due - now).as_secs() / 60);
                now = due;
            }
            Again::GivenUp => break,
        }
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]);
    assert!(queue.next_due().is_none(), "nothing typed is kept");
}

#[test]
fn a_newer_login_takes_the_place_of_an_older_one() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.put("PI1", "old".into(), now);
    queue.put("PI1", "pin".into(), now);
    let (serial, wanted) = queue.take_due(now).expect("due");
    assert_eq!(wanted.password.expose(), b"pin");
    queue.put("PI1", "newer".into(), now);
    queue.put_again(&serial, wanted, now);
    let (_, wanted) = queue.take_due(now).expect("at once, not after the older one's wait");
    assert_eq!(wanted.password.expose(), b"newer");
    assert!(queue.next_due().is_none());
}

#[test]
fn the_queue_has_an_end() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    for number in 0..=TOKENS_MAX {
        queue.put(&number.to_string(), "pin".into(), now);
    }
    assert_eq!(queue.waiting.len(), TOKENS_MAX);
    queue.put("0", "newer".into(), now);
    assert_eq!(queue.waiting["0"].password.expose(), b"newer");
}
