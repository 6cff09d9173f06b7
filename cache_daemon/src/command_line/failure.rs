//! How a command ends when it was not carried out: one sentence for the administrator, and the exit status.

use std::io;

use crate::settings::SettingsError;

/// Why a command ends early.
#[derive(Debug)]
pub(super) enum Failure {
    /// Status 1: the answer is no. The sentence says what to do next.
    Refused(String),
    /// Status 1, and everything that there is to say has been said.
    Negative,
    /// Status 2: what was typed does not go together.
    Usage(String),
    /// Status 3: nobody answered.
    Unreachable(String),
    /// Status 130: the person pressed Ctrl-C or Ctrl-D instead of answering.
    Interrupted,
    /// Status 0, silent: whoever read the output has enough (`| head`).
    OutputClosed,
    /// Status 1: the output cannot be written.
    Output(io::Error),
}

impl Failure {
    /// The exit status.
    pub(super) fn status(&self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            Self::Refused(_) | Self::Negative | Self::Output(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
            Self::Interrupted => 130,
        }
    }

    /// What to say on standard error.
    pub(super) fn sentence(&self) -> Option<String> {
        match self {
            Self::Refused(sentence) | Self::Usage(sentence) | Self::Unreachable(sentence) => {
                Some(sentence.clone())
            }
            Self::Interrupted => Some("Not finished: no answer was given.".to_owned()),
            Self::Output(error) => Some(format!("The output cannot be written: {error}.")),
            Self::Negative | Self::OutputClosed => None,
        }
    }

    /// What `--json` says on standard output, if the command itself has not answered.
    pub(super) fn document(&self) -> Option<serde_json::Value> {
        let answer = match self {
            Self::Refused(_) | Self::Usage(_) => "refused",
            Self::Unreachable(_) => "unreachable",
            _ => return None,
        };
        Some(serde_json::json!({ "answer": answer, "reason": self.sentence() }))
    }
}

/// Settings that cannot be used. Only root and the daemon can read the file: a `sudo` was forgotten, most often.
impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        let advice = match &error {
            SettingsError::Unreadable { error, .. } if error.kind() == io::ErrorKind::PermissionDenied => {
                ". Only root may do this: run it with sudo."
            }
            _ => "",
        };
        Self::Refused(format!("{error}{advice}"))
    }
}

/// A failure to write.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::OutputClosed } else { Self::Output(error) }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_only_root_can_read_ask_for_sudo() {
        let unreadable = |kind: io::ErrorKind| {
            let error = SettingsError::Unreadable { path: "/etc/x.toml".into(), error: kind.into() };
            Failure::from(error).sentence().unwrap()
        };
        assert!(
            unreadable(io::ErrorKind::PermissionDenied).ends_with("Only root may do this: run it with sudo.")
        );
        assert!(!unreadable(io::ErrorKind::IsADirectory).contains("sudo"));
    }
}
