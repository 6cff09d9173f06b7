use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::*;

const EXAMPLE: &str = include_str!("../../../etc/config.toml");
const MANUAL: &str = include_str!("../../../docs/man/privacyidea-host.toml.5");

fn mistake(text: &str) -> String {
    Settings::parse(text).expect_err(text).to_string()
}

/// The keys that the code knows, as `section.key`: every section is asked about a key that cannot exist, and the
/// refusal lists those that can.
fn known_keys() -> BTreeSet<String> {
    let expected = |text: &str| -> Vec<String> {
        let message = mistake(text);
        assert!(message.contains("unknown field `no-such-key`"), "{message}");
        message.split('`').skip(1).step_by(2).skip(1).map(str::to_owned).collect()
    };
    let mut keys = BTreeSet::new();
    for section in expected("no-such-key = 1") {
        let heading = match section.as_str() {
            // Its keys are the administrator's.
            "attributes" => continue,
            "resolver" | "realm-rule" => format!("[[{section}]]"),
            _ => format!("[{section}]"),
        };
        for key in expected(&format!("{heading}\nno-such-key = 1")) {
            keys.insert(format!("{section}.{key}"));
        }
    }
    keys
}

#[test]
fn the_example_names_exactly_the_keys_that_the_code_knows() {
    let mut named = BTreeSet::new();
    let mut section = String::new();
    for line in EXAMPLE.lines().map(|line| line.trim_start_matches('#')) {
        if let Some(heading) = line.strip_prefix('[') {
            section = heading.trim_matches(['[', ']']).to_owned();
        } else if let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with(' ')) {
            named.insert(format!("{section}.{key}"));
        }
    }
    assert!(named.remove("attributes.PRIVACYIDEA_MAIL"));
    assert_eq!(named, known_keys());
}

#[test]
fn the_manual_page_names_exactly_the_keys_that_the_code_knows() {
    let mut named = BTreeSet::new();
    let mut section = String::new();
    let text = MANUAL.replace("\\-", "-");
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix(".SH ") {
            section = heading.trim_matches(['[', ']']).to_owned();
        } else if line == ".TP" {
            let item = lines.next().unwrap_or_default();
            if let Some((key, _)) = item.strip_prefix(".BR ").and_then(|item| item.split_once(" \" = ")) {
                named.insert(format!("{section}.{key}"));
            }
        }
    }
    assert!(named.remove("attributes.PRIVACYIDEA_MAIL"));
    assert_eq!(named, known_keys());
}

#[test]
fn the_example_as_shipped_and_uncommented_says_the_defaults() {
    assert_eq!(Settings::parse(EXAMPLE), Ok(Settings::default()));
    let uncommented: String = EXAMPLE
        .lines()
        .map(|line| {
            let is_setting =
                line.strip_prefix('#').is_some_and(|rest| !rest.starts_with([' ']) && !rest.is_empty());
            format!("{}\n", if is_setting { &line[1..] } else { line })
        })
        .collect();
    let mut settings = Settings::parse(&uncommented).expect("the example uncommented");
    let server = settings.server.take().expect("a server");
    // Examples, not defaults.
    assert_eq!(settings.attributes.0.remove("PRIVACYIDEA_MAIL").as_deref(), Some("email"));
    assert_eq!(
        settings.realm_rules.drain(..).next(),
        Settings::parse(RULES).expect("rules").realm_rules.pop()
    );
    assert_eq!(settings, Settings::default());
    assert_eq!(server.connect_timeout, default_connect_timeout());
    assert_eq!(server.timeout, default_server_timeout());
    assert!(!server.local_accounts);
}

#[test]
fn the_defaults_of_the_manual_page_are_the_defaults() {
    let text = MANUAL.replace("\\-", "-").replace("\\(dq", "\"");
    let mut toml = String::new();
    let mut skipped = true;
    for line in text.lines() {
        if let Some(section) = line.strip_prefix(".SH ") {
            // Sections whose values are examples.
            skipped = !section.starts_with('[')
                || ["[server]", "[[realm-rule]]", "[attributes]"].contains(&section);
            if !skipped {
                toml += &format!("{section}\n");
            }
        } else if let Some((key, value)) =
            line.strip_prefix(".BR ").and_then(|item| item.split_once(" \" = "))
        {
            if !skipped {
                toml += &format!("{key} = {}\n", value.strip_suffix('"').unwrap_or(value));
            }
        }
    }
    assert!(toml.contains("negative-timeout"), "{toml}");
    assert_eq!(Settings::parse(&toml), Ok(Settings::default()), "{toml}");
}

#[test]
fn an_empty_text_says_the_defaults() {
    assert_eq!(Settings::parse(""), Ok(Settings::default()));
    assert_eq!(Settings::parse("resolver = []"), Ok(Settings::default()));
}

const RULES: &str = "[[realm-rule]]\nservice = 'sshd'\nuser = 'adm-*'\nrealm = 'admins'";

