//! What the administrator wants, as values that are valid.
//!
//! [`Settings::default`] is the embedded mode: no server, local tokens, users from a file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};

mod file;
mod identity;
mod values;

pub(crate) use file::distrust;
pub use file::{Mistake, SettingsError};
pub use identity::{Attributes, Identity, Pattern, RealmRule};

/// The longest `[server] timeout` in seconds: whoever logs in waits for it.
pub const SERVER_TIMEOUT_MAX: u64 = 15;

/// The longest `[challenge] push-wait` in seconds: sshd gives a login two minutes.
pub const PUSH_WAIT_MAX: u64 = 110;

/// Everything that `/etc/privacyidea-host/config.toml` can say. Each key is in `privacyidea-host.toml(5)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// `[server]`; none: local tokens only.
    pub server: Option<Server>,
    /// `[identity]`
    pub identity: Identity,
    /// `[[realm-rule]]`; the first that matches counts.
    #[serde(rename = "realm-rule")]
    pub realm_rules: Vec<RealmRule>,
    /// `[attributes]`
    pub attributes: Attributes,
    /// `[lockout]`
    pub lockout: Lockout,
    /// `[tokens]`
    pub tokens: Tokens,
    /// `[offline]`
    pub offline: Offline,
    /// `[[resolver]]`; empty in the file means the embedded `files` resolver.
    #[serde(rename = "resolver")]
    pub resolvers: Resolvers,
    /// `[challenge]`
    pub challenge: Challenge,
    /// `[cache]`
    pub cache: Cache,
    /// `[prompt]`
    pub prompt: Prompt,
}

/// The privacyIDEA server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Server {
    /// `https://host[:port][/path]`, without a trailing slash.
    #[serde(deserialize_with = "values::url")]
    pub url: String,
    /// Sent as `realm`; none: the server's default realm.
    #[serde(default, deserialize_with = "values::realm")]
    pub realm: Option<String>,
    /// PEM file with the only certificate authorities to trust; none: the system's.
    #[serde(default, deserialize_with = "values::some_path")]
    pub ca_file: Option<PathBuf>,
    /// To connect, TLS included.
    #[serde(
        default = "default_connect_timeout",
        deserialize_with = "values::time::<1, SERVER_TIMEOUT_MAX, _>"
    )]
    pub connect_timeout: Duration,
    /// For a whole request; at most [`SERVER_TIMEOUT_MAX`] seconds.
    #[serde(
        default = "default_server_timeout",
        deserialize_with = "values::time::<1, SERVER_TIMEOUT_MAX, _>"
    )]
    pub timeout: Duration,
    /// Whether users of /etc/passwd are asked of the server too (never root, never system accounts).
    #[serde(default)]
    pub local_accounts: bool,
    /// Whether any certificate is taken. The settings cannot say that: a PAM line can, about its own `url=`.
    #[serde(skip)]
    pub any_certificate: bool,
}

/// How wrong answers are slowed down and stopped. None of it applies to `login` on the local console.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Lockout {
    /// Consecutive failures that lock a token; 0: never.
    #[serde(deserialize_with = "values::whole::<0, 1000, _>")]
    pub after: u32,
    /// How long.
    #[serde(rename = "for", deserialize_with = "values::lock_period")]
    pub period: LockPeriod,
    /// Whether a success with one token resets the failcount of all the user's tokens.
    pub reset_all_user_tokens: bool,
    /// Failures of one user from one source that are free before the throttle begins.
    #[serde(deserialize_with = "values::whole::<0, 1000, _>")]
    pub throttle_after: u32,
    /// The throttle's longest wait; each failure doubles it from one second.
    #[serde(deserialize_with = "values::time::<0, 600, _>")]
    pub throttle_longest: Duration,
}

/// How long a locked token stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockPeriod {
    /// From the last failure.
    For(Duration),
    /// Until `privacyidea-host token unlock`.
    UntilUnlocked,
}

