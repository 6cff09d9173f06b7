//! What is around the module: the maps, the daemon's place, the library path.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use privacyidea_contract::map::{BASE_FILE, Contents, Description, RECENT_FILE, publish};
use privacyidea_contract::paths::{LOOKUP_SOCKET, MAP_DIRECTORY};
use privacyidea_contract::wire::{GroupEntry, Lookup, PasswdEntry, Reply, Request, Stream};

/// The module as cargo built it.
pub(crate) fn built_module() -> PathBuf {
    let executable = std::env::current_exe().expect("a path");
    executable.parent().expect("a directory").join("libnss_privacyidea.so")
}

/// A build of it whose entry points panic.
pub(crate) fn panicking_module() -> PathBuf {
    let target = built_module().with_file_name("panicking");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--offline", "--package", "nss-privacyidea", "--lib"])
        .args(["--features", "panic-in-entry-points", "--target-dir"])
        .arg(&target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(status.success());
    target.join("debug/libnss_privacyidea.so")
}

/// A directory where `module` has the name that glibc looks for.
pub(crate) fn library_directory(module: &Path) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    symlink(module, directory.path().join("libnss_privacyidea.so.2")).expect("a link");
    directory
}

/// Hides the host's files; only this process and its children see it.
pub(crate) fn mount() {
    for (place, ours) in [("/var/cache", MAP_DIRECTORY), ("/run", "/run/privacyidea-host")] {
        let status =
            Command::new("mount").args(["-t", "tmpfs", "tmpfs", place]).status().expect("mount(8) runs");
        assert!(status.success());
        std::fs::create_dir(ours).expect("a new directory");
    }
}

#[expect(clippy::disallowed_methods, reason = "the module reads the real clock, so its maps need real times")]
pub(crate) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs()
}

pub(crate) fn user(name: &str, uid: u32) -> PasswdEntry {
    PasswdEntry {
        name: name.to_owned(),
        uid,
        gid: 5000,
        gecos: format!("{name} Example"),
        home: format!("/home/{name}"),
        shell: "/bin/bash".to_owned(),
    }
}

pub(crate) fn group(name: &str, gid: u32, members: &[&str]) -> GroupEntry {
    GroupEntry {
        name: name.to_owned(),
        gid,
        members: members.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// A complete map, fresh for five minutes.
pub(crate) fn fresh() -> Description {
    let built = now();
    Description { built, fresh_until: built + 300, stale_for: 3600, enumerate: true, complete: true }
}

/// alice and bob, three groups.
pub(crate) fn sample(description: Description) -> Contents {
    let mut contents = Contents::listing(description);
    for (name, uid) in [("alice", 2000), ("bob", 2001)] {
        contents.passwd(&user(name, uid), 0).unwrap();
    }
    contents.group(&group("staff", 5000, &["alice", "bob"]), 0).unwrap();
    contents.group(&group("admins", 5001, &["alice"]), 0).unwrap();
    contents.group(&group("printers", 5002, &["alice", "lokal"]), 0).unwrap();
    contents
}

pub(crate) fn publish_base(contents: Contents) {
    publish(Path::new(MAP_DIRECTORY), BASE_FILE, contents).expect("published");
}

pub(crate) fn publish_recent(contents: Contents) {
    publish(Path::new(MAP_DIRECTORY), RECENT_FILE, contents).expect("published");
}

/// Something that listens where the daemon would and answers as it is told.
pub(crate) struct FakeDaemon {
    asked: Arc<Mutex<Vec<Lookup>>>,
}

impl FakeDaemon {
    /// `answer` gives no reply to leave the caller waiting.
    pub(crate) fn start(answer: impl Fn(&Lookup) -> Option<Reply> + Send + 'static) -> Self {
        let _ = std::fs::remove_file(LOOKUP_SOCKET);
        let listener = UnixListener::bind(LOOKUP_SOCKET).expect("a socket");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            for connection in listener.incoming().flatten() {
                let mut stream = Stream::new(connection);
                let deadline = Instant::now() + Duration::from_secs(5);
                let Ok(Request::Lookup(lookup)) = stream.receive_request(deadline) else { continue };
                log.lock().unwrap().push(lookup.clone());
                match answer(&lookup) {
                    Some(reply) => drop(stream.send_reply(&reply, deadline)),
                    None => kept.push(stream),
                }
            }
        });
        Self { asked }
    }

    /// What it was asked since the last call.
    pub(crate) fn asked(&self) -> Vec<Lookup> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}
