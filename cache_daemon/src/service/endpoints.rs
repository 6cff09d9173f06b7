//! What each socket answers, and to whom.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use privacyidea_contract::wire::{
    Login, Overrides, PeerCredentials, Reply, Request, Stream, StreamError, Verdict,
};
use zeroize::Zeroizing;

use super::clock::Clock;
use super::conversation::{PEER, SocketConversation};
use super::room::{Share, Visitor};
use super::scope::Scope;
use super::workers::Serve;
use crate::administration::{self, Command};
use crate::authentication::{self, Host};
use crate::directory::{Account, Accounts};

/// Logins that a user who is not root may have going on at the same time: a screen locker needs one.
const LOGINS_PER_USER: usize = 4;
/// Logins of all users who are not root together.
const LOGINS_OF_USERS: usize = 32;
/// Logins through programs that users of one group have called; many hosts have one group for all users.
const CALLED_PER_GROUP: usize = 64;
/// Such logins of all groups together; the rest of the workers is for sshd and login.
const CALLED: usize = 128;
/// The longest piece of a document in bytes; with its head it fits a frame.
const PIECE: usize = 60 * 1024;

/// `auth.sock`: logins, account checks, administration.
pub(super) struct AuthSocket(pub(super) Arc<Scope>);

/// `lookup.sock`: what the map does not have, status.
pub(super) struct LookupSocket(pub(super) Arc<Scope>);

impl Serve for AuthSocket {
    fn serve(&self, visitor: Visitor) {
        let Visitor { mut stream, peer, request } = visitor;
        // The peer may be gone: whatever fails from here on concerns nobody else.
        let share = Share::of(peer);
        let (each, together) = match share {
            Share::User(_) => (LOGINS_PER_USER, LOGINS_OF_USERS),
            Share::Called(_) | Share::Root => (CALLED_PER_GROUP, CALLED),
        };
        let _ = match self.0.attendance.enter(share, each, together) {
            Some(_place) => authenticate(&self.0, &mut stream, peer, request),
            None => send(&mut stream, &refusal(&request)),
        };
    }
}

impl Serve for LookupSocket {
    fn serve(&self, visitor: Visitor) {
        let Visitor { mut stream, request, .. } = visitor;
        let scope = &self.0;
        let _ = match request {
            Request::Lookup(lookup) => {
                send(&mut stream, &scope.configured().directory.lookup(&lookup, scope.clock.now()))
            }
            Request::Status => send_document(&mut stream, &scope.execute(&Command::Status)),
            _ => send(&mut stream, &Reply::NotAllowed),
        };
    }
}

/// Serves one request of `auth.sock`.
///
/// # Errors
/// The peer is gone.
pub(super) fn authenticate(
    scope: &Scope,
    stream: &mut Stream,
    peer: PeerCredentials,
    request: Request,
) -> Result<(), StreamError> {
    match request {
        Request::Login(login) => decide(scope, stream, peer, login, log_in),
        Request::Account(login) => decide(scope, stream, peer, login, check_account),
        Request::Administration(document) if peer.uid == 0 => administrate(scope, stream, &document),
        _ => send(stream, &Reply::NotAllowed),
    }
}

/// Answers a request while nothing can be decided; root's command line hears why.
///
/// # Errors
/// The peer is gone.
pub(super) fn turn_away(
    stream: &mut Stream,
    peer: PeerCredentials,
    request: &Request,
    reason: &str,
) -> Result<(), StreamError> {
    match request {
        Request::Administration(_) if peer.uid == 0 => {
            send_document(stream, &administration::Answer::Refused { reason: reason.to_owned() })
        }
        _ => send(stream, &refusal(request)),
    }
}

/// The answer to a request that is not looked at.
fn refusal(request: &Request) -> Reply {
    match request {
        Request::Login(_) | Request::Account(_) => Reply::Verdict(Verdict::Unavailable),
        Request::Administration(_) | Request::Answer(_) => Reply::NotAllowed,
        Request::Lookup(_) | Request::Status => Reply::Unavailable,
    }
}

