//! What `privacyidea-host` may ask the daemon, and the daemon's answers. Both are JSON on `auth.sock`, root only, and
//! the answers are what `--json` prints.

use serde::{Deserialize, Serialize};

use crate::service::clock::UnixSeconds;

mod execute;
mod offline;
pub mod tokens;

pub use execute::{Probe, Site, execute};

/// A command of the command line.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Makes a token. Answer: [`Answer::Enrolled`].
    TokenEnrol(Enrolment),
    /// Proves with a first value that an enrolled token works, and activates it. Answer: [`Answer::Token`].
    TokenConfirm {
        /// The token.
        serial: String,
        /// What the device shows (without PIN).
        code: String,
    },
    /// Answer: [`Answer::Tokens`].
    TokenList {
        /// Of this user only.
        user: Option<String>,
    },
    /// Resynchronises by two consecutive values. Answer: [`Answer::Token`].
    TokenResync {
        /// The token.
        serial: String,
        /// The earlier value.
        first: String,
        /// The one after it.
        second: String,
    },
    /// Ends a lock and sets the failcount to zero. Answer: [`Answer::Tokens`].
    TokenUnlock {
        /// A serial, or a user for all of their tokens.
        serial_or_user: String,
    },
    /// Answer: [`Answer::Token`].
    TokenSetPin {
        /// The token.
        serial: String,
        /// Empty: no PIN.
        pin: String,
    },
    /// Answer: [`Answer::Done`].
    TokenRemove {
        /// The token.
        serial: String,
    },
    /// Forgets cached entries and reads the resolvers anew. Answer: [`Answer::Flushed`].
    CacheFlush {
        /// This user only (and whatever groups list them).
        user: Option<String>,
    },
    /// Cached users and groups with their timeouts. Answer: [`Answer::Cache`].
    CacheList,
    /// The latest logins. Answer: [`Answer::Audit`].
    Audit {
        /// Only those noted after this one ([`AuditRecord::id`]), oldest first; none: the newest, newest first.
        after: Option<u64>,
        /// Of this user only.
        user: Option<String>,
        /// Not before this time.
        since: UnixSeconds,
        /// At most so many.
        limit: u32,
    },
    /// Answer: [`Answer::Status`].
    Status,
}

/// What kind of token to make.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Enrolment {
    /// The user.
    pub user: String,
    /// Which kind.
    pub kind: TokenKind,
    /// 6 to 8; HOTP and TOTP.
    pub digits: u32,
    /// The HMAC's hash; HOTP and TOTP.
    pub algorithm: Algorithm,
    /// Seconds; TOTP.
    pub period: u32,
    /// Empty: no PIN (a simple pass must have one).
    pub pin: String,
    /// Where the PIN is typed.
    pub pin_position: PinPosition,
    /// A seed to take over, base32; none: from the system's random source.
    pub seed: Option<String>,
    /// For people: what the token is.
    pub description: String,
    /// Usable at once, without a first value.
    pub active: bool,
    /// Whether the user may be one that neither /etc/passwd nor a resolver knows (of SSSD, say).
    #[serde(default)]
    pub unknown_user: bool,
}

/// The kinds of local tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenKind {
    /// RFC 4226
    Hotp,
    /// RFC 6238
    Totp,
    /// A PIN alone.
    SimplePass,
    /// A set of codes, each good for one login.
    RecoveryCodes,
}

/// The HMAC's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// What every app supports.
    Sha1,
    /// RFC 6238
    Sha256,
    /// RFC 6238
    Sha512,
}

/// Where the PIN is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PinPosition {
    /// PIN, then code.
    Before,
    /// Code, then PIN.
    After,
}

/// What the daemon answers.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// Nothing more to say.
    Done,
    /// A new token; the only time that the seed or the codes leave the daemon.
    Enrolled {
        /// The token.
        token: TokenRecord,
        /// `otpauth://…`; HOTP and TOTP.
        otpauth: Option<String>,
        /// Recovery codes.
        codes: Vec<String>,
    },
    /// One token.
    Token {
        /// The token.
        token: TokenRecord,
    },
    /// Some tokens, by user and serial.
    Tokens {
        /// The tokens that are kept on this host.
        tokens: Vec<TokenRecord>,
        /// Tokens of the server's with values for logins without it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        offline: Vec<OfflineRecord>,
    },
    /// The cache's entries.
    Cache {
        /// By kind and name.
        entries: Vec<CacheRecord>,
    },
    /// The resolvers were read anew.
    Flushed {
        /// Whether a resolver has the user that was named; none: nobody was.
        known: Option<bool>,
    },
    /// Logins.
    Audit {
        /// In the order that was asked for.
        events: Vec<AuditRecord>,
    },
    /// How the daemon is.
    Status(Box<Status>),
    /// The command was not carried out.
    Refused {
        /// One sentence for the administrator: what is wrong and what to do.
        reason: String,
    },
}

