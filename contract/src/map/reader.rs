//! One mapped file.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, open, stat};

use super::CLOCK_SLACK;
use super::bytes::Bytes;
use super::index::MappedTable;
use super::layout::{
    FLAG_COMPLETE, FLAG_ENUMERATE, FORMAT_VERSION, Key, MAGIC, REPLACED, SLOT_SIZE, Table, UNIT, header,
    region,
};
use super::view::{Age, Answer, GroupView, GroupsView, PasswdView, Record};

/// Why a file is not used as a map.
#[derive(Debug)]
pub enum MapError {
    /// It is not there, or it cannot be opened or mapped.
    Io(std::io::Error),
    /// It is not a map of this format version, or it is damaged: publish it anew.
    Damaged(&'static str),
}

impl std::fmt::Display for MapError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the lookup map cannot be opened: {error}"),
            Self::Damaged(what) => write!(f, "the lookup map is damaged: {what}"),
        }
    }
}

impl std::error::Error for MapError {}

impl From<std::io::Error> for MapError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// One of the two files, mapped. Lookups take no lock, allocate nothing and make no system call.
pub struct Map {
    bytes: Bytes,
    /// See [`Map::file`].
    file: (u64, u64),
    seed: u64,
    built: u64,
    stale_for: u64,
    flags: u32,
    tables: [MappedTable; 5],
    regions: [std::ops::Range<usize>; 2],
    counts: [u32; 2],
}

