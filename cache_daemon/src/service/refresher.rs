//! The thread that keeps the cache and the lookup map fresh, and state.db's copy with them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::clock::Clock;
use super::scope::Scope;

/// The longest wait at a stretch: the time of day may be changed meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The shortest, so that a directory that is always due does not keep a processor busy.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// Ends with the process, or when dropped and the refresh that is going on has ended.
pub(super) struct Refresher {
    wake: SyncSender<()>,
    first: Receiver<()>,
}

impl Refresher {
    /// Starts the thread, and in it the first refresh.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(scope: Arc<Scope>) -> std::io::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let (done, first) = sync_channel(1);
        std::thread::Builder::new().name("refresher".to_owned()).spawn(move || {
            refresh(&scope);
            drop(done);
            while wait_until_due(&scope, &woken) {
                refresh(&scope);
            }
        })?;
        Ok(Self { wake, first })
    }

    /// Waits for the end of the first refresh, however it went, but no longer than `patience`.
    pub(super) fn wait_for_first(&self, patience: Duration) {
        // The sender is only ever dropped.
        let _ = self.first.recv_timeout(patience);
    }

    /// Does not wait until the refresh is due.
    pub(super) fn refresh_now(&self) {
        // Full: somebody has asked already.
        let _ = self.wake.try_send(());
    }
}

fn refresh(scope: &Scope) {
    let configured = scope.configured();
    let refreshed = catch_unwind(AssertUnwindSafe(|| configured.directory.refresh(scope.clock.now())));
    if refreshed.is_err() {
        scope.log.error("a fault in the program ended a refresh; the line before says where");
    }
    configured.write_notices(&scope.log);
    super::daily_copy::make_if_due(&scope.state, scope.clock.now(), &scope.log);
}

/// False: the service ends.
fn wait_until_due(scope: &Scope, woken: &Receiver<()>) -> bool {
    loop {
        let now = scope.clock.now();
        let due = scope.configured().directory.refresh_due(now);
        let left = Duration::from_secs(due.saturating_sub(now)).clamp(SHORTEST_WAIT, LONGEST_WAIT);
        match woken.recv_timeout(left) {
            Ok(()) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = scope.clock.now();
        if scope.configured().directory.refresh_due(now) <= now {
            return true;
        }
    }
}
