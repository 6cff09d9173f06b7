//! Properties of the wire format, for every message: what is encoded is what is decoded, and nothing else is.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use prop::collection::vec;
use proptest::prelude::*;
use zeroize::Zeroizing;

use super::*;
use crate::Secret;

// Messages have no `Debug`, so that secrets cannot be printed: the properties speak about encoded frames.
proptest! {
    #[test]
    fn a_request_survives_the_way(frame in request()) {
        prop_assert_eq!(declared_length(&frame), frame.len() - 4);
        let (again, version) = Request::decode(&frame[4..]).unwrap();
        let again = again.encode_in(version).unwrap();
        prop_assert_eq!(&*again, &frame);
    }

    #[test]
    fn a_reply_survives_the_way(frame in reply()) {
        prop_assert_eq!(declared_length(&frame), frame.len() - 4);
        let again = Reply::decode(&frame[4..]).unwrap().encode().unwrap();
        prop_assert_eq!(&*again, &frame);
    }

    #[test]
    fn every_truncation_is_refused(request in request(), reply in reply()) {
        for end in 4..request.len() {
            prop_assert!(Request::decode(&request[4..end]).is_err(), "{} of {}", end, request.len());
        }
        for end in 4..reply.len() {
            prop_assert!(Reply::decode(&reply[4..end]).is_err(), "{} of {}", end, reply.len());
        }
    }

    #[test]
    fn bytes_left_over_are_refused(request in request(), reply in reply(), rest in vec(any::<u8>(), 1..9)) {
        let longer = [&request[4..], &rest].concat();
        prop_assert_eq!(Request::decode(&longer).err(), Some(WireError::TrailingBytes));
        let longer = [&reply[4..], &rest].concat();
        prop_assert_eq!(Reply::decode(&longer).err(), Some(WireError::TrailingBytes));
    }

    #[test]
    fn bytes_never_panic(kind in prop_oneof![0u16..8, 99u16..113, any::<u16>()], version in 1u16..=2, rest in vec(any::<u8>(), 0..300)) {
        let _ = (Request::decode(&rest), Reply::decode(&rest));
        let frame = [&version.to_le_bytes()[..], &kind.to_le_bytes(), &rest].concat();
        // What is accepted has one encoding only.
        if let Ok((request, version)) = Request::decode(&frame) {
            prop_assert_eq!(&request.encode_in(version).unwrap()[4..], &frame[..]);
        }
        if let Ok(reply) = Reply::decode(&frame) {
            prop_assert_eq!(&reply.encode().unwrap()[4..], &frame[..]);
        }
    }

    #[test]
    fn one_changed_byte_never_panics(mut frame in request(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let at = 4 + at.index(frame.len() - 4);
        frame[at] = byte;
        let _ = Request::decode(&frame[4..]);
    }
}

/// A login as version 1 wrote it.
const LOGIN_ONE: [u8; 42] = [
    38, 0, 0, 0, 1, 0, 1, 0, // length, version, kind
    2, 0, 0, 0, b'a', b'l', // user
    1, 4, 3, 2, 1, // uid
    2, 0, 0, 0, b's', b'u', // service
    0, 0, 0, 0, // rhost
    1, 0, 0, 0, b't', // tty
    0,    // prompt
    1, 1, 0, 0, 0, b'p', // password
    1,    // may_ask
];

#[test]
fn a_login_is_these_bytes() {
    let (one, version) = Request::decode(&LOGIN_ONE[4..]).unwrap();
    assert_eq!(version, Version::One);
    assert_eq!(*one.encode_in(Version::One).unwrap(), LOGIN_ONE);
    let Request::Login(login) = one else { panic!("no login") };
    assert_eq!((login.user.as_str(), login.uid, login.tty.as_str()), ("al", Some(0x0102_0304), "t"));
    assert_eq!(login.overrides, Overrides::default());
    let overrides = Overrides {
        url: Some("h".to_owned()),
        ca_file: None,
        any_certificate: true,
        realm: Some("r".to_owned()),
        first_step: Some(FirstStep::Password),
        poll_time: Some(60),
    };
    let written = Request::Login(Login { overrides, ..login }).encode().unwrap();
    let expected = [
        &[59, 0, 0, 0, 2, 0, 1, 0][..], // length, version, kind
        &LOGIN_ONE[8..],                // as it was
        &[1, 1, 0, 0, 0, b'h'],         // url
        &[0, 1],                        // CA file, any certificate
        &[1, 1, 0, 0, 0, b'r'],         // realm
        &[1, 2],                        // first step
        &[1, 60, 0, 0, 0],              // poll time
    ];
    assert_eq!(*written, expected.concat());
}

#[test]
fn what_a_line_says_has_a_longest_length() {
    let frame = |overrides: Overrides| {
        let Ok((Request::Login(login), _)) = Request::decode(&LOGIN_ONE[4..]) else { panic!("no login") };
        Request::Login(Login { overrides, ..login }).encode().unwrap()
    };
    let text = |length| Some("x".repeat(length));
    for (length, overrides) in [
        (Overrides::URL_LENGTH_MAX, (|url| Overrides { url, ..Overrides::default() }) as fn(_) -> _),
        (Overrides::PATH_LENGTH_MAX, |ca_file| Overrides { ca_file, ..Overrides::default() }),
        (Overrides::REALM_LENGTH_MAX, |realm| Overrides { realm, ..Overrides::default() }),
    ] {
        assert!(Request::decode(&frame(overrides(text(length)))[4..]).is_ok());
        let longer = Request::decode(&frame(overrides(text(length + 1)))[4..]);
        assert_eq!(longer.err(), Some(WireError::BadText));
    }
}

/// Whoever asked in version 1 is answered in it: the same bytes as ever.
#[test]
fn replies_of_version_one_are_these_bytes() {
    let one = |reply: Reply| reply.encode_in(Version::One).map(|frame| frame.to_vec());
    let granted = Reply::Verdict(Verdict::Granted { user: "al".to_owned() });
    assert_eq!(one(granted).unwrap(), [11, 0, 0, 0, 1, 0, 103, 0, 0, 2, 0, 0, 0, b'a', b'l']);
    let ask = Reply::Ask { text: "?".to_owned(), echo: true };
    assert_eq!(one(ask).unwrap(), [10, 0, 0, 0, 1, 0, 101, 0, 1, 0, 0, 0, b'?', 1]);
    assert_eq!(one(Reply::Groups(vec![7])).unwrap(), [12, 0, 0, 0, 1, 0, 106, 0, 1, 0, 0, 0, 7, 0, 0, 0]);
    let export = Reply::Export { name: "A".to_owned(), value: "b".to_owned() };
    assert_eq!(one(export), Err(WireError::NotInVersion(Version::One)));
}

#[test]
fn a_stream_answers_in_the_version_of_the_request() {
    for (request, version) in [(vec![4, 0, 0, 0, 1, 0, 5, 0], 1), (vec![4, 0, 0, 0, 2, 0, 5, 0], 2)] {
        let (mut stream, mut peer) = pair();
        let deadline = Instant::now() + Duration::from_secs(10);
        std::io::Write::write_all(&mut peer, &request).unwrap();
        assert!(matches!(stream.receive_request(deadline), Ok(Request::Status)));
        stream.send_reply(&Reply::Unavailable, deadline).unwrap();
        let mut reply = [0; 8];
        std::io::Read::read_exact(&mut peer, &mut reply).unwrap();
        assert_eq!(reply, [4, 0, 0, 0, version, 0, 108, 0]);
    }
}

#[test]
fn a_granted_verdict_is_these_bytes() {
    let reply = Reply::Verdict(Verdict::Granted { user: "al".to_owned() });
    assert_eq!(*reply.encode().unwrap(), [11, 0, 0, 0, 2, 0, 103, 0, 0, 2, 0, 0, 0, b'a', b'l']);
}

#[test]
fn another_version_and_unknown_kinds_are_told_apart() {
    for version in [0, 3, 0xff] {
        assert_eq!(
            Request::decode(&[version, 0, 5, 0]).err(),
            Some(WireError::UnknownVersion(version.into()))
        );
    }
    assert_eq!(Request::decode(&[1, 0, 77, 0]).err(), Some(WireError::UnknownKind(77)));
    assert_eq!(Request::decode(&[2, 0, 77, 0]).err(), Some(WireError::UnknownKind(77)));
    // A module speaks the newest only, and so must its daemon.
    assert_eq!(Reply::decode(&[1, 0, 107, 0]).err(), Some(WireError::UnknownVersion(1)));
    // A reply is no request, nor the other way round.
    assert_eq!(Request::decode(&[2, 0, 107, 0]).err(), Some(WireError::UnknownKind(107)));
    assert_eq!(Reply::decode(&[2, 0, 5, 0]).err(), Some(WireError::UnknownKind(5)));
    assert_eq!(Reply::decode(&[2, 0, 103, 0, 9]).err(), Some(WireError::UnknownKind(9)));
}

#[test]
fn texts_are_utf_8_without_nul_and_secrets_are_any_bytes() {
    let tell = |text: &[u8]| {
        let length = u32::try_from(text.len()).unwrap().to_le_bytes();
        [&[2, 0, 102, 0][..], &length, text, &[0]].concat()
    };
    assert!(Reply::decode(&tell("müller".as_bytes())).is_ok());
    assert_eq!(Reply::decode(&tell(b"a\0b")).err(), Some(WireError::BadText));
    assert_eq!(Reply::decode(&tell(b"\xff")).err(), Some(WireError::BadText));
    let answer = Request::Answer(Secret::new(vec![0, 0xff, b'x'])).encode().unwrap();
    let Ok((Request::Answer(secret), Version::Two)) = Request::decode(&answer[4..]) else {
        panic!("no answer")
    };
    assert_eq!(secret.expose(), [0, 0xff, b'x']);
}

#[test]
fn a_count_that_lies_costs_no_memory() {
    let frame = [&[2, 0, 106, 0][..], &u32::MAX.to_le_bytes()].concat();
    assert_eq!(Reply::decode(&frame).err(), Some(WireError::Truncated));
}

#[test]
fn the_longest_frame_is_64_kib() {
    let fits = FRAME_LENGTH_MAX - 8;
    assert!(Request::Answer(Secret::new(vec![7; fits])).encode().is_ok());
    assert_eq!(Request::Answer(Secret::new(vec![7; fits + 1])).encode().err(), Some(WireError::TooLong));
}

#[test]
fn a_frame_that_announces_too_much_is_refused_unread() {
    let (mut stream, mut peer) = pair();
    std::io::Write::write_all(&mut peer, &u32::try_from(FRAME_LENGTH_MAX + 1).unwrap().to_le_bytes())
        .unwrap();
    let received = stream.receive_reply(Instant::now() + Duration::from_secs(10));
    assert!(matches!(received, Err(StreamError::Wire(WireError::TooLong))));
}

#[test]
fn silence_ends_at_the_deadline_and_half_a_frame_with_the_peer() {
    let (mut stream, mut peer) = pair();
    let received = stream.receive_reply(Instant::now() + Duration::from_millis(20));
    assert!(matches!(received, Err(StreamError::TimedOut)));
    std::io::Write::write_all(&mut peer, &[10, 0, 0, 0, 1]).unwrap();
    drop(peer);
    let received = stream.receive_reply(Instant::now() + Duration::from_secs(10));
    assert!(matches!(received, Err(StreamError::Closed)));
}

#[test]
fn sending_to_nobody_is_an_error_and_no_signal() {
    // The test program ignores SIGPIPE, as every Rust program does; MSG_NOSIGNAL shows in programs that do not.
    let (mut stream, peer) = pair();
    drop(peer);
    let sent = stream.send_request(&Request::Status, Instant::now() + Duration::from_secs(10));
    assert!(matches!(sent, Err(StreamError::Closed)));
}

#[test]
fn a_peer_that_does_not_read_ends_at_the_deadline() {
    let (mut stream, _peer) = pair();
    let request = Request::Answer(Secret::new(vec![1; FRAME_LENGTH_MAX - 8]));
    let deadline = Instant::now() + Duration::from_millis(50);
    let error = std::iter::repeat_with(|| stream.send_request(&request, deadline)).find_map(Result::err);
    assert!(matches!(error, Some(StreamError::TimedOut)));
}

#[test]
fn connecting_to_nothing_fails_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let connected = Stream::connect(&directory.path().join("socket"), Duration::from_secs(10));
    assert!(
        matches!(connected, Err(StreamError::Socket(error)) if error.kind() == std::io::ErrorKind::NotFound)
    );
}