/// Further steps that the server asks for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Challenge {
    /// How long a confirmation on another device is waited for; at most [`PUSH_WAIT_MAX`] seconds.
    #[serde(deserialize_with = "values::time::<5, PUSH_WAIT_MAX, _>")]
    pub push_wait: Duration,
    /// Whether the server is asked without a password first, so that it begins with the user's challenges.
    pub begin_at_server: bool,
    /// PAM services whose programs cannot ask a second time.
    pub never_in: Vec<Pattern>,
}

/// Windows of the local tokens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tokens {
    /// HOTP values looked at from the next counter on.
    #[serde(deserialize_with = "values::whole::<1, 100, _>")]
    pub hotp_window: u32,
    /// TOTP time steps accepted before and after the current one.
    #[serde(deserialize_with = "values::whole::<0, 10, _>")]
    pub totp_window: u32,
    /// HOTP values (and TOTP steps to either side) searched for two consecutive values.
    #[serde(deserialize_with = "values::whole::<10, 10_000, _>")]
    pub resync_window: u32,
    /// Whether two consecutive values at two consecutive logins resynchronise a token.
    pub auto_resync: bool,
}

/// Logins without the server, by values that it has handed out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Offline {
    /// Whether this host keeps what the server hands out. One HOTP token serves one host, so not by default.
    pub enabled: bool,
    /// Values that an answer is compared with, from the lowest on.
    #[serde(deserialize_with = "values::whole::<1, 100, _>")]
    pub window: u32,
    /// New values are asked for after a login that leaves fewer than so many.
    #[serde(deserialize_with = "values::whole::<0, 1000, _>")]
    pub refill_below: u32,
    /// How long values are good after the server has last vouched for their token.
    #[serde(deserialize_with = "values::time::<3600, { 365 * values::DAY }, _>")]
    pub maximum_age: Duration,
    /// A login that leaves fewer than so many says so to the person.
    #[serde(deserialize_with = "values::whole::<0, 1000, _>")]
    pub warn_below: u32,
    /// PAM services whose lines check another factor before ours: there values of the code without its PIN count.
    #[serde(deserialize_with = "values::services")]
    pub second_factor_services: Vec<String>,
}

/// The resolvers in the order in which they are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolvers(pub Vec<Resolver>);

/// One `[[resolver]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    /// Unique, shown in status and logs.
    pub name: String,
    /// What kind, with its own settings.
    pub kind: ResolverKind,
}

/// The kinds of resolvers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolverKind {
    /// passwd(5) and group(5) files of our own.
    Files {
        /// passwd(5) format.
        passwd: PathBuf,
        /// group(5) format.
        group: PathBuf,
    },
}

/// The user cache.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cache {
    /// How long an entry is believed.
    #[serde(deserialize_with = "values::time::<1, { 30 * values::DAY }, _>")]
    pub timeout: Duration,
    /// How long "no such entry" is believed.
    #[serde(deserialize_with = "values::time::<1, { values::DAY }, _>")]
    pub negative_timeout: Duration,
    /// How long after its timeout an entry is still served when neither resolver nor daemon can be reached.
    #[serde(deserialize_with = "values::time::<0, { 365 * values::DAY }, _>")]
    pub stale_for: Duration,
    /// Whether `getent passwd` and `getent group` without a name list our entries.
    pub enumerate: bool,
    /// Entries with a lower uid or gid are refused; at least [`privacyidea_contract::names::FIRST_ID`].
    #[serde(
        deserialize_with = "values::whole::<{ privacyidea_contract::names::FIRST_ID }, 2_000_000_000, _>"
    )]
    pub first_id: u32,
}

/// What the person sees.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Prompt {
    /// The first and only prompt of a login with a code.
    #[serde(deserialize_with = "values::prompt")]
    pub code: String,
}

impl Settings {
    /// Reads the settings file. A file that is not there means the defaults; one that others than root (or, for tests,
    /// than the caller) may write is refused.
    ///
    /// # Errors
    /// Every [`SettingsError`]; no part of the file is used then.
    pub fn load(path: &Path) -> Result<Self, SettingsError> {
        match file::read(path)? {
            None => Ok(Self::default()),
            Some(text) => Self::parse(&text)
                .map_err(|mistake| SettingsError::Invalid { path: path.to_owned(), mistake }),
        }
    }

