//! The waiting room before the workers: connections whose first request is not here yet cost a descriptor each, never a
//! thread. Whoever says nothing is shown out after a while, and nobody takes more than their share of seats.

use std::collections::HashMap;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use privacyidea_contract::wire::{FRAME_LENGTH_MAX, PeerCredentials, Request, Stream};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SocketFlags};
use zeroize::Zeroizing;

use super::stop::{Stop, poll};

/// How long a connection may take for its first request.
pub(super) const FIRST_REQUEST: Duration = Duration::from_secs(5);
/// Seats for everybody together.
const SEATS: usize = 512;
/// Seats for each user who is not root.
const SEATS_PER_USER: usize = 32;
/// Connections taken in before those that wait are looked at again.
const ACCEPTED_AT_ONCE: usize = 16;
/// How long nobody is let in when the process has no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest wait at a stretch, so that the watchdog sees life.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A connection with its first request.
pub(super) struct Visitor {
    /// To answer on.
    pub(super) stream: Stream,
    /// Who it is, as the kernel says.
    pub(super) peer: PeerCredentials,
    /// What they want.
    pub(super) request: Request,
}

/// A listening socket and those who have connected to it.
pub(super) struct Room {
    listener: UnixListener,
    waiting: Vec<Waiting>,
    closed_until: Option<Instant>,
}

struct Waiting {
    stream: Stream,
    peer: PeerCredentials,
    until: Instant,
    /// The frame, its four length bytes in front; as long as what is known to come.
    frame: Zeroizing<Vec<u8>>,
    received: usize,
}

#[expect(clippy::large_enum_variant, reason = "it is taken apart where it comes from")]
enum Progress {
    Incomplete,
    Complete(Request),
    /// Closed, broken, or no message of ours.
    Gone,
}

impl Room {
    /// Takes over a listening socket.
    ///
    /// # Errors
    /// It cannot be made non-blocking.
    pub(super) fn new(listener: UnixListener) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener, waiting: Vec::new(), closed_until: None })
    }

    /// Waits for the next connection whose first request is whole. None: the service ends.
    ///
    /// `alive` is called whenever the room has looked around, every few seconds at least.
    pub(super) fn next(&mut self, stop: &Stop, alive: &dyn Fn()) -> Option<Visitor> {
        while !stop.is_raised() {
            alive();
            let now = Instant::now();
            self.waiting.retain(|waiting| waiting.until > now);
            let (is_knocking, ready) = self.look(stop, now);
            if let Some(visitor) = self.first_complete(&ready) {
                return Some(visitor);
            }
            if is_knocking {
                if let Some(visitor) = self.let_in() {
                    return Some(visitor);
                }
            }
        }
        None
    }

    /// Waits until something happens: whether somebody wants to connect, and which of those that wait have said
    /// something.
    fn look(&self, stop: &Stop, now: Instant) -> (bool, Vec<bool>) {
        let bell = stop.bell();
        let is_open = self.closed_until.is_none_or(|until| until <= now);
        let knocking = if is_open { PollFlags::IN } else { PollFlags::empty() };
        let mut descriptors = vec![PollFd::new(&bell, PollFlags::IN), PollFd::new(&self.listener, knocking)];
        descriptors
            .extend(self.waiting.iter().map(|waiting| PollFd::new(waiting.stream.socket(), PollFlags::IN)));
        let reopening = self.closed_until.filter(|_| !is_open);
        let first = self.waiting.iter().map(|waiting| waiting.until).chain(reopening).min();
        let timeout =
            first.map_or(LONGEST_WAIT, |until| until.saturating_duration_since(now).min(LONGEST_WAIT));
        if poll(&mut descriptors, timeout).is_err() {
            // No memory in the kernel: look again, those who wait lose nothing.
            return (false, vec![false; self.waiting.len()]);
        }
        let mut happened = descriptors.iter().map(|descriptor| !descriptor.revents().is_empty()).skip(1);
        (happened.next().unwrap_or(false) && is_open, happened.collect())
    }

    /// Reads what those in `ready` have said until one request is whole. Who is left over is `ready` again next time.
    fn first_complete(&mut self, ready: &[bool]) -> Option<Visitor> {
        // From the end, because `swap_remove` brings the last one forward.
        for index in (0..ready.len()).rev().filter(|index| ready[*index]) {
            match self.waiting[index].read() {
                Progress::Incomplete => {}
                Progress::Gone => {
                    self.waiting.swap_remove(index);
                }
                Progress::Complete(request) => {
                    let Waiting { stream, peer, .. } = self.waiting.swap_remove(index);
                    return Some(Visitor { stream, peer, request });
                }
            }
        }
        None
    }

    /// Accepts connections; most have said what they want already.
    fn let_in(&mut self) -> Option<Visitor> {
        for _ in 0..ACCEPTED_AT_ONCE {
            match rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    let mut waiting = Waiting::new(socket.into())?;
                    match waiting.read() {
                        Progress::Complete(request) => {
                            let Waiting { stream, peer, .. } = waiting;
                            return Some(Visitor { stream, peer, request });
                        }
                        Progress::Incomplete => self.seat(waiting),
                        Progress::Gone => {}
                    }
                }
                Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE | rustix::io::Errno::NOMEM) => {
                    self.show_out_the_oldest();
                    self.closed_until = Some(Instant::now() + PAUSE);
                    return None;
                }
                // Nobody there any more.
                Err(_) => return None,
            }
        }
        None
    }

    /// Root always finds a seat; others only within their share.
    fn seat(&mut self, newcomer: Waiting) {
        let is_root = newcomer.peer.uid == 0;
        let theirs = self.waiting.iter().filter(|waiting| waiting.peer.uid == newcomer.peer.uid).count();
        let is_full = self.waiting.len() >= SEATS;
        if is_root && is_full {
            self.show_out_the_oldest();
        } else if !is_root && (is_full || theirs >= SEATS_PER_USER) {
            return;
        }
        self.waiting.push(newcomer);
    }

    /// The one that has waited longest among those who are not root, else among all.
    fn show_out_the_oldest(&mut self) {
        let oldest = (0..self.waiting.len())
            .min_by_key(|index| (self.waiting[*index].peer.uid == 0, self.waiting[*index].until));
        if let Some(index) = oldest {
            self.waiting.swap_remove(index);
        }
    }
}

