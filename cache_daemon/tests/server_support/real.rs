//! The real privacyIDEA of `tests/privacyidea/server`: one for all tests of this program, stopped when it ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;

/// What facts.json says.
pub(crate) struct Real {
    pub(crate) facts: Value,
    directory: PathBuf,
}

/// While it lives the server stays up (or, held alone, is the holder's to stop).
pub(crate) struct Use(#[expect(dead_code, reason = "closing it is what unlocks")] File);

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/privacyidea/server");

impl Real {
    /// Starts the server if it does not run, and waits for tests that stop it.
    pub(crate) fn shared() -> (&'static Self, Use) {
        let used = lock(rustix::fs::FlockOperation::LockShared);
        (Self::started(), used)
    }

    /// As [`Real::shared`], with no other test using the server.
    pub(crate) fn alone() -> (&'static Self, Use) {
        let used = lock(rustix::fs::FlockOperation::LockExclusive);
        (Self::started(), used)
    }

    fn started() -> &'static Self {
        static REAL: OnceLock<Real> = OnceLock::new();
        REAL.get_or_init(|| {
            let real = Self { facts: Value::Null, directory: directory() };
            real.up();
            let facts = std::fs::read(real.directory.join("facts.json")).expect("facts.json");
            Self { facts: serde_json::from_slice(&facts).expect("JSON"), ..real }
        })
    }

    pub(crate) fn up(&self) {
        self.program(&["up"], &["--until-exit-of", &std::process::id().to_string()]);
    }

    pub(crate) fn down(&self) {
        self.program(&["down"], &[]);
    }

    pub(crate) fn fact(&self, name: &str) -> &str {
        self.facts[name].as_str().expect(name)
    }

    pub(crate) fn url(&self) -> &str {
        self.fact("url")
    }

    pub(crate) fn ca_file(&self) -> &Path {
        Path::new(self.fact("ca_file"))
    }

    pub(crate) fn pin(&self, user: &str) -> &str {
        self.facts["users"][user]["pin"].as_str().expect(user)
    }

    /// PIN and a one-time password that was not used yet.
    pub(crate) fn password(&self, user: &str) -> String {
        let output = self.program(&["otp"], &[user]);
        String::from_utf8(output.stdout).expect("UTF-8").trim_end_matches('\n').to_owned()
    }

    /// The newest rows of the server's audit log, newest first.
    pub(crate) fn audit(&self, rows: usize) -> Vec<Value> {
        let output = self.program(&["audit"], &[&rows.to_string()]);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    fn program(&self, command: &[&str], arguments: &[&str]) -> Output {
        let run = Command::new(PROGRAM).args(command).arg(&self.directory).args(arguments).output();
        let output =
            run.expect("tests/privacyidea/server needs Python 3.10 or newer: apt-get install python3-venv");
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("privacyidea")
}

fn lock(operation: rustix::fs::FlockOperation) -> Use {
    let file = File::create(directory().with_extension("in-use")).expect("a lock file");
    rustix::fs::flock(&file, operation).expect("locked");
    Use(file)
}
