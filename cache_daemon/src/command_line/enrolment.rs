//! `privacyidea-host token enrol`: the only time that a secret is shown.

use serde::Serialize;
use zeroize::{Zeroize, Zeroizing};

use super::arguments::When;
use super::arguments::token::{Enrol, Kind};
use super::daemon::other_version;
use super::failure::Failure;
use super::session::Session;
use super::style::printable;
use super::token;
use crate::administration::{Answer, Command, Enrolment, TokenKind, TokenRecord};
use crate::qr;

/// How often a first code may be wrong before it is left for later.
const TRIES: usize = 3;

/// Enrols, shows, proves.
pub(super) fn run(arguments: &Enrol, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    check(arguments)?;
    let enrolled = enrol(enrolment(arguments, json, session)?, session)?;
    if json {
        return show_json(&enrolled, arguments, session);
    }
    show(&enrolled, arguments, session)?;
    if !enrolled.token().active {
        prove(enrolled.token(), session)?;
    }
    if arguments.recovery_codes {
        show_recovery_codes(&enrol(recovery_codes(arguments), session)?, session)?;
    }
    if enrolled.token().active {
        next_step(enrolled.token(), session)?;
    }
    Ok(())
}

/// [`Answer::Enrolled`], whose secrets are wiped when it is dropped.
#[derive(Serialize)]
#[serde(transparent)]
struct Enrolled(Answer);

impl Enrolled {
    fn parts(&self) -> (&TokenRecord, Option<&String>, &[String]) {
        match &self.0 {
            Answer::Enrolled { token, otpauth, codes } => (token, otpauth.as_ref(), codes),
            _ => unreachable!("enrol makes no other"),
        }
    }

    fn token(&self) -> &TokenRecord {
        self.parts().0
    }
}

impl Drop for Enrolled {
    fn drop(&mut self) {
        if let Answer::Enrolled { otpauth, codes, .. } = &mut self.0 {
            otpauth.zeroize();
            codes.zeroize();
        }
    }
}

fn enrol(enrolment: Enrolment, session: &Session<'_>) -> Result<Enrolled, Failure> {
    let mut command = Command::TokenEnrol(enrolment);
    let answer = session.daemon.ask(&command);
    wipe(&mut command);
    match answer? {
        answer @ Answer::Enrolled { .. } => Ok(Enrolled(answer)),
        _ => Err(other_version()),
    }
}

/// One object, whatever becomes of the recovery codes: the secret of the token that is there must not be lost.
fn show_json(enrolled: &Enrolled, arguments: &Enrol, session: &mut Session<'_>) -> Result<(), Failure> {
    #[derive(Serialize)]
    #[serde(rename_all = "kebab-case")]
    struct Both<'a, T> {
        #[serde(flatten)]
        enrolled: &'a Enrolled,
        recovery_codes: T,
    }

    if !arguments.recovery_codes {
        return session.say_json(enrolled);
    }
    match enrol(recovery_codes(arguments), session) {
        Ok(codes) => session.say_json(&Both { enrolled, recovery_codes: &codes }),
        Err(failure) => {
            session.say_json(&Both { enrolled, recovery_codes: failure.document() })?;
            Err(Failure::Negative)
        }
    }
}

/// Wipes what was typed.
pub(super) fn wipe(command: &mut Command) {
    match command {
        Command::TokenEnrol(enrolment) => {
            enrolment.pin.zeroize();
            enrolment.seed.zeroize();
        }
        Command::TokenSetPin { pin, .. } => pin.zeroize(),
        Command::TokenConfirm { code, .. } => code.zeroize(),
        Command::TokenResync { first, second, .. } => {
            first.zeroize();
            second.zeroize();
        }
        _ => {}
    }
}

/// A PIN on standard input; never empty.
pub(super) fn pin_from_input(session: &mut Session<'_>) -> Result<Zeroizing<String>, Failure> {
    let pin = session.line_of_input("PIN")?;
    if pin.is_empty() {
        return Err(Failure::Usage("The PIN on standard input is empty.".to_owned()));
    }
    Ok(pin)
}

/// What does not go together, said before anything is asked.
fn check(arguments: &Enrol) -> Result<(), Failure> {
    let usage = |sentence: &str| Err(Failure::Usage(sentence.to_owned()));
    let has_seed = matches!(arguments.kind, Kind::Totp | Kind::Hotp);
    if arguments.seed_from_stdin && !has_seed {
        return usage("Only totp and hotp tokens have a seed: leave --seed-from-stdin out.");
    }
    if arguments.recovery_codes && arguments.kind == Kind::RecoveryCodes {
        return usage("--type recovery-codes makes such a set already: leave --recovery-codes out.");
    }
    Ok(())
}

