//! The lookup map as NSS sees it.

use privacyidea_contract::map::{Age, Cursor};

use super::*;

fn shell(map: &Snapshot, name: &str, now: UnixSeconds) -> Option<String> {
    match map.passwd_by_name(name.as_bytes(), now) {
        Found::Entry(user, Age::Fresh) => Some(String::from_utf8_lossy(user.shell).into_owned()),
        _ => None,
    }
}

fn gids(map: &Snapshot, name: &str, now: UnixSeconds) -> Option<Vec<u32>> {
    match map.groups_of(name.as_bytes(), now) {
        Found::Entry(groups, Age::Fresh) => Some(groups.gids().collect()),
        _ => None,
    }
}

/// A passwd file large enough that its base is kept.
fn many(extra: &str) -> String {
    let lines = (0..5_000).map(|number| format!("u{number}:x:{}:5000::/home/u:/bin/sh\n", 10_000 + number));
    lines.chain([extra.to_owned()]).collect()
}

#[test]
fn a_refresh_publishes_everything() {
    let place = Place::new();
    let directory = place.open();
    directory.refresh(NOW);
    let map = place.map();
    assert_eq!(shell(&map, "alice", NOW), Some("/bin/bash".to_owned()));
    assert_eq!(gids(&map, "alice", NOW), Some(vec![3000]));
    assert!(
        matches!(map.group_by_id(3000, NOW), Found::Entry(group, Age::Fresh) if group.members().count() == 3)
    );
    assert_eq!(map.passwd_by_name(b"eve", NOW), Found::Absent(Age::Fresh));
    assert_eq!(map.passwd_by_name(b"eve", NOW + TIMEOUT), Found::Absent(Age::Stale));
    assert!(matches!(map.passwd_by_name(b"alice", NOW + TIMEOUT), Found::Entry(_, Age::Stale)));
    let expired = NOW + TIMEOUT + settings::Cache::default().stale_for.as_secs();
    assert!(matches!(map.passwd_by_name(b"alice", expired), Found::Entry(_, Age::Expired)));
    assert!(!map.base().may_enumerate());
    assert!(!place.path("maps").join(RECENT_FILE).exists());
}

#[test]
fn enumeration_is_allowed_where_it_is_switched_on() {
    let place = Place::new();
    let mut settings = place.settings();
    settings.cache.enumerate = true;
    settings.cache.stale_for = Duration::from_secs(7);
    let directory = Directory::open(&settings, &place.path("cache.db"), &place.path("maps"), place.local())
        .expect("opened");
    directory.refresh(NOW);
    let map = place.map();
    assert!(map.base().may_enumerate());
    assert_eq!(map.base().stale_for(), 7);
    let mut cursor = Cursor::default();
    let names: Vec<_> =
        std::iter::from_fn(|| map.next_passwd(&mut cursor, NOW).map(|user| user.name.to_vec())).collect();
    assert_eq!(names, [b"alice".to_vec(), b"zoe".to_vec()]);
}

#[test]
fn a_small_change_of_a_large_file_leaves_the_base_alone() {
    let place = Place::new();
    place.write("passwd", &many("alice:x:2000:2000::/home/alice:/bin/bash\nzoe:x:2001:2000::/:/bin/sh\n"));
    let directory = place.open();
    directory.refresh(NOW);
    let before = place.map();
    place.write("passwd", &many("alice:x:2000:2000::/home/alice:/bin/zsh\neve:x:2001:2000::/:/bin/dash\n"));
    place.write("group", "alice:x:2000:\nstaff:x:3000:bob,eve\nnew:x:3001:u7\n");
    directory.flush(None, NOW + 1).expect("flushed");
    assert!(!before.is_current(), "readers are told");
    let map = place.map();
    assert_eq!(map.base().built(), NOW, "the base is the same");
    assert_eq!(shell(&map, "alice", NOW + 1), Some("/bin/zsh".to_owned()));
    assert_eq!(shell(&map, "eve", NOW + 1), Some("/bin/dash".to_owned()));
    assert_eq!(map.passwd_by_name(b"zoe", NOW + 1), Found::Absent(Age::Fresh));
    assert!(matches!(map.passwd_by_id(2001, NOW + 1), Found::Entry(user, _) if user.name == b"eve"));
    assert_eq!(gids(&map, "eve", NOW + 1), Some(vec![3000]));
    assert_eq!(gids(&map, "u7", NOW + 1), Some(vec![3001]));
    assert_eq!(gids(&map, "alice", NOW + 1), Some(vec![]), "a user in no group any more");
    assert_eq!(map.groups_of(b"zoe", NOW + 1), Found::Absent(Age::Fresh), "no user any more");
    assert_eq!(gids(&map, "bob", NOW + 1), Some(vec![3000]), "a local user in one of our groups");
    assert_eq!(shell(&map, "u4999", NOW + 1), Some("/bin/sh".to_owned()));

    // Nothing new: both files stay and only their freshness moves.
    directory.refresh(NOW + TIMEOUT / 2 + 1);
    let late = NOW + TIMEOUT + TIMEOUT / 4;
    let map = place.map();
    assert_eq!(
        (shell(&map, "eve", late), shell(&map, "u1", late)),
        (Some("/bin/dash".into()), Some("/bin/sh".into()))
    );
    assert_eq!(map.base().built(), NOW);
    assert_eq!(map.passwd_by_name(b"zoe", late), Found::Absent(Age::Fresh));

    // Too much for a recent file: a new base, and nothing left of the old recent file.
    place.write("passwd", &many("zoe:x:2001:2000::/:/bin/sh\n").replace("/home/u:", "/home/v:"));
    directory.flush(None, late).expect("flushed");
    let map = place.map();
    assert_eq!(map.base().built(), late);
    assert_eq!(shell(&map, "zoe", late), Some("/bin/sh".to_owned()));
    assert_eq!(map.passwd_by_name(b"eve", late), Found::Absent(Age::Fresh));
}

