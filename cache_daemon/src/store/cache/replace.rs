//! Changing users and groups inside a transaction: one by one, or a whole listing of which only the differences are
//! written.

use std::collections::HashMap;

use privacyidea_contract::wire::{GroupEntry, PasswdEntry};
use rusqlite::{Connection, ToSql, params};

use super::{Times, integer};

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
) -> rusqlite::Result<bool> {
    let mut changed = false;
    let old_members = members(connection)?;
    // All that goes before anything that comes: an entry may have moved from one resolver to another.
    let mut users_to_put = Vec::new();
    let mut groups_to_put = Vec::new();
    for listing in listings {
        users_to_put.push(compare_users(connection, listing, &mut changed)?);
        groups_to_put.push(compare_groups(connection, listing, &old_members, &mut changed)?);
    }
    for ((listing, users), groups) in listings.iter().zip(users_to_put).zip(groups_to_put) {
        changed |= !users.is_empty() || !groups.is_empty();
        users.iter().try_for_each(|user| put_user(connection, user, listing.resolver, times))?;
        groups.iter().try_for_each(|group| put_group(connection, group, listing.resolver, times))?;
        if listing.is_complete {
            put_listing(connection, listing.resolver, times)?;
        } else {
            renew_listed(connection, listing, times)?;
        }
    }
    connection.execute("DELETE FROM absent_entries", [])?;
    connection.execute("DELETE FROM member_lists", [])?;
    Ok(changed)
}

/// Deletes users that a complete listing lacks, returns those that are new or other than before.
fn compare_users<'a>(
    connection: &Connection,
    listing: &ResolverListing<'a>,
    changed: &mut bool,
) -> rusqlite::Result<Vec<&'a PasswdEntry>> {
    let mut new: HashMap<&str, &PasswdEntry> =
        listing.users.iter().map(|user| (user.name.as_str(), user)).collect();
    let mut gone = Vec::new();
    let mut statement = connection
        .prepare_cached("SELECT name, uid, gid, gecos, home, shell FROM user_entries WHERE resolver = ?1")?;
    let mut rows = statement.query([listing.resolver])?;
    while let Some(row) = rows.next()? {
        let name = row.get_ref(0)?.as_str()?;
        let is_same = |user: &PasswdEntry| -> rusqlite::Result<bool> {
            Ok(row.get::<_, u32>(1)? == user.uid
                && row.get::<_, u32>(2)? == user.gid
                && row.get_ref(3)?.as_str()? == user.gecos
                && row.get_ref(4)?.as_str()? == user.home
                && row.get_ref(5)?.as_str()? == user.shell)
        };
        match new.get(name) {
            Some(user) if is_same(user)? => {
                new.remove(name);
            }
            Some(_) => {}
            None if listing.is_complete => gone.push(name.to_owned()),
            None => {}
        }
    }
    *changed |= !gone.is_empty();
    gone.iter().try_for_each(|name| delete_user(connection, "name", name))?;
    Ok(new.into_values().collect())
}

/// Deletes groups that a complete listing lacks, returns those that are new or other than before.
fn compare_groups<'a>(
    connection: &Connection,
    listing: &ResolverListing<'a>,
    old_members: &HashMap<u32, Vec<String>>,
    changed: &mut bool,
) -> rusqlite::Result<Vec<&'a GroupEntry>> {
    let mut new: HashMap<&str, &GroupEntry> =
        listing.groups.iter().map(|group| (group.name.as_str(), group)).collect();
    let mut gone = Vec::new();
    let mut statement =
        connection.prepare_cached("SELECT name, gid FROM group_entries WHERE resolver = ?1")?;
    let mut rows = statement.query([listing.resolver])?;
    while let Some(row) = rows.next()? {
        let (name, gid) = (row.get_ref(0)?.as_str()?, row.get::<_, u32>(1)?);
        let members = old_members.get(&gid).map_or(&[][..], Vec::as_slice);
        match new.get(name) {
            Some(group) if group.gid == gid && group.members == members => {
                new.remove(name);
            }
            Some(_) => {}
            None if listing.is_complete => gone.push(name.to_owned()),
            None => {}
        }
    }
    *changed |= !gone.is_empty();
    gone.iter().try_for_each(|name| delete_group(connection, "name", name))?;
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

pub(super) fn put_user(
    connection: &Connection,
    user: &PasswdEntry,
    resolver: &str,
    times: Times,
) -> rusqlite::Result<()> {
    let PasswdEntry { name, uid, gid, gecos, home, shell } = user;
    let (fetched, expires) = (integer(times.fetched), integer(times.expires));
    connection
        .prepare_cached("INSERT OR REPLACE INTO user_entries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?
        .execute(params![name, uid, gid, gecos, home, shell, resolver, fetched, expires])?;
    Ok(())
}

pub(super) fn put_group(
    connection: &Connection,
    group: &GroupEntry,
    resolver: &str,
    times: Times,
) -> rusqlite::Result<()> {
    delete_group(connection, "name", &group.name)?;
    delete_group(connection, "gid", &group.gid)?;
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

pub(super) fn delete_user(connection: &Connection, column: &str, key: &dyn ToSql) -> rusqlite::Result<()> {
    let sql = format!("DELETE FROM user_entries WHERE {column} = ?1");
    connection.prepare_cached(&sql)?.execute([key])?;
    Ok(())
}

pub(super) fn delete_group(connection: &Connection, column: &str, key: &dyn ToSql) -> rusqlite::Result<()> {
    let members =
        format!("DELETE FROM memberships WHERE gid IN (SELECT gid FROM group_entries WHERE {column} = ?1)");
    connection.prepare_cached(&members)?.execute([key])?;
    let sql = format!("DELETE FROM group_entries WHERE {column} = ?1");
    connection.prepare_cached(&sql)?.execute([key])?;
    Ok(())
}

/// The members of all groups, by gid, in order.
pub(super) fn members(connection: &Connection) -> rusqlite::Result<HashMap<u32, Vec<String>>> {
    let mut members: HashMap<u32, Vec<String>> = HashMap::new();
    let mut statement =
        connection.prepare_cached("SELECT gid, member FROM memberships ORDER BY gid, position")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        members.entry(row.get(0)?).or_default().push(row.get(1)?);
    }
    Ok(members)
}
