//! Further steps: what a server wants to see after a password, in one transaction.
//!
//! Codes go to the server in the transaction, without the PIN. What is confirmed on another device is asked for while the
//! person waits; that it was confirmed is never a login by itself, the server has to say yes to a last check.

use std::time::Duration;

use privacyidea_contract::Secret;

use super::local::{self, Refusal};
use super::offline::{self, Typed};
use super::remote::undecided;
use super::{Conversation, ConversationEnded, Decision, Host, Subject, identity};
use crate::qr;
use crate::server::{Accepted, Answer, Challenged, Check, Enrolment, Failure, Poll, Server, Step};

/// Wrong answers to one challenge.
const TRIES: usize = 3;
/// Challenges one after another in one login.
const ROUNDS: usize = 5;
/// How soon it is asked again whether the person has confirmed; each time somewhat later.
const PACE: Duration = Duration::from_millis(500);
const SLOWEST_PACE: Duration = Duration::from_millis(1500);
/// Questions in a row that may fail: asking again changes nothing there, and a kept connection can end under one.
const LOST_POLLS: usize = 2;
/// How long who could type a code instead waits before they are asked again.
const PATIENCE: Duration = Duration::from_secs(20);

/// The person during the further steps.
pub(super) struct Talk<'a> {
    pub(super) conversation: &'a mut dyn Conversation,
    /// How long a confirmation on another device is waited for.
    pub(super) push_wait: Duration,
}

/// A login at the server that has begun.
pub(super) struct Steps<'a> {
    pub(super) server: &'a dyn Server,
    pub(super) subject: &'a Subject<'a>,
    pub(super) host: &'a Host<'a>,
    pub(super) refusal: &'a Refusal,
}

/// How one challenge ended.
enum Ended {
    Accepted(Accepted),
    Challenged(Challenged),
    Decided(Decision),
}

/// What the person did at a prompt.
enum Confirmation {
    Given,
    NotYet,
    Ended(Decision),
}

