//! Who logs in, and what the line in `/etc/pam.d` has to say about it.

use super::codec::{Reader, Version, WireError, Writer};
use crate::Secret;

/// The most variables that one login hands on ([`Reply::Export`](super::Reply::Export)).
pub const EXPORTS_MAX: usize = 32;

/// Who logs in, where, and what the module may do about it. Texts are empty where PAM has no such item.
#[derive(Clone)]
pub struct Login {
    /// PAM_USER, never rewritten.
    pub user: String,
    /// The uid that the host's NSS has for the user; none if it does not know the user.
    pub uid: Option<u32>,
    /// PAM_SERVICE, for example `sshd`.
    pub service: String,
    /// PAM_RHOST: an address or name, empty for a local login.
    pub rhost: String,
    /// PAM_TTY.
    pub tty: String,
    /// Replaces the settings' first prompt (the module's argument `prompt=`).
    pub prompt: Option<String>,
    /// What an earlier module asked for (`use_first_pass`, `try_first_pass`).
    pub password: Option<Secret>,
    /// Whether the person may be asked (not with `use_first_pass`).
    pub may_ask: bool,
    /// What the line in `/etc/pam.d` says, from version 2 on.
    pub overrides: Overrides,
}

/// Arguments of the line in `/etc/pam.d` that say what else the settings say. The daemon believes root about them, and
/// nobody else. Nothing said is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `url=`: the server to ask in place of the settings'.
    pub url: Option<String>,
    /// `cacerts=`: the certificate authorities to trust for that url.
    pub ca_file: Option<String>,
    /// `nossl`, `nosslverify`: whatever certificate that url shows is taken.
    pub any_certificate: bool,
    /// `realm=`
    pub realm: Option<String>,
    /// `sendEmptyPass`, `sendPassword`
    pub first_step: Option<FirstStep>,
    /// `pollTime=`, in seconds.
    pub poll_time: Option<u32>,
}

/// What the server is sent before the person is asked for a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstStep {
    /// `sendEmptyPass`: an empty password, which triggers the user's challenges.
    EmptyPassword,
    /// `sendPassword`: the password that an earlier module asked for.
    Password,
}

impl Overrides {
    /// The longest `url`, in bytes.
    pub const URL_LENGTH_MAX: usize = 512;
    /// The longest `ca_file`, in bytes.
    pub const PATH_LENGTH_MAX: usize = 1024;
    /// The longest `realm`, in bytes.
    pub const REALM_LENGTH_MAX: usize = 255;

    fn encode(&self, writer: &mut Writer) {
        writer.optional(self.url.as_deref(), Writer::text);
        writer.optional(self.ca_file.as_deref(), Writer::text);
        writer.flag(self.any_certificate);
        writer.optional(self.realm.as_deref(), Writer::text);
        writer.optional(self.first_step, |writer, step| {
            writer.u8(match step {
                FirstStep::EmptyPassword => 1,
                FirstStep::Password => 2,
            });
        });
        writer.optional(self.poll_time, Writer::u32);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            url: reader.optional(|reader| reader.short_text(Self::URL_LENGTH_MAX))?,
            ca_file: reader.optional(|reader| reader.short_text(Self::PATH_LENGTH_MAX))?,
            any_certificate: reader.flag()?,
            realm: reader.optional(|reader| reader.short_text(Self::REALM_LENGTH_MAX))?,
            first_step: reader.optional(|reader| match reader.u8()? {
                1 => Ok(FirstStep::EmptyPassword),
                2 => Ok(FirstStep::Password),
                other => Err(WireError::UnknownKind(other.into())),
            })?,
            poll_time: reader.optional(Reader::u32)?,
        })
    }

    /// Upper bound of the encoded length.
    fn length(&self) -> usize {
        let texts = [&self.url, &self.ca_file, &self.realm];
        texts.iter().map(|text| text.as_ref().map_or(1, |text| 5 + text.len())).sum::<usize>() + 8
    }
}

impl Login {
    pub(super) fn encode(&self, version: Version, kind: u16) -> Result<Writer, WireError> {
        let texts = [&self.user, &self.service, &self.rhost, &self.tty].map(|text| text.len());
        let length = texts.iter().sum::<usize>()
            + self.prompt.as_ref().map_or(0, String::len)
            + self.password.as_ref().map_or(0, |password| password.expose().len())
            + self.overrides.length();
        let mut writer = Writer::new(version, kind, length);
        writer.text(&self.user);
        writer.optional(self.uid, Writer::u32);
        writer.text(&self.service);
        writer.text(&self.rhost);
        writer.text(&self.tty);
        writer.optional(self.prompt.as_deref(), Writer::text);
        writer.optional(self.password.as_ref(), |writer, password| writer.bytes(password.expose()));
        writer.flag(self.may_ask);
        match version {
            Version::Two => self.overrides.encode(&mut writer),
            Version::One if self.overrides == Overrides::default() => {}
            Version::One => return Err(WireError::NotInVersion(version)),
        }
        Ok(writer)
    }

    pub(super) fn decode(version: Version, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            user: reader.text()?,
            uid: reader.optional(Reader::u32)?,
            service: reader.text()?,
            rhost: reader.text()?,
            tty: reader.text()?,
            prompt: reader.optional(Reader::text)?,
            password: reader.optional(Reader::secret)?,
            may_ask: reader.flag()?,
            overrides: match version {
                Version::One => Overrides::default(),
                Version::Two => Overrides::decode(reader)?,
            },
        })
    }
}
