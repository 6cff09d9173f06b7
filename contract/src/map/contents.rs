//! What a map is built from.

use super::layout::{KIND_ABSENT, KIND_GROUP, KIND_GROUPS_OF, KIND_PASSWD, Key, Table, padded, record};
use crate::names::{is_usable_field, is_usable_id, is_usable_name};
use crate::wire::{GroupEntry, Lookup, PasswdEntry};

/// What holds for a whole file. Times are UNIX seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Now.
    pub built: u64,
    /// Until when every entry is fresh, whatever its own expiry.
    pub fresh_until: u64,
    /// For how many seconds an entry that is no longer fresh may be answered with while the daemon is away.
    pub stale_for: u64,
    /// Whether NSS may list all entries.
    pub enumerate: bool,
    /// Whether a name or id that neither file has does not exist; only the base's word counts.
    pub complete: bool,
}

/// Why an entry was not taken. The readers would refuse it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// See [`is_usable_name`].
    Name,
    /// See [`is_usable_id`].
    Id,
    /// See [`is_usable_field`].
    Field,
    /// The map, or a group, would become larger than its format allows (some GiB).
    Size,
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Name => "the name is not usable on this host",
            Self::Id => "the id is reserved",
            Self::Field => "a field has a colon, a control character or too many bytes",
            Self::Size => "the lookup map has no room for it",
        })
    }
}

impl std::error::Error for Unusable {}

/// The entries of a file to be published. Of two entries with the same key, lookups find the one that was added first.
pub struct Contents {
    pub(super) description: Description,
    pub(super) passwd: Vec<u8>,
    pub(super) group: Vec<u8>,
    pub(super) other: Vec<u8>,
    pub(super) counts: [u32; 2],
    /// Number of keys by table; an upper bound where keys are repeated.
    pub(super) keys: [usize; 5],
    derives_groups: bool,
    memberships: Vec<Membership>,
    groups_expire: u64,
}

/// That a name is listed in a group: 16 bytes, because there may be millions.
struct Membership {
    hash: u64,
    /// Byte position of the NUL-terminated name in `Contents::group`.
    name_at: u32,
    gid: u32,
}

impl Contents {
    /// For a base: the groups of each name follow from the groups that are added.
    #[must_use]
    pub fn listing(description: Description) -> Self {
        Self {
            description,
            passwd: Vec::new(),
            group: Vec::new(),
            other: Vec::new(),
            counts: [0; 2],
            keys: [0; 5],
            derives_groups: true,
            memberships: Vec::new(),
            groups_expire: u64::MAX,
        }
    }

    /// For a recent file: the groups of a name are those given to [`Contents::groups_of`], since the groups here are
    /// only some. Whoever adds a group whose members changed adds all groups of each member concerned.
    #[must_use]
    pub fn changes(description: Description) -> Self {
        Self { derives_groups: false, ..Self::listing(description) }
    }

    /// Adds a user.
    ///
    /// # Errors
    /// The entry is not usable; nothing was added.
    pub fn passwd(&mut self, entry: &PasswdEntry, expires: u64) -> Result<(), Unusable> {
        if !is_usable_name(&entry.name) {
            return Err(Unusable::Name);
        }
        if !is_usable_id(entry.uid) || !is_usable_id(entry.gid) {
            return Err(Unusable::Id);
        }
        let texts = [&entry.name, &entry.gecos, &entry.home, &entry.shell];
        if !texts.iter().all(|text| is_usable_field(text)) {
            return Err(Unusable::Field);
        }
        let size = record::PASSWD_TEXTS + texts.iter().map(|text| text.len() + 1).sum::<usize>();
        let mut out = RecordWriter::begin(&mut self.passwd, size, KIND_PASSWD, expires)?;
        out.u32(entry.uid);
        out.u32(entry.gid);
        for text in texts {
            // Fits: a usable field has at most 1024 bytes.
            out.0.extend_from_slice(&(text.len() as u16).to_ne_bytes());
        }
        texts.iter().for_each(|text| out.text(text));
        out.end();
        self.counts[0] += 1;
        self.count(&[Table::PasswdByName, Table::PasswdById]);
        Ok(())
    }

    /// Adds a group; member names that are not usable are left out.
    ///
    /// # Errors
    /// The entry is not usable; nothing was added.
    pub fn group(&mut self, entry: &GroupEntry, expires: u64) -> Result<(), Unusable> {
        if !is_usable_name(&entry.name) {
            return Err(Unusable::Name);
        }
        if !is_usable_id(entry.gid) {
            return Err(Unusable::Id);
        }
        let members = || entry.members.iter().filter(|member| is_usable_name(member));
        let count = u32::try_from(members().count()).map_err(|_| Unusable::Size)?;
        let block = members().map(|member| member.len() + 1).sum::<usize>();
        let size = record::GROUP_TEXTS + entry.name.len() + 1 + block;
        if self.group.len() + padded(size) > u32::MAX as usize {
            return Err(Unusable::Size);
        }
        let mut out = RecordWriter::begin(&mut self.group, size, KIND_GROUP, expires)?;
        out.u32(entry.gid);
        out.u32(count);
        out.length(entry.name.len());
        out.length(block);
        out.text(&entry.name);
        for member in members() {
            if self.derives_groups {
                let hash = Key::Name(member.as_bytes()).hash(0);
                let name_at = out.0.len() as u32;
                self.memberships.push(Membership { hash, name_at, gid: entry.gid });
            }
            out.text(member);
        }
        out.end();
        self.counts[1] += 1;
        self.count(&[Table::GroupByName, Table::GroupById]);
        self.groups_expire = self.groups_expire.min(expires);
        Ok(())
    }