impl Map {
    /// Opens and checks a map; follows no symbolic link.
    ///
    /// # Errors
    /// [`MapError::Io`] if there is no such file, [`MapError::Damaged`] if its header cannot be right.
    pub fn open(path: &Path) -> Result<Self, MapError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = open(path, flags, Mode::empty()).map_err(std::io::Error::from)?;
        let status = fstat(&file).map_err(std::io::Error::from)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(MapError::Damaged("it is no regular file"));
        }
        if usize::try_from(status.st_size).unwrap_or(0) < header::SIZE {
            return Err(MapError::Damaged("it is shorter than its header"));
        }
        Self::read_header(Bytes::map(&File::from(file))?, (status.st_dev, status.st_ino))
    }

    /// Which file it is: device and inode.
    pub(super) fn file(&self) -> (u64, u64) {
        self.file
    }

    fn read_header(bytes: Bytes, file: (u64, u64)) -> Result<Self, MapError> {
        let number = |at| bytes.u32(at).ok_or(MapError::Damaged("its header is cut off"));
        let long = |at| bytes.u64(at).ok_or(MapError::Damaged("its header is cut off"));
        if long(header::MAGIC)? != MAGIC {
            return Err(MapError::Damaged("it does not begin as a map"));
        }
        if number(header::VERSION)? != FORMAT_VERSION {
            return Err(MapError::Damaged("it has another format version"));
        }
        if long(header::LENGTH)? != bytes.len() as u64 {
            return Err(MapError::Damaged("its length is not the one in its header"));
        }
        let mut tables = [MappedTable { at: 0, slots: 0 }; 5];
        for (index, table) in tables.iter_mut().enumerate() {
            table.at = number(header::TABLES + 8 * index)? as usize * UNIT;
            table.slots = number(header::TABLES + 8 * index + 4)?;
            let is_inside = bytes.slice(table.at, table.slots as usize * SLOT_SIZE).is_some();
            if !is_inside || (table.slots != 0 && !table.slots.is_power_of_two()) {
                return Err(MapError::Damaged("a table of it lies outside"));
            }
        }
        let region_at = |at| Ok::<_, MapError>(region(number(at)?, number(at + 4)?));
        let regions = [region_at(header::REGIONS)?, region_at(header::REGIONS + 8)?];
        if regions.iter().any(|region| region.start > region.end || region.end > bytes.len()) {
            return Err(MapError::Damaged("its records lie outside"));
        }
        Ok(Self {
            seed: long(header::SEED)?,
            built: long(header::BUILT)?,
            stale_for: long(header::STALE_FOR)?,
            flags: number(header::FLAGS)?,
            counts: [number(header::COUNTS)?, number(header::COUNTS + 4)?],
            tables,
            regions,
            bytes,
            file,
        })
    }

    /// When it was built, in UNIX seconds.
    #[must_use]
    pub fn built(&self) -> u64 {
        self.built
    }

    /// Until when all of its entries are fresh, in UNIX seconds; [`set_fresh_until`](super::set_fresh_until) moves it.
    #[must_use]
    pub fn fresh_until(&self) -> u64 {
        self.bytes.u64(header::FRESH_UNTIL).unwrap_or(0)
    }

    /// For how many seconds an entry that is not fresh may still be answered with while the daemon is away.
    #[must_use]
    pub fn stale_for(&self) -> u64 {
        self.stale_for
    }

    /// Whether the settings allow to list all entries.
    #[must_use]
    pub fn may_enumerate(&self) -> bool {
        self.flags & FLAG_ENUMERATE != 0
    }

    /// Whether a key that neither file has does not exist.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.flags & FLAG_COMPLETE != 0
    }

    /// The number of passwd and of group entries, as the header says.
    #[must_use]
    pub fn counts(&self) -> [u32; 2] {
        self.counts
    }

    /// How often something newer was published (modulo 2^31), or that this is no longer the published file: a reader
    /// that sees it change opens the files again.
    #[inline]
    pub(super) fn superseded(&self) -> u32 {
        self.bytes.u32_acquire(header::SUPERSEDED).unwrap_or(REPLACED)
    }

    /// The age of an answer that has no expiry of its own.
    #[must_use]
    pub fn age(&self, now: u64) -> Age {
        self.age_of(0, now)
    }

    /// The passwd entry of a name.
    #[inline]
    #[must_use]
    pub fn passwd_by_name(&self, name: &[u8], now: u64) -> Option<Answer<PasswdView<'_>>> {
        self.find(Table::PasswdByName, Key::Name(name), now, |record| {
            record.passwd().filter(|entry| entry.name == name)
        })
    }

    /// The passwd entry of a user id.
    #[inline]
    #[must_use]
    pub fn passwd_by_id(&self, uid: u32, now: u64) -> Option<Answer<PasswdView<'_>>> {
        self.find(Table::PasswdById, Key::Id(uid), now, |record| {
            record.passwd().filter(|entry| entry.uid == uid)
        })
    }

    /// The group entry of a name.
    #[inline]
    #[must_use]
    pub fn group_by_name(&self, name: &[u8], now: u64) -> Option<Answer<GroupView<'_>>> {
        self.find(Table::GroupByName, Key::Name(name), now, |record| {
            record.group().filter(|entry| entry.name == name)
        })
    }

    /// The group entry of a group id.
    #[inline]
    #[must_use]
    pub fn group_by_id(&self, gid: u32, now: u64) -> Option<Answer<GroupView<'_>>> {
        self.find(Table::GroupById, Key::Id(gid), now, |record| {
            record.group().filter(|entry| entry.gid == gid)
        })
    }

    /// The groups that list a name as a member. An absent entry means that the name is no user and in no group.
    #[inline]
    #[must_use]
    pub fn groups_of(&self, name: &[u8], now: u64) -> Option<Answer<GroupsView<'_>>> {
        self.find(Table::GroupsOf, Key::Name(name), now, |record| {
            record.groups_of().filter(|(owner, _)| *owner == name).map(|(_, groups)| groups)
        })
    }

    /// The next passwd entry at or after `cursor` (0 at first) that is not expired, and the cursor that follows it.
    #[must_use]
    pub fn next_passwd(&self, cursor: usize, now: u64) -> Option<(PasswdView<'_>, usize)> {
        self.walk(0, cursor, now, |record| record.passwd())
    }

    /// The next group entry at or after `cursor` (0 at first) that is not expired, and the cursor that follows it.
    #[must_use]
    pub fn next_group(&self, cursor: usize, now: u64) -> Option<(GroupView<'_>, usize)> {
        self.walk(1, cursor, now, |record| record.group())
    }

    fn walk<'a, T>(
        &'a self,
        region: usize,
        mut cursor: usize,
        now: u64,
        entry: impl Fn(Record<'a>) -> Option<T>,
    ) -> Option<(T, usize)> {
        let region = &self.regions[region];
        // Ends: a record has a size above zero, or it is no record.
        while region.start + cursor < region.end {
            let record = Record::at(&self.bytes, region.start + cursor)?;
            cursor += record.size;
            let is_expired = self.age_of(record.expires()?, now) == Age::Expired;
            match entry(record) {
                Some(entry) if !is_expired => return Some((entry, cursor)),
                _ => {}
            }
        }
        None
    }

    #[inline]
    fn find<'a, T>(
        &'a self,
        table: Table,
        key: Key<'_>,
        now: u64,
        entry: impl Fn(&Record<'a>) -> Option<T>,
    ) -> Option<Answer<T>> {
        self.tables[table as usize].find(&self.bytes, key, self.seed, |at| {
            let record = Record::at(&self.bytes, at)?;
            let entry = match entry(&record) {
                Some(entry) => Some(entry),
                None if record.is_absent() && is_same(record.key(table)?, key) => None,
                None => return None,
            };
            Some(Answer { entry, age: self.age_of(record.expires()?, now) })
        })
    }

    #[inline]
    fn age_of(&self, expires: u64, now: u64) -> Age {
        let fresh_until = self.fresh_until().max(expires);
        if now < fresh_until && now.saturating_add(CLOCK_SLACK) >= self.built {
            Age::Fresh
        } else if now < fresh_until.saturating_add(self.stale_for) {
            Age::Stale
        } else {
            Age::Expired
        }
    }
}

/// Device and inode of the file at `path`, if there is one.
pub(super) fn file_at(path: &Path) -> Option<(u64, u64)> {
    stat(path).ok().map(|status| (status.st_dev, status.st_ino))
}

pub(super) fn is_same(one: Key<'_>, other: Key<'_>) -> bool {
    match (one, other) {
        (Key::Name(one), Key::Name(other)) => one == other,
        (Key::Id(one), Key::Id(other)) => one == other,
        _ => false,
    }
}
