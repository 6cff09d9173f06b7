use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use rusqlite::Connection;

use super::rows::ABSENT_MAX;
use super::*;

fn cache() -> (tempfile::TempDir, Cache) {
    let directory = tempfile::tempdir().expect("directory");
    let cache = Cache::open(&directory.path().join("cache.db")).expect("cache");
    (directory, cache)
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

fn team(name: &str, gid: u32, members: &[&str]) -> GroupEntry {
    GroupEntry {
        name: name.to_owned(),
        gid,
        members: members.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn at(fetched: u64) -> Times {
    Times { fetched, expires: fetched + 100 }
}

fn by_name(name: &str) -> Lookup {
    Lookup::PasswdByName(name.to_owned())
}

fn whole<'a>(resolver: &'a str, users: &'a [PasswdEntry], groups: &'a [GroupEntry]) -> ResolverListing<'a> {
    ResolverListing { resolver, users, groups, is_complete: true }
}

fn names(cache: &Cache) -> Vec<String> {
    cache.users_after("", 10_000).expect("users").into_iter().map(|user| user.entry.name).collect()
}

#[test]
fn a_listing_is_taken_over_and_only_differences_count() {
    let (_directory, cache) = cache();
    let users = [person("alice", 2000), person("bob", 2001)];
    let groups = [team("staff", 3000, &["bob", "alice"]), team("empty", 3001, &[])];
    assert!(!cache.replace(&[whole("files", &users, &groups)], at(10)).expect("replaced").is_empty());
    assert!(
        cache.replace(&[whole("files", &users, &groups)], at(50)).expect("replaced").is_empty(),
        "nothing new"
    );
    let alice = cache.user(&Lookup::PasswdById(2000)).expect("read").expect("alice");
    assert_eq!((alice.entry.name.as_str(), alice.learnt, alice.listed), ("alice", at(10), Some(at(50))));
    assert_eq!(alice.expires(), 150);
    assert!(alice.is_fresh(149) && !alice.is_fresh(150) && !alice.is_fresh(9));
    let staff = cache.group(&Lookup::GroupByName("staff".into())).expect("read").expect("staff");
    assert_eq!(staff.entry.members, ["bob", "alice"]);
    assert_eq!(cache.groups_of("alice").expect("read").len(), 1);
    for other in
        [team("staff", 3000, &["alice", "bob"]), team("staff", 3000, &["bob"]), team("staff", 3002, &["bob"])]
    {
        let groups = [other, team("empty", 3001, &[])];
        assert!(
            !cache.replace(&[whole("files", &users, &groups)], at(60)).expect("replaced").is_empty(),
            "{groups:?}"
        );
        let cached: Vec<_> =
            cache.groups_after("", 100).expect("groups").into_iter().map(|group| group.entry).collect();
        assert_eq!(cached, [groups[1].clone(), groups[0].clone()]);
    }
    assert_eq!(cache.counts("files").expect("counts"), (2, 2));
}

#[test]
fn a_complete_listing_deletes_and_an_incomplete_one_does_not() {
    let (_directory, cache) = cache();
    let users = [person("alice", 2000), person("bob", 2001)];
    cache.replace(&[whole("files", &users, &[team("staff", 3000, &["bob"])])], at(10)).expect("replaced");
    let incomplete = ResolverListing { is_complete: false, ..whole("files", &users[..1], &[]) };
    assert!(cache.replace(&[incomplete], at(200)).expect("replaced").is_empty());
    assert_eq!(names(&cache), ["alice", "bob"]);
    let fresh = |name| cache.user(&by_name(name)).expect("read").expect("there").is_fresh(250);
    assert!(fresh("alice") && !fresh("bob"), "only what was seen is new");
    assert_eq!(cache.listings().expect("listings"), [("files".to_owned(), at(10))]);
    assert!(!cache.replace(&[whole("files", &users[..1], &[])], at(300)).expect("replaced").is_empty());
    assert_eq!(names(&cache), ["alice"]);
    assert_eq!(cache.groups_of("bob").expect("read"), []);
}

#[test]
fn names_and_ids_change_hands_between_users_and_resolvers() {
    let (_directory, cache) = cache();
    let before = [person("alice", 2000), person("bob", 2001)];
    cache.replace(&[whole("one", &before, &[]), whole("two", &[], &[])], at(10)).expect("replaced");
    let swapped = [person("alice", 2001), person("bob", 2000)];
    assert!(
        !cache
            .replace(&[whole("one", &swapped, &[]), whole("two", &[], &[])], at(20))
            .expect("replaced")
            .is_empty()
    );
    assert_eq!(cache.user(&by_name("alice")).expect("read").expect("alice").entry.uid, 2001);
    let moved = [whole("one", &swapped[..1], &[]), whole("two", &swapped[1..], &[])];
    assert!(!cache.replace(&moved, at(30)).expect("replaced").is_empty());
    assert_eq!(cache.user(&by_name("bob")).expect("read").expect("bob").resolver, "two");
    cache.keep_resolvers(&["two"]).expect("kept");
    assert_eq!(names(&cache), ["bob"]);
    assert_eq!(cache.listings().expect("listings").len(), 1);
}

#[test]
fn one_entry_is_learnt_and_unlearnt() {
    let (_directory, cache) = cache();
    cache.learn_absent(&by_name("alice"), at(5)).expect("learnt");
    cache.learn_absent(&Lookup::PasswdById(2000), at(5)).expect("learnt");
    assert_eq!(cache.absent(&by_name("alice")).expect("read"), Some(at(5)));
    cache.learn_user(&person("alice", 2000), "files", at(10)).expect("learnt");
    assert_eq!(cache.all_absent().expect("read"), []);
    cache.learn_user(&person("zoe", 2000), "files", at(20)).expect("learnt");
    assert_eq!(names(&cache), ["zoe"], "an id has one owner");
    cache.learn_absent(&Lookup::PasswdById(2000), at(30)).expect("learnt");
    assert_eq!(names(&cache), [] as [&str; 0]);

    cache.learn_group(&team("staff", 3000, &["zoe"]), "files", at(10)).expect("learnt");
    let groups = [(team("others", 3001, &["amy", "zoe"]), "files")];
    cache.learn_groups_of("zoe", &groups, at(40)).expect("learnt");
    let gids: Vec<_> = cache.groups_of("zoe").expect("read").iter().map(|group| group.entry.gid).collect();
    assert_eq!(gids, [3001], "the groups of a member are those that were said last");
    assert_eq!(cache.groups_of_asked("zoe").expect("read"), Some(at(40)));
    assert_eq!(cache.groups_of_asked("amy").expect("read"), None);
}

#[test]
fn every_key_with_another_answer_is_named() {
    let (_directory, cache) = cache();
    let names = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(" ");
    cache.learn_user(&person("zoe", 2000), "two", at(10)).expect("learnt");
    let users = [person("alice", 2000), person("bob", 2001)];
    let groups = [team("staff", 3000, &["alice"]), team("others", 3001, &["carla"])];
    let changes = cache.replace(&[whole("one", &users, &groups)], at(10)).expect("replaced");
    assert_eq!(names(&changes.users), "alice bob zoe", "whoever lost the id is named too");
    assert_eq!(changes.uids, BTreeSet::from([2000, 2001]));
    assert_eq!(names(&changes.members), "alice bob carla zoe");
    let groups = [team("staff", 3002, &["bob"]), team("others", 3001, &["carla"])];
    let changes = cache.replace(&[whole("one", &users, &groups)], at(10)).expect("replaced");
    assert_eq!((names(&changes.groups).as_str(), &changes.gids), ("staff", &BTreeSet::from([3000, 3002])));
    assert_eq!((names(&changes.members).as_str(), changes.users.len()), ("alice bob", 0));
    let changes = cache.learn_absent(&Lookup::GroupById(3001), at(10)).expect("learnt");
    assert_eq!((names(&changes.groups).as_str(), names(&changes.members).as_str()), ("others", "carla"));
    assert!(
        cache.learn_user(&users[0], "one", at(99)).expect("learnt").is_empty(),
        "only its times are others"
    );
}

#[test]
fn absent_entries_are_bounded() {
    let (_directory, cache) = cache();
    cache
        .connections
        .write(|connection| {
            for number in 0..ABSENT_MAX {
                connection
                    .prepare_cached("INSERT INTO absent_entries VALUES ('user', ?1, ?2, ?2)")?
                    .execute(params![format!("u{number}"), number])?;
            }
            Ok(())
        })
        .expect("filled");
    cache.learn_absent(&by_name("one-more"), at(1_000_000)).expect("learnt");
    let absent = cache.all_absent().expect("read");
    assert_eq!(absent.len(), (ABSENT_MAX - ABSENT_MAX / 10) as usize);
    assert!(
        absent.iter().any(|entry| entry.key == "one-more") && !absent.iter().any(|entry| entry.key == "u0")
    );
}

#[test]
fn the_file_is_for_its_owner_alone() {
    let (directory, cache) = cache();
    cache.learn_user(&person("alice", 2000), "files", at(10)).expect("learnt");
    for name in ["cache.db", "cache.db-wal", "cache.db-shm"] {
        let mode = std::fs::metadata(directory.path().join(name)).expect("metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_deleted_database_is_made_anew_under_a_running_daemon() {
    let (directory, cache) = cache();
    for round in 0..3 {
        let generation = cache.generation();
        cache.learn_user(&person("alice", 2000), "files", at(10)).expect("learnt");
        assert_eq!(names(&cache), ["alice"]);
        std::fs::remove_file(directory.path().join("cache.db")).expect("removed");
        if round == 1 {
            std::fs::remove_file(directory.path().join("cache.db-wal")).expect("removed");
            std::fs::remove_file(directory.path().join("cache.db-shm")).expect("removed");
        }
        assert_eq!(names(&cache), [] as [&str; 0]);
        assert_ne!(cache.generation(), generation);
    }
    cache.learn_user(&person("zoe", 2000), "files", at(10)).expect("learnt");
    let other = Cache::open(&directory.path().join("cache.db")).expect("opened by another process");
    assert_eq!(names(&other), ["zoe"]);
}

#[test]
fn a_database_replaced_by_another_process_is_followed() {
    let (directory, cache) = cache();
    cache.learn_user(&person("alice", 2000), "files", at(10)).expect("learnt");
    std::fs::remove_file(directory.path().join("cache.db")).expect("removed");
    let other = Cache::open(&directory.path().join("cache.db")).expect("cache");
    other.learn_user(&person("zoe", 2000), "files", at(10)).expect("learnt");
    assert_eq!(names(&cache), ["zoe"]);
    cache.learn_user(&person("carla", 2001), "files", at(10)).expect("learnt");
    assert_eq!(names(&other), ["carla", "zoe"]);
}

#[test]
fn rubbish_and_another_version_are_made_anew() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("cache.db");
    for rubbish in
        [&b"no database at all, but long enough to be looked at"[..], &[0x55; 8192], b"SQLite format 3\0"]
    {
        std::fs::write(&path, rubbish).expect("write");
        let cache = Cache::open(&path).expect("made anew");
        cache.learn_user(&person("alice", 2000), "files", at(10)).expect("learnt");
        assert_eq!(names(&cache), ["alice"]);
    }
    let connection = Connection::open(&path).expect("open");
    connection.pragma_update(None, "user_version", 99).expect("set");
    drop(connection);
    assert_eq!(names(&Cache::open(&path).expect("made anew")), [] as [&str; 0]);
}

#[test]
fn damage_that_shows_later_is_made_anew_too() {
    let (directory, cache) = cache();
    let users: Vec<_> = (0..2000).map(|number| person(&format!("user{number}"), 10_000 + number)).collect();
    cache.replace(&[whole("files", &users, &[])], at(10)).expect("replaced");
    let path = directory.path().join("cache.db");
    let connection = Connection::open(&path).expect("open");
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("checkpoint");
    drop(connection);
    drop(cache);
    let mut bytes = std::fs::read(&path).expect("read");
    let first_page = 4096.min(bytes.len());
    bytes[first_page..].fill(0x5a);
    std::fs::write(&path, &bytes).expect("write");
    let cache = Cache::open(&path).expect("its first page is sound");
    let generation = cache.generation();
    assert_eq!(names(&cache), [] as [&str; 0]);
    assert_ne!(cache.generation(), generation);
    assert!(!cache.replace(&[whole("files", &users, &[])], at(20)).expect("replaced").is_empty());
    assert_eq!(cache.counts("files").expect("counts"), (2000, 0));
}

#[test]
fn a_directory_that_is_gone_is_an_error_and_its_return_is_noticed() {
    let (directory, cache) = cache();
    let away = directory.path().with_extension("away");
    std::fs::rename(directory.path(), &away).expect("moved");
    assert!(matches!(cache.users_after("", 1), Err(CacheError::Unusable(_))));
    std::fs::rename(&away, directory.path()).expect("moved back");
    assert_eq!(names(&cache), [] as [&str; 0]);
}

#[test]
fn readers_and_writers_at_the_same_time_see_whole_listings() {
    let (directory, cache) = cache();
    let old: Vec<_> = (0..50).map(|number| person(&format!("old{number}"), 10_000 + number)).collect();
    let new: Vec<_> = (0..50).map(|number| person(&format!("new{number}"), 10_000 + number)).collect();
    cache.replace(&[whole("files", &old, &[])], at(10)).expect("replaced");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::SeqCst) {
                    let names = names(&cache);
                    // None at all: the file was deleted and the next listing is not in it yet.
                    assert!(names.is_empty() || names.len() == 50, "{names:?}");
                    assert!(names.iter().all(|name| name[..3] == names[0][..3]), "{names:?}");
                }
            });
        }
        for round in 0..20 {
            let users = if round % 2 == 0 { &new } else { &old };
            cache.replace(&[whole("files", users, &[])], at(20)).expect("replaced");
            if round % 7 == 3 {
                std::fs::remove_file(directory.path().join("cache.db")).expect("removed");
            }
        }
        done.store(true, std::sync::atomic::Ordering::SeqCst);
    });
}
