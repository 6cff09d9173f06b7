//! The lookup map as its users see it: published files, and what happens to damaged ones.

use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;

use privacyidea_contract::map::{
    Age, BASE_FILE, Contents, Cursor, Description, Found, GroupsView, Map, MapError, RECENT_FILE, Snapshot,
    Unusable, publish, set_fresh_until,
};
use privacyidea_contract::wire::{GroupEntry, Lookup, PasswdEntry};
use proptest::prelude::*;

const NOW: u64 = 1_800_000_000;

fn user(name: &str, uid: u32) -> PasswdEntry {
    PasswdEntry {
        name: name.to_owned(),
        uid,
        gid: 5000,
        gecos: format!("{name} Example"),
        home: format!("/home/{name}"),
        shell: "/bin/bash".to_owned(),
    }
}

fn group(name: &str, gid: u32, members: &[&str]) -> GroupEntry {
    GroupEntry {
        name: name.to_owned(),
        gid,
        members: members.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn complete() -> Description {
    Description { built: NOW, fresh_until: NOW + 300, stale_for: 1000, enumerate: true, complete: true }
}

fn sample() -> Contents {
    let mut contents = Contents::listing(complete());
    for (name, uid) in [("alice", 2000), ("bob", 2001), ("müller", 2002)] {
        contents.passwd(&user(name, uid), NOW + 600).unwrap();
    }
    contents.group(&group("staff", 5000, &["alice", "bob", "carla"]), NOW + 300).unwrap();
    contents.group(&group("admins", 5001, &["alice", "root", "alice"]), NOW + 300).unwrap();
    contents.group(&group("empty", 5002, &[]), NOW + 300).unwrap();
    contents
}

fn name_of<'a>(found: &Found<privacyidea_contract::map::PasswdView<'a>>) -> Option<&'a [u8]> {
    match found {
        Found::Entry(entry, _) => Some(entry.name),
        _ => None,
    }
}

fn gids(found: Found<GroupsView<'_>>) -> Option<Vec<u32>> {
    match found {
        Found::Entry(groups, _) => Some(groups.gids().collect()),
        _ => None,
    }
}

#[test]
fn what_was_published_is_found_by_every_key() {
    let directory = tempfile::tempdir().unwrap();
    let published = publish(directory.path(), BASE_FILE, sample()).unwrap();
    assert_eq!((published.passwd, published.group), (3, 3));
    let path = directory.path().join(BASE_FILE);
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o644);
    assert_eq!(path.metadata().unwrap().len(), published.length);

    let map = Snapshot::open(directory.path()).unwrap();
    let Found::Entry(alice, Age::Fresh) = map.passwd_by_name(b"alice", NOW) else { panic!("no alice") };
    assert_eq!((alice.uid, alice.gid, alice.gecos), (2000, 5000, &b"alice Example"[..]));
    assert_eq!((alice.home, alice.shell), (&b"/home/alice"[..], &b"/bin/bash"[..]));
    assert_eq!(name_of(&map.passwd_by_id(2002, NOW)), Some("müller".as_bytes()));
    let Found::Entry(staff, _) = map.group_by_id(5000, NOW) else { panic!("no staff") };
    assert_eq!(staff.members().collect::<Vec<_>>(), [b"alice" as &[u8], b"bob", b"carla"]);
    let Found::Entry(admins, _) = map.group_by_name(b"admins", NOW) else { panic!("no admins") };
    assert_eq!(admins.members().collect::<Vec<_>>(), [b"alice" as &[u8], b"alice"], "root is left out");

    assert_eq!(gids(map.groups_of(b"alice", NOW)), Some(vec![5000, 5001]));
    assert_eq!(gids(map.groups_of(b"carla", NOW)), Some(vec![5000]), "a member that is no user of ours");
    assert_eq!(gids(map.groups_of("müller".as_bytes(), NOW)), Some(vec![]), "a user in no group");
    assert_eq!(map.groups_of(b"nobody-knows", NOW), Found::Absent(Age::Fresh));
    assert_eq!(map.passwd_by_name(b"alic", NOW), Found::Absent(Age::Fresh));
    assert_eq!(map.group_by_id(1, NOW), Found::Absent(Age::Fresh));
}

