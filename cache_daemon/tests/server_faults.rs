//! How the client meets servers that are broken, hostile or not privacyIDEA at all.
//!
//! The server here is a stub (`server_support/stub.rs` says why); the real one is in `server_real.rs`.

mod server_support;
#[path = "server_support/stub.rs"]
mod stub;

use std::io::{Read, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use cache_daemon::server::{Client, Failure, Server};
use privacyidea_contract::Secret;
use server_support::{Authority, Identity, check, check_from, client, is_accepted, settings};
use stub::{Stub, answer, send};

const YES: &str = r#"{"jsonrpc":"2.0","result":{"status":true,"value":true,"authentication":"ACCEPT"}}"#;

/// A stub that gives every request the same bytes and keeps the connection.
fn saying(authority: &Authority, bytes: impl Into<Vec<u8>>) -> Stub {
    let bytes = bytes.into();
    Stub::new(&authority.identity("IP:127.0.0.1", 1), move |stream| {
        send(stream, &bytes);
        true
    })
}

/// The failure of one check against a stub that sends `bytes` and then closes.
fn failure_after(bytes: &[u8]) -> Failure {
    let (authority, bytes) = (Authority::new(), bytes.to_vec());
    let stub = Stub::new(&authority.identity("IP:127.0.0.1", 1), move |stream| {
        send(stream, &bytes);
        false
    });
    let failure = check(&client(&stub.url(), &authority.file()), "carla", "x").expect_err("no answer");
    assert_eq!(stub.requests().len(), 1, "a password is sent once");
    failure
}

/// What `nossl` on a PAM line means, and what nothing in the settings can say.
#[test]
fn any_certificate_is_taken_where_a_line_says_so_and_nowhere_else() {
    let (authority, other) = (Authority::new(), Authority::new());
    for (name, days) in [("IP:127.0.0.1", 1), ("IP:127.0.0.1", -1), ("DNS:elsewhere.example.org", 1)] {
        let stub = Stub::new(&authority.identity(name, days), |stream| {
            send(stream, answer("200 OK", "application/json", YES).as_bytes());
            true
        });
        let mut settings = settings(&stub.url(), &other.file());
        let verified = check(&Client::new(&settings, "test"), "carla", "x");
        assert!(matches!(verified, Err(Failure::Untrusted(_))), "{verified:?}");
        assert!(stub.requests().is_empty(), "nothing was sent");
        settings.any_certificate = true;
        assert!(is_accepted(&check(&Client::new(&settings, "test"), "carla", "x")), "{name} {days}");
    }
}

#[test]
fn the_request_is_json_and_says_who_asks() {
    let authority = Authority::new();
    let stub = saying(&authority, answer("200 OK", "application/json", YES));
    let mut settings = settings(&format!("{}/pi", stub.url()), &authority.file());
    settings.realm = Some("users".to_owned());
    let client = Client::new(&settings, "0123\r\nX-Evil: 1");
    for rhost in ["192.0.2.7", "client.example.org"] {
        let answer = check_from(&client, "müller", "a%41+b&ü\"", rhost);
        assert!(is_accepted(&answer), "{answer:?}");
    }

    let requests = stub.requests();
    let first = &requests[0];
    assert_eq!(first.head[0], "POST /pi/validate/check HTTP/1.1");
    assert_eq!(first.header("Content-Type"), Some("application/json"));
    assert_eq!(first.header("Accept"), Some("application/json"));
    let agent = format!("privacyidea-host/{} ComputerName/0123X-Evil1", env!("CARGO_PKG_VERSION"));
    assert_eq!(first.header("User-Agent"), Some(agent.as_str()));
    assert_eq!(first.header("X-Forwarded-For"), Some("192.0.2.7"));
    let body: serde_json::Value = serde_json::from_str(&first.body).expect("JSON");
    let wanted = serde_json::json!(
        {"user": "müller", "pass": "a%41+b&ü\"", "realm": "users", "client": "192.0.2.7"}
    );
    assert_eq!(body, wanted);

    let second: serde_json::Value = serde_json::from_str(&requests[1].body).expect("JSON");
    assert_eq!(requests[1].header("X-Forwarded-For"), None);
    assert_eq!(second.get("client"), None);
    assert_eq!(stub.connections(), 1);
}

#[test]
fn what_cannot_be_asked_is_refused_without_a_request() {
    let authority = Authority::new();
    let stub = saying(&authority, answer("200 OK", "application/json", YES));
    let client = client(&stub.url(), &authority.file());
    let not_utf8 = Secret::new(vec![b'p', 0xff, 0xfe]);
    let refused = check_from(&client, "carla", not_utf8, "");
    assert!(server_support::is_rejected(&refused), "{refused:?}");
    for user in ["", " carla", "carla "] {
        assert!(server_support::is_rejected(&check(&client, user, "x")), "{user:?}");
    }
    assert_eq!(stub.connections(), 0);

    for password in ["", &"ü".repeat(256), "\0"] {
        assert!(is_accepted(&check(&client, "carla", password)), "{} bytes", password.len());
    }
}

#[test]
fn answers_that_are_not_privacyideas_are_rubbish() {
    let page = answer("200 OK", "text/html; charset=utf-8", "<html>Welcome, carla</html>");
    let gateway = answer("502 Bad Gateway", "text/html", "<html>nginx</html>");
    let wrong_type = answer("200 OK", "text/plain", YES);
    let wrong_value = answer("200 OK", "application/json", &YES.replace("\"value\":true", "\"value\":1"));
    let followed = answer("200 OK", "application/json", &format!("{YES}{YES}"));
    let no_status = "SSH-2.0-OpenSSH_9.2p1 Debian\r\n\r\n";
    let long_header = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(1024 * 1024));
    for text in [&page, &gateway, &wrong_type, &wrong_value, &followed, no_status, &long_header] {
        let failure = failure_after(text.as_bytes());
        assert!(matches!(failure, Failure::Rubbish(_)), "{failure:?} after {:.60}", text);
    }
    assert!(matches!(failure_after(&[0xff; 4096]), Failure::Rubbish(_)));
}

