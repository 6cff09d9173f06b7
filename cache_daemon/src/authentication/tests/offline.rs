//! Logins by values that the server has handed out.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::offline;
use super::*;
use crate::server::{OfflineBatch, RefillToken};
use crate::tokens::offline_hash;

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
fn a_host_that_is_not_told_to_keeps_and_uses_nothing() {
    let mut rig =
        Rig::with_server([accepted(vec![batch(1..=20)]), accepted(vec![batch(1..=20)]), rejected()]);
    assert_eq!(rig.login("carla", &typed(0)), granted("carla"));
    assert!(text(&rig).contains("offline values not kept: [offline] enabled is false"));
    assert!(left(&rig).is_empty());
    rig.settings.offline.enabled = true;
    assert_eq!(rig.login("carla", &typed(0)), granted("carla"));
    assert_eq!(text(&rig), "granted by the server, token PI1 (20 offline values kept)");
    rig.settings.offline.enabled = false;
    assert_eq!(rig.login("carla", &typed(1)), Verdict::Refused);
}

#[test]
fn a_batch_of_somebody_or_something_else_is_dropped() {
    let other_serial = OfflineBatch { serial: "PI2".into(), ..batch(1..=20) };
    let other_user = OfflineBatch { user: Some("Carla".into()), ..batch(1..=20) };
    let of_nobody = OfflineBatch { user: None, ..batch(1..=20) };
    let mut absurd = batch(1..=20);
    let slow = absurd.values[&7].replace("$2$", "$100001$");
    absurd.values.insert(7, slow);
    for (dropped, why) in [
        (other_serial, "they are of token PI2"),
        (other_user, "they are of another user"),
        (of_nobody, "they are of another user"),
        (absurd, "has not 1 to 100000 rounds"),
    ] {
        let rig = rig([accepted(vec![dropped])]);
        assert_eq!(rig.login("carla", &typed(0)), granted("carla"), "the login itself stands");
        let text = text(&rig);
        assert!(text.contains("offline values not kept") && text.contains(why), "{text}");
        assert!(left(&rig).is_empty());
    }
}

#[test]
fn a_token_that_the_server_takes_without_values_has_none_here_either() {
    let rig = holding([accepted(Vec::new())]);
    assert_eq!(rig.login("carla", &typed(30)), granted("carla"));
    assert!(text(&rig).ends_with("(its former offline values are removed)"));
    assert!(left(&rig).is_empty());
}

#[test]
fn a_token_that_has_another_user_now_is_no_longer_the_former_ones() {
    for offline in [Vec::new(), vec![OfflineBatch { user: Some("sssd-user".into()), ..batch(30..=49) }]] {
        let rig = holding([accepted(offline), rejected()]);
        let other = Login { uid: Some(5000), ..login("sssd-user") };
        let typed_by_other = typed(29);
        let verdict = run(&other, &rig.host(), &mut Script::answers([typed_by_other.as_str()]));
        assert_eq!(verdict, granted("sssd-user"));
        assert_eq!(rig.login("carla", &typed(1)), Verdict::Refused);
    }
}

#[test]
fn values_are_good_in_the_realm_and_of_the_server_that_they_came_from() {
    let mut rig = holding([rejected(), rejected(), away()]);
    let admins = "[[realm-rule]]\nservice = 'sudo'\nrealm = 'admins'";
    rig.settings.realm_rules = Settings::parse(admins).unwrap().realm_rules;
    let log_in = |rig: &Rig, login: Login, counter| {
        run(&login, &rig.host(), &mut Script::answers([typed(counter).as_str()]))
    };
    let sudo = || Login { service: "sudo".into(), ..login("carla") };
    assert_eq!(log_in(&rig, sudo(), 1), Verdict::Refused, "another person, perhaps");
    let overrides = Overrides { realm: Some("staff".into()), ..Overrides::default() };
    assert_eq!(log_in(&rig, Login { overrides, ..login("carla") }, 1), Verdict::Refused);
    rig.line_server = Some(server_settings());
    assert_eq!(log_in(&rig, login("carla"), 1), Verdict::Unavailable, "another server");
    rig.line_server = None;
    assert_eq!(log_in(&rig, login("carla"), 1), granted("carla"));
}

#[test]
fn a_server_that_only_a_pam_line_names_changes_nothing_here() {
    let mut rig = holding([accepted(vec![batch(1..=5)])]);
    rig.line_server = Some(server_settings());
    assert_eq!(rig.login("carla", &typed(30)), granted("carla"));
    assert!(text(&rig).contains("only the PAM line names their server"));
    assert_eq!(left(&rig), [20], "its serials are other tokens");
}

#[test]
fn a_name_with_its_realm_has_values_of_its_own() {
    let of_alice = OfflineBatch { user: Some("alice".into()), ..batch(1..=20) };
    let mut rig = rig([accepted(vec![of_alice])]);
    rig.settings.identity.split_at_sign = true;
    let alice = || Login { uid: Some(5000), ..login("alice@staff") };
    for counter in [0, 1] {
        let verdict = run(&alice(), &rig.host(), &mut Script::answers([typed(counter).as_str()]));
        assert_eq!(verdict, granted("alice@staff"));
    }
    assert_eq!(left(&rig), [19]);
}

#[test]
fn root_strangers_and_accounts_of_the_host_have_no_offline_logins() {
    let rig = holding([]);
    for user in ["root", "lena", "nobody"] {
        let mine = OfflineBatch { user: Some(user.into()), ..batch(1..=20) };
        let accepted = Accepted { serial: Some("PI1".into()), offline: vec![mine], ..Accepted::default() };
        let login = login(user);
        let host = rig.host();
        let subject = Subject::of(&login, &host).unwrap();
        offline::keep(&subject, &host, &accepted, offline::Typed::Password);
        assert!(!matches!(rig.login(user, &typed(1)), Verdict::Granted { .. }), "{user}");
    }
}

#[test]
fn values_of_the_code_alone_count_only_after_a_first_factor() {
    let alone = OfflineBatch { values: values(1..=20, code), ..batch(1..=20) };
    let accepted = Accepted { serial: Some("PI1".into()), offline: vec![alone], ..Accepted::default() };
    let mut rig = rig([away(), rejected()]);
    let sudo = Login { service: "sudo".into(), ..login("carla") };
    let keep = |rig: &Rig, login: &Login| {
        let host = rig.host();
        let subject = Subject::of(login, &host).unwrap();
        offline::keep(&subject, &host, &accepted, offline::Typed::CodeAlone).unwrap()
    };
    assert!(keep(&rig, &sudo).contains("without its PIN"));
    assert!(left(&rig).is_empty(), "dropped where nothing says that a password was checked");
    rig.settings.offline.second_factor_services = vec!["sudo".into()];
    assert!(keep(&rig, &login("carla")).contains("without its PIN"), "sshd is another service");
    assert_eq!(keep(&rig, &sudo), "20 offline values kept");
    assert_eq!(rig.login("carla", &code(1)), Verdict::Unavailable, "no credential for sshd");
    assert_eq!(run(&sudo, &rig.host(), &mut Script::answers([code(1).as_str()])), granted("carla"));
    rig.trusted_terminal = false;
    let verdict = run(&sudo, &rig.host(), &mut Script::answers([code(2).as_str()]));
    assert_eq!(verdict, Verdict::Refused, "who is not root could say sudo");
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
