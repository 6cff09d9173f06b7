//! Frames over a UNIX stream socket, with a deadline on every step.

use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use zeroize::Zeroizing;

use super::codec::{FRAME_LENGTH_MAX, Version, WireError};
use super::message::{Reply, Request};

/// Why nothing came, or nothing could be said.
#[derive(Debug)]
pub enum StreamError {
    /// The peer closed the connection.
    Closed,
    /// The deadline passed.
    TimedOut,
    /// The socket failed.
    Socket(std::io::Error),
    /// The peer said something that is no message.
    Wire(WireError),
}

impl std::fmt::Display for StreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the peer closed the connection"),
            Self::TimedOut => f.write_str("the peer did not answer in time"),
            Self::Socket(error) => write!(f, "the socket failed: {error}"),
            Self::Wire(error) => write!(f, "the peer sent no message: {error}"),
        }
    }
}

impl std::error::Error for StreamError {}

impl From<WireError> for StreamError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl From<std::io::Error> for StreamError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::TimedOut,
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Self::Closed,
            _ => Self::Socket(error),
        }
    }
}

/// Who is at the other end, as the kernel says (SO_PEERCRED): for a listening peer, who called listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// Effective user id at connect or listen time.
    pub uid: u32,
    /// Effective group id at that time: in su and sudo, which are set-user-ID only, the group of their caller.
    pub gid: u32,
    /// Process id; 0 for a peer in another pid namespace.
    pub pid: i32,
}

/// A connection that carries frames.
pub struct Stream {
    socket: UnixStream,
    /// What replies are written in.
    version: Version,
}

impl Stream {
    /// Takes over a connected socket.
    #[must_use]
    pub fn new(socket: UnixStream) -> Self {
        Self { socket, version: Version::NEWEST }
    }

    /// Connects within `timeout`. The socket's send timeout is set first, because connect(2) on a UNIX socket whose
    /// backlog is full blocks for as long as that.
    ///
    /// # Errors
    /// Nothing was sent in any case.
    pub fn connect(path: &Path, timeout: Duration) -> Result<Self, StreamError> {
        let deadline = Instant::now() + timeout;
        let address = SocketAddrUnix::new(path).map_err(std::io::Error::from)?;
        let socket: OwnedFd =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .map_err(std::io::Error::from)?;
        let socket = UnixStream::from(socket);
        loop {
            socket.set_write_timeout(Some(remaining(deadline)?))?;
            match rustix::net::connect(&socket, &address) {
                Ok(()) => return Ok(Self::new(socket)),
                // A signal while it waited for a place in the backlog; with a timeout it is not restarted.
                Err(Errno::INTR) => {}
                Err(error) => return Err(std::io::Error::from(error).into()),
            }
        }
    }

    /// The peer's credentials.
    ///
    /// # Errors
    /// The socket is not connected.
    pub fn peer(&self) -> Result<PeerCredentials, StreamError> {
        Ok(peer_credentials(&self.socket)?)
    }

    /// The version of the last request: what replies are written in.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Writes replies in `version`, that of a request which was read otherwise than by
    /// [`receive_request`](Self::receive_request).
    pub fn speak(&mut self, version: Version) {
        self.version = version;
    }

    /// Sends a request.
    ///
    /// # Errors
    /// Every [`StreamError`]; part of the request may have been sent.
    pub fn send_request(&mut self, request: &Request, deadline: Instant) -> Result<(), StreamError> {
        self.send(&request.encode()?, deadline)
    }

    /// Sends a reply, in the version that the peer speaks.
    ///
    /// # Errors
    /// Every [`StreamError`]; part of the reply may have been sent.
    pub fn send_reply(&mut self, reply: &Reply, deadline: Instant) -> Result<(), StreamError> {
        self.send(&reply.encode_in(self.version)?, deadline)
    }

    /// Waits for a request.
    ///
    /// # Errors
    /// Every [`StreamError`].
    pub fn receive_request(&mut self, deadline: Instant) -> Result<Request, StreamError> {
        let (request, version) = Request::decode(&self.receive(deadline)?)?;
        self.version = version;
        Ok(request)
    }

    /// Waits for a reply.
    ///
    /// # Errors
    /// Every [`StreamError`].
    pub fn receive_reply(&mut self, deadline: Instant) -> Result<Reply, StreamError> {
        Ok(Reply::decode(&self.receive(deadline)?)?)
    }

    /// The socket, to wait on or to hand over.
    #[must_use]
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    fn send(&mut self, mut frame: &[u8], deadline: Instant) -> Result<(), StreamError> {
        while !frame.is_empty() {
            self.socket.set_write_timeout(Some(remaining(deadline)?))?;
            // Not `write`: with Debian 13's compiler that raises SIGPIPE, which ends the program that a module is in.
            match rustix::net::send(&self.socket, frame, SendFlags::NOSIGNAL) {
                Ok(0) => return Err(StreamError::Closed),
                Ok(sent) => frame = &frame[sent..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(std::io::Error::from(error).into()),
            }
        }
        Ok(())
    }

    fn receive(&mut self, deadline: Instant) -> Result<Zeroizing<Vec<u8>>, StreamError> {
        let mut length = [0; 4];
        self.fill(&mut length, deadline)?;
        let length = usize::try_from(u32::from_le_bytes(length)).map_err(|_| WireError::TooLong)?;
        if length > FRAME_LENGTH_MAX {
            return Err(WireError::TooLong.into());
        }
        let mut frame = Zeroizing::new(vec![0; length]);
        self.fill(&mut frame, deadline)?;
        Ok(frame)
    }

    fn fill(&mut self, mut buffer: &mut [u8], deadline: Instant) -> Result<(), StreamError> {
        while !buffer.is_empty() {
            self.socket.set_read_timeout(Some(remaining(deadline)?))?;
            match self.socket.read(buffer) {
                Ok(0) => return Err(StreamError::Closed),
                Ok(received) => buffer = &mut buffer[received..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// SO_PEERCRED through libc: rustix's `UCred` holds the pid as a non-zero integer, which is undefined behaviour for a peer
/// in another pid namespace, whose pid the kernel gives as 0.
#[expect(unsafe_code, reason = "the binding of getsockopt")]
fn peer_credentials(socket: &UnixStream) -> std::io::Result<PeerCredentials> {
    let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    // SAFETY: the descriptor is open for the call, and the kernel writes at most `length` bytes into `credentials`, a
    // plain structure of integers of exactly that size.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    if status == 0 {
        Ok(PeerCredentials { uid: credentials.uid, gid: credentials.gid, pid: credentials.pid })
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// The time left; never zero, which a socket reads as "for ever".
fn remaining(deadline: Instant) -> Result<Duration, StreamError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(StreamError::TimedOut) } else { Ok(left.max(Duration::from_millis(1))) }
}
