//! Challenges: what is asked, what is sent, and how it ends.

use std::time::Duration;

use privacyidea_contract::wire::FirstStep;

use super::*;

type Answers = Vec<Result<Answer, Failure>>;

fn one(mode: Mode) -> Challenge {
    Challenge { kind: "token".into(), mode, message: String::new(), serial: None, presence: None, link: None }
}

fn challenged(transaction: &str, message: &str, modes: &[Mode]) -> Challenged {
    Challenged {
        transaction: TransactionId::new(transaction).unwrap(),
        message: message.into(),
        challenges: modes.iter().map(|mode| one(*mode)).collect(),
        enrolment: Enrolment::No,
    }
}

fn wants(challenged: Challenged) -> Result<Answer, Failure> {
    Ok(Answer::Challenged(challenged))
}

fn code_wanted(transaction: &str) -> Result<Answer, Failure> {
    wants(challenged(transaction, "please enter otp:", &[Mode::Interactive]))
}

fn yes() -> Result<Answer, Failure> {
    Ok(Answer::Accepted(Accepted { serial: Some("PI1".into()), ..Accepted::default() }))
}

fn no() -> Result<Answer, Failure> {
    Ok(Answer::Rejected { reason: "wrong".into() })
}

struct Ended {
    verdict: Verdict,
    prompts: Vec<String>,
    told: Vec<String>,
    sent: Vec<String>,
    paused: Duration,
    number: u16,
}

/// carla types `typed`, prompt by prompt, and the server answers.
fn log_in_as<const N: usize>(
    login: &Login,
    change: impl FnOnce(&mut Rig),
    answers: Answers,
    polls: impl IntoIterator<Item = Result<Poll, Failure>>,
    typed: [&str; N],
) -> Ended {
    let mut rig = Rig::with_server(answers);
    rig.server.as_mut().unwrap().polls = Mutex::new(polls.into_iter().collect());
    change(&mut rig);
    let mut script = Script::answers(typed);
    let verdict = run(login, &rig.host(), &mut script);
    let sent = std::mem::take(&mut *rig.server.as_ref().unwrap().sent.lock().unwrap());
    Ended {
        verdict,
        prompts: std::mem::take(&mut script.prompts),
        told: std::mem::take(&mut script.told),
        sent,
        paused: script.paused,
        number: rig.numbers().pop().unwrap(),
    }
}

fn log_in<const N: usize>(
    answers: Answers,
    polls: impl IntoIterator<Item = Result<Poll, Failure>>,
    typed: [&str; N],
) -> Ended {
    log_in_as(&login("carla"), |_| {}, answers, polls, typed)
}

fn pending(times: usize) -> impl Iterator<Item = Result<Poll, Failure>> {
    std::iter::repeat_n(Ok(Poll::Pending), times)
}

#[test]
fn the_servers_question_is_asked_and_the_code_alone_goes_back_in_the_transaction() {
    let ended = log_in(vec![code_wanted("77"), yes()], [], ["pin", "123456"]);
    assert_eq!(ended.verdict, granted("carla"));
    assert_eq!(ended.prompts[1], "please enter otp: ");
    assert_eq!(ended.sent, ["pin", "123456 in 77"]);
}

#[test]
fn one_challenge_may_follow_another_within_limits() {
    let ended = log_in(vec![code_wanted("1"), code_wanted("2"), yes()], [], ["pin", "111111", "222222"]);
    assert_eq!(ended.verdict, granted("carla"));
    assert_eq!(ended.sent, ["pin", "111111 in 1", "222222 in 2"]);
    let without_end = (0..6).map(|_| code_wanted("1")).collect();
    let ended = log_in(without_end, [], ["pin", "1", "2", "3", "4", "5"]);
    assert_eq!((ended.verdict, ended.number), (Verdict::Refused, 25));
}

#[test]
fn a_wrong_code_may_be_repeated_twice() {
    let ended = log_in(vec![code_wanted("1"), no(), no(), yes()], [], ["pin", "1", "2", "3"]);
    assert_eq!(ended.verdict, granted("carla"));
    let ended = log_in(vec![code_wanted("1"), no(), no(), no()], [], ["pin", "1", "2", "3"]);
    assert_eq!((ended.verdict, ended.number), (Verdict::Refused, 22));
    let ended = log_in(vec![code_wanted("1")], [], ["pin", "", "", ""]);
    assert_eq!((ended.verdict, ended.sent.len()), (Verdict::Refused, 1), "an empty answer is not sent");
}

#[test]
fn wrong_codes_slow_the_next_login_down_and_a_right_one_ends_that() {
    let rig = Rig::with_server([code_wanted("1"), no(), no(), no()]);
    run(&login("carla"), &rig.host(), &mut Script::answers(["pin", "1", "2", "3"]));
    assert_eq!(rig.login("carla", "pin"), Verdict::Locked);
    let rig = Rig::with_server([code_wanted("1"), no(), no(), yes(), no()]);
    let verdict = run(&login("carla"), &rig.host(), &mut Script::answers(["pin", "1", "2", "3"]));
    assert_eq!(verdict, granted("carla"));
    assert_eq!(rig.login("carla", "pin"), Verdict::Refused, "looked at");
}

