//! The two files as one map.

use std::path::Path;

use super::layout::REPLACED;
use super::reader::{Map, MapError, file_at};
use super::view::{Age, Answer, GroupView, GroupsView, PasswdView};
use super::{BASE_FILE, RECENT_FILE};

/// How often the files are opened again that were replaced meanwhile. It takes a publication each time.
const REOPENINGS: usize = 8;

/// What is known about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// The entry.
    Entry(T, Age),
    /// There is no such entry.
    Absent(Age),
    /// The map does not know: ask the daemon.
    Unknown,
}

impl<T> Found<T> {
    /// Whether this is an answer that needs no daemon.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        matches!(self, Self::Entry(_, Age::Fresh) | Self::Absent(Age::Fresh))
    }
}

/// A base and, if there is one, the recent file that shadows it.
pub struct Snapshot {
    base: Map,
    recent: Option<Map>,
    superseded: u32,
}

impl Snapshot {
    /// Opens what is published in `directory`.
    ///
    /// # Errors
    /// The base's; a recent file that is missing or damaged is left out.
    pub fn open(directory: &Path) -> Result<Self, MapError> {
        let mut snapshot = Self::open_once(directory)?;
        // Published between the opening of the two files and now: they may not belong together.
        for _ in 0..REOPENINGS {
            if snapshot.is_current() {
                break;
            }
            snapshot = Self::open_once(directory)?;
        }
        Ok(snapshot)
    }

    fn open_once(directory: &Path) -> Result<Self, MapError> {
        let base = Map::open(&directory.join(BASE_FILE))?;
        // Before the recent file is opened: one published after that moves the number.
        let superseded = base.superseded();
        let recent = Map::open(&directory.join(RECENT_FILE)).ok();
        Ok(Self { base, recent, superseded })
    }

    /// Whether nothing newer was published since this was opened.
    #[inline]
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.base.superseded() == self.superseded && self.superseded & REPLACED == 0
    }

    /// Whether both are the same files, opened between the same two publications.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let recent = |snapshot: &Self| snapshot.recent.as_ref().map(Map::file);
        self.base.file() == other.base.file()
            && recent(self) == recent(other)
            && self.superseded == other.superseded
    }

    /// Whether these are still the files in `directory`; two system calls. Readers that were not told of newer ones (the
    /// daemon died after they were published) find out so.
    #[must_use]
    pub fn is_in(&self, directory: &Path) -> bool {
        let file = |name| file_at(&directory.join(name));
        file(BASE_FILE) == Some(self.base.file()) && file(RECENT_FILE) == self.recent.as_ref().map(Map::file)
    }

    /// The base.
    #[must_use]
    pub fn base(&self) -> &Map {
        &self.base
    }

    /// The recent file.
    #[must_use]
    pub fn recent(&self) -> Option<&Map> {
        self.recent.as_ref()
    }

    /// The passwd entry of a name.
    #[inline]
    #[must_use]
    pub fn passwd_by_name(&self, name: &[u8], now: u64) -> Found<PasswdView<'_>> {
        self.find(now, |map| map.passwd_by_name(name, now))
    }

    /// The passwd entry of a user id.
    #[inline]
    #[must_use]
    pub fn passwd_by_id(&self, uid: u32, now: u64) -> Found<PasswdView<'_>> {
        self.find(now, |map| map.passwd_by_id(uid, now))
    }

    /// The group entry of a name.
    #[inline]
    #[must_use]
    pub fn group_by_name(&self, name: &[u8], now: u64) -> Found<GroupView<'_>> {
        self.find(now, |map| map.group_by_name(name, now))
    }

    /// The group entry of a group id.
    #[inline]
    #[must_use]
    pub fn group_by_id(&self, gid: u32, now: u64) -> Found<GroupView<'_>> {
        self.find(now, |map| map.group_by_id(gid, now))
    }

    /// The groups that list a name as a member: none for a user in no group, absent for a name that is neither.
    #[inline]
    #[must_use]
    pub fn groups_of(&self, name: &[u8], now: u64) -> Found<GroupsView<'_>> {
        match self.find(now, |map| map.groups_of(name, now)) {
            Found::Absent(age) if self.base.is_complete() => match self.passwd_by_name(name, now) {
                // In no group, as the complete listing says, but a user.
                Found::Entry(_, user_age) => Found::Entry(GroupsView::EMPTY, age.max(user_age)),
                _ => Found::Absent(age),
            },
            found => found,
        }
    }

    /// The next passwd entry of an enumeration that is not expired; `cursor` is [`Cursor::default`] at first.
    pub fn next_passwd(&self, cursor: &mut Cursor, now: u64) -> Option<PasswdView<'_>> {
        self.next(
            cursor,
            |map, cursor| map.next_passwd(cursor, now),
            |map, entry| map.passwd_by_name(entry.name, 0).is_some(),
        )
    }

    /// The next group entry of an enumeration that is not expired.
    pub fn next_group(&self, cursor: &mut Cursor, now: u64) -> Option<GroupView<'_>> {
        self.next(
            cursor,
            |map, cursor| map.next_group(cursor, now),
            |map, entry| map.group_by_name(entry.name, 0).is_some(),
        )
    }

    #[inline]
    fn find<'a, T>(&'a self, now: u64, ask: impl Fn(&'a Map) -> Option<Answer<T>>) -> Found<T> {
        let answer = self.recent.as_ref().and_then(&ask).or_else(|| ask(&self.base));
        match answer {
            Some(Answer { entry: Some(entry), age }) => Found::Entry(entry, age),
            Some(Answer { entry: None, age }) => Found::Absent(age),
            None if self.base.is_complete() => Found::Absent(self.base.age(now)),
            None => Found::Unknown,
        }
    }

    fn next<'a, T>(
        &'a self,
        cursor: &mut Cursor,
        walk: impl Fn(&'a Map, usize) -> Option<(T, usize)>,
        has: impl Fn(&Map, &T) -> bool,
    ) -> Option<T> {
        if let (false, Some(recent)) = (cursor.is_in_base, &self.recent) {
            if let Some((entry, next)) = walk(recent, cursor.position) {
                cursor.position = next;
                return Some(entry);
            }
        }
        if !cursor.is_in_base {
            *cursor = Cursor { is_in_base: true, position: 0 };
        }
        while let Some((entry, next)) = walk(&self.base, cursor.position) {
            cursor.position = next;
            if !self.recent.as_ref().is_some_and(|recent| has(recent, &entry)) {
                return Some(entry);
            }
        }
        None
    }
}

/// A place in an enumeration; it belongs to one [`Snapshot`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    is_in_base: bool,
    position: usize,
}
