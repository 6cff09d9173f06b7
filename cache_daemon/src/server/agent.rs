//! The HTTPS agent: whom it trusts, what it never does, how long it waits.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use super::{Failure, for_the_log};
use crate::settings;

/// Debian's bundle of certificate authorities, kept by update-ca-certificates(8) with the administrator's own in it.
/// A fixed path, so that SSL_CERT_FILE and SSL_CERT_DIR, which the usual libraries honour, have no say.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Idle connections are closed after this time: shorter than what firewalls between the host and the server forget.
const IDLE_MAX: Duration = Duration::from_secs(50);

/// One per daemon; its clones share the connections.
///
/// # Errors
/// [`Failure::Untrusted`] if there is no certificate authority to trust.
pub(super) fn open(server: &settings::Server, user_agent: &str) -> Result<ureq::Agent, Failure> {
    let authorities = match &server.ca_file {
        _ if server.any_certificate => Vec::new(),
        Some(file) => read_authorities(file)?,
        None => read_authorities(Path::new(SYSTEM_AUTHORITIES))?,
    };
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(authorities)))
        // Neither chain nor name nor dates: only a PAM line can say so, about its own `url=`.
        .disable_verification(server.any_certificate)
        .build();
    let config = ureq::Agent::config_builder()
        .tls_config(tls)
        .https_only(true)
        // ureq's default is the environment's proxy, which under `sudo` is the caller's.
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(user_agent)
        .accept("application/json")
        .max_idle_age(IDLE_MAX)
        .max_idle_connections_per_host(IDLE_CONNECTIONS)
        .timeout_global(Some(server.timeout))
        .timeout_resolve(Some(server.connect_timeout))
        .timeout_connect(Some(server.connect_timeout))
        .build();
    Ok(config.new_agent())
}

/// As many connections stay open as there can be workers that just used one.
const IDLE_CONNECTIONS: usize = 8;

/// The certificates of a PEM file, all of which must be usable.
fn read_authorities(file: &Path) -> Result<Vec<Certificate<'static>>, Failure> {
    let untrusted = |why: String| Failure::Untrusted(for_the_log(&format!("{}: {why}", file.display())));
    let mut store = RootCertStore::empty();
    let mut authorities = Vec::new();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| untrusted(pem_error(&error)))? {
        let certificate = certificate.map_err(|error| untrusted(pem_error(&error)))?;
        match store.add(certificate.clone()) {
            Ok(()) => authorities.push(Certificate::from_der(&certificate).to_owned()),
            // The system's bundle may hold one that is not understood; the others still count.
            Err(_) if file == Path::new(SYSTEM_AUTHORITIES) => {}
            Err(error) => return Err(untrusted(format!("unusable certificate authority: {error}"))),
        }
    }
    if authorities.is_empty() {
        return Err(untrusted("no certificate authority in it".to_owned()));
    }
    Ok(authorities)
}

fn pem_error(error: &rustls::pki_types::pem::Error) -> String {
    match error {
        rustls::pki_types::pem::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}
