//! Entries as they lie in the map: borrowed, nothing copied.

use super::bytes::Bytes;
use super::layout::{KIND_ABSENT, KIND_GROUP, KIND_GROUPS_OF, KIND_PASSWD, Key, Table, padded, record};

/// How far an entry is from its expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Age {
    /// Answer with it, ask nobody.
    Fresh,
    /// Ask the daemon; answer with it if the daemon cannot be asked.
    Stale,
    /// Do not answer with it.
    Expired,
}

/// What a map says about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// The entry; none if the map says that there is no such entry.
    pub entry: Option<T>,
    /// How old the answer is.
    pub age: Age,
}

/// A passwd entry. The texts are what the file holds: check them before use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswdView<'a> {
    /// Login name.
    pub name: &'a [u8],
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Full name and so on.
    pub gecos: &'a [u8],
    /// Home directory.
    pub home: &'a [u8],
    /// Login shell.
    pub shell: &'a [u8],
}

/// A group entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupView<'a> {
    /// Group name.
    pub name: &'a [u8],
    /// Group id.
    pub gid: u32,
    /// How many members the record claims to have, at most half as many as its names have bytes;
    /// [`GroupView::members`] may yield fewer.
    pub member_count: u32,
    /// The members' names, each followed by a NUL byte.
    pub member_block: &'a [u8],
}

impl<'a> GroupView<'a> {
    /// The members' names.
    pub fn members(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.member_block
            .split_inclusive(|byte| *byte == 0)
            .filter_map(|name| name.strip_suffix(&[0]))
            .take(self.member_count as usize)
    }
}

/// The groups that list a name as a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupsView<'a>(&'a [u8]);

impl<'a> GroupsView<'a> {
    /// No groups.
    pub const EMPTY: GroupsView<'static> = GroupsView(&[]);

    /// Gids from elsewhere, each as four bytes in the byte order of the host.
    #[must_use]
    pub fn new(gids: &'a [u8]) -> Self {
        Self(gids)
    }

    /// Their gids.
    pub fn gids(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.0.chunks_exact(4).filter_map(|gid| Some(u32::from_ne_bytes(gid.try_into().ok()?)))
    }
}

/// A record whose header was read and lies, with all it claims to have, inside the file.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    bytes: &'a Bytes,
    at: usize,
    pub(super) size: usize,
    kind: u32,
}

impl<'a> Record<'a> {
    #[inline]
    pub(super) fn at(bytes: &'a Bytes, at: usize) -> Option<Self> {
        let size = bytes.u32(at.checked_add(record::SIZE)?)? as usize;
        let kind = bytes.u32(at.checked_add(record::KIND)?)?;
        let is_inside = bytes.slice(at, size).is_some();
        let is_possible = size >= record::SIZE_MIN && size == padded(size);
        (is_inside && is_possible).then_some(Self { bytes, at, size, kind })
    }

    #[inline]
    pub(super) fn expires(&self) -> Option<u64> {
        self.bytes.u64(self.at + record::EXPIRES)
    }

    pub(super) fn is_absent(&self) -> bool {
        self.kind >= KIND_ABSENT
    }

    /// The record's key in a table.
    #[inline]
    pub(super) fn key(&self, table: Table) -> Option<Key<'a>> {
        let id = || self.number(0).map(Key::Id);
        let name = |length, at| self.text(at, length).map(Key::Name);
        match (self.kind, table) {
            (KIND_PASSWD, Table::PasswdByName) => name(self.passwd_lengths()?[0], record::PASSWD_TEXTS),
            (KIND_PASSWD, Table::PasswdById) | (KIND_GROUP, Table::GroupById) => id(),
            (KIND_GROUP, Table::GroupByName) => name(self.number(2)? as usize, record::GROUP_TEXTS),
            (KIND_GROUPS_OF, Table::GroupsOf) => self.groups_of().map(|(name, _)| Key::Name(name)),
            (kind, _) if kind == KIND_ABSENT + table as u32 => match table {
                Table::PasswdById | Table::GroupById => id(),
                _ => name(self.number(1)? as usize, record::ABSENT_NAME),
            },
            _ => None,
        }
    }

    #[inline]
    pub(super) fn passwd(&self) -> Option<PasswdView<'a>> {
        if self.kind != KIND_PASSWD {
            return None;
        }
        let [name, gecos, home, shell] = self.passwd_lengths()?;
        let gecos_at = record::PASSWD_TEXTS + name + 1;
        let home_at = gecos_at + gecos + 1;
        let shell_at = home_at + home + 1;
        Some(PasswdView {
            name: self.text(record::PASSWD_TEXTS, name)?,
            uid: self.number(0)?,
            gid: self.number(1)?,
            gecos: self.text(gecos_at, gecos)?,
            home: self.text(home_at, home)?,
            shell: self.text(shell_at, shell)?,
        })
    }

    #[inline]
    pub(super) fn group(&self) -> Option<GroupView<'a>> {
        if self.kind != KIND_GROUP {
            return None;
        }
        let name_length = self.number(2)? as usize;
        let block_length = self.number(3)? as usize;
        let member_count = self.number(1)?;
        // A name and its NUL byte take two. A reader makes room for so many pointers.
        if member_count as usize > block_length / 2 {
            return None;
        }
        Some(GroupView {
            name: self.text(record::GROUP_TEXTS, name_length)?,
            gid: self.number(0)?,
            member_count,
            member_block: self.inside(record::GROUP_TEXTS + name_length + 1, block_length)?,
        })
    }

    /// The name and its groups.
    #[inline]
    pub(super) fn groups_of(&self) -> Option<(&'a [u8], GroupsView<'a>)> {
        if self.kind != KIND_GROUPS_OF {
            return None;
        }
        let gids_length = (self.number(0)? as usize).checked_mul(4)?;
        let gids = self.inside(record::GROUPS_GIDS, gids_length)?;
        let name = self.text(record::GROUPS_GIDS + gids_length, self.number(1)? as usize)?;
        Some((name, GroupsView(gids)))
    }

    #[inline]
    fn passwd_lengths(&self) -> Option<[usize; 4]> {
        // Two lengths of 16 bits in each number, the first in the bytes that come first.
        let split = |number: u32| {
            let bytes = number.to_ne_bytes();
            [u16::from_ne_bytes([bytes[0], bytes[1]]), u16::from_ne_bytes([bytes[2], bytes[3]])]
                .map(usize::from)
        };
        let [name, gecos] = split(self.number(2)?);
        let [home, shell] = split(self.number(3)?);
        Some([name, gecos, home, shell])
    }

    /// The kind's `index`th number of 32 bits.
    #[inline]
    fn number(&self, index: usize) -> Option<u32> {
        self.bytes.u32(self.at + record::FIELDS + 4 * index)
    }

    /// A text of the record, with room for its NUL byte.
    #[inline]
    fn text(&self, offset: usize, length: usize) -> Option<&'a [u8]> {
        self.inside(offset, length.checked_add(1)?)?.get(..length)
    }

    #[inline]
    fn inside(&self, offset: usize, length: usize) -> Option<&'a [u8]> {
        let end = offset.checked_add(length)?;
        if end > self.size { None } else { self.bytes.slice(self.at + offset, length) }
    }
}
