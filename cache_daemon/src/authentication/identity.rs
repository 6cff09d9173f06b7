//! Who is who: as whom a user is asked of the server, whether its accept is about that one, and what it hands on.

use privacyidea_contract::variables::{VALUE_LENGTH_MAX, is_exportable_value};
use privacyidea_contract::wire::{Login, Verdict};

use super::decision::{Decision, note};
use super::number::Number;
use super::{Host, Subject};
use crate::server::Accepted;

/// The user as the server knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked<'a> {
    /// The login name, or the part of it before the `@`.
    pub(super) user: &'a str,
    /// None: that of `[server]`, else the server's default.
    pub(super) realm: Option<&'a str>,
}

impl<'a> Asked<'a> {
    /// The realm of the name counts most: `alice` in another realm would be another person. Then what the PAM line
    /// says, then the rules.
    pub(super) fn of(login: &'a Login, host: &'a Host<'_>) -> Self {
        if host.settings.identity.split_at_sign {
            if let Some((user, realm)) = split(&login.user) {
                return Self { user, realm: Some(realm) };
            }
        }
        let rules = &host.settings.realm_rules;
        let of_the_rules = || rules.iter().find(|rule| rule.matches(&login.service, &login.user));
        let realm =
            login.overrides.realm.as_deref().or_else(|| of_the_rules().map(|rule| rule.realm.as_str()));
        Self { user: &login.user, realm }
    }
}

/// What an accept of the server is worth here: a grant with what it hands on, or a refusal.
pub(super) fn accept(subject: &Subject<'_>, host: &Host<'_>, accepted: &Accepted) -> Decision {
    if host.settings.identity.require_token && accepted.serial.is_none() {
        return Decision::no_token_named();
    }
    if let (Some(asked), Some(confirmed)) = (subject.asked.realm, accepted.attributes.get("realm")) {
        // privacyIDEA has its realms in lower case.
        if confirmed.iter().any(|realm| realm.to_lowercase() != asked.to_lowercase()) {
            return Decision::other_realm();
        }
    }
    Decision::granted_by_server(subject.name, accepted.serial.as_deref())
        .handing_on(variables(host, accepted))
}

/// Writes down that a PAM line switches the check of its server's certificate off, once in each login that could ask
/// that server.
pub(super) fn announce(subject: &Result<Subject<'_>, String>, login: &Login, host: &Host<'_>) {
    let is_unverified = host.line_server.is_some_and(|server| server.any_certificate);
    let is_asked = |subject: &Subject<'_>| subject.may_be_asked_of_the_server(host);
    if is_unverified && subject.as_ref().is_ok_and(is_asked) {
        let text = "WARNING: the PAM line has nossl, so anybody in the network can be the server that says yes: put its \
                    certificate authority into cacerts= instead";
        note(Number::UNVERIFIED, text, true, login, host);
    }
}

/// The end of a login whose PAM line names a server that there cannot be; `reason` says why.
pub fn refuse_line(login: &Login, host: &Host<'_>, reason: &str) -> Verdict {
    let text = format!("refused, the server that the PAM line names cannot be asked: {reason}");
    note(Number::LINE_REFUSED, &text, false, login, host);
    Verdict::Failed
}

/// Writes down that a caller who is not root said what only root's PAM lines can say.
pub fn ignore_line(login: &Login, host: &Host<'_>) {
    let text = "the arguments of the PAM line about server and realm do not count, because the program is not root's: \
                set them in the settings";
    note(Number::LINE_IGNORED, text, true, login, host);
}

/// User and realm. What has no name or no realm is not split.
fn split(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('@').filter(|(user, realm)| !user.is_empty() && !realm.is_empty())
}

fn variables(host: &Host<'_>, accepted: &Accepted) -> Vec<(String, String)> {
    let attributes = &host.settings.attributes.0;
    let of = |attribute: &String| accepted.attributes.get(attribute).and_then(|values| joined(values));
    attributes.iter().filter_map(|(name, attribute)| Some((name.clone(), of(attribute)?))).collect()
}

/// Whole values only: a part of a group's name may be another group's.
fn joined(values: &[String]) -> Option<String> {
    let mut joined = String::new();
    for value in values.iter().filter(|value| is_exportable_value(value)) {
        let separator = if joined.is_empty() { "" } else { "," };
        if joined.len() + separator.len() + value.len() <= VALUE_LENGTH_MAX {
            joined.push_str(separator);
            joined.push_str(value);
        }
    }
    (!joined.is_empty()).then_some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_split_at_its_last_at_sign_if_both_sides_are_something() {
        assert_eq!(split("alice@staff"), Some(("alice", "staff")));
        assert_eq!(split("alice@example.org@staff"), Some(("alice@example.org", "staff")));
        for name in ["alice", "@staff", "alice@", "@", ""] {
            assert_eq!(split(name), None, "{name}");
        }
    }

    #[test]
    fn a_value_is_whole_or_not_there() {
        let values = |values: &[&str]| joined(&values.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert_eq!(values(&["a", "b c"]).as_deref(), Some("a,b c"));
        let long = "x".repeat(VALUE_LENGTH_MAX - 1);
        assert_eq!(values(&[&long, "yy", "y"]).as_deref(), Some(long.as_str()));
        assert_eq!(values(&["a", &long, "b"]).as_deref(), Some("a,b"));
        assert_eq!(values(&[&"x".repeat(VALUE_LENGTH_MAX + 1), "", "a\nb"]), None);
    }
}