#[test]
fn who_goes_away_sends_nothing_more() {
    let ended = log_in(vec![code_wanted("1")], [], ["pin"]);
    assert_eq!((ended.verdict, ended.number, ended.sent.len()), (Verdict::NoAnswer, 50, 1));
}

#[test]
fn a_confirmation_elsewhere_is_waited_for_after_enter_and_finished_by_a_check() {
    let push = || wants(challenged("9", "Please confirm on your phone!", &[Mode::Poll]));
    let polls = pending(3).chain([Ok(Poll::Accepted)]);
    let ended = log_in(vec![push(), yes()], polls, ["pin", ""]);
    assert_eq!(ended.verdict, granted("carla"));
    assert_eq!(ended.prompts[1], "Please confirm on your phone, then press Enter: ");
    assert_eq!(ended.sent, ["pin", " in 9"]);
    assert_eq!(ended.paused, Duration::from_millis(500 + 750 + 1125));
    // Who has confirmed before Enter waits for nothing; that it is confirmed is no login yet.
    let ended =
        log_in(vec![push(), no(), no(), no()], (0..3).map(|_| Ok(Poll::Accepted)), ["pin", "", "", ""]);
    assert_eq!((ended.verdict, ended.paused), (Verdict::Refused, Duration::ZERO));
}

#[test]
fn a_login_that_is_declined_elsewhere_ends_at_once() {
    for (poll, number) in [(Poll::Declined, 23), (Poll::Cancelled, 23)] {
        let push = wants(challenged("9", "", &[Mode::Poll]));
        let ended = log_in(vec![push], [Ok(poll)], ["pin", ""]);
        assert_eq!((ended.verdict, ended.number), (Verdict::Refused, number));
        assert_eq!(ended.prompts[1], "Confirm the login on your phone, then press Enter: ");
    }
}

#[test]
fn a_confirmation_that_does_not_come_is_waited_for_as_long_as_is_set() {
    let push = || wants(challenged("9", "", &[Mode::Poll]));
    let within = |rig: &mut Rig| rig.settings.challenge.push_wait = Duration::from_secs(5);
    // 0, 0.5, 1.25, 2.375, 3.875 and 5.375 s.
    let ended = log_in_as(&login("carla"), within, vec![push()], pending(6), ["pin", ""]);
    assert_eq!((ended.verdict, ended.number), (Verdict::Refused, 24));
    let mut of_the_line = login("carla");
    of_the_line.overrides.poll_time = Some(1);
    let ended = log_in_as(&of_the_line, |_| {}, vec![push()], pending(3), ["pin", ""]);
    assert_eq!((ended.verdict, ended.number), (Verdict::Refused, 24));
}

#[test]
fn a_code_may_be_typed_instead_of_a_confirmation() {
    let both = || wants(challenged("9", "confirm", &[Mode::Poll, Mode::Interactive]));
    let ended = log_in(vec![both(), yes()], [], ["pin", "123456"]);
    assert_eq!(ended.verdict, granted("carla"));
    assert_eq!(ended.prompts[1], "confirm, then press Enter, or type a code: ");
    assert_eq!(ended.sent, ["pin", "123456 in 9"]);
    // After 20 seconds without a confirmation the code is asked for again.
    let ended = log_in(vec![both(), yes()], pending(16), ["pin", "", "123456"]);
    assert_eq!(ended.verdict, granted("carla"));
    assert_eq!(ended.prompts[2], "Not confirmed yet. Press Enter to wait on, or type a code: ");
}

#[test]
fn what_the_phone_asks_to_press_and_what_an_app_has_to_scan_is_shown() {
    let presence = Challenge { presence: Some("X".into()), ..one(Mode::Poll) };
    let push =
        |message: &str| Challenged { challenges: vec![presence.clone()], ..challenged("9", message, &[]) };
    let ended = log_in(vec![wants(push("confirm"))], [Ok(Poll::Declined)], ["pin", ""]);
    assert_eq!(ended.prompts[1], "confirm (press X), then press Enter: ");
    let ended = log_in(vec![wants(push("confirm! Please press: X"))], [Ok(Poll::Declined)], ["pin", ""]);
    assert_eq!(ended.prompts[1], "confirm! Please press: X, then press Enter: ");

    let link = "otpauth://hotp/OATH1?secret=GEZDGNBVGY3TQOJQ&counter=1";
    let scan = Challenge { link: Some(link.into()), ..one(Mode::Interactive) };
    let enrol =
        Challenged { challenges: vec![scan], enrolment: Enrolment::Required, ..challenged("9", "", &[]) };
    let ended = log_in(vec![wants(enrol.clone()), yes()], [], ["pin", "123456"]);
    assert_eq!(ended.verdict, granted("carla"));
    assert!(ended.told[0].ends_with(&format!("\n{link}")) && ended.told[0].contains('\u{2588}'));

    let optional = Challenged { enrolment: Enrolment::Optional, ..enrol };
    let ended = log_in(vec![wants(optional), yes()], [], ["pin", ""]);
    assert_eq!(ended.verdict, granted("carla"));
    assert_eq!((ended.prompts[1].as_str(), &*ended.sent[1]), ("Code (Enter: not now): ", "declined in 9"));
}

