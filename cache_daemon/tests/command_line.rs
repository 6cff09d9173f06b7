//! `privacyidea-host` from the outside: the real program, where it needs no daemon.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command as Process, Output};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::json;

fn program(arguments: &[&str]) -> Output {
    Process::new(env!("CARGO_BIN_EXE_privacyidea-host")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Every command with what its long help must speak of.
const COMMANDS: [(&[&str], &[&str]); 22] = [
    (
        &[],
        &["token", "user", "cache", "status", "check-config", "test-login", "log", "completions", "--json"],
    ),
    (&["token"], &["enrol", "confirm", "list", "show", "resync", "unlock", "set-pin", "remove"]),
    (
        &["token", "enrol"],
        &[
            "--type",
            "--digits",
            "--algorithm",
            "--period",
            "--pin",
            "--pin-from-stdin",
            "--pin-position",
            "--seed-from-stdin",
            "--description",
            "--no-verify",
            "--recovery-codes",
            "--unknown-user",
            "--qr",
            "Examples:",
        ],
    ),
    (&["token", "confirm"], &["<SERIAL>", "Examples:"]),
    (&["token", "list"], &["[USER]", "Examples:"]),
    (&["token", "show"], &["<SERIAL>", "Examples:"]),
    (&["token", "resync"], &["<SERIAL>", "Examples:"]),
    (&["token", "unlock"], &["<SERIAL|USER>", "Examples:"]),
    (&["token", "set-pin"], &["--pin-from-stdin", "--no-pin", "Examples:"]),
    (&["token", "remove"], &["--yes", "Examples:"]),
    (&["user"], &["add", "remove", "list"]),
    (
        &["user", "add"],
        &["--uid", "--gid", "--full-name", "--gecos", "--home", "--shell", "--resolver", "Examples:"],
    ),
    (&["user", "remove"], &["--yes", "Examples:"]),
    (&["user", "list"], &["Examples:"]),
    (&["cache"], &["flush", "list"]),
    (&["cache", "flush"], &["[USER]", "Examples:"]),
    (&["cache", "list"], &["--json"]),
    (&["status"], &["--json", "Examples:"]),
    (&["check-config"], &["[FILE]", "Examples:"]),
    (&["test-login"], &["--service", "--rhost", "Examples:"]),
    (&["log"], &["--since", "--limit", "Examples:"]),
    (&["completions"], &["<SHELL>", "Examples:"]),
];

#[test]
fn the_help_of_every_command_speaks_of_all_it_takes() {
    for (command, words) in COMMANDS {
        let output = program(&[command, &["--help"]].concat());
        assert_eq!(output.status.code(), Some(0), "{command:?}");
        let help = text(&output.stdout);
        for word in words {
            assert!(help.contains(word), "{command:?} does not speak of {word}:\n{help}");
        }
    }
}

#[test]
fn without_arguments_there_is_an_overview() {
    let output = program(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("privacyidea-host status"));
}

#[test]
fn a_wrong_command_line_is_status_2_and_says_what_was_meant() {
    for (arguments, hint) in [
        (&["tokn"][..], "'token'"),
        (&["token", "enrol", "alice", "--digit", "6"], "'--digits'"),
        (&["token", "enrol", "alice", "--digits", "5"], "6..=8"),
        (&["token", "enrol", "alice", "--pin", "1234"], "'1234'"),
        (&["token", "enrol", "alice", "--type", "topt"], "'totp'"),
        (&["log", "--since", "yesterday"], "30m"),
        (&["token", "enrol"], "<USER>"),
    ] {
        let output = program(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let errors = text(&output.stderr);
        assert!(errors.contains(hint), "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn check_config_says_valid_or_where_the_mistake_is() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = write("good.toml", "[lockout]\nafter = 5\n");
    let output = program(&["check-config", &good]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), format!("{good} is valid.\n")));

    let bad = write("bad.toml", "[lockout]\nafter = 5\nafterwards = 6\n");
    let output = program(&["check-config", &bad]);
    assert_eq!(output.status.code(), Some(1));
    let sentence = text(&output.stderr);
    for word in [&bad, "line 3", "afterwards"] {
        assert!(sentence.contains(word), "{sentence}");
    }

    let output = program(&["check-config", "--json", &bad]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &answer["answer"]), (Some(1), &json!("refused")));

    let without =
        write("without.toml", "[server]\nurl = 'https://pi.example'\nca-file = '/nonexistent/ca.pem'\n");
    let output = program(&["check-config", &without]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("/nonexistent/ca.pem cannot be read"), "{output:?}");

    let missing = directory.path().join("missing.toml");
    assert_eq!(program(&["check-config", missing.to_str().unwrap()]).status.code(), Some(1));
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(ours);
    let mut process = Process::new(env!("CARGO_BIN_EXE_privacyidea-host"));
    let output = process.args(["completions", "bash"]).stdout(OwnedFd::from(theirs)).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
fn an_interrupted_question_leaves_the_terminal_as_it_was() {
    let (mut screen, keyboard) = terminal();
    let echoes = |terminal: &OwnedFd| tcgetattr(terminal).unwrap().local_modes.contains(LocalModes::ECHO);
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15)] {
        assert!(echoes(&keyboard));
        let mut child = Process::new(env!("CARGO_BIN_EXE_privacyidea-host"))
            .args(["token", "set-pin", "TOTP0001"])
            .stdin(keyboard.try_clone().unwrap())
            .stderr(keyboard.try_clone().unwrap())
            .spawn()
            .unwrap();
        read_until(&mut screen, "New PIN (not shown): ");
        assert!(!echoes(&keyboard));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(number));
    }
    assert!(echoes(&keyboard));
}

