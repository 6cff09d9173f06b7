//! The directory over real files, a real cache and a real map; times are passed in.

use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use privacyidea_contract::map::{BASE_FILE, Found, RECENT_FILE, Snapshot};

use super::*;
use crate::service::clock::FixedClock;

mod clockwork;
mod failures;
mod map;

const NOW: UnixSeconds = 1_800_000_000;
/// The settings' timeouts in these tests.
const TIMEOUT: u64 = 600;
const NEGATIVE: u64 = 60;

/// A host of its own.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { directory: tempfile::tempdir().expect("directory") };
        place.write(
            "local-passwd",
            "root:x:0:0::/root:/bin/sh\nbob:x:1000:1000::/home/bob:/bin/sh\ngames:x:5:60::/:\n",
        );
        place.write("local-group", "root:x:0:\nbob:x:1000:\n");
        place.write(
            "passwd",
            "alice:x:2000:2000:Alice:/home/alice:/bin/bash\nzoe:x:2001:2000::/home/zoe:/bin/sh\n",
        );
        place.write("group", "alice:x:2000:\nstaff:x:3000:zoe,alice,bob\n");
        std::fs::create_dir(place.path("maps")).expect("mkdir");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Replaces a file as an editor does: a new inode each time.
    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path("beside"), text).expect("write");
        std::fs::rename(self.path("beside"), self.path(name)).expect("rename");
    }

    fn settings(&self) -> Settings {
        let kind = ResolverKind::Files { passwd: self.path("passwd"), group: self.path("group") };
        Settings {
            resolvers: settings::Resolvers(vec![settings::Resolver { name: "files".into(), kind }]),
            ..Settings::default()
        }
    }

    fn local(&self) -> LocalFiles {
        LocalFiles::new(self.path("local-passwd"), self.path("local-group"))
    }

    fn open(&self) -> Directory {
        Directory::open(&self.settings(), &self.path("cache.db"), &self.path("maps"), self.local())
            .expect("opened")
    }

    fn open_with(&self, resolvers: Vec<Box<dyn Resolver>>) -> Directory {
        let settings = settings::Cache::default();
        Directory::with_resolvers(
            &settings,
            resolvers,
            &self.path("cache.db"),
            &self.path("maps"),
            self.local(),
        )
        .expect("opened")
    }

    fn map(&self) -> Snapshot {
        Snapshot::open(&self.path("maps")).expect("a map")
    }
}

/// A reply as a short text.
fn said(reply: &Reply) -> String {
    match reply {
        Reply::Passwd(user) => format!("{}:{}:{}:{}", user.name, user.uid, user.gid, user.shell),
        Reply::Group(group) => format!("{}:{}:{}", group.name, group.gid, group.members.join(",")),
        Reply::Groups(gids) => format!("{gids:?}"),
        Reply::NotFound => "not found".to_owned(),
        Reply::Unavailable => "unavailable".to_owned(),
        _ => "another reply".to_owned(),
    }
}

fn user(directory: &Directory, name: &str, now: UnixSeconds) -> String {
    said(&directory.lookup(&Lookup::PasswdByName(name.to_owned()), now))
}

fn group(directory: &Directory, name: &str, now: UnixSeconds) -> String {
    said(&directory.lookup(&Lookup::GroupByName(name.to_owned()), now))
}

fn groups_of(directory: &Directory, name: &str, now: UnixSeconds) -> String {
    said(&directory.lookup(&Lookup::Groups(name.to_owned()), now))
}

fn person(name: &str, uid: u32) -> PasswdEntry {
    PasswdEntry {
        name: name.to_owned(),
        uid,
        gid: 5000,
        gecos: String::new(),
        home: format!("/home/{name}"),
        shell: "/bin/sh".to_owned(),
    }
}

#[derive(Default)]
struct Script {
    listing: Mutex<Option<Listing>>,
    asked: AtomicU32,
    listed: AtomicU32,
}

impl Script {
    /// What it has from now on; none: it fails.
    fn set(&self, listing: Option<Listing>) {
        *lock(&self.listing) = listing;
    }

    fn asked(&self) -> u32 {
        self.asked.swap(0, Ordering::SeqCst)
    }

    fn find<T>(&self, pick: impl FnOnce(Listing) -> T) -> Result<T, ResolverError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        lock(&self.listing).clone().map(pick).ok_or_else(|| ResolverError("it is away".to_owned()))
    }
}

