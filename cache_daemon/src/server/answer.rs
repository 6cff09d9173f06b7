//! What an HTTP answer of privacyIDEA means: a function of its status, type and bytes, and nothing else.
//!
//! Shapes are those of privacyIDEA 3.14 (`api/lib/utils.py`, `send_result` and `send_error`); `docs/privacyidea.md`
//! has the table. Texts of the server are translated and changed by its administrators: none is ever compared.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Accepted, Answer, Challenged, Failure, OfflineBatch, Poll, Refilled, for_the_log, printable};

/// An HTTP answer, read whole.
pub(super) struct Reply<'a> {
    pub(super) status: u16,
    /// The `Content-Type` header; empty if there is none.
    pub(super) content_type: &'a str,
    pub(super) body: &'a [u8],
}

/// `User does not exist` (`lib/error.py`, `Error.USER`).
const UNKNOWN_USER: i64 = 904;
/// A resolver cannot be reached (`Error.RESOLVER`).
const RESOLVER_AWAY: i64 = 907;
/// The subscription does not cover this client or that many users (`Error.SUBSCRIPTION`).
const NO_SUBSCRIPTION: i64 = 101;

/// What every JSON answer of privacyIDEA has. A key given twice is an error of serde's derived code, so that no two
/// readers can take two different values for the same answer.
#[derive(Deserialize)]
struct Envelope {
    jsonrpc: String,
    result: Outcome,
    #[serde(default)]
    detail: Option<Value>,
    #[serde(default)]
    auth_items: Option<Value>,
}

#[derive(Deserialize)]
struct Outcome {
    /// Whether the request was processed, not whether the user was accepted.
    status: bool,
    #[serde(default)]
    value: Option<Value>,
    #[serde(default)]
    authentication: Option<String>,
    #[serde(default)]
    error: Option<ServerError>,
}

#[derive(Deserialize)]
struct ServerError {
    code: i64,
    #[serde(default)]
    message: String,
}

/// Reads the answer to `POST /validate/check` for `user`.
///
/// # Errors
/// [`Failure::Unable`] for 5xx, 907 and 101 in privacyIDEA's own form, [`Failure::Rubbish`] for everything that is
/// not in that form or contradicts itself.
pub(super) fn read_check(user: &str, reply: &Reply<'_>) -> Result<Answer, Failure> {
    let envelope = open(reply)?;
    if let Some(error) = refused_request(&envelope)? {
        return verdict_of_error(reply.status, error);
    }
    let value = yes_or_no(reply, &envelope)?;
    let detail = Detail(envelope.detail.as_ref());
    match (value, envelope.result.authentication.as_deref()) {
        (true, None | Some("ACCEPT")) => Ok(accepted(user, &detail, envelope.auth_items.as_ref())),
        (true, Some(_)) | (false, Some("ACCEPT")) => {
            Err(rubbish(reply, "a result that contradicts its `authentication`"))
        }
        // Servers before 3.6 do not say `authentication`: there the transaction alone makes the challenge.
        (false, None | Some("CHALLENGE")) => Ok(match Challenged::read(&detail) {
            Some(challenged) => Answer::Challenged(challenged),
            None => Answer::Rejected { reason: for_the_log(detail.text("message")) },
        }),
        (false, Some(_)) => Ok(Answer::Rejected { reason: for_the_log(detail.text("message")) }),
    }
}

/// Reads the answer to `GET /validate/polltransaction`.
///
/// # Errors
/// As [`read_check`]; an error in privacyIDEA's form is [`Failure::Unable`].
pub(super) fn read_poll(reply: &Reply<'_>) -> Result<Poll, Failure> {
    let envelope = open(reply)?;
    if let Some(error) = refused_request(&envelope)? {
        return Err(Failure::Unable(describe(reply.status, error)));
    }
    let value = yes_or_no(reply, &envelope)?;
    // `authentication` says REJECT while the challenge is pending.
    match (value, Detail(envelope.detail.as_ref()).optional("challenge_status")) {
        // Servers before 3.9 do not say the status.
        (true, None | Some("accept")) => Ok(Poll::Accepted),
        (false, Some("declined")) => Ok(Poll::Declined),
        (false, Some("cancelled")) => Ok(Poll::Cancelled),
        (false, Some("accept")) | (true, Some(_)) => {
            Err(rubbish(reply, "a result that contradicts its `challenge_status`"))
        }
        (false, _) => Ok(Poll::Pending),
    }
}

