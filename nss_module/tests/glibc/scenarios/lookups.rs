use std::time::{Duration, Instant};

use privacyidea_contract::map::{BASE_FILE, Contents, Description, RECENT_FILE};
use privacyidea_contract::paths::MAP_DIRECTORY;
use privacyidea_contract::wire::{GroupEntry, Lookup, PasswdEntry, Reply};

use crate::calls::{
    Module, group_by_id, group_by_name, groups_of, list_groups, list_passwd, passwd_by_id, passwd_by_name,
};
use crate::world::{FakeDaemon, fresh, group, now, publish_base, publish_recent, sample, user};

fn base_path() -> std::path::PathBuf {
    std::path::Path::new(MAP_DIRECTORY).join(BASE_FILE)
}

pub(super) fn every_key_is_answered_from_the_map() {
    publish_base(sample(fresh()));
    assert_eq!(passwd_by_name("alice"), Ok(Some(user("alice", 2000))));
    assert_eq!(passwd_by_id(2001), Ok(Some(user("bob", 2001))));
    assert_eq!(group_by_name("staff"), Ok(Some(group("staff", 5000, &["alice", "bob"]))));
    assert_eq!(group_by_id(5001), Ok(Some(group("admins", 5001, &["alice"]))));
    assert_eq!(groups_of("alice", 5000), [5000, 5001, 5002]);
    assert_eq!(groups_of("lokal", 100), [100, 5002], "a local user in one of our groups");
    // Complete and fresh: nobody needs to be asked, and there is nobody.
    assert_eq!(passwd_by_name("ghost"), Ok(None));
    assert_eq!(passwd_by_id(2002), Ok(None));
    assert_eq!(group_by_name("ghost"), Ok(None));
    assert_eq!(group_by_id(5003), Ok(None));
    assert_eq!(groups_of("ghost", 100), [100]);
    // Changes show at once, without a word to this process.
    let mut changes = Contents::changes(Description { built: now(), ..Description::default() });
    changes.absent(&Lookup::PasswdByName("bob".to_owned()), now() + 60).unwrap();
    changes.passwd(&user("carla", 2002), now() + 60).unwrap();
    publish_recent(changes);
    assert_eq!(passwd_by_name("bob"), Ok(None));
    assert_eq!(passwd_by_id(2002), Ok(Some(user("carla", 2002))));
    assert_eq!(groups_of("carla", 5000), [5000], "a user in no group");
}

/// With [`super::PANICKING`]'s build of the module.
pub(super) fn a_panic_does_not_end_the_program() {
    publish_base(sample(fresh()));
    assert_eq!(passwd_by_name("alice"), Err(libc::EAGAIN));
    assert_eq!(passwd_by_id(2000), Err(libc::EAGAIN));
    assert_eq!(group_by_name("staff"), Err(libc::EAGAIN));
    assert_eq!(group_by_id(5000), Err(libc::EAGAIN));
    assert_eq!(groups_of("alice", 100), [100]);
    assert!(list_passwd(true, |_| ()).is_empty() && list_groups().is_empty());
}

pub(super) fn a_miss_goes_to_the_daemon() {
    let root = PasswdEntry { uid: 0, ..user("eve", 0) };
    let daemon = FakeDaemon::start(move |lookup| {
        Some(match lookup {
            Lookup::PasswdByName(name) if name == "dora" => Reply::Passwd(user("dora", 2003)),
            Lookup::PasswdByName(name) if name == "eve" => Reply::Passwd(root.clone()),
            Lookup::PasswdByName(name) if name == "mallory" => Reply::Passwd(user("alice", 2000)),
            Lookup::PasswdById(2003) => Reply::Passwd(user("dora", 2003)),
            Lookup::GroupById(5000) => Reply::Group(group("staff", 5000, &["dora", "root", "emil"])),
            Lookup::GroupByName(name) if name == "staff" => Reply::Groups(vec![]),
            Lookup::Groups(name) if name == "dora" => Reply::Groups(vec![5000, 0, 27, 5007]),
            Lookup::Groups(name) if name == "lonely" => Reply::Groups(vec![]),
            Lookup::GroupByName(name) if name == "later" => Reply::Unavailable,
            _ => Reply::NotFound,
        })
    });
    for round in 0..2 {
        assert_eq!(passwd_by_name("dora"), Ok(Some(user("dora", 2003))));
        // Small buffers: the question is asked again each time the buffer has grown.
        assert!(daemon.asked().iter().all(|lookup| *lookup == Lookup::PasswdByName("dora".to_owned())));
        assert_eq!(passwd_by_id(2003), Ok(Some(user("dora", 2003))));
        assert_eq!(passwd_by_name("ghost"), Ok(None));
        assert_eq!(passwd_by_name("eve"), Ok(None), "the daemon is not believed about root's id");
        assert_eq!(passwd_by_name("mallory"), Err(libc::EAGAIN), "an answer to another question");
        assert_eq!(group_by_name("staff"), Err(libc::EAGAIN), "an answer to another kind of question");
        assert_eq!(group_by_id(5000), Ok(Some(group("staff", 5000, &["dora", "emil"]))));
        assert_eq!(groups_of("dora", 100), [100, 5000, 5007]);
        assert_eq!(group_by_name("later"), Err(libc::EAGAIN));
        let module = Module::load();
        assert_eq!(module.groups_of(c"lonely", -1), (1, vec![]), "known, in no group");
        assert_eq!(module.groups_of(c"ghost", -1), (0, vec![]), "unknown");
        daemon.asked();
        if round == 0 {
            // The same with a map that knows nothing.
            publish_base(Contents::listing(Description { complete: false, ..fresh() }));
        }
    }
}