impl Waiting {
    /// None: the peer is gone.
    fn new(socket: UnixStream) -> Option<Self> {
        let stream = Stream::new(socket);
        let peer = stream.peer().ok()?;
        let until = Instant::now() + FIRST_REQUEST;
        Some(Self { stream, peer, until, frame: Zeroizing::new(vec![0; 4]), received: 0 })
    }

    /// Takes what has arrived, and not one byte beyond the frame.
    fn read(&mut self) -> Progress {
        loop {
            if self.received == self.frame.len() {
                if self.frame.len() > 4 {
                    let Ok((request, version)) = Request::decode(&self.frame[4..]) else {
                        return Progress::Gone;
                    };
                    self.stream.speak(version);
                    return Progress::Complete(request);
                }
                match self.announced() {
                    // The length bytes hold no secret, so the growth leaves none behind.
                    Some(length) => self.frame.resize(4 + length, 0),
                    None => return Progress::Gone,
                }
            }
            let socket = self.stream.socket();
            match rustix::net::recv(socket, &mut self.frame[self.received..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Progress::Gone,
                Ok((received, _)) => self.received += received,
                Err(rustix::io::Errno::AGAIN) => return Progress::Incomplete,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Progress::Gone,
            }
        }
    }

    /// The frame's length, as its first four bytes have it; none if no frame can be so long, or so short.
    fn announced(&self) -> Option<usize> {
        let bytes = self.frame.first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*bytes)).ok()?;
        (1..=FRAME_LENGTH_MAX).contains(&length).then_some(length)
    }
}

/// Whose share of the workers a connection takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Share {
    /// Programs that root runs (sshd, login): always served.
    Root,
    /// A user who is not root, by uid.
    User(u32),
    /// What users call to become root (su, sudo), by their group: a prompt of it is held open by anybody, as often as
    /// they like, but set-user-ID leaves the caller's group.
    Called(u32),
}

impl Share {
    /// Whose a connection of `peer` is.
    pub(super) fn of(peer: PeerCredentials) -> Self {
        match peer {
            PeerCredentials { uid: 0, gid: 0, .. } => Self::Root,
            PeerCredentials { uid: 0, gid, .. } => Self::Called(gid),
            PeerCredentials { uid, .. } => Self::User(uid),
        }
    }
}

/// Who is being served, so that nobody but root holds more than their share of the workers.
#[derive(Default)]
pub(super) struct Attendance(std::sync::Mutex<HashMap<Share, usize>>);

/// A place at a worker, given back when dropped.
pub(super) struct Place<'a> {
    attendance: &'a Attendance,
    share: Share,
}