#[test]
fn a_server_error_in_privacyideas_form_is_unable() {
    let body = r#"{"jsonrpc":"2.0","result":{"status":false,"error":{"code":-500,"message":"broken"}}}"#;
    let failure = failure_after(answer("500 Internal Server Error", "application/json", body).as_bytes());
    assert_eq!(failure, Failure::Unable("broken (error -500, HTTP 500)".to_owned()));
}

#[test]
fn an_answer_that_breaks_off_is_rubbish_and_none_at_all_is_unreachable() {
    let whole = answer("200 OK", "application/json", YES);
    let chunked = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let cut_chunk = format!("{chunked}{:x}\r\n{YES}", YES.len() + 10);
    for text in [&whole[..whole.len() - 1], &cut_chunk] {
        let failure = failure_after(text.as_bytes());
        assert_eq!(failure, Failure::Rubbish("its answer broke off".to_owned()));
    }
    for text in ["", "HTTP/1.1 200 OK\r\nContent-Ty"] {
        let failure = failure_after(text.as_bytes());
        assert!(matches!(failure, Failure::Unreachable(_)), "{failure:?} after {text:?}");
    }
}

/// Without a length the end of the connection is the end of the answer: cut anywhere, it must not be believed.
#[test]
fn an_answer_without_a_length_is_believed_only_if_it_is_whole() {
    let head = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n";
    for end in [0, 1, YES.len() / 2, YES.len() - 1] {
        let failure = failure_after(format!("{head}{}", &YES[..end]).as_bytes());
        assert!(matches!(failure, Failure::Rubbish(_)), "{failure:?}");
    }
}

