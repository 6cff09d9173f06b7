//! `privacyidea-host token …`, but for enrolment.

use super::arguments::TokenCommand;
use super::arguments::token::{Remove, SetPin};
use super::daemon::other_version;
use super::enrolment;
use super::failure::Failure;
use super::offline;
use super::session::Session;
use super::style::{Style, count, printable, table};
use super::times::Times;
use crate::administration::{Algorithm, Answer, Command, OfflineRecord, PinPosition, TokenKind, TokenRecord};

/// Carries a command out.
pub(super) fn run(command: &TokenCommand, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    match command {
        TokenCommand::Enrol(arguments) => enrolment::run(arguments, json, session),
        TokenCommand::Confirm(token) => confirm(&token.serial, json, session),
        TokenCommand::List { user } => list(user.as_deref(), json, session),
        TokenCommand::Show(token) => show(&token.serial, json, session),
        TokenCommand::Resync(token) => resync(&token.serial, json, session),
        TokenCommand::Unlock { serial_or_user } => unlock(serial_or_user, json, session),
        TokenCommand::SetPin(arguments) => set_pin(arguments, json, session),
        TokenCommand::Remove(arguments) => remove(arguments, json, session),
    }
}

/// The serials of all tokens of `user`.
pub(super) fn serials(user: &str, session: &Session<'_>) -> Result<Vec<String>, Failure> {
    let (tokens, offline) = tokens(Some(user), session)?;
    let tokens = tokens.into_iter().map(|token| token.serial);
    Ok(tokens.chain(offline.into_iter().map(|token| token.serial)).collect())
}

/// The tokens of `user`, or all: those of this host, and those with offline values.
fn tokens(
    user: Option<&str>,
    session: &Session<'_>,
) -> Result<(Vec<TokenRecord>, Vec<OfflineRecord>), Failure> {
    match session.daemon.ask(&Command::TokenList { user: user.map(str::to_owned) })? {
        Answer::Tokens { tokens, offline } => Ok((tokens, offline)),
        _ => Err(other_version()),
    }
}

/// What the kind is called on the command line and in JSON.
pub(super) fn kind_name(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Hotp => "hotp",
        TokenKind::Totp => "totp",
        TokenKind::SimplePass => "simple-pass",
        TokenKind::RecoveryCodes => "recovery-codes",
    }
}

fn confirm(serial: &str, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let code = session.code("The code that the device shows now: ", json)?;
    let command = Command::TokenConfirm { serial: serial.to_owned(), code: code.to_string() };
    change(command, json, session, |token| format!("Works. {} of {} is active.", token.serial, token.user))
}

fn resync(serial: &str, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let first = session.code("The code that the device shows now: ", json)?;
    let second = session.code("The code after it: ", json)?;
    let command = Command::TokenResync {
        serial: serial.to_owned(),
        first: first.to_string(),
        second: second.to_string(),
    };
    change(command, json, session, |token| format!("{} of {} is in step again.", token.serial, token.user))
}

fn set_pin(arguments: &SetPin, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let pin = if arguments.no_pin {
        zeroize::Zeroizing::default()
    } else if arguments.pin_from_stdin {
        enrolment::pin_from_input(session)?
    } else if json {
        return Err(Failure::Usage(
            "With --json nothing is asked: give --pin-from-stdin or --no-pin.".to_owned(),
        ));
    } else {
        session.new_pin()?
    };
    let command = Command::TokenSetPin { serial: arguments.serial.clone(), pin: pin.to_string() };
    change(command, json, session, |token| {
        let state = if token.has_pin { "has a new PIN" } else { "has no PIN any more" };
        format!("{} of {} {state}.", token.serial, token.user)
    })
}

/// Carries out what answers with one token.
fn change(
    mut command: Command,
    json: bool,
    session: &mut Session<'_>,
    sentence: impl FnOnce(&TokenRecord) -> String,
) -> Result<(), Failure> {
    let answer = session.daemon.ask(&command);
    enrolment::wipe(&mut command);
    let answer = answer?;
    let Answer::Token { token } = &answer else { return Err(other_version()) };
    if json { session.say_json(&answer) } else { session.say(printable(&sentence(token))) }
}

