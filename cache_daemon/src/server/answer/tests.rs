//! Answers as privacyIDEA 3.14 gives them, cut to what is read, and answers that nobody should give.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::server::{Challenge, Enrolment, Mode, TransactionId};

fn check_as(user: &str, status: u16, body: &Value) -> Result<Answer, Failure> {
    let body = body.to_string();
    read_check(user, &Reply { status, content_type: "application/json", body: body.as_bytes() })
}

fn check(status: u16, body: &Value) -> Result<Answer, Failure> {
    check_as("carla", status, body)
}

/// An answer in the usual frame.
fn result(result: &Value, detail: &Value) -> Value {
    json!({"id": 2, "jsonrpc": "2.0", "result": result, "detail": detail, "time": 1.5, "version": "privacyIDEA 3.14"})
}

fn error(code: i64, message: &str) -> Value {
    result(&json!({"status": false, "error": {"code": code, "message": message}}), &Value::Null)
}

fn rejected(reason: &str) -> Result<Answer, Failure> {
    Ok(Answer::Rejected { reason: reason.to_owned() })
}

#[test]
fn yes_with_and_without_detail() {
    let yes = json!({"status": true, "value": true, "authentication": "ACCEPT"});
    let accepted = |serial: Option<&str>| {
        Ok(Answer::Accepted(Accepted { serial: serial.map(str::to_owned), ..Accepted::default() }))
    };
    assert_eq!(check(200, &result(&yes, &json!({"serial": "S1", "type": "hotp"}))), accepted(Some("S1")));
    // Policy no_detail_on_success, passthru: nothing or null.
    assert_eq!(check(200, &result(&yes, &Value::Null)), accepted(None));
    let old = json!({"jsonrpc": "2.0", "result": {"status": true, "value": true}});
    assert_eq!(check(200, &old), accepted(None));
}

#[test]
fn a_yes_for_another_name_is_a_no() {
    let yes = json!({"status": true, "value": true, "authentication": "ACCEPT"});
    let confirm = |name: &str| result(&yes, &json!({"user": {"username": name}}));
    let is_accepted = |user, body: &Value| matches!(check_as(user, 200, body), Ok(Answer::Accepted(_)));
    assert!(is_accepted("carla", &confirm("carla")));
    assert!(!is_accepted("Carla", &confirm("carla")));
    assert!(!is_accepted("carla", &result(&yes, &json!({"user": {"username": 7}}))));
    // A user without a name in it confirms nothing and denies nothing.
    assert!(is_accepted("carla", &result(&yes, &json!({"user": {}}))));

    assert!(!is_accepted("carla@users", &result(&yes, &json!({}))), "the server splits this name");
    assert!(!is_accepted("USERS\\carla", &result(&yes, &Value::Null)));
    assert!(!is_accepted("carla@users", &confirm("carla")));
    assert!(is_accepted("carla@example.org", &confirm("carla@example.org")));
}

#[test]
fn no_is_no_whatever_its_reason() {
    let no = json!({"status": true, "value": false, "authentication": "REJECT"});
    assert_eq!(check(200, &result(&no, &json!({"message": "wrong otp pin"}))), rejected("wrong otp pin"));
    assert_eq!(check(200, &result(&no, &Value::Null)), rejected(""));
    let declined = json!({"status": true, "value": false, "authentication": "DECLINED"});
    assert_eq!(check(200, &result(&declined, &json!({"message": 1}))), rejected(""));
    let injected = json!({"message": "no\nDec  1 sshd: Accepted password for root"});
    assert_eq!(check(200, &result(&no, &injected)), rejected("noDec  1 sshd: Accepted password for root"));
}

fn challenge(kind: &str, mode: Mode, message: &str) -> Challenge {
    Challenge {
        kind: kind.to_owned(),
        mode,
        message: message.to_owned(),
        serial: None,
        presence: None,
        link: None,
    }
}

fn challenged(detail: &Value) -> Challenged {
    let no = json!({"status": true, "value": false, "authentication": "CHALLENGE"});
    match check(200, &result(&no, detail)) {
        Ok(Answer::Challenged(challenged)) => challenged,
        other => panic!("{other:?}"),
    }
}

