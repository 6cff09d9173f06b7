//! Shared by the tests of `server`: settings, checks, certificates.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cache_daemon::server::{Accepted, Answer, Check, Client, Failure, Server, Step};
use cache_daemon::settings;
use privacyidea_contract::Secret;

/// Longer than anything that is expected to work takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn settings(url: &str, ca_file: &Path) -> settings::Server {
    settings::Server {
        url: url.to_owned(),
        realm: None,
        ca_file: Some(ca_file.to_owned()),
        connect_timeout: PATIENCE,
        timeout: PATIENCE,
        local_accounts: false,
        any_certificate: false,
    }
}

pub(crate) fn client(url: &str, ca_file: &Path) -> Client {
    Client::new(&settings(url, ca_file), "test")
}

pub(crate) fn check(client: &Client, user: &str, password: &str) -> Result<Answer, Failure> {
    check_from(client, user, password, "")
}

pub(crate) fn check_from(
    client: &Client,
    user: &str,
    password: impl Into<Secret>,
    rhost: &str,
) -> Result<Answer, Failure> {
    let password = password.into();
    client.check(&Check { user, realm: None, password: &password, step: Step::First, rhost })
}

pub(crate) fn accepted_by(serial: &str) -> Result<Answer, Failure> {
    Ok(Answer::Accepted(Accepted { serial: Some(serial.to_owned()), ..Accepted::default() }))
}

pub(crate) fn is_accepted(answer: &Result<Answer, Failure>) -> bool {
    matches!(answer, Ok(Answer::Accepted(_)))
}

pub(crate) fn is_rejected(answer: &Result<Answer, Failure>) -> bool {
    matches!(answer, Ok(Answer::Rejected { .. }))
}

/// A certificate authority of the test's own, made with openssl(1).
pub(crate) struct Authority {
    pub(crate) directory: tempfile::TempDir,
}

/// Certificate and key of a server, PEM.
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

const NEW_KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

impl Authority {
    pub(crate) fn new() -> Self {
        let authority = Self { directory: tempfile::tempdir().expect("a temporary directory") };
        // Each has a name of its own, or the certificate of one would look like a forged one of another.
        let subject =
            format!("/CN=test CA {}", authority.directory.path().display().to_string().replace('/', " "));
        authority.openssl(
            &[
                &["req", "-x509"],
                &NEW_KEY[..],
                &["-days", "2", "-subj", &subject, "-keyout", "ca.key", "-out", "ca.pem"],
                &["-addext", "basicConstraints=critical,CA:TRUE"],
            ]
            .concat(),
        );
        authority
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// A certificate for `name` (`DNS:...` or `IP:...`) that ends `days` from now; negative: it has ended.
    pub(crate) fn identity(&self, name: &str, days: i32) -> Identity {
        let extensions = format!("subjectAltName={name}\nextendedKeyUsage=serverAuth\n");
        std::fs::write(self.directory.path().join("extensions"), extensions).expect("written");
        self.openssl(
            &[
                &["req"],
                &NEW_KEY[..],
                &["-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server"],
            ]
            .concat(),
        );
        let days = days.to_string();
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            "server.csr",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            &days,
            "-extfile",
            "extensions",
            "-out",
            "server.pem",
        ]);
        let path = self.directory.path();
        Identity { certificate: path.join("server.pem"), key: path.join("server.key") }
    }

    fn openssl(&self, arguments: &[&str]) {
        let run = Command::new("openssl").args(arguments).current_dir(self.directory.path()).output();
        let run = run.expect("openssl(1) is needed: apt-get install openssl");
        assert!(run.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
    }
}
