//! Changing users and groups inside a transaction: one by one, or a whole listing of which only the differences are
//! written.

use std::collections::HashMap;

use privacyidea_contract::wire::{GroupEntry, PasswdEntry};
use rusqlite::{Connection, OptionalExtension, ToSql, params};

use super::changes::Changes;
use super::rows::{self, integer};
use super::{Cached, Times};

/// What a resolver said it has. Over all listings that are taken over at a time, a name or id is there once.
pub struct ResolverListing<'a> {
    /// The resolver.
    pub resolver: &'a str,
    /// Its users.
    pub users: &'a [PasswdEntry],
    /// Its groups.
    pub groups: &'a [GroupEntry],
    /// Whether that is all: users and groups of this resolver that are not listed are deleted.
    pub is_complete: bool,
}

pub(super) fn replace(
    connection: &Connection,
    listings: &[ResolverListing<'_>],
    times: Times,
) -> rusqlite::Result<Changes> {
    let mut changes = Changes::default();
    // All that goes before anything that comes: an entry may have moved from one resolver to another.
    let mut to_put = Vec::new();
    for listing in listings {
        let users = compare_users(connection, listing, &mut changes)?;
        let groups = compare_groups(connection, listing, &mut changes)?;
        to_put.push((listing, users, groups));
    }
    for (listing, users, groups) in to_put {
        for user in users {
            put_user(connection, user, listing.resolver, times, &mut changes)?;
        }
        for group in groups {
            put_group(connection, group, listing.resolver, times, &mut changes)?;
        }
        if listing.is_complete {
            put_listing(connection, listing.resolver, times)?;
        } else {
            renew_listed(connection, listing, times)?;
        }
    }
    connection.execute("DELETE FROM absent_entries", [])?;
    connection.execute("DELETE FROM member_lists", [])?;
    Ok(changes)
}

/// Deletes users that a complete listing lacks, returns those that are new or other than before.
fn compare_users<'a>(
    connection: &Connection,
    listing: &ResolverListing<'a>,
    changes: &mut Changes,
) -> rusqlite::Result<Vec<&'a PasswdEntry>> {
    let mut new: HashMap<&str, &PasswdEntry> =
        listing.users.iter().map(|user| (user.name.as_str(), user)).collect();
    let mut gone = Vec::new();
    let mut statement = connection.prepare_cached(&format!("{} WHERE resolver = ?1", rows::USERS))?;
    for old in statement.query_map([listing.resolver], rows::user)? {
        let old = old?.entry;
        match new.get(old.name.as_str()) {
            Some(user) if **user == old => {
                new.remove(old.name.as_str());
            }
            None if listing.is_complete => gone.push(old),
            _ => {}
        }
    }
    for old in gone {
        changes.add_user(&old);
        delete_user(connection, &old.name)?;
    }
    Ok(new.into_values().collect())
}

/// Deletes groups that a complete listing lacks, returns those that are new or other than before.
fn compare_groups<'a>(
    connection: &Connection,
    listing: &ResolverListing<'a>,
    changes: &mut Changes,
) -> rusqlite::Result<Vec<&'a GroupEntry>> {
    let mut new: HashMap<&str, &GroupEntry> =
        listing.groups.iter().map(|group| (group.name.as_str(), group)).collect();
    let mut gone = Vec::new();
    let mut statement = connection.prepare_cached(&format!("{} WHERE resolver = ?1", rows::GROUPS))?;
    for old in statement.query_map([listing.resolver], rows::group)? {
        let old = rows::with_members(connection, old?)?.entry;
        match new.get(old.name.as_str()) {
            Some(group) if **group == old => {
                new.remove(old.name.as_str());
            }
            None if listing.is_complete => gone.push(old),
            _ => {}
        }
    }
    for old in gone {
        changes.add_group(&old);
        delete_group(connection, &old)?;
    }
    Ok(new.into_values().collect())
}

/// What an incomplete listing does have is as new as that listing.
fn renew_listed(
    connection: &Connection,
    listing: &ResolverListing<'_>,
    times: Times,
) -> rusqlite::Result<()> {
    let names = [
        ("user_entries", listing.users.iter().map(|user| &user.name).collect::<Vec<_>>()),
        ("group_entries", listing.groups.iter().map(|group| &group.name).collect::<Vec<_>>()),
    ];
    for (table, names) in names {
        let sql = format!("UPDATE {table} SET fetched = ?2, expires = ?3 WHERE name = ?1");
        let mut statement = connection.prepare_cached(&sql)?;
        for name in names {
            statement.execute(params![name, integer(times.fetched), integer(times.expires)])?;
        }
    }
    Ok(())
}

