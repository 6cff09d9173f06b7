//! Start, second start, reload, stop.

use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cache_daemon::administration::Answer;
use privacyidea_contract::wire::{Reply, Request, Verdict};
use rustix::process::Signal;

use crate::harness::*;

#[test]
fn started_as_root_it_becomes_its_user_and_owns_what_it_makes() {
    let host = host();
    let daemon = host.daemon();
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_once(':').unwrap().1.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(field("Uid"), "64711 64711 64711 64711");
    assert_eq!(field("Gid"), "64711 64711 64711 64711");
    assert_eq!(field("Groups"), "");
    assert_eq!(field("NoNewPrivs"), "1");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().skip(4).collect::<Vec<_>>(), ["0", "0", "bytes"]);
    // Not dumpable: its files in /proc belong to root.
    assert_eq!(std::fs::metadata(format!("/proc/{}/environ", daemon.pid())).unwrap().uid(), 0);
    for (path, mode) in [
        ("run/privacyidea-host", 0o40755),
        ("var/lib/privacyidea-host", 0o40700),
        ("var/cache/privacyidea-host", 0o40755),
        ("var/lib/privacyidea-host/state.db", 0o100600),
        ("var/cache/privacyidea-host/cache.db", 0o100600),
        ("run/privacyidea-host/auth.sock", 0o140666),
        ("run/privacyidea-host/lookup.sock", 0o140666),
    ] {
        let found = std::fs::metadata(host.path(path)).unwrap();
        assert_eq!((found.uid(), found.gid()), (DAEMON, DAEMON), "{path}");
        assert_eq!(found.mode(), mode, "{path}: {:o}", found.mode());
    }
}

#[test]
fn once_leaves_nothing_behind_that_shuts_the_daemon_out() {
    let host = host();
    let (mut stream, mut child) = host.once("");
    assert_eq!(log_in(&mut stream, "carla", CODES[0]), Verdict::Refused);
    assert!(child.wait().unwrap().success());
    for directory in ["run/privacyidea-host", "var/lib/privacyidea-host", "var/cache/privacyidea-host"] {
        for file in std::fs::read_dir(host.path(directory)).unwrap() {
            let file = file.unwrap();
            assert_eq!(file.metadata().unwrap().uid(), DAEMON, "{:?}", file.path());
        }
    }
    assert!(!host.auth_socket().exists());
    let _daemon = host.daemon();
    host.enrol("carla");
    assert_eq!(host.log_in("carla", CODES[0]), granted("carla"));
}

#[test]
fn a_missing_user_and_a_link_stop_the_start_with_a_sentence() {
    let host = host();
    let (status, text) = host.failing_daemon("echo root:x:0:0::/: > /etc/passwd");
    assert_eq!((status.code(), text.lines().count()), (Some(1), 1), "{text}");
    assert!(text.contains("_privacyidea is not in /etc/passwd"), "{text}");

    let host = crate::harness::host();
    let (status, text) =
        host.failing_daemon("mkdir /etc/target; ln -s /etc/target /var/lib/privacyidea-host");
    assert_eq!(status.code(), Some(1));
    assert!(text.contains("/var/lib/privacyidea-host cannot be used"), "{text}");
    assert_eq!(std::fs::metadata(host.path("etc/target")).unwrap().uid(), 0);
}

