//! Logins by values that the server has handed out.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::offline;
use super::*;
use crate::server::{OfflineBatch, RefillToken};
use crate::tokens::offline_hash;

mod batches;

const DAY: u64 = 86_400;

/// What is typed for a counter of the token `PI1`.
fn typed(counter: u64) -> String {
    format!("pin{}", code(counter))
}

fn batch(counters: std::ops::RangeInclusive<u64>) -> OfflineBatch {
    OfflineBatch {
        serial: "PI1".into(),
        user: Some("carla".into()),
        refill_token: RefillToken::new("first".into()),
        values: values(counters, typed),
    }
}

fn values(counters: std::ops::RangeInclusive<u64>, typed: impl Fn(u64) -> String) -> BTreeMap<u64, String> {
    counters.map(|n| (n, offline_hash(typed(n).as_bytes(), 2).as_str().to_owned())).collect()
}

fn accepted(offline: Vec<OfflineBatch>) -> Result<Answer, Failure> {
    Ok(Answer::Accepted(Accepted { serial: Some("PI1".into()), offline, ..Accepted::default() }))
}

fn away() -> Result<Answer, Failure> {
    Err(Failure::Unreachable("no route".into()))
}

fn rejected() -> Result<Answer, Failure> {
    Ok(Answer::Rejected { reason: "wrong otp value".into() })
}

/// A host that keeps values, and a server with these answers.
fn rig(answers: impl IntoIterator<Item = Result<Answer, Failure>>) -> Rig {
    let mut rig = Rig::with_server(answers);
    rig.settings.offline.enabled = true;
    rig
}

/// Carla has logged in with the code of counter 0 and holds the next twenty; then come `answers`.
fn holding(answers: impl IntoIterator<Item = Result<Answer, Failure>>) -> Rig {
    let rig = rig([accepted(vec![batch(1..=20)])].into_iter().chain(answers));
    assert_eq!(rig.login("carla", &typed(0)), granted("carla"));
    assert_eq!(rig.numbers(), [2]);
    rig
}

fn left(rig: &Rig) -> Vec<u32> {
    rig.state.offline_tokens(None, 1).unwrap().iter().map(|token| token.left).collect()
}

fn failures(rig: &Rig) -> u32 {
    rig.state.offline_tokens(None, 1).unwrap()[0].failures.count
}

fn text(rig: &Rig) -> String {
    rig.events.lock().unwrap().pop().unwrap().text
}

#[test]
fn the_next_codes_let_in_without_the_server_and_once_each() {
    let rig = holding([rejected(), rejected()]);
    assert_eq!(rig.login("carla", &typed(1)), granted("carla"));
    assert_eq!(text(&rig), "granted offline, token PI1, 19 offline logins left");
    assert_eq!(rig.login("carla", &typed(4)), granted("carla"));
    for used in [1, 3] {
        assert_eq!(rig.login("carla", &typed(used)), Verdict::Refused, "{used}");
    }
    assert_eq!(rig.login("carla", &typed(5)), granted("carla"));
    assert_eq!(left(&rig), [15]);
    assert_eq!(rig.state.offline_tokens(None, 1).unwrap()[0].last_used, Some(NOW));
}

#[test]
fn values_are_bound_to_their_user_pin_and_window() {
    let rig = holding([away(), away(), away(), away()]);
    for wrong in [code(1), format!("Pin{}", code(1)), typed(11)] {
        rig.clock.set(rig.clock.now() + 61);
        assert_eq!(rig.login("carla", &wrong), Verdict::Refused, "{wrong}");
        assert_eq!(rig.numbers(), [52]);
    }
    let other = Login { uid: Some(5000), ..login("sssd-user") };
    let verdict = run(&other, &rig.host(), &mut Script::answers([typed(1).as_str()]));
    assert_eq!(verdict, Verdict::Unavailable, "has none, so nobody can say");
    rig.clock.set(rig.clock.now() + 61);
    assert_eq!(rig.login("carla", &typed(10)), granted("carla"));
}

#[test]
fn a_miss_decides_where_the_server_cannot_and_not_where_it_can() {
    for outage in [
        Failure::Unreachable("no route".into()),
        Failure::Unable("907".into()),
        Failure::Rubbish("HTML".into()),
    ] {
        let rig = holding([Err(outage)]);
        assert_eq!(rig.login("carla", "pin000000"), Verdict::Refused);
        assert_eq!((rig.numbers(), failures(&rig)), (vec![52], 1));
    }
    let rig = holding([Err(Failure::Untrusted("unknown issuer".into()))]);
    assert_eq!(rig.login("carla", "pin000000"), Verdict::Untrusted);
    let rig = holding([rejected(), accepted(vec![batch(30..=49)])]);
    assert_eq!(rig.login("carla", "pin000000"), Verdict::Refused);
    assert_eq!((rig.numbers(), failures(&rig)), (vec![18], 1));
    assert_eq!(rig.login("carla", &typed(29)), granted("carla"));
    assert_eq!((rig.numbers(), left(&rig), failures(&rig)), (vec![2], vec![20], 0));
    assert_eq!(rig.login("carla", &typed(30)), granted("carla"));
}