#[test]
fn the_peer_is_who_the_kernel_says() {
    let (stream, _peer) = pair();
    let peer = stream.peer().unwrap();
    assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
    assert_eq!(peer.pid, i32::try_from(std::process::id()).unwrap());
}

fn pair() -> (Stream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Stream::new(ours), theirs)
}

fn declared_length(frame: &[u8]) -> usize {
    u32::from_le_bytes(frame[..4].try_into().unwrap()) as usize
}

fn text() -> impl Strategy<Value = String> {
    "[^\0]{0,12}"
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

type LoginParts =
    ((String, String, String, String, Option<String>), Option<u32>, Option<Vec<u8>>, bool, Overrides);

fn login_parts() -> impl Strategy<Value = LoginParts> {
    let texts = (text(), text(), text(), text(), prop::option::of(text()));
    (texts, any::<Option<u32>>(), prop::option::of(bytes()), any::<bool>(), overrides())
}

fn overrides() -> impl Strategy<Value = Overrides> {
    prop_oneof![Just(Overrides::default()), some_overrides()]
}

fn some_overrides() -> impl Strategy<Value = Overrides> {
    let texts = [(); 3].map(|()| prop::option::of(text()));
    let step = prop::option::of(prop_oneof![Just(FirstStep::EmptyPassword), Just(FirstStep::Password)]);
    (texts, any::<bool>(), step, any::<Option<u32>>()).prop_map(
        |([url, ca_file, realm], any_certificate, first_step, poll_time)| Overrides {
            url,
            ca_file,
            any_certificate,
            realm,
            first_step,
            poll_time,
        },
    )
}

fn login(((user, service, rhost, tty, prompt), uid, password, may_ask, overrides): LoginParts) -> Login {
    Login { user, uid, service, rhost, tty, prompt, password: password.map(Secret::new), may_ask, overrides }
}

fn lookup() -> impl Strategy<Value = Lookup> {
    prop_oneof![
        text().prop_map(Lookup::PasswdByName),
        any::<u32>().prop_map(Lookup::PasswdById),
        text().prop_map(Lookup::GroupByName),
        any::<u32>().prop_map(Lookup::GroupById),
        text().prop_map(Lookup::Groups),
    ]
}

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::One), Just(Version::Two)]
}

