//! Times for people, in the local time zone.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::service::clock::UnixSeconds;

/// Shows times as seen from now and here.
pub(super) struct Times {
    pub(super) now: UnixSeconds,
    pub(super) zone: TimeZone,
}

impl Times {
    /// `2026-12-01 05:25:51`
    pub(super) fn full(&self, time: UnixSeconds) -> String {
        self.format(time, "%Y-%m-%d %H:%M:%S")
    }

    /// `05:25` today, else with its date.
    pub(super) fn short(&self, time: UnixSeconds) -> String {
        let day = |time| self.format(time, "%F");
        self.format(time, if day(time) == day(self.now) { "%H:%M" } else { "%Y-%m-%d %H:%M" })
    }

    /// `2 minutes ago`
    pub(super) fn ago(&self, time: UnixSeconds) -> String {
        match self.now.saturating_sub(time) {
            0 => "just now".to_owned(),
            seconds => format!("{} ago", rounded(seconds)),
        }
    }

    /// `in 2 minutes`, or `expired`.
    pub(super) fn ahead(&self, time: UnixSeconds) -> String {
        match time.saturating_sub(self.now) {
            0 => "expired".to_owned(),
            seconds => format!("in {}", rounded(seconds)),
        }
    }

    fn format(&self, time: UnixSeconds, format: &str) -> String {
        let time = i64::try_from(time).ok().and_then(|time| Timestamp::from_second(time).ok());
        time.map_or_else(
            || "(no time)".to_owned(),
            |time| time.to_zoned_datetime(self.zone.clone()).strftime(format).to_string(),
        )
    }
}

/// The biggest unit that does not say less than the half: `90 seconds`, `2 minutes`.
fn rounded(seconds: u64) -> String {
    let (number, unit) = match seconds {
        0..120 => (seconds, "second"),
        120..7200 => (seconds / 60, "minute"),
        7200..172_800 => (seconds / 3600, "hour"),
        _ => (seconds / 86400, "day"),
    };
    super::style::count(number, unit, &format!("{unit}s"))
}

/// Reads `90s`, `30m`, `2h`, `7d`, `4w`.
pub(super) fn seconds(text: &str) -> Result<u64, String> {
    let bad = || "write a number and a unit: 90s, 30m, 2h, 7d or 4w".to_owned();
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86400,
        Some('w') => 7 * 86400,
        _ => return Err(bad()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| bad())?;
    number.checked_mul(unit).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_from_here_and_now() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let times = Times { now: 1_700_000_000, zone };
        assert_eq!(times.full(1_700_000_000), "2023-11-15 00:13:20");
        assert_eq!(times.short(1_700_000_060), "00:14");
        assert_eq!(times.short(1_699_900_000), "2023-11-13 20:26");
        assert_eq!(times.ago(1_699_999_940), "60 seconds ago");
        assert_eq!(times.ago(1_699_990_000), "2 hours ago");
        assert_eq!(times.ago(1_700_000_009), "just now");
        assert_eq!(times.ahead(1_700_000_600), "in 10 minutes");
        assert_eq!(times.ahead(1_600_000_000), "expired");
        assert_eq!(times.full(u64::MAX), "(no time)");
    }

    #[test]
    fn spans_need_a_unit() {
        assert_eq!(seconds("2h"), Ok(7200));
        assert_eq!(seconds("7d"), Ok(604_800));
        for text in ["", "h", "2", "-2h", "2 h", "99999999999999999999w", "2\u{b5}"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
