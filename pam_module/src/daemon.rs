//! Reaching the daemon, or starting one for this login.

use std::path::{Path, PathBuf};
use std::time::Duration;

use privacyidea_contract::paths;
use privacyidea_contract::wire::{STEP, Stream};

use crate::accounts;
use crate::codes::Failure;
use crate::once::Once;

/// How long connecting may take; only a daemon with a full backlog lets anybody wait.
const CONNECT: Duration = Duration::from_secs(1);

/// Where the daemon is.
pub(crate) struct Daemon {
    socket: PathBuf,
    /// What to start with `--once` where nobody listens.
    program: Option<PathBuf>,
    /// How long it may take for one step.
    pub(crate) patience: Duration,
}

/// A connection, with the daemon that was started for it, if one was. The stream is closed first, so that this daemon
/// sees the end and ends too.
pub(crate) struct Connection {
    stream: Stream,
    _once: Option<Once>,
}

impl Daemon {
    /// The host's daemon.
    pub(crate) fn usual() -> Self {
        Self {
            socket: PathBuf::from(paths::AUTH_SOCKET),
            program: Some(PathBuf::from(paths::DAEMON)),
            patience: STEP,
        }
    }

    /// A daemon with another socket. None is started in its place: it would read other databases.
    pub(crate) fn only_at(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), program: None, patience: STEP }
    }

    /// Connects. Nothing has been sent when this returns, so a second way may be tried in here, and nowhere later.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] or [`Failure::Impostor`].
    pub(crate) fn connect(&self) -> Result<Connection, Failure> {
        match Stream::connect(&self.socket, CONNECT) {
            Ok(stream) => {
                check_peer(&stream)?;
                Ok(Connection { stream, _once: None })
            }
            Err(error) => self.start(&error.to_string()),
        }
    }

    fn start(&self, why: &str) -> Result<Connection, Failure> {
        let unavailable = |reason: String| Failure::Unavailable(format!("{why}; {reason}"));
        let Some(program) = &self.program else {
            return Err(unavailable("none is started for the argument socket=".to_owned()));
        };
        if accounts::own_uid() != 0 {
            return Err(unavailable("only root may start one".to_owned()));
        }
        let (stream, once) = Once::start(program).map_err(|error| {
            unavailable(format!("{} --once cannot be started: {error}", program.display()))
        })?;
        Ok(Connection { stream, _once: Some(once) })
    }
}

impl Connection {
    /// The connected stream.
    pub(crate) fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }
}

fn check_peer(stream: &Stream) -> Result<(), Failure> {
    let peer = stream.peer().map_err(|error| Failure::Unavailable(error.to_string()))?;
    if peer.is_daemon() { Ok(()) } else { Err(Failure::Impostor { uid: peer.uid }) }
}
