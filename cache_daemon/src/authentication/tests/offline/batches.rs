//! Which batches are kept, and for whom.

use super::*;

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