#[test]
fn several_challenges_are_answered_in_one_transaction() {
    let push = json!({"type": "push", "client_mode": "poll", "message": "confirm", "serial": "P1", "presence_answer": "X"});
    let tiqr = json!({"type": "tiqr", "client_mode": "poll", "message": "scan",
                      "attributes": {"value": "tiqrauth://carla@test/1/2/pi"}});
    let hotp = json!({"type": "hotp", "client_mode": "interactive", "message": "otp"});
    let key = json!({"type": "webauthn", "client_mode": "webauthn", "message": "touch"});
    let read = challenged(&json!({"transaction_id": "1", "message": "confirm, otp",
                                  "multi_challenge": [push, tiqr, hotp, key]}));
    let expected = vec![
        Challenge {
            serial: Some("P1".into()),
            presence: Some("X".into()),
            ..challenge("push", Mode::Poll, "confirm")
        },
        Challenge {
            link: Some("tiqrauth://carla@test/1/2/pi".into()),
            ..challenge("tiqr", Mode::Poll, "scan")
        },
        challenge("hotp", Mode::Interactive, "otp"),
        challenge("webauthn", Mode::Other, "touch"),
    ];
    assert_eq!(read.challenges, expected);
    assert!(read.is_interactive() && read.is_polled());
    assert_eq!(read.enrolment, Enrolment::No);
    let thousand = vec![json!({"type": "hotp"}); 1000];
    let read = challenged(&json!({"transaction_id": "1", "multi_challenge": thousand}));
    assert_eq!(read.challenges.len(), 16);
}

#[test]
fn an_enrolment_shows_its_link_and_whether_it_may_be_declined() {
    let link = "otpauth://hotp/OATH1?secret=AAAA&counter=1";
    let one = |link: &str| json!([{"type": "hotp", "client_mode": "interactive", "link": link}]);
    let read = challenged(&json!({"transaction_id": "1", "enroll_via_multichallenge": true,
                                  "multi_challenge": one(link)}));
    assert_eq!((read.enrolment, read.challenges[0].link.as_deref()), (Enrolment::Required, Some(link)));
    let optional = json!({"transaction_id": "1", "enroll_via_multichallenge": true,
                          "enroll_via_multichallenge_optional": true, "multi_challenge": one(link)});
    assert_eq!(challenged(&optional).enrolment, Enrolment::Optional);
    for link in ["no link", "otpauth://\u{1b}[2J", &format!("otpauth://{}", "x".repeat(800))] {
        let read = challenged(&json!({"transaction_id": "1", "multi_challenge": one(link)}));
        assert_eq!(read.challenges[0].link, None, "{link}");
    }
}

fn poll(status: u16, body: &Value) -> Result<Poll, Failure> {
    let body = body.to_string();
    read_poll(&Reply { status, content_type: "application/json", body: body.as_bytes() })
}

#[test]
fn a_poll_tells_yes_no_and_not_yet_apart() {
    let answer = |value: bool, status: &Value| {
        result(
            &json!({"status": true, "value": value, "authentication": "REJECT"}),
            &json!({"challenge_status": status}),
        )
    };
    assert_eq!(poll(200, &answer(true, &json!("accept"))), Ok(Poll::Accepted));
    assert_eq!(poll(200, &answer(true, &Value::Null)), Ok(Poll::Accepted));
    assert_eq!(poll(200, &answer(false, &json!("pending"))), Ok(Poll::Pending));
    assert_eq!(poll(200, &answer(false, &json!("declined"))), Ok(Poll::Declined));
    assert_eq!(poll(200, &answer(false, &json!("cancelled"))), Ok(Poll::Cancelled));
    assert!(matches!(poll(200, &answer(true, &json!("declined"))), Err(Failure::Rubbish(_))));
    assert!(matches!(poll(200, &answer(false, &json!("accept"))), Err(Failure::Rubbish(_))));
    assert!(matches!(poll(500, &answer(true, &json!("accept"))), Err(Failure::Rubbish(_))));
    let number = result(&json!({"status": true, "value": 1}), &Value::Null);
    assert!(matches!(poll(200, &number), Err(Failure::Rubbish(_))));
    assert!(matches!(poll(400, &error(905, "text")), Err(Failure::Unable(_))));
}

