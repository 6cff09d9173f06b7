//! `cache.db`: users and groups of the resolvers, each with the time until which it is believed, and what was asked for
//! in vain. May be deleted at any moment, also under a running daemon: `synchronous=NORMAL`, made anew if missing or
//! damaged.

use std::fmt;
use std::path::{Path, PathBuf};

use privacyidea_contract::wire::{GroupEntry, Lookup, PasswdEntry};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::service::clock::UnixSeconds;

mod connections;
mod replace;

use connections::Connections;
pub use replace::ResolverListing;

/// The user cache. Any number of threads may use it at a time; reading does not wait for writing.
pub struct Cache {
    connections: Connections,
    path: PathBuf,
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

/// So many absent entries are kept; the oldest go first.
const ABSENT_MAX: u32 = 10_000;

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

const USERS: &str =
    "SELECT name, uid, gid, gecos, home, shell, resolver, e.fetched, e.expires, l.fetched, l.expires
    FROM user_entries e LEFT JOIN listings l USING (resolver)";
const GROUPS: &str = "SELECT name, gid, resolver, e.fetched, e.expires, l.fetched, l.expires
    FROM group_entries e LEFT JOIN listings l USING (resolver)";

impl Cache {
    /// Opens the database; makes it anew, mode 0600, if it is missing, damaged, or of another version.
    ///
    /// # Errors
    /// Every [`CacheError`].
    pub fn open(path: &Path) -> Result<Self, CacheError> {
        Ok(Self { connections: Connections::open(path)?, path: path.to_owned() })
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
            let sql =
                format!("{GROUPS} WHERE gid IN (SELECT gid FROM memberships WHERE member = ?1) ORDER BY gid");
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

    /// All users, by name.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn users(&self) -> Result<Vec<Cached<PasswdEntry>>, CacheError> {
        self.connections.read(|connection| {
            let mut statement = connection.prepare_cached(&format!("{USERS} ORDER BY name"))?;
            statement.query_map([], user)?.collect()
        })
    }

    /// All groups with their members, by name.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn groups(&self) -> Result<Vec<Cached<GroupEntry>>, CacheError> {
        self.connections.read(|connection| {
            let mut members = replace::members(connection)?;
            let mut statement = connection.prepare_cached(&format!("{GROUPS} ORDER BY name"))?;
            let mut groups = statement.query_map([], group)?.collect::<rusqlite::Result<Vec<_>>>()?;
            for group in &mut groups {
                group.entry.members = members.remove(&group.entry.gid).unwrap_or_default();
            }
            Ok(groups)
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

    /// Bytes of the database on the disk, its log included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        ["", "-wal"]
            .iter()
            .filter_map(|ending| {
                let mut path = self.path.clone().into_os_string();
                path.push(ending);
                std::fs::metadata(path).ok()
            })
            .map(|metadata| metadata.len())
            .sum()
    }

    /// Puts one user in the place of whoever had the name or the id.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn learn_user(&self, user: &PasswdEntry, resolver: &str, times: Times) -> Result<(), CacheError> {
        self.connections.write(|connection| {
            connection.execute(
                "DELETE FROM absent_entries WHERE (kind = 'user' AND key = ?1) OR (kind = 'uid' AND key = ?2)",
                params![user.name, user.uid.to_string()],
            )?;
            replace::put_user(connection, user, resolver, times)
        })
    }

