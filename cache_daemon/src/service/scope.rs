//! What every request is served with, and how the settings are changed under running requests.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use privacyidea_contract::paths;
use privacyidea_contract::wire::Overrides;

use super::clock::{SystemClock, UnixSeconds};
use super::conversation::Turns;
use super::daily_copy;
use super::journal::{AuthenticationJournal, Log, SYSLOG_SOCKET};
use super::line_servers::{LineServer, LineServers};
use super::refiller::Refiller;
use super::room::Attendance;
use super::stop::Stop;
use super::wake::{Reason, Wake};
use crate::administration::{Answer, Command, Probe, Site, execute};
use crate::authentication::{Host, Refills};
use crate::directory::{Directory, DirectoryError, LocalFiles};
use crate::server::{Client, Server, computer_name};
use crate::settings::{self, Settings, SettingsError};
use crate::store::{State, StoreError};

/// Logins at work at the same time, those not counted that wait for a person.
const TURNS: usize = 16;

/// Why nothing can be served.
#[derive(Debug)]
pub(super) enum ScopeError {
    /// The administrator has to change the settings.
    Settings(SettingsError),
    /// state.db cannot be used; without it no login can be decided.
    State(StoreError),
    /// state.db is missing or empty, though there is a copy of it: a new one would have no token, no failure and no memory
    /// of used codes, and would soon replace the copy.
    Lost,
    /// cache.db cannot be used.
    Directory(DirectoryError),
    /// The system is out of something.
    System(std::io::Error),
}

impl fmt::Display for ScopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(error) => error.fmt(f),
            Self::State(error @ (StoreError::Database(_) | StoreError::Malformed(_))) => write!(
                f,
                "{path}: {error}. If it is damaged: move {path}, {path}-wal and {path}-shm away, copy {copy} to {path} \
                 and give it to {user}; codes used since that copy was made could be used again, so resynchronise or \
                 enrol anew",
                path = paths::STATE_DATABASE,
                copy = daily_copy::path(),
                user = paths::DAEMON_USER,
            ),
            Self::State(error) => write!(f, "{}: {error}", paths::STATE_DATABASE),
            Self::Lost => write!(
                f,
                "{path} is missing or empty, and there is a copy of it: move {path}-wal and {path}-shm away if they are \
                 there, copy {copy} to {path} and give it to {user}; codes used since that copy was made could be used \
                 again, so resynchronise or enrol anew. To begin without any token instead, move the copy away",
                path = paths::STATE_DATABASE,
                copy = daily_copy::path(),
                user = paths::DAEMON_USER,
            ),
            Self::Directory(error) => error.fmt(f),
            Self::System(error) => write!(f, "the system is out of something: {error}"),
        }
    }
}

impl std::error::Error for ScopeError {}

/// What the settings make: replaced as a whole when they change.
pub(super) struct Configured {
    pub(super) settings: Settings,
    pub(super) directory: Directory,
    pub(super) server: Option<Client>,
    line_servers: LineServers,
}

/// What every request is served with.
pub(super) struct Scope {
    pub(super) state: Arc<State>,
    pub(super) clock: SystemClock,
    pub(super) log: Arc<Log>,
    pub(super) stop: Arc<Stop>,
    pub(super) turns: Turns,
    pub(super) attendance: Attendance,
    /// For the refresher.
    pub(super) wake: Arc<Wake>,
    /// Where new offline values are asked for.
    pub(super) refiller: Refiller,
    /// None: `--once`.
    running_since: Option<UnixSeconds>,
    probe: Probe,
    configured: RwLock<Arc<Configured>>,
    journal: AuthenticationJournal,
}

impl Scope {
    /// Reads the settings and opens both databases. Asks neither network nor resolvers.
    ///
    /// # Errors
    /// Every [`ScopeError`].
    pub(super) fn open(log: Arc<Log>, running_since: Option<UnixSeconds>) -> Result<Self, ScopeError> {
        let settings = Settings::load(Path::new(paths::SETTINGS)).map_err(ScopeError::Settings)?;
        if is_lost(Path::new(paths::STATE_DATABASE), Path::new(&daily_copy::path())) {
            return Err(ScopeError::Lost);
        }
        let state = Arc::new(State::open(Path::new(paths::STATE_DATABASE)).map_err(ScopeError::State)?);
        let wake = Arc::new(Wake::default());
        let configured = Configured::open(settings, &log, &wake)?;
        let journal =
            AuthenticationJournal::new(Path::new(SYSLOG_SOCKET), Arc::clone(&state), Arc::clone(&log));
        Ok(Self {
            state,
            clock: SystemClock,
            log,
            stop: Arc::new(Stop::new().map_err(ScopeError::System)?),
            turns: Turns::new(TURNS),
            attendance: Attendance::default(),
            wake,
            refiller: Refiller::default(),
            running_since,
            probe: Probe::default(),
            configured: RwLock::new(Arc::new(configured)),
            journal,
        })
    }