#[test]
fn a_redirect_is_rubbish_and_not_followed() {
    let authority = Authority::new();
    let elsewhere = saying(&authority, answer("200 OK", "application/json", YES));
    for status in
        ["301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"]
    {
        let location = format!("{}/validate/check", elsewhere.url());
        let text = format!(
            "HTTP/1.1 {status}\r\nLocation: {location}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{YES}",
            YES.len()
        );
        let failure = failure_after(text.as_bytes());
        assert!(matches!(failure, Failure::Rubbish(_)), "{failure:?}");
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[test]
fn a_huge_answer_is_not_read_to_its_end() {
    let authority = Authority::new();
    for head in ["Content-Length: 1099511627776", "Transfer-Encoding: chunked"] {
        let stub = Stub::new(&authority.identity("IP:127.0.0.1", 1), move |stream| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{head}\r\n\r\n");
            send(stream, head.as_bytes());
            let spaces = [b' '; 0x1000];
            let mut chunk = b"1000\r\n".to_vec();
            chunk.extend(spaces);
            chunk.extend(b"\r\n");
            let piece: &[u8] = if head.contains("chunked") { &chunk } else { &spaces };
            while stream.write_all(piece).is_ok() {}
            false
        });
        let failure = check(&client(&stub.url(), &authority.file()), "carla", "x").expect_err("too long");
        assert_eq!(failure, Failure::Rubbish("its answer is longer than 1048576 bytes".to_owned()));
    }
}

/// What a server does that keeps the client waiting: the check must end at its deadline, not before, not much later.
fn ends_at_its_deadline(stub: &Stub, authority: &Authority) {
    let mut settings = settings(&stub.url(), &authority.file());
    settings.timeout = Duration::from_millis(700);
    settings.connect_timeout = Duration::from_millis(700);
    let client = Client::new(&settings, "test");
    let started = Instant::now();
    let failure = check(&client, "carla", "x").expect_err("no answer");
    let waited = started.elapsed();
    assert!(matches!(&failure, Failure::Unreachable(why) if why.contains("in time")), "{failure:?}");
    assert!(waited >= Duration::from_millis(650) && waited < Duration::from_secs(5), "{waited:?}");
}

#[test]
fn a_server_that_hangs_or_drips_costs_the_timeout_and_no_more() {
    let authority = Authority::new();
    let identity = authority.identity("IP:127.0.0.1", 1);

    let after_the_request = Stub::new(&identity, |stream| {
        let _ = stream.sock.read(&mut [0]);
        false
    });
    ends_at_its_deadline(&after_the_request, &authority);

    let before_tls = Stub::accepting(|mut tcp, _| {
        let _ = std::io::copy(&mut tcp, &mut std::io::sink());
    });
    ends_at_its_deadline(&before_tls, &authority);

    let whole = answer("200 OK", "application/json", YES);
    let in_the_header = Stub::new(&identity, move |stream| drip(stream, &whole));
    ends_at_its_deadline(&in_the_header, &authority);

    let spaces = " ".repeat(10_000);
    let in_the_body = Stub::new(&identity, move |stream| {
        send(stream, b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999\r\n\r\n");
        drip(stream, &spaces)
    });
    ends_at_its_deadline(&in_the_body, &authority);
}

/// A byte every 30 ms, until the client has gone.
fn drip(stream: &mut stub::Stream, text: &str) -> bool {
    let (_never, pause) = mpsc::channel::<()>();
    for byte in text.as_bytes() {
        let _ = pause.recv_timeout(Duration::from_millis(30));
        if stream.write_all(&[*byte]).and_then(|()| stream.flush()).is_err() {
            break;
        }
    }
    false
}

#[test]
fn a_foreign_certificate_is_untrusted() {
    let (authority, other) = (Authority::new(), Authority::new());
    let yes = answer("200 OK", "application/json", YES);
    let serving = |identity: Identity| {
        let yes = yes.clone();
        Stub::new(&identity, move |stream| {
            send(stream, yes.as_bytes());
            true
        })
    };
    let cases: [(&str, Stub, std::path::PathBuf); 4] = [
        ("UnknownIssuer", serving(authority.identity("IP:127.0.0.1", 1)), other.file()),
        ("not valid for name", serving(authority.identity("IP:127.0.0.2", 1)), authority.file()),
        ("not valid for name", serving(authority.identity("DNS:localhost", 1)), authority.file()),
        ("Expired", serving(authority.identity("IP:127.0.0.1", -1)), authority.file()),
    ];
    for (what, stub, ca_file) in cases {
        let client = client(&stub.url(), &ca_file);
        let failure = check(&client, "carla", "x").expect_err(what);
        assert!(matches!(&failure, Failure::Untrusted(why) if why.contains(what)), "{what}: {failure:?}");
        assert!(matches!(client.reachable(), Err(Failure::Untrusted(_))), "{what}");
        assert!(stub.requests().is_empty(), "{what}: the password was sent");
    }
}

#[test]
fn a_peer_without_tls_is_rubbish_and_gets_no_password() {
    let (got, received) = mpsc::channel();
    let stub = Stub::accepting(move |mut tcp, _| {
        let mut hello = vec![0; 4096];
        let length = tcp.read(&mut hello).unwrap_or(0);
        let _ = tcp.write_all(answer("200 OK", "application/json", YES).as_bytes());
        hello.truncate(length);
        got.send(hello).expect("the test listens");
    });
    let authority = Authority::new();
    let failure = check(&client(&stub.url(), &authority.file()), "carla", "s3cret").expect_err("no TLS");
    assert_eq!(failure, Failure::Rubbish("it does not speak TLS".to_owned()));
    let hello = received.recv().expect("a connection");
    assert!(!hello.windows(6).any(|window| window == b"s3cret"));

    let plain = client(&stub.url().replace("https", "http"), &authority.file());
    assert!(matches!(check(&plain, "carla", "x"), Err(Failure::Untrusted(_))), "http:// is refused");
}

#[test]
fn a_missing_or_empty_authority_is_an_error_of_the_check_and_heals() {
    let authority = Authority::new();
    let stub = saying(&authority, answer("200 OK", "application/json", YES));
    let file = authority.directory.path().join("late.pem");
    let client = client(&stub.url(), &file);
    assert!(matches!(check(&client, "carla", "x"), Err(Failure::Untrusted(_))));
    for text in ["", "not PEM\n", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        std::fs::write(&file, text).expect("written");
        assert!(matches!(check(&client, "carla", "x"), Err(Failure::Untrusted(_))), "{text:?}");
    }
    assert_eq!(stub.connections(), 0);
    std::fs::copy(authority.file(), &file).expect("copied");
    assert!(is_accepted(&check(&client, "carla", "x")));
}

/// The connection ends after each answer without a word in the header: the next check must notice and open another.
#[test]
fn a_connection_that_was_closed_while_idle_is_replaced() {
    let authority = Authority::new();
    let (closing, closed) = mpsc::channel();
    let closing = std::sync::Mutex::new(closing);
    let stub = Stub::new(&authority.identity("IP:127.0.0.1", 1), move |stream| {
        send(stream, answer("200 OK", "application/json", YES).as_bytes());
        stream.conn.send_close_notify();
        let _ = stream.flush();
        let _ = stream.sock.shutdown(std::net::Shutdown::Both);
        closing.lock().expect("lock").send(()).expect("the test listens");
        false
    });
    let client = client(&stub.url(), &authority.file());
    for n in 1..=5 {
        let answer = check(&client, "carla", "x");
        assert!(is_accepted(&answer), "check {n}: {answer:?}");
        closed.recv().expect("closed");
    }
    assert_eq!((stub.connections(), stub.requests().len()), (5, 5));
}

/// A server that takes a request on a kept connection and closes may have consumed the one-time password.
#[test]
fn a_request_that_got_no_answer_is_not_repeated() {
    let authority = Authority::new();
    let stub = Stub::new(&authority.identity("IP:127.0.0.1", 1), {
        let served = std::sync::atomic::AtomicUsize::new(0);
        move |stream| {
            let is_first = served.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
            if is_first {
                send(stream, answer("200 OK", "application/json", YES).as_bytes());
            }
            is_first
        }
    });
    let client = client(&stub.url(), &authority.file());
    assert!(is_accepted(&check(&client, "carla", "1")));
    assert!(matches!(check(&client, "carla", "2"), Err(Failure::Unreachable(_))));
    assert_eq!((stub.connections(), stub.requests().len()), (1, 2));
}

#[test]
fn workers_share_the_client() {
    let authority = Authority::new();
    let stub = saying(&authority, answer("200 OK", "application/json", YES));
    let client = client(&stub.url(), &authority.file());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    assert!(is_accepted(&check(&client, "carla", "x")));
                }
            });
        }
    });
    assert_eq!(stub.requests().len(), 80);
    assert!(stub.connections() <= 8, "{} connections", stub.connections());
}

