//! Timeouts.

use super::*;

fn users(users: &[PasswdEntry]) -> Option<Listing> {
    Some(Listing { users: users.to_vec(), ..Listing::default() })
}

fn scripted(place: &Place) -> (std::sync::Arc<Script>, Directory) {
    let script = std::sync::Arc::new(Script::default());
    script.set(users(&[person("alice", 2000)]));
    let directory = place.open_with(vec![Box::new(Scripted("one", std::sync::Arc::clone(&script)))]);
    (script, directory)
}

#[test]
fn an_entry_is_believed_until_its_timeout() {
    let place = Place::new();
    let (script, directory) = scripted(&place);
    assert_eq!(user(&directory, "alice", NOW), "alice:2000:5000:/bin/sh");
    assert_eq!(script.asked(), 1);
    script.set(users(&[person("alice", 2001)]));
    assert_eq!(user(&directory, "alice", NOW + TIMEOUT - 1), "alice:2000:5000:/bin/sh");
    assert_eq!(script.asked(), 0);
    assert_eq!(user(&directory, "alice", NOW + TIMEOUT), "alice:2001:5000:/bin/sh");
    assert_eq!(script.asked(), 1);
    assert_eq!(user(&directory, "alice", NOW - 100), "alice:2001:5000:/bin/sh");
    assert_eq!(script.asked(), 1, "an entry from the future is not believed: the clock was set back");
}

#[test]
fn that_there_is_no_such_user_is_believed_for_a_shorter_time() {
    let place = Place::new();
    let (script, directory) = scripted(&place);
    for lookup in [Lookup::PasswdByName("eve".into()), Lookup::PasswdById(4000), Lookup::Groups("eve".into())]
    {
        assert_eq!(said(&directory.lookup(&lookup, NOW)), "not found");
        assert_ne!(script.asked(), 0);
        assert_eq!(said(&directory.lookup(&lookup, NOW + NEGATIVE - 1)), "not found");
        assert_eq!(script.asked(), 0, "{lookup:?}");
    }
    script.set(users(&[person("eve", 4000)]));
    assert_eq!(user(&directory, "eve", NOW + NEGATIVE), "eve:4000:5000:/bin/sh");
    assert_eq!(said(&directory.lookup(&Lookup::PasswdById(4000), NOW + NEGATIVE)), "eve:4000:5000:/bin/sh");
}

#[test]
fn after_a_whole_listing_unknown_names_ask_nobody() {
    let place = Place::new();
    let (script, directory) = scripted(&place);
    directory.refresh(NOW);
    assert_eq!(user(&directory, "eve", NOW + NEGATIVE - 1), "not found");
    assert_eq!(groups_of(&directory, "alice", NOW + TIMEOUT - 1), "[]");
    assert_eq!(script.asked(), 0);
    assert_eq!(user(&directory, "eve", NOW + NEGATIVE), "not found");
    assert_eq!(script.asked(), 1);
}

#[test]
fn a_user_who_left_is_gone_after_the_timeout() {
    let place = Place::new();
    let (script, directory) = scripted(&place);
    directory.refresh(NOW);
    script.set(users(&[]));
    assert_eq!(user(&directory, "alice", NOW + TIMEOUT - 1), "alice:2000:5000:/bin/sh");
    assert_eq!(user(&directory, "alice", NOW + TIMEOUT), "not found");
    assert_eq!(said(&directory.lookup(&Lookup::PasswdById(2000), NOW + TIMEOUT)), "not found");
    directory.refresh(NOW + TIMEOUT);
    assert!(matches!(place.map().passwd_by_name(b"alice", NOW + TIMEOUT), Found::Absent(_)));
}

#[test]
fn a_changed_file_shows_at_the_next_refresh_and_at_a_flush() {
    let place = Place::new();
    let directory = place.open();
    directory.refresh(NOW);
    place.write("passwd", "alice:x:2000:2000:Alice:/home/alice:/bin/zsh\n");
    assert_eq!(user(&directory, "alice", NOW + 1), "alice:2000:2000:/bin/bash", "it is cached");
    let due = directory.refresh_due(NOW + 1);
    assert_eq!(due, NOW + NEGATIVE / 2);
    directory.refresh(due);
    assert_eq!(user(&directory, "alice", due), "alice:2000:2000:/bin/zsh");
    assert_eq!(user(&directory, "zoe", due), "not found");
    place.write("passwd", "alice:x:2000:2000:Alice:/home/alice:/bin/dash\n");
    directory.flush(Some("alice"), due + 1).expect("flushed");
    assert_eq!(user(&directory, "alice", due + 1), "alice:2000:2000:/bin/dash");
}

#[test]
fn without_a_refresher_a_changed_file_shows_after_the_timeout() {
    let place = Place::new();
    assert_eq!(user(&place.open(), "alice", NOW), "alice:2000:2000:/bin/bash");
    place.write("passwd", "alice:x:2000:2000:Alice:/home/alice:/bin/zsh\n");
    // Each one is a new process, as --once is.
    assert_eq!(user(&place.open(), "alice", NOW + TIMEOUT - 1), "alice:2000:2000:/bin/bash");
    assert_eq!(user(&place.open(), "alice", NOW + TIMEOUT), "alice:2000:2000:/bin/zsh");
}

#[test]
fn an_unchanged_file_is_not_read_again() {
    let place = Place::new();
    let directory = place.open();
    directory.refresh(NOW);
    let (resolvers, map) = directory.status();
    let later = NOW + TIMEOUT / 2;
    for now in [NOW + 30, NOW + 60, later] {
        directory.refresh(now);
    }
    assert_eq!(directory.status().1.built, map.built, "the map is the same, only its freshness moved");
    assert_eq!((resolvers[0].refreshed, directory.status().0[0].refreshed), (Some(NOW), Some(later)));
    assert_eq!(place.map().base().fresh_until(), later + TIMEOUT);
    assert_eq!(user(&directory, "alice", later + TIMEOUT + 5), "alice:2000:2000:/bin/bash");
    assert_eq!(user(&directory, "eve", later + TIMEOUT + 5), "not found");
}

#[test]
fn a_refresh_is_due_at_once_soon_and_later() {
    let place = Place::new();
    let woken = std::sync::Arc::new(AtomicU32::new(0));
    let waker = std::sync::Arc::clone(&woken);
    let directory = place.open().with_waker(Box::new(move || {
        waker.fetch_add(1, Ordering::SeqCst);
    }));
    assert_eq!(directory.refresh_due(NOW), NOW);
    directory.refresh(NOW);
    assert_eq!(directory.refresh_due(NOW), NOW + NEGATIVE / 2);
    assert_eq!(directory.refresh_due(NOW - 1), NOW - 1, "the clock was set back");
    place.write("passwd", "alice:x:2000:2000:Alice:/home/alice:/bin/zsh\neve:x:2007:2000::/:\n");
    assert_eq!(woken.load(Ordering::SeqCst), 0);
    assert_eq!(user(&directory, "eve", NOW + NEGATIVE), "eve:2007:2000:");
    assert_eq!(woken.load(Ordering::SeqCst), 1);
    assert_eq!(directory.refresh_due(NOW), NOW + 1, "a lookup found that something changed");
}

#[test]
fn the_same_lookup_by_many_asks_once() {
    let place = Place::new();
    let (script, directory) = scripted(&place);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(user(&directory, "alice", NOW), "alice:2000:5000:/bin/sh"));
        }
    });
    assert_eq!(script.asked(), 1);
}
