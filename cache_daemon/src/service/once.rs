//! `privacyidea-cached --once`: one connection, on standard input, for when no daemon can be reached.

use std::fmt;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use privacyidea_contract::wire::{PeerCredentials, Request, Stream, StreamError, Verdict};
use rustix::net::{AddressFamily, SocketType, sockopt};

use super::conversation::PEER;
use super::endpoints::{authenticate, refusal, send_document};
use super::journal::Log;
use super::room::FIRST_REQUEST;
use super::scope::Scope;
use crate::administration::Answer;

/// Why the connection was not served to its end.
#[derive(Debug)]
pub(super) enum OnceError {
    /// Start it otherwise: standard input is not a connected UNIX stream socket.
    NoSocket,
    /// The peer went away or is none of ours.
    Peer(StreamError),
}

impl fmt::Display for OnceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSocket => f.write_str(
                "--once needs a connected UNIX stream socket as standard input; it is for programs",
            ),
            Self::Peer(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OnceError {}

/// Serves standard input's connection as `auth.sock` would be served.
///
/// # Errors
/// Every [`OnceError`].
pub(super) fn serve(log: &Arc<Log>) -> Result<(), OnceError> {
    let (mut stream, peer) = standard_input()?;
    let request = stream.receive_request(Instant::now() + FIRST_REQUEST).map_err(OnceError::Peer)?;
    respond(log, &mut stream, peer, request).map_err(OnceError::Peer)
}

fn respond(
    log: &Arc<Log>,
    stream: &mut Stream,
    peer: PeerCredentials,
    request: Request,
) -> Result<(), StreamError> {
    match Scope::open(Arc::clone(log), None) {
        Ok(scope) => authenticate(&scope, stream, peer, request),
        Err(error) => {
            log.error(&error.to_string());
            // The administrator is at the other end: a command hears the reason as well.
            if matches!(request, Request::Administration(_)) && peer.uid == 0 {
                return send_document(stream, &Answer::Refused { reason: error.to_string() });
            }
            stream.send_reply(&refusal(&request, Verdict::Failed), Instant::now() + PEER)
        }
    }
}

fn standard_input() -> Result<(Stream, PeerCredentials), OnceError> {
    let input = std::io::stdin();
    let is_ours = sockopt::socket_domain(&input) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(&input) == Ok(SocketType::STREAM);
    if !is_ours {
        return Err(OnceError::NoSocket);
    }
    let socket = input.as_fd().try_clone_to_owned().map_err(|_| OnceError::NoSocket)?;
    let stream = Stream::new(UnixStream::from(socket));
    let peer = stream.peer().map_err(|_| OnceError::NoSocket)?;
    Ok((stream, peer))
}
