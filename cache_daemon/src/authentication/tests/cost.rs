//! Every refusal costs one PIN hash at least, so that its speed does not tell why; a right code waits for none.

use super::*;
use crate::tokens::HASHES;

fn hashes(login: &Login, rig: &Rig, typed: &str) -> (Verdict, u32) {
    let before = HASHES.get();
    let verdict = run(login, &rig.host(), &mut Script::answers([typed]));
    (verdict, HASHES.get() - before)
}

#[test]
fn every_refusal_costs_a_hash() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    rig.token(with_pin("pin", PinPosition::Before, hotp_token("HOTP0002", "carla")));
    rig.token(Token { failcount: 10, last_failure: Some(NOW), ..hotp_token("HOTP0003", "root") });
    let long = "x".repeat(500);
    let table = [
        ("nobody", "000000", Verdict::UnknownUser),
        ("sync", "000000", Verdict::Refused),
        ("lena", "000000", Verdict::Refused),
        ("lena", "", Verdict::Refused),
        ("lena", "short", Verdict::Refused),
        ("carla", "000000", Verdict::Refused),
        ("carla", "bad000000", Verdict::Refused),
        ("carla", &long, Verdict::Refused),
        ("root", "000000", Verdict::Locked),
        ("unreadable", "000000", Verdict::Failed),
    ];
    for (user, typed, verdict) in table {
        let (found, cost) = hashes(&login(user), &rig, typed);
        assert_eq!((found, cost), (verdict, 1), "{user} {typed}");
    }
    for _ in 0..3 {
        rig.login("lena", "000000");
    }
    assert_eq!(hashes(&login("lena"), &rig, &code(0)), (Verdict::Locked, 1), "throttled");
}

#[test]
fn a_refusal_of_the_server_costs_one_too_and_an_acceptance_none() {
    let accepted = Ok(Answer::Accepted(Accepted::default()));
    let rejected = Ok(Answer::Rejected { reason: String::new() });
    let rig = Rig::with_server([accepted, rejected, Err(Failure::Unreachable("no route".into()))]);
    assert_eq!(hashes(&login("carla"), &rig, "pin123456"), (granted("carla"), 0));
    assert_eq!(hashes(&login("carla"), &rig, "pin123456"), (Verdict::Refused, 1));
    assert_eq!(hashes(&login("carla"), &rig, "pin123456"), (Verdict::Unavailable, 1));
}

#[test]
fn a_right_code_waits_for_no_hash_but_that_of_its_own_pin() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    rig.token(with_pin("pin", PinPosition::Before, hotp_token("HOTP0002", "carla")));
    assert_eq!(hashes(&login("lena"), &rig, &code(0)), (granted("lena"), 0));
    assert_eq!(hashes(&login("carla"), &rig, &format!("pin{}", code(0))), (granted("carla"), 1));
}
