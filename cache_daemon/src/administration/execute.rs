//! Carries commands out.

use std::sync::{Mutex, PoisonError, TryLockError};

use privacyidea_contract::paths;
use privacyidea_contract::wire::{Lookup, Reply};

use super::{Answer, Command, ServerStatus, Status, offline, tokens};
use crate::directory::Directory;
use crate::server::Server;
use crate::service::clock::{Clock, UnixSeconds};
use crate::settings::Settings;
use crate::store::State;

/// How long it is believed that the server answers, or does not; anybody may ask for the status.
const PROBE_BELIEVED: UnixSeconds = 10;

/// Everything that a command may touch.
pub struct Site<'a> {
    /// The settings in force.
    pub settings: &'a Settings,
    /// Tokens and audit.
    pub state: &'a State,
    /// Users, groups and the map.
    pub directory: &'a Directory,
    /// The server, if one is configured.
    pub server: Option<&'a dyn Server>,
    /// What is known about the server.
    pub probe: &'a Probe,
    /// The time of day.
    pub clock: &'a dyn Clock,
    /// When the daemon started; none for `--once`.
    pub running_since: Option<UnixSeconds>,
}

/// The last attempt to reach the server. At most one is going on at a time.
#[derive(Default)]
pub struct Probe(Mutex<Option<Outcome>>);

struct Outcome {
    at: UnixSeconds,
    problem: Option<String>,
}

/// Carries `command` out.
#[must_use]
pub fn execute(command: &Command, site: &Site<'_>) -> Answer {
    match command {
        Command::CacheFlush { user } => flush(user.as_deref(), site),
        Command::CacheList => list(site),
        Command::Status => status(site),
        _ => tokens::execute(command, site.state, site.settings, site.directory, site.clock),
    }
}

impl Probe {
    /// Forgets the last outcome: the settings are others now.
    pub fn reset(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// None: the server answers.
    fn problem(&self, server: &dyn Server, now: UnixSeconds) -> Option<String> {
        let mut last = match self.0.try_lock() {
            Ok(last) => last,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Some("it is being asked just now".to_owned()),
        };
        match last.as_ref() {
            Some(outcome) if now.abs_diff(outcome.at) < PROBE_BELIEVED => outcome.problem.clone(),
            _ => {
                let problem = server.reachable().err().map(|failure| failure.to_string());
                *last = Some(Outcome { at: now, problem: problem.clone() });
                problem
            }
        }
    }
}

fn flush(user: Option<&str>, site: &Site<'_>) -> Answer {
    let now = site.clock.now();
    let is_known = |name: &str| {
        matches!(site.directory.lookup(&Lookup::PasswdByName(name.to_owned()), now), Reply::Passwd(_))
    };
    match site.directory.flush(user, now) {
        Ok(()) => Answer::Flushed { known: user.map(is_known) },
        Err(error) => Answer::Refused { reason: error.to_string() },
    }
}

fn list(site: &Site<'_>) -> Answer {
    match site.directory.list() {
        Ok(entries) => Answer::Cache { entries },
        Err(error) => Answer::Refused { reason: error.to_string() },
    }
}

fn status(site: &Site<'_>) -> Answer {
    let now = site.clock.now();
    let tokens = match tokens::counts(site.state, &site.settings.lockout, now) {
        Ok(tokens) => tokens,
        Err(error) => return Answer::Refused { reason: error.to_string() },
    };
    let offline = match offline::counts(site.state, site.settings, now) {
        Ok(offline) => offline,
        Err(error) => return Answer::Refused { reason: error.to_string() },
    };
    let (resolvers, map) = site.directory.status();
    let server = site.settings.server.as_ref().zip(site.server).map(|(settings, server)| ServerStatus {
        url: settings.url.clone(),
        problem: site.probe.problem(server, now),
    });
    Answer::Status(Box::new(Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        running_since: site.running_since,
        server,
        resolvers,
        map,
        tokens,
        offline,
        state_bytes: size(paths::STATE_DATABASE),
        cache_bytes: size(paths::CACHE_DATABASE),
    }))
}

/// Of a database with its log, in bytes; 0 if there is none.
fn size(database: &str) -> u64 {
    let files = [database.to_owned(), format!("{database}-wal")];
    files.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|metadata| metadata.len()).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::server::{Answer, Check, Failure, Poll, Refill, Refilled, TransactionId};

    #[derive(Default)]
    struct Away(AtomicU32);

    impl Server for Away {
        fn check(&self, _check: &Check<'_>) -> Result<Answer, Failure> {
            Err(Failure::Unreachable("no route".to_owned()))
        }

        fn poll(&self, _transaction: &TransactionId) -> Result<Poll, Failure> {
            unreachable!("nothing is polled")
        }

        fn refill(&self, _refill: &Refill<'_>) -> Result<Refilled, Failure> {
            unreachable!("nothing is refilled")
        }

        fn reachable(&self) -> Result<(), Failure> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Err(Failure::Unreachable("no route".to_owned()))
        }
    }

    #[test]
    fn the_server_is_asked_now_and_then_however_often_the_status_is() {
        let (server, probe) = (Away::default(), Probe::default());
        for now in [100, 101, 100 + PROBE_BELIEVED - 1] {
            assert!(probe.problem(&server, now).is_some_and(|problem| problem.contains("no route")));
        }
        assert_eq!(server.0.load(Ordering::SeqCst), 1);
        assert!(probe.problem(&server, 100 + PROBE_BELIEVED).is_some());
        // A clock that was set back is no reason to believe for ever.
        assert!(probe.problem(&server, 5).is_some());
        assert_eq!(server.0.load(Ordering::SeqCst), 3);
        probe.reset();
        assert!(probe.problem(&server, 5).is_some());
        assert_eq!(server.0.load(Ordering::SeqCst), 4);
    }

    #[test]
    fn the_log_of_a_database_counts() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("x.db").to_str().unwrap().to_owned();
        assert_eq!(size(&database), 0);
        std::fs::write(&database, "four").unwrap();
        std::fs::write(format!("{database}-wal"), "seven..").unwrap();
        assert_eq!(size(&database), 11);
    }

    #[test]
    fn nobody_waits_for_somebody_elses_probe() {
        let (server, probe) = (Away::default(), Probe::default());
        let held = probe.0.lock().unwrap();
        assert!(probe.problem(&server, 1).is_some_and(|problem| problem.contains("just now")));
        drop(held);
        assert_eq!(server.0.load(Ordering::SeqCst), 0);
    }
}