#[test]
fn another_token_that_the_server_accepts_costs_no_failure() {
    let other = Ok(Answer::Accepted(Accepted { serial: Some("PI2".into()), ..Accepted::default() }));
    let rig = holding([rejected(), other]);
    assert_eq!(rig.login("carla", "pin000000"), Verdict::Refused);
    assert_eq!(rig.login("carla", "other654321"), granted("carla"));
    assert_eq!((left(&rig), failures(&rig)), (vec![20], 1));
}

#[test]
fn ten_failures_lock_offline_values_as_they_lock_tokens() {
    let rig = holding((0..10).map(|_| away()));
    for _ in 0..10 {
        rig.clock.set(rig.clock.now() + 61);
        assert_eq!(rig.login("carla", "pin000000"), Verdict::Refused);
    }
    rig.clock.set(rig.clock.now() + 61);
    assert_eq!(rig.login("carla", &typed(1)), Verdict::Locked, "the right one too, and it is not used up");
    assert_eq!(rig.account(&login("carla")), Verdict::Locked);
    let console =
        Login { service: "login".into(), tty: "tty1".into(), rhost: String::new(), ..login("carla") };
    assert_eq!(run(&console, &rig.host(), &mut Script::answers([typed(1).as_str()])), granted("carla"));
    assert_eq!(failures(&rig), 0);
}

#[test]
fn a_lock_ends_after_its_time_also_if_the_clock_was_set_back() {
    let rig = holding((0..10).map(|_| away()));
    for _ in 0..10 {
        rig.clock.set(rig.clock.now() + 61);
        rig.login("carla", "pin000000");
    }
    rig.clock.set(NOW - DAY);
    assert_eq!(rig.account(&login("carla")), Verdict::Locked);
    assert_eq!(rig.login("carla", &typed(1)), Verdict::Locked, "throttled, for a minute from now");
    rig.clock.set(NOW - DAY + 1800);
    assert_eq!(rig.login("carla", &typed(1)), granted("carla"));
}

#[test]
fn an_open_local_token_keeps_a_user_with_locked_values_in() {
    let rig = holding([rejected()]);
    rig.token(hotp_token("HOTP0001", "carla"));
    rig.state
        .change(|transaction| {
            let mut token = transaction.offline_token("PI1")?.unwrap();
            token.failures.count = 10;
            token.failures.last = Some(NOW);
            transaction.put_offline(&token)
        })
        .unwrap();
    assert_eq!(rig.login("carla", &typed(1)), Verdict::Refused);
    assert_eq!(rig.login("carla", &code(0)), granted("carla"));
}

#[test]
fn guesses_are_slowed_down_and_an_outage_excuses_none() {
    let rig = holding((0..4).map(|_| away()));
    for _ in 0..4 {
        assert_eq!(rig.login("carla", "pin000000"), Verdict::Refused);
    }
    assert_eq!(rig.login("carla", &typed(1)), Verdict::Locked, "not looked at");
    assert_eq!(rig.numbers().last(), Some(&17));
    rig.clock.set(NOW + 2);
    assert_eq!(rig.login("carla", &typed(1)), granted("carla"));
    assert_eq!(failures(&rig), 0);
}

#[test]
fn what_is_no_code_is_no_guess() {
    let rig = holding([away(), away()]);
    assert_eq!(rig.login("carla", "pin"), Verdict::Unavailable);
    let earlier = Login { password: Some("a system password".into()), may_ask: false, ..login("carla") };
    assert_eq!(run(&earlier, &rig.host(), &mut Script::answers([])), Verdict::Unavailable);
    assert_eq!(failures(&rig), 0);
}

#[test]
fn a_login_by_an_offline_value_takes_back_what_it_cost_local_tokens() {
    let rig = holding([]);
    rig.token(hotp_token("HOTP0001", "carla"));
    assert_eq!(rig.login("carla", &typed(1)), granted("carla"));
    assert_eq!(rig.stored("HOTP0001").failcount, 0);
}

#[test]
fn a_success_resets_all_of_the_users_tokens_where_the_settings_say_so() {
    for all in [false, true] {
        let mut rig = holding([]);
        rig.settings.lockout.reset_all_user_tokens = all;
        rig.token(Token { failcount: 4, last_failure: Some(NOW), ..hotp_token("HOTP0001", "carla") });
        assert_eq!(rig.login("carla", &typed(1)), granted("carla"));
        assert_eq!(rig.stored("HOTP0001").failcount, if all { 0 } else { 4 });
        rig.state
            .change(|transaction| {
                let mut token = transaction.offline_token("PI1")?.unwrap();
                token.failures = crate::tokens::Failures { count: 5, last: Some(NOW) };
                transaction.put_offline(&token)
            })
            .unwrap();
        assert_eq!(rig.login("carla", &code(0)), granted("carla"));
        assert_eq!(failures(&rig), if all { 0 } else { 5 });
    }
}

