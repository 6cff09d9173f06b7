//! Which keys have other answers than before.

use std::collections::BTreeSet;

use privacyidea_contract::wire::{GroupEntry, PasswdEntry};

/// Keys whose answers a change of the cache made others: of what came, of what went, and of what was there before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Names of users.
    pub users: BTreeSet<String>,
    /// Their ids.
    pub uids: BTreeSet<u32>,
    /// Names of groups.
    pub groups: BTreeSet<String>,
    /// Their ids.
    pub gids: BTreeSet<u32>,
    /// Names that are in other groups than before, or became or ceased to be users.
    pub members: BTreeSet<String>,
    /// More keys than are worth naming: the sets are empty.
    pub are_too_many: bool,
}

/// So many keys are named.
const KEYS_MAX: usize = 10_000;

impl Changes {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && !self.are_too_many
    }

    /// How many keys are named.
    #[must_use]
    pub fn len(&self) -> usize {
        self.users.len() + self.uids.len() + self.groups.len() + self.gids.len() + self.members.len()
    }

    /// Adds those of another change.
    pub fn append(&mut self, mut other: Self) {
        self.users.append(&mut other.users);
        self.uids.append(&mut other.uids);
        self.groups.append(&mut other.groups);
        self.gids.append(&mut other.gids);
        self.members.append(&mut other.members);
        self.are_too_many |= other.are_too_many;
        self.bound();
    }

    pub(super) fn add_user(&mut self, user: &PasswdEntry) {
        self.users.insert(user.name.clone());
        self.members.insert(user.name.clone());
        self.uids.insert(user.uid);
        self.bound();
    }

    pub(super) fn add_group(&mut self, group: &GroupEntry) {
        self.groups.insert(group.name.clone());
        self.gids.insert(group.gid);
        self.members.extend(group.members.iter().cloned());
        self.bound();
    }

    fn bound(&mut self) {
        if self.are_too_many || self.len() > KEYS_MAX {
            *self = Self { are_too_many: true, ..Self::default() };
        }
    }
}