#[test]
fn a_pin_that_is_typed_is_not_shown() {
    let (mut screen, keyboard) = terminal();
    let mut child = Process::new(env!("CARGO_BIN_EXE_privacyidea-host"))
        .args(["token", "set-pin", "TOTP0001"])
        .stdin(keyboard.try_clone().unwrap())
        .stderr(keyboard.try_clone().unwrap())
        .spawn()
        .unwrap();
    let mut seen = read_until(&mut screen, "New PIN (not shown): ");
    screen.write_all(b"4711\n").unwrap();
    seen += &read_until(&mut screen, "The same again: ");
    screen.write_all(b"0815\n").unwrap();
    seen += &read_until(&mut screen, "New PIN (not shown): ");
    // Ctrl-D: no answer.
    screen.write_all(&[4]).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(seen.contains("two different PINs"), "{seen}");
    assert!(!seen.contains("4711") && !seen.contains("0815"), "{seen}");
}

/// A pseudo terminal: what a person sees and types, and what a program has as its streams.
fn terminal() -> (File, OwnedFd) {
    let screen = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    rustix::pty::grantpt(&screen).unwrap();
    rustix::pty::unlockpt(&screen).unwrap();
    let name = rustix::pty::ptsname(&screen, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let keyboard = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap();
    (File::from(screen), keyboard)
}

fn read_until(screen: &mut File, end: &str) -> String {
    let mut seen = String::new();
    while !seen.ends_with(end) {
        let mut bytes = [0; 1];
        screen.read_exact(&mut bytes).unwrap();
        seen.push(bytes[0].into());
    }
    seen
}

#[test]
fn manual_pages_are_clean_and_completions_are_there() {
    let directory = tempfile::tempdir().unwrap();
    cache_daemon::command_line::documents::write(directory.path()).unwrap();
    let man = directory.path().join("man");
    assert_eq!(std::fs::read_dir(&man).unwrap().count(), COMMANDS.len());
    for (command, _) in COMMANDS {
        let page = man.join(format!("{}.8", [&["privacyidea-host"], command].concat().join("-")));
        let source = std::fs::read_to_string(&page).unwrap();
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "\"EXIT STATUS\"", "\"SEE ALSO\""] {
            assert!(source.contains(&format!(".SH {section}\n")), "{} has no {section}", page.display());
        }
        check_manual_page(&page);
    }
    let completions = directory.path().join("completions");
    let bash = completions.join("privacyidea-host.bash");
    assert!(Process::new("bash").arg("-n").arg(&bash).status().unwrap().success());
    for name in ["_privacyidea-host", "privacyidea-host.fish"] {
        assert!(completions.join(name).exists(), "{name}");
    }
}

#[test]
fn the_documents_name_only_commands_that_there_are() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let pages = std::fs::read_dir(project.join("docs/man")).unwrap().map(|page| page.unwrap().path());
    let pages: Vec<_> = pages.collect();
    pages.iter().for_each(|page| check_manual_page(page));
    let texts = std::fs::read_dir(project.join("docs")).unwrap().map(|text| text.unwrap().path());
    let others = ["README.md", "CONTRIBUTING.md", "etc/config.toml"].map(|name| project.join(name));
    let mut named = 0;
    for path in pages.into_iter().chain(texts.filter(|path| path.is_file())).chain(others) {
        let text = std::fs::read_to_string(&path).unwrap().replace("\\-", "-");
        for (line, words) in
            text.lines().flat_map(|line| named_commands(line).map(move |words| (line, words)))
        {
            let is_there = COMMANDS.iter().any(|(command, _)| **command == words[..]);
            // What follows a command without subcommands is its argument.
            let is_argument = COMMANDS.iter().any(|(command, _)| **command == words[..1])
                && !["token", "user", "cache"].contains(&words[0]);
            assert!(is_there || is_argument, "{}: {line}", path.display());
            named += 1;
        }
    }
    assert!(named > 20, "{named}");
}

/// The one or two words after the program's name, wherever it stands as something to type.
fn named_commands(line: &str) -> impl Iterator<Item = Vec<&str>> {
    line.match_indices("privacyidea-host ").filter_map(move |(at, name)| {
        let before = line[..at].trim_end();
        if !(before.is_empty() || before.ends_with(['`', '"', '(', ';', ':', '#', '&'])) {
            return None;
        }
        let mut words = Vec::new();
        for word in line[at + name.len()..].split(' ').take(2) {
            let end = word.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(word.len());
            words.extend(Some(&word[..end]).filter(|word| !word.is_empty()));
            if end < word.len() {
                break;
            }
        }
        Some(words).filter(|words| !words.is_empty())
    })
}

#[test]
fn bash_completes_commands_options_and_values() {
    let script = text(&program(&["completions", "bash"]).stdout);
    for (typed, expected) in [
        ("to", "token"),
        ("token e", "enrol"),
        ("token enrol --ty", "--type"),
        ("token enrol --type re", "recovery-codes"),
        ("test-login --s", "--service"),
        ("token set-pin --no", "--no-pin"),
    ] {
        let press_tab = format!(
            "{script}\nCOMP_WORDS=(privacyidea-host {typed}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             _privacyidea__host privacyidea-host \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"\n\
             echo \"${{COMPREPLY[@]}}\""
        );
        let output = Process::new("bash").args(["-c", &press_tab]).output().unwrap();
        let offered = text(&output.stdout);
        assert!(offered.split_whitespace().any(|word| word == expected), "{typed}: {offered}");
    }
}

/// As the archive's own checks do it.
fn check_manual_page(page: &Path) {
    let mut man = Process::new("man");
    man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]).arg(page).env("LC_ALL", "C.UTF-8");
    let output = man.output().expect("install man-db (tests/run does)");
    assert_eq!(text(&output.stderr), "", "{}", page.display());
}
