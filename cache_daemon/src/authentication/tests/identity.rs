//! As whom the server is asked, whose yes counts, and what it hands on.

use super::*;

fn accepted_with(attributes: &[(&str, &[&str])]) -> Result<Answer, Failure> {
    let several = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    Ok(Answer::Accepted(Accepted {
        serial: Some("PI1".into()),
        attributes: attributes.iter().map(|(name, values)| ((*name).to_owned(), several(values))).collect(),
        ..Accepted::default()
    }))
}

fn rig(settings: &str, answers: impl IntoIterator<Item = Result<Answer, Failure>>) -> Rig {
    let mut rig = Rig::with_server(answers);
    let settings = Settings::parse(settings).expect("valid");
    rig.settings = Settings { server: rig.settings.server.take(), ..settings };
    rig
}

fn log_in(rig: &Rig, login: &Login) -> Verdict {
    run(login, &rig.host(), &mut Script::answers(["pin123456"]))
}

/// Whom the server was asked about.
fn asked_about(rig: &Rig) -> (String, Option<String>) {
    rig.server.as_ref().unwrap().asked.lock().unwrap().pop().expect("asked")
}

fn of(service: &str, user: &str, realm: Option<&str>) -> Login {
    let overrides = Overrides { realm: realm.map(str::to_owned), ..Overrides::default() };
    Login { service: service.into(), uid: Some(20001), overrides, ..login(user) }
}

const RULES: &str = "[[realm-rule]]\nservice = 'sshd'\nuser = 'adm-*'\nrealm = 'admins'\n\
    [[realm-rule]]\nuser = 'adm-*'\nrealm = 'operators'\n[[realm-rule]]\nservice = 'vpn*'\nrealm = 'remote'\n";

#[test]
fn the_first_rule_says_the_realm_and_the_line_counts_more() {
    for (service, user, line, realm) in [
        ("sshd", "adm-carla", None, Some("admins")),
        ("su", "adm-carla", None, Some("operators")),
        ("vpn-1", "adm-carla", None, Some("operators")),
        ("vpn-1", "carla", None, Some("remote")),
        ("sshd", "carla", None, None),
        ("sshd", "adm-carla", Some("staff"), Some("staff")),
        ("sshd", "carla@staff", None, None),
    ] {
        let rig = rig(RULES, [accepted_with(&[])]);
        assert_eq!(log_in(&rig, &of(service, user, line)), granted(user));
        assert_eq!(asked_about(&rig), (user.to_owned(), realm.map(str::to_owned)), "{service} {user}");
    }
}

#[test]
fn a_name_is_split_where_that_is_wanted_and_stays_the_accounts() {
    let settings = format!("{RULES}[identity]\nsplit-at-sign = true\n");
    for (user, asked, realm) in [
        ("carla@staff", "carla", Some("staff")),
        ("adm-carla@staff", "adm-carla", Some("staff")),
        ("carla@example.org@staff", "carla@example.org", Some("staff")),
        ("adm-carla", "adm-carla", Some("admins")),
        ("carla@", "carla@", None),
    ] {
        let rig = rig(&settings, [accepted_with(&[])]);
        // Whatever realm the line says: carla of another realm is another person.
        let line = if user.ends_with("@staff") { Some("admins") } else { None };
        assert_eq!(log_in(&rig, &of("sshd", user, line)), granted(user));
        assert_eq!(asked_about(&rig), (asked.to_owned(), realm.map(str::to_owned)), "{user}");
    }
    // The host must know the account by its whole name.
    let rig = rig(&settings, []);
    let unknown = Login { uid: None, ..of("sshd", "carla@staff", None) };
    assert_eq!(log_in(&rig, &unknown), Verdict::UnknownUser);
}

#[test]
fn a_user_of_another_realm_is_another_user() {
    for (confirmed, number) in [("ADMINS", 2), ("admins", 2), ("users", 61)] {
        let rig = rig(RULES, [accepted_with(&[("realm", &[confirmed])])]);
        let verdict = log_in(&rig, &of("sshd", "adm-carla", None));
        assert_eq!(verdict, if number == 2 { granted("adm-carla") } else { Verdict::Refused });
        assert_eq!(rig.numbers(), [number], "{confirmed}");
    }
}

