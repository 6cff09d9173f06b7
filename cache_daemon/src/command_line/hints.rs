//! What to do about a line of the log, by its number. The administrator's guide has the same numbers.

/// Numbers with a hint; `USER` stands for the user's name.
const HINTS: [(u16, &str); 23] = [
    (10, "Is it the right token, and does it have a PIN? privacyidea-host token list USER"),
    (11, "Each code is good once: wait for the next one."),
    (
        12,
        "Clock or counter have drifted: log in with the next code too, or privacyidea-host token resync SERIAL.",
    ),
    (13, "Make one: privacyidea-host token enrol USER (or confirm one: privacyidea-host token list USER)"),
    (14, "Neither /etc/passwd nor a resolver has the user: getent passwd USER; privacyidea-host status"),
    (
        15,
        "Nothing was typed. Does the service let its PAM lines ask? (sshd: KbdInteractiveAuthentication yes)",
    ),
    (16, "End the lock: privacyidea-host token unlock USER"),
    (17, "Wait; each failure from one place doubles the time. [lockout] in privacyidea-host.toml(5)"),
    (18, "The server's audit log says why."),
    (19, "Is the realm right? [server] in privacyidea-host.toml(5)"),
    (20, "The token of this user needs a step that this program cannot do: try PIN and code in one go."),
    (21, "Take use_first_pass away, or put the line below one that asks."),
    (22, "The code alone is wanted then, without the PIN."),
    (23, "Somebody said no on the phone: did USER ask for this login?"),
    (24, "Did the phone get the question? push-wait in [challenge], privacyidea-host.toml(5)"),
    (25, "The server's policies ask for one step after another."),
    (30, "privacyidea-host status shows whether the server answers now; firewall, proxy, url?"),
    (31, "Look at the server."),
    (32, "Does url in config.toml lead to a privacyIDEA?"),
    (33, "Is ca-file right, and this host's clock? Else somebody stands between."),
    (40, "Is the disk full? privacyidea-host status; journalctl -u privacyidea-cached"),
    (41, "Can the users be read? privacyidea-host status"),
    (50, "The person or the program went away before an answer came."),
];

/// The hint for a line of the log about `user`.
pub(super) fn hint(line: &str, user: &str) -> Option<String> {
    let number: u16 = line.strip_prefix("PIH-AUTH-")?.split_whitespace().next()?.parse().ok()?;
    let (_, text) = HINTS.iter().find(|(hinted, _)| *hinted == number)?;
    Some(text.replace("USER", user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_hint_of_its_number() {
        let text = hint("PIH-AUTH-016 alice: refused, locked service=sshd", "alice");
        assert_eq!(text.as_deref(), Some("End the lock: privacyidea-host token unlock alice"));
        for line in ["PIH-AUTH-001 alice: granted", "PIH-AUTH-x", "something else", ""] {
            assert_eq!(hint(line, "alice"), None, "{line}");
        }
    }

    #[test]
    fn the_guide_explains_every_number_with_a_hint() {
        let guide = include_str!("../../../docs/administrators-guide.md");
        let explained: Vec<u16> = guide
            .lines()
            .filter_map(|line| line.strip_prefix("| 0")?.split('|').next())
            .flat_map(|numbers| numbers.split(',').map(|number| number.trim().parse().unwrap()))
            .collect();
        for (number, _) in HINTS {
            assert!(explained.contains(&number), "{number}");
        }
    }
}
