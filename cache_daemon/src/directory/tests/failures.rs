//! What happens when something is missing, damaged or half there: nobody is deleted.

use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn a_vanished_users_file_deletes_nobody() {
    let place = Place::new();
    let directory = place.open();
    directory.refresh(NOW);
    std::fs::remove_file(place.path("passwd")).expect("removed");
    let late = NOW + TIMEOUT + 1;
    directory.refresh(late);
    assert_eq!(user(&directory, "alice", late), "alice:2000:2000:/bin/bash");
    assert_eq!(groups_of(&directory, "alice", late), "[3000]");
    assert_eq!(user(&directory, "eve", late), "unavailable", "nobody knows whether there is an eve");
    assert!(directory.flush(None, late).expect_err("failed").to_string().contains("passwd cannot be read"));
    assert_eq!(user(&directory, "alice", late), "alice:2000:2000:/bin/bash");
    let problem = directory.status().0[0].problem.clone().expect("a problem");
    assert!(problem.contains("passwd cannot be read"), "{problem}");
    let notices = directory.take_notices();
    let told = notices.iter().filter(|notice| notice.starts_with("the resolver files: ")).count();
    assert_eq!(told, 1, "once, whatever the number of refreshes: {notices:?}");

    let stale_for = settings::Cache::default().stale_for.as_secs();
    assert_eq!(user(&directory, "alice", NOW + TIMEOUT + stale_for - 1), "alice:2000:2000:/bin/bash");
    assert_eq!(user(&directory, "alice", NOW + TIMEOUT + stale_for), "unavailable");

    place.write("passwd", "zoe:x:2001:2000::/home/zoe:/bin/sh\n");
    directory.refresh(late + 60);
    assert_eq!(user(&directory, "alice", late + 60), "not found");
    let notices = directory.take_notices();
    assert!(notices.contains(&"the resolver files is well again".to_owned()), "{notices:?}");
}

#[test]
fn a_half_written_users_file_deletes_nobody() {
    let place = Place::new();
    let directory = place.open();
    directory.refresh(NOW);
    place.write("passwd", "alice:x:2000:2000:Alice:/home/alice:/bin/zsh\nzo");
    assert!(directory.flush(None, NOW + 1).is_err());
    assert_eq!(user(&directory, "alice", NOW + 1), "alice:2000:2000:/bin/zsh", "what is there counts");
    assert_eq!(user(&directory, "zoe", NOW + 1), "zoe:2001:2000:/bin/sh", "what is missing stays");
    let map = place.map();
    assert!(matches!(map.passwd_by_name(b"zoe", NOW + 1), Found::Entry(..)));
    // An id that changes hands waits until the file is whole.
    place.write("passwd", "eve:x:2001:2000::/:\n#");
    assert!(directory.flush(None, NOW + 2).is_err());
    assert_eq!(said(&directory.lookup(&Lookup::PasswdById(2001), NOW + 2)), "zoe:2001:2000:/bin/sh");
    place.write("passwd", "eve:x:2001:2000::/:\n");
    directory.flush(None, NOW + 3).expect("whole");
    assert_eq!(said(&directory.lookup(&Lookup::PasswdById(2001), NOW + 3)), "eve:2001:2000:");
    assert_eq!(user(&directory, "zoe", NOW + 3), "not found");
    assert_eq!(user(&directory, "alice", NOW + 3), "not found");
}

#[test]
fn an_empty_users_file_has_no_users() {
    let place = Place::new();
    let directory = place.open();
    directory.refresh(NOW);
    place.write("passwd", "");
    directory.flush(None, NOW + 1).expect("flushed");
    assert_eq!(user(&directory, "alice", NOW + 1), "not found");
    assert_eq!(directory.status().0[0].users, 0);
}

#[test]
fn a_users_file_that_others_may_write_is_not_believed() {
    let place = Place::new();
    let directory = place.open();
    directory.refresh(NOW);
    place.write("passwd", "eve:x:2009:2000::/:\n");
    std::fs::set_permissions(place.path("passwd"), PermissionsExt::from_mode(0o666)).expect("chmod");
    assert!(directory.flush(None, NOW + 1).is_err());
    assert_eq!(user(&directory, "eve", NOW + NEGATIVE + 1), "unavailable");
    assert_eq!(user(&directory, "alice", NOW + 1), "alice:2000:2000:/bin/bash");
}

#[test]
fn a_deleted_cache_is_made_anew() {
    let place = Place::new();
    let directory = place.open();
    directory.refresh(NOW);
    std::fs::remove_file(place.path("cache.db")).expect("removed");
    assert_eq!(user(&directory, "alice", NOW + 1), "alice:2000:2000:/bin/bash");
    directory.refresh(NOW + 2);
    assert_eq!(directory.status().0[0].users, 2);
    let notices = directory.take_notices();
    assert!(notices.iter().any(|notice| notice.contains("cache.db was missing or damaged")), "{notices:?}");
    assert!(matches!(place.map().passwd_by_name(b"zoe", NOW + 2), Found::Entry(..)));
}

#[test]
fn a_corrupt_cache_is_made_anew() {
    let place = Place::new();
    std::fs::write(place.path("cache.db"), [0x5a; 20_000]).expect("write");
    let directory = place.open();
    directory.refresh(NOW);
    assert_eq!(user(&directory, "alice", NOW), "alice:2000:2000:/bin/bash");
}

#[test]
fn a_lost_cache_does_not_empty_the_map_while_the_resolver_is_away() {
    let place = Place::new();
    place.open().refresh(NOW);
    std::fs::remove_file(place.path("cache.db")).expect("removed");
    let passwd = std::fs::read_to_string(place.path("passwd")).expect("read");
    std::fs::remove_file(place.path("passwd")).expect("removed");
    let directory = place.open();
    directory.refresh(NOW + 1);
    assert_eq!(user(&directory, "alice", NOW + 1), "unavailable");
    assert!(matches!(place.map().passwd_by_name(b"alice", NOW + 1), Found::Entry(..)), "the map knows more");
    place.write("passwd", &passwd);
    directory.refresh(NOW + 31);
    assert_eq!(place.map().base().built(), NOW + 31);
}

#[test]
fn a_cache_directory_that_is_missing_is_an_error() {
    let place = Place::new();
    let missing = place.path("nowhere").join("cache.db");
    let result = Directory::open(&place.settings(), &missing, &place.path("maps"), place.local());
    assert!(matches!(result, Err(DirectoryError::Cache(sentence)) if sentence.contains("nowhere")));
}

#[test]
fn answers_are_given_even_if_the_cache_is_away() {
    let place = Place::new();
    let directory = place.open();
    let cache = place.path("cache.db");
    std::fs::remove_file(&cache).expect("removed");
    std::fs::create_dir(&cache).expect("mkdir");
    assert_eq!(user(&directory, "alice", NOW), "alice:2000:2000:/bin/bash");
    assert_eq!(user(&directory, "eve", NOW), "not found");
    directory.refresh(NOW);
    let notices = directory.take_notices();
    assert!(notices.iter().any(|notice| notice.starts_with("the user cache")), "{notices:?}");
    let error = directory.list().expect_err("not an empty list");
    assert!(error.to_string().starts_with("the user cache"), "{error}");
    std::fs::remove_dir(&cache).expect("rmdir");
    directory.refresh(NOW + 30);
    assert_eq!(directory.status().0[0].users, 2);
}
