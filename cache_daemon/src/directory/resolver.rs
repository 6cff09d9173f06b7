//! What the directory wants of a place that users come from.

use std::fmt;

use privacyidea_contract::wire::{GroupEntry, PasswdEntry};

use super::Rules;

/// A place that users and groups come from. Every entry that it hands out satisfies the [`Rules`] given.
pub trait Resolver: Send + Sync {
    /// Its name in the settings.
    fn name(&self) -> &str;

    /// Its kind in the settings, `files`.
    fn kind(&self) -> &'static str;

    /// The state of its content, if that can be told without reading it: the same text means the same [`Listing`].
    fn version(&self) -> Option<String>;

    /// Everything it has.
    ///
    /// # Errors
    /// [`ResolverError`]: nothing is known; what is cached stays.
    fn list(&self, rules: &Rules) -> Result<Listing, ResolverError>;

    /// One user.
    ///
    /// # Errors
    /// [`ResolverError`]: it is not known whether there is such a user. The same holds for the methods below.
    fn user_by_name(&self, name: &str, rules: &Rules) -> Result<Option<PasswdEntry>, ResolverError>;

    /// One user.
    ///
    /// # Errors
    /// [`ResolverError`]
    fn user_by_uid(&self, uid: u32, rules: &Rules) -> Result<Option<PasswdEntry>, ResolverError>;

    /// One group.
    ///
    /// # Errors
    /// [`ResolverError`]
    fn group_by_name(&self, name: &str, rules: &Rules) -> Result<Option<GroupEntry>, ResolverError>;

    /// One group.
    ///
    /// # Errors
    /// [`ResolverError`]
    fn group_by_gid(&self, gid: u32, rules: &Rules) -> Result<Option<GroupEntry>, ResolverError>;

    /// The groups that list a name as a member.
    ///
    /// # Errors
    /// [`ResolverError`]
    fn groups_of(&self, member: &str, rules: &Rules) -> Result<Vec<GroupEntry>, ResolverError>;
}

/// Everything that a resolver has. Names and ids are unique among the users, and among the groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Its users.
    pub users: Vec<PasswdEntry>,
    /// Its groups.
    pub groups: Vec<GroupEntry>,
    /// What was not taken: a sentence each, with its place and the reason.
    pub refused: Vec<String>,
    /// Why there may be more than this; none: this is all. Entries that an incomplete listing lacks are not deleted.
    pub incomplete: Option<String>,
    /// [`Resolver::version`] of the content that was read.
    pub version: Option<String>,
}

/// The resolver did not answer the question. `Display` is a sentence for the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverError(pub String);

impl fmt::Display for ResolverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ResolverError {}
