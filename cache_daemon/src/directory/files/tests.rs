use std::os::unix::fs::PermissionsExt;
use std::sync::OnceLock;

use proptest::prelude::*;

use super::*;
use crate::directory::LocalFiles;

const LOCAL_PASSWD: &str =
    "root:x:0:0::/root:/bin/sh\ndaemon:x:1:1::/:\nbob:x:1000:1000::/home/bob:/bin/sh\n";
const LOCAL_GROUP: &str = "root:x:0:\nbob:x:1000:\nlocals:x:3000:\n";

struct Place {
    directory: tempfile::TempDir,
    resolver: FilesResolver,
    rules: Rules,
}

fn place(passwd: &[u8], group: &[u8]) -> Place {
    let directory = tempfile::tempdir().expect("directory");
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("local-passwd"), LOCAL_PASSWD).expect("write");
    std::fs::write(path("local-group"), LOCAL_GROUP).expect("write");
    std::fs::write(path("passwd"), passwd).expect("write");
    std::fs::write(path("group"), group).expect("write");
    let local = LocalFiles::new(path("local-passwd"), path("local-group"));
    let rules = Rules::new(1000, local.names().expect("local names"));
    let resolver = FilesResolver::new("files".to_owned(), path("passwd"), path("group"));
    Place { directory, resolver, rules }
}

fn listing(passwd: &str, group: &str) -> Listing {
    let place = place(passwd.as_bytes(), group.as_bytes());
    place.resolver.list(&place.rules).expect("a listing")
}

#[test]
fn users_and_groups_are_listed() {
    let listing = listing(
        "# people\nalice:x:2000:2000:Alice,,,:/home/alice:/bin/bash\n\nmüller:*:2001:2000::/home/m:\n",
        "alice:x:2000:\nstaff::4000:alice,bob,,alice\n",
    );
    assert_eq!(listing.refused, Vec::<String>::new());
    assert_eq!(listing.incomplete, None);
    let names: Vec<_> = listing.users.iter().map(|user| (user.name.as_str(), user.uid, user.gid)).collect();
    assert_eq!(names, [("alice", 2000, 2000), ("müller", 2001, 2000)]);
    assert_eq!(listing.users[0].gecos, "Alice,,,");
    assert_eq!(listing.groups[1].members, ["alice", "bob"]);
}

#[test]
fn each_refusal_names_file_line_and_reason() {
    for (line, reason) in [
        ("root:x:2000:2000::/:", "root is never taken"),
        ("bob:x:2000:2000::/:", "/etc/passwd has a user of this name"),
        ("eve:x:1000:2000::/:", "its uid 1000 belongs to bob in /etc/passwd"),
        ("eve:x:2000:3000::/:", "its gid 3000 belongs to the group locals in /etc/group"),
        ("eve:x:999:2000::/:", "its uid 999 is below 1000"),
        ("eve:x:2000:0::/:", "its gid 0 is below 1000"),
        ("eve:x:65534:2000::/:", "its uid 65534 is one that the system keeps"),
        ("eve:x:4294967295:2000::/:", "its uid 4294967295 is one that the system keeps"),
        ("eve:x:4294967296:2000::/:", "its uid is no number"),
        ("eve:x:+2000:2000::/:", "its uid is no number"),
        ("eve:x::2000::/:", "its uid is no number"),
        ("eve:$6$hash:2000:2000::/:", "its password field is not x"),
        ("eve::2000:2000::/:", "its password field is not x"),
        ("eve:x:2000:2000::home:", "its home is no absolute path"),
        ("eve:x:2000:2000:::", "its home is no absolute path"),
        ("eve:x:2000:2000::/:sh", "its shell is no absolute path"),
        ("eve:x:2000:2000:a\u{7}b:/:", "its field gecos"),
        ("eve:x:2000:2000::/:\r", "its field shell"),
        ("eve:x:2000:2000::/", "it has 6 fields"),
        ("eve:x:2000:2000::/:/bin/sh:", "it has 8 fields"),
        ("two words:x:2000:2000::/:", "its name is empty"),
        ("-rf:x:2000:2000::/:", "its name is empty"),
        ("2000:x:2000:2000::/:", "its name is empty"),
        ("+", "it has 1 fields"),
        ("eve:x:2000:2000:\0:/:", "it has a NUL byte"),
        (&format!("{}:x:2000:2000::/:", "e".repeat(9000)), "it is too long"),
        (&format!("eve:x:2000:2000:{}:/:", "e".repeat(1025)), "its field gecos"),
    ] {
        let listing = listing(&format!("alice:x:5000:5000::/:\n{line}\nzoe:x:5001:5001::/:\n"), "");
        assert_eq!(listing.users.len(), 2, "{line:?} does no harm to its neighbours");
        assert_eq!(listing.refused.len(), 1, "{line:?}: {:?}", listing.refused);
        let sentence = &listing.refused[0];
        assert!(sentence.contains("/passwd line 2") && sentence.contains(reason), "{line:?}: {sentence}");
        assert!(!sentence.contains(char::is_control) && sentence.len() < 300, "{sentence:?}");
        assert!(!sentence.contains("hash:"), "what stands in the password field is not told: {sentence}");
    }
}

