//! Who wants to log in, as far as that decides how they are checked.

use privacyidea_contract::names::FIRST_ID;
use privacyidea_contract::wire::Login;

use super::Host;
use super::identity::Asked;
use crate::directory::Account;
use crate::tokens::Token;

/// Whose account it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// root and what runs services.
    System,
    /// An ordinary user of /etc/passwd.
    Local,
    /// A user of one of our resolvers.
    Resolver,
    /// Another NSS source of the host knows the user (SSSD, say): the PAM module has seen a uid.
    OtherSource,
    /// Nobody knows the name.
    Unknown,
}

pub(super) struct Subject<'a> {
    pub(super) name: &'a str,
    pub(super) scope: Scope,
    /// Name and realm of the user on the server.
    pub(super) asked: Asked<'a>,
    /// PAM_RHOST where it can be believed: told to the server, and guesses are slowed down per user and source.
    pub(super) rhost: &'a str,
    pub(super) on_the_console: bool,
    /// Whether another factor was checked before ours, as the settings say of this service.
    pub(super) has_first_factor: bool,
}

impl<'a> Subject<'a> {
    /// # Errors
    /// Why it cannot be told.
    pub(super) fn of(login: &'a Login, host: &'a Host<'_>) -> Result<Self, String> {
        let scope = match (host.accounts.account(&login.user), login.uid) {
            // Whatever we think of the name: the session would have this uid.
            (_, Some(uid)) if uid < FIRST_ID => Scope::System,
            (Ok(Account::System), _) => Scope::System,
            (Ok(Account::Local { .. }), _) => Scope::Local,
            (Ok(Account::Resolver { .. }), _) => Scope::Resolver,
            // The cache cannot say, but the host's NSS could: a broken cache.db locks nobody out.
            (Ok(Account::Unknown) | Err(_), Some(_)) => Scope::OtherSource,
            (Ok(Account::Unknown), None) => Scope::Unknown,
            (Err(reason), None) => return Err(reason),
        };
        // A caller that is not root could invent an address for each guess, or the server's favourite one. Empty for a
        // login on the host itself, which no name in the DNS is.
        let rhost = if host.trusted_terminal { login.rhost.as_str() } else { "" };
        // Not su or sudo: whoever calls them has a session already, and whoever may open a serial line (the group
        // dialout) can call them on it from afar, as often as they like.
        let on_the_console =
            host.trusted_terminal && login.service == "login" && rhost.is_empty() && is_console(&login.tty);
        // A caller that is not root could name any service.
        let has_first_factor =
            host.trusted_terminal && host.settings.offline.second_factor_services.contains(&login.service);
        let asked = Asked::of(login, host);
        Ok(Self { name: &login.user, scope, asked, rhost, on_the_console, has_first_factor })
    }

    pub(super) fn is_known(&self) -> bool {
        self.scope != Scope::Unknown
    }

    /// A token that has proven to work, of a user whom the host knows: who was removed may have left one behind.
    pub(super) fn may_use(&self, token: &Token) -> bool {
        token.active && self.is_known()
    }

    /// Never root and system accounts, whatever a server would say about them; never a name that the host does not
    /// know (the server's `passOnNoUser` accepts those).
    pub(super) fn may_be_asked_of_the_server(&self, host: &Host<'_>) -> bool {
        let Some(settings) = host.server_settings() else { return false };
        match self.scope {
            Scope::Resolver | Scope::OtherSource => true,
            Scope::Local => settings.local_accounts,
            Scope::System | Scope::Unknown => false,
        }
    }
}

/// Whether a terminal is one that only somebody at the machine can use: a virtual console, a serial or hypervisor
/// line. `pts/0` is anybody's.
fn is_console(tty: &str) -> bool {
    let name = tty.strip_prefix("/dev/").unwrap_or(tty);
    let numbered = ["ttyS", "ttyAMA", "hvc", "tty"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    name == "console" || numbered
}

#[cfg(test)]
mod tests {
    use super::is_console;

    #[test]
    fn only_terminals_at_the_machine_are_consoles() {
        for tty in ["tty1", "/dev/tty1", "ttyS0", "/dev/hvc0", "console", "ttyAMA0"] {
            assert!(is_console(tty), "{tty}");
        }
        for tty in ["", "ssh", "pts/0", "/dev/pts/1", "tty", "ttyx", "tty1x", ":0", "/dev/tty", "ttypts/0"] {
            assert!(!is_console(tty), "{tty}");
        }
    }
}