/// A resolver that does as its test says, and cannot tell cheaply whether anything changed.
struct Scripted(&'static str, std::sync::Arc<Script>);

impl Resolver for Scripted {
    fn name(&self) -> &str {
        self.0
    }
    fn kind(&self) -> &'static str {
        "scripted"
    }
    fn version(&self) -> Option<String> {
        None
    }
    fn list(&self, _rules: &Rules) -> Result<Listing, ResolverError> {
        self.1.listed.fetch_add(1, Ordering::SeqCst);
        lock(&self.1.listing).clone().ok_or_else(|| ResolverError("it is away".to_owned()))
    }
    fn user_by_name(&self, name: &str, _rules: &Rules) -> Result<Option<PasswdEntry>, ResolverError> {
        self.1.find(|listing| listing.users.into_iter().find(|user| user.name == name))
    }
    fn user_by_uid(&self, uid: u32, _rules: &Rules) -> Result<Option<PasswdEntry>, ResolverError> {
        self.1.find(|listing| listing.users.into_iter().find(|user| user.uid == uid))
    }
    fn group_by_name(&self, name: &str, _rules: &Rules) -> Result<Option<GroupEntry>, ResolverError> {
        self.1.find(|listing| listing.groups.into_iter().find(|group| group.name == name))
    }
    fn group_by_gid(&self, gid: u32, _rules: &Rules) -> Result<Option<GroupEntry>, ResolverError> {
        self.1.find(|listing| listing.groups.into_iter().find(|group| group.gid == gid))
    }
    fn groups_of(&self, member: &str, _rules: &Rules) -> Result<Vec<GroupEntry>, ResolverError> {
        self.1.find(|listing| {
            let lists = |group: &GroupEntry| group.members.iter().any(|name| name == member);
            listing.groups.into_iter().filter(lists).collect()
        })
    }
}

#[test]
fn users_groups_and_memberships_are_answered_before_any_refresh() {
    let place = Place::new();
    let directory = place.open();
    assert_eq!(user(&directory, "alice", NOW), "alice:2000:2000:/bin/bash");
    assert_eq!(said(&directory.lookup(&Lookup::PasswdById(2001), NOW)), "zoe:2001:2000:/bin/sh");
    assert_eq!(group(&directory, "staff", NOW), "staff:3000:zoe,alice,bob");
    assert_eq!(said(&directory.lookup(&Lookup::GroupById(2000), NOW)), "alice:2000:");
    assert_eq!(groups_of(&directory, "alice", NOW), "[3000]");
    assert_eq!(user(&directory, "eve", NOW), "not found");
    assert_eq!(groups_of(&directory, "eve", NOW), "not found");
    place.write("group", "alice:x:2000:\n");
    assert_eq!(groups_of(&directory, "zoe", NOW), "[]", "a user who is in no group");
    let kinds: Vec<_> = directory
        .list()
        .expect("listed")
        .into_iter()
        .map(|record| format!("{} {}", record.kind, record.name))
        .collect();
    assert_eq!(
        kinds,
        ["absent-groups-of eve", "absent-user eve", "group alice", "group staff", "user alice", "user zoe"]
    );
    assert!(
        std::fs::read_dir(place.path("maps")).expect("maps").next().is_none(),
        "only a refresh publishes"
    );
}

#[test]
fn the_hosts_own_names_and_ids_are_not_ours() {
    let place = Place::new();
    place.write("group", "staff:x:3000:bob,games,root,alice\n");
    for refreshes in [false, true] {
        let directory = place.open();
        if refreshes {
            directory.refresh(NOW);
        }
        for lookup in [
            Lookup::PasswdByName("bob".into()),
            Lookup::PasswdByName("root".into()),
            Lookup::PasswdById(1000),
            Lookup::PasswdById(0),
            Lookup::PasswdById(u32::MAX),
            Lookup::GroupByName("bob".into()),
            Lookup::GroupById(1000),
            Lookup::Groups("root".into()),
            Lookup::Groups("games".into()),
            Lookup::PasswdByName("a:b".into()),
            Lookup::PasswdByName(String::new()),
        ] {
            assert_eq!(said(&directory.lookup(&lookup, NOW)), "not found", "{lookup:?}");
        }
        assert_eq!(
            groups_of(&directory, "bob", NOW),
            "[3000]",
            "an ordinary local user may be in our groups"
        );
    }
}

#[test]
fn a_local_user_added_later_shadows_ours_at_once() {
    let place = Place::new();
    let directory = place.open();
    directory.refresh(NOW);
    assert_eq!(user(&directory, "zoe", NOW), "zoe:2001:2000:/bin/sh");
    place.write("local-passwd", "root:x:0:0::/root:/bin/sh\nzoe:x:1001:1001::/home/zoe:/bin/sh\n");
    assert_eq!(user(&directory, "zoe", NOW), "not found");
    assert_eq!(user(&directory, "alice", NOW), "alice:2000:2000:/bin/bash");
    directory.refresh(NOW + 1);
    assert!(matches!(place.map().passwd_by_name(b"zoe", NOW), Found::Absent(_)));
    assert!(directory.take_notices().iter().any(|notice| notice.contains("(zoe) is refused")));
}