#[test]
fn groups_are_refused_for_the_same_reasons() {
    for (line, reason) in [
        ("locals:x:4000:", "/etc/group has a group of this name"),
        ("eve:x:3000:", "its gid 3000 belongs to locals in /etc/group"),
        ("eve:x:27:", "its gid 27 is below 1000"),
        ("eve:x:4000", "it has 3 fields"),
        ("ten:x:4000:", "line 1 has the same name"),
        ("eve:x:2010:", "line 1 has the same id 2010"),
        ("eve:hash:4000:", "its password field is not x"),
    ] {
        let listing = listing("", &format!("ten:x:2010:alice\n{line}\n"));
        assert_eq!((listing.groups.len(), listing.refused.len()), (1, 1), "{line:?}: {:?}", listing.refused);
        assert!(listing.refused[0].contains(reason), "{line:?}: {}", listing.refused[0]);
    }
}

#[test]
fn a_member_that_is_refused_leaves_the_group_and_the_others() {
    let listing = listing("", "staff:x:4000:alice,root,daemon,bob,a b,-x\n");
    assert_eq!(listing.groups[0].members, ["alice", "bob"]);
    assert_eq!(listing.refused.len(), 4, "{:?}", listing.refused);
    assert!(
        listing.refused[1].contains("its member daemon: it is a system account"),
        "{:?}",
        listing.refused
    );
}

#[test]
fn the_first_of_two_with_a_name_or_an_id_is_taken() {
    let listing = listing("a:x:2000:2000::/:\na:x:2001:2001::/:\nb:x:2000:2000::/:\nb:x:2002:2002::/:\n", "");
    let taken: Vec<_> = listing.users.iter().map(|user| (user.name.as_str(), user.uid)).collect();
    assert_eq!(taken, [("a", 2000), ("b", 2002)]);
    assert!(listing.refused[0].contains("line 2 (a) is refused: line 1 has the same name"));
    assert!(listing.refused[1].contains("line 3 (b) is refused: line 1 has the same id 2000"));
}

#[test]
fn so_many_refusals_are_counted() {
    let listing = listing(&"x\n".repeat(1000), "");
    assert_eq!(listing.refused.len(), REFUSALS_TOLD + 1);
    assert_eq!(listing.refused[REFUSALS_TOLD], "900 more entries are refused");
}

#[test]
fn a_file_without_its_last_newline_is_incomplete() {
    let place = place(b"alice:x:2000:2000::/:\nzoe:x:2001:2001::/:/bin/false", b"");
    let listing = place.resolver.list(&place.rules).expect("a listing");
    assert_eq!(listing.users.len(), 1, "the line without an end may be half of one");
    assert!(listing.incomplete.expect("incomplete").contains("does not end with a newline"));
    assert!(place.resolver.user_by_name("alice", &place.rules).expect("found").is_some());
    place.resolver.user_by_name("zoe", &place.rules).expect_err("nobody knows yet");
    place.resolver.groups_of("alice", &place.rules).expect_err("nobody knows yet");
}