#[test]
fn an_incomplete_map_does_not_know() {
    let directory = tempfile::tempdir().unwrap();
    let mut contents = Contents::listing(Description { complete: false, ..complete() });
    contents.absent(&Lookup::PasswdByName("ghost".to_owned()), NOW + 10).unwrap();
    contents.absent(&Lookup::GroupById(7777), NOW + 10).unwrap();
    publish(directory.path(), BASE_FILE, contents).unwrap();
    let map = Snapshot::open(directory.path()).unwrap();
    assert_eq!(map.passwd_by_name(b"alice", NOW), Found::Unknown);
    assert_eq!(map.passwd_by_name(b"ghost", NOW), Found::Absent(Age::Fresh));
    assert_eq!(map.group_by_name(b"ghost", NOW), Found::Unknown);
    assert_eq!(map.group_by_id(7777, NOW), Found::Absent(Age::Fresh));
    assert_eq!(map.groups_of(b"ghost", NOW), Found::Unknown);
}

#[test]
fn entries_age_by_their_own_expiry_and_the_headers() {
    let directory = tempfile::tempdir().unwrap();
    publish(directory.path(), BASE_FILE, sample()).unwrap();
    let map = Snapshot::open(directory.path()).unwrap();
    let age = |now| match map.passwd_by_name(b"alice", now) {
        Found::Entry(_, age) => age,
        _ => panic!("alice is lost"),
    };
    // Its own expiry is after the header's.
    assert_eq!(
        [NOW + 599, NOW + 600, NOW + 1599, NOW + 1600].map(age),
        [Age::Fresh, Age::Stale, Age::Stale, Age::Expired]
    );
    assert_eq!(map.passwd_by_name(b"ghost", NOW + 300), Found::Absent(Age::Stale));
    // The clock was set back, or there is no clock at boot: not fresh, but good enough while the daemon is away.
    assert_eq!([NOW - 60, NOW - 61, 0].map(age), [Age::Fresh, Age::Stale, Age::Stale]);
    set_fresh_until(directory.path(), BASE_FILE, NOW + 5000).unwrap();
    assert_eq!(age(NOW + 4999), Age::Fresh, "moved under the mapping");
    assert_eq!(map.base().fresh_until(), NOW + 5000);
    assert!(map.is_current());
}