/// Nothing is served, the sentence names the file and what is allowed, and whoever asks `--once` instead hears that it
/// cannot be decided.
#[test]
fn settings_that_cannot_be_used_stop_the_start_and_every_login() {
    let valid = "[cache]\nenumerate = true\n";
    for (text, mode, sentence) in [
        (
            "[lockout]\nfor = '1h'\naftr = 3\n",
            0o644,
            "line 3, key lockout.aftr: unknown field `aftr`, expected one of `after`,",
        ),
        (
            "[cache]\ntimeout = 600\n",
            0o644,
            "line 2, key cache.timeout: invalid type: integer `600`, expected a time from 1s to 30d",
        ),
        ("[cache\n", 0o644, "line 1: "),
        (valid, 0o664, "its mode 0664 lets others than its owner write it; run chmod go-w on it"),
        (valid, 0o646, "its mode 0646 lets others than its owner write it; run chmod go-w on it"),
        // root's alone: the daemon is somebody else by then.
        (valid, 0o600, "cannot be read: Permission denied"),
    ] {
        let host = host();
        host.write_settings(text);
        let path = host.path("etc/privacyidea-host/config.toml");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let (status, written) = host.failing_daemon("");
        assert_eq!((status.code(), written.lines().count()), (Some(78), 1), "{text:?} {mode:o}: {written}");
        let place = "/etc/privacyidea-host/config.toml";
        assert!(written.contains(place) && written.contains(sentence), "{text:?} {mode:o}: {written}");
        assert!(!host.lookup_socket().exists() && !host.auth_socket().exists());
        let (mut stream, mut child) = host.once("");
        assert_eq!(log_in(&mut stream, "carla", CODES[0]), Verdict::Unavailable, "{text:?} {mode:o}");
        assert!(child.wait().unwrap().success());
        assert!(host.syslog_line().contains(sentence));
    }
}

