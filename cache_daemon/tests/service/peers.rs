//! Who may ask what, and what rude peers cost others.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use cache_daemon::administration::{Answer, Command};
use privacyidea_contract::wire::{Lookup, Reply, Request, Stream, Verdict};

use crate::harness::*;

#[test]
fn users_log_in_as_themselves_only() {
    let host = host();
    let _daemon = host.daemon();
    host.enrol("carla");
    as_user(1001, || {
        for user in ["carla", "root", "_privacyidea", "nobody-at-all"] {
            let mut stream = host.connect_auth();
            stream.send_request(&Request::Login(login(user)), soon()).unwrap();
            assert!(matches!(stream.receive_reply(soon()), Ok(Reply::NotAllowed)), "{user}");
            let mut stream = host.connect_auth();
            stream.send_request(&Request::Account(login(user)), soon()).unwrap();
            assert!(matches!(stream.receive_reply(soon()), Ok(Reply::NotAllowed)), "{user}");
        }
    });
    as_user(1000, || assert_eq!(host.log_in("carla", CODES[0]), granted("carla")));
}

#[test]
fn administration_is_roots_and_belongs_on_its_socket() {
    let host = host();
    let _daemon = host.daemon();
    let request = |command: &Command| Request::Administration(serde_json::to_vec(command).unwrap().into());
    as_user(1000, || {
        for command in [enrolment("carla"), Command::Status, Command::TokenList { user: None }] {
            let mut stream = host.connect_auth();
            stream.send_request(&request(&command), soon()).unwrap();
            assert!(matches!(stream.receive_reply(soon()), Ok(Reply::NotAllowed)));
        }
        let mut stream = host.connect_lookup();
        stream.send_request(&Request::Status, soon()).unwrap();
        assert!(matches!(receive_document(&mut stream), Ok(Answer::Status(_))));
    });
    for misplaced in [request(&Command::Status), Request::Login(login("carla"))] {
        let mut stream = host.connect_lookup();
        stream.send_request(&misplaced, soon()).unwrap();
        assert!(matches!(stream.receive_reply(soon()), Ok(Reply::NotAllowed)));
    }
    for misplaced in [Request::Status, Request::Lookup(Lookup::PasswdById(1)), Request::Answer("x".into())] {
        let mut stream = host.connect_auth();
        stream.send_request(&misplaced, soon()).unwrap();
        assert!(matches!(stream.receive_reply(soon()), Ok(Reply::NotAllowed)));
    }
    let mut stream = host.connect_auth();
    stream
        .send_request(&Request::Administration(b"{\"command\":\"no-such\"}".to_vec().into()), soon())
        .unwrap();
    assert!(matches!(receive_document(&mut stream), Ok(Answer::Refused { .. })));
}

#[test]
fn a_terminal_that_a_user_claims_is_not_believed() {
    let host = host();
    let _daemon = host.daemon();
    host.enrol("carla");
    host.enrol("bob");
    let verdicts = |user: &str| -> Vec<Verdict> {
        let attempt = |_| {
            let mut console = login(user);
            console.rhost = String::new();
            console.tty = "tty1".to_owned();
            console.service = "login".to_owned();
            let mut stream = host.connect_auth();
            stream.send_request(&Request::Login(console), soon()).unwrap();
            answer(&mut stream, "000000").unwrap()
        };
        (0..12).map(attempt).collect()
    };
    // Neither throttle nor lock hold on the console; whoever says that they sit there must be root to be believed.
    let of_root = verdicts("bob");
    assert!(of_root.iter().all(|verdict| *verdict == Verdict::Refused), "{of_root:?}");
    let of_carla = as_user(1000, || verdicts("carla"));
    assert!(of_carla.contains(&Verdict::Locked), "{of_carla:?}");
}

#[test]
fn hundreds_that_say_nothing_do_not_keep_a_login_waiting() {
    let host = host();
    let _daemon = host.daemon();
    host.enrol("carla");
    let connect = |path| UnixStream::connect(path).unwrap();
    let mut silent: Vec<_> = (0..300).map(|_| connect(host.auth_socket())).collect();
    silent.extend((0..300).map(|_| connect(host.lookup_socket())));
    // As many whose request never becomes whole.
    for socket in silent.iter_mut().step_by(2) {
        socket.write_all(&[40, 0, 0]).unwrap();
    }
    let before = std::time::Instant::now();
    assert_eq!(host.log_in("carla", CODES[0]), granted("carla"));
    let mut stream = host.connect_lookup();
    stream.send_request(&Request::Lookup(Lookup::PasswdByName("resi".to_owned())), soon()).unwrap();
    assert!(matches!(stream.receive_reply(soon()), Ok(Reply::Passwd(_))));
    // Nobody was shown out to make room, and nobody had to wait for that.
    assert!(before.elapsed() < Duration::from_secs(4), "{:?}", before.elapsed());
    for mut socket in silent {
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        assert!(matches!(socket.read(&mut [0]), Ok(0)), "shown out in the end");
    }
}

