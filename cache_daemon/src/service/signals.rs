//! Signals as something to wait for.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::stop::poll;

/// What the administrator or systemd wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// TERM, INT.
    Stop,
    /// HUP.
    Reload,
}

/// The signals that came and were not looked at yet.
pub(super) struct Signals {
    stop: UnixStream,
    reload: UnixStream,
}

impl Signals {
    /// From now on the signals do not end the process.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(super) fn register() -> std::io::Result<Self> {
        let (stop, write_stop) = UnixStream::pair()?;
        let (reload, write_reload) = UnixStream::pair()?;
        for signal in [SIGTERM, SIGINT] {
            signal_hook::low_level::pipe::register(signal, write_stop.try_clone()?)?;
        }
        signal_hook::low_level::pipe::register(SIGHUP, write_reload)?;
        stop.set_nonblocking(true)?;
        reload.set_nonblocking(true)?;
        Ok(Self { stop, reload })
    }

    /// Waits for a signal. None: there was none in time.
    ///
    /// # Errors
    /// poll(2) failed: no memory.
    pub(super) fn wait(&mut self, timeout: Duration) -> std::io::Result<Option<Signal>> {
        let mut waiting = [PollFd::new(&self.stop, PollFlags::IN), PollFd::new(&self.reload, PollFlags::IN)];
        poll(&mut waiting, timeout)?;
        let [stop, reload] = waiting.map(|descriptor| !descriptor.revents().is_empty());
        if stop {
            Ok(Some(Signal::Stop))
        } else if reload {
            // Several at once are one: take all bytes.
            while matches!(self.reload.read(&mut [0; 64]), Ok(1..)) {}
            Ok(Some(Signal::Reload))
        } else {
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_seen_once_and_the_end_comes_first() {
        let mut signals = Signals::register().unwrap();
        assert_eq!(signals.wait(Duration::ZERO).unwrap(), None);
        for _ in 0..3 {
            signal_hook::low_level::raise(SIGHUP).unwrap();
        }
        assert_eq!(signals.wait(Duration::from_secs(10)).unwrap(), Some(Signal::Reload));
        assert_eq!(signals.wait(Duration::ZERO).unwrap(), None);
        signal_hook::low_level::raise(SIGHUP).unwrap();
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert_eq!(signals.wait(Duration::from_secs(10)).unwrap(), Some(Signal::Stop));
    }
}