impl Steps<'_> {
    /// Answers challenges until the server has decided.
    pub(super) fn run(&self, mut challenged: Challenged, mut talk: Talk<'_>) -> Decision {
        for _ in 0..ROUNDS {
            match self.one(&challenged, &mut talk) {
                Ended::Accepted(accepted) => return self.accept(&accepted, Typed::CodeAlone),
                Ended::Challenged(next) => challenged = next,
                Ended::Decided(decision) => return decision,
            }
        }
        Decision::too_many_steps()
    }

    /// What goes to the server.
    pub(super) fn question<'b>(&'b self, answer: &'b Secret, step: Step<'b>) -> Check<'b> {
        Check {
            user: self.subject.asked.user,
            realm: self.subject.asked.realm,
            password: answer,
            step,
            rhost: self.subject.rhost,
        }
    }

    /// The end of a login that the server accepts. If the failcount cannot be set back, it stands all the same: the server
    /// has consumed the code.
    pub(super) fn accept(&self, accepted: &Accepted, typed: Typed) -> Decision {
        match identity::accept(self.subject, self.host, accepted) {
            granted if granted.is_granted() => granted
                .noting(offline::keep(self.subject, self.host, accepted, typed))
                .despite(local::forget(self.subject, self.host, self.refusal)),
            refused => refused,
        }
    }

    fn one(&self, challenged: &Challenged, talk: &mut Talk<'_>) -> Ended {
        if !challenged.is_interactive() && !challenged.is_polled() {
            return Ended::Decided(Decision::second_step_wanted(&challenged.message));
        }
        match self.ask(challenged, talk) {
            Ok(ended) => ended,
            Err(ConversationEnded) => Ended::Decided(Decision::no_answer()),
        }
    }

    fn ask(&self, challenged: &Challenged, talk: &mut Talk<'_>) -> Result<Ended, ConversationEnded> {
        show_links(challenged, talk.conversation)?;
        let began = self.host.clock.now();
        let mut prompt = prompt(challenged);
        let mut wrong = 0;
        while wrong < TRIES {
            let answer = talk.conversation.ask(&prompt, false)?;
            let step = Step::In(&challenged.transaction);
            let outcome = if !answer.is_empty() {
                self.check(&answer, step)
            } else if challenged.enrolment == Enrolment::Optional {
                self.check(&answer, Step::DeclineEnrolment(&challenged.transaction))
            } else if challenged.is_polled() {
                let waited = Duration::from_secs(self.host.clock.now().saturating_sub(began));
                match self.wait(challenged, talk, talk.push_wait.saturating_sub(waited))? {
                    Confirmation::Given => self.check(&answer, step),
                    Confirmation::NotYet => {
                        prompt = "Not confirmed yet. Press Enter to wait on, or type a code: ".to_owned();
                        continue;
                    }
                    Confirmation::Ended(decision) => return Ok(Ended::Decided(decision)),
                }
            } else {
                // Sent to the server it would count as a wrong code.
                wrong += 1;
                continue;
            };
            if let Some(ended) = outcome {
                return Ok(ended);
            }
            wrong += 1;
            if let Err(error) = local::count(self.subject, self.host) {
                return Ok(Ended::Decided(Decision::store_failed(&error)));
            }
        }
        Ok(Ended::Decided(Decision::wrong_step()))
    }

    /// None: it was wrong, and the challenge can still be answered.
    fn check(&self, answer: &Secret, step: Step<'_>) -> Option<Ended> {
        Some(match self.server.check(&self.question(answer, step)) {
            Ok(Answer::Accepted(accepted)) => Ended::Accepted(accepted),
            Ok(Answer::Challenged(next)) => Ended::Challenged(next),
            Ok(Answer::Rejected { .. }) => return None,
            Ok(Answer::UnknownUser) => Ended::Decided(Decision::unknown_to_the_server()),
            Err(failure) => Ended::Decided(undecided(&failure)),
        })
    }

    /// Asks the server whether the person has confirmed: at once, for whoever has done so before Enter, then now and
    /// again.
    fn wait(
        &self,
        challenged: &Challenged,
        talk: &mut Talk<'_>,
        left: Duration,
    ) -> Result<Confirmation, ConversationEnded> {
        let (mut waited, mut pace) = (Duration::ZERO, PACE);
        let mut lost = 0;
        loop {
            match self.server.poll(&challenged.transaction) {
                Ok(Poll::Accepted) => return Ok(Confirmation::Given),
                Ok(Poll::Pending) => lost = 0,
                Err(Failure::Unreachable(_)) if lost < LOST_POLLS => lost += 1,
                Ok(Poll::Declined) => return Ok(Confirmation::Ended(Decision::declined())),
                Ok(Poll::Cancelled) => return Ok(Confirmation::Ended(Decision::withdrawn())),
                Err(failure) => return Ok(Confirmation::Ended(undecided(&failure))),
            }
            if waited >= left {
                return Ok(Confirmation::Ended(Decision::not_confirmed()));
            }
            if challenged.is_interactive() && waited >= PATIENCE {
                return Ok(Confirmation::NotYet);
            }
            talk.conversation.pause(pace)?;
            waited += pace;
            pace = (pace + pace / 2).min(SLOWEST_PACE);
        }
    }
}

/// Links as QR codes: for an app that enrols a token, or one that confirms.
fn show_links(challenged: &Challenged, conversation: &mut dyn Conversation) -> Result<(), ConversationEnded> {
    for link in challenged.challenges.iter().filter_map(|challenge| challenge.link.as_deref()) {
        let mut text = qr::draw(link, false).unwrap_or_default().join("\n");
        text = format!("{text}\n{link}");
        conversation.tell(text.trim_start_matches('\n'), false)?;
    }
    Ok(())
}

/// The server's text, and what Enter is for.
fn prompt(challenged: &Challenged) -> String {
    let mut text = challenged.message.trim_end_matches([' ', ':', '.', '!', '?']).to_owned();
    if text.is_empty() {
        let polled = if challenged.is_polled() { "Confirm the login on your phone" } else { "Code" };
        polled.clone_into(&mut text);
    }
    let presences = challenged.challenges.iter().filter_map(|challenge| challenge.presence.as_deref());
    for presence in presences.filter(|presence| !challenged.message.contains(&format!(" {presence}"))) {
        text += &format!(" (press {presence})");
    }
    match (challenged.enrolment, challenged.is_polled(), challenged.is_interactive()) {
        (Enrolment::Optional, ..) => text += " (Enter: not now)",
        (_, true, true) => text += ", then press Enter, or type a code",
        (_, true, false) => text += ", then press Enter",
        (_, false, _) => {}
    }
    text + ": "
}