#[test]
fn rubbish_closes_its_own_connection() {
    let host = host();
    let _daemon = host.daemon();
    host.enrol("carla");
    let mut other_version = Request::Status.encode().unwrap().to_vec();
    other_version[4] = 99;
    let mut trailing = Request::Status.encode().unwrap().to_vec();
    trailing[0] += 1;
    trailing.push(0);
    let rubbish: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0; 64],
        &[0xff; 64],
        &other_version,
        &trailing,
        &[4, 0, 0, 0, 1, 0, 77, 0],
    ];
    for path in [host.auth_socket(), host.lookup_socket()] {
        for bytes in rubbish {
            let mut socket = UnixStream::connect(&path).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            socket.write_all(bytes).unwrap();
            let mut reply = Vec::new();
            // What was not read makes the end a reset.
            let _ = socket.read_to_end(&mut reply);
            assert!(reply.is_empty(), "{bytes:?} got {reply:?}");
        }
    }
    // Every length at which a frame can break off.
    for (path, whole) in [
        (host.auth_socket(), Request::Login(login("carla")).encode().unwrap()),
        (host.lookup_socket(), Request::Lookup(Lookup::PasswdByName("resi".to_owned())).encode().unwrap()),
    ] {
        for length in 0..whole.len() {
            let mut socket = UnixStream::connect(&path).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            socket.write_all(&whole[..length]).unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
            let mut reply = Vec::new();
            socket.read_to_end(&mut reply).unwrap();
            assert_eq!(reply, [0; 0], "{length} of {} bytes", whole.len());
        }
    }
    // A login that is whole, and rubbish instead of the answer: no answer, and the end.
    let mut stream = host.connect_auth();
    begin(&mut stream, "carla");
    stream.socket().write_all(&[0xff; 64]).unwrap();
    assert!(matches!(stream.receive_reply(soon()), Ok(Reply::Verdict(Verdict::NoAnswer))));
    assert!(stream.receive_reply(soon()).is_err());
    assert_eq!(host.log_in("carla", CODES[0]), granted("carla"));
}

#[test]
fn a_user_holds_few_workers_and_root_is_served_beside_them() {
    let host = host();
    let _daemon = host.daemon();
    host.enrol("carla");
    as_user(1000, || {
        let mut waiting: Vec<Stream> = Vec::new();
        for _ in 0..4 {
            let mut stream = host.connect_auth();
            begin(&mut stream, "carla");
            waiting.push(stream);
        }
        assert_eq!(host.log_in("carla", CODES[0]), Verdict::Unavailable);
        // One who leaves makes room; the daemon notices it by itself.
        let deadline = soon();
        drop(waiting.pop());
        loop {
            let mut stream = host.connect_auth();
            stream.send_request(&Request::Login(login("carla")), soon()).unwrap();
            match stream.receive_reply(soon()).unwrap() {
                Reply::Ask { .. } => break,
                Reply::Verdict(Verdict::Unavailable) => assert!(std::time::Instant::now() < deadline),
                _ => panic!("another reply"),
            }
        }
        drop(waiting);
    });
    assert_eq!(host.log_in("carla", CODES[0]), granted("carla"));
}

#[test]
fn more_people_than_turns_may_think_at_the_same_time() {
    let host = host();
    let _daemon = host.daemon();
    host.enrol("carla");
    let mut thinking: Vec<_> = (0..100).map(|_| host.connect_auth()).collect();
    for stream in &mut thinking {
        begin(stream, "bob");
    }
    assert_eq!(host.log_in("carla", CODES[0]), granted("carla"));
}

/// su and sudo are root with the group of whoever called them, and anybody may hold any number of their prompts open.
#[test]
fn prompts_of_su_leave_workers_for_sshd() {
    let host = host();
    let _daemon = host.daemon();
    host.enrol("carla");
    let mut held = Vec::new();
    for group in [1000, 1001, 1002] {
        as_group(group, || {
            for _ in 0..70 {
                let mut stream = host.connect_auth();
                stream.send_request(&Request::Login(login("bob")), soon()).unwrap();
                // A prompt, or a refusal; without a thread there is neither.
                stream.receive_reply(soon()).unwrap();
                held.push(stream);
            }
        });
    }
    assert_eq!(host.log_in("carla", CODES[0]), granted("carla"));
    as_group(1003, || assert_eq!(host.log_in("carla", CODES[1]), Verdict::Unavailable));
}