/// A token, without its secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TokenRecord {
    /// `TOTP0001`
    pub serial: String,
    /// Its user.
    pub user: String,
    /// Its kind.
    pub kind: TokenKind,
    /// For people.
    pub description: String,
    /// HOTP and TOTP, else 0.
    pub digits: u32,
    /// HOTP and TOTP.
    pub algorithm: Option<Algorithm>,
    /// TOTP, else 0.
    pub period: u32,
    /// Whether it has a PIN.
    pub has_pin: bool,
    /// Where the PIN is typed.
    pub pin_position: PinPosition,
    /// False until a first value proved that it works.
    pub active: bool,
    /// Consecutive failures.
    pub failcount: u32,
    /// Whether it is locked now.
    pub locked: bool,
    /// The end of the lock; none if it is not locked, or until unlocked.
    pub locked_until: Option<UnixSeconds>,
    /// Recovery codes left.
    pub codes_left: Option<u32>,
    /// When it was enrolled.
    pub enrolled: UnixSeconds,
    /// When it last let somebody in.
    pub last_used: Option<UnixSeconds>,
}

/// A token of the server's, as far as this host can check it alone; without its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OfflineRecord {
    /// The server's serial.
    pub serial: String,
    /// Its user on this host.
    pub user: String,
    /// Logins without the server that are left; 0 if the values are too old.
    pub logins_left: u32,
    /// Whether the values cover the code without its PIN.
    pub code_alone: bool,
    /// Consecutive failures on this host.
    pub failcount: u32,
    /// Whether it is locked now.
    pub locked: bool,
    /// The end of the lock; none if it is not locked, or until unlocked.
    pub locked_until: Option<UnixSeconds>,
    /// When the server last vouched for it.
    pub fetched: UnixSeconds,
    /// When its values are too old.
    pub expires: UnixSeconds,
    /// When it last let somebody in without the server.
    pub last_used: Option<UnixSeconds>,
}

/// A cached user or group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CacheRecord {
    /// `user`, `group`, or `absent-…`.
    pub kind: String,
    /// Name, or the id of an absent entry.
    pub name: String,
    /// uid or gid.
    pub id: Option<u32>,
    /// Which resolver it came from.
    pub resolver: String,
    /// When its timeout ends.
    pub expires: UnixSeconds,
}

/// A login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AuditRecord {
    /// Grows from login to login.
    pub id: u64,
    /// When.
    pub time: UnixSeconds,
    /// The log line's number.
    pub number: u16,
    /// None: nobody whom the host knows.
    pub user: Option<String>,
    /// The PAM service.
    pub service: String,
    /// From where; empty on the host itself.
    pub rhost: String,
    /// The terminal, may be empty.
    pub tty: String,
    /// `granted`, `refused`, `locked`, `unavailable`, ...; none: something to know beside a login.
    pub verdict: Option<String>,
    /// Who decided: `local-token`, `server`, ...; none: nobody looked at the answer.
    pub method: Option<String>,
    /// The serial of the token that let somebody in.
    pub token: Option<String>,
    /// Whether access was given.
    pub granted: bool,
    /// The line of the log.
    pub text: String,
}

/// How the daemon is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// When it started; none for `--once`.
    pub running_since: Option<UnixSeconds>,
    /// The server, if one is configured.
    pub server: Option<ServerStatus>,
    /// The resolvers.
    pub resolvers: Vec<ResolverStatus>,
    /// The lookup map.
    pub map: MapStatus,
    /// Local tokens.
    pub tokens: TokenCounts,
    /// Tokens with offline values.
    #[serde(default)]
    pub offline: OfflineCounts,
    /// Size of `state.db` with its log, bytes.
    pub state_bytes: u64,
    /// Size of `cache.db` with its log, bytes.
    pub cache_bytes: u64,
}

/// The server, as `status` sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ServerStatus {
    /// Its address.
    pub url: String,
    /// None: it answers.
    pub problem: Option<String>,
}

/// A resolver, as `status` sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ResolverStatus {
    /// Its name.
    pub name: String,
    /// `files`
    pub kind: String,
    /// Users in the cache.
    pub users: u64,
    /// Groups in the cache.
    pub groups: u64,
    /// Entries that were not taken, each with the reason.
    pub refused: Vec<String>,
    /// When it was last read whole.
    pub refreshed: Option<UnixSeconds>,
    /// None: the last read went well.
    pub problem: Option<String>,
}

/// The lookup map, as `status` sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MapStatus {
    /// When it was built; none: there is none.
    pub built: Option<UnixSeconds>,
    /// Users in it.
    pub users: u64,
    /// Groups in it.
    pub groups: u64,
    /// Bytes, both files together.
    pub bytes: u64,
}

/// Local tokens, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TokenCounts {
    /// All.
    pub total: u64,
    /// Locked now.
    pub locked: u64,
    /// Enrolled, but not yet proven.
    pub inactive: u64,
}

/// Tokens with offline values, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OfflineCounts {
    /// Whether this host keeps and uses them.
    pub enabled: bool,
    /// All.
    pub tokens: u64,
    /// Logins without the server that are left, of all together.
    pub logins_left: u64,
    /// Of the token that has the fewest.
    pub fewest: Option<u32>,
    /// Locked now.
    pub locked: u64,
}
