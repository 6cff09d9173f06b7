//! The service in the foreground: from the lock to the last login.

use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use privacyidea_contract::paths;
use privacyidea_contract::wire::Stream;
use sd_notify::NotifyState;

use super::clock::{Clock, SystemClock};
use super::endpoints::{self, AuthSocket, LookupSocket};
use super::journal::Log;
use super::refiller::Refiller;
use super::refresher::Refresher;
use super::room::{FIRST_REQUEST, Room};
use super::scope::{Scope, ScopeError};
use super::signals::{Signal, Signals};
use super::sockets::{self, Published, SocketError};
use super::stop::GRACE;
use super::wake::Reason;
use super::workers::Workers;

/// Held by the daemon of this host.
const LOCK: &str = "/run/privacyidea-host/daemon.lock";
/// Threads of `auth.sock`. More than sshd lets in before they are logged in (MaxStartups), because a login that waits
/// for a person holds one.
const AUTH_THREADS: usize = 192;
/// Threads of `lookup.sock`.
const LOOKUP_THREADS: usize = 8;
/// How long each of those is listened to who came before the daemon found out that it cannot serve.
const TURNED_AWAY: Duration = Duration::from_millis(500);
/// How long the start waits for the first map: resolvers may be far away.
const FIRST_MAP: Duration = Duration::from_secs(2);
/// Nobody has looked for lookups for so long: every thread is stuck, because no answer takes longer than 20 seconds.
const STUCK: Duration = Duration::from_secs(30);
/// How often the main thread looks around without a watchdog.
const LOOK_AROUND: Duration = Duration::from_secs(60);

/// Why the daemon did not start.
#[derive(Debug)]
pub(super) enum DaemonError {
    /// Settings or databases.
    Scope(ScopeError),
    /// Sockets or lock.
    Socket(SocketError),
    /// The system is out of something.
    System(std::io::Error),
}

impl DaemonError {
    /// Whether starting again without a change by the administrator is useless.
    pub(super) fn is_for_the_administrator(&self) -> bool {
        matches!(self, Self::Scope(ScopeError::Settings(_)))
    }
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scope(error) => error.fmt(f),
            Self::Socket(error) => error.fmt(f),
            Self::System(error) => write!(f, "the system is out of something: {error}"),
        }
    }
}

impl std::error::Error for DaemonError {}

impl From<std::io::Error> for DaemonError {
    fn from(error: std::io::Error) -> Self {
        Self::System(error)
    }
}

/// Serves until TERM or INT.
///
/// # Errors
/// Every [`DaemonError`]; nothing has been served then.
pub(super) fn serve(log: &Arc<Log>) -> Result<(), DaemonError> {
    raise_descriptor_limit();
    let auth = AuthListener::claim().map_err(DaemonError::Socket)?;
    let since = SystemClock.now();
    let scope = match Scope::open(Arc::clone(log), Some(since)) {
        Ok(scope) => Arc::new(scope),
        Err(error) => {
            auth.turn_away(&error.to_string());
            return Err(DaemonError::Scope(error));
        }
    };
    // Before the first thread, so that no signal ends the process any more.
    let mut signals = Signals::register()?;
    let running = Running::start(scope, auth)?;
    notify(&[NotifyState::Ready, NotifyState::Status("Serving logins and lookups.")]);
    log.info("serving logins and lookups");
    running.attend(&mut signals)?;
    notify(&[NotifyState::Stopping, NotifyState::Status("Waiting for the last logins.")]);
    running.end();
    Ok(())
}

/// `auth.sock` and the right to serve it.
struct AuthListener {
    listener: UnixListener,
    ours: Option<Published>,
    lock: OwnedFd,
}

impl AuthListener {
    fn claim() -> Result<Self, SocketError> {
        let path = Path::new(paths::AUTH_SOCKET);
        let activated = sockets::activated()?;
        if activated.is_none() {
            sockets::refuse_if_served(path)?;
        }
        let lock = sockets::lock(Path::new(LOCK))?;
        Ok(match activated {
            Some(listener) => Self { listener, ours: None, lock },
            None => {
                let (listener, ours) = sockets::publish(path)?;
                Self { listener, ours: Some(ours), lock }
            }
        })
    }

