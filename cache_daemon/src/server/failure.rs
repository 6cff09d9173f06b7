//! What a failed request means: ureq's and rustls's errors, sorted by what the reader of the log has to do.

use std::io;

use super::{Failure, for_the_log};

/// How far the request had come, as far as we know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// No byte of an answer had come.
    Asking,
    /// The header of an answer had come.
    Reading,
}

/// Sorts an error of ureq.
///
/// Only a certificate that fails verification is [`Failure::Untrusted`]; a peer that speaks no TLS, or none of our
/// versions, is [`Failure::Rubbish`]. A connection that ends before the answer is [`Failure::Unreachable`]; one that
/// ends within it is [`Failure::Rubbish`], because somebody answered. A timeout is always `Unreachable`.
pub(super) fn sort(error: ureq::Error, stage: Stage) -> Failure {
    use ureq::Error as E;
    match error {
        E::Timeout(what) => Failure::Unreachable(format!("no answer in time ({what})")),
        E::Rustls(error) => sort_tls(&error),
        E::Io(error) => sort_io(&error, stage),
        E::HostNotFound => Failure::Unreachable("its name has no address".to_owned()),
        E::ConnectionFailed => Failure::Unreachable("no connection".to_owned()),
        E::Tls(what) => Failure::Untrusted(what.to_owned()),
        E::RequireHttpsOnly(_) => Failure::Untrusted("its URL does not begin with https://".to_owned()),
        E::BadUri(_) | E::Http(_) => Failure::Unreachable("its URL is none".to_owned()),
        E::BodyExceedsLimit(limit) => Failure::Rubbish(format!("its answer is longer than {limit} bytes")),
        other => Failure::Rubbish(for_the_log(&other.to_string())),
    }
}

/// rustls's errors come wrapped in io's where they happen while bytes are moved.
fn sort_io(error: &io::Error, stage: Stage) -> Failure {
    let inner = error.get_ref();
    if let Some(tls) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return sort_tls(tls);
    }
    match (stage, error.kind()) {
        (_, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
            Failure::Unreachable("no answer in time".to_owned())
        }
        (Stage::Asking, io::ErrorKind::UnexpectedEof) => {
            Failure::Unreachable("it closed the connection without an answer".to_owned())
        }
        (Stage::Asking, _) => Failure::Unreachable(for_the_log(&error.to_string())),
        (Stage::Reading, _) => Failure::Rubbish("its answer broke off".to_owned()),
    }
}

fn sort_tls(error: &rustls::Error) -> Failure {
    let text = for_the_log(&error.to_string());
    match error {
        rustls::Error::InvalidCertificate(_)
        | rustls::Error::NoCertificatesPresented
        | rustls::Error::UnsupportedNameType => Failure::Untrusted(text),
        rustls::Error::InvalidMessage(_) => Failure::Rubbish("it does not speak TLS".to_owned()),
        _ => Failure::Rubbish(text),
    }
}