pub(super) fn an_outage_is_no_absence() {
    // No map, no daemon. A stale ERANGE must not make glibc grow its buffers for ever.
    // SAFETY: the address of this thread's errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { errno.write(libc::ERANGE) };
    assert_eq!(passwd_by_name("alice"), Err(libc::EAGAIN));
    assert_eq!(passwd_by_id(2000), Err(libc::EAGAIN));
    assert_eq!(group_by_name("staff"), Err(libc::EAGAIN));
    assert_eq!(group_by_id(5000), Err(libc::EAGAIN));
    assert_eq!(groups_of("alice", 100), [100]);
    // SAFETY: a NUL-terminated name.
    assert!(unsafe { libc::getpwnam(c"alice".as_ptr()) }.is_null());
    // SAFETY: as above.
    assert_eq!(unsafe { errno.read() }, libc::EAGAIN);
    // The first map that is published is noticed by a process that had none.
    publish_base(sample(fresh()));
    assert_eq!(passwd_by_name("alice"), Ok(Some(user("alice", 2000))));
    // What is mapped lives on when the file is gone.
    std::fs::remove_file(base_path()).unwrap();
    assert_eq!(passwd_by_name("bob"), Ok(Some(user("bob", 2001))));
}

pub(super) fn stale_entries_serve_while_the_daemon_is_away() {
    let expired = Description { built: now() - 1000, fresh_until: now() - 10, ..fresh() };
    publish_base(sample(expired));
    assert_eq!(passwd_by_name("alice"), Ok(Some(user("alice", 2000))));
    assert_eq!(groups_of("alice", 5000), [5000, 5001, 5002]);
    assert_eq!(passwd_by_name("ghost"), Ok(None), "the listing was complete");
    // The clock was set back.
    publish_base(sample(Description { built: now() + 1000, ..fresh() }));
    assert_eq!(passwd_by_name("alice"), Ok(Some(user("alice", 2000))));
    publish_base(sample(Description { stale_for: 5, ..expired }));
    assert_eq!(passwd_by_name("alice"), Err(libc::EAGAIN), "too old");
    assert_eq!(passwd_by_name("ghost"), Err(libc::EAGAIN));
    // With a daemon the stale entry is not the answer.
    publish_base(sample(expired));
    let daemon = FakeDaemon::start(|lookup| {
        Some(match lookup {
            Lookup::PasswdByName(name) if name == "alice" => Reply::Passwd(user("alice", 2999)),
            Lookup::PasswdByName(name) if name == "bob" => Reply::Unavailable,
            _ => Reply::NotFound,
        })
    });
    assert_eq!(passwd_by_name("alice"), Ok(Some(user("alice", 2999))));
    assert_eq!(group_by_name("staff"), Ok(None));
    assert_eq!(passwd_by_name("bob"), Ok(Some(user("bob", 2001))), "the daemon cannot say either");
    assert!(!daemon.asked().is_empty());
}