#[test]
fn every_value_is_taken() {
    let settings = Settings::parse(
        r#"
        [server]
        url = "https://mfa.example.org/pi/"
        realm = "staff"
        ca-file = "/etc/ca.pem"
        connect-timeout = "2s"
        timeout = "15s"
        local-accounts = true
        [identity]
        split-at-sign = true
        require-token = true
        [[realm-rule]]
        service = "sshd"
        user = "adm-*"
        realm = "admins"
        [attributes]
        PRIVACYIDEA_MAIL = "email"
        [lockout]
        after = 0
        for = "until-unlocked"
        reset-all-user-tokens = true
        throttle-after = 1
        throttle-longest = "0s"
        [tokens]
        hotp-window = 20
        totp-window = 2
        resync-window = 20
        auto-resync = false
        [offline]
        enabled = true
        window = 5
        refill-below = 60
        maximum-age = "7d"
        warn-below = 0
        second-factor-services = ["sshd", "sudo-i"]
        [[resolver]]
        name = "one"
        type = "files"
        passwd = "/a"
        group = "/b"
        [[resolver]]
        name = "two"
        type = "files"
        passwd = "/c"
        group = "/d"
        [challenge]
        push-wait = "90s"
        begin-at-server = true
        never-in = ["xrdp-*", "cockpit"]
        [cache]
        timeout = "1s"
        negative-timeout = "2s"
        stale-for = "3d"
        enumerate = true
        first-id = 20000
        [prompt]
        code = "Code: "
        "#,
    )
    .expect("valid");
    let second = Duration::from_secs(1);
    let files = |name: &str, passwd: &str, group: &str| Resolver {
        name: name.to_owned(),
        kind: ResolverKind::Files { passwd: passwd.into(), group: group.into() },
    };
    let expected = Settings {
        server: Some(Server {
            url: "https://mfa.example.org/pi".to_owned(),
            realm: Some("staff".to_owned()),
            ca_file: Some("/etc/ca.pem".into()),
            connect_timeout: 2 * second,
            timeout: 15 * second,
            local_accounts: true,
            any_certificate: false,
        }),
        identity: Identity { split_at_sign: true, require_token: true },
        realm_rules: Settings::parse(RULES).expect("rules").realm_rules,
        attributes: Attributes([("PRIVACYIDEA_MAIL".to_owned(), "email".to_owned())].into()),
        lockout: Lockout {
            after: 0,
            period: LockPeriod::UntilUnlocked,
            reset_all_user_tokens: true,
            throttle_after: 1,
            throttle_longest: Duration::ZERO,
        },
        tokens: Tokens { hotp_window: 20, totp_window: 2, resync_window: 20, auto_resync: false },
        offline: Offline {
            enabled: true,
            window: 5,
            refill_below: 60,
            maximum_age: 7 * 86_400 * second,
            warn_below: 0,
            second_factor_services: vec!["sshd".to_owned(), "sudo-i".to_owned()],
        },
        resolvers: Resolvers(vec![files("one", "/a", "/b"), files("two", "/c", "/d")]),
        challenge: Challenge {
            push_wait: 90 * second,
            begin_at_server: true,
            never_in: vec![Pattern("xrdp-*".into()), Pattern("cockpit".into())],
        },
        cache: Cache {
            timeout: second,
            negative_timeout: 2 * second,
            stale_for: 3 * 86_400 * second,
            enumerate: true,
            first_id: 20_000,
        },
        prompt: Prompt { code: "Code: ".to_owned() },
    };
    assert_eq!(settings, expected);
}

#[test]
fn a_mistake_says_line_key_and_what_is_allowed() {
    for (text, expected) in [
        (
            "[lockout]\nafter = 5000",
            "line 2, key lockout.after: invalid value: integer `5000`, expected a whole number from 0 to 1000",
        ),
        (
            "[cache]\n\ntimeout = 600",
            "line 3, key cache.timeout: invalid type: integer `600`, expected a time from 1s to 30d, as \"90s\", \
             \"30m\", \"12h\" or \"1d\"",
        ),
        ("[prompt]\ncodes = 'x'", "line 2, key prompt.codes: unknown field `codes`, expected `code`"),
        (
            "[[resolver]]\nname = 'a'\ntype = 'ldap'",
            "line 3, key resolver.type: unknown variant `ldap`, expected `files`",
        ),
        ("[server]\nrealm = 'x'", "line 1, key server: missing field `url`"),
        (
            "[server]\nurl = 'http://a'",
            "line 2, key server.url: \"http://a\" would send one-time passwords over the network unencrypted; use \
             https://",
        ),
        (
            "[server]\nurl = 'https://a'\ntimeout = '3s'\nconnect-timeout = '4s'",
            "line 4, key server.connect-timeout: connecting may not take longer than the whole request, whose timeout \
             is 3 seconds",
        ),
        (
            "[server]\nurl = 'https://a'\nany-certificate = true",
            "line 3, key server.any-certificate: unknown field `any-certificate`, expected one of `url`, `realm`, \
             `ca-file`, `connect-timeout`, `timeout`, `local-accounts`",
        ),
        (
            "[[realm-rule]]\nrealm = 'x'",
            "line 1, key realm-rule: a rule without service and user would be for everybody; set realm in [server] for \
             that",
        ),
        (
            "[tokens]\nresync-window = 10\nhotp-window = 11",
            "line 2, key tokens.resync-window: the window to resynchronise in may not be smaller than hotp-window",
        ),
    ] {
        assert_eq!(mistake(text), expected);
    }
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    for text in [
        "a",
        "\n[x",
        "[cache]\ntimeout = ",
        "[cache]\nenumerate = true\nenumerate = true",
        "[cache]\n[cache]",
    ] {
        let message = mistake(text);
        assert!(message.starts_with("line ") && !message.contains('\n'), "{message}");
    }
}