#[test]
fn a_recent_file_shadows_the_base_and_readers_are_told() {
    let directory = tempfile::tempdir().unwrap();
    publish(directory.path(), BASE_FILE, sample()).unwrap();
    let first = Snapshot::open(directory.path()).unwrap();
    assert!(first.is_current() && first.recent().is_none());

    let mut contents =
        Contents::changes(Description { built: NOW + 1, stale_for: 1000, ..Description::default() });
    contents.absent(&Lookup::PasswdByName("bob".to_owned()), NOW + 50).unwrap();
    contents.passwd(&PasswdEntry { shell: "/bin/zsh".to_owned(), ..user("alice", 2000) }, NOW + 50).unwrap();
    contents.passwd(&user("dora", 2003), NOW + 50).unwrap();
    contents.group(&group("staff", 5000, &["dora"]), NOW + 50).unwrap();
    contents.groups_of("dora", &[5000], NOW + 50).unwrap();
    publish(directory.path(), RECENT_FILE, contents).unwrap();
    assert!(!first.is_current());
    assert_eq!(name_of(&first.passwd_by_name(b"bob", NOW)), Some(&b"bob"[..]), "what is mapped stays usable");

    let second = Snapshot::open(directory.path()).unwrap();
    assert!(second.is_current());
    assert_eq!(second.passwd_by_name(b"bob", NOW), Found::Absent(Age::Fresh));
    assert!(
        matches!(second.passwd_by_name(b"alice", NOW), Found::Entry(entry, _) if entry.shell == b"/bin/zsh")
    );
    assert_eq!(gids(second.groups_of(b"dora", NOW)), Some(vec![5000]));
    assert_eq!(gids(second.groups_of(b"alice", NOW)), Some(vec![5000, 5001]), "not derived from some groups");
    let mut cursor = Cursor::default();
    let listed: Vec<_> =
        std::iter::from_fn(|| second.next_passwd(&mut cursor, NOW).map(|entry| (entry.name, entry.shell)))
            .collect();
    let names: Vec<_> = listed.iter().map(|entry| entry.0).collect();
    assert_eq!(names, [&b"alice"[..], b"dora", "müller".as_bytes()]);
    assert_eq!(listed[0].1, b"/bin/zsh");
    let mut cursor = Cursor::default();
    let groups: Vec<_> =
        std::iter::from_fn(|| second.next_group(&mut cursor, NOW).map(|entry| entry.name)).collect();
    assert_eq!(groups, [&b"staff"[..], b"admins", b"empty"]);

    publish(directory.path(), BASE_FILE, sample()).unwrap();
    assert!(!second.is_current() && Snapshot::open(directory.path()).unwrap().is_current());
}

/// As if the daemon had died between the renaming of a recent file and the word to the readers.
#[test]
fn a_recent_file_that_was_not_announced_is_another_map() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    publish(directory.path(), BASE_FILE, sample()).unwrap();
    let mut before = Snapshot::open(directory.path()).unwrap();
    for _ in 0..2 {
        assert!(before.is_in(directory.path()));
        let contents = Contents::changes(Description { built: NOW, ..Description::default() });
        publish(elsewhere.path(), RECENT_FILE, contents).unwrap();
        std::fs::rename(elsewhere.path().join(RECENT_FILE), directory.path().join(RECENT_FILE)).unwrap();
        assert!(before.is_current() && !before.is_in(directory.path()));
        let after = Snapshot::open(directory.path()).unwrap();
        assert!(!before.is_same(&after));
        before = after;
    }
    std::fs::remove_file(directory.path().join(RECENT_FILE)).unwrap();
    assert!(!before.is_in(directory.path()));
}

#[test]
fn the_first_of_two_equal_keys_wins() {
    let directory = tempfile::tempdir().unwrap();
    let mut contents = Contents::listing(complete());
    contents.passwd(&user("alice", 2000), 0).unwrap();
    contents.passwd(&user("alice", 2001), 0).unwrap();
    contents.passwd(&user("bob", 2000), 0).unwrap();
    publish(directory.path(), BASE_FILE, contents).unwrap();
    let map = Snapshot::open(directory.path()).unwrap();
    assert!(matches!(map.passwd_by_name(b"alice", NOW), Found::Entry(entry, _) if entry.uid == 2000));
    assert_eq!(name_of(&map.passwd_by_id(2000, NOW)), Some(&b"alice"[..]));
}

#[test]
fn unusable_entries_are_refused() {
    let mut contents = Contents::listing(complete());
    assert_eq!(contents.passwd(&user("a:b", 2000), 0), Err(Unusable::Name));
    assert_eq!(contents.passwd(&user("alice", 999), 0), Err(Unusable::Id));
    assert_eq!(contents.passwd(&PasswdEntry { gid: 0, ..user("alice", 2000) }, 0), Err(Unusable::Id));
    assert_eq!(
        contents.passwd(&PasswdEntry { home: "/\n".to_owned(), ..user("alice", 2000) }, 0),
        Err(Unusable::Field)
    );
    assert_eq!(contents.group(&group("root", 5000, &[]), 0), Err(Unusable::Name));
    assert_eq!(contents.group(&group("staff", 65534, &[]), 0), Err(Unusable::Id));
    assert_eq!(contents.groups_of("alice", &[5000, 0], 0), Err(Unusable::Id));
    assert_eq!(contents.absent(&Lookup::PasswdById(0), 0), Err(Unusable::Id));
    let directory = tempfile::tempdir().unwrap();
    let published = publish(directory.path(), BASE_FILE, contents).unwrap();
    assert_eq!((published.passwd, published.group), (0, 0));
}