#[test]
fn old_values_are_good_no_longer() {
    let mut rig = holding([away()]);
    rig.settings.offline.maximum_age = Duration::from_secs(30 * DAY);
    rig.clock.set(NOW + 30 * DAY);
    assert_eq!(rig.login("carla", &typed(1)), granted("carla"));
    rig.clock.set(NOW + 30 * DAY + 1);
    assert_eq!(rig.login("carla", &typed(2)), Verdict::Unavailable);
}

#[test]
fn no_room_for_a_failure_is_no_room_for_a_success() {
    let rig = holding([]);
    rig.state.refuse_to_grow();
    assert_eq!(rig.login("carla", &typed(1)), Verdict::Failed);
    assert_eq!(rig.login("carla", "pin000000"), Verdict::Failed);
}

/// Hears everything; types one answer.
struct Listener(String, Vec<String>);

impl Conversation for Listener {
    fn ask(&mut self, _text: &str, _echo: bool) -> Result<Secret, ConversationEnded> {
        Ok(Secret::from(self.0.as_str()))
    }

    fn tell(&mut self, text: &str, error: bool) -> Result<(), ConversationEnded> {
        assert!(!error);
        self.1.push(text.to_owned());
        Err(ConversationEnded)
    }

    fn pause(&mut self, _time: std::time::Duration) -> Result<(), ConversationEnded> {
        unreachable!("nothing is waited for")
    }

    fn export(&mut self, _name: &str, _value: &str) -> Result<(), ConversationEnded> {
        unreachable!("there are no attributes")
    }
}

#[test]
fn few_values_left_are_told_to_who_has_been_let_in() {
    let mut rig = holding([]);
    rig.settings.offline.window = 20;
    let heard = |rig: &Rig, counter| {
        let mut listener = Listener(typed(counter), Vec::new());
        assert_eq!(run(&login("carla"), &rig.host(), &mut listener), granted("carla"));
        listener.1
    };
    assert_eq!(
        heard(&rig, 1),
        ["19 offline logins left; connect to the company network to get more."],
        "also where nobody listens any more"
    );
    assert_eq!(heard(&rig, 19), ["1 offline login left; connect to the company network to get more."]);
    rig.settings.offline.warn_below = 0;
    assert!(heard(&rig, 20).is_empty());
    assert!(offline::reminder(0, 1).is_some_and(|text| text.starts_with("No offline logins left")));
    assert_eq!(offline::reminder(20, 20), None);
}

/// Remembers for whom new values are wanted.
#[derive(Default)]
struct Wanted(Mutex<Vec<(String, String)>>);

impl Refills for Wanted {
    fn want(&self, serial: &str, password: &Secret) {
        let password = String::from_utf8(password.expose().to_vec()).unwrap();
        self.0.lock().unwrap().push((serial.to_owned(), password));
    }
}

#[test]
fn new_values_are_wanted_below_the_threshold_with_what_was_typed() {
    let mut rig = holding([rejected()]);
    let wanted = Wanted::default();
    let log_in = |rig: &Rig, typed: &str| {
        let host = Host { refills: Some(&wanted), ..rig.host() };
        run(&login("carla"), &host, &mut Script::answers([typed]));
        std::mem::take(&mut *wanted.0.lock().unwrap())
    };
    rig.settings.offline.refill_below = 19;
    assert!(log_in(&rig, &typed(1)).is_empty());
    assert_eq!(log_in(&rig, &typed(2)), [("PI1".to_owned(), typed(2))]);
    assert!(log_in(&rig, "pin000000").is_empty());
}

#[test]
fn of_two_logins_with_one_value_at_once_one_is_granted() {
    for counter in 1..=5 {
        let rig = holding([rejected()]);
        let barrier = std::sync::Barrier::new(2);
        let verdicts = std::thread::scope(|scope| {
            [0, 1]
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        rig.login("carla", &typed(counter))
                    })
                })
                .map(|login| login.join().unwrap())
        });
        let count = verdicts.iter().filter(|verdict| **verdict == granted("carla")).count();
        assert_eq!(count, 1, "{verdicts:?}");
        // If they did not meet in the transaction, the server was asked about the second.
        rig.server.as_ref().unwrap().answers.lock().unwrap().clear();
    }
}

#[test]
fn a_value_that_is_gone_since_it_was_compared_is_no_login() {
    let rig = holding([]);
    let login = login("carla");
    let host = rig.host();
    let subject = Subject::of(&login, &host).unwrap();
    let token = rig.state.offline_tokens(None, 10).unwrap().pop().unwrap();
    let used =
        rig.state.change(|transaction| transaction.use_offline_value("PI1", &token.values[1])).unwrap();
    assert!(used);
    for index in [0, 1] {
        let refused = offline::decide_for_test(&subject, &host, ("PI1", &token.values[index]));
        assert!(refused, "value {index}");
    }
    assert_eq!(failures(&rig), 2, "counted, as any used code");
}
