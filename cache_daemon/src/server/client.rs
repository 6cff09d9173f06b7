//! The requests.

use std::fmt;
use std::net::IpAddr;

use once_cell::sync::OnceCell;
use serde::Serialize;
use ureq::RequestBuilder;
use ureq::http::{Response, header};
use ureq::typestate::WithBody;
use zeroize::Zeroizing;

use super::answer::{Reply, read_check, read_health, read_poll, read_refill};
use super::failure::{Stage, sort};
use super::{Answer, Check, Failure, Poll, Refill, Refilled, Server, Step, TransactionId, agent, computer};
use crate::settings;

/// Longest answer that is read, in bytes; real ones have one or two thousand (a QR code in a challenge: 30 thousand).
const ANSWER_LENGTH_MAX: u64 = 1024 * 1024;

/// A privacyIDEA server behind HTTPS. One per daemon; every worker may use it at the same time.
pub struct Client {
    settings: settings::Server,
    user_agent: String,
    /// Made at the first request, which reads the certificate authorities: a file that is missing is an error of
    /// that login, and is looked for again at the next one.
    agent: OnceCell<ureq::Agent>,
}

/// The body of `POST /validate/check`. JSON, because privacyIDEA decodes percent signs in form values twice for
/// User-Agents that it does not know (`api/lib/utils.py`, `check_unquote`).
#[derive(Serialize)]
struct CheckBody<'a> {
    user: &'a str,
    pass: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    realm: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_enrollment: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<IpAddr>,
}

/// The body of `POST /validate/offlinerefill`.
#[derive(Serialize)]
struct RefillBody<'a> {
    serial: &'a str,
    refilltoken: &'a str,
    pass: &'a str,
}

impl Client {
    /// Opens nothing yet. `computer_name` is [`computer_name()`](super::computer_name)'s, or a test's.
    #[must_use]
    pub fn new(settings: &settings::Server, computer_name: &str) -> Self {
        Self {
            settings: settings.clone(),
            user_agent: format!(
                "privacyidea-host/{} ComputerName/{}",
                env!("CARGO_PKG_VERSION"),
                computer::token(computer_name)
            ),
            agent: OnceCell::new(),
        }
    }

    fn agent(&self) -> Result<&ureq::Agent, Failure> {
        self.agent.get_or_try_init(|| agent::open(&self.settings, &self.user_agent))
    }

    /// A request with a body in JSON.
    fn post(&self, path: &str) -> Result<RequestBuilder<WithBody>, Failure> {
        Ok(self.agent()?.post(self.url(path)).header(header::CONTENT_TYPE, "application/json"))
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.settings.url)
    }
}

impl Server for Client {
    fn check(&self, check: &Check<'_>) -> Result<Answer, Failure> {
        let Ok(pass) = std::str::from_utf8(check.password.expose()) else {
            return Ok(Answer::Rejected {
                reason: "the password is not UTF-8, so it was not sent".to_owned(),
            });
        };
        // privacyIDEA strips the name: it would check somebody else's.
        if check.user.is_empty() || check.user.trim() != check.user {
            return Ok(Answer::Rejected { reason: "no such name can be asked for".to_owned() });
        }
        let client = client_address(check.rhost);
        let (transaction, cancels) = match check.step {
            Step::First => (None, false),
            Step::In(transaction) => (Some(transaction), false),
            Step::DeclineEnrolment(transaction) => (Some(transaction), true),
        };
        let body = serialize(&CheckBody {
            user: check.user,
            pass,
            realm: check.realm.or(self.settings.realm.as_deref()),
            transaction_id: transaction.map(TransactionId::as_str),
            cancel_enrollment: cancels.then_some(1),
            client,
        });
        let mut request = self.post("/validate/check")?;
        if let Some(address) = client {
            request = request.header("X-Forwarded-For", address.to_string());
        }
        let answer = request.send(&body[..]).map_err(|error| sort(error, Stage::Asking))?;
        read(answer, |reply| read_check(check.user, reply))
    }

    fn poll(&self, transaction: &TransactionId) -> Result<Poll, Failure> {
        // Nothing of it needs escaping.
        let url = self.url(&format!("/validate/polltransaction?transaction_id={transaction}"));
        let answer = self.agent()?.get(url).call().map_err(|error| sort(error, Stage::Asking))?;
        read(answer, read_poll)
    }