impl Attendance {
    /// None: the share, or all shares of its kind together, have as many places as they may have.
    pub(super) fn enter(&self, share: Share, each: usize, together: usize) -> Option<Place<'_>> {
        let mut served = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if share != Share::Root {
            let kind = std::mem::discriminant(&share);
            let alike = served.iter().filter(|(share, _)| std::mem::discriminant(*share) == kind);
            let all: usize = alike.map(|(_, count)| *count).sum();
            if all >= together || served.get(&share).is_some_and(|count| *count >= each) {
                return None;
            }
        }
        *served.entry(share).or_default() += 1;
        Some(Place { attendance: self, share })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut served = self.attendance.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(count) = served.get_mut(&self.share) {
            *count -= 1;
            if *count == 0 {
                served.remove(&self.share);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use privacyidea_contract::wire::Lookup;

    use super::*;

    struct Scene {
        _directory: tempfile::TempDir,
        path: std::path::PathBuf,
        room: Room,
        stop: Stop,
    }

    fn scene() -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let room = Room::new(UnixListener::bind(&path).unwrap()).unwrap();
        Scene { _directory: directory, path, room, stop: Stop::new().unwrap() }
    }

    fn frame(uid: u32) -> Vec<u8> {
        Request::Lookup(Lookup::PasswdById(uid)).encode().unwrap().to_vec()
    }

    fn asked(visitor: Visitor) -> u32 {
        match visitor.request {
            Request::Lookup(Lookup::PasswdById(uid)) => uid,
            _ => panic!("another request"),
        }
    }

    fn is_closed(mut socket: &UnixStream) -> bool {
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        matches!(socket.read(&mut [0]), Ok(0))
    }

    #[test]
    fn those_who_say_nothing_do_not_keep_others_waiting() {
        let mut scene = scene();
        let _silent: Vec<_> = (0..100).map(|_| UnixStream::connect(&scene.path).unwrap()).collect();
        let mut half = UnixStream::connect(&scene.path).unwrap();
        half.write_all(&frame(1)[..7]).unwrap();
        let mut whole = UnixStream::connect(&scene.path).unwrap();
        whole.write_all(&frame(2)).unwrap();
        assert_eq!(asked(scene.room.next(&scene.stop, &|| {}).unwrap()), 2);
        half.write_all(&frame(1)[7..]).unwrap();
        assert_eq!(asked(scene.room.next(&scene.stop, &|| {}).unwrap()), 1);
    }

    #[test]
    fn rubbish_is_shown_out_and_the_rest_of_the_line_is_left_for_later() {
        let mut scene = scene();
        let rubbish: [&[u8]; 4] = [b"GET / HTTP/1.0\r\n\r\n", &[0; 4], &[0xff; 4], &[2, 0, 0, 0, 9, 9]];
        let guests: Vec<_> = rubbish
            .iter()
            .map(|bytes| {
                let mut socket = UnixStream::connect(&scene.path).unwrap();
                socket.write_all(bytes).unwrap();
                socket
            })
            .collect();
        let mut honest = UnixStream::connect(&scene.path).unwrap();
        honest.write_all(&[frame(3), frame(4)].concat()).unwrap();
        let mut visitor = scene.room.next(&scene.stop, &|| {}).unwrap();
        let far = Instant::now() + Duration::from_secs(10);
        assert!(matches!(visitor.stream.receive_request(far), Ok(Request::Lookup(Lookup::PasswdById(4)))));
        assert_eq!(asked(visitor), 3);
        // Unread bytes make a close a reset.
        for mut guest in guests {
            guest.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let end = guest.read(&mut [0]);
            assert!(
                matches!(&end, Ok(0))
                    || end.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset),
                "{end:?}"
            );
        }
    }

    #[test]
    fn the_room_is_left_when_the_service_ends() {
        let mut scene = scene();
        std::thread::scope(|scope| {
            let Scene { room, stop, .. } = &mut scene;
            let stop = &*stop;
            let leader = scope.spawn(move || room.next(stop, &|| {}).is_none());
            stop.raise();
            assert!(leader.join().unwrap());
        });
    }

    #[test]
    fn seats_are_shared_out_and_root_always_finds_one() {
        let mut scene = scene();
        let mut guests = Vec::new();
        let mut come = |room: &mut Room, uid: u32| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let mut waiting = Waiting::new(ours).unwrap();
            waiting.peer.uid = uid;
            room.seat(waiting);
            guests.push(theirs);
        };
        for _ in 0..SEATS_PER_USER + 5 {
            come(&mut scene.room, 1000);
        }
        assert_eq!(scene.room.waiting.len(), SEATS_PER_USER);
        for _ in 0..SEATS {
            come(&mut scene.room, 0);
        }
        assert_eq!(scene.room.waiting.len(), SEATS);
        assert!(scene.room.waiting.iter().all(|waiting| waiting.peer.uid == 0));
        come(&mut scene.room, 1001);
        assert!(is_closed(guests.last().unwrap()));
    }

    #[test]
    fn places_at_the_workers_are_shared_out_and_given_back() {
        let attendance = Attendance::default();
        let enter = |share| attendance.enter(share, 2, 3);
        let first = enter(Share::User(1000)).unwrap();
        let _second = enter(Share::User(1000)).unwrap();
        assert!(enter(Share::User(1000)).is_none());
        let third = enter(Share::User(1001)).unwrap();
        assert!(enter(Share::User(1002)).is_none());
        let _called = enter(Share::Called(1000)).unwrap();
        let _root: Vec<_> = (0..9).map(|_| enter(Share::Root).unwrap()).collect();
        drop((first, third));
        assert!(enter(Share::User(1000)).is_some());
    }
}
