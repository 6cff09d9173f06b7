//! What a PAM line says of the server, and what the settings say of identities, with a real privacyIDEA behind the
//! daemon.

use privacyidea_contract::wire::{Login, Overrides, Reply, Request, Stream, Verdict};

use crate::harness::*;
use crate::real::Real;

/// The authority of the test's server, where the daemon can read it.
const CA_FILE: &str = "/etc/privacyidea-host/ca.pem";

fn host_beside(real: &Real) -> TestHost {
    let host = host();
    let copy = host.path(&CA_FILE[1..]);
    std::fs::copy(real.ca_file(), &copy).unwrap();
    std::fs::set_permissions(&copy, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    host
}

/// A line with the server's address and its authority.
fn line(real: &Real) -> Overrides {
    let (url, ca_file) = (Some(format!("{}/", real.url())), Some(CA_FILE.to_owned()));
    Overrides { url, ca_file, ..Overrides::default() }
}

/// Variables and verdict of a login in which every question gets `password`.
fn log_in_with(
    stream: &mut Stream,
    user: &str,
    overrides: Overrides,
    password: &str,
) -> (Vec<String>, Verdict) {
    // Beside /etc/passwd, the host's name services know them.
    let login = Login { uid: Some(20001), overrides, ..login(user) };
    stream.send_request(&Request::Login(login), soon()).unwrap();
    let mut variables = Vec::new();
    loop {
        match stream.receive_reply(soon()).unwrap() {
            Reply::Ask { .. } if variables.is_empty() => {
                stream.send_request(&Request::Answer(password.into()), soon()).unwrap();
            }
            Reply::Export { name, value } => variables.push(format!("{name}={value}")),
            Reply::Verdict(verdict) => return (variables, verdict),
            _ => panic!("a reply that has no place there"),
        }
    }
}

fn verdict(host: &TestHost, user: &str, overrides: Overrides, password: &str) -> Verdict {
    log_in_with(&mut host.connect_auth(), user, overrides, password).1
}

#[test]
fn a_line_with_a_url_needs_no_settings() {
    let (real, _use) = Real::shared();
    let host = host_beside(real);
    let daemon = host.daemon();
    let pin = real.pin("carla");
    // carla is of /etc/passwd, as users of the older modules are.
    assert_eq!(verdict(&host, "carla", line(real), pin), granted("carla"));
    host.syslog_line_with("granted by the server, token CARLA0");
    assert_eq!(verdict(&host, "carla", line(real), "wrong"), Verdict::Refused);
    assert_eq!(
        verdict(&host, "carla", Overrides::default(), pin),
        Verdict::Refused,
        "without it, nobody is asked"
    );
    assert_eq!(verdict(&host, "spass", line(real), real.pin("spass")), granted("spass"));
    // The account phase knows them by the line, too.
    let mut stream = host.connect_auth();
    let request = Login { overrides: line(real), ..login("carla") };
    stream.send_request(&Request::Account(request), soon()).unwrap();
    assert!(matches!(stream.receive_reply(soon()), Ok(Reply::Verdict(Verdict::Granted { .. }))));
    // And so does a daemon for one login.
    daemon.kill();
    let (mut once, mut child) = host.once("");
    assert_eq!(log_in_with(&mut once, "carla", line(real), pin).1, granted("carla"));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_certificate_is_looked_at_unless_the_line_says_otherwise() {
    let (real, _use) = Real::shared();
    let host = host_beside(real);
    let _daemon = host.daemon();
    let unknown = Overrides { ca_file: Some("/etc/no-such-file.pem".to_owned()), ..line(real) };
    assert_eq!(verdict(&host, "carla", unknown, real.pin("carla")), Verdict::Untrusted);
    let any = Overrides { ca_file: None, any_certificate: true, ..line(real) };
    for _ in 0..2 {
        assert_eq!(verdict(&host, "carla", any.clone(), real.pin("carla")), granted("carla"));
        // authpriv.err, each time.
        let warning = host.syslog_line_with("PIH-AUTH-062 carla");
        assert!(warning.starts_with("<83>") && warning.contains("nossl"), "{warning}");
        host.syslog_line_with("granted by the server");
    }
    let no_server = Overrides { url: Some("https://user@127.0.0.1".to_owned()), ..any };
    assert_eq!(verdict(&host, "carla", no_server, real.pin("carla")), Verdict::Failed);
    host.syslog_line_with("PIH-AUTH-063");
}

/// The settings' server is verified whatever a line says: also if the line names it.
#[test]
fn a_line_cannot_switch_the_settings_off() {
    let (real, _use) = Real::shared();
    let host = host_beside(real);
    // The system's authorities, which have not signed the test's server.
    host.write_settings(&format!("[server]\nurl = \"{}\"\nlocal-accounts = true\n", real.url()));
    let _daemon = host.daemon();
    let without_url =
        Overrides { any_certificate: true, ca_file: Some(CA_FILE.to_owned()), ..Overrides::default() };
    let with_url = Overrides { any_certificate: true, ..line(real) };
    for overrides in [without_url, with_url] {
        assert_eq!(verdict(&host, "carla", overrides, real.pin("carla")), Verdict::Untrusted);
    }
}

#[test]
fn a_caller_who_is_not_root_chooses_no_server_and_no_realm() {
    let (real, _use) = Real::shared();
    let host = host_beside(real);
    let _daemon = host.daemon();
    let any = Overrides { ca_file: None, any_certificate: true, ..line(real) };
    let refused = as_user(1000, || verdict(&host, "carla", any, real.pin("carla")));
    assert_eq!(refused, Verdict::Refused);
    host.syslog_line_with("PIH-AUTH-064 carla");
    host.syslog_line_with("PIH-AUTH-013 carla");
    host.write_settings(&settings(real, "local-accounts = true"));
    let _reloaded = reloaded(&host, _daemon);
    let realm = Overrides { realm: Some("caseless".to_owned()), ..Overrides::default() };
    let pin = real.fact("caseless_pin");
    assert_eq!(as_user(1000, || verdict(&host, "carla", realm.clone(), pin)), Verdict::Refused);
    assert_eq!(verdict(&host, "carla", realm, pin), granted("carla"), "root chooses");
}

fn settings(real: &Real, more: &str) -> String {
    format!("[server]\nurl = \"{}\"\nca-file = \"{CA_FILE}\"\n{more}\n", real.url())
}

fn reloaded(host: &TestHost, daemon: Daemon) -> Daemon {
    daemon.kill();
    host.daemon()
}

#[test]
fn realms_come_from_the_name_and_from_rules() {
    let (real, _use) = Real::shared();
    let host = host_beside(real);
    let rules = "[identity]\nsplit-at-sign = true\n\
        [[realm-rule]]\nservice = \"su*\"\nrealm = \"caseless\"\n[[realm-rule]]\nuser = \"no*\"\nrealm = \"no-such\"\n";
    host.write_settings(&settings(real, &format!("local-accounts = true\n{rules}")));
    let _daemon = host.daemon();
    let (of_users, of_caseless) = (real.pin("carla"), real.fact("caseless_pin"));
    let log_in = |user: &str, service: &str, password: &str| {
        let mut stream = host.connect_auth();
        let login = Login { service: service.to_owned(), uid: Some(20001), ..login(user) };
        stream.send_request(&Request::Login(login), soon()).unwrap();
        answer(&mut stream, password).unwrap()
    };
    assert_eq!(log_in("carla", "sshd", of_users), granted("carla"));
    assert_eq!(log_in("carla", "sudo", of_caseless), granted("carla"));
    assert_eq!(log_in("carla", "sudo", of_users), Verdict::Refused);
    assert_eq!(log_in("carla@caseless", "sshd", of_caseless), granted("carla@caseless"));
    assert_eq!(log_in("carla@users", "sudo", of_users), granted("carla@users"), "the name counts more");
    assert_eq!(log_in("carla@caseless", "sshd", of_users), Verdict::Refused);
    assert_eq!(log_in("carla@no-such", "sshd", of_users), Verdict::UnknownUser);
    assert_eq!(log_in("nobody-there", "sshd", of_users), Verdict::UnknownUser);
}

#[test]
fn attributes_of_an_accept_are_handed_on_in_front_of_the_verdict() {
    let (real, _use) = Real::shared();
    let host = host_beside(real);
    let attributes = "[attributes]\nPI_NAME = \"givenname\"\nPI_REALM = \"realm\"\nPI_HASH = \"cryptpass\"\n";
    host.write_settings(&settings(real, attributes));
    let _daemon = host.daemon();
    let (variables, verdict) =
        log_in_with(&mut host.connect_auth(), "named", Overrides::default(), real.pin("named"));
    assert_eq!(verdict, granted("named"));
    assert_eq!(variables, ["PI_NAME=Named", "PI_REALM=users"]);
    let (variables, verdict) = log_in_with(&mut host.connect_auth(), "named", Overrides::default(), "wrong");
    assert_eq!((variables, verdict), (Vec::new(), Verdict::Refused));
    // Without the server's policy it says nothing.
    let (variables, verdict) =
        log_in_with(&mut host.connect_auth(), "spass", Overrides::default(), real.pin("spass"));
    assert_eq!((variables, verdict), (Vec::new(), granted("spass")));
}

#[test]
fn a_yes_that_names_no_token_does_not_count_where_one_is_required() {
    let (real, _use) = Real::shared();
    let host = host_beside(real);
    host.write_settings(&settings(real, ""));
    let daemon = host.daemon();
    assert_eq!(verdict(&host, "passed", Overrides::default(), "anything"), granted("passed"));
    host.write_settings(&settings(real, "[identity]\nrequire-token = true"));
    let _daemon = reloaded(&host, daemon);
    assert_eq!(verdict(&host, "passed", Overrides::default(), "anything"), Verdict::Refused);
    host.syslog_line_with("PIH-AUTH-060 passed");
    assert_eq!(verdict(&host, "spass", Overrides::default(), real.pin("spass")), granted("spass"));
}