#[test]
fn where_nobody_can_be_asked_a_challenge_is_a_refusal() {
    let silent = Login { password: Some(Secret::from("pin")), may_ask: false, ..login("carla") };
    let ended = log_in_as(&silent, |_| {}, vec![code_wanted("1")], [], []);
    assert_eq!((ended.verdict, ended.number), (Verdict::Refused, 20));
    let never = |rig: &mut Rig| rig.settings = settings_of("[challenge]\nnever-in = [\"ssh*\"]\n", rig);
    let ended = log_in_as(&login("carla"), never, vec![code_wanted("1")], [], ["pin"]);
    assert_eq!((ended.verdict, ended.number), (Verdict::Refused, 20));
}

fn settings_of(text: &str, rig: &Rig) -> Settings {
    Settings { server: rig.settings.server.clone(), ..Settings::parse(text).unwrap() }
}

#[test]
fn after_a_challenge_nothing_else_is_asked() {
    let first = Login { password: Some(Secret::from("pin")), ..login("carla") };
    let push = wants(challenged("9", "", &[Mode::Poll]));
    let ended = log_in_as(&first, |_| {}, vec![push], [Ok(Poll::Declined)], [""]);
    assert_eq!((ended.verdict, ended.prompts.len()), (Verdict::Refused, 1));
}

#[test]
fn a_server_that_goes_away_in_the_middle_is_an_outage() {
    let away = || Failure::Unreachable("no route".into());
    let ended = log_in(vec![code_wanted("1"), Err(away())], [], ["pin", "123456"]);
    assert_eq!(ended.verdict, Verdict::Unavailable);
    let push = || wants(challenged("9", "", &[Mode::Poll]));
    let ended = log_in(vec![push()], (0..3).map(|_| Err(away())), ["pin", ""]);
    assert_eq!(ended.verdict, Verdict::Unavailable);
    let lost = [Err(away()), Err(away()), Ok(Poll::Pending), Err(away()), Ok(Poll::Accepted)];
    let ended = log_in(vec![push(), yes()], lost, ["pin", ""]);
    assert_eq!(ended.verdict, granted("carla"), "one question that got lost is no outage");
}

fn begin(rig: &mut Rig) {
    rig.settings.challenge.begin_at_server = true;
}

#[test]
fn the_server_may_begin_with_its_challenges() {
    let push = || wants(challenged("9", "confirm", &[Mode::Poll]));
    let ended = log_in_as(&login("carla"), begin, vec![push(), yes()], [Ok(Poll::Accepted)], [""]);
    assert_eq!((ended.verdict, ended.sent), (granted("carla"), vec![String::new(), " in 9".to_owned()]));
    let mut of_the_line = login("carla");
    of_the_line.overrides.first_step = Some(FirstStep::EmptyPassword);
    let ended = log_in_as(&of_the_line, |_| {}, vec![code_wanted("1"), yes()], [], ["123456"]);
    assert_eq!((ended.verdict, ended.prompts.len()), (granted("carla"), 1));
    // A server without a challenge: as ever, and nothing was held against anybody.
    for first in [no(), Ok(Answer::UnknownUser), Err(Failure::Unreachable("no route".into()))] {
        let ended = log_in_as(&login("carla"), begin, vec![first, yes()], [], ["pin123456"]);
        assert_eq!((ended.verdict, ended.sent.len()), (granted("carla"), 2));
    }
    let ended = log_in_as(&login("carla"), begin, vec![yes()], [], []);
    assert_eq!(ended.verdict, granted("carla"), "a token without a PIN");
}

#[test]
fn a_name_alone_does_not_ring_the_telephone_all_night() {
    let push = || wants(challenged("9", "", &[Mode::Poll]));
    let mut rig = Rig::with_server((0..4).map(|_| push()));
    rig.server.as_mut().unwrap().polls = Mutex::new((0..4).map(|_| Ok(Poll::Declined)).collect());
    begin(&mut rig);
    for _ in 0..4 {
        assert_eq!(rig.login("carla", ""), Verdict::Refused);
    }
    assert_eq!(rig.login("carla", "123456"), Verdict::Locked, "asked for a code, and not looked at");
}

#[test]
fn nobody_begins_at_the_server_who_is_never_asked_of_it_or_has_a_token_here() {
    let mut rig = Rig::with_server([]);
    begin(&mut rig);
    rig.token(hotp_token("HOTP0001", "carla"));
    assert_eq!(rig.login("carla", &code(0)), granted("carla"));
    assert_eq!(rig.login("root", "000000"), Verdict::Refused);
    assert_eq!(rig.login("nobody", "000000"), Verdict::UnknownUser);
}