    /// What is configured now; a request keeps what it began with.
    pub(super) fn configured(&self) -> Arc<Configured> {
        Arc::clone(&self.configured.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the settings again. If they cannot be used, everything stays as it is.
    ///
    /// # Errors
    /// Every [`ScopeError`].
    pub(super) fn reload(&self) -> Result<(), ScopeError> {
        let settings = Settings::load(Path::new(paths::SETTINGS)).map_err(ScopeError::Settings)?;
        let configured = Arc::new(Configured::open(settings, &self.log, &self.wake)?);
        *self.configured.write().unwrap_or_else(PoisonError::into_inner) = configured;
        self.probe.reset();
        Ok(())
    }

    /// Carries a command out.
    pub(super) fn execute(&self, command: &Command) -> Answer {
        let configured = self.configured();
        let answer = execute(
            command,
            &Site {
                settings: &configured.settings,
                state: &self.state,
                directory: &configured.directory,
                server: configured.server(),
                probe: &self.probe,
                clock: &self.clock,
                running_since: self.running_since,
            },
        );
        configured.write_notices(&self.log);
        answer
    }

    /// What a decision may look at. `line`: the server that the PAM line names; `is_root`: whether the peer is believed
    /// about terminal and remote host.
    pub(super) fn host<'a>(
        &'a self,
        configured: &'a Configured,
        line: Option<&'a LineServer>,
        is_root: bool,
    ) -> Host<'a> {
        Host {
            settings: &configured.settings,
            state: &self.state,
            accounts: &configured.directory,
            server: line.map_or_else(|| configured.server(), |line| Some(&*line.client)),
            line_server: line.map(|line| &line.settings),
            clock: &self.clock,
            // A --once ends with its login.
            refills: self.running_since.map(|_| &self.refiller as &dyn Refills),
            journal: &self.journal,
            trusted_terminal: is_root,
        }
    }
}

/// Whether there was a database once and its file has lost everything. One that was just made is empty too, but there is
/// no copy of it yet.
fn is_lost(database: &Path, copy: &Path) -> bool {
    let length = |path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    length(database) == 0 && length(copy) > 0
}

impl Configured {
    fn open(settings: Settings, log: &Log, wake: &Arc<Wake>) -> Result<Self, ScopeError> {
        let wake = Arc::clone(wake);
        let directory = Directory::open(
            &settings,
            Path::new(paths::CACHE_DATABASE),
            Path::new(paths::MAP_DIRECTORY),
            LocalFiles::of_this_host(),
        )
        .map_err(ScopeError::Directory)?
        .with_waker(Box::new(move || wake.cause(Reason::Sooner)));
        let server = settings.server.as_ref().map(|server| Client::new(server, &computer_name()));
        let configured = Self { settings, directory, server, line_servers: LineServers::default() };
        configured.write_notices(log);
        Ok(configured)
    }

    pub(super) fn server(&self) -> Option<&dyn Server> {
        self.server.as_ref().map(|server| server as &dyn Server)
    }

    /// The server that a PAM line names; none if it names none, or the one in the settings: that one is what the settings
    /// say, whatever the line says of certificates.
    ///
    /// # Errors
    /// There cannot be such a server.
    pub(super) fn line_server(&self, overrides: &Overrides) -> Result<Option<LineServer>, String> {
        let Some(server) = settings::Server::of_a_line(overrides)? else { return Ok(None) };
        let is_ours = self.settings.server.as_ref().is_some_and(|ours| ours.url == server.url);
        Ok(if is_ours { None } else { Some(self.line_servers.of(server)) })
    }

    /// What the directory has to say to the administrator.
    pub(super) fn write_notices(&self, log: &Log) {
        for notice in self.directory.take_notices() {
            log.write(super::journal::Severity::Warning, &notice);
        }
    }
}