#[test]
fn attributes_of_the_user_come_with_a_yes() {
    let yes = json!({"status": true, "value": true, "authentication": "ACCEPT"});
    let user = json!({"username": "carla", "uidNumber": 20000, "mobile": ["+49 1", 2, null], "phone": "",
                      "password": "secret", "gecos": "C\u{1b}[2J", "nested": {"a": 1}});
    let body = result(&yes, &json!({"user": user, "user-realm": "lab", "user-resolver": "ldap"}));
    let Ok(Answer::Accepted(accepted)) = check(200, &body) else { panic!("a yes") };
    let read: Vec<_> =
        accepted.attributes.iter().map(|(name, values)| (name.as_str(), values.join("|"))).collect();
    let expected = [
        ("gecos", "C[2J"),
        ("mobile", "+49 1|2"),
        ("realm", "lab"),
        ("resolver", "ldap"),
        ("uidNumber", "20000"),
        ("username", "carla"),
    ];
    assert_eq!(read, expected.map(|(name, value)| (name, value.to_owned())));
}

fn items(offline: &Value) -> Value {
    let mut body = result(&json!({"status": true, "value": true}), &json!({"serial": "S1"}));
    body["auth_items"] = json!({"offline": offline});
    body
}

#[test]
fn offline_values_come_in_the_order_of_their_counters() {
    let item = json!({"refilltoken": "abc", "serial": "S1", "user": "carla", "username": "carla", "count": "3",
                      "response": {"1": "$h1", "10": "$h10", "2": "$h2", "x": "$no", "3": 7}});
    let Ok(Answer::Accepted(accepted)) = check(200, &items(&json!([item]))) else { panic!("a yes") };
    let [batch] = &accepted.offline[..] else { panic!("{accepted:?}") };
    assert_eq!(
        batch.values.iter().map(|(n, h)| (*n, h.as_str())).collect::<Vec<_>>(),
        [(1, "$h1"), (2, "$h2"), (10, "$h10")]
    );
    assert_eq!(
        (batch.serial.as_str(), batch.user.as_deref(), batch.refill_token.expose()),
        ("S1", Some("carla"), "abc")
    );
    assert!(
        !format!("{accepted:?}").contains("abc") && !format!("{accepted:?}").contains("$h"),
        "{accepted:?}"
    );

    for odd in [
        json!(null),
        json!({}),
        json!("x"),
        json!([7]),
        json!([{"refilltoken": "abc"}]),
        json!([{"refilltoken": "", "response": {"1": "$h"}}]),
        json!([{"refilltoken": "a", "response": {}}]),
        json!([{"refilltoken": "a", "response": {"credentialId": "x"}}]),
    ] {
        let Ok(Answer::Accepted(accepted)) = check(200, &items(&odd)) else { panic!("a yes") };
        assert!(accepted.offline.is_empty(), "{odd}");
    }
}

#[test]
fn a_refill_brings_values_of_its_token_or_ends_them() {
    let refill = |status, body: &Value| {
        let body = body.to_string();
        read_refill("S1", &Reply { status, content_type: "application/json", body: body.as_bytes() })
    };
    let of = |serial: &str| items(&json!([{"refilltoken": "n", "serial": serial, "response": {"6": "$h"}}]));
    assert!(matches!(refill(200, &of("S1")), Ok(Refilled::Batch(batch)) if batch.values.contains_key(&6)));
    assert!(matches!(refill(200, &of("S2")), Err(Failure::Rubbish(_))), "values of another token");
    for (status, code) in [(400, 905), (401, 401), (400, 401), (403, 303), (400, 904)] {
        assert!(matches!(refill(status, &error(code, "text")), Ok(Refilled::Dropped { .. })), "{code}");
    }
    for (status, code) in [(400, 907), (400, 101), (500, -500)] {
        assert!(matches!(refill(status, &error(code, "text")), Err(Failure::Unable(_))), "{code}");
    }
}

