//! The conversation leaves nothing behind, however it ends: neither memory that is lost nor reads of what is not there.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use privacyidea_contract::wire::{Reply, Verdict};

use crate::harness::{Stack, granted, soon};

const TRANSACTION: &str = env!("CARGO_BIN_EXE_pam-transaction");

/// Runs phases for root under valgrind; its findings are the exit status 99.
fn under_valgrind(stack: &Stack, phases: &str, typed: &[u8]) -> Output {
    let confdir = stack.confdir().into_string().unwrap();
    let mut child = Command::new("valgrind")
        .args(["--quiet", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect,possible"])
        .args(["--show-leak-kinds=definite,indirect,possible", "--error-exitcode=99", TRANSACTION])
        .args([
            "--no-delay",
            "--answers-from-stdin",
            "--confdir",
            &confdir,
            "--phases",
            phases,
            "test",
            "root",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("install valgrind (tests/run does)");
    child.stdin.take().unwrap().write_all(typed).unwrap();
    child.wait_with_output().unwrap()
}

fn assert_clean(output: &Output, status: i32, what: &str) {
    assert_eq!(output.status.code(), Some(status), "{what}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_login_is_clean_under_valgrind() {
    for (verdict, status) in [(granted("root"), 0), (granted("toor"), 1), (Verdict::Refused, 1)] {
        let stack = Stack::new("debug");
        let what = format!("{verdict:?}");
        let daemon = stack.serve(move |mut stream| {
            stream.receive_request(soon()).unwrap();
            stream.send_reply(&Reply::Tell { text: "Hello.".to_owned(), error: false }, soon()).unwrap();
            stream.send_reply(&Reply::Ask { text: "Code: ".to_owned(), echo: false }, soon()).unwrap();
            stream.receive_request(soon()).unwrap();
            stream.send_reply(&Reply::Verdict(verdict), soon()).unwrap();
        });
        // Long, and no text.
        let typed = [&[b'x'; 510][..], b"\xff\xfe\n"].concat();
        assert_clean(&under_valgrind(&stack, "authenticate,setcred", &typed), status, &what);
        daemon.join().unwrap();
    }
}

#[test]
fn a_login_that_fails_on_its_way_is_clean_under_valgrind() {
    for arguments in ["", "no-such-argument", "use_first_pass try_first_pass", "prompt=[Code:]"] {
        assert_clean(&under_valgrind(&Stack::new(arguments), "authenticate", b"123456\n"), 1, arguments);
    }
    // The daemon goes away, and the person does.
    for (typed, what) in [(&b"123456\n"[..], "no verdict"), (b"", "no answer")] {
        let stack = Stack::new("");
        let daemon = stack.serve(|mut stream| {
            stream.receive_request(soon()).unwrap();
            stream.send_reply(&Reply::Ask { text: "Code: ".to_owned(), echo: true }, soon()).unwrap();
            let _ = stream.receive_request(soon());
        });
        assert_clean(&under_valgrind(&stack, "authenticate", typed), 1, what);
        daemon.join().unwrap();
    }
}

#[test]
fn the_other_phases_are_clean_under_valgrind() {
    let stack = Stack::new("");
    let daemon = stack.serve_verdict(granted("root"));
    assert_clean(&under_valgrind(&stack, "account", b""), 0, "account");
    daemon.join().unwrap();
    // Each is ignored, so the stack has no answer of its own.
    for phase in ["open-session", "close-session", "chauthtok"] {
        assert_clean(&under_valgrind(&Stack::new(""), phase, b""), 1, phase);
    }
}
