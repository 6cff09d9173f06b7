//! The server, for answers that no local token accepted.

use privacyidea_contract::Secret;

use super::local::{self, Refusal};
use super::offline::{self, Typed};
use super::{Decision, Host, Subject, identity};
use crate::server::{Answer, Check, Failure, Server, Step};

pub(super) fn check(
    server: &dyn Server,
    subject: &Subject<'_>,
    host: &Host<'_>,
    answer: &Secret,
    refusal: &Refusal,
) -> Decision {
    let check = Check {
        user: subject.asked.user,
        realm: subject.asked.realm,
        password: answer,
        step: Step::First,
        rhost: subject.rhost,
    };
    match server.check(&check) {
        // If the failcount cannot be set back, the login stands all the same: the server has consumed the code.
        Ok(Answer::Accepted(accepted)) => match identity::accept(subject, host, &accepted) {
            granted if granted.is_granted() => granted
                .noting(offline::keep(subject, host, &accepted, Typed::Password))
                .despite(local::forget(subject, host, refusal)),
            refused => refused,
        },
        Ok(Answer::Rejected { reason }) => Decision::refused_by_server(&reason),
        Ok(Answer::UnknownUser) => Decision::unknown_to_the_server(),
        Ok(Answer::Challenged(challenged)) => second_step(&challenged.message),
        Err(failure) => undecided(&failure).despite(local::excuse(subject, host, refusal)),
    }
}

/// The place of the second step: the first factor was right, and the server wants another. This version cannot ask, so
/// the failure stays counted; and so does one that never comes to an end, or who knows a PIN could make a telephone ring
/// all night.
fn second_step(message: &str) -> Decision {
    Decision::second_step_wanted(message)
}

fn undecided(failure: &Failure) -> Decision {
    match failure {
        Failure::Unreachable(why) => Decision::server_unreachable(why),
        Failure::Unable(why) => Decision::server_unable(why),
        Failure::Rubbish(why) => Decision::server_talks_rubbish(why),
        Failure::Untrusted(why) => Decision::server_untrusted(why),
    }
}
