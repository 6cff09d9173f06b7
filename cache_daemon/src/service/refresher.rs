//! The thread that keeps the cache and the lookup map fresh, and state.db's copy with them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use super::clock::Clock;
use super::daily_copy::DailyCopy;
use super::scope::Scope;
use super::wake::Reason;

/// The longest wait at a stretch: the time of day may be changed meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The shortest, so that a directory that is always due does not keep a processor busy.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// Ends with the process; [`Scope::wake`] wakes it.
pub(super) struct Refresher {
    first: Receiver<()>,
}

impl Refresher {
    /// Starts the thread, and in it the first refresh.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(scope: Arc<Scope>) -> std::io::Result<Self> {
        let (done, first) = sync_channel(1);
        std::thread::Builder::new().name("refresher".to_owned()).spawn(move || {
            let mut copy = DailyCopy::default();
            refresh(&scope, &mut copy);
            drop(done);
            loop {
                wait_until_due(&scope);
                refresh(&scope, &mut copy);
            }
        })?;
        Ok(Self { first })
    }

    /// Waits for the end of the first refresh, however it went, but no longer than `patience`.
    pub(super) fn wait_for_first(&self, patience: Duration) {
        // The sender is only ever dropped.
        let _ = self.first.recv_timeout(patience);
    }
}

fn refresh(scope: &Scope, copy: &mut DailyCopy) {
    let configured = scope.configured();
    let refreshed = catch_unwind(AssertUnwindSafe(|| configured.directory.refresh(scope.clock.now())));
    if refreshed.is_err() {
        scope.log.error("a fault in the program ended a refresh; the line before says where");
    }
    configured.write_notices(&scope.log);
    copy.make_if_due(&scope.state, scope.clock.now(), &scope.log);
}

fn wait_until_due(scope: &Scope) {
    let due = || scope.configured().directory.refresh_due(scope.clock.now());
    loop {
        let left = Duration::from_secs(due().saturating_sub(scope.clock.now()));
        let reason = scope.wake.wait(left.clamp(SHORTEST_WAIT, LONGEST_WAIT));
        if reason == Reason::Now || due() <= scope.clock.now() {
            return;
        }
    }
}