#[test]
fn nobody_else_may_start_it() {
    let host = host();
    let output =
        host.command("", &["setpriv", "--reuid", "1000", "--clear-groups", "/etc/daemon"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("uid 1000"), "{output:?}");
}

#[test]
fn arguments_that_are_not_its_own_are_a_usage_error() {
    let run = |arguments: &[&str]| {
        std::process::Command::new(env!("CARGO_BIN_EXE_privacyidea-cached")).args(arguments).output().unwrap()
    };
    for wrong in [&["--nce"][..], &["--once", "--once"], &["--version", "x"], &[""]] {
        let output = run(wrong);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{wrong:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: privacyidea-cached"));
    }
    let version = run(&["--version"]);
    assert!(version.status.success());
    assert_eq!(
        String::from_utf8_lossy(&version.stdout),
        format!("privacyidea-cached {}\n", env!("CARGO_PKG_VERSION"))
    );
    assert!(run(&["--help"]).status.success());
}

#[test]
fn a_damaged_state_database_stops_the_start_and_the_copy_brings_it_back() {
    let host = host();
    let daemon = host.daemon();
    host.enrol("carla");
    daemon.kill();
    let (state, copy) = (
        host.path("var/lib/privacyidea-host/state.db"),
        host.path("var/lib/privacyidea-host/state.db.daily"),
    );
    // Yesterday's is made anew at the next start, with the token in it.
    let long_ago = std::fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
    std::fs::File::options().write(true).open(&copy).unwrap().set_times(long_ago).unwrap();
    host.daemon().kill();
    for name in ["state.db-wal", "state.db-shm"] {
        let _ = std::fs::remove_file(state.with_file_name(name));
    }
    std::fs::write(&state, "damaged ".repeat(1000)).unwrap();
    let (status, text) = host.failing_daemon("");
    assert_eq!((status.code(), text.lines().count()), (Some(1), 1), "{text}");
    assert!(text.contains("copy /var/lib/privacyidea-host/state.db.daily to"), "{text}");
    let (mut stream, mut child) = host.once("");
    assert_eq!(log_in(&mut stream, "carla", CODES[0]), Verdict::Unavailable);
    assert!(child.wait().unwrap().success());
    std::fs::copy(&copy, &state).unwrap();
    let _daemon = host.daemon();
    assert_eq!(host.log_in("carla", CODES[0]), granted("carla"));
}

/// SQLite would take an empty file for a new database: every token gone, and the copy replaced with nothing.
#[test]
fn a_lost_state_database_stops_the_start_while_there_is_a_copy() {
    let host = host();
    let daemon = host.daemon();
    host.enrol("carla");
    daemon.kill();
    let state = host.path("var/lib/privacyidea-host/state.db");
    let copy = host.path("var/lib/privacyidea-host/state.db.daily");
    let long_ago = std::fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
    std::fs::File::options().write(true).open(&copy).unwrap().set_times(long_ago).unwrap();
    host.daemon().kill();
    let harms: [fn(&std::path::Path); 2] =
        [|path| drop(std::fs::File::create(path).unwrap()), |path| std::fs::remove_file(path).unwrap()];
    for harm in harms {
        harm(&state);
        let (status, text) = host.failing_daemon("");
        assert_eq!((status.code(), text.lines().count()), (Some(1), 1), "{text}");
        assert!(text.contains("copy /var/lib/privacyidea-host/state.db.daily to"), "{text}");
        let (mut stream, mut child) = host.once("");
        assert_eq!(log_in(&mut stream, "carla", CODES[0]), Verdict::Unavailable);
        assert!(child.wait().unwrap().success());
    }
    for name in ["state.db-wal", "state.db-shm"] {
        let _ = std::fs::remove_file(state.with_file_name(name));
    }
    std::fs::copy(&copy, &state).unwrap();
    std::os::unix::fs::chown(&state, Some(DAEMON), Some(DAEMON)).unwrap();
    let daemon = host.daemon();
    assert_eq!(host.log_in("carla", CODES[0]), granted("carla"));
    daemon.kill();
    // Who wants to begin anew says so.
    for name in ["state.db", "state.db-wal", "state.db-shm", "state.db.daily"] {
        let _ = std::fs::remove_file(state.with_file_name(name));
    }
    let _daemon = host.daemon();
    host.enrol("carla");
    assert_eq!(host.log_in("carla", CODES[0]), granted("carla"));
}

#[test]
fn once_needs_a_socket_and_a_peer_that_speaks() {
    let host = host();
    let status = host.command("", &["/etc/daemon", "--once"]).status().unwrap();
    assert_eq!(status.code(), Some(1));
    let line = host.syslog_line();
    assert!(
        line.starts_with("<27>") && line.contains("--once needs a connected UNIX stream socket"),
        "{line}"
    );
    let (stream, mut child) = host.once("");
    drop(stream);
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_second_daemon_refuses_and_the_first_goes_on() {
    let host = host();
    let daemon = host.daemon();
    let (status, text) = host.failing_daemon("");
    assert_eq!(status.code(), Some(1));
    assert!(text.contains(&format!("the process {} already serves", daemon.pid())), "{text}");
    // Neither does the path of a socket decide: the lock does.
    std::fs::remove_file(host.auth_socket()).unwrap();
    let (status, text) = host.failing_daemon("");
    assert_eq!(status.code(), Some(1));
    assert!(text.contains("another daemon already serves"), "{text}");
    assert!(!host.auth_socket().exists());
    assert!(host.lookup_socket().exists());
}

#[test]
fn what_a_killed_daemon_left_is_replaced() {
    let host = host();
    host.daemon().kill();
    assert!(std::fs::metadata(host.auth_socket()).unwrap().file_type().is_socket());
    assert!(UnixStream::connect(host.auth_socket()).is_err());
    let _daemon = host.daemon();
    assert_eq!(host.log_in("carla", CODES[0]), Verdict::Refused);
}

#[test]
fn a_socket_from_systemd_is_served_and_left_in_place() {
    let host = host();
    let listener = systemds_socket(&host);
    // Connected before there is a daemon: the connection waits in the backlog.
    let mut early = host.connect_auth();
    early.send_request(&Request::Login(login("carla")), soon()).unwrap();
    let launch = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=auth exec /etc/daemon";
    let daemon = host.daemon_after("", &["sh", "-c", launch], Stdio::from(OwnedFd::from(listener)));
    assert_eq!(answer(&mut early, "000000").unwrap(), Verdict::Refused);
    host.enrol("carla");
    assert_eq!(host.log_in("carla", CODES[0]), granted("carla"));
    daemon.signal(Signal::TERM);
    assert!(daemon.end().success());
    assert!(host.auth_socket().exists() && !host.lookup_socket().exists());
}

#[test]
fn whoever_woke_a_daemon_that_cannot_serve_hears_of_it() {
    let host = host();
    host.write_settings("[lockout]\naftr = 3\n");
    let listener = systemds_socket(&host);
    let mut waiting: Vec<_> = (0..3).map(|_| host.connect_auth()).collect();
    for stream in &mut waiting {
        stream.send_request(&Request::Login(login("carla")), soon()).unwrap();
    }
    let mut command_line = host.connect_auth();
    let status = Request::Administration(br#"{"command":"status"}"#.to_vec().into());
    command_line.send_request(&status, soon()).unwrap();
    let launch = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=auth exec /etc/daemon";
    let status = host
        .command("", &["sh", "-c", launch])
        .stdin(Stdio::from(OwnedFd::from(listener.try_clone().unwrap())))
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(78));
    for stream in &mut waiting {
        assert_eq!(answer(stream, CODES[0]).unwrap(), Verdict::Unavailable);
    }
    let Ok(Answer::Refused { reason }) = receive_document(&mut command_line) else {
        panic!("another answer")
    };
    assert!(reason.contains("config.toml") && reason.contains("aftr"), "{reason}");
    // Nothing is left that would make systemd start it again.
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn systemds_socket_is_not_taken_away_by_a_start_by_hand() {
    let host = host();
    let _listener = systemds_socket(&host);
    let (status, text) = host.failing_daemon("");
    assert_eq!(status.code(), Some(1));
    assert!(text.contains("already serves this host's sockets"), "{text}");
}

#[test]
fn a_socket_that_systemd_calls_otherwise_is_not_served() {
    let host = host();
    let listener = systemds_socket(&host);
    let launch = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=other exec /etc/daemon";
    let output =
        host.command("", &["sh", "-c", launch]).stdin(Stdio::from(OwnedFd::from(listener))).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("one named \"other\""), "{output:?}");
}

#[test]
fn the_watchdog_hears_that_lookups_are_looked_after() {
    let host = host();
    let daemon = host.daemon_after("", &["env", "WATCHDOG_USEC=300000", "/etc/daemon"], Stdio::null());
    for _ in 0..3 {
        daemon.notification("WATCHDOG=1");
    }
    daemon.signal(Signal::TERM);
    daemon.notification("STOPPING=1");
}

#[test]
fn hup_takes_new_settings_and_keeps_the_old_ones_if_the_new_are_wrong() {
    let host = host();
    let daemon = host.daemon();
    let mut old = host.connect_auth();
    assert_eq!(begin(&mut old, "carla"), "One-time code: ");
    host.write_settings("[prompt]\ncode = \"Code, please: \"\n");
    daemon.signal(Signal::HUP);
    daemon.line_with("settings read again");
    assert_eq!(begin(&mut host.connect_auth(), "carla"), "Code, please: ");
    host.write_settings("[prompt]\ncode = 7\n");
    daemon.signal(Signal::HUP);
    let line = daemon.line_with("the settings in force stay");
    assert!(line.contains("config.toml") && line.contains("code"), "{line}");
    assert_eq!(begin(&mut host.connect_auth(), "carla"), "Code, please: ");
    // A login that began before ends as it began.
    old.send_request(&Request::Answer("000000".into()), soon()).unwrap();
    assert_eq!(answer(&mut old, "000000").unwrap(), Verdict::Refused);
}

#[test]
fn term_lets_a_login_end_that_is_answered_and_gives_up_on_one_that_is_not() {
    let host = host();
    let daemon = host.daemon();
    host.enrol("carla");
    let mut quick = host.connect_auth();
    begin(&mut quick, "carla");
    let mut slow = host.connect_auth();
    begin(&mut slow, "bob");
    let before = Instant::now();
    daemon.signal(Signal::TERM);
    // The sockets go first: nobody waits for a daemon that ends.
    while host.lookup_socket().exists() {
        assert!(before.elapsed() < Duration::from_secs(30));
        std::thread::yield_now();
    }
    quick.send_request(&Request::Answer(CODES[0].into()), soon()).unwrap();
    assert_eq!(answer(&mut quick, CODES[0]).unwrap(), granted("carla"));
    let Reply::Verdict(verdict) = slow.receive_reply(soon()).unwrap() else { panic!("another reply") };
    assert_eq!(verdict, Verdict::NoAnswer);
    assert!(daemon.end().success());
    assert!(before.elapsed() < Duration::from_secs(15), "{:?}", before.elapsed());
    assert!(!host.auth_socket().exists());
}

#[test]
fn an_idle_daemon_ends_at_once() {
    let host = host();
    let daemon = host.daemon();
    let before = Instant::now();
    daemon.signal(Signal::INT);
    assert!(daemon.end().success());
    assert!(before.elapsed() < Duration::from_secs(3), "{:?}", before.elapsed());
}