pub(super) fn a_silent_daemon_is_left_alone() {
    let daemon = FakeDaemon::start(|_| None);
    let begin = Instant::now();
    assert_eq!(passwd_by_name("alice"), Err(libc::EAGAIN));
    assert!(begin.elapsed() >= Duration::from_millis(450) && begin.elapsed() < Duration::from_millis(1500));
    assert_eq!(daemon.asked().len(), 1);
    let again = Instant::now();
    assert_eq!(passwd_by_id(2000), Err(libc::EAGAIN));
    assert!(again.elapsed() < Duration::from_millis(200));
    assert!(daemon.asked().is_empty());
}

pub(super) fn system_names_and_ids_are_not_asked_for() {
    let daemon = FakeDaemon::start(|_| Some(Reply::Unavailable));
    for name in ["root", "_privacyidea", "a:b", "", "-x", "1000", "a\nb"] {
        assert_eq!(passwd_by_name(name), Ok(None), "{name:?}");
        assert_eq!(group_by_name(name), Ok(None), "{name:?}");
        assert_eq!(groups_of(name, 100), [100], "{name:?}");
    }
    for id in [0, 1, 33, 999, 65534, 65535, u32::MAX] {
        assert_eq!(passwd_by_id(id), Ok(None), "{id}");
        assert_eq!(group_by_id(id), Ok(None), "{id}");
    }
    assert_eq!(Module::load().passwd_by_name()(c"\xff\xfe").0, 0);
    assert_eq!(daemon.asked(), []);
}

pub(super) fn the_start_of_the_daemon_does_not_wait_for_it() {
    let daemon = FakeDaemon::start(|_| Some(Reply::Unavailable));
    for unit in [c"privacyidea-cached.service", c"privacyidea-cached.socket"] {
        // SAFETY: NUL-terminated strings; the daemon's thread does not look at the environment.
        unsafe { libc::setenv(c"SYSTEMD_ACTIVATION_UNIT".as_ptr(), unit.as_ptr(), 1) };
        assert_eq!(passwd_by_name("alice"), Ok(None));
        assert_eq!(groups_of("alice", 100), [100]);
    }
    assert_eq!(daemon.asked(), []);
    // SAFETY: as above.
    unsafe { libc::setenv(c"SYSTEMD_ACTIVATION_UNIT".as_ptr(), c"ssh.service".as_ptr(), 1) };
    assert_eq!(passwd_by_name("alice"), Err(libc::EAGAIN));
    assert_eq!(daemon.asked().len(), 1);
}

/// Writes the base anew with every `from` in it changed: what a daemon in wrong hands could do.
fn forge(from: u32, to: u32) {
    publish_base(sample(fresh()));
    let mut bytes = std::fs::read(base_path()).unwrap();
    for word in bytes.chunks_exact_mut(4).filter(|word| **word == from.to_ne_bytes()) {
        word.copy_from_slice(&to.to_ne_bytes());
    }
    let forged = base_path().with_extension("forged");
    std::fs::write(&forged, bytes).unwrap();
    std::fs::rename(forged, base_path()).unwrap();
}

pub(super) fn damaged_and_malicious_maps_are_not_believed() {
    let daemon = FakeDaemon::start(|_| Some(Reply::NotFound));
    forge(2000, 0);
    assert_eq!(passwd_by_name("alice"), Ok(None));
    assert_eq!(passwd_by_id(0), Ok(None));
    assert_eq!(passwd_by_name("bob"), Ok(Some(user("bob", 2001))));
    assert_eq!(list_passwd(true, |_| ()), ["bob"]);
    forge(5001, 27);
    assert_eq!(group_by_name("admins"), Ok(None));
    assert_eq!(groups_of("alice", 100), [100, 5000, 5002]);
    forge(u32::from_ne_bytes(*b"/hom"), u32::from_ne_bytes(*b":hom"));
    assert_eq!(passwd_by_name("alice"), Ok(None), "a field with a colon");
    assert_eq!(passwd_by_id(2001), Ok(None));
    assert!(!daemon.asked().is_empty());
}