    /// Reads settings from a text in TOML.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        let settings = file::values(text)?;
        if let Some(server) = &settings.server {
            if server.connect_timeout > server.timeout {
                let problem = format!(
                    "connecting may not take longer than the whole request, whose timeout is {} seconds",
                    server.timeout.as_secs()
                );
                return Err(file::mistake_at(text, ["server", "connect-timeout"], problem));
            }
        }
        if settings.tokens.hotp_window > settings.tokens.resync_window {
            let problem = "the window to resynchronise in may not be smaller than hotp-window".to_owned();
            return Err(file::mistake_at(text, ["tokens", "resync-window"], problem));
        }
        Ok(settings)
    }
}

fn default_connect_timeout() -> Duration {
    Duration::from_secs(5)
}

fn default_server_timeout() -> Duration {
    Duration::from_secs(10)
}

impl<'de> Deserialize<'de> for Resolvers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let resolvers: Vec<Resolver> = Deserialize::deserialize(deserializer)?;
        if resolvers.len() > 16 {
            return Err(serde::de::Error::custom("there are more than 16 resolvers"));
        }
        for (index, resolver) in resolvers.iter().enumerate() {
            if resolvers[..index].iter().any(|earlier| earlier.name == resolver.name) {
                let message = format!("two resolvers have the name {:?}", resolver.name);
                return Err(serde::de::Error::custom(message));
            }
        }
        Ok(if resolvers.is_empty() { Self::default() } else { Self(resolvers) })
    }
}

impl<'de> Deserialize<'de> for Resolver {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// The keys as they stand in the file, side by side.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        struct Keys {
            #[serde(deserialize_with = "values::resolver_name")]
            name: String,
            r#type: Type,
            #[serde(deserialize_with = "values::path")]
            passwd: PathBuf,
            #[serde(deserialize_with = "values::path")]
            group: PathBuf,
        }

        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        enum Type {
            Files,
        }

        let Keys { name, r#type: Type::Files, passwd, group } = Deserialize::deserialize(deserializer)?;
        Ok(Self { name, kind: ResolverKind::Files { passwd, group } })
    }
}

impl Default for Lockout {
    fn default() -> Self {
        Self {
            after: 10,
            period: LockPeriod::For(Duration::from_secs(30 * 60)),
            reset_all_user_tokens: false,
            throttle_after: 3,
            throttle_longest: Duration::from_secs(60),
        }
    }
}

impl Default for Challenge {
    fn default() -> Self {
        Self { push_wait: Duration::from_secs(60), begin_at_server: false, never_in: Vec::new() }
    }
}

impl Default for Tokens {
    fn default() -> Self {
        Self { hotp_window: 10, totp_window: 1, resync_window: 1000, auto_resync: true }
    }
}

impl Default for Offline {
    fn default() -> Self {
        Self {
            enabled: false,
            window: 10,
            refill_below: 100,
            maximum_age: Duration::from_secs(30 * values::DAY),
            warn_below: 20,
            second_factor_services: Vec::new(),
        }
    }
}

impl Default for Resolvers {
    fn default() -> Self {
        Self(vec![Resolver {
            name: "files".to_owned(),
            kind: ResolverKind::Files {
                passwd: privacyidea_contract::paths::USERS_PASSWD.into(),
                group: privacyidea_contract::paths::USERS_GROUP.into(),
            },
        }])
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10 * 60),
            negative_timeout: Duration::from_secs(60),
            stale_for: Duration::from_secs(30 * 24 * 3600),
            enumerate: false,
            first_id: privacyidea_contract::names::FIRST_ID,
        }
    }
}

impl Default for Prompt {
    fn default() -> Self {
        Self { code: "One-time code: ".to_owned() }
    }
}

#[cfg(test)]
mod tests;
