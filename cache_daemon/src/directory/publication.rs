//! The lookup map as a projection of the cache: a base with everything, and a recent file with what changed since.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use privacyidea_contract::map::{self, BASE_FILE, Contents, Description, Map, RECENT_FILE};
use privacyidea_contract::wire::{GroupEntry, Lookup, PasswdEntry};

use super::Rules;
use crate::administration::MapStatus;
use crate::service::clock::UnixSeconds;
use crate::settings;
use crate::store::{Cache, CacheError, Cached, Changes};

/// Entries are read from the cache so many at a time, so that others get at it in between.
const PAGE: u32 = 5_000;
/// A base with fewer entries is rebuilt at once; that takes some milliseconds.
const BASE_WORTH_KEEPING: usize = 5_000;
/// With more changed keys than this the base is rebuilt.
const RECENT_MAX: usize = 1_000;

/// The map, as far as this process knows what is in it.
pub(super) struct Publication {
    directory: PathBuf,
    settings: settings::Cache,
    base: Option<Base>,
    has_recent: bool,
    /// Changed since the base was built.
    touched: Changes,
    /// Whether some of that is not published yet.
    is_dirty: bool,
}

struct Base {
    built: UnixSeconds,
    entries: usize,
    is_complete: bool,
    rules: Rules,
}

/// What holds for everything that is in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coverage {
    /// Whether each resolver has said all that it has, sometime.
    pub(super) is_complete: bool,
    /// Until when all of it is believed.
    pub(super) fresh_until: UnixSeconds,
    /// Whether it is all as new: not, while one of several resolvers fails.
    pub(super) is_even: bool,
}

/// Why the map was not published. The one before stays in place, and publishing is tried again.
#[derive(Debug)]
pub(super) enum PublicationError {
    Cache(CacheError),
    Io(io::Error),
}

impl std::fmt::Display for PublicationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cache(error) => write!(f, "the lookup map cannot be published: {error}"),
            Self::Io(error) => write!(f, "the lookup map cannot be published: {error}"),
        }
    }
}

impl From<CacheError> for PublicationError {
    fn from(error: CacheError) -> Self {
        Self::Cache(error)
    }
}

impl From<io::Error> for PublicationError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Publication {
    pub(super) fn new(directory: &Path, settings: settings::Cache) -> Self {
        Self {
            directory: directory.to_owned(),
            settings,
            base: None,
            has_recent: false,
            touched: Changes::default(),
            is_dirty: false,
        }
    }

    /// Notes what the map says otherwise than the cache.
    pub(super) fn touch(&mut self, changes: Changes) {
        self.is_dirty |= !changes.is_empty();
        self.touched.append(changes);
    }

    /// Brings the map up to the cache, by the least that is enough.
    pub(super) fn publish(
        &mut self,
        cache: &Cache,
        rules: &Rules,
        coverage: Coverage,
        now: UnixSeconds,
    ) -> Result<(), PublicationError> {
        if !coverage.is_complete && self.is_published_complete() {
            // The cache was lost and a resolver is away: the map knows more than the cache does.
            return Ok(());
        }
        let Some(base) = self.base.as_ref().filter(|base| self.is_kept(base, rules, coverage, now)) else {
            return self.publish_base(cache, rules, coverage, now);
        };
        if !coverage.is_even {
            // The entries' own times count, so the base is rebuilt before they are over.
            let half = self.settings.timeout.as_secs() / 2;
            if self.is_dirty || now >= base.built + half {
                return self.publish_base(cache, rules, coverage, now);
            }
            return Ok(());
        }
        if self.is_dirty {
            self.publish_recent(cache, rules, coverage, now)?;
        }
        // A map that somebody deleted or damaged is published anew.
        self.freshen(coverage).or_else(|_| self.publish_base(cache, rules, coverage, now))
    }

    /// Whether the base can stay, with a recent file for what changed since.
    fn is_kept(&self, base: &Base, rules: &Rules, coverage: Coverage, now: UnixSeconds) -> bool {
        let is_small_change = !self.touched.are_too_many && self.touched.len() <= RECENT_MAX;
        let is_worth_it = base.entries >= BASE_WORTH_KEEPING && is_small_change;
        // Readers distrust a base from the future: the clock was set back.
        base.built <= now
            && base.is_complete == coverage.is_complete
            && base.rules.is_same_as(rules)
            && (self.touched.is_empty() || is_worth_it)
    }

    fn freshen(&self, coverage: Coverage) -> Result<(), PublicationError> {
        map::set_fresh_until(&self.directory, BASE_FILE, coverage.fresh_until)?;
        if self.has_recent {
            map::set_fresh_until(&self.directory, RECENT_FILE, coverage.fresh_until)?;
        }
        Ok(())
    }

    fn is_published_complete(&self) -> bool {
        Map::open(&self.directory.join(BASE_FILE)).is_ok_and(|map| map.is_complete())
    }