/// Of both versions; what version 1 has no room for is written in version 2.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let frame = |version, request: Request| {
        request.encode_in(version).or_else(|_| request.encode()).unwrap().to_vec()
    };
    prop_oneof![
        (version(), login_parts())
            .prop_map(move |(version, parts)| frame(version, Request::Login(login(parts)))),
        (version(), bytes())
            .prop_map(move |(version, answer)| frame(version, Request::Answer(Secret::new(answer)))),
        (version(), login_parts())
            .prop_map(move |(version, parts)| frame(version, Request::Account(login(parts)))),
        (version(), lookup()).prop_map(move |(version, lookup)| frame(version, Request::Lookup(lookup))),
        version().prop_map(move |version| frame(version, Request::Status)),
        (version(), bytes()).prop_map(move |(version, document)| {
            frame(version, Request::Administration(Zeroizing::new(document)))
        }),
    ]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        text().prop_map(|user| Verdict::Granted { user }),
        Just(Verdict::Refused),
        Just(Verdict::UnknownUser),
        Just(Verdict::Locked),
        Just(Verdict::Unavailable),
        Just(Verdict::Untrusted),
        Just(Verdict::Failed),
        Just(Verdict::OutOfScope),
        Just(Verdict::NoAnswer),
    ]
}

fn passwd() -> impl Strategy<Value = PasswdEntry> {
    (text(), any::<u32>(), any::<u32>(), text(), text(), text())
        .prop_map(|(name, uid, gid, gecos, home, shell)| PasswdEntry { name, uid, gid, gecos, home, shell })
}

