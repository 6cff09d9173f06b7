//! The client against a real privacyIDEA, which `tests/privacyidea/server` installs and starts.
//!
//! Users and tokens are those of `tests/privacyidea/fill.py`; each test that changes a token has a user of its own.

#[path = "server_support/real.rs"]
mod real;
#[path = "server_support/relay.rs"]
mod relay;
mod server_support;

use std::time::{Duration, Instant};

use cache_daemon::server::{Answer, Check, Client, Failure, Poll, Server, Step};
use privacyidea_contract::Secret;
use real::Real;
use relay::Relay;
use server_support::{accepted_by, check, check_from, client, is_accepted, is_rejected, settings};

fn real_client(real: &Real) -> Client {
    client(real.url(), real.ca_file())
}

fn relay(real: &Real) -> (Relay, Client) {
    let port = real.facts["port"].as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
    let relay = Relay::to(([127, 0, 0, 1], port).into());
    let client = client(&format!("https://127.0.0.1:{}", relay.port), real.ca_file());
    (relay, client)
}

#[test]
fn the_right_password_is_accepted_and_names_its_token() {
    let (real, _use) = Real::shared();
    let client = real_client(real);
    for (user, serial) in
        [("spass", "SPASS0"), ("hotp", "HOTP0"), ("totp", "TOTP0"), ("totp256", "TOTP2560"), ("two", "TWO0")]
    {
        let answer = check(&client, user, &real.password(user));
        assert_eq!(answer, accepted_by(serial), "{user}");
    }
}

#[test]
fn a_one_time_password_is_accepted_once() {
    let (real, _use) = Real::shared();
    let client = real_client(real);
    let password = real.password("replay");
    assert!(is_accepted(&check(&client, "replay", &password)));
    let again = check(&client, "replay", &password);
    assert!(is_rejected(&again), "{again:?}");
    assert!(is_accepted(&check(&client, "replay", &real.password("replay"))));
}

#[test]
fn a_wrong_password_is_rejected_with_the_servers_reason() {
    let (real, _use) = Real::shared();
    let client = real_client(real);
    let right = real.password("wrong");
    let wrong_digit = if right.ends_with('0') { '1' } else { '0' };
    let wrong_otp = format!("{}{wrong_digit}", &right[..right.len() - 1]);
    for password in [wrong_otp.as_str(), "another-pin123456", "wrong-pin", ""] {
        let answer = check(&client, "wrong", password);
        assert!(
            matches!(&answer, Ok(Answer::Rejected { reason }) if reason.starts_with("wrong otp")),
            "{answer:?}"
        );
    }
    // Also puts the server's failcounter back, so that the test can run any number of times.
    assert_eq!(check(&client, "wrong", &right), accepted_by("WRONG0"));
}

#[test]
fn users_and_realms_that_the_server_does_not_have_are_unknown() {
    let (real, _use) = Real::shared();
    assert_eq!(check(&real_client(real), "nobody-here", "x"), Ok(Answer::UnknownUser));
    let mut settings = settings(real.url(), real.ca_file());
    settings.realm = Some("no-such-realm".to_owned());
    assert_eq!(check(&Client::new(&settings, "test"), "carla", "x"), Ok(Answer::UnknownUser));
}

/// Policy hide_specific_error_message, here for clients of 10.66.0.0/16: an unknown user and even a directory that is
/// down are then refusals of one kind. The server leaves nothing to tell them apart by.
#[test]
fn a_server_that_hides_its_reasons_still_says_no() {
    let (real, _use) = Real::shared();
    let mut settings = settings(real.url(), real.ca_file());
    for realm in [None, Some("away".to_owned())] {
        settings.realm = realm;
        let answer = check_from(&Client::new(&settings, "test"), "nobody-here", "x", "10.66.0.1");
        assert!(
            matches!(&answer, Ok(Answer::Rejected { reason }) if reason.contains("error 403")),
            "{answer:?}"
        );
    }
}

