//! As whom a user is asked of the server, what an accept must name, and what it hands on.

use std::collections::BTreeMap;
use std::path::PathBuf;

use privacyidea_contract::variables::is_exportable_variable;
use privacyidea_contract::wire::{EXPORTS_MAX, Overrides};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::{Server, default_connect_timeout, default_server_timeout, values};

/// `[identity]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Identity {
    /// Whether the account `alice@staff` is asked of the server as `alice` in the realm `staff`.
    pub split_at_sign: bool,
    /// Whether an accept of the server counts only if it names the token.
    pub require_token: bool,
}

/// One `[[realm-rule]]`: the realm for those whom it matches.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RealmRuleKeys")]
pub struct RealmRule {
    /// PAM_SERVICE; none: every service.
    pub service: Option<Pattern>,
    /// PAM_USER; none: every user.
    pub user: Option<Pattern>,
    /// Sent as `realm`.
    pub realm: String,
}

/// `*` stands for any characters or none, everything else for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

/// `[attributes]`: the PAM environment variable, and the attribute of the user on the server that it gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub BTreeMap<String, String>);

impl RealmRule {
    /// Whether it is about this login.
    #[must_use]
    pub fn matches(&self, service: &str, user: &str) -> bool {
        let matches = |pattern: &Option<Pattern>, text| pattern.as_ref().is_none_or(|it| it.matches(text));
        matches(&self.service, service) && matches(&self.user, user)
    }
}

impl Pattern {
    /// Whether the whole of `text` is like this.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let Some((start, rest)) = self.0.split_once('*') else { return self.0 == text };
        let Some(mut text) = text.strip_prefix(start) else { return false };
        let mut pieces: Vec<&str> = rest.split('*').collect();
        let end = pieces.pop().unwrap_or_default();
        for piece in pieces {
            // The first place is the best: it leaves the most to the pieces after it.
            let Some((_, after)) = text.split_once(piece) else { return false };
            text = after;
        }
        text.ends_with(end)
    }
}

impl Server {
    /// The server that a PAM line names with `url=`: everything that the line does not say has its default. The line
    /// says that its users are asked of it, so local accounts are, too. None: the line names no server.
    ///
    /// # Errors
    /// The url or the CA file is none. The text does not repeat it.
    pub fn of_a_line(overrides: &Overrides) -> Result<Option<Self>, String> {
        let Some(url) = &overrides.url else { return Ok(None) };
        let url = values::checked_url(url).map_err(|reason| format!("its url= {reason}"))?;
        let ca_file = overrides.ca_file.as_deref().map(PathBuf::from);
        if ca_file.as_ref().is_some_and(|path| !path.is_absolute()) {
            return Err("its cacerts= is no absolute path".to_owned());
        }
        Ok(Some(Self {
            url: url.to_owned(),
            realm: None,
            ca_file,
            connect_timeout: default_connect_timeout(),
            timeout: default_server_timeout(),
            local_accounts: true,
            any_certificate: overrides.any_certificate,
        }))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RealmRuleKeys {
    #[serde(default)]
    service: Option<Pattern>,
    #[serde(default)]
    user: Option<Pattern>,
    #[serde(deserialize_with = "values::realm")]
    realm: Option<String>,
}

impl TryFrom<RealmRuleKeys> for RealmRule {
    type Error = &'static str;

    fn try_from(keys: RealmRuleKeys) -> Result<Self, Self::Error> {
        let RealmRuleKeys { service, user, realm } = keys;
        match realm {
            Some(realm) if service.is_some() || user.is_some() => Ok(Self { service, user, realm }),
            _ => {
                Err("a rule without service and user would be for everybody; set realm in [server] for that")
            }
        }
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() || text.len() > 255 || text.chars().any(char::is_control) {
            return Err(D::Error::custom(format!(
                "{text:?} is no pattern; it has 1 to 255 bytes and no control characters"
            )));
        }
        Ok(Self(text))
    }
}

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let attributes = BTreeMap::<String, String>::deserialize(deserializer)?;
        if attributes.len() > EXPORTS_MAX {
            return Err(D::Error::custom(format!("there are more than {EXPORTS_MAX} variables")));
        }
        for (variable, attribute) in &attributes {
            if !is_exportable_variable(variable) {
                return Err(D::Error::custom(format!(
                    "{variable:?} is no variable to hand on; it has 1 to 64 of A-Z 0-9 _, no digit first, and means \
                     nothing to loaders, shells and interpreters (not PATH, LD_..., HOME and the like)"
                )));
            }
            if attribute.is_empty() || attribute.len() > 200 || attribute.chars().any(char::is_control) {
                return Err(D::Error::custom(format!("{attribute:?} is no name of an attribute")));
            }
        }
        Ok(Self(attributes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn a_pattern_matches_the_whole_text() {
        for (pattern, matching, others) in [
            ("sshd", &["sshd"][..], &["sshd2", "ssh", "SSHD", ""][..]),
            ("*", &["", "a"], &[]),
            ("adm-*", &["adm-", "adm-carla"], &["adm", "xadm-carla"]),
            ("*@staff", &["a@staff", "@staff"], &["a@staff2", "staff"]),
            ("a*b*c", &["abc", "axbxc", "abbcc"], &["acb", "ab", "ac"]),
            ("a*a", &["aa", "aba"], &["a"]),
            ("a*ab*b", &["aabb", "axabb"], &["aab", "ab"]),
            ("a.c", &["a.c"], &["abc"]),
        ] {
            let pattern = Pattern(pattern.to_owned());
            for text in matching {
                assert!(pattern.matches(text), "{pattern:?} {text:?}");
            }
            for text in others {
                assert!(!pattern.matches(text), "{pattern:?} {text:?}");
            }
        }
    }

    #[test]
    fn variables_that_programs_take_orders_from_are_refused() {
        for name in ["LD_PRELOAD", "PATH", "mail", "A-B", "", "HOME"] {
            let text = format!("[attributes]\n\"{name}\" = \"mail\"");
            let mistake = Settings::parse(&text).expect_err(name);
            assert!(mistake.problem.contains("no variable to hand on"), "{mistake}");
        }
        let many: String = (0..=EXPORTS_MAX).map(|n| format!("V{n} = 'mail'\n")).collect();
        assert!(Settings::parse(&format!("[attributes]\n{many}")).is_err());
        assert!(Settings::parse("[attributes]\nMAIL_OF = ''").is_err());
    }

    #[test]
    fn a_line_names_a_server_with_its_own_rules() {
        let line = |url: &str| Overrides { url: Some(url.to_owned()), ..Overrides::default() };
        let server = Server::of_a_line(&line("https://pi.example.org/")).unwrap().unwrap();
        assert_eq!(server.url, "https://pi.example.org");
        assert!(server.local_accounts && !server.any_certificate && server.realm.is_none());
        assert_eq!(Server::of_a_line(&Overrides { any_certificate: true, ..Overrides::default() }), Ok(None));
        for wrong in ["http://pi.example.org", "https://u:hunter2@h", "https://h/?x=hunter2", "https://"] {
            let reason = Server::of_a_line(&line(wrong)).expect_err(wrong);
            assert!(!reason.contains("hunter2"), "{reason}");
        }
        let relative = Overrides { ca_file: Some("ca.pem".to_owned()), ..line("https://h") };
        assert!(Server::of_a_line(&relative).is_err());
    }
}