    fn publish_base(
        &mut self,
        cache: &Cache,
        rules: &Rules,
        coverage: Coverage,
        now: UnixSeconds,
    ) -> Result<(), PublicationError> {
        let mut contents = Contents::listing(self.description(coverage, now));
        let mut entries = 0;
        pages(
            |after| cache.users_after(after, PAGE),
            |user: &PasswdEntry| &user.name,
            |user| {
                if rules.check_user(&user.entry).is_ok()
                    && contents.passwd(&user.entry, user.expires()).is_ok()
                {
                    entries += 1;
                }
            },
        )?;
        pages(
            |after| cache.groups_after(after, PAGE),
            |group: &GroupEntry| &group.name,
            |group| {
                if rules.check_group(&group.entry).is_ok()
                    && contents.group(&group.entry, group.expires()).is_ok()
                {
                    entries += 1;
                }
            },
        )?;
        map::publish(&self.directory, BASE_FILE, contents)?;
        self.base =
            Some(Base { built: now, entries, is_complete: coverage.is_complete, rules: rules.clone() });
        if fs::exists(self.directory.join(RECENT_FILE))? {
            // Base first: until the old recent file is out of the way, readers see at worst what they saw before.
            let nothing = Contents::changes(self.description(coverage, now));
            map::publish(&self.directory, RECENT_FILE, nothing)?;
        }
        self.has_recent = false;
        self.touched = Changes::default();
        self.is_dirty = false;
        Ok(())
    }

    fn publish_recent(
        &mut self,
        cache: &Cache,
        rules: &Rules,
        coverage: Coverage,
        now: UnixSeconds,
    ) -> Result<(), PublicationError> {
        let mut recent = Recent {
            contents: Contents::changes(self.description(coverage, now)),
            cache,
            rules,
            absent_until: coverage.fresh_until,
        };
        let Changes { users, uids, groups, gids, members, .. } = &self.touched;
        users.iter().try_for_each(|name| recent.user(&Lookup::PasswdByName(name.clone())))?;
        uids.iter().try_for_each(|uid| recent.user(&Lookup::PasswdById(*uid)))?;
        groups.iter().try_for_each(|name| recent.group(&Lookup::GroupByName(name.clone())))?;
        gids.iter().try_for_each(|gid| recent.group(&Lookup::GroupById(*gid)))?;
        members.iter().try_for_each(|member| recent.groups_of(member))?;
        map::publish(&self.directory, RECENT_FILE, recent.contents)?;
        self.has_recent = true;
        self.is_dirty = false;
        Ok(())
    }

    fn description(&self, coverage: Coverage, now: UnixSeconds) -> Description {
        Description {
            built: now,
            fresh_until: coverage.fresh_until,
            stale_for: self.settings.stale_for.as_secs(),
            enumerate: self.settings.enumerate,
            complete: coverage.is_complete,
        }
    }
}

/// What a directory has published, for people.
pub(super) fn status(directory: &Path) -> MapStatus {
    let bytes = [BASE_FILE, RECENT_FILE]
        .iter()
        .filter_map(|name| fs::metadata(directory.join(name)).ok())
        .map(|metadata| metadata.len())
        .sum();
    match Map::open(&directory.join(BASE_FILE)) {
        Ok(map) => {
            let [users, groups] = map.counts().map(u64::from);
            MapStatus { built: Some(map.built()), users, groups, bytes }
        }
        Err(_) => MapStatus { built: None, users: 0, groups: 0, bytes },
    }
}

/// A recent file in the making. What the format does not take (an entry too large) is left to the daemon to answer.
struct Recent<'a> {
    contents: Contents,
    cache: &'a Cache,
    rules: &'a Rules,
    absent_until: UnixSeconds,
}

impl Recent<'_> {
    fn user(&mut self, key: &Lookup) -> Result<(), CacheError> {
        let found = self.cache.user(key)?.filter(|user| self.rules.check_user(&user.entry).is_ok());
        let _ = match found {
            Some(user) => self.contents.passwd(&user.entry, user.expires()),
            None => self.contents.absent(key, self.absent_until),
        };
        Ok(())
    }

    fn group(&mut self, key: &Lookup) -> Result<(), CacheError> {
        let found = self.cache.group(key)?.filter(|group| self.rules.check_group(&group.entry).is_ok());
        let _ = match found {
            Some(group) => self.contents.group(&group.entry, group.expires()),
            None => self.contents.absent(key, self.absent_until),
        };
        Ok(())
    }

    fn groups_of(&mut self, member: &str) -> Result<(), CacheError> {
        let groups = self.cache.groups_of(member)?;
        let gids: Vec<u32> = groups
            .iter()
            .filter(|group| self.rules.check_group(&group.entry).is_ok())
            .map(|group| group.entry.gid)
            .collect();
        let expires = groups.iter().map(Cached::expires).min().unwrap_or(self.absent_until);
        let is_user = self.cache.user(&Lookup::PasswdByName(member.to_owned()))?.is_some();
        let _ = if gids.is_empty() && !is_user {
            self.contents.absent(&Lookup::Groups(member.to_owned()), expires)
        } else {
            self.contents.groups_of(member, &gids, expires)
        };
        Ok(())
    }
}

/// Walks a table of the cache page by page.
pub(super) fn pages<T>(
    page: impl Fn(&str) -> Result<Vec<Cached<T>>, CacheError>,
    name: impl Fn(&T) -> &str,
    mut each: impl FnMut(Cached<T>),
) -> Result<(), CacheError> {
    let mut after = String::new();
    loop {
        let entries = page(&after)?;
        let Some(last) = entries.last() else { return Ok(()) };
        name(&last.entry).clone_into(&mut after);
        entries.into_iter().for_each(&mut each);
    }
}
