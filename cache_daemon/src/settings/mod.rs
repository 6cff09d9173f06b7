//! What the administrator wants, as values that are valid.
//!
//! [`Settings::default`] is the embedded mode: no server, local tokens, users from a file.

use std::path::PathBuf;
use std::time::Duration;

/// Everything that `/etc/privacyidea-host/config.toml` can say. Each key is in `privacyidea-host.toml(5)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `[server]`; none: local tokens only.
    pub server: Option<Server>,
    /// `[lockout]`
    pub lockout: Lockout,
    /// `[tokens]`
    pub tokens: Tokens,
    /// `[[resolver]]`; empty in the file means the embedded `files` resolver.
    pub resolvers: Resolvers,
    /// `[cache]`
    pub cache: Cache,
    /// `[prompt]`
    pub prompt: Prompt,
}

/// The privacyIDEA server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// `https://host[:port][/path]`, without a trailing slash.
    pub url: String,
    /// Sent as `realm`; none: the server's default realm.
    pub realm: Option<String>,
    /// PEM file with the only certificate authorities to trust; none: the system's.
    pub ca_file: Option<PathBuf>,
    /// To connect, TLS included.
    pub connect_timeout: Duration,
    /// For a whole request.
    pub timeout: Duration,
    /// Whether users of /etc/passwd are asked of the server too (never root, never system accounts).
    pub local_accounts: bool,
}

/// How wrong answers are slowed down and stopped. None of it applies on the local console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lockout {
    /// Consecutive failures that lock a token; 0: never.
    pub after: u32,
    /// How long.
    pub period: LockPeriod,
    /// Whether a success with one token resets the failcount of all the user's tokens.
    pub reset_all_user_tokens: bool,
    /// Failures of one user from one source that are free before the throttle begins.
    pub throttle_after: u32,
    /// The throttle's longest wait; each failure doubles it from one second.
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

/// Windows of the local tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// HOTP values looked at from the next counter on.
    pub hotp_window: u32,
    /// TOTP time steps accepted before and after the current one.
    pub totp_window: u32,
    /// HOTP values (and TOTP steps to either side) searched for two consecutive values.
    pub resync_window: u32,
    /// Whether two consecutive values at two consecutive logins resynchronise a token.
    pub auto_resync: bool,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// How long an entry is believed.
    pub timeout: Duration,
    /// How long "no such entry" is believed.
    pub negative_timeout: Duration,
    /// How long after its timeout an entry is still served when neither resolver nor daemon can be reached.
    pub stale_for: Duration,
    /// Whether `getent passwd` and `getent group` without a name list our entries.
    pub enumerate: bool,
    /// Entries with a lower uid or gid are refused; at least [`privacyidea_contract::names::FIRST_ID`].
    pub first_id: u32,
}

/// What the person sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The first and only prompt of a login with a code.
    pub code: String,
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

impl Default for Tokens {
    fn default() -> Self {
        Self { hotp_window: 10, totp_window: 1, resync_window: 1000, auto_resync: true }
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
