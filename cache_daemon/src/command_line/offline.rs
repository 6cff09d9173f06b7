//! Offline tokens among the others: a row of the table, facts, a line of the status.

use super::style::{Style, count};
use super::times::Times;
use crate::administration::{OfflineCounts, OfflineRecord};

/// Its row in `token list`.
pub(super) fn row(token: &OfflineRecord, times: &Times) -> [String; 6] {
    [
        token.serial.clone(),
        token.user.clone(),
        "offline".to_owned(),
        state(token, times),
        token.last_used.map_or_else(|| "never".to_owned(), |time| times.short(time)),
        "from the server".to_owned(),
    ]
}

/// What `token show` says.
pub(super) fn facts(token: &OfflineRecord, times: &Times) -> Vec<(&'static str, String)> {
    let covers = if token.code_alone { "the code alone" } else { "PIN and code" };
    vec![
        ("serial", token.serial.clone()),
        ("user", token.user.clone()),
        ("type", "offline: of the server's token, for logins without it".to_owned()),
        ("covers", covers.to_owned()),
        ("state", state(token, times)),
        ("failures", token.failcount.to_string()),
        ("fetched", times.full(token.fetched)),
        ("good until", times.full(token.expires)),
        ("last use", token.last_used.map_or_else(|| "never".to_owned(), |time| times.full(time))),
    ]
}

/// What an administrator has to know first.
fn state(token: &OfflineRecord, times: &Times) -> String {
    if times.now > token.expires {
        return format!("too old since {}", times.short(token.expires));
    }
    match (token.locked, token.locked_until) {
        (true, Some(end)) => format!("locked until {}", times.short(end)),
        (true, None) => "locked".to_owned(),
        (false, _) => count(token.logins_left.into(), "login left", "logins left"),
    }
}

/// The line of `status`; none where there is nothing to say.
pub(super) fn status(counts: &OfflineCounts, style: Style) -> Option<String> {
    if !counts.enabled {
        return (counts.tokens > 0).then(|| {
            let text = format!("{} not used", count(counts.tokens, "token", "tokens"));
            format!("{}: [offline] enabled is false", style.warning(&text))
        });
    }
    if counts.tokens == 0 {
        return Some("no values yet: the server hands them out at a login".to_owned());
    }
    let tokens = count(counts.tokens, "token", "tokens");
    let mut text = format!("{tokens}, {}", count(counts.logins_left, "login left", "logins left"));
    if let Some(fewest) = counts.fewest.filter(|_| counts.tokens > 1) {
        text.push_str(&format!(", fewest {fewest} (privacyidea-host token list)"));
    }
    if counts.locked > 0 {
        let locked = format!("{} locked (privacyidea-host token unlock USER)", counts.locked);
        text.push_str(&format!(", {}", style.warning(&locked)));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn token() -> OfflineRecord {
        OfflineRecord {
            serial: "OATH1".to_owned(),
            user: "carla".to_owned(),
            logins_left: 19,
            code_alone: false,
            failcount: 0,
            locked: false,
            locked_until: None,
            fetched: 1_700_000_000,
            expires: 1_700_000_600,
            last_used: None,
        }
    }

    #[test]
    fn the_state_says_what_is_most_urgent() {
        let times = Times { now: 1_700_000_000, zone: TimeZone::UTC };
        assert_eq!(row(&token(), &times)[2..5], ["offline", "19 logins left", "never"]);
        let locked = OfflineRecord { locked: true, locked_until: Some(1_700_000_060), ..token() };
        assert_eq!(state(&locked, &times), "locked until 22:14");
        let late = Times { now: 1_700_000_601, zone: TimeZone::UTC };
        assert_eq!(state(&locked, &late), "too old since 22:23");
        assert!(facts(&token(), &times).contains(&("covers", "PIN and code".to_owned())));
    }

    #[test]
    fn the_status_counts_what_is_left() {
        let line = |counts: OfflineCounts| status(&counts, Style { coloured: false });
        let enabled = OfflineCounts { enabled: true, ..OfflineCounts::default() };
        assert_eq!(line(OfflineCounts::default()), None);
        assert!(line(enabled.clone()).is_some_and(|text| text.starts_with("no values yet")));
        let one = OfflineCounts { tokens: 1, logins_left: 19, fewest: Some(19), ..enabled.clone() };
        assert_eq!(line(one).as_deref(), Some("1 token, 19 logins left"));
        let two = OfflineCounts { tokens: 2, logins_left: 119, fewest: Some(19), locked: 1, ..enabled };
        let expected = "2 tokens, 119 logins left, fewest 19 (privacyidea-host token list), 1 locked \
                        (privacyidea-host token unlock USER)";
        assert_eq!(line(two).as_deref(), Some(expected));
        let off = OfflineCounts { tokens: 1, ..OfflineCounts::default() };
        assert_eq!(line(off).as_deref(), Some("1 token not used: [offline] enabled is false"));
    }
}
