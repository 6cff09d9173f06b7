//! What a line in `/etc/pam.d` may say after `pam_privacyidea.so`.

use std::path::{Path, PathBuf};

use privacyidea_contract::paths;

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
    /// The argument belongs to an older module; the text says where its meaning went.
    Settings(String),
    /// An argument with a value has none, or the other way round.
    Value(&'static str),
    /// `socket=` is no absolute path.
    RelativeSocket,
    /// `use_first_pass` and `try_first_pass`.
    BothFirstPasses,
}

/// Arguments of the older modules whose meaning is in the settings now, or gone.
const SETTINGS: [&str; 10] = [
    "url",
    "realm",
    "nossl",
    "nosslverify",
    "cacerts",
    "sendEmptyPass",
    "sendPassword",
    "offlineFile",
    "pollTime",
    "timeout",
];

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
        };
        let mut errors: Vec<_> = words.iter().filter_map(|word| arguments.read_one(word).err()).collect();
        let has = |name: &str| words.iter().any(|word| word == name);
        if has("use_first_pass") && has("try_first_pass") {
            errors.push(ArgumentError::BothFirstPasses);
        }
        if errors.is_empty() { Ok(arguments) } else { Err(errors) }
    }

    /// Whether the socket is the daemon's own. With another one no daemon may be started in its place: it would read
    /// other databases.
    pub(crate) fn has_usual_socket(&self) -> bool {
        self.socket == Path::new(paths::AUTH_SOCKET)
    }

    fn read_one(&mut self, word: &str) -> Result<(), ArgumentError> {
        match word.split_once('=') {
            None => match word {
                "debug" => self.debug = true,
                "try_first_pass" => self.first_pass = FirstPass::Try,
                "use_first_pass" => self.first_pass = FirstPass::Use,
                "prompt" => return Err(ArgumentError::Value("prompt")),
                "socket" => return Err(ArgumentError::Value("socket")),
                _ => return Err(unknown(word)),
            },
            Some(("prompt", text)) => self.prompt = Some(prompt(text)?),
            Some(("socket", path)) if path.starts_with('/') => self.socket = PathBuf::from(path),
            Some(("socket", _)) => return Err(ArgumentError::RelativeSocket),
            Some((name, _)) => return Err(unknown(name)),
        }
        Ok(())
    }
}

impl std::fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(name) => write!(
                f,
                "unknown argument {name:?}: known are debug, use_first_pass, try_first_pass, prompt=TEXT and \
                 socket=PATH; see pam_privacyidea(8)"
            ),
            Self::Settings(name) => write!(
                f,
                "the argument {name:?} belongs to an older module: remove it from the line and set what it said in {}; \
                 see privacyidea-host.toml(5)",
                paths::SETTINGS
            ),
            Self::Value(name) => {
                write!(f, "the argument {name:?} needs a value: write {name}=…, in brackets if it has spaces")
            }
            Self::RelativeSocket => f.write_str("the argument \"socket\" needs an absolute path"),
            Self::BothFirstPasses => {
                f.write_str("use_first_pass and try_first_pass exclude each other: remove one of them")
            }
        }
    }
}

fn unknown(name: &str) -> ArgumentError {
    // The name is somebody's typing: not all of it, should it be a secret after all.
    let name = name.chars().take(32).collect::<String>();
    if SETTINGS.contains(&name.as_str()) {
        ArgumentError::Settings(name)
    } else {
        ArgumentError::Unknown(name)
    }
}

/// A frequent mistake is to write `prompt=[Text:]` where `[prompt=Text:]` is meant: same meaning here.
fn prompt(text: &str) -> Result<String, ArgumentError> {
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    match text.trim_end() {
        "" => Err(ArgumentError::Value("prompt")),
        text => Ok(format!("{text} ")),
    }
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
    }

    #[test]
    fn whatever_else_is_refused_without_its_value() {
        let errors = read(&["url=https://u:secret@host", "nossl", "nullok", "prompt=", "socket=auth.sock"]);
        let errors = errors.unwrap_err();
        let expected = [
            ArgumentError::Settings("url".to_owned()),
            ArgumentError::Settings("nossl".to_owned()),
            ArgumentError::Unknown("nullok".to_owned()),
            ArgumentError::Value("prompt"),
            ArgumentError::RelativeSocket,
        ];
        assert_eq!(errors, expected);
        for error in errors {
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        for line in [&["use_first_pass", "try_first_pass"][..], &["debug=1"], &["socket"], &["DEBUG"], &[""]]
        {
            assert!(read(line).is_err(), "{line:?}");
        }
    }
}
