//! The threads that serve a socket.
//!
//! One of them, the leader, is in the waiting room; when a request is whole it leaves the room to the next idle thread
//! and serves the request itself. So a request is never handed from thread to thread, which would cost more than a
//! local check does. Threads are started when they are missed, up to a limit; then connections wait in the backlog.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::journal::Log;
use super::room::{Room, Visitor};
use super::stop::Stop;

/// A thread's stack. Only what is touched costs memory; TLS and SQLite need some.
const STACK: usize = 1024 * 1024;

/// What a thread does with a request.
pub(super) trait Serve: Send + Sync {
    /// Answers. A panic in here costs this connection only.
    fn serve(&self, visitor: Visitor);
}

/// A socket's threads.
pub(super) struct Workers(Arc<Shared>);

struct Shared {
    name: &'static str,
    most: usize,
    room: Mutex<Room>,
    service: Box<dyn Serve>,
    stop: Arc<Stop>,
    log: Arc<Log>,
    started: Instant,
    /// Threads that are in the room or wait before it.
    idle: AtomicUsize,
    /// Milliseconds after `started`.
    last_seen_alive: AtomicU64,
    running: Mutex<usize>,
    one_ended: Condvar,
}

impl Workers {
    /// Starts with one thread.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(
        name: &'static str,
        most: usize,
        room: Room,
        service: Box<dyn Serve>,
        stop: Arc<Stop>,
        log: Arc<Log>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            name,
            most,
            room: Mutex::new(room),
            service,
            stop,
            log,
            started: Instant::now(),
            idle: AtomicUsize::new(0),
            last_seen_alive: AtomicU64::new(0),
            running: Mutex::new(0),
            one_ended: Condvar::new(),
        });
        shared.start_thread()?;
        Ok(Self(shared))
    }

    /// How long ago somebody looked into the room. Long: every thread is busy, or stuck.
    #[must_use]
    pub(super) fn unattended_for(&self) -> Duration {
        let seen = Duration::from_millis(self.0.last_seen_alive.load(Ordering::Relaxed));
        self.0.started.elapsed().saturating_sub(seen)
    }

    /// Waits until every thread has ended; [`Stop`] must have been raised. False: some had not at `deadline`.
    #[must_use]
    pub(super) fn ended_before(&self, deadline: Instant) -> bool {
        let mut running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        while *running > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            running = self.0.one_ended.wait_timeout(running, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Shared {
    fn start_thread(self: &Arc<Self>) -> std::io::Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if *running >= self.most {
            return Ok(());
        }
        let shared = Arc::clone(self);
        std::thread::Builder::new().name(self.name.to_owned()).stack_size(STACK).spawn(move || {
            shared.work();
            *shared.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
            shared.one_ended.notify_all();
        })?;
        *running += 1;
        Ok(())
    }

    fn work(self: &Arc<Self>) {
        loop {
            self.idle.fetch_add(1, Ordering::SeqCst);
            let visitor = {
                let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
                room.next(&self.stop, &|| self.note_alive())
            };
            let left = self.idle.fetch_sub(1, Ordering::SeqCst) - 1;
            let Some(visitor) = visitor else { return };
            if left == 0 {
                if let Err(error) = self.start_thread() {
                    self.log.error(&format!("cannot start a thread, requests wait for each other: {error}"));
                }
            }
            if catch_unwind(AssertUnwindSafe(|| self.service.serve(visitor))).is_err() {
                self.log.error("a fault in the program ended a connection; the line before says where");
            }
        }
    }

    fn note_alive(&self) {
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_seen_alive.store(elapsed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::{Path, PathBuf};
    use std::sync::Barrier;

    use privacyidea_contract::wire::{Lookup, Reply, Request, Stream};

    use super::*;

    /// Meets the others at a barrier for uid 1, panics for uid 2, answers the rest.
    struct Meeting(Arc<Barrier>);

    impl Serve for Meeting {
        fn serve(&self, mut visitor: Visitor) {
            match visitor.request {
                Request::Lookup(Lookup::PasswdById(1)) => {
                    self.0.wait();
                }
                Request::Lookup(Lookup::PasswdById(2)) => panic!("a test's own fault"),
                _ => {}
            }
            visitor.stream.send_reply(&Reply::NotFound, soon()).unwrap();
        }
    }

    struct Scene {
        _directory: tempfile::TempDir,
        path: PathBuf,
        stop: Arc<Stop>,
        workers: Workers,
    }

    fn scene(most: usize, barrier: Arc<Barrier>) -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let room = Room::new(UnixListener::bind(&path).unwrap()).unwrap();
        let stop = Arc::new(Stop::new().unwrap());
        let log = Arc::new(Log::to_standard_error());
        let workers =
            Workers::start("test", most, room, Box::new(Meeting(barrier)), Arc::clone(&stop), log).unwrap();
        Scene { _directory: directory, path, stop, workers }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    fn ask(path: &Path, uid: u32) -> Stream {
        let mut stream = Stream::new(UnixStream::connect(path).unwrap());
        stream.send_request(&Request::Lookup(Lookup::PasswdById(uid)), soon()).unwrap();
        stream
    }

    #[test]
    fn threads_are_started_as_they_are_missed_and_all_end() {
        let barrier = Arc::new(Barrier::new(4));
        let scene = scene(4, Arc::clone(&barrier));
        // Each blocks its thread until all four are there.
        let mut streams: Vec<_> = (0..4).map(|_| ask(&scene.path, 1)).collect();
        for stream in &mut streams {
            assert!(matches!(stream.receive_reply(soon()), Ok(Reply::NotFound)));
        }
        scene.stop.raise();
        assert!(scene.workers.ended_before(soon()));
    }

    #[test]
    fn a_panic_costs_its_own_connection_only() {
        let scene = scene(1, Arc::new(Barrier::new(1)));
        let mut unlucky = ask(&scene.path, 2);
        assert!(unlucky.receive_reply(soon()).is_err());
        assert!(matches!(ask(&scene.path, 3).receive_reply(soon()), Ok(Reply::NotFound)));
    }

    #[test]
    fn a_thread_that_does_not_end_is_not_waited_for_beyond_the_deadline() {
        let barrier = Arc::new(Barrier::new(2));
        let scene = scene(2, Arc::clone(&barrier));
        let _stuck = ask(&scene.path, 1);
        // Only when this is answered has the other thread certainly taken the first request.
        assert!(matches!(ask(&scene.path, 3).receive_reply(soon()), Ok(Reply::NotFound)));
        scene.stop.raise();
        assert!(!scene.workers.ended_before(Instant::now() + Duration::from_millis(50)));
        barrier.wait();
        assert!(scene.workers.ended_before(soon()));
    }
}
