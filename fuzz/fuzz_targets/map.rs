//! A lookup map of any content: it belongs to the daemon's user, and every program of the host reads it.
#![no_main]
use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;
use privacyidea_contract::map::{BASE_FILE, Cursor, Snapshot};
use tempfile::TempDir;

thread_local! {
    static DIRECTORY: OnceCell<TempDir> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| {
    DIRECTORY.with(|directory| {
        let directory = directory.get_or_init(|| tempfile::tempdir().expect("a directory")).path();
        std::fs::write(directory.join(BASE_FILE), bytes).expect("a file");
        let Ok(snapshot) = Snapshot::open(directory) else { return };
        let _ = snapshot.passwd_by_name(b"alice", 1000);
        let _ = snapshot.passwd_by_id(1000, 1000);
        let _ = snapshot.group_by_name(b"staff", 1000);
        let _ = snapshot.group_by_id(1000, 1000);
        let _ = snapshot.groups_of(b"alice", 1000);
        let (mut users, mut groups) = (Cursor::default(), Cursor::default());
        // An entry takes 16 bytes at least: more of them than that is an endless loop.
        let most = bytes.len() / 16 + 1;
        assert!(std::iter::from_fn(|| snapshot.next_passwd(&mut users, 1000)).take(most + 1).count() <= most);
        assert!(std::iter::from_fn(|| snapshot.next_group(&mut groups, 1000)).take(most + 1).count() <= most);
    });
});