#[test]
fn whose_account_a_name_is() {
    let place = Place::new();
    let directory = place.open().with_clock(Box::new(FixedClock::at(NOW)));
    for (name, account) in [
        ("root", Account::System),
        ("games", Account::System),
        ("bob", Account::Local { uid: 1000 }),
        ("alice", Account::Resolver { uid: 2000 }),
        ("eve", Account::Unknown),
        ("my password!", Account::Unknown),
    ] {
        assert_eq!(directory.account(name), Ok(account), "{name}");
    }
    std::fs::remove_file(place.path("passwd")).expect("removed");
    let error = directory.account("carla").expect_err("nobody knows");
    assert!(!error.contains("carla"), "an unknown name may be a password: {error}");
    assert_eq!(directory.account("alice"), Ok(Account::Resolver { uid: 2000 }));
    std::fs::remove_file(place.path("local-passwd")).expect("removed");
    assert!(directory.account("alice").expect_err("nobody knows").contains("local-passwd cannot be read"));
}

#[test]
fn status_tells_counts_refusals_and_the_map() {
    let place = Place::new();
    place.write("passwd", "alice:x:2000:2000::/home/alice:\nbob:x:2002:2002::/:\n");
    let directory = place.open();
    assert_eq!(directory.status().0[0].refreshed, None);
    directory.refresh(NOW);
    let (resolvers, map) = directory.status();
    let files = &resolvers[0];
    assert_eq!(
        (files.name.as_str(), files.kind.as_str(), files.users, files.groups),
        ("files", "files", 1, 2)
    );
    assert_eq!((files.refreshed, &files.problem), (Some(NOW), &None));
    assert!(files.refused[0].contains("line 2 (bob) is refused"), "{:?}", files.refused);
    assert_eq!((map.built, map.users, map.groups), (Some(NOW), 1, 2));
    assert!(map.bytes > 0);
    assert_eq!(directory.take_notices().len(), 1, "the refusal");
    directory.flush(None, NOW + 1).expect("flushed");
    assert_eq!(directory.take_notices(), [] as [String; 0], "is said once");
}

#[test]
fn a_resolver_that_left_the_settings_takes_its_entries_along() {
    let place = Place::new();
    place.open().refresh(NOW);
    let directory = place.open_with(vec![]);
    assert_eq!(directory.list().expect("listed"), []);
    assert_eq!(user(&directory, "alice", NOW), "not found");
}

#[test]
fn the_first_resolver_owns_names_and_ids() {
    let place = Place::new();
    let (one, two) = (std::sync::Arc::new(Script::default()), std::sync::Arc::new(Script::default()));
    let listing = |users: &[PasswdEntry]| Some(Listing { users: users.to_vec(), ..Listing::default() });
    one.set(listing(&[person("alice", 2000)]));
    two.set(listing(&[person("alice", 2001), person("eve", 2000), person("zoe", 2002)]));
    let directory = place.open_with(vec![
        Box::new(Scripted("one", std::sync::Arc::clone(&one))),
        Box::new(Scripted("two", std::sync::Arc::clone(&two))),
    ]);
    for round in 0..2 {
        assert_eq!(user(&directory, "alice", NOW), "alice:2000:5000:/bin/sh");
        assert_eq!(user(&directory, "eve", NOW), "not found");
        assert_eq!(said(&directory.lookup(&Lookup::PasswdById(2001), NOW)), "not found");
        assert_eq!(user(&directory, "zoe", NOW), "zoe:2002:5000:/bin/sh");
        if round == 0 {
            directory.flush(None, NOW).expect("flushed");
        }
    }
    let notices = directory.take_notices();
    assert_eq!(notices.len(), 2, "{notices:?}");
    assert_eq!(notices[0], "the user alice of the resolver two is refused: the resolver one has its name");
    // One is away: what it had stays its own, whatever two says.
    one.set(None);
    two.set(listing(&[person("alice", 2001), person("carla", 2000)]));
    assert!(directory.flush(None, NOW + 1).is_err());
    assert_eq!(user(&directory, "alice", NOW + 1), "alice:2000:5000:/bin/sh");
    assert_eq!(user(&directory, "carla", NOW + NEGATIVE), "unavailable", "the first one cannot be asked");
    assert_eq!(directory.status().0[1].users, 0);
}
