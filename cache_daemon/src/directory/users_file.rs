//! Editing the users and groups of the embedded `files` resolver, for `privacyidea-host user`.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use privacyidea_contract::names::is_usable_id;
use privacyidea_contract::wire::{GroupEntry, PasswdEntry};

use self::edited::Files;
use super::local::names_and_ids;
use super::rules::shown;
use super::{LocalFiles, Rules, format};

mod edited;

/// A user to add. What is left out gets the customs of useradd(8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewUser {
    /// Login name.
    pub name: String,
    /// None: the next free one.
    pub uid: Option<u32>,
    /// None: a group of the user's own, with the same name and id.
    pub gid: Option<u32>,
    /// Full name and so on; may be empty.
    pub gecos: String,
    /// None: `/home/NAME`.
    pub home: Option<String>,
    /// None: `/bin/bash`.
    pub shell: Option<String>,
}

/// Why the files were not changed.
#[derive(Debug)]
pub enum UsersFileError {
    /// The request cannot be carried out as it is: one sentence that says why.
    Refused(String),
    /// A file cannot be read or written.
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl fmt::Display for UsersFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(sentence) => f.write_str(sentence),
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for UsersFileError {}

/// The files of another `files` resolver: what they own is not free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The resolver's name.
    pub resolver: String,
    /// passwd(5) format; need not exist.
    pub passwd: PathBuf,
    /// group(5) format; need not exist.
    pub group: PathBuf,
}

/// Adds a user, and the user's own group unless `gid` names another one of the group file. Returns the new entry. Files
/// that are not there are made, mode 0644.
///
/// # Errors
/// Every [`UsersFileError`]; no user was added then.
pub fn add(
    passwd: &Path,
    group: &Path,
    neighbours: &[Neighbour],
    local: &LocalFiles,
    request: &NewUser,
    first_id: u32,
) -> Result<PasswdEntry, UsersFileError> {
    let local = local.names().map_err(|error| UsersFileError::Refused(error.to_string()))?;
    let rules = Rules::new(first_id, local);
    let mut files = Files::open(passwd, group)?;
    let mut taken = Taken::of(&files, &rules, first_id);
    for neighbour in neighbours {
        taken.take(neighbour)?;
    }
    let (uid, gid) = taken.ids_for(request)?;
    let name = &request.name;
    let user = PasswdEntry {
        name: name.clone(),
        uid,
        gid,
        gecos: request.gecos.clone(),
        home: request.home.clone().unwrap_or_else(|| format!("/home/{name}")),
        shell: request.shell.clone().unwrap_or_else(|| "/bin/bash".to_owned()),
    };
    let because = |what| move |reason| refused(format!("the {what} {} is refused: {reason}", shown(name)));
    rules.check_user(&user).map_err(because("user"))?;
    if request.gid.is_none() {
        let own = GroupEntry { name: name.clone(), gid, members: Vec::new() };
        rules.check_group(&own).map_err(because("group"))?;
        // The group first: if the second file cannot be written, a group without users is left, and no user without a
        // group.
        files.group.append(&format::group_line(&own));
        files.group.write()?;
    }
    files.passwd.append(&format::user_line(&user));
    files.passwd.write()?;
    Ok(user)
}

/// Removes a user, the user's memberships, and the user's own group if nobody else is in it. Returns the entry that was
/// there.
///
/// # Errors
/// Every [`UsersFileError`]; the user is still there then, unless it was the group file that could not be written.
pub fn remove(passwd: &Path, group: &Path, name: &str) -> Result<PasswdEntry, UsersFileError> {
    let mut files = Files::open(passwd, group)?;
    let line = files.passwd.lines().find(|line| first_field(line) == name.as_bytes()).map(<[u8]>::to_vec);
    let Some(line) = line.filter(|_| !name.is_empty()) else {
        let sentence = format!("{} has no user {}", passwd.display(), shown(name));
        return Err(UsersFileError::Refused(sentence));
    };
    let user = std::str::from_utf8(&line)
        .map_err(|_| "it is not UTF-8".to_owned())
        .and_then(format::user)
        .map_err(|reason| {
            let place = passwd.display();
            UsersFileError::Refused(format!(
                "remove the line of {} in {place} by hand: {reason}",
                shown(name)
            ))
        })?;
    files.passwd.keep_lines(|line| (first_field(line) != name.as_bytes()).then(|| line.to_vec()));
    let is_primary_of_others = files.passwd.lines().any(|line| {
        std::str::from_utf8(line)
            .is_ok_and(|line| format::user(line).is_ok_and(|other| other.gid == user.gid))
    });
    files.group.keep_lines(|line| {
        let Some(mut group) = std::str::from_utf8(line).ok().and_then(|line| format::group(line).ok()) else {
            return Some(line.to_vec());
        };
        let before = group.members.len();
        group.members.retain(|member| member != name);
        let is_own = group.name == name && group.gid == user.gid;
        if is_own && group.members.is_empty() && !is_primary_of_others {
            return None;
        }
        if group.members.len() == before {
            return Some(line.to_vec());
        }
        Some(format::group_line(&group).trim_end_matches('\n').as_bytes().to_vec())
    });
    files.passwd.write()?;
    files.group.write()?;
    Ok(user)
}

