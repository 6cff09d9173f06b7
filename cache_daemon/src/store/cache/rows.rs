//! Rows of the tables as values.

use privacyidea_contract::wire::{GroupEntry, Lookup, PasswdEntry};
use rusqlite::{Connection, OptionalExtension, Row};

use super::{Cached, Times};

/// So many absent entries are kept; the oldest go first.
pub(super) const ABSENT_MAX: u32 = 10_000;

pub(super) const USERS: &str =
    "SELECT name, uid, gid, gecos, home, shell, resolver, e.fetched, e.expires, l.fetched, l.expires
    FROM user_entries e LEFT JOIN listings l USING (resolver)";
pub(super) const GROUPS: &str = "SELECT name, gid, resolver, e.fetched, e.expires, l.fetched, l.expires
    FROM group_entries e LEFT JOIN listings l USING (resolver)";

pub(super) fn one_user(
    connection: &Connection,
    column: &str,
    key: &dyn rusqlite::ToSql,
) -> rusqlite::Result<Option<Cached<PasswdEntry>>> {
    let sql = format!("{USERS} WHERE {column} = ?1");
    connection.prepare_cached(&sql)?.query_row([key], user).optional()
}

pub(super) fn one_group(
    connection: &Connection,
    column: &str,
    key: &dyn rusqlite::ToSql,
) -> rusqlite::Result<Option<Cached<GroupEntry>>> {
    let sql = format!("{GROUPS} WHERE {column} = ?1");
    let found = connection.prepare_cached(&sql)?.query_row([key], group).optional()?;
    found.map(|group| with_members(connection, group)).transpose()
}

/// A group with its members, in order.
pub(super) fn with_members(
    connection: &Connection,
    mut group: Cached<GroupEntry>,
) -> rusqlite::Result<Cached<GroupEntry>> {
    let sql = "SELECT member FROM memberships WHERE gid = ?1 ORDER BY position";
    let mut statement = connection.prepare_cached(sql)?;
    let members = statement.query_map([group.entry.gid], |row| row.get(0))?;
    group.entry.members = members.collect::<rusqlite::Result<_>>()?;
    Ok(group)
}

pub(super) fn user(row: &Row<'_>) -> rusqlite::Result<Cached<PasswdEntry>> {
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

pub(super) fn group(row: &Row<'_>) -> rusqlite::Result<Cached<GroupEntry>> {
    let entry = GroupEntry { name: row.get(0)?, gid: row.get(1)?, members: Vec::new() };
    Ok(Cached { entry, resolver: row.get(2)?, learnt: times(row, 3)?, listed: some_times(row, 5)? })
}

pub(super) fn times(row: &Row<'_>, first: usize) -> rusqlite::Result<Times> {
    Ok(Times { fetched: natural(row, first)?, expires: natural(row, first + 1)? })
}

fn some_times(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Times>> {
    match row.get_ref(first)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => times(row, first).map(Some),
    }
}

/// SQLite's integers have a sign, ours have not.
pub(super) fn natural(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

pub(super) fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn absent_key(lookup: &Lookup) -> (&'static str, String) {
    match lookup {
        Lookup::PasswdByName(name) => ("user", name.clone()),
        Lookup::PasswdById(uid) => ("uid", uid.to_string()),
        Lookup::GroupByName(name) => ("group", name.clone()),
        Lookup::GroupById(gid) => ("gid", gid.to_string()),
        Lookup::Groups(member) => ("groups-of", member.clone()),
    }
}

/// Deletes the oldest absent entries beyond [`ABSENT_MAX`].
pub(super) fn bound_absent(connection: &Connection) -> rusqlite::Result<()> {
    let count: u32 = connection.query_row("SELECT count(*) FROM absent_entries", [], |row| row.get(0))?;
    if count > ABSENT_MAX {
        connection.execute(
            "DELETE FROM absent_entries WHERE (kind, key) IN
                 (SELECT kind, key FROM absent_entries ORDER BY fetched LIMIT ?1)",
            // A tenth at a time, so that a flood does not sort the table for each of its names.
            [count - ABSENT_MAX + ABSENT_MAX / 10],
        )?;
    }
    Ok(())
}