#[test]
fn a_challenge_needs_its_transaction() {
    let no = json!({"status": true, "value": false, "authentication": "CHALLENGE"});
    let detail = json!({"transaction_id": "12330632598899142810", "message": "please enter otp: "});
    let challenge = Ok(Answer::Challenged(Challenged {
        transaction: TransactionId::new("12330632598899142810").unwrap(),
        message: "please enter otp:".to_owned(),
        challenges: vec![challenge("", Mode::Interactive, "please enter otp:")],
        enrolment: Enrolment::No,
    }));
    assert_eq!(check(200, &result(&no, &detail)), challenge);
    let old = json!({"status": true, "value": false});
    assert_eq!(check(200, &result(&old, &detail)), challenge);

    // Policy no_detail_on_fail hides it.
    assert_eq!(check(200, &result(&no, &Value::Null)), rejected(""));
    let odd = json!({"transaction_id": "1&pass=x", "message": "otp"});
    assert_eq!(check(200, &result(&no, &odd)), rejected("otp"));
}

#[test]
fn errors_are_verdicts_except_where_the_server_cannot_judge() {
    assert_eq!(check(400, &error(904, "ERR904: User <x@users> does not exist.")), Ok(Answer::UnknownUser));
    for (status, code) in
        [(401, 403), (403, 303), (400, 905), (400, 1007), (400, 401), (404, 601), (200, 905)]
    {
        let reason = format!("text (error {code}, HTTP {status})");
        assert_eq!(check(status, &error(code, "text")), rejected(&reason));
    }
    for (status, code) in
        [(400, 907), (401, 907), (400, 101), (500, -500), (503, 904), (500, 905), (302 + 300, 1)]
    {
        let failure = check(status, &error(code, "text"));
        assert_eq!(failure, Err(Failure::Unable(format!("text (error {code}, HTTP {status})"))));
    }
}

#[test]
fn whatever_is_not_privacyidea_is_rubbish() {
    let yes = json!({"status": true, "value": true, "authentication": "ACCEPT"});
    for (status, body) in [
        (200, json!({})),
        (200, json!([])),
        (200, json!(true)),
        (404, json!({"error": "Not found"})),
        (200, json!({"result": yes})),
        (200, json!({"jsonrpc": "1.0", "result": yes})),
        (201, result(&yes, &Value::Null)),
        (401, result(&yes, &Value::Null)),
        (500, result(&yes, &Value::Null)),
        (302, result(&yes, &Value::Null)),
        (200, result(&json!({"status": true}), &Value::Null)),
        (200, result(&json!({"status": true, "value": 1}), &Value::Null)),
        (200, result(&json!({"status": true, "value": "true"}), &Value::Null)),
        (200, result(&json!({"status": true, "value": [true]}), &Value::Null)),
        (200, result(&json!({"status": 1, "value": true}), &Value::Null)),
        (200, result(&json!({"status": "true", "value": true}), &Value::Null)),
        (200, result(&json!({"status": false, "value": true}), &Value::Null)),
        (200, result(&json!({"value": true}), &Value::Null)),
        (200, result(&json!({"status": true, "value": true, "authentication": "REJECT"}), &Value::Null)),
        (200, result(&json!({"status": true, "value": true, "authentication": "CHALLENGE"}), &Value::Null)),
        (200, result(&json!({"status": true, "value": true, "authentication": true}), &Value::Null)),
        (200, result(&json!({"status": true, "value": false, "authentication": "ACCEPT"}), &Value::Null)),
        (200, result(&json!({"status": true, "value": true, "error": {"code": 1}}), &Value::Null)),
    ] {
        assert!(matches!(check(status, &body), Err(Failure::Rubbish(_))), "{status} {body}");
    }
}

