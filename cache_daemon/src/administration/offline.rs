//! Offline tokens, as the command line sees them.

use super::{OfflineCounts, OfflineRecord};
use crate::service::clock::UnixSeconds;
use crate::settings::Settings;
use crate::store::{State, StoreError};
use crate::tokens::{Lock, OfflineToken};

/// The offline tokens, or those of one user.
///
/// # Errors
/// [`StoreError`]
pub(super) fn records(
    state: &State,
    user: Option<&str>,
    settings: &Settings,
    now: UnixSeconds,
) -> Result<Vec<OfflineRecord>, StoreError> {
    Ok(state.offline_tokens(user, 0)?.iter().map(|token| record(token, settings, now)).collect())
}

/// A token without its values.
#[must_use]
pub(super) fn record(token: &OfflineToken, settings: &Settings, now: UnixSeconds) -> OfflineRecord {
    let lock = token.failures.lock(&settings.lockout, now);
    let is_over = token.is_too_old(settings.offline.maximum_age, now);
    OfflineRecord {
        serial: token.serial.clone(),
        user: token.user.clone(),
        logins_left: if is_over { 0 } else { token.left },
        code_alone: token.code_alone,
        failcount: token.failures.count,
        locked: lock != Lock::Open,
        locked_until: match lock {
            Lock::Until(until) => Some(until),
            Lock::Open | Lock::UntilUnlocked => None,
        },
        fetched: token.fetched,
        expires: token.fetched.saturating_add(settings.offline.maximum_age.as_secs()),
        last_used: token.last_used,
    }
}

/// Counts the offline tokens.
///
/// # Errors
/// [`StoreError`]
pub(super) fn counts(
    state: &State,
    settings: &Settings,
    now: UnixSeconds,
) -> Result<OfflineCounts, StoreError> {
    let records = records(state, None, settings, now)?;
    Ok(OfflineCounts {
        enabled: settings.offline.enabled,
        tokens: records.len() as u64,
        logins_left: records.iter().map(|record| u64::from(record.logins_left)).sum(),
        fewest: records.iter().map(|record| record.logins_left).min(),
        locked: records.iter().filter(|record| record.locked).count() as u64,
    })
}
