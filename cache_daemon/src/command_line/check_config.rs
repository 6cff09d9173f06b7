//! `privacyidea-host check-config`

use std::path::Path;

use serde_json::json;

use super::failure::Failure;
use super::session::Session;
use crate::settings::Settings;

/// Reads the file as the daemon would.
pub(super) fn run(file: Option<&Path>, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let path = file.unwrap_or(&session.files.settings).to_owned();
    // A file that cannot be looked at is there: reading it says why not.
    let is_there = path.try_exists().unwrap_or(true);
    // No file means the defaults; but a file that was named and is not there is a slip of the pen.
    if file.is_some() && !is_there {
        return Err(Failure::Refused(format!("There is no file {}.", path.display())));
    }
    let settings = Settings::load(&path)?;
    note_authorities(&settings, session);
    if json {
        return session.say_json(&json!({ "answer": "valid", "file": path, "exists": is_there }));
    }
    if is_there {
        session.say(format!("{} is valid.", path.display()))
    } else {
        session.say(format!("{} is not there: the defaults are valid.", path.display()))
    }
}

/// A file that the daemon reads only when it speaks to the server: until it is there each such login is refused.
fn note_authorities(settings: &Settings, session: &mut Session<'_>) {
    let Some(path) = settings.server.as_ref().and_then(|server| server.ca_file.as_ref()) else { return };
    if let Err(error) = std::fs::File::open(path) {
        session.note(format!(
            "privacyidea-host: server.ca-file {} cannot be read: {error}. Until it can, the server is not trusted.",
            path.display()
        ));
    }
}