#[test]
fn tokens_that_cannot_be_used_are_rejections() {
    let (real, _use) = Real::shared();
    let client = real_client(real);
    for user in ["disabled", "revoked", "expired", "tokenless"] {
        let answer = check(&client, user, real.pin(user));
        assert!(
            matches!(&answer, Ok(Answer::Rejected { reason }) if !reason.is_empty()),
            "{user}: {answer:?}"
        );
    }
    let locked = check(&client, "locked", &real.password("locked"));
    assert!(is_rejected(&locked), "{locked:?}");
}

#[test]
fn every_character_of_a_pin_arrives_as_typed() {
    let (real, _use) = Real::shared();
    let client = real_client(real);
    let pin = real.pin("special");
    assert!(
        pin.contains('%')
            && pin.contains('+')
            && pin.contains('&')
            && pin.contains('ü')
            && pin.ends_with(' ')
    );
    assert_eq!(check(&client, "special", pin), accepted_by("SPECIAL0"));
    assert!(is_rejected(&check(&client, "special", pin.trim_end())));
    assert_eq!(check(&client, "müller", real.pin("müller")), accepted_by("MUELLER0"));
}

#[test]
fn a_challenge_comes_with_its_transaction() {
    let (real, _use) = Real::shared();
    let client = real_client(real);
    let answer = check(&client, "challenge", real.pin("challenge"));
    let Ok(Answer::Challenged(challenged)) = answer else { panic!("{answer:?}") };
    let id = challenged.transaction.as_str();
    assert!(id.len() >= 16 && id.bytes().all(|b| b.is_ascii_digit()), "{id}");
    assert_eq!(challenged.message, "please enter otp:");
    assert_eq!(client.poll(&challenged.transaction), Ok(Poll::Pending));
    let otp = real.password("challenge").split_off(real.pin("challenge").len());
    let check = Check {
        user: "challenge",
        realm: None,
        password: &Secret::from(otp.as_str()),
        step: Step::In(&challenged.transaction),
        rhost: "",
    };
    assert!(is_accepted(&client.check(&check)));
    assert!(is_rejected(&client.check(&check)), "a transaction is good once");
}

/// The realm `caseless` has a directory that finds `carla` when asked for `CARLA`, and says so.
#[test]
fn a_user_that_the_server_accepts_by_another_name_is_rejected() {
    let (real, _use) = Real::shared();
    let mut settings = settings(real.url(), real.ca_file());
    settings.realm = Some("caseless".to_owned());
    let caseless = Client::new(&settings, "test");
    let pin = real.fact("caseless_pin");
    assert!(is_accepted(&check(&caseless, "carla", pin)));
    let answer = check(&caseless, "CARLA", pin);
    assert!(
        matches!(&answer, Ok(Answer::Rejected { reason }) if reason.contains("another name")),
        "{answer:?}"
    );
    let rows = real.audit(100);
    let row = rows.iter().find(|row| row["user"] == "CARLA").expect("a row of the check");
    assert_eq!(row["authentication"], "ACCEPT", "the server itself has accepted");
}

/// The server splits the name and accepts carla, whose name on this host it is not.
#[test]
fn a_name_that_the_server_splits_is_rejected() {
    let (real, _use) = Real::shared();
    let answer = check(&real_client(real), "carla@users", real.pin("carla"));
    assert!(matches!(&answer, Ok(Answer::Rejected { reason }) if reason.contains("split")), "{answer:?}");
    assert_eq!(check(&real_client(real), "carla@example.org", real.pin("carla")), Ok(Answer::UnknownUser));
    let answer = check(&real_client(real), "named", real.pin("named"));
    let Ok(Answer::Accepted(accepted)) = answer else { panic!("{answer:?}") };
    assert_eq!(accepted.serial.as_deref(), Some("NAMED0"));
    assert_eq!(accepted.attributes["givenname"], ["Named"]);
    assert!(!accepted.attributes.contains_key("cryptpass"), "{accepted:?}");
}

#[test]
fn a_directory_that_is_down_is_no_verdict() {
    let (real, _use) = Real::shared();
    let mut settings = settings(real.url(), real.ca_file());
    settings.realm = Some("away".to_owned());
    let answer = check(&Client::new(&settings, "test"), "carla", "x");
    assert!(matches!(&answer, Err(Failure::Unable(why)) if why.contains("907")), "{answer:?}");
}

