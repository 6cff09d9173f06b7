//! The `files` resolver: users and groups in files of our own, in the formats of passwd(5) and group(5).

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use privacyidea_contract::wire::{GroupEntry, PasswdEntry};

use super::format::{self, Line};
use super::resolver::{Listing, Resolver, ResolverError};
use super::rules::{Rules, shown};
use super::stamp::{self, Content, Stamp, Writers};

/// The longest file that is read.
const LENGTH_MAX: u64 = 64 * 1024 * 1024;
/// So many refusals are told one by one, the others counted.
const REFUSALS_TOLD: usize = 100;

/// Two files. Reading them is so cheap that one entry is looked for by reading all of them.
pub struct FilesResolver {
    name: String,
    passwd: PathBuf,
    group: PathBuf,
}

impl FilesResolver {
    /// A resolver of this name over these files.
    #[must_use]
    pub fn new(name: String, passwd: PathBuf, group: PathBuf) -> Self {
        Self { name, passwd, group }
    }

    fn find<T>(
        &self,
        rules: &Rules,
        pick: impl FnOnce(Listing) -> Option<T>,
    ) -> Result<Option<T>, ResolverError> {
        let mut listing = self.list(rules)?;
        let incomplete = listing.incomplete.take();
        match (pick(listing), incomplete) {
            (None, Some(reason)) => Err(ResolverError(reason)),
            (found, _) => Ok(found),
        }
    }
}

impl Resolver for FilesResolver {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "files"
    }

    fn version(&self) -> Option<String> {
        let passwd = Stamp::of(&self.passwd).ok()?;
        let group = Stamp::of(&self.group).ok()?;
        Some(version(&passwd, &group))
    }

    fn list(&self, rules: &Rules) -> Result<Listing, ResolverError> {
        let passwd = read(&self.passwd)?;
        let group = read(&self.group)?;
        let mut listing = Listing {
            version: Some(version(&passwd.stamp, &group.stamp)),
            incomplete: incomplete(&self.passwd, &passwd).or_else(|| incomplete(&self.group, &group)),
            ..Listing::default()
        };
        let mut refusals = Refusals::default();
        listing.users = users(&self.passwd, &passwd.bytes, rules, &mut refusals);
        listing.groups = groups(&self.group, &group.bytes, rules, &mut refusals);
        listing.refused = refusals.told();
        Ok(listing)
    }

    fn user_by_name(&self, name: &str, rules: &Rules) -> Result<Option<PasswdEntry>, ResolverError> {
        self.find(rules, |listing| listing.users.into_iter().find(|user| user.name == name))
    }

    fn user_by_uid(&self, uid: u32, rules: &Rules) -> Result<Option<PasswdEntry>, ResolverError> {
        self.find(rules, |listing| listing.users.into_iter().find(|user| user.uid == uid))
    }

    fn group_by_name(&self, name: &str, rules: &Rules) -> Result<Option<GroupEntry>, ResolverError> {
        self.find(rules, |listing| listing.groups.into_iter().find(|group| group.name == name))
    }

    fn group_by_gid(&self, gid: u32, rules: &Rules) -> Result<Option<GroupEntry>, ResolverError> {
        self.find(rules, |listing| listing.groups.into_iter().find(|group| group.gid == gid))
    }

    fn groups_of(&self, member: &str, rules: &Rules) -> Result<Vec<GroupEntry>, ResolverError> {
        let Listing { mut groups, incomplete, .. } = self.list(rules)?;
        groups.retain(|group| group.members.iter().any(|name| name == member));
        match incomplete {
            Some(reason) => Err(ResolverError(reason)),
            None => Ok(groups),
        }
    }
}

/// Why entries were not taken.
#[derive(Default)]
struct Refusals {
    sentences: Vec<String>,
    untold: usize,
}

impl Refusals {
    fn add(&mut self, path: &Path, line: usize, name: &str, reason: &str) {
        if self.sentences.len() < REFUSALS_TOLD {
            let name = if name.is_empty() { String::new() } else { format!(" ({})", shown(name)) };
            self.sentences.push(format!("{} line {line}{name} is refused: {reason}", path.display()));
        } else {
            self.untold += 1;
        }
    }