type Decision = fn(&Scope, &mut Stream, &Login, bool) -> Verdict;

fn decide(
    scope: &Scope,
    stream: &mut Stream,
    peer: PeerCredentials,
    mut login: Login,
    decision: Decision,
) -> Result<(), StreamError> {
    let is_root = peer.uid == 0;
    if !is_root {
        if !is_account_of(scope, &login.user, peer.uid) {
            return send(stream, &Reply::NotAllowed);
        }
        login.uid = Some(peer.uid);
        believe_nothing_of_the_line(scope, &mut login);
    }
    // A fault in a decision is never a yes, and the peer hears of it.
    let verdict = catch_unwind(AssertUnwindSafe(|| decision(scope, stream, &login, is_root)));
    send(stream, &Reply::Verdict(verdict.unwrap_or(Verdict::Failed)))
}

fn log_in(scope: &Scope, stream: &mut Stream, login: &Login, is_root: bool) -> Verdict {
    let Some(turn) = scope.turns.take() else {
        scope.log.error("a login was turned away: too many are at work");
        return Verdict::Unavailable;
    };
    on_host(scope, login, is_root, |host| {
        let mut conversation = SocketConversation::new(stream, &scope.stop, &scope.turns, turn);
        authentication::run(login, host, &mut conversation)
    })
}

fn check_account(scope: &Scope, _stream: &mut Stream, login: &Login, is_root: bool) -> Verdict {
    on_host(scope, login, is_root, |host| authentication::account(login, host))
}

/// Decides with the server that counts for this login.
fn on_host(
    scope: &Scope,
    login: &Login,
    is_root: bool,
    decide: impl FnOnce(&Host<'_>) -> Verdict,
) -> Verdict {
    let configured = scope.configured();
    match configured.line_server(&login.overrides) {
        Ok(line) => decide(&scope.host(&configured, line.as_ref(), is_root)),
        Err(reason) => authentication::refuse_line(login, &scope.host(&configured, None, is_root), &reason),
    }
}

/// Whoever is not root would choose the server that says yes, and whom it asks.
fn believe_nothing_of_the_line(scope: &Scope, login: &mut Login) {
    let said = std::mem::take(&mut login.overrides);
    if said != Overrides::default() {
        authentication::ignore_line(login, &scope.host(&scope.configured(), None, false));
    }
}

/// Whether the peer, who is not root, is the user whom the request is about.
fn is_account_of(scope: &Scope, user: &str, peer: u32) -> bool {
    match scope.configured().directory.account(user) {
        Ok(Account::Local { uid } | Account::Resolver { uid }) => uid == peer,
        Ok(Account::System | Account::Unknown) | Err(_) => false,
    }
}

fn administrate(scope: &Scope, stream: &mut Stream, document: &[u8]) -> Result<(), StreamError> {
    let answer = match serde_json::from_slice(document) {
        Ok(command) => scope.execute(&command),
        // Where it stands, not what it says: a command may hold a PIN.
        Err(error) => administration::Answer::Refused {
            reason: format!(
                "The daemon does not understand the command (column {}); are all packages of one version?",
                error.column()
            ),
        },
    };
    send_document(stream, &answer)
}

fn send_document(stream: &mut Stream, answer: &administration::Answer) -> Result<(), StreamError> {
    // Large enough for every answer with a secret in it, so that growth leaves no copy behind.
    let mut document = Zeroizing::new(Vec::with_capacity(16 * 1024));
    if serde_json::to_writer(&mut *document, answer).is_err() {
        return send(stream, &Reply::Unavailable);
    }
    let mut pieces = document.chunks(PIECE).peekable();
    while let Some(piece) = pieces.next() {
        let bytes = Zeroizing::new(piece.to_vec());
        send(stream, &Reply::Document { last: pieces.peek().is_none(), bytes })?;
    }
    Ok(())
}

fn send(stream: &mut Stream, reply: &Reply) -> Result<(), StreamError> {
    stream.send_reply(reply, Instant::now() + PEER)
}