#[test]
fn the_server_sees_the_persons_address_and_who_asks() {
    let (real, _use) = Real::shared();
    let client = Client::new(&settings(real.url(), real.ca_file()), "audited");
    let seen = |rhost: &str| {
        let answer = check_from(&client, "audited", real.pin("audited"), rhost);
        assert_eq!(answer, accepted_by("AUDITED0"));
        let rows = real.audit(100);
        let row = rows.into_iter().find(|row| row["user"] == "audited").expect("a row of the check");
        assert_eq!(row["user_agent"], "privacyidea-host");
        row["client"].as_str().expect("an address").to_owned()
    };
    assert_eq!(seen("10.9.8.7"), "10.9.8.7");
    // Outside what the server's OverrideAuthorizationClient allows, and not an address: the host itself.
    assert_eq!(seen("192.0.2.1"), "127.0.0.1");
    assert_eq!(seen("client.example.org"), "127.0.0.1");
}

#[test]
fn twenty_checks_take_one_connection() {
    let (real, _use) = Real::shared();
    let (relay, client) = relay(real);
    for _ in 0..20 {
        assert_eq!(check(&client, "carla", real.pin("carla")), accepted_by("CARLA0"));
    }
    client.reachable().expect("reachable");
    assert_eq!(relay.connections(), 1);
}

/// The server closes idle connections after two seconds (gunicorn's default).
#[test]
fn a_connection_that_the_server_closed_while_idle_costs_no_login() {
    let (real, _use) = Real::shared();
    let (relay, client) = relay(real);
    assert_eq!(check(&client, "carla", real.pin("carla")), accepted_by("CARLA0"));
    relay
        .ended_by_server
        .recv_timeout(Duration::from_secs(30))
        .expect("the server closes an idle connection");
    assert_eq!(check(&client, "carla", real.pin("carla")), accepted_by("CARLA0"));
    assert_eq!(relay.connections(), 2);
}

#[test]
fn another_authority_is_untrusted() {
    let (real, _use) = Real::shared();
    let other = client(real.url(), real.fact("other_ca_file").as_ref());
    assert!(matches!(check(&other, "carla", "x"), Err(Failure::Untrusted(_))));
    assert!(matches!(other.reachable(), Err(Failure::Untrusted(_))));
    let named = client(&real.url().replace("127.0.0.1", "localhost"), real.ca_file());
    assert_eq!(check(&named, "carla", real.pin("carla")), accepted_by("CARLA0"));
}

#[test]
fn a_server_without_an_address_is_unreachable() {
    let (real, _use) = Real::shared();
    let client = client("https://no-such-host.invalid", real.ca_file());
    assert!(matches!(check(&client, "carla", "x"), Err(Failure::Unreachable(_))));
}

#[test]
fn a_path_that_is_not_privacyideas_is_rubbish() {
    let (real, _use) = Real::shared();
    let client = client(&format!("{}/wrong", real.url()), real.ca_file());
    assert!(matches!(check(&client, "carla", "x"), Err(Failure::Rubbish(_))));
    assert!(matches!(client.reachable(), Err(Failure::Rubbish(_))));
}

#[test]
fn a_server_that_went_away_is_unreachable_and_welcome_back() {
    let (real, _alone) = Real::alone();
    let client = real_client(real);
    client.reachable().expect("reachable");
    assert_eq!(check(&client, "carla", real.pin("carla")), accepted_by("CARLA0"));
    real.down();
    let started = Instant::now();
    let answer = check(&client, "carla", real.pin("carla"));
    assert!(matches!(answer, Err(Failure::Unreachable(_))), "{answer:?}");
    assert!(matches!(client.reachable(), Err(Failure::Unreachable(_))));
    assert!(started.elapsed() < Duration::from_secs(5));
    real.up();
    assert_eq!(check(&client, "carla", real.pin("carla")), accepted_by("CARLA0"));
}