    fn told(mut self) -> Vec<String> {
        if self.untold > 0 {
            self.sentences.push(format!("{} more entries are refused", self.untold));
        }
        self.sentences
    }
}

fn version(passwd: &Stamp, group: &Stamp) -> String {
    format!("{passwd:?} {group:?}")
}

fn read(path: &Path) -> Result<Content, ResolverError> {
    stamp::read(path, LENGTH_MAX, Writers::Trusted)
        .map_err(|error| ResolverError(format!("{} {error}", path.display())))
}

/// Whether the file may be in the middle of being written, so that what it lacks may only be missing yet.
fn incomplete(path: &Path, content: &Content) -> Option<String> {
    let reason = if content.changed_meanwhile {
        "was changed while it was read"
    } else if content.bytes.last().is_some_and(|byte| *byte != b'\n') {
        "does not end with a newline, so it may still be being written"
    } else {
        return None;
    };
    Some(format!("{} {reason}; entries that it lacks are kept until it is complete", path.display()))
}

/// The lines with their numbers, without one that has no end yet.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let complete = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    bytes[..complete]
        .split_inclusive(|byte| *byte == b'\n')
        .enumerate()
        .map(|(index, line)| (index + 1, line.strip_suffix(b"\n").unwrap_or(line)))
}

/// The lines that form entries and satisfy `check`, each name and each id once.
fn entries<T>(
    (path, bytes, length_max): (&Path, &[u8], usize),
    parse: impl Fn(&str) -> Result<T, String>,
    check: impl Fn(&T) -> Result<(), String>,
    key: impl Fn(&T) -> (String, u32),
    refusals: &mut Refusals,
) -> Vec<(usize, T)> {
    let mut names: HashMap<String, usize> = HashMap::new();
    let mut ids: HashMap<u32, usize> = HashMap::new();
    let mut taken = Vec::new();
    for (number, bytes) in lines(bytes) {
        let text = match format::line(bytes, length_max) {
            Line::Nothing => continue,
            Line::Malformed(reason) => {
                refusals.add(path, number, "", reason);
                continue;
            }
            Line::Entry(text) => text,
        };
        let judged = parse(text).and_then(|entry| {
            check(&entry)?;
            let (name, id) = key(&entry);
            if let Some(line) = names.get(&name) {
                return Err(format!("line {line} has the same name"));
            }
            if let Some(line) = ids.get(&id) {
                return Err(format!("line {line} has the same id {id}"));
            }
            names.insert(name, number);
            ids.insert(id, number);
            Ok(entry)
        });
        match judged {
            Ok(entry) => taken.push((number, entry)),
            Err(reason) => refusals.add(path, number, text.split(':').next().unwrap_or_default(), &reason),
        }
    }
    taken
}

fn users(path: &Path, bytes: &[u8], rules: &Rules, refusals: &mut Refusals) -> Vec<PasswdEntry> {
    let file = (path, bytes, format::PASSWD_LINE_MAX);
    let key = |user: &PasswdEntry| (user.name.clone(), user.uid);
    let check = |user: &PasswdEntry| rules.check_user(user);
    entries(file, format::user, check, key, refusals).into_iter().map(|(_, user)| user).collect()
}

fn groups(path: &Path, bytes: &[u8], rules: &Rules, refusals: &mut Refusals) -> Vec<GroupEntry> {
    let file = (path, bytes, format::GROUP_LINE_MAX);
    let key = |group: &GroupEntry| (group.name.clone(), group.gid);
    let check = |group: &GroupEntry| rules.check_group(group);
    let mut groups = Vec::new();
    for (line, mut group) in entries(file, format::group, check, key, refusals) {
        let mut seen = HashSet::new();
        group.members.retain(|member| match rules.check_member(member) {
            Ok(()) => seen.insert(member.clone()),
            Err(reason) => {
                refusals.add(path, line, &group.name, &format!("its member {}: {reason}", shown(member)));
                false
            }
        });
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests;