/// Reads the answer to `POST /validate/offlinerefill` for the token `serial`.
///
/// # Errors
/// As [`read_check`].
pub(super) fn read_refill(serial: &str, reply: &Reply<'_>) -> Result<Refilled, Failure> {
    let envelope = open(reply)?;
    if let Some(error) = refused_request(&envelope)? {
        // 905 and, where the reasons are hidden, 401: disabled, revoked, no longer offline, a dead refill token.
        return match verdict_of_error(reply.status, error)? {
            Answer::Rejected { reason } => Ok(Refilled::Dropped { reason }),
            _ => Ok(Refilled::Dropped { reason: describe(reply.status, error) }),
        };
    }
    if !yes_or_no(reply, &envelope)? {
        return Ok(Refilled::Dropped { reason: String::new() });
    }
    let batches = OfflineBatch::read(envelope.auth_items.as_ref());
    let batch = batches.into_iter().find(|batch| batch.serial == serial);
    batch.map(Refilled::Batch).ok_or_else(|| rubbish(reply, "a refill without values of that token"))
}

/// Reads the answer to `GET /healthz/livez`: anything in privacyIDEA's form will do.
///
/// # Errors
/// As [`read_check`].
pub(super) fn read_health(reply: &Reply<'_>) -> Result<(), Failure> {
    let envelope = open(reply)?;
    match refused_request(&envelope)? {
        Some(error) => Err(Failure::Unable(describe(reply.status, error))),
        None if reply.status == 200 => Ok(()),
        None => Err(Failure::Unable(format!("HTTP {}", reply.status))),
    }
}

fn yes_or_no(reply: &Reply<'_>, envelope: &Envelope) -> Result<bool, Failure> {
    if reply.status != 200 {
        return Err(rubbish(reply, "a result that does not go with that status"));
    }
    match envelope.result.value {
        Some(Value::Bool(value)) => Ok(value),
        _ => Err(rubbish(reply, "a result that is neither true nor false")),
    }
}

/// The envelope, if this is one. A redirect never is: its target is somebody else's business.
fn open(reply: &Reply<'_>) -> Result<Envelope, Failure> {
    if (300..400).contains(&reply.status) {
        return Err(rubbish(reply, "a redirect, which is never followed"));
    }
    let kind = reply.content_type.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(rubbish(reply, &format!("`{kind}` instead of JSON")));
    }
    let envelope: Envelope = serde_json::from_slice(reply.body)
        // serde_json quotes pieces of what it read: say where, not what.
        .map_err(|error| rubbish(reply, &format!("JSON of another shape (column {})", error.column())))?;
    if envelope.jsonrpc != "2.0" {
        return Err(rubbish(reply, "JSON that is not JSON-RPC 2.0"));
    }
    Ok(envelope)
}

/// `status` false and an error: the request got no result.
fn refused_request(envelope: &Envelope) -> Result<Option<&ServerError>, Failure> {
    match (&envelope.result.error, envelope.result.status) {
        (Some(error), false) => Ok(Some(error)),
        (None, true) => Ok(None),
        (Some(_), true) | (None, false) => {
            Err(Failure::Rubbish("it answered with a `status` that contradicts the rest".to_owned()))
        }
    }
}