/// Puts a user in the place of whoever had the name or the id.
pub(super) fn put_user(
    connection: &Connection,
    user: &PasswdEntry,
    resolver: &str,
    times: Times,
    changes: &mut Changes,
) -> rusqlite::Result<()> {
    let sql = format!("{} WHERE name = ?1 OR uid = ?2", rows::USERS);
    let mut statement = connection.prepare_cached(&sql)?;
    let old = statement
        .query_map(params![user.name, user.uid], rows::user)?
        .collect::<rusqlite::Result<Vec<Cached<PasswdEntry>>>>()?;
    if old.iter().all(|old| old.entry != *user) {
        changes.add_user(user);
    }
    for old in old.iter().filter(|old| old.entry != *user) {
        changes.add_user(&old.entry);
    }
    let PasswdEntry { name, uid, gid, gecos, home, shell } = user;
    let (fetched, expires) = (integer(times.fetched), integer(times.expires));
    connection
        .prepare_cached("INSERT OR REPLACE INTO user_entries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?
        .execute(params![name, uid, gid, gecos, home, shell, resolver, fetched, expires])?;
    Ok(())
}

/// Puts a group in the place of whatever had the name or the id.
pub(super) fn put_group(
    connection: &Connection,
    group: &GroupEntry,
    resolver: &str,
    times: Times,
    changes: &mut Changes,
) -> rusqlite::Result<()> {
    let sql = format!("{} WHERE name = ?1 OR gid = ?2", rows::GROUPS);
    let mut statement = connection.prepare_cached(&sql)?;
    let old = statement
        .query_map(params![group.name, group.gid], rows::group)?
        .map(|old| rows::with_members(connection, old?))
        .collect::<rusqlite::Result<Vec<Cached<GroupEntry>>>>()?;
    if old.iter().all(|old| old.entry != *group) {
        changes.add_group(group);
    }
    for old in &old {
        if old.entry != *group {
            changes.add_group(&old.entry);
        }
        delete_group(connection, &old.entry)?;
    }
    connection.prepare_cached("INSERT INTO group_entries VALUES (?1, ?2, ?3, ?4, ?5)")?.execute(params![
        group.name,
        group.gid,
        resolver,
        integer(times.fetched),
        integer(times.expires)
    ])?;
    let mut statement = connection.prepare_cached("INSERT INTO memberships VALUES (?1, ?2, ?3)")?;
    for (position, member) in (0_i64..).zip(&group.members) {
        statement.execute(params![group.gid, position, member])?;
    }
    Ok(())
}

pub(super) fn put_listing(connection: &Connection, resolver: &str, times: Times) -> rusqlite::Result<()> {
    connection.prepare_cached("INSERT OR REPLACE INTO listings VALUES (?1, ?2, ?3)")?.execute(params![
        resolver,
        integer(times.fetched),
        integer(times.expires)
    ])?;
    Ok(())
}

/// Deletes the user with this name or id, if there is one.
pub(super) fn forget_user(
    connection: &Connection,
    column: &str,
    key: &dyn ToSql,
    changes: &mut Changes,
) -> rusqlite::Result<()> {
    let sql = format!("{} WHERE {column} = ?1", rows::USERS);
    if let Some(old) = connection.prepare_cached(&sql)?.query_row([key], rows::user).optional()? {
        changes.add_user(&old.entry);
        delete_user(connection, &old.entry.name)?;
    }
    Ok(())
}

/// Deletes the group with this name or id, if there is one.
pub(super) fn forget_group(
    connection: &Connection,
    column: &str,
    key: &dyn ToSql,
    changes: &mut Changes,
) -> rusqlite::Result<()> {
    let sql = format!("{} WHERE {column} = ?1", rows::GROUPS);
    if let Some(old) = connection.prepare_cached(&sql)?.query_row([key], rows::group).optional()? {
        let old = rows::with_members(connection, old)?;
        changes.add_group(&old.entry);
        delete_group(connection, &old.entry)?;
    }
    Ok(())
}

/// Takes a member out of all groups but these.
pub(super) fn forget_memberships(
    connection: &Connection,
    member: &str,
    but: &[u32],
    changes: &mut Changes,
) -> rusqlite::Result<()> {
    let sql = format!("{} WHERE gid IN (SELECT gid FROM memberships WHERE member = ?1)", rows::GROUPS);
    let mut statement = connection.prepare_cached(&sql)?;
    let groups = statement.query_map([member], rows::group)?.collect::<rusqlite::Result<Vec<_>>>()?;
    for group in groups.into_iter().map(|group| group.entry) {
        if !but.contains(&group.gid) {
            changes.groups.insert(group.name);
            changes.gids.insert(group.gid);
            changes.members.insert(member.to_owned());
            connection
                .prepare_cached("DELETE FROM memberships WHERE gid = ?1 AND member = ?2")?
                .execute(params![group.gid, member])?;
        }
    }
    Ok(())
}

fn delete_user(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM user_entries WHERE name = ?1")?.execute([name])?;
    Ok(())
}

fn delete_group(connection: &Connection, group: &GroupEntry) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM memberships WHERE gid = ?1")?.execute([group.gid])?;
    connection.prepare_cached("DELETE FROM group_entries WHERE name = ?1")?.execute([&group.name])?;
    Ok(())
}