#[test]
fn interrupted_publications_leave_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let leftover = directory.path().join(format!(".{BASE_FILE}.new-0123456789abcdef"));
    std::fs::write(&leftover, b"half").unwrap();
    publish(directory.path(), BASE_FILE, sample()).unwrap();
    let names: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [BASE_FILE]);
    // Something in the way: the error leaves the published file alone and nothing of ours behind.
    let blocked = tempfile::tempdir().unwrap();
    std::fs::create_dir(blocked.path().join(BASE_FILE)).unwrap();
    publish(blocked.path(), BASE_FILE, sample()).unwrap_err();
    assert_eq!(std::fs::read_dir(blocked.path()).unwrap().count(), 1);
}

#[test]
fn what_is_no_map_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(BASE_FILE);
    assert!(matches!(Map::open(&path), Err(MapError::Io(_))));
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(Map::open(&path), Err(MapError::Damaged(_))));
    std::fs::write(&path, [0; 4096]).unwrap();
    assert!(matches!(Map::open(&path), Err(MapError::Damaged(_))));
    assert!(set_fresh_until(directory.path(), BASE_FILE, NOW).is_err());
    publish(directory.path(), BASE_FILE, sample()).unwrap();
    let link = directory.path().join("link");
    symlink(&path, &link).unwrap();
    assert!(matches!(Map::open(&link), Err(MapError::Io(_))), "no symbolic link is followed");
    assert!(matches!(Map::open(Path::new("/dev/null")), Err(MapError::Damaged(_))));
    assert!(matches!(Map::open(directory.path()), Err(MapError::Damaged(_))));
    let fifo = directory.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(matches!(Map::open(&fifo), Err(MapError::Damaged(_))), "and nobody waits for its writer");
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(path.metadata().unwrap().len() - 8).unwrap();
    assert!(matches!(Map::open(&path), Err(MapError::Damaged(_))));
}

/// Asks everything; the answers do not matter, only that there is an end.
fn exercise(directory: &Path) {
    let Ok(map) = Snapshot::open(directory) else { return };
    for name in ["alice", "bob", "müller", "carla", "staff", "admins", "ghost"] {
        for now in [0, NOW, u64::MAX] {
            if let Found::Entry(entry, _) = map.passwd_by_name(name.as_bytes(), now) {
                assert_eq!(entry.name, name.as_bytes());
            }
            if let Found::Entry(entry, _) = map.group_by_name(name.as_bytes(), now) {
                assert!(entry.members().count() <= entry.member_block.len());
            }
            gids(map.groups_of(name.as_bytes(), now));
        }
    }
    for id in (1995..2010).chain(4995..5010) {
        let _ = (map.passwd_by_id(id, NOW), map.group_by_id(id, NOW));
    }
    let mut cursor = Cursor::default();
    while map.next_passwd(&mut cursor, NOW).is_some() {}
    let mut cursor = Cursor::default();
    while map.next_group(&mut cursor, NOW).is_some() {}
}

#[test]
fn any_single_damaged_word_is_survived() {
    let directory = tempfile::tempdir().unwrap();
    publish(directory.path(), BASE_FILE, sample()).unwrap();
    let path = directory.path().join(BASE_FILE);
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    for at in (0..path.metadata().unwrap().len()).step_by(4) {
        let mut word = [0; 4];
        file.read_exact_at(&mut word, at).unwrap();
        for damage in [0u32, 1, 7, 8, 0x7fff_ffff, 0x8000_0000, 0xffff_fff8, u32::MAX, 0xffff, 0xffff_0000] {
            file.write_all_at(&damage.to_ne_bytes(), at).unwrap();
            exercise(directory.path());
        }
        file.write_all_at(&word, at).unwrap();
    }
    let map = Snapshot::open(directory.path()).unwrap();
    assert!(matches!(map.passwd_by_name(b"alice", NOW), Found::Entry(..)), "restored");
}