fn unlock(serial_or_user: &str, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let command = Command::TokenUnlock { serial_or_user: serial_or_user.to_owned() };
    let answer = session.daemon.ask(&command)?;
    let Answer::Tokens { tokens, offline } = &answer else { return Err(other_version()) };
    if json {
        return session.say_json(&answer);
    }
    let unlocked = tokens.iter().map(|token| (&token.serial, &token.user));
    for (serial, user) in unlocked.chain(offline.iter().map(|token| (&token.serial, &token.user))) {
        session.say(printable(&format!("{serial} of {user} is not locked, no failures.")))?;
    }
    if tokens.is_empty() {
        session.say(printable(&format!("{serial_or_user} does not have to wait any more.")))?;
    }
    Ok(())
}

fn remove(arguments: &Remove, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let serial = &arguments.serial;
    if !arguments.yes {
        let question = match find(serial, session)? {
            Either::Local(token) => {
                format!("Remove {serial} of {}{} for ever?", token.user, described(&token))
            }
            Either::Offline(token) => {
                let left = count(token.logins_left.into(), "offline login", "offline logins");
                format!("Remove {serial} of {} from this host, with its {left}?", token.user)
            }
        };
        session.confirm(&printable(&question), false, json)?;
    }
    let answer = session.daemon.ask(&Command::TokenRemove { serial: serial.clone() })?;
    if json { session.say_json(&answer) } else { session.say(printable(&format!("{serial} is removed."))) }
}

fn list(user: Option<&str>, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let (tokens, offline) = tokens(user, session)?;
    if json {
        return session.say_json(&Answer::Tokens { tokens, offline });
    }
    if tokens.is_empty() && offline.is_empty() {
        let whose = user.map_or_else(String::new, |user| format!(" of {user}"));
        let next = format!("privacyidea-host token enrol {}", user.unwrap_or("USER"));
        return session.say(printable(&format!("There are no tokens{whose}. Make one: {next}")));
    }
    let times = session.times();
    let rows: Vec<_> = tokens
        .iter()
        .map(|token| {
            [
                token.serial.clone(),
                token.user.clone(),
                kind_name(token.kind).to_owned(),
                state(token, &times),
                token.last_used.map_or_else(|| "never".to_owned(), |time| times.short(time)),
                token.description.clone(),
            ]
        })
        .chain(offline.iter().map(|token| offline::row(token, &times)))
        .collect();
    let heading = ["SERIAL", "USER", "TYPE", "STATE", "LAST USE", "DESCRIPTION"];
    for line in table(heading, &rows, session.style()) {
        session.say(line)?;
    }
    Ok(())
}

/// What an administrator has to know first.
fn state(token: &TokenRecord, times: &Times) -> String {
    if !token.active {
        return "not confirmed".to_owned();
    }
    if token.locked {
        return match token.locked_until {
            Some(end) => format!("locked until {}", times.short(end)),
            None => "locked".to_owned(),
        };
    }
    match (token.codes_left, token.failcount) {
        (Some(left), 0) => count(left.into(), "code left", "codes left"),
        (_, 0) => "active".to_owned(),
        (_, failures) => count(failures.into(), "failure", "failures"),
    }
}

fn show(serial: &str, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let found = find(serial, session)?;
    if json {
        return session.say_json(&match found {
            Either::Local(token) => Answer::Token { token },
            Either::Offline(token) => Answer::Tokens { tokens: Vec::new(), offline: vec![token] },
        });
    }
    let (style, times) = (session.style(), session.times());
    let (facts, advice) = match &found {
        Either::Local(token) => (facts(token, &times), advice(token, style)),
        Either::Offline(token) => (offline::facts(token, &times), None),
    };
    for (name, value) in facts {
        session.say(format!("{}  {}", style.heading(&format!("{name:<11}")), printable(&value)))?;
    }
    if let Some(line) = advice {
        session.say(line)?;
    }
    Ok(())
}