#[test]
fn bytes_that_are_not_one_json_text_are_rubbish() {
    let yes = r#"{"jsonrpc":"2.0","result":{"status":true,"value":true}}"#;
    let twice = r#"{"jsonrpc":"2.0","result":{"status":true,"value":false,"value":true}}"#;
    let two_results =
        r#"{"jsonrpc":"2.0","result":{"status":true,"value":false},"result":{"status":true,"value":true}}"#;
    let read = |content_type, body: &[u8]| read_check("carla", &Reply { status: 200, content_type, body });
    for content_type in ["application/json", "Application/JSON; charset=utf-8"] {
        assert!(matches!(read(content_type, yes.as_bytes()), Ok(Answer::Accepted(_))));
    }
    for content_type in ["text/html", "", "application/jsonp", "text/plain; application/json"] {
        assert!(matches!(read(content_type, yes.as_bytes()), Err(Failure::Rubbish(_))), "{content_type}");
    }
    let cut = &yes.as_bytes()[..yes.len() - 1];
    let followed = format!("{yes}{yes}");
    for body in [cut, followed.as_bytes(), twice.as_bytes(), two_results.as_bytes(), b"", b"\xff\xfe"] {
        assert!(matches!(read("application/json", body), Err(Failure::Rubbish(_))));
    }
    let deep = "[".repeat(100_000);
    assert!(matches!(read("application/json", deep.as_bytes()), Err(Failure::Rubbish(_))));
}

#[test]
fn a_failure_repeats_nothing_that_could_be_a_secret() {
    let body = br#"{"jsonrpc":"2.0","result":{"status":"carla-pin123456"}}"#;
    let reply = Reply { status: 200, content_type: "application/json", body };
    let Err(failure) = read_check("carla", &reply) else { panic!("accepted") };
    assert!(!failure.to_string().contains("123456"), "{failure}");
}

#[test]
fn health_is_privacyideas_form_with_status_200() {
    let read = |status, body: Value| {
        let body = body.to_string();
        read_health(&Reply { status, content_type: "application/json", body: body.as_bytes() })
    };
    let fine = json!({"id": 1, "jsonrpc": "2.0", "result": {"status": true, "value": {"status": "OK"}}, "time": 1.5});
    assert_eq!(read(200, fine.clone()), Ok(()));
    assert!(matches!(read(503, fine), Err(Failure::Unable(_))));
    assert!(matches!(read(500, error(-500, "x")), Err(Failure::Unable(_))));
    assert!(matches!(read(404, json!({"error": "Not found"})), Err(Failure::Rubbish(_))));
    assert!(matches!(read(200, json!({"status": "UP"})), Err(Failure::Rubbish(_))));
}

/// JSON of the right shape with values of any type in every place that is read.
fn any_answer() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        Just(Value::Null),
        Just(json!(1)),
        Just(json!("ACCEPT")),
        Just(json!("REJECT")),
        Just(json!("CHALLENGE")),
        Just(json!("true")),
        Just(json!([true])),
        Just(json!({"code": 904})),
    ];
    prop::collection::vec(scalar, 5).prop_map(|v| {
        json!({
            "jsonrpc": "2.0",
            "result": {"status": v[0], "value": v[1], "authentication": v[2], "error": v[3]},
            "detail": v[4],
        })
    })
}

proptest! {
    #[test]
    fn accepted_means_status_and_value_are_true(status in prop_oneof![Just(200u16), 100u16..600], body in any_answer()) {
        if let Ok(Answer::Accepted(_)) = check(status, &body) {
            prop_assert_eq!(status, 200);
            prop_assert_eq!(&body["result"]["status"], &json!(true));
            prop_assert_eq!(&body["result"]["value"], &json!(true));
            prop_assert!(body["result"]["authentication"].is_null() || body["result"]["authentication"] == "ACCEPT");
        }
    }

    #[test]
    fn no_bytes_panic_or_are_accepted(status: u16, content_type: String, body: Vec<u8>) {
        let answer = read_check("carla", &Reply { status, content_type: &content_type, body: &body });
        let is_accepted = matches!(answer, Ok(Answer::Accepted(_)));
        prop_assert!(!is_accepted);
    }
}
