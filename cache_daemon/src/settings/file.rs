//! Reading the file: who may have written it, and where in it a mistake is.

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Settings;

/// The longest file that is read.
const LENGTH_MAX: u64 = 1024 * 1024;

/// Why there are no settings. The daemon does not start, whichever it is; `Display` is the sentence to show.
#[derive(Debug)]
pub enum SettingsError {
    /// The file is there but cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Others than root may have written the file.
    Untrusted {
        /// The file.
        path: PathBuf,
        /// What is wrong with its owner, mode or kind, and what to do.
        reason: String,
    },
    /// The file says something that it may not.
    Invalid {
        /// The file.
        path: PathBuf,
        /// Where and what.
        mistake: Mistake,
    },
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, error } => write!(f, "{} cannot be read: {error}", path.display()),
            Self::Untrusted { path, reason } => write!(f, "{} is not used: {reason}", path.display()),
            Self::Invalid { path, mistake } => write!(f, "{}, {mistake}", path.display()),
        }
    }
}

impl std::error::Error for SettingsError {}

/// A mistake in the text of a settings file. `Display`: `line 3, key lockout.after: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Counted from 1.
    pub line: usize,
    /// The key with its sections, `lockout.after`; empty where the text is no TOML.
    pub key: String,
    /// What is wrong and what is allowed, in one line.
    pub problem: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if !self.key.is_empty() {
            write!(f, ", key {}", self.key)?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for Mistake {}

/// Reads the file's text; `None` if there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<String>, SettingsError> {
    let unreadable = |error| SettingsError::Unreadable { path: path.to_owned(), error };
    // Without O_NONBLOCK a named pipe in the file's place would stop the daemon here for ever.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut file = match rustix::fs::open(path, flags, Mode::empty()).map_err(std::io::Error::from) {
        Ok(descriptor) => File::from(descriptor),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let metadata = file.metadata().map_err(unreadable)?;
    if let Some(reason) = distrust(&metadata) {
        return Err(SettingsError::Untrusted { path: path.to_owned(), reason });
    }
    let mut bytes = Vec::new();
    file.by_ref().take(LENGTH_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LENGTH_MAX {
        let reason = format!("it is longer than {LENGTH_MAX} bytes");
        return Err(SettingsError::Untrusted { path: path.to_owned(), reason });
    }
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        let problem = "a byte is not UTF-8".to_owned();
        SettingsError::Invalid {
            path: path.to_owned(),
            mistake: Mistake { line, key: String::new(), problem },
        }
    })
}

/// Reads the values, each by itself.
pub(super) fn values(text: &str) -> Result<Settings, Mistake> {
    toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        let key = DeTable::parse(text).map(|table| key_at(table.get_ref(), &span)).unwrap_or_default();
        Mistake { line: line_at(text, span.start), key, problem: one_line(error.message()) }
    })
}

/// A mistake in a value that is right by itself, but not beside another one. `keys` leads to it: section, key.
pub(super) fn mistake_at(text: &str, keys: [&str; 2], problem: String) -> Mistake {
    let line = DeTable::parse(text).ok().and_then(|table| {
        let section = table.get_ref().get(keys[0])?;
        let value = section.get_ref().as_table().and_then(|section| section.get(keys[1]))?;
        Some(line_at(text, value.span().start))
    });
    Mistake { line: line.unwrap_or(1), key: keys.join("."), problem }
}

/// What is wrong with a file's kind or with who may write it, if anything: the end of a sentence, and what to do.
pub(crate) fn distrust(metadata: &std::fs::Metadata) -> Option<String> {
    let mode = metadata.mode() & 0o7777;
    if !metadata.is_file() {
        return Some("it is no regular file".to_owned());
    }
    if mode & 0o022 != 0 {
        return Some(format!(
            "its mode {mode:04o} lets others than its owner write it; run chmod go-w on it"
        ));
    }
    if metadata.uid() != 0 && metadata.uid() != rustix::process::geteuid().as_raw() {
        return Some(format!("it belongs to uid {}; run chown root on it", metadata.uid()));
    }
    None
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

/// The path of the innermost key whose name or value holds `span`.
fn key_at(table: &DeTable<'_>, span: &Range<usize>) -> String {
    let holds = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
    for (key, value) in table {
        let name = key.get_ref();
        if holds(key.span()) {
            return name.to_string();
        }
        // A section's span may be its heading only, so sections are searched whatever their span.
        let inner = inner_key_at(value, span);
        if !inner.is_empty() {
            return format!("{name}.{inner}");
        }
        if holds(value.span()) {
            return name.to_string();
        }
    }
    String::new()
}

fn inner_key_at(value: &Spanned<DeValue<'_>>, span: &Range<usize>) -> String {
    match value.get_ref() {
        DeValue::Table(table) => key_at(table, span),
        DeValue::Array(items) => {
            items.iter().map(|item| inner_key_at(item, span)).find(|key| !key.is_empty()).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