    fn refill(&self, refill: &Refill<'_>) -> Result<Refilled, Failure> {
        let Ok(pass) = std::str::from_utf8(refill.password.expose()) else {
            return Ok(Refilled::Dropped { reason: "the password is not UTF-8".to_owned() });
        };
        let body =
            serialize(&RefillBody { serial: refill.serial, refilltoken: refill.refill_token.expose(), pass });
        let request = self.post("/validate/offlinerefill")?;
        let answer = request.send(&body[..]).map_err(|error| sort(error, Stage::Asking))?;
        read(answer, |reply| read_refill(refill.serial, reply))
    }

    fn reachable(&self) -> Result<(), Failure> {
        let answer = self
            .agent()?
            .get(self.url("/healthz/livez"))
            .call()
            .map_err(|error| sort(error, Stage::Asking))?;
        read(answer, read_health)
    }
}

/// Neither the realm nor anything else of a request is a secret but its password, and that is never here.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.settings.url).finish_non_exhaustive()
    }
}

/// The JSON in a buffer that is wiped and, being large enough from the start, leaves no copies behind by growing.
/// (ureq and rustls have buffers of their own, which are not wiped: the daemon's memory as a whole is kept from
/// being dumped.)
fn serialize(body: &impl Serialize) -> Zeroizing<Vec<u8>> {
    let mut length = Length(0);
    serde_json::to_writer(&mut length, body).expect("strings are always written");
    let mut buffer = Zeroizing::new(Vec::with_capacity(length.0));
    serde_json::to_writer(&mut *buffer, body).expect("strings are always written to memory");
    buffer
}

/// Counts what is written to it.
struct Length(usize);

impl std::io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// PAM_RHOST as the server's `client`, if it is an address that means the same host there as here.
fn client_address(rhost: &str) -> Option<IpAddr> {
    let bare = rhost.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(rhost);
    let without_zone = bare.split('%').next().unwrap_or_default();
    let address = without_zone.parse::<IpAddr>().ok()?.to_canonical();
    (!address.is_loopback() && !address.is_unspecified() && !address.is_multicast()).then_some(address)
}

/// Reads the body, which must be whole (that also lets the connection be used again), and has it judged.
fn read<T>(
    mut answer: Response<ureq::Body>,
    judge: impl FnOnce(&Reply<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let content_type = answer.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_owned();
    let body = answer
        .body_mut()
        .with_config()
        .limit(ANSWER_LENGTH_MAX)
        .read_to_vec()
        .map_err(|error| sort(error, Stage::Reading))?;
    judge(&Reply { status: answer.status().as_u16(), content_type: &content_type, body: &body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_mean_the_same_to_the_server_are_sent() {
        for (rhost, sent) in [
            ("192.0.2.7", "192.0.2.7"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
        ] {
            assert_eq!(client_address(rhost), sent.parse().ok(), "{rhost}");
        }
        for rhost in
            ["", "host.example.org", "127.0.0.1", "::1", "0.0.0.0", "192.0.2.7:22", "192.0.2.7\r\nX: 1", "%"]
        {
            assert_eq!(client_address(rhost), None, "{rhost:?}");
        }
    }

    #[test]
    fn the_body_is_json_and_its_buffer_never_grew() {
        let body = CheckBody {
            user: "carla",
            pass: "\0\u{1}\"\\%41+&ü€",
            realm: None,
            transaction_id: None,
            cancel_enrollment: None,
            client: None,
        };
        let buffer = serialize(&body);
        let read: serde_json::Value = serde_json::from_slice(&buffer).expect("JSON");
        assert_eq!(read, serde_json::json!({"user": "carla", "pass": "\0\u{1}\"\\%41+&ü€"}));

        let pass = "\0".repeat(512);
        let full = CheckBody {
            pass: &pass,
            realm: Some("r"),
            transaction_id: Some("1"),
            cancel_enrollment: Some(1),
            client: client_address("2001:db8::1"),
            ..body
        };
        let buffer = serialize(&full);
        assert_eq!(buffer.capacity(), buffer.len());
        let read: serde_json::Value = serde_json::from_slice(&buffer).expect("JSON");
        assert_eq!((&read["transaction_id"], &read["cancel_enrollment"]), (&"1".into(), &1.into()));
    }
}