fn group() -> impl Strategy<Value = GroupEntry> {
    (text(), any::<u32>(), vec(text(), 0..5)).prop_map(|(name, gid, members)| GroupEntry {
        name,
        gid,
        members,
    })
}

fn reply() -> impl Strategy<Value = Vec<u8>> {
    let frame = |reply: Reply| reply.encode().unwrap().to_vec();
    prop_oneof![
        (text(), any::<bool>()).prop_map(move |(text, echo)| frame(Reply::Ask { text, echo })),
        (text(), any::<bool>()).prop_map(move |(text, error)| frame(Reply::Tell { text, error })),
        verdict().prop_map(move |verdict| frame(Reply::Verdict(verdict))),
        passwd().prop_map(move |entry| frame(Reply::Passwd(entry))),
        group().prop_map(move |entry| frame(Reply::Group(entry))),
        vec(any::<u32>(), 0..20).prop_map(move |gids| frame(Reply::Groups(gids))),
        Just(()).prop_map(move |()| frame(Reply::NotFound)),
        Just(()).prop_map(move |()| frame(Reply::Unavailable)),
        Just(()).prop_map(move |()| frame(Reply::NotAllowed)),
        (any::<bool>(), bytes())
            .prop_map(move |(last, bytes)| frame(Reply::Document { last, bytes: Zeroizing::new(bytes) })),
        (text(), text()).prop_map(move |(name, value)| frame(Reply::Export { name, value })),
    ]
}
