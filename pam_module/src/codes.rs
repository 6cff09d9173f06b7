//! Outcomes and the PAM codes that they become; the table in `docs/protocol.md` and pam_privacyidea(8) is this one.

use pamsm::PamError;
use privacyidea_contract::wire::Verdict;

/// The two phases in which something is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// pam_authenticate(3)
    Authentication,
    /// pam_acct_mgmt(3)
    Account,
}

/// How asking the daemon ended: outside whether it could be asked, inside what it said.
pub(crate) type Outcome = Result<Verdict, Failure>;

/// Why there is no verdict that counts; `Display` is a sentence for the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No daemon could be reached or started, or it went away or fell silent: try later.
    Unavailable(String),
    /// Who listens on the socket is not the daemon: look at once.
    Impostor {
        /// Its uid.
        uid: u32,
    },
    /// The daemon said something that has no place here: the versions do not fit, or it is a bug.
    Nonsense(String),
    /// The daemon answers this caller for its own user only.
    NotAllowed,
    /// The daemon confirmed another user than the one that was asked about.
    OtherIdentity,
    /// The person gave no answer, or could not be asked.
    NoAnswer,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unavailable(why) => write!(f, "the daemon cannot be asked: {why}"),
            Self::Impostor { uid } => write!(
                f,
                "the socket is served by uid {uid}, which is neither root nor the daemon's user: nothing was sent"
            ),
            Self::Nonsense(what) => write!(f, "the daemon cannot be understood: {what}"),
            Self::NotAllowed => f.write_str("the daemon answers this caller about its own user only"),
            Self::OtherIdentity => f.write_str("the daemon confirmed another user than PAM_USER: refused"),
            Self::NoAnswer => f.write_str("the conversation ended without an answer"),
        }
    }
}

/// The PAM code of an outcome.
pub(crate) fn code(phase: Phase, outcome: &Outcome) -> PamError {
    let (authentication, account) = columns(outcome);
    match phase {
        Phase::Authentication => authentication,
        Phase::Account => account,
    }
}

/// The table: what it becomes in the authentication and in the account phase.
fn columns(outcome: &Outcome) -> (PamError, PamError) {
    use PamError as Pam;
    match outcome {
        Ok(Verdict::Granted { .. }) => (Pam::SUCCESS, Pam::SUCCESS),
        Ok(Verdict::Refused) => (Pam::AUTH_ERR, Pam::PERM_DENIED),
        Ok(Verdict::UnknownUser) => (Pam::USER_UNKNOWN, Pam::USER_UNKNOWN),
        // Not PAM_MAXTRIES, which its name suggests: sshd tells a client of it, by offering fewer methods, and so which
        // names can be locked.
        Ok(Verdict::Locked) => (Pam::AUTH_ERR, Pam::PERM_DENIED),
        Ok(Verdict::Unavailable) => (Pam::AUTHINFO_UNAVAIL, Pam::AUTHINFO_UNAVAIL),
        Ok(Verdict::Untrusted) => (Pam::SYSTEM_ERR, Pam::SYSTEM_ERR),
        Ok(Verdict::Failed) => (Pam::SERVICE_ERR, Pam::SERVICE_ERR),
        Ok(Verdict::OutOfScope) => (Pam::IGNORE, Pam::IGNORE),
        Ok(Verdict::NoAnswer) | Err(Failure::NoAnswer) => (Pam::CONV_ERR, Pam::CONV_ERR),
        Err(Failure::Unavailable(_)) => (Pam::AUTHINFO_UNAVAIL, Pam::AUTHINFO_UNAVAIL),
        Err(Failure::Impostor { .. }) => (Pam::SYSTEM_ERR, Pam::SYSTEM_ERR),
        Err(Failure::Nonsense(_)) => (Pam::SERVICE_ERR, Pam::SERVICE_ERR),
        Err(Failure::NotAllowed) => (Pam::CRED_INSUFFICIENT, Pam::PERM_DENIED),
        Err(Failure::OtherIdentity) => (Pam::AUTH_ERR, Pam::PERM_DENIED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table as `docs/protocol.md` has it, by number, and the document itself.
    #[test]
    fn the_table_is_the_documented_one() {
        let document = include_str!("../../docs/protocol.md");
        let granted = Verdict::Granted { user: "alice".to_owned() };
        let rows: [(&str, Outcome); 14] = [
            ("`Granted`", Ok(granted)),
            ("`Refused`", Ok(Verdict::Refused)),
            ("`UnknownUser`", Ok(Verdict::UnknownUser)),
            ("`Locked`", Ok(Verdict::Locked)),
            ("`Unavailable`", Ok(Verdict::Unavailable)),
            ("`Untrusted`", Ok(Verdict::Untrusted)),
            ("`Failed`", Ok(Verdict::Failed)),
            ("`OutOfScope`", Ok(Verdict::OutOfScope)),
            ("`NoAnswer`", Ok(Verdict::NoAnswer)),
            ("no daemon", Err(Failure::Unavailable(String::new()))),
            ("an impostor", Err(Failure::Impostor { uid: 1000 })),
            ("nonsense", Err(Failure::Nonsense(String::new()))),
            ("`NotAllowed`", Err(Failure::NotAllowed)),
            ("another identity", Err(Failure::OtherIdentity)),
        ];
        for (name, outcome) in rows {
            let codes = [Phase::Authentication, Phase::Account].map(|phase| code(phase, &outcome));
            let row = format!("| {name} | PAM_{:?} | PAM_{:?} |", codes[0], codes[1]);
            assert!(document.contains(&row), "docs/protocol.md has no row {row}");
        }
    }

    /// Success and "none of my business" are never reached by accident.
    #[test]
    fn only_a_grant_succeeds_and_only_out_of_scope_is_ignored() {
        let failures = [
            Failure::Unavailable(String::new()),
            Failure::Impostor { uid: 1000 },
            Failure::Nonsense(String::new()),
            Failure::NotAllowed,
            Failure::OtherIdentity,
            Failure::NoAnswer,
        ];
        let verdicts = [
            Verdict::Refused,
            Verdict::UnknownUser,
            Verdict::Locked,
            Verdict::Unavailable,
            Verdict::Untrusted,
            Verdict::Failed,
            Verdict::NoAnswer,
        ];
        let outcomes = failures.into_iter().map(Err).chain(verdicts.into_iter().map(Ok));
        for outcome in outcomes {
            for phase in [Phase::Authentication, Phase::Account] {
                let code = code(phase, &outcome);
                assert!(!matches!(code, PamError::SUCCESS | PamError::IGNORE), "{phase:?} {outcome:?}");
            }
        }
    }
}