fn entries() -> impl Strategy<Value = Vec<(String, u32, u32, String)>> {
    prop::collection::vec(
        ("[a-z_][a-z0-9._@-]{0,31}", 1000u32..60000, 1000u32..60000, "[^:\\pC]{0,40}"),
        0..80,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_entry_is_found(entries in entries(), memberships in prop::collection::vec((0usize..80, 0u32..9), 0..60)) {
        let directory = tempfile::tempdir().unwrap();
        let mut contents = Contents::listing(complete());
        let mut names = std::collections::BTreeMap::new();
        for (name, uid, gid, gecos) in &entries {
            let entry = PasswdEntry { uid: *uid, gid: *gid, gecos: gecos.clone(), ..user(name, 0) };
            if contents.passwd(&entry, NOW).is_ok() {
                names.entry(name.clone()).or_insert(entry);
            }
        }
        let mut groups: [Vec<String>; 9] = Default::default();
        let mut expected = std::collections::BTreeMap::<_, std::collections::BTreeSet<u32>>::new();
        for (index, number) in memberships {
            let Some(name) = names.keys().nth(index) else { continue };
            groups[number as usize].push(name.clone());
            expected.entry(name.clone()).or_default().insert(5000 + number);
        }
        for (gid, members) in (5000..).zip(&groups) {
            let entry = GroupEntry { name: format!("g{gid}"), gid, members: members.clone() };
            contents.group(&entry, NOW).unwrap();
        }
        publish(directory.path(), BASE_FILE, contents).unwrap();
        let map = Snapshot::open(directory.path()).unwrap();
        for (name, entry) in &names {
            let Found::Entry(found, Age::Fresh) = map.passwd_by_name(name.as_bytes(), NOW) else {
                return Err(TestCaseError::fail(format!("{name} is lost")));
            };
            prop_assert_eq!(found.uid, entry.uid);
            prop_assert_eq!(found.gid, entry.gid);
            prop_assert_eq!(found.gecos, entry.gecos.as_bytes());
            prop_assert_eq!(found.home, entry.home.as_bytes());
            prop_assert!(matches!(map.passwd_by_id(entry.uid, NOW), Found::Entry(by_id, _) if by_id.uid == entry.uid));
            let groups = gids(map.groups_of(name.as_bytes(), NOW)).unwrap_or_default();
            let expected: Vec<_> = expected.get(name).into_iter().flatten().copied().collect();
            prop_assert_eq!(groups, expected);
        }
        for (gid, members) in (5000..).zip(&groups) {
            let Found::Entry(found, _) = map.group_by_id(gid, NOW) else {
                return Err(TestCaseError::fail(format!("group {gid} is lost")));
            };
            prop_assert_eq!(found.members().map(<[u8]>::to_vec).collect::<Vec<_>>(),
                members.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn damaged_files_are_survived(
        damages in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 1..64)), 1..12),
        recent in any::<bool>(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        publish(directory.path(), BASE_FILE, sample()).unwrap();
        publish(directory.path(), RECENT_FILE, sample()).unwrap();
        let path = directory.path().join(if recent { RECENT_FILE } else { BASE_FILE });
        let mut bytes = std::fs::read(&path).unwrap();
        for (index, damage) in &damages {
            let start = index.index(bytes.len());
            bytes.iter_mut().skip(start).zip(damage).for_each(|(byte, new)| *byte = *new);
        }
        std::fs::write(&path, &bytes).unwrap();
        exercise(directory.path());
    }
}