#[test]
fn a_missing_file_and_one_that_others_may_write_are_errors_an_empty_one_is_not() {
    let place = place(b"", b"");
    assert_eq!(place.resolver.list(&place.rules).expect("empty").users, []);
    let passwd = place.directory.path().join("passwd");
    std::fs::set_permissions(&passwd, PermissionsExt::from_mode(0o664)).expect("chmod");
    let error = place.resolver.list(&place.rules).expect_err("writable by the group").to_string();
    assert!(error.contains("passwd is not used: its mode 0664"), "{error}");
    std::fs::remove_file(&passwd).expect("remove");
    let error = place.resolver.list(&place.rules).expect_err("missing").to_string();
    assert!(error.contains("passwd cannot be read"), "{error}");
    assert_eq!(place.resolver.version(), None);
    std::fs::create_dir(&passwd).expect("mkdir");
    place.resolver.list(&place.rules).expect_err("a directory");
}

#[test]
fn the_version_changes_with_the_content() {
    let place = place(b"", b"");
    let before = place.resolver.version().expect("a version");
    assert_eq!(place.resolver.list(&place.rules).expect("empty").version.as_ref(), Some(&before));
    std::fs::write(place.directory.path().join("group"), "staff:x:4000:\n").expect("write");
    assert_ne!(place.resolver.version().expect("a version"), before);
}

#[test]
fn one_entry_is_found_by_each_key() {
    let place = place(b"alice:x:2000:2001::/:\n", b"staff:x:4000:alice\nothers:x:4001:zoe\n");
    let Place { resolver, rules, .. } = &place;
    assert_eq!(
        resolver.user_by_uid(2000, rules).expect("answer").map(|user| user.name),
        Some("alice".into())
    );
    assert_eq!(resolver.user_by_uid(2001, rules), Ok(None));
    assert_eq!(resolver.group_by_name("staff", rules).expect("answer").map(|group| group.gid), Some(4000));
    assert_eq!(
        resolver.group_by_gid(4001, rules).expect("answer").map(|group| group.name),
        Some("others".into())
    );
    let groups = resolver.groups_of("alice", rules).expect("answer");
    assert_eq!(groups.into_iter().map(|group| group.gid).collect::<Vec<_>>(), [4000]);
}

proptest! {
    #[test]
    fn whatever_the_files_hold_only_believable_entries_come_out(
        passwd in proptest::collection::vec(
            prop_oneof![Just(b':'), Just(b'\n'), Just(b'x'), Just(b'/'), Just(b'2'), Just(b'0'), any::<u8>()], 0..400),
        lines in proptest::collection::vec(("[a-z$.@:, -]{0,6}", 990u32..2010, 990u32..2010, "\\PC{0,5}"), 0..20),
        cut in 0usize..2000,
    ) {
        let mut text: Vec<u8> = Vec::new();
        for (name, uid, gid, rest) in &lines {
            text.extend(format!("{name}:x:{uid}:{gid}:{rest}:/{rest}:/{name}\n").bytes());
        }
        text.extend(&passwd);
        text.truncate(cut);
        let mut group: Vec<u8> = Vec::new();
        for (name, _, gid, rest) in &lines {
            group.extend(format!("{name}:x:{gid}:{rest},{name},root,bob\n").bytes());
        }
        group.extend(&passwd);
        // Made once: a directory for each case would take most of the time.
        static RULES: OnceLock<Rules> = OnceLock::new();
        let rules = RULES.get_or_init(|| place(b"", b"").rules);
        let mut refusals = Refusals::default();
        let path = Path::new("passwd");
        let listing = Listing {
            users: users(path, &text, rules, &mut refusals),
            groups: groups(path, &group, rules, &mut refusals),
            ..Listing::default()
        };
        prop_assert!(refusals.told().iter().all(|sentence| !sentence.contains(char::is_control)));
        let mut seen = HashSet::new();
        for user in &listing.users {
            prop_assert!(rules.check_user(user).is_ok(), "{user:?}");
            prop_assert!(seen.insert((user.name.clone(), 0)) && seen.insert((String::new(), user.uid)));
            let line = format::user_line(user);
            prop_assert_eq!(format::user(line.trim_end_matches('\n')), Ok(user.clone()));
        }
        seen.clear();
        for group in &listing.groups {
            prop_assert!(rules.check_group(group).is_ok(), "{group:?}");
            prop_assert!(group.members.iter().all(|member| rules.check_member(member).is_ok()));
            prop_assert!(seen.insert((group.name.clone(), 0)) && seen.insert((String::new(), group.gid)));
            let line = format::group_line(group);
            prop_assert_eq!(format::group(line.trim_end_matches('\n')), Ok(group.clone()));
        }
    }
}
