//! `cache.db`: users and groups of the resolvers, each with the time until which it is believed, and what was asked for
//! in vain. May be deleted at any moment, also under a running daemon: `synchronous=NORMAL`, made anew if missing or
//! damaged.

use std::fmt;
use std::path::Path;

use privacyidea_contract::wire::{GroupEntry, Lookup, PasswdEntry};
use rusqlite::{OptionalExtension, params};

use crate::service::clock::UnixSeconds;

mod changes;
mod connections;
mod replace;
mod rows;

pub use changes::Changes;
use connections::Connections;
pub use replace::ResolverListing;
use rows::{absent_key, group, integer, natural, one_group, one_user, times, user};

/// The user cache. Any number of threads may use it at a time; reading does not wait for writing.
pub struct Cache {
    connections: Connections,
}

/// When an entry was learnt, and when its timeout ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// When the resolver said it.
    pub fetched: UnixSeconds,
    /// When it is to be asked again.
    pub expires: UnixSeconds,
}

impl Times {
    /// Whether it is believed at `now`. What comes from the future is not: the clock was set back.
    #[must_use]
    pub fn are_fresh(&self, now: UnixSeconds) -> bool {
        self.fetched <= now && now < self.expires
    }
}

/// An entry of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached<T> {
    /// The user or group.
    pub entry: T,
    /// Which resolver said it.
    pub resolver: String,
    /// When it was learnt by itself.
    pub learnt: Times,
    /// When its resolver was last listed whole; an entry that such a listing left in place is as new as the listing.
    pub listed: Option<Times>,
}

impl<T> Cached<T> {
    /// Whether it is believed at `now`.
    #[must_use]
    pub fn is_fresh(&self, now: UnixSeconds) -> bool {
        self.learnt.are_fresh(now) || self.listed.is_some_and(|listed| listed.are_fresh(now))
    }

    /// When its timeout ends.
    #[must_use]
    pub fn expires(&self) -> UnixSeconds {
        self.learnt.expires.max(self.listed.map_or(0, |listed| listed.expires))
    }
}

/// Something that was asked for in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// `user`, `uid`, `group`, `gid` or `groups-of`.
    pub kind: String,
    /// The name or id.
    pub key: String,
    /// How long that is believed.
    pub times: Times,
}

/// Why the cache did not do it. Nothing was changed.
#[derive(Debug)]
pub enum CacheError {
    /// Try again later: disk full, locked for too long, I/O error.
    Database(rusqlite::Error),
    /// The file cannot be made or read: its directory is missing, or belongs to somebody else.
    Unusable(String),
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(error) => write!(f, "the user cache failed: {error}"),
            Self::Unusable(sentence) => write!(f, "the user cache cannot be used: {sentence}"),
        }
    }
}

impl std::error::Error for CacheError {}

const SCHEMA_VERSION: i64 = 1;