fn enrolment(arguments: &Enrol, json: bool, session: &mut Session<'_>) -> Result<Enrolment, Failure> {
    let is_simple_pass = arguments.kind == Kind::SimplePass;
    let pin = if arguments.pin_from_stdin {
        pin_from_input(session)?
    } else if json && (is_simple_pass || arguments.pin) {
        return Err(Failure::Usage(
            "With --json nothing is asked: give the PIN with --pin-from-stdin.".to_owned(),
        ));
    } else if is_simple_pass || arguments.pin {
        session.new_pin()?
    } else {
        Zeroizing::default()
    };
    let seed = if arguments.seed_from_stdin {
        let line = session.line_of_input("seed")?;
        // In groups of four, as seeds are printed.
        Some(line.chars().filter(|c| !c.is_whitespace()).collect())
    } else {
        None
    };
    Ok(Enrolment {
        user: arguments.user.clone(),
        kind: arguments.kind.into(),
        digits: arguments.digits,
        algorithm: arguments.algorithm.into(),
        period: arguments.period,
        pin: pin.to_string(),
        pin_position: arguments.pin_position.into(),
        seed,
        description: arguments.description.clone(),
        // A PIN or a list of codes has been seen by whoever needs it: there is nothing to prove.
        active: arguments.no_verify || matches!(arguments.kind, Kind::SimplePass | Kind::RecoveryCodes),
        unknown_user: arguments.unknown_user,
    })
}

fn show(enrolled: &Enrolled, arguments: &Enrol, session: &mut Session<'_>) -> Result<(), Failure> {
    let (token, otpauth, codes) = enrolled.parts();
    if let Some(uri) = otpauth {
        let drawn = match arguments.qr {
            When::Auto => session.output_is_terminal,
            When::Always => true,
            When::Never => false,
        };
        // Colours of its own even where NO_COLOR is set: without them a light terminal shows the code inverted.
        for line in qr::draw(uri, session.output_is_terminal).filter(|_| drawn).unwrap_or_default() {
            session.say(line)?;
        }
        session.say(uri)?;
    }
    session.say(printable(&format!("{} of {} is enrolled.", token.serial, token.user)))?;
    show_codes(codes, session)
}

fn show_codes(codes: &[String], session: &mut Session<'_>) -> Result<(), Failure> {
    if codes.is_empty() {
        return Ok(());
    }
    session.say("Each of these codes lets in once; they are shown now and never again:")?;
    for code in codes {
        session.say(format!("  {}", printable(code)))?;
    }
    Ok(())
}

/// Asks for a first code until it is right.
fn prove(token: &TokenRecord, session: &mut Session<'_>) -> Result<(), Failure> {
    let serial = &token.serial;
    let later = format!("{serial} lets nobody in until `privacyidea-host token confirm {serial}`");
    if !session.person.is_present() {
        session.note(format!("{later} (there is no terminal to ask for a code at)."));
        return Ok(());
    }
    for _ in 0..TRIES {
        let code = match session.code("Type the code that the app shows now: ", false) {
            Err(Failure::Interrupted) => break,
            code => code?,
        };
        if code.is_empty() {
            break;
        }
        let mut command = Command::TokenConfirm { serial: serial.clone(), code: code.to_string() };
        let answer = session.daemon.ask(&command);
        wipe(&mut command);
        match answer {
            Ok(Answer::Token { token }) => {
                session.say(printable(&format!("Works. {serial} of {} is active.", token.user)))?;
                return next_step(&token, session);
            }
            Ok(_) => return Err(other_version()),
            Err(Failure::Refused(reason)) => session.note(printable(&reason)),
            Err(failure) => return Err(failure),
        }
    }
    Err(Failure::Refused(format!("{later}; `privacyidea-host token remove {serial}` undoes the enrolment.")))
}

fn next_step(token: &TokenRecord, session: &mut Session<'_>) -> Result<(), Failure> {
    session.say(printable(&format!("Try it: privacyidea-host test-login {}", token.user)))
}

fn recovery_codes(arguments: &Enrol) -> Enrolment {
    Enrolment {
        user: arguments.user.clone(),
        kind: TokenKind::RecoveryCodes,
        digits: arguments.digits,
        algorithm: arguments.algorithm.into(),
        period: arguments.period,
        pin: String::new(),
        pin_position: arguments.pin_position.into(),
        seed: None,
        description: String::new(),
        active: true,
        unknown_user: arguments.unknown_user,
    }
}

fn show_recovery_codes(enrolled: &Enrolled, session: &mut Session<'_>) -> Result<(), Failure> {
    let (token, _, codes) = enrolled.parts();
    let kind = token::kind_name(token.kind);
    session.say(printable(&format!("{} of {}: {kind}.", token.serial, token.user)))?;
    show_codes(codes, session)
}
