//! A module from before the last upgrade, in a program that still runs: frames as version 1 wrote them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::harness::*;

/// `Login` of carla by sshd from 192.0.2.7 at the terminal ssh, who may be asked.
const LOGIN: &[u8] = b"\x2d\x00\x00\x00\x01\x00\x01\x00\x05\x00\x00\x00carla\x00\x04\x00\x00\x00sshd\
    \x09\x00\x00\x00192.0.2.7\x03\x00\x00\x00ssh\x00\x00\x01";
/// `Ask` with the settings' prompt, not shown.
const ASK: &[u8] = b"\x18\x00\x00\x00\x01\x00\x65\x00\x0f\x00\x00\x00One-time code: \x00";
/// `Answer` with the first value of the token.
const ANSWER: &[u8] = b"\x0e\x00\x00\x00\x01\x00\x02\x00\x06\x00\x00\x00755224";
/// `Verdict` with `Granted` for carla.
const GRANTED: &[u8] = b"\x0e\x00\x00\x00\x01\x00\x67\x00\x00\x05\x00\x00\x00carla";
/// `Lookup` of the passwd entry of resi.
const LOOKUP: &[u8] = b"\x0d\x00\x00\x00\x01\x00\x04\x00\x01\x04\x00\x00\x00resi";
/// `Passwd` of resi.
const PASSWD: &[u8] = b"\x35\x00\x00\x00\x01\x00\x68\x00\x04\x00\x00\x00resi\x21\x4e\x00\x00\x21\x4e\x00\x00\
    \x04\x00\x00\x00Resi\x0a\x00\x00\x00/home/resi\x07\x00\x00\x00/bin/sh";

fn connect(path: &Path) -> UnixStream {
    let socket = UnixStream::connect(path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket
}

/// A whole frame.
fn frame(socket: &mut UnixStream) -> Vec<u8> {
    let mut length = [0; 4];
    socket.read_exact(&mut length).unwrap();
    let mut frame = vec![0; 4 + u32::from_le_bytes(length) as usize];
    frame[..4].copy_from_slice(&length);
    socket.read_exact(&mut frame[4..]).unwrap();
    frame
}

#[test]
fn version_one_is_answered_in_version_one() {
    let host = host();
    let _daemon = host.daemon();
    host.enrol("carla");
    let mut socket = connect(&host.auth_socket());
    socket.write_all(LOGIN).unwrap();
    assert_eq!(frame(&mut socket), ASK);
    socket.write_all(ANSWER).unwrap();
    assert_eq!(frame(&mut socket), GRANTED);

    let mut socket = connect(&host.lookup_socket());
    socket.write_all(LOOKUP).unwrap();
    assert_eq!(frame(&mut socket), PASSWD);
}