    /// Adds the groups that list `name` as a member: all of them, or none for a user who is in no group.
    ///
    /// # Errors
    /// The name or a gid is not usable; nothing was added.
    pub fn groups_of(&mut self, name: &str, gids: &[u32], expires: u64) -> Result<(), Unusable> {
        if !is_usable_name(name) {
            return Err(Unusable::Name);
        }
        if !gids.iter().all(|gid| is_usable_id(*gid)) {
            return Err(Unusable::Id);
        }
        self.groups_record(name.as_bytes(), gids, expires)
    }

    /// Adds that there is no such entry. For [`Lookup::Groups`] it means: no user and in no group.
    ///
    /// # Errors
    /// The name or id is not usable (the readers never look for it); nothing was added.
    pub fn absent(&mut self, key: &Lookup, expires: u64) -> Result<(), Unusable> {
        let (table, id, name) = match key {
            Lookup::PasswdByName(name) => (Table::PasswdByName, None, name.as_str()),
            Lookup::PasswdById(uid) => (Table::PasswdById, Some(*uid), ""),
            Lookup::GroupByName(name) => (Table::GroupByName, None, name.as_str()),
            Lookup::GroupById(gid) => (Table::GroupById, Some(*gid), ""),
            Lookup::Groups(name) => (Table::GroupsOf, None, name.as_str()),
        };
        match id {
            Some(id) if !is_usable_id(id) => return Err(Unusable::Id),
            None if !is_usable_name(name) => return Err(Unusable::Name),
            _ => {}
        }
        let size = record::ABSENT_NAME + name.len() + 1;
        let mut out = RecordWriter::begin(&mut self.other, size, KIND_ABSENT + table as u32, expires)?;
        out.u32(id.unwrap_or(0));
        out.length(name.len());
        out.text(name);
        out.end();
        self.count(&[table]);
        Ok(())
    }

    /// Turns the memberships into records.
    pub(super) fn derive_groups(&mut self) -> Result<(), Unusable> {
        let mut memberships = std::mem::take(&mut self.memberships);
        let names = std::mem::take(&mut self.group);
        let name_at = |at: u32| names[at as usize..].split(|byte| *byte == 0).next().unwrap_or_default();
        // Nearly always the hash alone tells names apart; looking at millions of names in this order is slow.
        memberships.sort_unstable_by_key(|membership| (membership.hash, membership.gid));
        let mut gids = Vec::new();
        for same_hash in memberships.chunk_by_mut(|a, b| a.hash == b.hash) {
            let first = name_at(same_hash[0].name_at);
            if same_hash.iter().any(|membership| name_at(membership.name_at) != first) {
                same_hash.sort_unstable_by_key(|membership| (name_at(membership.name_at), membership.gid));
            }
            for same in same_hash.chunk_by(|a, b| name_at(a.name_at) == name_at(b.name_at)) {
                gids.clear();
                gids.extend(same.iter().map(|membership| membership.gid));
                gids.dedup();
                self.groups_record(name_at(same[0].name_at), &gids, self.groups_expire)?;
            }
        }
        self.group = names;
        Ok(())
    }

    fn groups_record(&mut self, name: &[u8], gids: &[u32], expires: u64) -> Result<(), Unusable> {
        let size = record::GROUPS_GIDS + 4 * gids.len() + name.len() + 1;
        let mut out = RecordWriter::begin(&mut self.other, size, KIND_GROUPS_OF, expires)?;
        out.length(gids.len());
        out.length(name.len());
        gids.iter().for_each(|gid| out.u32(*gid));
        out.0.extend_from_slice(name);
        out.0.push(0);
        out.end();
        self.count(&[Table::GroupsOf]);
        Ok(())
    }

    fn count(&mut self, tables: &[Table]) {
        tables.iter().for_each(|table| self.keys[*table as usize] += 1);
    }
}

/// Appends one record to a region.
struct RecordWriter<'a>(&'a mut Vec<u8>);

impl<'a> RecordWriter<'a> {
    fn begin(region: &'a mut Vec<u8>, size: usize, kind: u32, expires: u64) -> Result<Self, Unusable> {
        let size = u32::try_from(padded(size)).map_err(|_| Unusable::Size)?;
        region.reserve(size as usize);
        let mut writer = Self(region);
        writer.u32(size);
        writer.u32(kind);
        writer.0.extend_from_slice(&expires.to_ne_bytes());
        Ok(writer)
    }

    fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_ne_bytes());
    }

    /// Part of a size that `begin` found to fit.
    fn length(&mut self, length: usize) {
        self.u32(length as u32);
    }

    fn text(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }

    fn end(self) {
        let padded = padded(self.0.len());
        self.0.resize(padded, 0);
    }
}
