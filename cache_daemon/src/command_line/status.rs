//! `privacyidea-host status`: how everything is, and what to do next.

use serde_json::Value;

use super::daemon::{Answered, other_version};
use super::failure::Failure;
use super::host;
use super::offline;
use super::session::Session;
use super::style::{Style, count, printable, size};
use super::times::Times;
use crate::administration::{Answer, ResolverStatus, Status};

/// How many refused entries of a resolver are listed; the JSON has them all.
const REFUSED_SHOWN: usize = 5;

/// What the host's files say.
struct Enabled {
    pam: Vec<String>,
    nss: Vec<&'static str>,
}

/// Shows the status.
pub(super) fn run(json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let Answered { answer, by_once } = session.daemon.status()?;
    let enabled = Enabled {
        pam: host::pam_services(&session.files.pam_directory),
        nss: host::nss_databases(&session.files.nsswitch),
    };
    if json {
        let mut document = serde_json::to_value(&answer)?;
        document["pam"] = Value::from(enabled.pam);
        document["nss"] = Value::from(enabled.nss);
        return session.say_json(&document);
    }
    let Answer::Status(status) = answer else { return Err(other_version()) };
    let report = Report { style: session.style(), times: session.times(), by_once, enabled };
    for line in report.lines(&status) {
        session.say(line)?;
    }
    Ok(())
}

struct Report {
    style: Style,
    times: Times,
    by_once: bool,
    enabled: Enabled,
}

impl Report {
    fn lines(&self, status: &Status) -> Vec<String> {
        let mut lines = vec![self.line("daemon", self.daemon(status))];
        lines.push(self.line("server", self.server(status)));
        for resolver in &status.resolvers {
            lines.extend(self.resolver(resolver));
        }
        if status.resolvers.is_empty() {
            lines.push(self.line("users", "no resolver".to_owned()));
        }
        lines.push(self.line("map", self.map(status)));
        lines.push(self.line("tokens", self.tokens(status)));
        lines.extend(offline::status(&status.offline, self.style).map(|text| self.line("offline", text)));
        let databases =
            format!("state.db {}, cache.db {}", size(status.state_bytes), size(status.cache_bytes));
        lines.push(self.line("databases", databases));
        lines.push(self.line("nss", self.nss()));
        lines.push(self.line("pam", self.pam()));
        lines
    }

    fn line(&self, what: &str, text: String) -> String {
        format!("{}  {text}", self.style.heading(&format!("{what:<9}")))
    }

    fn daemon(&self, status: &Status) -> String {
        let version = printable(&status.version);
        match status.running_since {
            Some(since) if !self.by_once => {
                let running = self.style.good("running");
                format!("{running} since {}, version {version}", self.times.short(since))
            }
            _ => format!(
                "{}; started for this answer, version {version} (systemctl start privacyidea-cached)",
                self.style.warning("not running")
            ),
        }
    }

    fn server(&self, status: &Status) -> String {
        let Some(server) = &status.server else {
            return "none configured (local tokens only)".to_owned();
        };
        let url = printable(&server.url);
        match &server.problem {
            None => format!("{url} {}", self.style.good("answers")),
            Some(problem) => format!("{url}: {}", self.style.bad(&printable(problem))),
        }
    }

    fn resolver(&self, resolver: &ResolverStatus) -> Vec<String> {
        let name = printable(&resolver.name);
        let mut text = format!(
            "{name}: {}, {}",
            count(resolver.users, "user", "users"),
            count(resolver.groups, "group", "groups")
        );
        match resolver.refreshed {
            Some(time) => text.push_str(&format!(", read {}", self.times.ago(time))),
            None => text.push_str(", not read yet"),
        }
        if resolver.users == 0 && resolver.kind == "files" && resolver.problem.is_none() {
            text.push_str(" (privacyidea-host user add)");
        }
        let mut lines = vec![self.line("users", text)];
        if let Some(problem) = &resolver.problem {
            lines.push(self.line("", self.style.bad(&printable(problem)).into_owned()));
        }
        let refused = &resolver.refused;
        for reason in refused.iter().take(REFUSED_SHOWN) {
            let text = format!("refused: {}", printable(reason));
            lines.push(self.line("", self.style.warning(&text).into_owned()));
        }
        if refused.len() > REFUSED_SHOWN {
            let more = format!("{} more refused (--json lists them)", refused.len() - REFUSED_SHOWN);
            lines.push(self.line("", self.style.warning(&more).into_owned()));
        }
        lines
    }

    fn map(&self, status: &Status) -> String {
        let map = &status.map;
        let Some(built) = map.built else {
            return format!(
                "{}: lookups ask the daemon (privacyidea-host cache flush)",
                self.style.warning("not built")
            );
        };
        format!(
            "{}, {}, {}, built {}",
            count(map.users, "user", "users"),
            count(map.groups, "group", "groups"),
            size(map.bytes),
            self.times.ago(built)
        )
    }