/// A 4xx is privacyIDEA's verdict on the login, except where it says that it could not judge.
fn verdict_of_error(status: u16, error: &ServerError) -> Result<Answer, Failure> {
    match error.code {
        UNKNOWN_USER if status < 500 => Ok(Answer::UnknownUser),
        RESOLVER_AWAY | NO_SUBSCRIPTION => Err(Failure::Unable(describe(status, error))),
        _ if (400..500).contains(&status) || status == 200 => {
            Ok(Answer::Rejected { reason: describe(status, error) })
        }
        _ => Err(Failure::Unable(describe(status, error))),
    }
}

fn describe(status: u16, error: &ServerError) -> String {
    for_the_log(&format!("{} (error {}, HTTP {status})", error.message, error.code))
}

fn rubbish(reply: &Reply<'_>, what: &str) -> Failure {
    Failure::Rubbish(for_the_log(&format!("it answered HTTP {} with {what}", reply.status)))
}

/// Yes, if it is yes to the name that was asked.
///
/// Directories match names without case, and privacyIDEA splits `name@realm` (and `REALM\name`): the user it
/// accepted may be another one than ours. It says which one only under the policy `add_user_in_response`. A name that
/// it would split is therefore believed only if confirmed.
fn accepted(user: &str, detail: &Detail<'_>, auth_items: Option<&Value>) -> Answer {
    let confirmed = detail.field("user").and_then(|user| user.get("username"));
    let reason = match confirmed {
        Some(name) if name.as_str() == Some(user) => None,
        Some(_) => Some("the server accepted a user of another name"),
        None if user.contains(['@', '\\']) => Some(
            "the server may have split this name at its `@` or `\\` and did not confirm it \
             (policy add_user_in_response)",
        ),
        None => None,
    };
    match reason {
        Some(reason) => Answer::Rejected { reason: reason.to_owned() },
        None => Answer::Accepted(Accepted {
            serial: detail.optional("serial").map(for_the_log),
            attributes: attributes(detail),
            offline: OfflineBatch::read(auth_items),
        }),
    }
}

/// More attributes of a user are not read, nor more values of one.
const ATTRIBUTES_MAX: usize = 64;
/// What resolvers call a password's hash (`lib/resolvers/`): nobody's business here.
const SECRET: [&str; 2] = ["password", "cryptpass"];
/// Longer values are cut, in characters.
const ATTRIBUTE_LENGTH_MAX: usize = 1000;

/// What the server says of the user beside the name.
fn attributes(detail: &Detail<'_>) -> BTreeMap<String, Vec<String>> {
    let of_the_user = detail.field("user").and_then(Value::as_object).into_iter().flatten();
    let named =
        of_the_user.map(|(name, value)| (name.as_str(), value)).filter(|(name, _)| !SECRET.contains(name));
    let beside = [("realm", "user-realm"), ("resolver", "user-resolver")];
    let beside = beside.into_iter().filter_map(|(name, field)| Some((name, detail.field(field)?)));
    named
        .take(ATTRIBUTES_MAX)
        .chain(beside)
        .map(|(name, value)| (for_the_log(name), values(value)))
        .filter(|(name, values)| !name.is_empty() && !values.is_empty())
        .collect()
}

/// Texts and numbers as texts, a list as several.
fn values(value: &Value) -> Vec<String> {
    let texts: Vec<String> = match value {
        Value::Array(several) => several.iter().take(ATTRIBUTES_MAX).filter_map(text).collect(),
        one => text(one).into_iter().collect(),
    };
    texts
        .into_iter()
        .map(|text| printable(&text, ATTRIBUTE_LENGTH_MAX))
        .filter(|text| !text.is_empty())
        .collect()
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// `detail`, which may be absent, null, or without the field (policies hide it).
pub(super) struct Detail<'a>(pub(super) Option<&'a Value>);

impl<'a> Detail<'a> {
    pub(super) fn field(&self, name: &str) -> Option<&'a Value> {
        self.0.and_then(|detail| detail.get(name)).filter(|value| !value.is_null())
    }

    pub(super) fn optional(&self, name: &str) -> Option<&'a str> {
        self.field(name).and_then(Value::as_str)
    }

    pub(super) fn text(&self, name: &str) -> &'a str {
        self.optional(name).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
