//! A program in the daemon's place, started as the daemon is.

use std::fs;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use privacyidea_contract::wire::{Reply, Request, Verdict};
use tempfile::TempDir;

use super::*;

/// A script in the daemon's place. It is written by another program: a descriptor that this one had open for writing
/// could be inherited by a child of another test, and then the script could not be executed.
fn program(directory: &TempDir, lines: &str) -> PathBuf {
    let path = directory.path().join("daemon");
    let mut shell = Command::new("/bin/sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let script = format!("#!/bin/sh\nhere={}\n{lines}\n", directory.path().display());
    std::io::Write::write_all(&mut shell.stdin.take().unwrap(), script.as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success());
    path
}

/// Not a test by itself: the daemon's side, run by [`program`]s through [`speaking`].
#[test]
#[ignore = "is started by other tests as the daemon"]
fn daemon() {
    let deadline = Instant::now() + Duration::from_secs(30);
    let socket = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned().unwrap();
    let mut stream = Stream::new(UnixStream::from(socket));
    let Ok(Request::Account(login)) = stream.receive_request(deadline) else { panic!("no request") };
    stream.send_reply(&Reply::Verdict(Verdict::Granted { user: login.user }), deadline).unwrap();
}

fn speaking() -> String {
    let exe = std::env::current_exe().unwrap();
    format!("exec {} once::tests::daemon --exact --ignored --nocapture", exe.display())
}

fn account_request() -> Request {
    Request::Account(privacyidea_contract::wire::Login {
        user: "alice".to_owned(),
        uid: None,
        service: String::new(),
        rhost: String::new(),
        tty: String::new(),
        prompt: None,
        password: None,
        may_ask: false,
        overrides: privacyidea_contract::wire::Overrides::default(),
    })
}

#[test]
fn the_daemon_serves_its_standard_input_and_inherits_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    // The signals are read by the shell itself: around the start of another program it blocks some for a moment.
    let report = "cat /proc/$$/environ >$here/environ\n\
                  ls /proc/$$/fd >$here/descriptors\n\
                  output=$(readlink /proc/$$/fd/1) errors=$(readlink /proc/$$/fd/2)\n\
                  echo \"$output $errors $(readlink /proc/$$/cwd)\" >$here/outputs\n\
                  while read -r line; do case $line in SigBlk*|SigIgn*) echo \"$line\";; esac; done \
                  </proc/$$/status >$here/signals\n\
                  tr '\\0' ' ' </proc/$$/cmdline >$here/arguments\n\
                  echo $$ >$here/pid\n\
                  ps -o sid= -p $$ >$here/session\n";
    let program = program(&directory, &format!("{report}{}", speaking()));
    let inherited = inheritable_descriptor();

    let (mut stream, once) = Once::start(&program).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    stream.send_request(&account_request(), deadline).unwrap();
    let reply = stream.receive_reply(deadline).unwrap();
    assert!(matches!(reply, Reply::Verdict(Verdict::Granted { user }) if user == "alice"));
    drop(stream);
    drop(once);

    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    assert_eq!(read("environ"), "");
    let descriptors = read("descriptors");
    // A shell keeps its script open, with a number between 10 and 99, or 255.
    let others = |number: &RawFd| *number < 10 || (*number >= 100 && *number != 255);
    let numbers: Vec<RawFd> = descriptors.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(numbers.into_iter().filter(others).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(others(&inherited), "the test's own descriptor would not be seen");
    assert_eq!(read("outputs"), "/dev/null /dev/null /\n");
    // Rust's own programs ignore SIGPIPE: had the child inherited that, it would show here. Signals 32 and 33 are the
    // C library's own business, which posix_spawn leaves ignored.
    for line in read("signals").lines() {
        let (_, signals) = line.split_once('\t').unwrap();
        let signals = u64::from_str_radix(signals, 16).unwrap();
        assert_eq!(signals & !(0b11 << 31), 0, "{line}");
    }
    assert!(read("arguments").trim_end().ends_with("--once"), "{}", read("arguments"));
    assert_eq!(read("session").trim(), read("pid").trim());
    assert!(is_gone(&read("pid")));
}

#[test]
fn a_daemon_that_overstays_is_ended_and_reaped() {
    let directory = tempfile::tempdir().unwrap();
    // It says its number on the connection, and does not care about the connection's end.
    let (stream, mut once) = Once::start(&program(&directory, "echo $$ >&0\nexec sleep 1000")).unwrap();
    let mut pid = String::new();
    io::BufRead::read_line(&mut io::BufReader::new(stream.socket()), &mut pid).unwrap();
    assert!(!is_gone(&pid));
    once.overstay = Duration::from_millis(100);
    drop(stream);
    drop(once);
    assert!(is_gone(&pid));
}

#[test]
fn a_daemon_that_ends_at_once_closes_the_connection() {
    let directory = tempfile::tempdir().unwrap();
    let (mut stream, _once) = Once::start(&program(&directory, "exit 3")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    // The request may still be taken, or not: in any case there is no answer.
    let _ = stream.send_request(&account_request(), deadline);
    let reply = stream.receive_reply(deadline);
    assert!(matches!(reply, Err(privacyidea_contract::wire::StreamError::Closed)));
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let error = Once::start(&directory.path().join("none")).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

/// A descriptor that a child inherits unless it is closed for it.
fn inheritable_descriptor() -> RawFd {
    let descriptor = UnixDatagram::unbound().unwrap().into_raw_fd();
    // SAFETY: makes another descriptor, without close-on-exec, with the first free number from 100 on.
    unsafe { libc::fcntl(descriptor, libc::F_DUPFD, 100) }
}

fn is_gone(pid: &str) -> bool {
    !Path::new("/proc").join(pid.trim()).exists()
}