/// Runs itself again with an environment that would lead most HTTP clients astray.
#[test]
fn the_environment_has_no_say() {
    const URL: &str = "PRIVACYIDEA_HOST_TEST_URL";
    if let Some(url) = variable(URL) {
        return with_a_hostile_environment(&url);
    }
    let authority = Authority::new();
    let stub = saying(&authority, answer("200 OK", "application/json", YES));
    let run = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "the_environment_has_no_say"])
        .env(URL, stub.url())
        .envs(
            ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"].map(|name| (name, "http://127.0.0.1:1")),
        )
        .env("SSL_CERT_FILE", authority.file())
        .output()
        .expect("run");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    assert_eq!(stub.requests().len(), 1);
}

fn with_a_hostile_environment(url: &str) {
    let authority = variable("SSL_CERT_FILE").expect("set by the test");
    let mut settings = settings(url, authority.as_ref());
    assert!(is_accepted(&check(&Client::new(&settings, "test"), "carla", "x")), "through the proxy?");
    // The system's bundle does not have the test's authority, whatever SSL_CERT_FILE says.
    settings.ca_file = None;
    let failure = check(&Client::new(&settings, "test"), "carla", "x");
    assert!(matches!(&failure, Err(Failure::Untrusted(_))), "{failure:?}");
}

#[expect(clippy::disallowed_methods, reason = "the environment is what is tested")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
