//! One function a kind of value: what is taken, and what a wrong one is told. The sentence after "expected" in an
//! error message comes from here.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserializer;
use serde::de::{Error, Visitor};

use super::LockPeriod;

/// A whole number from `MIN` to `MAX`.
pub(super) fn whole<'de, const MIN: u32, const MAX: u32, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<u32, D::Error> {
    struct Whole<const MIN: u32, const MAX: u32>;

    impl<const MIN: u32, const MAX: u32> Visitor<'_> for Whole<MIN, MAX> {
        type Value = u32;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a whole number from {MIN} to {MAX}")
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<u32, E> {
            u32::try_from(value)
                .ok()
                .filter(|number| (MIN..=MAX).contains(number))
                .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Signed(value), &self))
        }
    }

    deserializer.deserialize_i64(Whole::<MIN, MAX>)
}

/// A time from `MIN` to `MAX` seconds, as `"90s"`, `"30m"`, `"12h"` or `"1d"`.
pub(super) fn time<'de, const MIN: u64, const MAX: u64, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    deserializer.deserialize_str(Time::<MIN, MAX>)
}

/// [`time`] within the lockout's limits, or `"until-unlocked"`.
pub(super) fn lock_period<'de, D: Deserializer<'de>>(deserializer: D) -> Result<LockPeriod, D::Error> {
    struct Period(Time<60, { 365 * DAY }>);

    impl Visitor<'_> for Period {
        type Value = LockPeriod;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.expecting(f)?;
            f.write_str(", or \"until-unlocked\"")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<LockPeriod, E> {
            if text == "until-unlocked" {
                return Ok(LockPeriod::UntilUnlocked);
            }
            self.0.in_range(text).map(LockPeriod::For).ok_or_else(|| refused(text, &self))
        }
    }

    deserializer.deserialize_str(Period(Time))
}

/// `https://host[:port][/path]`; a final slash is taken off.
pub(super) fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text: String = serde::Deserialize::deserialize(deserializer)?;
    match checked_url(&text) {
        Ok(url) => Ok(url.to_owned()),
        Err(reason) => Err(D::Error::custom(format!("{text:?} {reason}"))),
    }
}

/// A realm's name.
pub(super) fn realm<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text: String = serde::Deserialize::deserialize(deserializer)?;
    if text.is_empty() || text.len() > 255 || text.chars().any(char::is_control) {
        return Err(D::Error::custom(format!(
            "{text:?} is no realm; it has 1 to 255 bytes and no control characters \
             (leave the key out for the server's default realm)"
        )));
    }
    Ok(Some(text))
}

/// A prompt; the final space that the person's cursor stands behind is added.
pub(super) fn prompt<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text: String = serde::Deserialize::deserialize(deserializer)?;
    let trimmed = text.trim_end();
    if trimmed.is_empty() || text.len() > 200 || text.chars().any(char::is_control) {
        return Err(D::Error::custom(format!(
            "{text:?} is no prompt; it has 1 to 200 bytes and no control characters"
        )));
    }
    Ok(format!("{trimmed} "))
}

/// An absolute path.
pub(super) fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let text: String = serde::Deserialize::deserialize(deserializer)?;
    if !text.starts_with('/') || text.contains('\0') {
        return Err(D::Error::custom(format!("{text:?} is no absolute path; it begins with /")));
    }
    Ok(PathBuf::from(text))
}

/// [`path`] for a key that may be left out.
pub(super) fn some_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    path(deserializer).map(Some)
}

/// A resolver's name.
pub(super) fn resolver_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text: String = serde::Deserialize::deserialize(deserializer)?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || text.len() > 32 || !text.chars().all(is_word) {
        return Err(D::Error::custom(format!(
            "{text:?} is no resolver name; it has 1 to 32 of the characters A-Z a-z 0-9 - _ ."
        )));
    }
    Ok(text)
}

/// Names of PAM services, as the files in /etc/pam.d have them.
pub(super) fn services<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let names: Vec<String> = serde::Deserialize::deserialize(deserializer)?;
    let is_harmless = |c: char| c.is_ascii_graphic() && c != '/';
    match names.iter().find(|name| name.is_empty() || name.len() > 64 || !name.chars().all(is_harmless)) {
        Some(name) => Err(D::Error::custom(format!(
            "{name:?} is no PAM service; it is the name of a file in /etc/pam.d, as \"sshd\""
        ))),
        None => Ok(names),
    }
}

/// One day in seconds.
pub(super) const DAY: u64 = 24 * 3600;