fn facts(token: &TokenRecord, times: &Times) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("serial", token.serial.clone()),
        ("user", token.user.clone()),
        ("type", kind_name(token.kind).to_owned()),
    ];
    if !token.description.is_empty() {
        facts.push(("description", token.description.clone()));
    }
    if let Some(algorithm) = token.algorithm {
        let algorithm = match algorithm {
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        };
        let period = if token.period > 0 { format!(", {} seconds", token.period) } else { String::new() };
        facts.push(("codes", format!("{} digits, {algorithm}{period}", token.digits)));
    }
    if let Some(left) = token.codes_left {
        facts.push(("codes left", left.to_string()));
    }
    let pin = match (token.has_pin, token.pin_position) {
        (false, _) => "none",
        (true, _) if token.kind == TokenKind::SimplePass => "is the whole answer",
        (true, PinPosition::Before) => "before the code",
        (true, PinPosition::After) => "after the code",
    };
    facts.push(("PIN", pin.to_owned()));
    facts.push(("state", state(token, times)));
    facts.push(("failures", token.failcount.to_string()));
    facts.push(("enrolled", times.full(token.enrolled)));
    facts.push(("last use", token.last_used.map_or_else(|| "never".to_owned(), |time| times.full(time))));
    facts
}

fn advice(token: &TokenRecord, style: Style) -> Option<String> {
    let serial = printable(&token.serial);
    if !token.active {
        let text = format!("It lets nobody in until `privacyidea-host token confirm {serial}`.");
        return Some(style.warning(&text).into_owned());
    }
    token.locked.then(|| {
        style.warning(&format!("To end the lock: `privacyidea-host token unlock {serial}`.")).into_owned()
    })
}

/// A token of this host, or one of the server's with offline values.
enum Either {
    Local(TokenRecord),
    Offline(OfflineRecord),
}

fn find(serial: &str, session: &Session<'_>) -> Result<Either, Failure> {
    let (tokens, offline) = tokens(None, session)?;
    let is_wanted = |found: &str| found.eq_ignore_ascii_case(serial);
    let token = tokens.into_iter().find(|token| is_wanted(&token.serial)).map(Either::Local);
    let offline = || offline.into_iter().find(|token| is_wanted(&token.serial)).map(Either::Offline);
    token.or_else(offline).ok_or_else(|| {
        Failure::Refused(printable(&format!(
            "There is no token {serial}; `privacyidea-host token list` has them all."
        )))
    })
}

fn described(token: &TokenRecord) -> String {
    if token.description.is_empty() { String::new() } else { format!(" ({})", token.description) }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn token() -> TokenRecord {
        TokenRecord {
            serial: "TOTP0001".to_owned(),
            user: "alice".to_owned(),
            kind: TokenKind::Totp,
            description: String::new(),
            digits: 6,
            algorithm: Some(Algorithm::Sha1),
            period: 30,
            has_pin: true,
            pin_position: PinPosition::Before,
            active: true,
            failcount: 0,
            locked: false,
            locked_until: None,
            codes_left: None,
            enrolled: 1_700_000_000,
            last_used: None,
        }
    }

    #[test]
    fn the_state_says_what_is_most_urgent() {
        let times = Times { now: 1_700_000_000, zone: TimeZone::UTC };
        assert_eq!(state(&token(), &times), "active");
        assert_eq!(state(&TokenRecord { failcount: 2, ..token() }, &times), "2 failures");
        let locked = TokenRecord { failcount: 10, locked: true, ..token() };
        assert_eq!(state(&locked, &times), "locked");
        let until = TokenRecord { locked_until: Some(1_700_000_060), ..locked.clone() };
        assert_eq!(state(&until, &times), "locked until 22:14");
        assert_eq!(state(&TokenRecord { active: false, ..locked }, &times), "not confirmed");
        assert_eq!(state(&TokenRecord { codes_left: Some(1), ..token() }, &times), "1 code left");
    }

    #[test]
    fn a_token_is_described_without_what_it_does_not_have() {
        let times = Times { now: 1_700_000_000, zone: TimeZone::UTC };
        let facts = facts(&token(), &times);
        assert!(facts.contains(&("codes", "6 digits, sha1, 30 seconds".to_owned())));
        assert!(facts.contains(&("PIN", "before the code".to_owned())));
        assert!(facts.contains(&("last use", "never".to_owned())));
        assert!(!facts.iter().any(|(name, _)| matches!(*name, "description" | "codes left")));
    }

    #[test]
    fn a_token_that_lets_nobody_in_comes_with_advice() {
        let plain = Style { coloured: false };
        assert_eq!(advice(&token(), plain), None);
        let text = advice(&TokenRecord { active: false, ..token() }, plain).unwrap();
        assert!(text.contains("token confirm TOTP0001"), "{text}");
        let text = advice(&TokenRecord { locked: true, ..token() }, plain).unwrap();
        assert!(text.contains("token unlock TOTP0001"), "{text}");
    }
}
