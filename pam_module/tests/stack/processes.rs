//! The module in programs of its own: the daemon that it starts, callers that are not root, hosts with odd signals, the
//! log, and the program `pam-transaction` itself.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use privacyidea_contract::Secret;
use privacyidea_contract::wire::{Reply, Request, Stream, Verdict};
use tempfile::TempDir;

use crate::application::{Application, NoAnswer, Phase, Style, Talk};
use crate::harness::{AS_IS, IGNORED, Stack, granted, module, next_line, soon};

const TRANSACTION: &str = env!("CARGO_BIN_EXE_pam-transaction");

fn demand_root() {
    // SAFETY: takes nothing, always succeeds.
    let user = unsafe { libc::geteuid() };
    assert_eq!(user, 0, "only root can have a mount namespace of its own: run tests/run as root");
}

/// A host of its own: another /run, /dev and /usr/sbin, the module with its usual socket, and in the daemon's place a
/// script that ends as [`daemon`].
struct Host {
    directory: TempDir,
}

impl Host {
    fn new(arguments: &str, before_serving: &str) -> Self {
        let host = Self { directory: tempfile::tempdir().unwrap() };
        let path = host.directory.path();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        for (file, copy) in
            [(module().as_path(), "pam_privacyidea.so"), (Path::new(TRANSACTION), "pam-transaction")]
        {
            fs::copy(file, path.join(copy)).unwrap();
        }
        let module = path.join("pam_privacyidea.so");
        let lines = ["auth", "account"]
            .map(|kind| format!("{kind} {AS_IS} {} {arguments}\n{}\n", module.display(), next_line(kind)));
        fs::write(path.join("test"), lines.concat()).unwrap();
        fs::write(path.join("other"), "auth required pam_deny.so\n").unwrap();
        let exe = std::env::current_exe().unwrap();
        let script = format!(
            "#!/bin/sh\necho \"$@\" >>{0}/started\n{before_serving}\n\
             exec {1} processes::daemon --exact --ignored --nocapture\n",
            path.display(),
            exe.display()
        );
        fs::write(path.join("privacyidea-cached"), script).unwrap();
        host
    }

