//! The server, for answers that no local token accepted.

use privacyidea_contract::Secret;

use super::local::{self, Refusal};
use super::offline::Typed;
use super::steps::{Steps, Talk};
use super::{Decision, Host, Subject};
use crate::server::{Answer, Failure, Server, Step};

pub(super) fn check(
    server: &dyn Server,
    subject: &Subject<'_>,
    host: &Host<'_>,
    answer: &Secret,
    refusal: &Refusal,
    talk: Option<Talk<'_>>,
) -> Decision {
    let steps = Steps { server, subject, host, refusal };
    match server.check(&steps.question(answer, Step::First)) {
        Ok(Answer::Accepted(accepted)) => steps.accept(&accepted, Typed::Password),
        Ok(Answer::Rejected { reason }) => Decision::refused_by_server(&reason),
        Ok(Answer::UnknownUser) => Decision::unknown_to_the_server(),
        // From here on the failure stays counted until the last step is done; or who knows a PIN could make a telephone
        // ring all night.
        Ok(Answer::Challenged(challenged)) => match talk {
            Some(talk) => steps.run(challenged, talk),
            None => Decision::second_step_wanted(&challenged.message),
        },
        Err(failure) => undecided(&failure).despite(local::excuse(subject, host, refusal)),
    }
}

/// A check without a password, which triggers the user's challenges. None: there are none, and nothing was wrong.
pub(super) fn begin(
    server: &dyn Server,
    subject: &Subject<'_>,
    host: &Host<'_>,
    refusal: &Refusal,
    talk: Talk<'_>,
) -> Option<Decision> {
    let steps = Steps { server, subject, host, refusal };
    match server.check(&steps.question(&Secret::from(""), Step::First)) {
        Ok(Answer::Challenged(challenged)) => Some(steps.run(challenged, talk)),
        // A token without a PIN, or a policy that lets in who has no token.
        Ok(Answer::Accepted(accepted)) => Some(steps.accept(&accepted, Typed::Password)),
        Ok(Answer::Rejected { .. } | Answer::UnknownUser) | Err(_) => {
            match local::excuse(subject, host, refusal) {
                Ok(()) => None,
                Err(error) => Some(Decision::store_failed(&error)),
            }
        }
    }
}

pub(super) fn undecided(failure: &Failure) -> Decision {
    match failure {
        Failure::Unreachable(why) => Decision::server_unreachable(why),
        Failure::Unable(why) => Decision::server_unable(why),
        Failure::Rubbish(why) => Decision::server_talks_rubbish(why),
        Failure::Untrusted(why) => Decision::server_untrusted(why),
    }
}
