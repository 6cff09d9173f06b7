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
    Settings::load(&path).map_err(|error| Failure::Refused(error.to_string()))?;
    if json {
        return session.say_json(&json!({ "answer": "valid", "file": path, "exists": is_there }));
    }
    if is_there {
        session.say(format!("{} is valid.", path.display()))
    } else {
        session.say(format!("{} is not there: the defaults are valid.", path.display()))
    }
}
