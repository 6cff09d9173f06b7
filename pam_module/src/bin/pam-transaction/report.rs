//! What came of it, for people and as JSON.

use std::fmt::{self, Write};

use crate::application::{Code, Phase, Style};
use crate::options::Options;

/// A transaction.
pub(crate) struct Report {
    service: String,
    user: String,
    /// The phases that were run.
    pub(crate) phases: Vec<PhaseReport>,
    /// The PAM environment at the end, each `NAME=value`.
    pub(crate) environment: Vec<String>,
    wanted: usize,
}

/// A phase.
pub(crate) struct PhaseReport {
    pub(crate) phase: Phase,
    pub(crate) code: Code,
    /// libpam's words for the code.
    pub(crate) text: String,
    /// Every message that the stack showed.
    pub(crate) messages: Vec<(Style, String)>,
    /// The delay in microseconds that was asked for and not waited for.
    pub(crate) delay: Option<u32>,
}

impl Report {
    /// An empty one.
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            service: options.service.to_string_lossy().into_owned(),
            user: options.user.to_string_lossy().into_owned(),
            phases: Vec::new(),
            environment: Vec::new(),
            wanted: options.phases.len(),
        }
    }

    /// Whether every wanted phase was run and succeeded.
    pub(crate) fn succeeded(&self) -> bool {
        self.phases.len() == self.wanted && self.phases.iter().all(|phase| phase.code == Code::SUCCESS)
    }

    /// One object and a newline:
    /// `{"service", "user", "succeeded", "phases": [{"phase", "code", "number", "text", "delay-microseconds", "messages":
    /// [{"style", "text"}]}], "environment": ["NAME=value"]}`. `code` is the name, as `PAM_AUTH_ERR`; the delay is null
    /// where it was waited for.
    pub(crate) fn json(&self) -> String {
        let phases: Vec<_> = self.phases.iter().map(PhaseReport::json).collect();
        let environment: Vec<_> = self.environment.iter().map(|variable| quoted(variable)).collect();
        format!(
            "{{\"service\":{},\"user\":{},\"succeeded\":{},\"phases\":[{}],\"environment\":[{}]}}\n",
            quoted(&self.service),
            quoted(&self.user),
            self.succeeded(),
            phases.join(","),
            environment.join(",")
        )
    }
}

impl PhaseReport {
    fn json(&self) -> String {
        let message = |(style, text): &(Style, String)| {
            format!("{{\"style\":\"{}\",\"text\":{}}}", style.name(), quoted(text))
        };
        let messages: Vec<_> = self.messages.iter().map(message).collect();
        format!(
            "{{\"phase\":\"{}\",\"code\":\"{}\",\"number\":{},\"text\":{},\"delay-microseconds\":{},\"messages\":[{}]}}",
            self.phase.name(),
            self.code.name(),
            self.code.0,
            quoted(&self.text),
            self.delay.map_or("null".to_owned(), |delay| delay.to_string()),
            messages.join(",")
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for report in &self.phases {
            writeln!(f, "{:13} {}: {}", report.phase.name(), report.code, report.text)?;
            for (style, text) in &report.messages {
                writeln!(f, "{:13}   {}: {}", "", style.name(), text.escape_debug())?;
            }
            if let Some(delay) = report.delay {
                writeln!(f, "{:13}   delay asked for: {:.1} s", "", f64::from(delay) / 1e6)?;
            }
        }
        for variable in &self.environment {
            writeln!(f, "{:13} {}", "environment", variable.escape_debug())?;
        }
        if self.phases.len() < self.wanted {
            writeln!(f, "not run after the failure: {} more", self.wanted - self.phases.len())?;
        }
        Ok(())
    }
}

impl Style {
    fn name(self) -> &'static str {
        match self {
            Self::PromptEchoOff => "prompt-echo-off",
            Self::PromptEchoOn => "prompt-echo-on",
            Self::ErrorMessage => "error",
            Self::TextInfo => "info",
        }
    }
}

/// A JSON string (RFC 8259, section 7).
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                // Control characters are below U+0100, so four digits do.
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_as_json_wants_it() {
        assert_eq!(quoted("a\"b\\c\nd\u{1b}é"), "\"a\\\"b\\\\c\\u000ad\\u001bé\"");
    }
}