#[test]
fn what_a_lookup_found_is_in_the_map_after_the_next_refresh() {
    let place = Place::new();
    place.write("passwd", &many(""));
    let directory = place.open();
    directory.refresh(NOW);
    place.write("passwd", &many("eve:x:2001:2000::/:/bin/dash\n"));
    assert_eq!(user(&directory, "eve", NOW + NEGATIVE), "eve:2001:2000:/bin/dash");
    directory.refresh(directory.refresh_due(NOW + NEGATIVE));
    let map = place.map();
    assert_eq!(map.base().built(), NOW);
    assert_eq!(shell(&map, "eve", NOW + NEGATIVE), Some("/bin/dash".to_owned()));
}

#[test]
fn a_deleted_or_damaged_map_is_published_anew() {
    let place = Place::new();
    let directory = place.open();
    directory.refresh(NOW);
    let path = place.path("maps").join(BASE_FILE);
    std::fs::remove_file(&path).expect("removed");
    directory.refresh(NOW + 30);
    assert_eq!(shell(&place.map(), "alice", NOW + 30), Some("/bin/bash".to_owned()));
    std::fs::write(&path, b"damaged").expect("write");
    directory.refresh(NOW + 60);
    assert_eq!(shell(&place.map(), "alice", NOW + 60), Some("/bin/bash".to_owned()));
}

#[test]
fn a_map_directory_that_is_away_is_told_once_and_tried_again() {
    let place = Place::new();
    let directory = place.open();
    std::fs::remove_dir(place.path("maps")).expect("removed");
    directory.refresh(NOW);
    directory.refresh(NOW + 30);
    assert_eq!(directory.take_notices().len(), 1);
    assert_eq!(user(&directory, "alice", NOW + 30), "alice:2000:2000:/bin/bash");
    assert_eq!(directory.status().1.built, None);
    std::fs::create_dir(place.path("maps")).expect("mkdir");
    directory.refresh(NOW + 60);
    assert_eq!(shell(&place.map(), "alice", NOW + 60), Some("/bin/bash".to_owned()));
    assert_eq!(directory.take_notices(), ["the lookup map is well again"]);
}

#[test]
fn a_map_from_the_future_is_published_anew() {
    let place = Place::new();
    let directory = place.open();
    directory.refresh(NOW);
    let earlier = NOW - 10_000;
    directory.refresh(earlier);
    assert_eq!(shell(&place.map(), "alice", earlier), Some("/bin/bash".to_owned()));
}

#[test]
fn while_one_of_two_resolvers_is_away_the_others_entries_stay_fresh() {
    let place = Place::new();
    let (one, two) = (std::sync::Arc::new(Script::default()), std::sync::Arc::new(Script::default()));
    one.set(Some(Listing { users: vec![person("alice", 2000)], ..Listing::default() }));
    two.set(Some(Listing { users: vec![person("zoe", 2001)], ..Listing::default() }));
    let directory = place.open_with(vec![
        Box::new(Scripted("one", std::sync::Arc::clone(&one))),
        Box::new(Scripted("two", std::sync::Arc::clone(&two))),
    ]);
    directory.refresh(NOW);
    two.set(None);
    for now in (NOW..NOW + 3 * TIMEOUT).step_by(30) {
        directory.refresh(now);
    }
    let late = NOW + 3 * TIMEOUT;
    let map = place.map();
    assert_eq!(shell(&map, "alice", late), Some("/bin/sh".to_owned()));
    assert!(matches!(map.passwd_by_name(b"zoe", late), Found::Entry(_, Age::Stale)));
    assert_eq!(map.passwd_by_name(b"eve", late), Found::Absent(Age::Stale), "two may have an eve by now");
}

#[test]
fn a_group_too_large_for_a_message_is_in_the_map() {
    let place = Place::new();
    let members: Vec<String> = (0..8_000).map(|number| format!("member{number}")).collect();
    place.write("group", &format!("all:x:3000:{}\n", members.join(",")));
    let directory = place.open();
    directory.refresh(NOW);
    assert_eq!(group(&directory, "all", NOW), "unavailable");
    assert!(directory.take_notices()[0].contains("the group all has too many members"));
    let map = place.map();
    assert!(
        matches!(map.group_by_name(b"all", NOW), Found::Entry(group, Age::Fresh) if group.member_count == 8_000)
    );
    assert_eq!(gids(&map, "member7999", NOW), Some(vec![3000]));
}