#[test]
fn values_out_of_their_limits_are_refused() {
    for text in [
        "[lockout]\nafter = -1",
        "[lockout]\nafter = 1.5",
        "[lockout]\nfor = '59s'",
        "[lockout]\nfor = 'forever'",
        "[lockout]\nthrottle-longest = '11m'",
        "[challenge]\npush-wait = '4s'",
        "[challenge]\npush-wait = '111s'",
        "[challenge]\nnever-in = 'sshd'",
        "[tokens]\nhotp-window = 0",
        "[tokens]\ntotp-window = 11",
        "[tokens]\nresync-window = 10001",
        "[tokens]\nauto-resync = 'yes'",
        "[offline]\nwindow = 0",
        "[offline]\nwindow = 101",
        "[offline]\nrefill-below = 1001",
        "[offline]\nwarn-below = -1",
        "[offline]\nmaximum-age = '59m'",
        "[offline]\nmaximum-age = '366d'",
        "[offline]\nsecond-factor-services = 'sshd'",
        "[offline]\nsecond-factor-services = ['../sshd']",
        "[offline]\nsecond-factor-services = ['']",
        "[cache]\ntimeout = '0s'",
        "[cache]\nfirst-id = 999",
        "[cache]\nfirst-id = 4294967296",
        "[prompt]\ncode = ''",
        "[prompt]\ncode = \"a\\u001b[2J\"",
        "[server]\nurl = 'https://a'\ntimeout = '16s'",
        "[server]\nurl = 'https://a'\nca-file = 'ca.pem'",
        "[server]\nurl = 'https://a'\nrealm = ''",
        "[[realm-rule]]\nuser = ''\nrealm = 'x'",
        "[[realm-rule]]\nuser = 'a'",
        "[[realm-rule]]\nuser = 'a'\nrealm = ''",
        "[[realm-rule]]\nuser = 'a'\nrealm = 'x'\nhost = 'y'",
        "[[resolver]]\nname = 'a b'\ntype = 'files'\npasswd = '/a'\ngroup = '/b'",
        "[[resolver]]\nname = 'a'\ntype = 'files'\npasswd = '/a'",
        "[[resolver]]\nname='a'\ntype='files'\npasswd='/a'\ngroup='/b'\n\
         [[resolver]]\nname='a'\ntype='files'\npasswd='/a'\ngroup='/b'",
    ] {
        mistake(text);
    }
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("config.toml");
    assert_eq!(Settings::load(&path).expect("missing"), Settings::default());
    std::fs::write(&path, "[cache]\nenumerate = true\n").expect("write");
    let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("chmod");
    for refused in [0o660, 0o606, 0o666, 0o620] {
        mode(refused);
        let error = Settings::load(&path).expect_err("refused");
        assert!(matches!(error, SettingsError::Untrusted { .. }), "{error}");
        assert!(error.to_string().contains("chmod go-w"), "{error}");
    }
    for taken in [0o640, 0o600, 0o644] {
        mode(taken);
        assert!(Settings::load(&path).expect("taken").cache.enumerate);
    }
    std::fs::write(&path, "\n[cache]\ntimeout = 1\n").expect("write");
    let message = Settings::load(&path).expect_err("refused").to_string();
    assert!(message.starts_with(&format!("{}, line 3, key cache.timeout: ", path.display())), "{message}");
}

#[test]
fn a_foreign_owner_a_directory_and_other_bytes_are_refused() {
    let directory = tempfile::tempdir().expect("directory");
    assert!(matches!(Settings::load(directory.path()), Err(SettingsError::Untrusted { .. })));
    let path = directory.path().join("config.toml");
    std::fs::write(&path, b"# one\n# \xff\n").expect("write");
    let message = Settings::load(&path).expect_err("refused").to_string();
    assert!(message.contains("line 2: a byte is not UTF-8"), "{message}");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(4711), None).expect("chown");
        let message = Settings::load(&path).expect_err("refused").to_string();
        assert!(message.contains("uid 4711"), "{message}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "(\\PC|\n|\\[|\\]|=|\"|cache|server|timeout|url|#){0,60}") {
        if let Err(mistake) = Settings::parse(&text) {
            prop_assert!(!mistake.to_string().contains('\n'));
            prop_assert!(mistake.line <= 1 + text.matches('\n').count());
        }
    }

    #[test]
    fn no_value_makes_the_parser_panic(value in "\\PC{0,30}", key in "(after|for|throttle-longest|throttle-after)") {
        let _ = Settings::parse(&format!("[lockout]\n{key} = {value}"));
        let _ = Settings::parse(&format!("[server]\nurl = 'https://{value}'"));
    }
}