struct Time<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Time<MIN, MAX> {
    fn in_range(&self, text: &str) -> Option<Duration> {
        seconds(text).filter(|seconds| (MIN..=MAX).contains(seconds)).map(Duration::from_secs)
    }
}

impl<const MIN: u64, const MAX: u64> Visitor<'_> for Time<MIN, MAX> {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a time from {} to {}, as \"90s\", \"30m\", \"12h\" or \"1d\"", Shown(MIN), Shown(MAX))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        self.in_range(text).ok_or_else(|| refused(text, &self))
    }
}

/// Seconds with the largest unit that divides them.
struct Shown(u64);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, letter) = UNITS
            .into_iter()
            .rev()
            .find(|(unit, _)| self.0 >= *unit && self.0 % unit == 0)
            .unwrap_or((1, "s"));
        write!(f, "{}{letter}", self.0 / unit)
    }
}

const UNITS: [(u64, &str); 4] = [(1, "s"), (60, "m"), (3600, "h"), (DAY, "d")];

fn seconds(text: &str) -> Option<u64> {
    let (number, unit) = UNITS.iter().find_map(|(unit, letter)| Some((text.strip_suffix(letter)?, *unit)))?;
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(unit)
}

fn refused<E: Error>(text: &str, expected: &dyn serde::de::Expected) -> E {
    E::invalid_value(serde::de::Unexpected::Str(text), expected)
}

/// `text` without a final slash, or why it is no address of a server: the end of a sentence.
pub(super) fn checked_url(text: &str) -> Result<&str, &'static str> {
    if text.starts_with("http://") {
        return Err("would send one-time passwords over the network unencrypted; use https://");
    }
    let Some(rest) = text.strip_prefix("https://") else {
        return Err("is no address of a server; it begins with https://");
    };
    if rest.contains(|c: char| c.is_whitespace() || c.is_control()) || rest.contains(['"', '\\', '<', '>']) {
        return Err("has a character that no address has");
    }
    if rest.contains(['?', '#']) {
        return Err("has a query or fragment; give only https://host[:port][/path]");
    }
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.contains('@') {
        return Err("has a user name; give only https://host[:port][/path]");
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (address, after) = bracketed.split_once(']').ok_or("has a [ without its ]")?;
            let is_address = address.parse::<std::net::Ipv6Addr>().is_ok();
            (if is_address { address } else { "" }, after.strip_prefix(':').or(Some(after)))
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err("names no host");
    }
    match port {
        None | Some("") if !authority.ends_with(':') => Ok(text.trim_end_matches('/')),
        Some(port)
            if port.bytes().all(|b| b.is_ascii_digit()) && port.parse().is_ok_and(|port: u16| port > 0) =>
        {
            Ok(text.trim_end_matches('/'))
        }
        _ => Err("has a port that is no number from 1 to 65535"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_number_and_a_unit() {
        for (text, expected) in
            [("0s", 0), ("90s", 90), ("30m", 1800), ("12h", 43_200), ("1d", 86_400), ("007s", 7)]
        {
            assert_eq!(seconds(text), Some(expected), "{text:?}");
        }
        for text in
            ["", "s", "90", "-1s", "+1s", "1.5h", "1 h", "1w", "1ms", "1sm", "99999999999999999d", "１s"]
        {
            assert_eq!(seconds(text), None, "{text:?}");
        }
    }

    #[test]
    fn addresses_are_https_and_name_only_a_place() {
        for (text, expected) in [
            ("https://mfa.example.org", "https://mfa.example.org"),
            ("https://mfa.example.org/", "https://mfa.example.org"),
            ("https://mfa.example.org:8443/pi/", "https://mfa.example.org:8443/pi"),
            ("https://[2001:db8::1]:443", "https://[2001:db8::1]:443"),
            ("https://[2001:db8::1]/pi", "https://[2001:db8::1]/pi"),
        ] {
            assert_eq!(checked_url(text), Ok(expected));
        }
        for text in [
            "",
            "http://mfa.example.org",
            "mfa.example.org",
            "ftp://mfa.example.org",
            "https://",
            "https:///path",
            "https://:443",
            "https://host:",
            "https://host:0",
            "https://host:65536",
            "https://host:+1",
            "https://user@host",
            "https://host/?realm=a",
            "https://host/#x",
            "https://host name",
            "https://[::1",
            "https://[nothing]",
            "https://[::1]x",
        ] {
            assert!(checked_url(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn limits_are_shown_with_the_unit_that_fits() {
        assert_eq!(Shown(0).to_string(), "0s");
        assert_eq!(Shown(90).to_string(), "90s");
        assert_eq!(Shown(600).to_string(), "10m");
        assert_eq!(Shown(30 * DAY).to_string(), "30d");
    }
}