    /// A command in this host, through a shell that has prepared it.
    fn command(&self, how: &str, arguments: &[&str]) -> Command {
        let prepare = r#"
            set -e
            mount -t tmpfs none /usr/sbin
            cp "$0/privacyidea-cached" /usr/sbin/
            chmod 755 /usr/sbin/privacyidea-cached
            mount -t tmpfs none /run
            mkdir /run/privacyidea-host
            if [ -S "$0/log" ]; then
                touch /run/null && mount --bind /dev/null /run/null
                mount -t tmpfs -o mode=755 none /dev
                touch /dev/null && mount --bind /run/null /dev/null
                ln -s "$0/log" /dev/log
            fi
        "#;
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "/bin/sh", "-c"])
            .arg(format!("{prepare}\n{how} \"$0/pam-transaction\" --confdir \"$0\" \"$@\""))
            .arg(self.directory.path())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, how: &str, arguments: &[&str], answers: &str) -> Output {
        let mut child = self.command(how, arguments).spawn().unwrap();
        child.stdin.take().unwrap().write_all(answers.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn started(&self) -> String {
        fs::read_to_string(self.directory.path().join("started")).unwrap_or_default()
    }
}

fn login(phases: &str) -> Vec<&str> {
    vec!["--no-delay", "--json", "--answers-from-stdin", "test", "root", "--phases", phases]
}

/// Not a test by itself: the daemon's side of `--once`. Grants who answers `123456`.
#[test]
#[ignore = "is started by other tests as the daemon"]
fn daemon() {
    let input = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned().unwrap();
    let mut stream = Stream::new(UnixStream::from(input));
    let request = stream.receive_request(soon()).unwrap();
    let Request::Login(login) = request else {
        stream.send_reply(&Reply::Verdict(Verdict::OutOfScope), soon()).unwrap();
        return;
    };
    stream.send_reply(&Reply::Ask { text: "Code: ".to_owned(), echo: false }, soon()).unwrap();
    let Ok(Request::Answer(answer)) = stream.receive_request(soon()) else { return };
    let verdict = if answer.expose() == b"123456" { granted(&login.user) } else { Verdict::Refused };
    stream.send_reply(&Reply::Verdict(verdict), soon()).unwrap();
}

fn assert_code(output: &Output, code: &str) {
    let text = String::from_utf8_lossy(&output.stdout);
    let expected = format!("\"code\":\"{code}\"");
    assert!(text.contains(&expected), "{code}: {text} {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn where_no_daemon_is_reached_root_starts_one() {
    demand_root();
    let host = Host::new("", "");
    let output = host.run("exec", &login("authenticate"), "123456\n");
    assert_code(&output, "PAM_SUCCESS");
    assert!(output.status.success());
    assert_eq!(host.started(), "--once\n");
    let output = host.run("exec", &login("authenticate"), "999999\n");
    assert_code(&output, "PAM_AUTH_ERR");
    assert_eq!(output.status.code(), Some(1));
    assert_code(&host.run("exec", &login("account"), ""), IGNORED);
    assert_eq!(host.started(), "--once\n".repeat(3));
}

#[test]
fn the_usual_socket_may_be_named_and_another_one_has_no_fallback() {
    demand_root();
    let host = Host::new("socket=/run/privacyidea-host/auth.sock", "");
    assert_code(&host.run("exec", &login("authenticate"), "123456\n"), "PAM_SUCCESS");
    let host = Host::new("socket=/run/privacyidea-host/other.sock", "");
    assert_code(&host.run("exec", &login("authenticate"), "123456\n"), "PAM_AUTHINFO_UNAVAIL");
    assert_eq!(host.started(), "");
}

#[test]
fn a_caller_that_is_not_root_starts_none() {
    demand_root();
    let host = Host::new("", "");
    let output = host.run("exec setpriv --reuid 65534 --clear-groups", &login("authenticate"), "123456\n");
    assert_code(&output, "PAM_AUTHINFO_UNAVAIL");
    assert_eq!(host.started(), "");
}

#[test]
fn a_started_daemon_that_fails_is_unavailable() {
    demand_root();
    let host = Host::new("", "exit 1");
    assert_code(&host.run("exec", &login("authenticate"), "123456\n"), "PAM_AUTHINFO_UNAVAIL");
    assert_eq!(host.started(), "--once\n");
    fs::write(host.directory.path().join("privacyidea-cached"), "no program").unwrap();
    assert_code(&host.run("exec", &login("authenticate"), "123456\n"), "PAM_AUTHINFO_UNAVAIL");
}

#[test]
fn it_works_where_children_are_ignored_and_signals_are_blocked() {
    demand_root();
    // Python can ignore SIGCHLD, block every signal and restore SIGPIPE before it becomes the host program.
    let odd = "exec python3 -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.execv(sys.argv[1], sys.argv[1:])'";
    let host = Host::new("", "");
    assert_code(&host.run(odd, &login("authenticate"), "123456\n"), "PAM_SUCCESS");
    assert_eq!(host.started(), "--once\n");
}

#[test]
fn the_log_names_what_is_wrong_and_no_secret() {
    demand_root();
    let host = Host::new("url=http://user:hunter2@pi.example.org nullok debug", "");
    let log = UnixDatagram::bind(host.directory.path().join("log")).unwrap();
    log.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_code(&host.run("exec", &login("authenticate"), "123456\n"), "PAM_SERVICE_ERR");
    let lines = [receive(&log), receive(&log)];
    assert!(lines[0].contains("pam_privacyidea(test:auth)"), "{lines:?}");
    assert!(lines[0].contains("\"url\"") && lines[0].contains("https://"), "{lines:?}");
    assert!(lines[1].contains("\"nullok\""), "{lines:?}");
    assert!(lines.iter().all(|line| line.starts_with("<83>")), "authpriv, error: {lines:?}");
    assert!(!lines.concat().contains("hunter2"));

    let host = Host::new("debug offlineFile=/hunter2 sqlfile=/hunter2", "exit 1");
    let log = UnixDatagram::bind(host.directory.path().join("log")).unwrap();
    log.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut arguments = login("authenticate");
    arguments[4] = "hunter2";
    assert_code(&host.run("exec", &arguments, "123456\n"), "PAM_AUTHINFO_UNAVAIL");
    let line = receive(&log);
    // authpriv.info, once for both.
    assert!(line.starts_with("<86>") && line.contains("\"offlineFile\" has no effect"), "{line}");
    assert!(line.contains("privacyidea-host import") && !line.contains("hunter2"), "{line}");
    let line = receive(&log);
    assert!(line.contains("the daemon cannot be asked") && line.contains("an unknown user"), "{line}");
    assert!(!line.contains("hunter2") && !line.contains("123456"), "{line}");
}

fn receive(log: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let length = log.recv(&mut buffer).expect("a line in the log");
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

#[test]
fn pam_transaction_reports_for_people_and_for_programs() {
    let stack = Stack::new("");
    let daemon = stack.serve_verdict(Verdict::Refused);
    let confdir = stack.confdir().into_string().unwrap();
    let arguments = ["--confdir", &confdir, "--no-delay", "--service", "test", "--user", "root"];
    let output = Command::new(TRANSACTION).args(arguments).stdin(Stdio::null()).output().unwrap();
    daemon.join().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("authenticate  PAM_AUTH_ERR (7): Authentication failure\n"), "{text}");
    assert!(
        text.contains("delay asked for: ") && text.ends_with("not run after the failure: 1 more\n"),
        "{text}"
    );

    let stack = Stack::new("");
    let daemon = stack.serve(|mut stream| {
        stream.receive_request(soon()).unwrap();
        stream.send_reply(&Reply::Tell { text: "Say \"hi\".".to_owned(), error: false }, soon()).unwrap();
        let (name, value) = ("PRIVACYIDEA_NAME".to_owned(), "\"C\"=x".to_owned());
        stream.send_reply(&Reply::Export { name, value }, soon()).unwrap();
        stream.send_reply(&Reply::Verdict(granted("root")), soon()).unwrap();
    });
    let confdir = stack.confdir().into_string().unwrap();
    let arguments = ["--confdir", &confdir, "--json", "--phases", "authenticate,setcred", "test", "root"];
    let output = Command::new(TRANSACTION).args(arguments).stdin(Stdio::null()).output().unwrap();
    daemon.join().unwrap();
    assert!(output.status.success());
    let expected = r#"{"service":"test","user":"root","succeeded":true,"phases":[{"phase":"authenticate","code":"PAM_SUCCESS","number":0,"text":"Success","delay-microseconds":null,"messages":[{"style":"info","text":"Say \"hi\"."}]},{"phase":"setcred","code":"PAM_SUCCESS","number":0,"text":"Success","delay-microseconds":null,"messages":[]}],"environment":["PRIVACYIDEA_NAME=\"C\"=x"]}"#;
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{expected}\n"));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "Say \"hi\".\n");

    let output = Command::new(TRANSACTION).arg("--no-such-option").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// At a terminal: what is typed is not shown, and whatever ends the program, the terminal shows again afterwards.
#[test]
fn pam_transaction_hides_answers_and_puts_the_terminal_right() {
    for signal in [None, Some(libc::SIGINT), Some(libc::SIGTERM)] {
        let stack = Stack::new("");
        let daemon = stack.serve(|mut stream| {
            stream.receive_request(soon()).unwrap();
            stream.send_reply(&Reply::Ask { text: "Code: ".to_owned(), echo: false }, soon()).unwrap();
            let Ok(Request::Answer(answer)) = stream.receive_request(soon()) else { return Vec::new() };
            stream.send_reply(&Reply::Verdict(granted("root")), soon()).unwrap();
            answer.expose().to_vec()
        });
        let (mut keyboard, terminal) = terminal();
        let confdir = stack.confdir().into_string().unwrap();
        let mut command = Command::new(TRANSACTION);
        command.args(["--confdir", &confdir, "--phases", "authenticate", "test", "root"]);
        command.stdin(terminal.try_clone().unwrap()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut prompt = Vec::new();
        BufReader::new(child.stderr.take().unwrap()).read_until(b':', &mut prompt).unwrap();
        assert_eq!(prompt, b"Code:");
        assert!(!echoes(&terminal));
        if let Some(signal) = signal {
            let pid = libc::pid_t::try_from(child.id()).unwrap();
            // SAFETY: takes two numbers; the child has not been waited for.
            assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        } else {
            keyboard.write_all(b"123456\n").unwrap();
        }
        let status = child.wait().unwrap();
        let seen = status.signal();
        assert_eq!((seen, status.success()), (signal, signal.is_none()));
        assert!(echoes(&terminal));
        assert_eq!(daemon.join().unwrap(), if signal.is_none() { &b"123456"[..] } else { b"" });
    }
}

fn terminal() -> (fs::File, fs::File) {
    let (mut keyboard, mut terminal) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: two places that may be written to; name, attributes and size are left out.
    let opened =
        unsafe { libc::openpty(&mut keyboard, &mut terminal, none, std::ptr::null(), std::ptr::null()) };
    assert_eq!(opened, 0);
    [keyboard, terminal]
        .map(|descriptor| {
            // SAFETY: the call has just made it, and nobody else has it.
            fs::File::from(unsafe {
                <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(descriptor)
            })
        })
        .into()
}

fn echoes(terminal: &fs::File) -> bool {
    let mut attributes = std::mem::MaybeUninit::uninit();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(terminal);
    // SAFETY: writes the attributes.
    assert_eq!(unsafe { libc::tcgetattr(descriptor, attributes.as_mut_ptr()) }, 0);
    // SAFETY: the function has written them.
    let attributes: libc::termios = unsafe { attributes.assume_init() };
    attributes.c_lflag & libc::ECHO != 0
}

/// Not a test by itself: a host program in which SIGPIPE ends the process, and a daemon that goes away while the person
/// types, so that the answer is sent to nobody.
#[test]
#[ignore = "is run in a process of its own"]
fn sigpipe_host() {
    struct Slow(std::sync::mpsc::Receiver<()>);
    impl Talk for Slow {
        fn message(&mut self, _: Style, _: &str) -> Result<Option<Secret>, NoAnswer> {
            self.0.recv().map(|()| Some(Secret::from("123456"))).map_err(|_| NoAnswer)
        }
        fn delay(&mut self, _: u32) {}
    }
    // SAFETY: sets a default action.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let stack = Stack::new("");
    let (gone, is_gone) = std::sync::mpsc::channel();
    let daemon = stack.serve(move |mut stream| {
        stream.receive_request(soon()).unwrap();
        stream.send_reply(&Reply::Ask { text: "Code: ".to_owned(), echo: false }, soon()).unwrap();
        drop(stream);
        gone.send(()).unwrap();
    });
    let mut application =
        Application::start(c"test", c"root", Some(&stack.confdir()), Slow(is_gone)).unwrap();
    application.do_not_wait().unwrap();
    assert_eq!(application.call(Phase::Authenticate).name(), "PAM_AUTHINFO_UNAVAIL");
    daemon.join().unwrap();
}

#[test]
fn a_daemon_that_goes_away_ends_no_host_program() {
    let exe = std::env::current_exe().unwrap();
    let arguments = ["processes::sigpipe_host", "--exact", "--ignored"];
    let output = Command::new(exe).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{:?} {text}", output.status);
}

/// The conversation leaves nothing behind: neither memory that is lost nor reads of what is not there.
#[test]
fn a_login_is_clean_under_valgrind() {
    assert!(Command::new("valgrind").arg("--version").output().is_ok(), "install valgrind (tests/run does)");
    let stack = Stack::new("debug");
    let daemon = stack.serve(|mut stream| {
        stream.receive_request(soon()).unwrap();
        stream.send_reply(&Reply::Tell { text: "Hello.".to_owned(), error: false }, soon()).unwrap();
        stream.send_reply(&Reply::Ask { text: "Code: ".to_owned(), echo: false }, soon()).unwrap();
        stream.receive_request(soon()).unwrap();
        stream.send_reply(&Reply::Verdict(granted("root")), soon()).unwrap();
    });
    let confdir = stack.confdir().into_string().unwrap();
    let mut child = Command::new("valgrind")
        .args(["--quiet", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect,possible"])
        .args(["--show-leak-kinds=definite,indirect,possible", "--error-exitcode=99", TRANSACTION])
        .args(["--confdir", &confdir, "--phases", "authenticate,setcred", "test", "root"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"123456\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    daemon.join().unwrap();
}