#[test]
fn an_accept_without_a_token_counts_only_where_none_is_required() {
    let without_token = || Ok(Answer::Accepted(Accepted::default()));
    let lax = rig("", [without_token()]);
    assert_eq!(lax.login("carla", "pin123456"), granted("carla"));
    let strict = rig("[identity]\nrequire-token = true", [without_token(), accepted_with(&[])]);
    strict.token(hotp_token("HOTP0001", "carla"));
    assert_eq!(strict.login("carla", "pin123456"), Verdict::Refused);
    assert_eq!(strict.stored("HOTP0001").failcount, 1, "no success that forgets failures");
    assert_eq!(strict.login("carla", "pin123456"), granted("carla"));
    assert_eq!(strict.numbers(), [60, 2]);
}

const ATTRIBUTES: &str =
    "[attributes]\nPRIVACYIDEA_MAIL = 'email'\nPRIVACYIDEA_GROUPS = 'groups'\nNONE = 'none'";

#[test]
fn attributes_are_handed_on_by_a_grant_of_the_server() {
    let attributes: &[(&str, &[&str])] =
        &[("email", &["c@example.org"]), ("groups", &["a", "b"]), ("phone", &["1"])];
    let rig = rig(ATTRIBUTES, [accepted_with(attributes)]);
    let mut script = Script::answers(["pin123456"]);
    assert_eq!(run(&login("carla"), &rig.host(), &mut script), granted("carla"));
    assert_eq!(script.exported, ["PRIVACYIDEA_GROUPS=a,b", "PRIVACYIDEA_MAIL=c@example.org"]);
}

#[test]
fn attributes_are_handed_on_by_nothing_else() {
    let rejected = || Ok(Answer::Rejected { reason: String::new() });
    let no_token = Ok(Answer::Accepted(Accepted {
        attributes: [("email".to_owned(), vec!["c@example.org".to_owned()])].into(),
        ..Accepted::default()
    }));
    let strict = format!("{ATTRIBUTES}\n[identity]\nrequire-token = true");
    for (settings, answer) in [(ATTRIBUTES, rejected()), (&strict, no_token)] {
        let rig = rig(settings, [answer]);
        let mut script = Script::answers(["pin123456"]);
        assert_eq!(run(&login("carla"), &rig.host(), &mut script), Verdict::Refused);
        assert!(script.exported.is_empty());
    }
    let local = rig(ATTRIBUTES, []);
    local.token(hotp_token("HOTP0001", "carla"));
    let mut script = Script::answers([code(0).as_str()]);
    assert_eq!(run(&login("carla"), &local.host(), &mut script), granted("carla"));
    assert!(script.exported.is_empty());
}

#[test]
fn the_server_of_a_line_is_asked_about_local_accounts_and_never_about_roots() {
    let mut rig = Rig::with_server([accepted_with(&[])]);
    rig.settings.server = None;
    rig.line_server = Some(settings::Server { local_accounts: true, ..server_settings() });
    assert_eq!(rig.account(&login("lena")), granted("lena"));
    assert_eq!(rig.login("lena", "pin123456"), granted("lena"));
    assert!(!matches!(rig.login("root", "pin123456"), Verdict::Granted { .. }));
    assert_eq!(rig.numbers(), [2, 13]);
}

#[test]
fn a_certificate_that_is_not_looked_at_is_written_down_at_each_login() {
    let mut rig = Rig::with_server([accepted_with(&[]), accepted_with(&[])]);
    let line = settings::Server { local_accounts: true, any_certificate: true, ..server_settings() };
    rig.line_server = Some(line);
    for _ in 0..2 {
        assert_eq!(rig.login("lena", "pin123456"), granted("lena"));
        let event = rig.events.lock().unwrap().remove(0);
        assert_eq!((event.number, event.user.as_deref(), event.granted), (62, Some("lena"), false));
        assert!(event.text.contains("nossl"), "{event}");
        assert_eq!(rig.numbers(), [2]);
    }
    // Nothing is sent about root.
    assert!(!matches!(rig.login("root", "pin123456"), Verdict::Granted { .. }));
    assert_eq!(rig.numbers(), [13]);
}
