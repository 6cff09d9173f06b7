//! `privacyidea-host user …`: the files of the `files` resolvers, and what the daemon has read from them.

use std::path::PathBuf;

use serde_json::json;

use super::arguments::{UserAdd, UserCommand, UserRemove};
use super::failure::Failure;
use super::session::Session;
use super::style::{printable, table};
use super::{cache, token};
use crate::administration::{Answer, CacheRecord, Command};
use crate::directory::users_file::{self, Neighbour, NewUser};
use crate::settings::{ResolverKind, Settings};

/// Carries a command out.
pub(super) fn run(command: &UserCommand, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    match command {
        UserCommand::Add(arguments) => add(arguments, json, session),
        UserCommand::Remove(arguments) => remove(arguments, json, session),
        UserCommand::List => list(json, session),
    }
}

/// The two files of a resolver, those of the others, and the lowest id.
struct UsersFiles {
    passwd: PathBuf,
    group: PathBuf,
    others: Vec<Neighbour>,
    first_id: u32,
}

fn users_files(resolver: Option<&str>, session: &Session<'_>) -> Result<UsersFiles, Failure> {
    let settings = Settings::load(&session.files.settings)?;
    let first_id = settings.cache.first_id;
    let of_files = settings.resolvers.0.into_iter().map(|resolver| {
        let ResolverKind::Files { passwd, group } = resolver.kind;
        Neighbour { resolver: resolver.name, passwd, group }
    });
    let mut others: Vec<_> = of_files.collect();
    if let Some(index) = others.iter().position(|one| resolver.is_none_or(|name| name == one.resolver)) {
        let Neighbour { passwd, group, .. } = others.remove(index);
        return Ok(UsersFiles { passwd, group, others, first_id });
    }
    let named = resolver.map_or_else(String::new, |name| format!(" named {name}"));
    Err(Failure::Refused(printable(&format!(
        "There is no `files` resolver{named}; see [[resolver]] in {}.",
        session.files.settings.display()
    ))))
}

fn add(arguments: &UserAdd, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let files = users_files(arguments.resolver.as_deref(), session)?;
    let request = NewUser {
        name: arguments.name.clone(),
        uid: arguments.uid,
        gid: arguments.gid,
        gecos: arguments.full_name.clone(),
        home: arguments.home.clone(),
        shell: arguments.shell.clone(),
    };
    let local = &session.daemon.local;
    let user = users_file::add(&files.passwd, &files.group, &files.others, local, &request, files.first_id)
        .map_err(|error| refused(&error))?;
    let serials = after_change(&user.name, session);
    if json {
        let user = json!({
            "name": user.name, "uid": user.uid, "gid": user.gid, "full-name": user.gecos, "home": user.home,
            "shell": user.shell,
        });
        return session.say_json(&json!({ "answer": "user", "user": user, "tokens": serials }));
    }
    let name = &user.name;
    session.say(format!("{name} is added: uid {}, gid {}, {}.", user.uid, user.gid, user.home))?;
    if serials.is_empty() {
        return session.say(format!("A token lets {name} in: privacyidea-host token enrol {name}"));
    }
    session.note(format!(
        "{name} has tokens from before: {}. If this is another person, remove them with `privacyidea-host token \
         remove`.",
        serials.join(", ")
    ));
    Ok(())
}

fn remove(arguments: &UserRemove, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let files = users_files(arguments.resolver.as_deref(), session)?;
    let name = printable(&arguments.name);
    session.confirm(&format!("Remove {name} from {}?", files.passwd.display()), arguments.yes, json)?;
    let user =
        users_file::remove(&files.passwd, &files.group, &arguments.name).map_err(|error| refused(&error))?;
    let serials = after_change(&user.name, session);
    if json {
        return session.say_json(
            &json!({ "answer": "removed", "user": { "name": user.name, "uid": user.uid }, "tokens": serials }),
        );
    }
    session.say(format!("{name} is removed; {} stays where it is.", printable(&user.home)))?;
    if !serials.is_empty() {
        session.note(format!(
            "Tokens of {name} are left and would let in whoever gets this name later: {}. Remove them with \
             `privacyidea-host token remove`.",
            serials.join(", ")
        ));
    }
    Ok(())
}

fn refused(error: &users_file::UsersFileError) -> Failure {
    let mut sentence = printable(&error.to_string());
    sentence.push('.');
    if let users_file::UsersFileError::Io { error, .. } = error {
        if error.kind() == std::io::ErrorKind::PermissionDenied {
            sentence.push_str(" Only root may do this: run it with sudo.");
        }
    }
    Failure::Refused(sentence)
}

/// Lets the change show at once. The files are changed by now, so what goes wrong here is only said. Returns the
/// tokens of that name.
fn after_change(user: &str, session: &mut Session<'_>) -> Vec<String> {
    let flush = Command::CacheFlush { user: Some(user.to_owned()) };
    let done = session.daemon.ask(&flush).and_then(|_| token::serials(user, session));
    match done {
        Ok(serials) => serials.iter().map(|serial| printable(serial)).collect(),
        Err(failure) => {
            let why = failure.sentence().unwrap_or_default();
            session.note(format!("The file is changed, but programs see it only after a while: {why}"));
            Vec::new()
        }
    }
}

fn list(json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let users: Vec<CacheRecord> =
        cache::entries(session)?.into_iter().filter(|entry| entry.kind == "user").collect();
    if json {
        return session.say_json(&Answer::Cache { entries: users });
    }
    if users.is_empty() {
        return session.say("There are no users. Add one: privacyidea-host user add NAME");
    }
    let rows: Vec<_> = users
        .into_iter()
        .map(|user| [user.name, user.id.map_or_else(String::new, |uid| uid.to_string()), user.resolver])
        .collect();
    for line in table(["NAME", "UID", "RESOLVER"], &rows, session.style()) {
        session.say(line)?;
    }
    Ok(())
}
