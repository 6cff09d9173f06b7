//! The URI that authenticator apps read from a QR code.
//! Format: <https://github.com/google/google-authenticator/wiki/Key-Uri-Format>

use std::fmt::Write;

use data_encoding::BASE32_NOPAD;
use zeroize::Zeroizing;

use super::credential::Credential;
use super::otp::Algorithm;

/// `otpauth://totp/ISSUER:USER?secret=…`; none for tokens without a seed. `issuer` is what the app shows, the host's
/// name. The text holds the seed.
#[must_use]
pub fn uri(issuer: &str, user: &str, credential: &Credential) -> Option<Zeroizing<String>> {
    let (kind, otp, moving) = match credential {
        Credential::Hotp { otp, next, .. } => ("hotp", otp, format!("counter={next}")),
        Credential::Totp { otp, period, .. } => ("totp", otp, format!("period={period}")),
        Credential::SimplePass | Credential::RecoveryCodes { .. } => return None,
    };
    let algorithm = match otp.algorithm() {
        Algorithm::Sha1 => "SHA1",
        Algorithm::Sha256 => "SHA256",
        Algorithm::Sha512 => "SHA512",
    };
    let secret = Zeroizing::new(BASE32_NOPAD.encode(otp.seed().expose()));
    let (issuer, user) = (percent_encoded(issuer), percent_encoded(user));
    // At full length once: a text that grows leaves copies of the seed behind.
    let mut uri = Zeroizing::new(String::with_capacity(256 + secret.len() + 2 * issuer.len() + user.len()));
    write!(uri, "otpauth://{kind}/{issuer}:{user}?secret={}&issuer={issuer}", secret.as_str()).ok()?;
    write!(uri, "&algorithm={algorithm}&digits={}&{moving}", otp.digits()).ok()?;
    Some(uri)
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::super::otp::Otp;
    use super::*;
    use privacyidea_contract::Secret;

    #[test]
    fn the_uri_says_everything_an_app_needs() {
        let otp = Otp::new(Secret::from("12345678901234567890"), Algorithm::Sha256, 8).unwrap();
        let token = Credential::Totp { otp: otp.clone(), period: 60, next: 0, drift: 0, resync: None };
        assert_eq!(
            uri("host one", "müller@x", &token).unwrap().as_str(),
            "otpauth://totp/host%20one:m%C3%BCller%40x?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ\
             &issuer=host%20one&algorithm=SHA256&digits=8&period=60"
        );
        let token = Credential::Hotp { otp, next: 7, resync: None };
        assert!(uri("h", "u", &token).unwrap().ends_with("&counter=7"));
        assert!(uri("h", "u", &Credential::SimplePass).is_none());
    }
}
