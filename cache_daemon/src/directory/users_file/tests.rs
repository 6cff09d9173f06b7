use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("directory"));
        place.write("local-passwd", "root:x:0:0::/root:/bin/sh\nbob:x:1000:1000::/home/bob:/bin/sh\n");
        place.write("local-group", "root:x:0:\nbob:x:1000:\nlocals:x:1001:\n");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("write");
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("read")
    }

    fn local(&self) -> LocalFiles {
        LocalFiles::new(self.path("local-passwd"), self.path("local-group"))
    }

    fn add(&self, request: &NewUser) -> Result<PasswdEntry, UsersFileError> {
        add(&self.path("passwd"), &self.path("group"), &[], &self.local(), request, 1000)
    }

    fn remove(&self, name: &str) -> Result<PasswdEntry, UsersFileError> {
        remove(&self.path("passwd"), &self.path("group"), name)
    }
}

fn named(name: &str) -> NewUser {
    NewUser { name: name.to_owned(), ..NewUser::default() }
}

#[test]
fn what_another_resolver_owns_is_not_free() {
    let place = Place::new();
    place.write("other-passwd", "carla:x:1002:1002::/home/carla:/bin/sh\nmalformed:x:1004\n");
    place.write("other-group", "carla:x:1002:\nstaff:x:1003:\n");
    let neighbour = |passwd: &str| Neighbour {
        resolver: "people".into(),
        passwd: place.path(passwd),
        group: place.path("other-group"),
    };
    let add_beside = |neighbours: &[Neighbour], request: &NewUser| {
        add(&place.path("passwd"), &place.path("group"), neighbours, &place.local(), request, 1000)
    };
    let reason = |request: &NewUser| {
        let error = add_beside(&[neighbour("missing"), neighbour("other-passwd")], request).unwrap_err();
        error.to_string()
    };
    assert!(reason(&named("carla")).contains("the resolver people has a user"));
    assert!(reason(&named("staff")).contains("the resolver people has a group"));
    assert!(reason(&NewUser { uid: Some(1002), ..named("dora") }).contains("belongs to"));
    assert!(!place.path("passwd").exists());
    let dora = add_beside(&[neighbour("other-passwd")], &named("dora")).expect("added");
    assert!(dora.uid > 1003 && dora.gid == dora.uid, "{dora:?}");
    // A directory is no file: it is not known what is taken.
    std::fs::create_dir(place.path("directory")).expect("made");
    assert!(matches!(add_beside(&[neighbour("directory")], &named("erik")), Err(UsersFileError::Io { .. })));
}

#[test]
fn a_user_gets_the_next_id_a_group_of_its_own_and_the_customary_rest() {
    let place = Place::new();
    let alice = place.add(&named("alice")).expect("added");
    // 1000 is bob's, 1001 is the gid of a group of the host.
    assert_eq!((alice.uid, alice.gid), (1002, 1002));
    let zoe = NewUser { gecos: "Zoe Example".into(), shell: Some("/bin/sh".into()), ..named("zoe") };
    place.add(&zoe).expect("added");
    assert_eq!(
        place.text("passwd"),
        "alice:x:1002:1002::/home/alice:/bin/bash\nzoe:x:1003:1003:Zoe Example:/home/zoe:/bin/sh\n"
    );
    assert_eq!(place.text("group"), "alice:x:1002:\nzoe:x:1003:\n");
    let mode = std::fs::metadata(place.path("passwd")).expect("metadata").mode() & 0o777;
    assert_eq!(mode, 0o644);
}

