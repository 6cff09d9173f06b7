//! A code lets in once, whatever happens.

use super::*;
use crate::store::StoreError;

#[test]
fn a_code_is_used_up_and_so_are_those_before_it() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    assert_eq!(rig.login("lena", &code(3)), granted("lena"));
    assert_eq!(rig.login("lena", &code(3)), Verdict::Refused);
    assert_eq!(rig.login("lena", &code(1)), Verdict::Refused);
    assert_eq!(rig.numbers(), [1, 11, 11]);
}

#[test]
fn a_token_that_ran_ahead_resynchronises_at_two_consecutive_logins() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    assert_eq!(rig.login("lena", &code(100)), Verdict::Refused);
    assert_eq!(rig.login("lena", &code(101)), granted("lena"));
    assert_eq!(rig.login("lena", &code(101)), Verdict::Refused);
    assert_eq!(rig.numbers(), [12, 1, 11]);
    let mut never = Rig::new();
    never.settings.tokens.auto_resync = false;
    never.token(hotp_token("HOTP0001", "lena"));
    assert_eq!(never.login("lena", &code(100)), Verdict::Refused);
    assert_eq!(never.login("lena", &code(101)), Verdict::Refused);
}

#[test]
fn of_many_logins_with_one_code_at_the_same_instant_one_is_granted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    // Each with a connection of its own, as the daemon and several --once have.
    let rigs: Vec<_> = (0..6).map(|_| Rig { state: State::open(&path).unwrap(), ..Rig::new() }).collect();
    rigs[0].token(hotp_token("HOTP0001", "lena"));
    for counter in 0..5 {
        let granted_logins = std::thread::scope(|scope| {
            let logins: Vec<_> = rigs
                .iter()
                .map(|rig| {
                    scope.spawn(move || {
                        let login = Login { rhost: format!("192.0.2.{counter}"), ..login("lena") };
                        run(&login, &rig.host(), &mut Script::answers([code(counter).as_str()]))
                    })
                })
                .collect();
            logins
                .into_iter()
                .map(|login| login.join().unwrap())
                .filter(|verdict| *verdict == granted("lena"))
                .count()
        });
        assert_eq!(granted_logins, 1);
        let mut token = rigs[0].stored("HOTP0001");
        token.unlock();
        rigs[0].token(token);
    }
}

#[test]
fn what_cannot_be_written_down_is_not_granted() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    rig.state.refuse_to_grow();
    assert_eq!(rig.login("lena", &code(0)), Verdict::Failed);
    assert_eq!(rig.numbers(), [40]);
}

#[test]
fn a_change_that_fails_has_not_happened() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    let failed: Result<(), _> = rig.state.change(|transaction| {
        transaction.remove("HOTP0001")?;
        Err(StoreError::Malformed("on purpose".into()))
    });
    assert!(failed.is_err());
    assert_eq!(rig.login("lena", &code(0)), granted("lena"));
}