    /// Tells those who have connected already that nothing can be decided, and root why. Left waiting, they would make
    /// systemd start the daemon again and again, until it gives the socket up.
    fn turn_away(self, reason: &str) {
        let deadline = Instant::now() + FIRST_REQUEST;
        if self.listener.set_nonblocking(true).is_err() {
            return;
        }
        while let Ok((socket, _)) = self.listener.accept() {
            let mut stream = Stream::new(socket);
            // What fails here concerns one peer, who is turned away in any case.
            let _ = stream.receive_request(deadline.min(Instant::now() + TURNED_AWAY)).and_then(|request| {
                let peer = stream.peer()?;
                endpoints::turn_away(&mut stream, peer, &request, reason)
            });
        }
    }
}

struct Running {
    scope: Arc<Scope>,
    auth: Workers,
    lookup: Workers,
    /// Removed from their paths before the lock is given back.
    published: Vec<Published>,
    lock: OwnedFd,
}

impl Running {
    /// Logins are served at once; lookups when the first map has been tried, because until then a module that finds no
    /// socket fails fast.
    fn start(scope: Arc<Scope>, auth: AuthListener) -> Result<Self, DaemonError> {
        let AuthListener { listener, ours, lock } = auth;
        let workers = |name, most, room, service| {
            Workers::start(name, most, room, service, Arc::clone(&scope.stop), Arc::clone(&scope.log))
        };
        let serve_auth = Box::new(AuthSocket(Arc::clone(&scope)));
        let auth = workers("auth", AUTH_THREADS, Room::new(listener)?, serve_auth)?;
        Refiller::start(Arc::clone(&scope))?;
        Refresher::start(Arc::clone(&scope))?.wait_for_first(FIRST_MAP);
        let (listener, published) =
            sockets::publish(Path::new(paths::LOOKUP_SOCKET)).map_err(DaemonError::Socket)?;
        let serve_lookups = Box::new(LookupSocket(Arc::clone(&scope)));
        let lookup = workers("lookup", LOOKUP_THREADS, Room::new(listener)?, serve_lookups)?;
        let published = ours.into_iter().chain([published]).collect();
        Ok(Self { scope, auth, lookup, published, lock })
    }

    /// Waits for signals; tells systemd's watchdog that lookups are looked after.
    fn attend(&self, signals: &mut Signals) -> std::io::Result<()> {
        let watchdog = sd_notify::watchdog_enabled();
        let pause = watchdog.map_or(LOOK_AROUND, |watchdog| watchdog / 3);
        loop {
            match signals.wait(pause)? {
                Some(Signal::Stop) => return Ok(()),
                Some(Signal::Reload) => self.reload(),
                None => {}
            }
            if watchdog.is_some() && self.lookup.unattended_for() < STUCK {
                notify(&[NotifyState::Watchdog]);
            }
        }
    }

    fn reload(&self) {
        match self.scope.reload() {
            Ok(()) => self.scope.log.info("settings read again"),
            Err(error) => self.scope.log.error(&format!("the settings in force stay: {error}")),
        }
        self.scope.wake.cause(Reason::Now);
    }

    /// Takes nobody in any more and lets running logins come to their end.
    fn end(self) {
        drop(self.published);
        self.scope.stop.raise();
        // Deciding what was already answered takes a moment more than waiting for the answer.
        let deadline = Instant::now() + GRACE + Duration::from_secs(2);
        let is_complete = self.auth.ended_before(deadline)
            && self.lookup.ended_before(deadline)
            && self.scope.refiller.is_idle_before(deadline);
        let text = if is_complete { "ended" } else { "ended, though some requests were not answered" };
        self.scope.log.info(text);
        drop(self.lock);
    }
}

/// Not started by systemd, or it does not listen: nobody to tell.
fn notify(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}

/// Room for silent connections beside those that are served; the usual soft limit of 1024 is for select(2).
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(4096, |maximum| maximum.min(4096));
    if current.is_some_and(|current| current < wanted) {
        // Fewer seats, that is all.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}