    /// Puts one group in the place of whatever had the name or the id.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn learn_group(&self, group: &GroupEntry, resolver: &str, times: Times) -> Result<(), CacheError> {
        self.connections.write(|connection| {
            connection.execute(
                "DELETE FROM absent_entries WHERE (kind = 'group' AND key = ?1) OR (kind = 'gid' AND key = ?2)",
                params![group.name, group.gid.to_string()],
            )?;
            replace::put_group(connection, group, resolver, times)
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
    ) -> Result<(), CacheError> {
        self.connections.write(|connection| {
            connection.execute("DELETE FROM memberships WHERE member = ?1", [member])?;
            for (group, resolver) in groups {
                replace::put_group(connection, group, resolver, times)?;
            }
            connection
                .execute("DELETE FROM absent_entries WHERE kind = 'groups-of' AND key = ?1", [member])?;
            connection.execute(
                "INSERT OR REPLACE INTO member_lists VALUES (?1, ?2, ?3)",
                params![member, integer(times.fetched), integer(times.expires)],
            )?;
            Ok(())
        })
    }

    /// Notes that this was asked for in vain; deletes what was there.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn learn_absent(&self, lookup: &Lookup, times: Times) -> Result<(), CacheError> {
        let (kind, key) = absent_key(lookup);
        self.connections.write(|connection| {
            match lookup {
                Lookup::PasswdByName(name) => replace::delete_user(connection, "name", name)?,
                Lookup::PasswdById(uid) => replace::delete_user(connection, "uid", uid)?,
                Lookup::GroupByName(name) => replace::delete_group(connection, "name", name)?,
                Lookup::GroupById(gid) => replace::delete_group(connection, "gid", gid)?,
                Lookup::Groups(member) => {
                    connection.execute("DELETE FROM memberships WHERE member = ?1", [member])?;
                }
            }
            connection.execute(
                "INSERT OR REPLACE INTO absent_entries VALUES (?1, ?2, ?3, ?4)",
                params![kind, key, integer(times.fetched), integer(times.expires)],
            )?;
            let count: u32 =
                connection.query_row("SELECT count(*) FROM absent_entries", [], |row| row.get(0))?;
            if count > ABSENT_MAX {
                connection.execute(
                    "DELETE FROM absent_entries WHERE (kind, key) IN
                         (SELECT kind, key FROM absent_entries ORDER BY fetched LIMIT ?1)",
                    // A tenth at a time, so that a flood does not sort the table for each of its names.
                    [count - ABSENT_MAX + ABSENT_MAX / 10],
                )?;
            }
            Ok(())
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

    /// Takes whole listings over in one transaction. `true`: a user or group is another than before.
    ///
    /// # Errors
    /// [`CacheError`]
    pub fn replace(&self, listings: &[ResolverListing<'_>], times: Times) -> Result<bool, CacheError> {
        self.connections.write(|connection| replace::replace(connection, listings, times))
    }
}

fn one_user(
    connection: &Connection,
    column: &str,
    key: &dyn rusqlite::ToSql,
) -> rusqlite::Result<Option<Cached<PasswdEntry>>> {
    let sql = format!("{USERS} WHERE {column} = ?1");
    connection.prepare_cached(&sql)?.query_row([key], user).optional()
}

fn one_group(
    connection: &Connection,
    column: &str,
    key: &dyn rusqlite::ToSql,
) -> rusqlite::Result<Option<Cached<GroupEntry>>> {
    let sql = format!("{GROUPS} WHERE {column} = ?1");
    let found = connection.prepare_cached(&sql)?.query_row([key], group).optional()?;
    found
        .map(|mut group| {
            let sql = "SELECT member FROM memberships WHERE gid = ?1 ORDER BY position";
            let mut statement = connection.prepare_cached(sql)?;
            let members = statement.query_map([group.entry.gid], |row| row.get(0))?;
            group.entry.members = members.collect::<rusqlite::Result<_>>()?;
            Ok(group)
        })
        .transpose()
}

fn user(row: &Row<'_>) -> rusqlite::Result<Cached<PasswdEntry>> {
    let entry = PasswdEntry {
        name: row.get(0)?,
        uid: row.get(1)?,
        gid: row.get(2)?,
        gecos: row.get(3)?,
        home: row.get(4)?,
        shell: row.get(5)?,
    };
    Ok(Cached { entry, resolver: row.get(6)?, learnt: times(row, 7)?, listed: some_times(row, 9)? })
}

fn group(row: &Row<'_>) -> rusqlite::Result<Cached<GroupEntry>> {
    let entry = GroupEntry { name: row.get(0)?, gid: row.get(1)?, members: Vec::new() };
    Ok(Cached { entry, resolver: row.get(2)?, learnt: times(row, 3)?, listed: some_times(row, 5)? })
}

fn times(row: &Row<'_>, first: usize) -> rusqlite::Result<Times> {
    Ok(Times { fetched: natural(row, first)?, expires: natural(row, first + 1)? })
}

fn some_times(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Times>> {
    match row.get_ref(first)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => times(row, first).map(Some),
    }
}

/// SQLite's integers have a sign, ours have not.
fn natural(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn absent_key(lookup: &Lookup) -> (&'static str, String) {
    match lookup {
        Lookup::PasswdByName(name) => ("user", name.clone()),
        Lookup::PasswdById(uid) => ("uid", uid.to_string()),
        Lookup::GroupByName(name) => ("group", name.clone()),
        Lookup::GroupById(gid) => ("gid", gid.to_string()),
        Lookup::Groups(member) => ("groups-of", member.clone()),
    }
}

#[cfg(test)]
mod tests;