#[test]
fn what_the_resolver_would_refuse_is_refused_and_nothing_is_written() {
    let place = Place::new();
    place.write("passwd", "old:x:5000:5000::/:\nbroken:x:5001\n");
    place.write("group", "old:x:5000:\nstaff:x:6000:\n");
    for (request, reason) in [
        (named("bob"), "/etc/passwd has a user of this name"),
        (named("root"), "root is never taken"),
        (named("old"), "has a user old already"),
        (named("broken"), "has a user broken already"),
        (named("staff"), "has a group staff already"),
        (named("locals"), "/etc/group has a group of this name"),
        (named("a:b"), "its name is empty"),
        (named(""), "its name is empty"),
        (NewUser { uid: Some(999), ..named("eve") }, "its uid 999 is below 1000"),
        (NewUser { uid: Some(1000), ..named("eve") }, "belongs to bob in /etc/passwd"),
        (NewUser { uid: Some(5000), ..named("eve") }, "the uid 5000 belongs to old already"),
        (NewUser { uid: Some(5001), ..named("eve") }, "the uid 5001 belongs to broken already"),
        (NewUser { gid: Some(7000), ..named("eve") }, "has no group with the gid 7000"),
        (NewUser { gecos: "a\nb".into(), ..named("eve") }, "its field gecos"),
        (NewUser { home: Some("home".into()), ..named("eve") }, "its home is no absolute path"),
        (NewUser { shell: Some("/bin/sh:".into()), ..named("eve") }, "its field shell"),
    ] {
        let error = place.add(&request).expect_err("refused").to_string();
        assert!(error.contains(reason), "{request:?}: {error}");
    }
    assert_eq!(place.text("passwd"), "old:x:5000:5000::/:\nbroken:x:5001\n");
    assert_eq!(place.text("group"), "old:x:5000:\nstaff:x:6000:\n");
    let taken = place.add(&NewUser { gid: Some(6000), ..named("eve") }).expect("added");
    assert_eq!((taken.uid, taken.gid), (6001, 6000), "above every id of ours");
}

#[test]
fn comments_odd_lines_owner_and_mode_are_kept() {
    let place = Place::new();
    place.write("passwd", "# ours\n\nodd line\nold:x:5000:5000::/:");
    std::fs::write(place.path("group"), b"# \xff\nold:x:5000:old,zoe\nstaff::6000:old,zoe\n").expect("write");
    std::fs::set_permissions(place.path("passwd"), PermissionsExt::from_mode(0o640)).expect("chmod");
    place.add(&named("alice")).expect("added");
    let text = place.text("passwd");
    assert_eq!(text, "# ours\n\nodd line\nold:x:5000:5000::/:\nalice:x:6001:6001::/home/alice:/bin/bash\n");
    assert_eq!(std::fs::metadata(place.path("passwd")).expect("metadata").mode() & 0o777, 0o640);
    assert_eq!(place.remove("old").expect("removed").uid, 5000);
    assert_eq!(place.text("passwd"), "# ours\n\nodd line\nalice:x:6001:6001::/home/alice:/bin/bash\n");
    let group = std::fs::read(place.path("group")).expect("read");
    // The own group has another member, so it stays; the group without a password field gets its x.
    assert_eq!(group, b"# \xff\nold:x:5000:zoe\nstaff:x:6000:zoe\nalice:x:6001:\n");
}

#[test]
fn removing_takes_the_own_group_unless_somebody_else_is_in_it() {
    let place = Place::new();
    place.add(&named("alice")).expect("added");
    place.add(&NewUser { gid: Some(1002), ..named("zoe") }).expect("added");
    place.remove("alice").expect("removed");
    assert_eq!(place.text("group"), "alice:x:1002:\n", "zoe's primary group");
    place.remove("zoe").expect("removed");
    place.add(&named("carla")).expect("added");
    place.remove("carla").expect("removed");
    assert_eq!(place.text("passwd"), "");
    assert_eq!(place.text("group"), "alice:x:1002:\n");
    for name in ["carla", "", "# ours"] {
        assert!(matches!(place.remove(name), Err(UsersFileError::Refused(_))), "{name:?}");
    }
}

#[test]
fn a_file_that_others_may_write_is_not_edited() {
    let place = Place::new();
    place.write("passwd", "");
    std::fs::set_permissions(place.path("passwd"), PermissionsExt::from_mode(0o666)).expect("chmod");
    let error = place.add(&named("alice")).expect_err("refused").to_string();
    assert!(error.contains("its mode 0666"), "{error}");
}

#[test]
fn editors_at_the_same_time_lose_nothing() {
    let place = Place::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let place = &place;
            scope.spawn(move || {
                for index in 0..5 {
                    place.add(&named(&format!("u{thread}-{index}"))).expect("added");
                    if index % 2 == 1 {
                        place.remove(&format!("u{thread}-{index}")).expect("removed");
                    }
                }
            });
        }
    });
    let (users, uids) = names_and_ids(place.text("passwd").as_bytes());
    assert_eq!((users.len(), uids.len()), (12, 12));
    assert_eq!(names_and_ids(place.text("group").as_bytes()).1.len(), 12);
    let left_over = std::fs::read_dir(place.0.path()).expect("directory").filter(|entry| {
        entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().ends_with(".new"))
    });
    assert_eq!(left_over.count(), 0);
}
