//! Which entries of a resolver are believed. The map and the NSS module check again, each for itself.

use std::fmt::Write as _;
use std::sync::Arc;

use privacyidea_contract::names::{is_usable_field, is_usable_id, is_usable_name};
use privacyidea_contract::wire::{GroupEntry, PasswdEntry};

use super::LocalNames;

/// The lowest uid of an ordinary user of the host (login.defs(5), UID_MIN).
pub(super) const FIRST_ORDINARY_UID: u32 = privacyidea_contract::names::FIRST_ID;

/// What an entry must satisfy. Every reason is the end of a sentence that begins with where the entry stands.
#[derive(Clone, Debug)]
pub struct Rules {
    first_id: u32,
    local: Arc<LocalNames>,
}

impl Rules {
    /// Ids from `first_id` on, nothing that the host's own files own.
    #[must_use]
    pub fn new(first_id: u32, local: Arc<LocalNames>) -> Self {
        Self { first_id, local }
    }

    /// Whether a user may be believed.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check_user(&self, user: &PasswdEntry) -> Result<(), String> {
        check_name(&user.name)?;
        self.check_id("uid", user.uid)?;
        self.check_id("gid", user.gid)?;
        for (what, field) in [("gecos", &user.gecos), ("home", &user.home), ("shell", &user.shell)] {
            if !is_usable_field(field) {
                return Err(format!(
                    "its field {what} is too long or has a character that no entry may have"
                ));
            }
        }
        if !user.home.starts_with('/') {
            return Err("its home is no absolute path".to_owned());
        }
        if !user.shell.is_empty() && !user.shell.starts_with('/') {
            return Err("its shell is no absolute path".to_owned());
        }
        if self.local.uid(&user.name).is_some() {
            return Err("/etc/passwd has a user of this name".to_owned());
        }
        if let Some(owner) = self.local.user(user.uid) {
            return Err(format!("its uid {} belongs to {} in /etc/passwd", user.uid, shown(owner)));
        }
        if let Some(owner) = self.local.group(user.gid) {
            return Err(format!("its gid {} belongs to the group {} in /etc/group", user.gid, shown(owner)));
        }
        Ok(())
    }

    /// Whether a group may be believed; its members are not looked at.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check_group(&self, group: &GroupEntry) -> Result<(), String> {
        check_name(&group.name)?;
        self.check_id("gid", group.gid)?;
        if self.local.gid(&group.name).is_some() {
            return Err("/etc/group has a group of this name".to_owned());
        }
        if let Some(owner) = self.local.group(group.gid) {
            return Err(format!("its gid {} belongs to {} in /etc/group", group.gid, shown(owner)));
        }
        Ok(())
    }

    /// Whether a name may be a group's member. Ordinary users of the host may; root and system accounts may not.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check_member(&self, name: &str) -> Result<(), String> {
        check_name(name)?;
        match self.local.uid(name) {
            Some(uid) if is_system_uid(uid) => Err("it is a system account of this host".to_owned()),
            _ => Ok(()),
        }
    }

    /// The host's own names.
    #[must_use]
    pub fn local(&self) -> &LocalNames {
        &self.local
    }

    /// Whether both come from the same state of the host's files.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.first_id == other.first_id && Arc::ptr_eq(&self.local, &other.local)
    }

    fn check_id(&self, what: &str, id: u32) -> Result<(), String> {
        if id < self.first_id {
            return Err(format!("its {what} {id} is below {}", self.first_id));
        }
        if !is_usable_id(id) {
            return Err(format!("its {what} {id} is one that the system keeps for itself"));
        }
        Ok(())
    }
}

/// Whether a uid of /etc/passwd is root's, a system account's or nobody's.
pub(super) fn is_system_uid(uid: u32) -> bool {
    uid < FIRST_ORDINARY_UID || !is_usable_id(uid)
}

/// A name as it may stand in a log line, whatever it is: at most 40 characters, odd ones escaped.
pub(super) fn shown(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars().take(40) {
        if c.is_control() || (!c.is_ascii() && !c.is_alphanumeric()) {
            let _ = write!(text, "{}", c.escape_unicode());
        } else {
            text.push(c);
        }
    }
    if name.chars().nth(40).is_some() {
        text.push('…');
    }
    if text.is_empty() { "(no name)".to_owned() } else { text }
}

fn check_name(name: &str) -> Result<(), String> {
    if name == "root" {
        return Err("root is never taken from a resolver".to_owned());
    }
    if is_usable_name(name) {
        return Ok(());
    }
    Err("its name is empty, longer than 32 bytes, only digits, or has a character that no name may have"
        .to_owned())
}
