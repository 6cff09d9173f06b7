//! Users and groups: the resolvers, the cache with its timeouts, the publication of the lookup map.

/// Whose account a login name is, as far as this daemon may know without asking NSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// root or a uid below the first ordinary one: never asked of a server.
    System,
    /// An ordinary user of /etc/passwd.
    Local {
        /// User id.
        uid: u32,
    },
    /// A user of one of our resolvers.
    Resolver {
        /// User id.
        uid: u32,
    },
    /// Neither file nor resolver knows the name.
    Unknown,
}

/// What authentication asks the directory.
pub trait Accounts: Send + Sync {
    /// Whose account `name` is; /etc/passwd owns a name before a resolver does.
    ///
    /// # Errors
    /// A sentence: the files or the cache cannot be read, and no resolver answered.
    fn account(&self, name: &str) -> Result<Account, String>;
}
