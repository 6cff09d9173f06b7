//! The requests.

use std::fmt;
use std::net::IpAddr;

use once_cell::sync::OnceCell;
use serde::Serialize;
use ureq::http::{Response, header};
use zeroize::Zeroizing;

use super::answer::{Reply, read_check, read_health};
use super::failure::{Stage, sort};
use super::{Answer, Check, Failure, Server, agent, computer};
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
    client: Option<IpAddr>,
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
        let body = CheckBody { user: check.user, pass, realm: self.settings.realm.as_deref(), client };
        let body = serialize(&body);
        let mut request =
            self.agent()?.post(self.url("/validate/check")).header(header::CONTENT_TYPE, "application/json");
        if let Some(address) = client {
            request = request.header("X-Forwarded-For", address.to_string());
        }
        let answer = request.send(&body[..]).map_err(|error| sort(error, Stage::Asking))?;
        read(answer, |reply| read_check(check.user, reply))
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
fn serialize(body: &CheckBody<'_>) -> Zeroizing<Vec<u8>> {
    // One byte becomes six at most (`\u0000`).
    let texts = body.user.len() + body.pass.len() + body.realm.map_or(0, str::len);
    let mut buffer = Zeroizing::new(Vec::with_capacity(6 * texts + 128));
    serde_json::to_writer(&mut *buffer, body).expect("strings are always written to memory");
    buffer
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
        let body = CheckBody { user: "carla", pass: "\0\u{1}\"\\%41+&ü€", realm: None, client: None };
        let buffer = serialize(&body);
        let read: serde_json::Value = serde_json::from_slice(&buffer).expect("JSON");
        assert_eq!(read, serde_json::json!({"user": "carla", "pass": "\0\u{1}\"\\%41+&ü€"}));

        let pass = "\0".repeat(512);
        let body =
            CheckBody { user: "carla", pass: &pass, realm: Some("r"), client: client_address("2001:db8::1") };
        let wanted = 6 * (5 + 512 + 1) + 128;
        assert_eq!(serialize(&body).capacity(), wanted);
    }
}