pub(super) fn rubbish_is_no_map() {
    let daemon = FakeDaemon::start(|_| Some(Reply::Passwd(user("alice", 2999))));
    for rubbish in [vec![], vec![0; 100], vec![0xff; 100_000], b"PIHOSTMP".repeat(1000)] {
        std::fs::write(base_path(), rubbish).unwrap();
        assert_eq!(passwd_by_name("alice"), Ok(Some(user("alice", 2999))));
        assert!(!daemon.asked().is_empty());
    }
    std::fs::remove_file(base_path()).unwrap();
    std::os::unix::fs::symlink("/dev/zero", base_path()).unwrap();
    assert_eq!(passwd_by_name("alice"), Ok(Some(user("alice", 2999))));
    publish_base(sample(fresh()));
    assert_eq!(passwd_by_name("alice"), Ok(Some(user("alice", 2000))));
    // A rubbish recent file is left out; one in the place of a good base leaves the good one mapped.
    std::fs::write(base_path().with_file_name(RECENT_FILE), [0xff; 1000]).unwrap();
    publish_base(sample(fresh()));
    assert_eq!(passwd_by_name("bob"), Ok(Some(user("bob", 2001))));
    std::fs::write(base_path().with_extension("new"), [0xff; 1000]).unwrap();
    std::fs::rename(base_path().with_extension("new"), base_path()).unwrap();
    assert_eq!(passwd_by_name("bob"), Ok(Some(user("bob", 2001))));
}

pub(super) fn a_group_of_ten_thousand() {
    let members: Vec<String> = (0..10_000).map(|number| format!("member{number}")).collect();
    let entry = GroupEntry { name: "everybody".to_owned(), gid: 5005, members };
    let mut contents = sample(fresh());
    contents.group(&entry, 0).unwrap();
    publish_base(contents);
    assert_eq!(group_by_name("everybody"), Ok(Some(entry.clone())));
    assert_eq!(group_by_id(5005), Ok(Some(entry)));
    assert_eq!(groups_of("member9999", 100), [100, 5005]);
}

pub(super) fn initgroups_appends_and_respects_the_limit() {
    let mut contents = sample(fresh());
    for gid in 6000..6100 {
        contents.group(&group(&format!("g{gid}"), gid, &["bob"]), 0).unwrap();
    }
    publish_base(contents);
    assert_eq!(groups_of("bob", 100).len(), 102);
    let module = Module::load();
    let (status, gids) = module.groups_of(c"bob", -1);
    assert_eq!((status, gids.len(), gids.contains(&5000)), (1, 100, false), "not the primary group again");
    assert_eq!(module.groups_of(c"bob", 3), (1, vec![6000, 6001, 6002]));
    assert_eq!(module.groups_of(c"ghost", -1), (0, vec![]));
}

pub(super) fn enumeration_lists_both_files_where_allowed() {
    publish_base(sample(fresh()));
    assert_eq!(list_passwd(false, |_| ()), ["alice", "bob"], "without setpwent");
    assert_eq!(list_passwd(true, |_| ()), ["alice", "bob"]);
    let groups: Vec<_> = list_groups().into_iter().map(|group| group.name).collect();
    assert_eq!(groups, ["staff", "admins", "printers"]);

    let mut changes = Contents::changes(Description { built: now(), ..Description::default() });
    changes.absent(&Lookup::PasswdByName("bob".to_owned()), now() + 60).unwrap();
    let large = PasswdEntry { gecos: "x".repeat(1000), home: "/".repeat(1000), ..user("carla", 2002) };
    changes.passwd(&large, now() + 60).unwrap();
    changes.passwd(&user("expired", 2003), 1).unwrap();
    publish_recent(changes);
    // carla does not fit into glibc's first buffer: nobody is skipped or doubled. Lookups in between do no harm.
    let names = list_passwd(true, |_| assert_eq!(passwd_by_name("alice"), Ok(Some(user("alice", 2000)))));
    assert_eq!(names, ["carla", "alice"]);
    // A map that is replaced in the middle does not mix with the one that was begun.
    let names = list_passwd(true, |step| {
        if step == 1 {
            publish_base(Contents::listing(fresh()));
        }
    });
    assert_eq!(names, ["carla", "alice"]);

    publish_base(sample(Description { enumerate: false, ..fresh() }));
    assert!(list_passwd(true, |_| ()).is_empty() && list_groups().is_empty());
    assert_eq!(passwd_by_name("alice"), Ok(Some(user("alice", 2000))));
}

pub(super) fn a_map_that_was_not_announced_is_found() {
    publish_base(sample(Description { complete: false, ..fresh() }));
    assert_eq!(passwd_by_name("carla"), Err(libc::EAGAIN));
    // As if the daemon had died between the renaming and the word to the readers: the old file keeps its flag.
    let old = std::fs::File::open(base_path()).unwrap();
    std::fs::remove_file(base_path()).unwrap();
    let mut contents = sample(fresh());
    contents.passwd(&user("carla", 2002), 0).unwrap();
    publish_base(contents);
    assert_eq!(passwd_by_name("carla"), Ok(Some(user("carla", 2002))));
    drop(old);
}
