//! A daemon that is not there, not ours, or not in its senses.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::sync::mpsc;
use std::thread;

use privacyidea_contract::wire::Reply;

use crate::application::Phase;
use crate::harness::{Actor, Stack, soon};

fn authenticate(stack: &Stack) -> &'static str {
    stack.run(Phase::Authenticate, Actor::answering(&["123456"])).0.name()
}

#[test]
fn no_socket_is_unavailable() {
    assert_eq!(authenticate(&Stack::new("")), "PAM_AUTHINFO_UNAVAIL");
}

#[test]
fn a_socket_where_nobody_listens_is_unavailable() {
    let stack = Stack::new("");
    drop(UnixListener::bind(stack.socket()).unwrap());
    assert!(stack.socket().exists());
    assert_eq!(authenticate(&stack), "PAM_AUTHINFO_UNAVAIL");
}

#[test]
fn a_daemon_that_closes_midway_is_unavailable() {
    let stack = Stack::new("");
    let daemon = stack.serve(|mut stream| drop(stream.receive_request(soon()).unwrap()));
    assert_eq!(authenticate(&stack), "PAM_AUTHINFO_UNAVAIL");
    daemon.join().unwrap();

    let stack = Stack::new("");
    let daemon = stack.serve(|mut stream| {
        stream.receive_request(soon()).unwrap();
        stream.send_reply(&Reply::Ask { text: "Code: ".to_owned(), echo: false }, soon()).unwrap();
        stream.receive_request(soon()).unwrap();
    });
    assert_eq!(authenticate(&stack), "PAM_AUTHINFO_UNAVAIL");
    daemon.join().unwrap();
}

#[test]
fn rubbish_is_a_service_error() {
    let frames: [&[u8]; 6] = [
        b"HTTP/1.1 200 OK\r\n\r\n",
        &[0xff; 64],
        &[5, 0, 0, 0, 2, 0, 103, 0, 99],   // a verdict that there is not
        &[6, 0, 0, 0, 2, 0, 103, 0, 1, 0], // a verdict and a byte more
        &[5, 0, 0, 0, 3, 0, 103, 0, 1],    // another version
        &[0, 0, 0, 0],
    ];
    for frame in frames {
        let stack = Stack::new("");
        let daemon = stack.serve(move |mut stream| {
            stream.receive_request(soon()).unwrap();
            let mut socket = stream.socket();
            socket.write_all(frame).unwrap();
            socket.flush().unwrap();
            // Stays until the module has gone.
            let _ = socket.read(&mut [0]);
        });
        assert_eq!(authenticate(&stack), "PAM_SERVICE_ERR", "{frame:?}");
        daemon.join().unwrap();
    }
}

#[test]
fn who_may_not_ask_is_told_so() {
    for (phase, code) in [(Phase::Authenticate, "PAM_CRED_INSUFFICIENT"), (Phase::Account, "PAM_PERM_DENIED")]
    {
        let stack = Stack::new("");
        let daemon = stack.serve(|mut stream| {
            stream.receive_request(soon()).unwrap();
            stream.send_reply(&Reply::NotAllowed, soon()).unwrap();
        });
        assert_eq!(stack.run(phase, Actor::silent()).0.name(), code);
        daemon.join().unwrap();
    }
}

#[test]
fn an_impostor_gets_nothing() {
    const NOBODY: libc::uid_t = 65534;
    // SAFETY: takes nothing, always succeeds.
    let user = unsafe { libc::geteuid() };
    assert_eq!(user, 0, "only root can listen as somebody else: run tests/run as root");
    let stack = Stack::new("");
    let listener = UnixListener::bind(stack.socket()).unwrap();
    let (says_so, listens) = mpsc::channel();
    let impostor = thread::spawn(move || {
        // The system call, not libc's function, changes this thread alone.
        // SAFETY: takes three numbers.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
        assert_eq!(changed, 0);
        // Who calls listen last is the socket's peer.
        // SAFETY: takes two numbers.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 8) }, 0);
        says_so.send(()).unwrap();
        let (mut socket, _) = listener.accept().unwrap();
        let mut received = Vec::new();
        socket.read_to_end(&mut received).unwrap();
        received
    });
    listens.recv().unwrap();
    assert_eq!(authenticate(&stack), "PAM_SYSTEM_ERR");
    assert_eq!(impostor.join().unwrap(), b"");
}