/// The highest id that is given out; the host may give more.
const HIGHEST_ID: u32 = 2_000_000_000;

fn refused(sentence: String) -> UsersFileError {
    UsersFileError::Refused(sentence)
}

fn first_field(line: &[u8]) -> &[u8] {
    line.split(|byte| *byte == b':').next().unwrap_or_default()
}

/// Names and ids that are no longer free, and whose they are: of our files, malformed lines included, of the other
/// resolvers', and of the host's.
struct Taken<'a> {
    users: HashMap<String, String>,
    uids: HashMap<u32, String>,
    groups: HashMap<String, String>,
    gids: HashMap<u32, String>,
    primary_gids: HashSet<u32>,
    rules: &'a Rules,
    first_id: u32,
}

impl<'a> Taken<'a> {
    fn of(files: &Files, rules: &'a Rules, first_id: u32) -> Self {
        let mut taken = Self {
            users: HashMap::new(),
            uids: HashMap::new(),
            groups: HashMap::new(),
            gids: HashMap::new(),
            primary_gids: HashSet::new(),
            rules,
            first_id,
        };
        taken.add("the users file", &files.passwd.bytes, "the groups file", &files.group.bytes);
        taken
    }

    fn take(&mut self, neighbour: &Neighbour) -> Result<(), UsersFileError> {
        let read = |path: &Path| match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read.map_err(|error| UsersFileError::Io { path: path.to_owned(), error }),
        };
        let place = format!("the resolver {}", neighbour.resolver);
        self.add(&place, &read(&neighbour.passwd)?, &place, &read(&neighbour.group)?);
        Ok(())
    }

    fn add(&mut self, users_place: &str, passwd: &[u8], groups_place: &str, group: &[u8]) {
        for (names, ids, bytes, place) in [
            (&mut self.users, &mut self.uids, passwd, users_place),
            (&mut self.groups, &mut self.gids, group, groups_place),
        ] {
            let (found, found_ids) = names_and_ids(bytes);
            for name in found.into_keys() {
                names.entry(name).or_insert_with(|| place.to_owned());
            }
            for (id, owner) in found_ids {
                ids.entry(id).or_insert(owner);
            }
        }
        let lines = passwd.split(|byte| *byte == b'\n');
        let entries = lines.filter_map(|line| format::user(std::str::from_utf8(line).ok()?).ok());
        self.primary_gids.extend(entries.map(|user| user.gid));
    }

    /// The uid and gid of a new user.
    fn ids_for(&self, request: &NewUser) -> Result<(u32, u32), UsersFileError> {
        let name = &request.name;
        if let Some(place) = self.users.get(name) {
            return Err(refused(format!("{place} has a user {} already", shown(name))));
        }
        if let Some(place) = self.groups.get(name).filter(|_| request.gid.is_none()) {
            return Err(refused(format!(
                "{place} has a group {} already; give its gid, or that of another group",
                shown(name)
            )));
        }
        let no_id_left = || refused("no id is left".to_owned());
        let uid = match request.uid {
            None => self.next_free(request.gid.is_none()).ok_or_else(no_id_left)?,
            Some(uid) => match self.uids.get(&uid) {
                Some(owner) => {
                    return Err(refused(format!("the uid {uid} belongs to {} already", shown(owner))));
                }
                None => uid,
            },
        };
        let gid = match request.gid {
            Some(gid) if self.gids.contains_key(&gid) => gid,
            Some(gid) => return Err(refused(format!("the groups file has no group with the gid {gid}"))),
            None if self.is_free_gid(uid) => uid,
            None => self.next_free(true).ok_or_else(no_id_left)?,
        };
        Ok((uid, gid))
    }

    /// One above the highest id of ours, so that the id of somebody who left is not given to the next one; else the
    /// lowest that is free.
    fn next_free(&self, as_group_too: bool) -> Option<u32> {
        let ours = self.uids.keys().chain(self.gids.keys()).copied();
        let above =
            ours.filter(|id| *id < HIGHEST_ID).max().map_or(self.first_id, |id| id + 1).max(self.first_id);
        (above..=HIGHEST_ID)
            .chain(self.first_id..above)
            .find(|id| self.is_free_uid(*id) && (!as_group_too || self.is_free_gid(*id)))
    }

    fn is_free_uid(&self, id: u32) -> bool {
        is_usable_id(id) && !self.uids.contains_key(&id) && self.rules.local().user(id).is_none()
    }

    fn is_free_gid(&self, id: u32) -> bool {
        is_usable_id(id)
            && !self.gids.contains_key(&id)
            && !self.primary_gids.contains(&id)
            && self.rules.local().group(id).is_none()
    }
}

#[cfg(test)]
mod tests;