    fn tokens(&self, status: &Status) -> String {
        let tokens = &status.tokens;
        if tokens.total == 0 {
            return "none (privacyidea-host token enrol USER)".to_owned();
        }
        let mut text = tokens.total.to_string();
        if tokens.locked > 0 {
            let locked = format!("{} locked (privacyidea-host token unlock USER)", tokens.locked);
            text.push_str(&format!(", {}", self.style.warning(&locked)));
        }
        if tokens.inactive > 0 {
            let inactive =
                format!("{} not confirmed (privacyidea-host token confirm SERIAL)", tokens.inactive);
            text.push_str(&format!(", {}", self.style.warning(&inactive)));
        }
        text
    }

    fn nss(&self) -> String {
        match self.enabled.nss.as_slice() {
            ["passwd", "group"] => "passwd and group ask us".to_owned(),
            databases => {
                let missing: Vec<_> =
                    ["passwd", "group"].into_iter().filter(|name| !databases.contains(name)).collect();
                let text = format!("not enabled for {}", missing.join(" and "));
                format!(
                    "{}: add `privacyidea` after `files` in /etc/nsswitch.conf",
                    self.style.warning(&text)
                )
            }
        }
    }

    fn pam(&self) -> String {
        if self.enabled.pam.is_empty() {
            let text = self.style.warning("not enabled");
            return format!("{text}: nothing asks for a one-time password yet (see pam_privacyidea(8))");
        }
        self.enabled.pam.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::administration::{MapStatus, OfflineCounts, ServerStatus, TokenCounts};

    const NOW: u64 = 1_700_000_000;

    fn report(by_once: bool, pam: &[&str], nss: &[&'static str]) -> Report {
        Report {
            style: Style { coloured: false },
            times: Times { now: NOW, zone: TimeZone::UTC },
            by_once,
            enabled: Enabled { pam: pam.iter().map(|&name| name.to_owned()).collect(), nss: nss.to_vec() },
        }
    }

    fn fresh() -> Status {
        Status {
            version: "0.1.0".to_owned(),
            running_since: Some(NOW - 60),
            server: None,
            resolvers: vec![ResolverStatus {
                name: "files".to_owned(),
                kind: "files".to_owned(),
                users: 0,
                groups: 0,
                refused: Vec::new(),
                refreshed: Some(NOW - 5),
                problem: None,
            }],
            map: MapStatus { built: Some(NOW - 5), users: 0, groups: 0, bytes: 4096 },
            tokens: TokenCounts::default(),
            offline: OfflineCounts::default(),
            state_bytes: 40_960,
            cache_bytes: 24_576,
        }
    }

    #[test]
    fn a_fresh_host_says_what_comes_next() {
        let text = report(false, &[], &["passwd", "group"]).lines(&fresh()).join("\n");
        let expected = "\
daemon     running since 22:12, version 0.1.0
server     none configured (local tokens only)
users      files: 0 users, 0 groups, read 5 seconds ago (privacyidea-host user add)
map        0 users, 0 groups, 4096 bytes, built 5 seconds ago
tokens     none (privacyidea-host token enrol USER)
databases  state.db 40 KiB, cache.db 24 KiB
nss        passwd and group ask us
pam        not enabled: nothing asks for a one-time password yet (see pam_privacyidea(8))";
        assert_eq!(text, expected);
    }

    #[test]
    fn each_bad_state_comes_with_its_reason_and_a_hint() {
        let mut status = fresh();
        status.running_since = None;
        status.server = Some(ServerStatus {
            url: "https://pi.example".to_owned(),
            problem: Some("no connection within 5 s".to_owned()),
        });
        status.resolvers[0].problem = Some("line\x1b[2J".to_owned());
        status.resolvers[0].refused = (1..=7).map(|line| format!("passwd line {line}: bad")).collect();
        status.map.built = None;
        status.tokens = TokenCounts { total: 5, locked: 1, inactive: 2 };
        let text = report(true, &["sshd", "sudo"], &["passwd"]).lines(&status).join("\n");
        for expected in [
            "not running; started for this answer, version 0.1.0 (systemctl start privacyidea-cached)",
            "https://pi.example: no connection within 5 s",
            "line?[2J",
            "refused: passwd line 5: bad",
            "2 more refused",
            "map        not built",
            "5, 1 locked (privacyidea-host token unlock USER), 2 not confirmed",
            "not enabled for group: add `privacyidea`",
            "pam        sshd, sudo",
        ] {
            assert!(text.contains(expected), "{expected} in:\n{text}");
        }
        assert!(!text.contains("line 6"));
    }
}
