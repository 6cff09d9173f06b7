//! What can be asked, of the map and of the daemon.

use privacyidea_contract::map::{Found, GroupView, GroupsView, PasswdView, Snapshot};
use privacyidea_contract::names::{is_usable_id, is_usable_name};
use privacyidea_contract::paths::DAEMON_USER;
use privacyidea_contract::wire::{Lookup, Reply};

/// A question and the kind of entry that answers it.
pub(crate) trait Question: Copy {
    /// The answer, borrowed from where it was found.
    type Entry<'a>;

    /// Whether such an entry could be ours at all: not root, not a system id, not the daemon's own user. The others
    /// are not found, without a look at the map or the socket: starting the daemon must never wait for the daemon.
    fn is_ours(self) -> bool;

    /// Asks the map.
    fn find(self, snapshot: &Snapshot, now: u64) -> Found<Self::Entry<'_>>;

    /// The question for the daemon.
    fn to_lookup(self) -> Lookup;

    /// Hands on the daemon's answer, if it is one to this question.
    fn with_reply<R>(self, reply: &Reply, body: impl FnOnce(Self::Entry<'_>) -> R) -> Option<R>;
}

fn is_our_name(name: &str) -> bool {
    is_usable_name(name) && name != DAEMON_USER
}

/// A passwd entry by name or id.
#[derive(Clone, Copy)]
pub(crate) enum Passwd<'q> {
    ByName(&'q str),
    ById(u32),
}

impl Question for Passwd<'_> {
    type Entry<'a> = PasswdView<'a>;

    #[inline]
    fn is_ours(self) -> bool {
        match self {
            Self::ByName(name) => is_our_name(name),
            Self::ById(uid) => is_usable_id(uid),
        }
    }

    #[inline]
    fn find(self, snapshot: &Snapshot, now: u64) -> Found<PasswdView<'_>> {
        match self {
            Self::ByName(name) => snapshot.passwd_by_name(name.as_bytes(), now),
            Self::ById(uid) => snapshot.passwd_by_id(uid, now),
        }
    }

    fn to_lookup(self) -> Lookup {
        match self {
            Self::ByName(name) => Lookup::PasswdByName(name.to_owned()),
            Self::ById(uid) => Lookup::PasswdById(uid),
        }
    }

    fn with_reply<R>(self, reply: &Reply, body: impl FnOnce(PasswdView<'_>) -> R) -> Option<R> {
        let Reply::Passwd(entry) = reply else { return None };
        let is_answer = match self {
            Self::ByName(name) => entry.name == name,
            Self::ById(uid) => entry.uid == uid,
        };
        is_answer.then(|| {
            body(PasswdView {
                name: entry.name.as_bytes(),
                uid: entry.uid,
                gid: entry.gid,
                gecos: entry.gecos.as_bytes(),
                home: entry.home.as_bytes(),
                shell: entry.shell.as_bytes(),
            })
        })
    }
}

/// A group entry by name or id.
#[derive(Clone, Copy)]
pub(crate) enum Group<'q> {
    ByName(&'q str),
    ById(u32),
}

impl Question for Group<'_> {
    type Entry<'a> = GroupView<'a>;

    #[inline]
    fn is_ours(self) -> bool {
        match self {
            Self::ByName(name) => is_our_name(name),
            Self::ById(gid) => is_usable_id(gid),
        }
    }

    #[inline]
    fn find(self, snapshot: &Snapshot, now: u64) -> Found<GroupView<'_>> {
        match self {
            Self::ByName(name) => snapshot.group_by_name(name.as_bytes(), now),
            Self::ById(gid) => snapshot.group_by_id(gid, now),
        }
    }

    fn to_lookup(self) -> Lookup {
        match self {
            Self::ByName(name) => Lookup::GroupByName(name.to_owned()),
            Self::ById(gid) => Lookup::GroupById(gid),
        }
    }

    fn with_reply<R>(self, reply: &Reply, body: impl FnOnce(GroupView<'_>) -> R) -> Option<R> {
        let Reply::Group(entry) = reply else { return None };
        let is_answer = match self {
            Self::ByName(name) => entry.name == name,
            Self::ById(gid) => entry.gid == gid,
        };
        let member_count = u32::try_from(entry.members.len()).ok()?;
        is_answer.then(|| {
            let member_block: Vec<u8> =
                entry.members.iter().flat_map(|member| member.bytes().chain([0])).collect();
            let name = entry.name.as_bytes();
            body(GroupView { name, gid: entry.gid, member_count, member_block: &member_block })
        })
    }
}

/// The groups that list a name.
#[derive(Clone, Copy)]
pub(crate) struct GroupsOf<'q>(pub(crate) &'q str);

impl Question for GroupsOf<'_> {
    type Entry<'a> = GroupsView<'a>;

    #[inline]
    fn is_ours(self) -> bool {
        is_our_name(self.0)
    }

    #[inline]
    fn find(self, snapshot: &Snapshot, now: u64) -> Found<GroupsView<'_>> {
        snapshot.groups_of(self.0.as_bytes(), now)
    }

    fn to_lookup(self) -> Lookup {
        Lookup::Groups(self.0.to_owned())
    }

    fn with_reply<R>(self, reply: &Reply, body: impl FnOnce(GroupsView<'_>) -> R) -> Option<R> {
        let Reply::Groups(gids) = reply else { return None };
        let bytes: Vec<u8> = gids.iter().flat_map(|gid| gid.to_ne_bytes()).collect();
        Some(body(GroupsView::new(&bytes)))
    }
}