const SCHEMA: &str = "
    CREATE TABLE user_entries (
        name TEXT PRIMARY KEY, uid INTEGER NOT NULL UNIQUE, gid INTEGER NOT NULL,
        gecos TEXT NOT NULL, home TEXT NOT NULL, shell TEXT NOT NULL,
        resolver TEXT NOT NULL, fetched INTEGER NOT NULL, expires INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE group_entries (
        name TEXT PRIMARY KEY, gid INTEGER NOT NULL UNIQUE,
        resolver TEXT NOT NULL, fetched INTEGER NOT NULL, expires INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    -- The members of a group, in the resolver's order.
    CREATE TABLE memberships (
        gid INTEGER NOT NULL, position INTEGER NOT NULL, member TEXT NOT NULL, PRIMARY KEY (gid, position)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX memberships_by_member ON memberships (member);
    -- Members whose groups were asked for by themselves: all of them are in memberships.
    CREATE TABLE member_lists (
        member TEXT PRIMARY KEY, fetched INTEGER NOT NULL, expires INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE absent_entries (
        kind TEXT NOT NULL, key TEXT NOT NULL, fetched INTEGER NOT NULL, expires INTEGER NOT NULL,
        PRIMARY KEY (kind, key)
    ) STRICT, WITHOUT ROWID;
    -- When each resolver was last listed whole.
    CREATE TABLE listings (
        resolver TEXT PRIMARY KEY, fetched INTEGER NOT NULL, expires INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

impl Cache {
    /// Opens the database; makes it anew, mode 0600, if it is missing, damaged, or of another version.
    ///
    /// # Errors
    /// Every [`CacheError`].
    pub fn open(path: &Path) -> Result<Self, CacheError> {
        Ok(Self { connections: Connections::open(path)? })
    }

    /// Changes each time that an empty database took the place of a deleted or damaged one.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.connections.generation()
    }

    /// The user that a lookup asks for, by name or by id.
    ///
    /// # Errors
    /// Every [`CacheError`], as of all methods below.
    pub fn user(&self, lookup: &Lookup) -> Result<Option<Cached<PasswdEntry>>, CacheError> {
        self.connections.read(|connection| match lookup {
            Lookup::PasswdByName(name) => one_user(connection, "name", name),
            Lookup::PasswdById(uid) => one_user(connection, "uid", uid),
            _ => Ok(None),
        })
    }

    /// The group that a lookup asks for, by name or by id.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn group(&self, lookup: &Lookup) -> Result<Option<Cached<GroupEntry>>, CacheError> {
        self.connections.read(|connection| match lookup {
            Lookup::GroupByName(name) => one_group(connection, "name", name),
            Lookup::GroupById(gid) => one_group(connection, "gid", gid),
            _ => Ok(None),
        })
    }

    /// The groups that list a member, without their members, by gid.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn groups_of(&self, member: &str) -> Result<Vec<Cached<GroupEntry>>, CacheError> {
        self.connections.read(|connection| {
            let sql = format!(
                "{} WHERE gid IN (SELECT gid FROM memberships WHERE member = ?1) ORDER BY gid",
                rows::GROUPS
            );
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_map([member], group)?.collect()
        })
    }

    /// When all groups of this member were last asked for by themselves.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn groups_of_asked(&self, member: &str) -> Result<Option<Times>, CacheError> {
        self.connections.read(|connection| {
            let sql = "SELECT fetched, expires FROM member_lists WHERE member = ?1";
            connection.prepare_cached(sql)?.query_row([member], |row| times(row, 0)).optional()
        })
    }

    /// When this was last asked for in vain.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn absent(&self, lookup: &Lookup) -> Result<Option<Times>, CacheError> {
        let (kind, key) = absent_key(lookup);
        self.connections.read(|connection| {
            let sql = "SELECT fetched, expires FROM absent_entries WHERE kind = ?1 AND key = ?2";
            connection.prepare_cached(sql)?.query_row([kind, &key], |row| times(row, 0)).optional()
        })
    }

    /// When each resolver was last listed whole.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn listings(&self) -> Result<Vec<(String, Times)>, CacheError> {
        self.connections.read(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT resolver, fetched, expires FROM listings")?;
            statement.query_map([], |row| Ok((row.get(0)?, times(row, 1)?)))?.collect()
        })
    }

    /// Users in the order of their names, at most `limit` of those that come after `name` (empty: from the first on).
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn users_after(&self, name: &str, limit: u32) -> Result<Vec<Cached<PasswdEntry>>, CacheError> {
        self.connections.read(|connection| {
            let sql = format!("{} WHERE name > ?1 ORDER BY name LIMIT ?2", rows::USERS);
            connection.prepare_cached(&sql)?.query_map(params![name, limit], user)?.collect()
        })
    }

    /// Groups with their members in the order of their names, at most `limit` of those that come after `name`.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn groups_after(&self, name: &str, limit: u32) -> Result<Vec<Cached<GroupEntry>>, CacheError> {
        self.connections.read(|connection| {
            let sql = format!("{} WHERE name > ?1 ORDER BY name LIMIT ?2", rows::GROUPS);
            let mut statement = connection.prepare_cached(&sql)?;
            let groups = statement.query_map(params![name, limit], group)?;
            groups.map(|group| rows::with_members(connection, group?)).collect()
        })
    }

    /// Everything that was asked for in vain, by kind and key.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn all_absent(&self) -> Result<Vec<Absent>, CacheError> {
        self.connections.read(|connection| {
            let sql = "SELECT kind, key, fetched, expires FROM absent_entries ORDER BY kind, key";
            let mut statement = connection.prepare_cached(sql)?;
            statement
                .query_map([], |row| {
                    Ok(Absent { kind: row.get(0)?, key: row.get(1)?, times: times(row, 2)? })
                })?
                .collect()
        })
    }

    /// How many users and groups came from a resolver.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn counts(&self, resolver: &str) -> Result<(u64, u64), CacheError> {
        self.connections.read(|connection| {
            let sql = "SELECT (SELECT count(*) FROM user_entries WHERE resolver = ?1),
                              (SELECT count(*) FROM group_entries WHERE resolver = ?1)";
            connection.query_row(sql, [resolver], |row| Ok((natural(row, 0)?, natural(row, 1)?)))
        })
    }

    /// Puts one user in the place of whoever had the name or the id.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn learn_user(
        &self,
        user: &PasswdEntry,
        resolver: &str,
        times: Times,
    ) -> Result<Changes, CacheError> {
        self.connections.write(|connection| {
            let mut changes = Changes::default();
            connection.execute(
                "DELETE FROM absent_entries WHERE (kind = 'user' AND key = ?1) OR (kind = 'uid' AND key = ?2)",
                params![user.name, user.uid.to_string()],
            )?;
            replace::put_user(connection, user, resolver, times, &mut changes)?;
            Ok(changes)
        })
    }

    /// Puts one group in the place of whatever had the name or the id.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn learn_group(
        &self,
        group: &GroupEntry,
        resolver: &str,
        times: Times,
    ) -> Result<Changes, CacheError> {
        self.connections.write(|connection| {
            let mut changes = Changes::default();
            connection.execute(
                "DELETE FROM absent_entries WHERE (kind = 'group' AND key = ?1) OR (kind = 'gid' AND key = ?2)",
                params![group.name, group.gid.to_string()],
            )?;
            replace::put_group(connection, group, resolver, times, &mut changes)?;
            Ok(changes)
        })
    }

    /// Puts all groups of one member, each with its resolver.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn learn_groups_of(
        &self,
        member: &str,
        groups: &[(GroupEntry, &str)],
        times: Times,
    ) -> Result<Changes, CacheError> {
        let gids: Vec<u32> = groups.iter().map(|(group, _)| group.gid).collect();
        self.connections.write(|connection| {
            let mut changes = Changes::default();
            replace::forget_memberships(connection, member, &gids, &mut changes)?;
            for (group, resolver) in groups {
                replace::put_group(connection, group, resolver, times, &mut changes)?;
            }
            connection
                .execute("DELETE FROM absent_entries WHERE kind = 'groups-of' AND key = ?1", [member])?;
            connection.execute(
                "INSERT OR REPLACE INTO member_lists VALUES (?1, ?2, ?3)",
                params![member, integer(times.fetched), integer(times.expires)],
            )?;
            Ok(changes)
        })
    }

    /// Notes that this was asked for in vain; deletes what was there.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn learn_absent(&self, lookup: &Lookup, times: Times) -> Result<Changes, CacheError> {
        let (kind, key) = absent_key(lookup);
        self.connections.write(|connection| {
            let mut changes = Changes::default();
            match lookup {
                Lookup::PasswdByName(name) => replace::forget_user(connection, "name", name, &mut changes)?,
                Lookup::PasswdById(uid) => replace::forget_user(connection, "uid", uid, &mut changes)?,
                Lookup::GroupByName(name) => replace::forget_group(connection, "name", name, &mut changes)?,
                Lookup::GroupById(gid) => replace::forget_group(connection, "gid", gid, &mut changes)?,
                Lookup::Groups(member) => {
                    replace::forget_memberships(connection, member, &[], &mut changes)?;
                }
            }
            connection.execute(
                "INSERT OR REPLACE INTO absent_entries VALUES (?1, ?2, ?3, ?4)",
                params![kind, key, integer(times.fetched), integer(times.expires)],
            )?;
            rows::bound_absent(connection)?;
            Ok(changes)
        })
    }

    /// Forgets entries of resolvers that are no longer configured.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn keep_resolvers(&self, resolvers: &[&str]) -> Result<(), CacheError> {
        let known = serde_json::to_string(resolvers).unwrap_or_default();
        self.connections.write(|connection| {
            connection.execute(
                "DELETE FROM memberships WHERE gid IN (SELECT gid FROM group_entries
                     WHERE resolver NOT IN (SELECT value FROM json_each(?1)))",
                [&known],
            )?;
            for table in ["user_entries", "group_entries", "listings"] {
                let sql =
                    format!("DELETE FROM {table} WHERE resolver NOT IN (SELECT value FROM json_each(?1))");
                connection.execute(&sql, [&known])?;
            }
            Ok(())
        })
    }

    /// Notes that whole listings of these resolvers would say what is cached already.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn extend(&self, resolvers: &[&str], times: Times) -> Result<(), CacheError> {
        self.connections.write(|connection| {
            resolvers.iter().try_for_each(|resolver| replace::put_listing(connection, resolver, times))
        })
    }

    /// Takes whole listings over in one transaction.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn replace(&self, listings: &[ResolverListing<'_>], times: Times) -> Result<Changes, CacheError> {
        self.connections.write(|connection| replace::replace(connection, listings, times))
    }
}

#[cfg(test)]
mod tests;
