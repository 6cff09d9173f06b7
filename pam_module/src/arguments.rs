//! What a line in `/etc/pam.d` may say after `pam_privacyidea.so`.

use std::path::{Path, PathBuf};

use privacyidea_contract::paths;
use privacyidea_contract::wire::{FirstStep, Overrides};

/// A line's arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// `debug`: how a login went is logged in detail (never what was typed).
    pub(crate) debug: bool,
    /// What to do with a password that an earlier module asked for.
    pub(crate) first_pass: FirstPass,
    /// `prompt=TEXT`, with a final space.
    pub(crate) prompt: Option<String>,
    /// `socket=PATH`, or `auth.sock`'s usual place.
    pub(crate) socket: PathBuf,
    /// What the arguments of the older modules say that the settings say, too.
    pub(crate) overrides: Overrides,
    /// Arguments that have no effect because the file that they name is imported once.
    pub(crate) imported: Vec<&'static str>,
}

/// What to do with a password that an earlier module asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstPass {
    /// Nothing; ask.
    Unused,
    /// `try_first_pass`: use it, ask for whatever else is needed.
    Try,
    /// `use_first_pass`: use it, never ask.
    Use,
}

/// Why a line is refused; `Display` says what to do about it. An argument's value is not repeated: it may be secret.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ArgumentError {
    /// There is no such argument.
    Unknown(String),
    /// An argument with a value has none, or the other way round.
    Value(&'static str),
    /// A value is longer than it may be.
    TooLong(&'static str),
    /// `socket=` or `cacerts=` is no absolute path.
    RelativePath(&'static str),
    /// `url=` is no https address.
    NoHttps,
    /// `pollTime=` is no number of seconds.
    PollTime,
    /// `nossl`, `nosslverify` or `cacerts=` without `url=`: they are never about the settings' server.
    WithoutUrl(&'static str),
    /// `use_first_pass` and `try_first_pass`.
    BothFirstPasses,
}

/// The longest `pollTime=`, in seconds; the daemon has a limit of its own.
const POLL_TIME_MAX: u32 = 3600;

impl Arguments {
    /// Reads a line's arguments.
    ///
    /// # Errors
    /// Everything that is wrong with them, so that it can be put right in one go.
    pub(crate) fn read(words: &[String]) -> Result<Self, Vec<ArgumentError>> {
        let mut arguments = Self {
            debug: false,
            first_pass: FirstPass::Unused,
            prompt: None,
            socket: PathBuf::from(paths::AUTH_SOCKET),
            overrides: Overrides::default(),
            imported: Vec::new(),
        };
        let words = with_whole_prompts(words);
        let mut errors: Vec<_> = words.iter().filter_map(|word| arguments.read_one(word).err()).collect();
        errors.extend(arguments.contradiction(&words));
        if errors.is_empty() { Ok(arguments) } else { Err(errors) }
    }

    /// Whether the socket is the daemon's own. With another one no daemon may be started in its place: it would read
    /// other databases.
    pub(crate) fn has_usual_socket(&self) -> bool {
        self.socket == Path::new(paths::AUTH_SOCKET)
    }

    fn read_one(&mut self, word: &str) -> Result<(), ArgumentError> {
        match word.split_once('=') {
            None => self.read_flag(word),
            Some((name, value)) => self.read_value(name, value),
        }
    }

    fn read_flag(&mut self, word: &str) -> Result<(), ArgumentError> {
        match word {
            "debug" => self.debug = true,
            "try_first_pass" => self.first_pass = FirstPass::Try,
            "use_first_pass" => self.first_pass = FirstPass::Use,
            "nossl" | "nosslverify" => self.overrides.any_certificate = true,
            // Of both, `sendPassword` counts.
            "sendEmptyPass" => {
                self.overrides.first_step.get_or_insert(FirstStep::EmptyPassword);
            }
            "sendPassword" => self.overrides.first_step = Some(FirstStep::Password),
            _ => return Err(without_value(word)),
        }
        Ok(())
    }

    fn read_value(&mut self, name: &str, value: &str) -> Result<(), ArgumentError> {
        match name {
            "prompt" => self.prompt = Some(prompt(value)?),
            "socket" => self.socket = PathBuf::from(absolute("socket", value)?),
            "url" => self.overrides.url = Some(https(value)?),
            // An empty one means the server's default realm, as ever.
            "realm" if value.is_empty() => self.overrides.realm = None,
            "realm" => {
                self.overrides.realm = Some(bounded("realm", value, Overrides::REALM_LENGTH_MAX)?);
            }
            "cacerts" => {
                let path = absolute("cacerts", value)?;
                self.overrides.ca_file = Some(bounded("cacerts", path, Overrides::PATH_LENGTH_MAX)?);
            }
            "pollTime" => self.overrides.poll_time = Some(seconds(value)?),
            "offlineFile" => self.imported.push("offlineFile"),
            "sqlfile" => self.imported.push("sqlfile"),
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// What is right by itself, but not beside the rest.
    fn contradiction(&mut self, words: &[String]) -> Vec<ArgumentError> {
        let has = |name: &str| words.iter().any(|word| word == name);
        let mut errors = Vec::new();
        if has("use_first_pass") && has("try_first_pass") {
            errors.push(ArgumentError::BothFirstPasses);
        }
        if !words.iter().any(|word| word.starts_with("url=")) {
            let of_the_url = [("nossl", has("nossl")), ("nosslverify", has("nosslverify"))];
            let of_the_url = of_the_url.into_iter().chain([("cacerts", self.overrides.ca_file.is_some())]);
            errors.extend(
                of_the_url.filter(|(_, is_there)| *is_there).map(|(name, _)| ArgumentError::WithoutUrl(name)),
            );
        }
        // What an earlier module asked for is sent first; without one, the person is asked.
        if self.overrides.first_step == Some(FirstStep::Password) && self.first_pass == FirstPass::Unused {
            self.first_pass = FirstPass::Try;
        }
        errors
    }
}

impl std::fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(name) => write!(
                f,
                "unknown argument {name:?}: known are debug, use_first_pass, try_first_pass, prompt=TEXT, socket=PATH and \
                 those of the older privacyIDEA modules; see pam_privacyidea(8)"
            ),
            Self::Value(name) => {
                write!(f, "the argument {name:?} needs a value: write {name}=…, in brackets if it has spaces")
            }
            Self::TooLong(name) => write!(f, "the value of the argument {name:?} is too long"),
            Self::RelativePath(name) => write!(f, "the argument {name:?} needs an absolute path"),
            Self::NoHttps => f.write_str(
                "the argument \"url\" needs an address that begins with https://; without TLS, codes would be sent \
                 unencrypted",
            ),
            Self::PollTime => {
                write!(f, "the argument \"pollTime\" needs a number of seconds from 0 to {POLL_TIME_MAX}")
            }
            Self::WithoutUrl(name) => write!(
                f,
                "the argument {name:?} belongs to url=: whom the server in {} is known by is set there; remove it from \
                 the line",
                paths::SETTINGS
            ),
            Self::BothFirstPasses => {
                f.write_str("use_first_pass and try_first_pass exclude each other: remove one of them")
            }
        }
    }
}

/// An argument that has no value, though it needs one, or that there is not.
fn without_value(word: &str) -> ArgumentError {
    const WITH_VALUE: [&str; 8] =
        ["prompt", "socket", "url", "realm", "cacerts", "pollTime", "offlineFile", "sqlfile"];
    match WITH_VALUE.into_iter().find(|name| *name == word) {
        Some(name) => ArgumentError::Value(name),
        None => unknown(word),
    }
}

fn unknown(name: &str) -> ArgumentError {
    // The name is somebody's typing: not all of it, should it be a secret after all.
    ArgumentError::Unknown(name.chars().take(32).collect())
}

/// A frequent mistake is to write `prompt=[Your code:]` where `[prompt=Your code:]` is meant. libpam looks for brackets
/// at the beginning of a word only, so that arrives in pieces.
fn with_whole_prompts(words: &[String]) -> Vec<String> {
    let mut whole: Vec<String> = Vec::new();
    let mut is_open = false;
    for word in words {
        match whole.last_mut().filter(|_| is_open) {
            Some(prompt) => {
                prompt.push(' ');
                prompt.push_str(word);
            }
            None => whole.push(word.clone()),
        }
        is_open = (is_open || word.starts_with("prompt=[")) && !word.ends_with(']');
    }
    // Never closed: whatever it swallowed may be no text of a prompt.
    if is_open { words.to_vec() } else { whole }
}

/// The same mistake with a text of one word: same meaning here.
fn prompt(text: &str) -> Result<String, ArgumentError> {
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    match text.trim_end() {
        "" => Err(ArgumentError::Value("prompt")),
        text => Ok(format!("{text} ")),
    }
}

/// What the daemon makes of the rest of it, it says itself.
fn https(text: &str) -> Result<String, ArgumentError> {
    match text.get(..8) {
        Some(scheme) if scheme.eq_ignore_ascii_case("https://") => {
            bounded("url", &format!("https://{}", &text[8..]), Overrides::URL_LENGTH_MAX)
        }
        _ if text.is_empty() => Err(ArgumentError::Value("url")),
        _ => Err(ArgumentError::NoHttps),
    }
}

fn absolute<'a>(name: &'static str, path: &'a str) -> Result<&'a str, ArgumentError> {
    if path.starts_with('/') { Ok(path) } else { Err(ArgumentError::RelativePath(name)) }
}

fn bounded(name: &'static str, text: &str, longest: usize) -> Result<String, ArgumentError> {
    if text.len() > longest { Err(ArgumentError::TooLong(name)) } else { Ok(text.to_owned()) }
}

fn seconds(text: &str) -> Result<u32, ArgumentError> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|seconds| is_number && *seconds <= POLL_TIME_MAX);
    number.ok_or(ArgumentError::PollTime)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Arguments, Vec<ArgumentError>> {
        Arguments::read(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn an_empty_line_asks_the_usual_daemon() {
        let arguments = read(&[]).unwrap();
        assert!(arguments.has_usual_socket() && !arguments.debug);
        assert_eq!((arguments.first_pass, arguments.prompt), (FirstPass::Unused, None));
    }

    #[test]
    fn every_argument_is_read() {
        let arguments = read(&["debug", "try_first_pass", "prompt=OTP:", "socket=/run/x/auth.sock"]).unwrap();
        assert!(arguments.debug && !arguments.has_usual_socket());
        assert_eq!(arguments.first_pass, FirstPass::Try);
        assert_eq!(arguments.prompt.as_deref(), Some("OTP: "));
        assert_eq!(read(&["use_first_pass"]).unwrap().first_pass, FirstPass::Use);
    }

    #[test]
    fn a_prompt_ends_with_one_space_and_has_no_brackets() {
        for text in ["prompt=[Your code:]", "prompt=Your code:", "prompt=Your code: ", "prompt=[Your code: ]"]
        {
            assert_eq!(read(&[text]).unwrap().prompt.as_deref(), Some("Your code: "), "{text}");
        }
        // As libpam cuts `prompt=[Your  one-time code:]`.
        let line = read(&["debug", "prompt=[Your", "one-time", "code:]", "realm=staff"]).unwrap();
        assert_eq!(line.prompt.as_deref(), Some("Your one-time code: "));
        assert_eq!((line.debug, line.overrides.realm.as_deref()), (true, Some("staff")));
        assert_eq!(read(&["prompt=[Open", "realm=staff"]).unwrap().prompt.as_deref(), Some("[Open "));
    }

    #[test]
    fn the_arguments_of_the_older_modules_keep_their_meaning() {
        let line = read(&[
            "url=HTTPS://pi.example.org/",
            "nossl",
            "realm=staff",
            "sendEmptyPass",
            "offlineFile=/etc/privacyidea/pam.txt",
            "pollTime=60",
            "prompt=[OTP:]",
            "debug",
        ]);
        let line = line.unwrap();
        let expected = Overrides {
            url: Some("https://pi.example.org/".to_owned()),
            ca_file: None,
            any_certificate: true,
            realm: Some("staff".to_owned()),
            first_step: Some(FirstStep::EmptyPassword),
            poll_time: Some(60),
        };
        assert_eq!((line.overrides, line.imported), (expected, vec!["offlineFile"]));
        assert_eq!(
            (line.prompt.as_deref(), line.debug, line.first_pass),
            (Some("OTP: "), true, FirstPass::Unused)
        );

        let line =
            read(&["url=https://h", "nosslverify", "cacerts=/etc/ca.pem", "sqlfile=x", "try_first_pass"]);
        let line = line.unwrap();
        assert_eq!(line.overrides.ca_file.as_deref(), Some("/etc/ca.pem"));
        assert!(line.overrides.any_certificate && line.first_pass == FirstPass::Try);
        assert_eq!(line.imported, ["sqlfile"]);

        let nothing = read(&["realm="]).unwrap();
        assert_eq!(nothing.overrides, Overrides::default());
    }

    #[test]
    fn send_password_counts_more_and_takes_what_was_typed_before() {
        for line in [&["sendPassword", "sendEmptyPass"][..], &["sendEmptyPass", "sendPassword"]] {
            let line = read(line).unwrap();
            assert_eq!(line.overrides.first_step, Some(FirstStep::Password));
            assert_eq!(line.first_pass, FirstPass::Try);
        }
        assert_eq!(read(&["sendPassword", "use_first_pass"]).unwrap().first_pass, FirstPass::Use);
    }

    #[test]
    fn certificates_are_about_the_lines_own_url_only() {
        for (line, name) in
            [("nossl", "nossl"), ("nosslverify", "nosslverify"), ("cacerts=/etc/ca.pem", "cacerts")]
        {
            assert_eq!(read(&[line, "realm=r"]), Err(vec![ArgumentError::WithoutUrl(name)]), "{line}");
        }
    }

    #[test]
    fn whatever_else_is_refused_without_its_value() {
        let secret = "x".repeat(2000);
        let rows = [
            ("url=http://u:secret@host", ArgumentError::NoHttps),
            ("url=secret", ArgumentError::NoHttps),
            ("url=", ArgumentError::Value("url")),
            (&format!("url=https://{secret}"), ArgumentError::TooLong("url")),
            (&format!("realm={secret}"), ArgumentError::TooLong("realm")),
            ("nullok", ArgumentError::Unknown("nullok".to_owned())),
            ("timeout=secret", ArgumentError::Unknown("timeout".to_owned())),
            ("noPIN", ArgumentError::Unknown("noPIN".to_owned())),
            ("prompt=", ArgumentError::Value("prompt")),
            ("socket=auth.sock", ArgumentError::RelativePath("socket")),
            ("cacerts=secret", ArgumentError::RelativePath("cacerts")),
            ("pollTime=secret", ArgumentError::PollTime),
            ("pollTime=-1", ArgumentError::PollTime),
            ("pollTime=", ArgumentError::PollTime),
            ("pollTime=3601", ArgumentError::PollTime),
            ("pollTime", ArgumentError::Value("pollTime")),
            ("offlineFile", ArgumentError::Value("offlineFile")),
            ("sendpassword", ArgumentError::Unknown("sendpassword".to_owned())),
        ];
        for (word, expected) in rows {
            let errors = read(&[word]).unwrap_err();
            assert!(!errors[0].to_string().contains("secret"), "{errors:?}");
            assert_eq!(errors, [expected], "{word}");
        }
        for line in [&["use_first_pass", "try_first_pass"][..], &["debug=1"], &["socket"], &["DEBUG"], &[""]]
        {
            assert!(read(line).is_err(), "{line:?}");
        }
        assert_eq!(read(&["nullok", "pollTime=x", "nossl"]).unwrap_err().len(), 3, "all in one go");
    }
}
