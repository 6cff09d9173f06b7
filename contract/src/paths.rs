//! Where everything is. No environment variable moves these: the modules run inside setuid programs.

/// Settings, root:_privacyidea 0640.
pub const SETTINGS: &str = "/etc/privacyidea-host/config.toml";
/// Users of the embedded `files` resolver, passwd(5) format.
pub const USERS_PASSWD: &str = "/etc/privacyidea-host/users/passwd";
/// Groups of the embedded `files` resolver, group(5) format.
pub const USERS_GROUP: &str = "/etc/privacyidea-host/users/group";
/// Durable state: tokens, counters, audit. _privacyidea 0600.
pub const STATE_DATABASE: &str = "/var/lib/privacyidea-host/state.db";
/// The user cache; may be deleted at any moment. _privacyidea 0600.
pub const CACHE_DATABASE: &str = "/var/cache/privacyidea-host/cache.db";
/// Directory of the lookup maps; the file names are `map::BASE_FILE` and `map::RECENT_FILE`.
pub const MAP_DIRECTORY: &str = "/var/cache/privacyidea-host";
/// Logins, account checks and administration.
pub const AUTH_SOCKET: &str = "/run/privacyidea-host/auth.sock";
/// Lookups that the map cannot answer, status.
pub const LOOKUP_SOCKET: &str = "/run/privacyidea-host/lookup.sock";
/// The daemon, which the PAM module and the command line start as `--once` when no daemon can be reached.
pub const DAEMON: &str = "/usr/sbin/privacyidea-cached";
/// The daemon's system user and group.
pub const DAEMON_USER: &str = "_privacyidea";
