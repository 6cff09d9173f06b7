//! What is said. Requests go to the daemon, replies come from it.

use zeroize::Zeroizing;

use super::codec::{Reader, Version, WireError, Writer};
use super::login::Login;
use crate::Secret;

/// What a module or the command line says to the daemon.
#[derive(Clone)]
pub enum Request {
    /// Starts an authentication; answered by any number of [`Reply::Ask`] and [`Reply::Tell`], then a
    /// [`Reply::Verdict`]. `auth.sock` only.
    Login(Login),
    /// The person's answer to the last [`Reply::Ask`].
    Answer(Secret),
    /// PAM's account phase: may this user, already authenticated by whomever, use this host now? The fields `password`,
    /// `prompt` and `may_ask` are unused. Answered by a [`Reply::Verdict`]. `auth.sock` only.
    Account(Login),
    /// A name or id that the map could not answer. `lookup.sock` only.
    Lookup(Lookup),
    /// Status for anyone, as JSON; answered by [`Reply::Document`]. `lookup.sock` only.
    Status,
    /// A command of `privacyidea-host` as JSON, answered by [`Reply::Document`]s. `auth.sock` only, and from root
    /// only.
    Administration(Zeroizing<Vec<u8>>),
}

/// A question of the NSS module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Lookup {
    /// getpwnam
    PasswdByName(String),
    /// getpwuid
    PasswdById(u32),
    /// getgrnam
    GroupByName(String),
    /// getgrgid
    GroupById(u32),
    /// initgroups: the gids of the groups that list this name as a member
    Groups(String),
}

/// One passwd entry. It has no password; the NSS module shows `*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PasswdEntry {
    /// Login name, valid by [`crate::names::is_usable_name`].
    pub name: String,
    /// User id, valid by [`crate::names::is_usable_id`].
    pub uid: u32,
    /// Primary group id, valid by [`crate::names::is_usable_id`].
    pub gid: u32,
    /// Full name and so on.
    pub gecos: String,
    /// Home directory.
    pub home: String,
    /// Login shell.
    pub shell: String,
}

/// One group entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupEntry {
    /// Group name.
    pub name: String,
    /// Group id.
    pub gid: u32,
    /// Names of the members (those that have it as their primary group are not listed).
    pub members: Vec<String>,
}

/// What the daemon says.
#[derive(Clone)]
pub enum Reply {
    /// Show `text` and read an answer, visible if `echo`.
    Ask {
        /// The prompt, with its final space.
        text: String,
        /// Whether what is typed may be seen.
        echo: bool,
    },
    /// Show `text`; no answer.
    Tell {
        /// A sentence.
        text: String,
        /// PAM_ERROR_MSG instead of PAM_TEXT_INFO.
        error: bool,
    },
    /// The end of a login or account request.
    Verdict(Verdict),
    /// Answer to a passwd lookup.
    Passwd(PasswdEntry),
    /// Answer to a group lookup.
    Group(GroupEntry),
    /// Answer to [`Lookup::Groups`] for a known user or a name that some group lists; may be empty.
    Groups(Vec<u32>),
    /// The resolvers answered: there is no such entry.
    NotFound,
    /// The question could not be answered now.
    Unavailable,
    /// The request is not allowed to this peer or on this socket.
    NotAllowed,
    /// A piece of an answer in JSON; the pieces up to `last` belong together.
    Document {
        /// Whether this is the final piece.
        last: bool,
        /// UTF-8 when put together.
        bytes: Zeroizing<Vec<u8>>,
    },
    /// A variable for the PAM environment, from version 2 on. It comes after everything else of a login that is granted:
    /// only another one or [`Verdict::Granted`] may follow. What may be in it is
    /// in [`variables`](crate::variables); whoever receives it checks that.
    Export {
        /// `PRIVACYIDEA_MAIL`
        name: String,
        /// `carla@example.org`
        value: String,
    },
}

/// How a login or an account check ended. `docs/protocol.md` has the PAM code of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The person proved to be this user; the module compares the name with PAM_USER.
    Granted {
        /// The identity that was confirmed.
        user: String,
    },
    /// A wrong answer, or a right one for a user who may not log in so.
    Refused,
    /// No such user.
    UnknownUser,
    /// Too many wrong answers; more are not looked at for a while.
    Locked,
    /// Neither yes nor no: the server that must decide cannot be reached or cannot answer, or the daemon cannot serve
    /// (its settings are wrong, say).
    Unavailable,
    /// The server cannot be trusted: its certificate is not the expected one.
    Untrusted,
    /// The daemon serves, but is at fault itself: a database cannot be written, say.
    Failed,
    /// The user is none of our business.
    OutOfScope,
    /// The person gave no answer: the conversation ended.
    NoAnswer,
}

const LOGIN: u16 = 1;
const ANSWER: u16 = 2;
const ACCOUNT: u16 = 3;
const LOOKUP: u16 = 4;
const STATUS: u16 = 5;
const ADMINISTRATION: u16 = 6;
const ASK: u16 = 101;
const TELL: u16 = 102;
const VERDICT: u16 = 103;
const PASSWD: u16 = 104;
const GROUP: u16 = 105;
const GROUPS: u16 = 106;
const NOT_FOUND: u16 = 107;
const UNAVAILABLE: u16 = 108;
const NOT_ALLOWED: u16 = 109;
const DOCUMENT: u16 = 110;
const EXPORT: u16 = 111;

impl Request {
    /// The whole frame, its length included.
    ///
    /// # Errors
    /// [`WireError::TooLong`].
    pub fn encode(&self) -> Result<Zeroizing<Vec<u8>>, WireError> {
        self.encode_in(Version::NEWEST)
    }

    /// The same as a peer of an older version writes it.
    ///
    /// # Errors
    /// [`WireError::TooLong`], [`WireError::NotInVersion`].
    pub fn encode_in(&self, version: Version) -> Result<Zeroizing<Vec<u8>>, WireError> {
        let writer = match self {
            Self::Login(login) => login.encode(version, LOGIN)?,
            Self::Account(login) => login.encode(version, ACCOUNT)?,
            Self::Answer(secret) => {
                let mut writer = Writer::new(version, ANSWER, secret.expose().len());
                writer.bytes(secret.expose());
                writer
            }
            Self::Lookup(lookup) => lookup.encode(version),
            Self::Status => Writer::new(version, STATUS, 0),
            Self::Administration(document) => {
                let mut writer = Writer::new(version, ADMINISTRATION, document.len());
                writer.bytes(document);
                writer
            }
        };
        writer.finish()
    }

    /// Reads a frame without its length: the request, and the version to answer in.
    ///
    /// # Errors
    /// Every [`WireError`]: the peer is not believed.
    pub fn decode(frame: &[u8]) -> Result<(Self, Version), WireError> {
        let (version, kind, mut reader) = header(frame)?;
        let request = match kind {
            LOGIN => Self::Login(Login::decode(version, &mut reader)?),
            ANSWER => Self::Answer(reader.secret()?),
            ACCOUNT => Self::Account(Login::decode(version, &mut reader)?),
            LOOKUP => Self::Lookup(Lookup::decode(&mut reader)?),
            STATUS => Self::Status,
            ADMINISTRATION => Self::Administration(Zeroizing::new(reader.bytes()?.to_vec())),
            other => return Err(WireError::UnknownKind(other)),
        };
        reader.end()?;
        Ok((request, version))
    }
}

impl Reply {
    /// The whole frame, its length included.
    ///
    /// # Errors
    /// [`WireError::TooLong`].
    pub fn encode(&self) -> Result<Zeroizing<Vec<u8>>, WireError> {
        self.encode_in(Version::NEWEST)
    }

    /// The same for a peer that speaks `version`.
    ///
    /// # Errors
    /// [`WireError::TooLong`], [`WireError::NotInVersion`].
    pub fn encode_in(&self, version: Version) -> Result<Zeroizing<Vec<u8>>, WireError> {
        let new = |kind, capacity| Writer::new(version, kind, capacity);
        let writer = match self {
            Self::Ask { text, echo } => text_and_flag(version, ASK, text, *echo),
            Self::Tell { text, error } => text_and_flag(version, TELL, text, *error),
            Self::Verdict(verdict) => verdict.encode(version),
            Self::Passwd(entry) => entry.encode(version),
            Self::Group(entry) => entry.encode(version),
            Self::Groups(gids) => {
                let mut writer = new(GROUPS, 4 + 4 * gids.len());
                writer.u32(u32::try_from(gids.len()).unwrap_or(u32::MAX));
                gids.iter().for_each(|gid| writer.u32(*gid));
                writer
            }
            Self::NotFound => new(NOT_FOUND, 0),
            Self::Unavailable => new(UNAVAILABLE, 0),
            Self::NotAllowed => new(NOT_ALLOWED, 0),
            Self::Document { last, bytes } => {
                let mut writer = new(DOCUMENT, bytes.len());
                writer.flag(*last);
                writer.bytes(bytes);
                writer
            }
            Self::Export { .. } if version == Version::One => return Err(WireError::NotInVersion(version)),
            Self::Export { name, value } => {
                let mut writer = new(EXPORT, name.len() + value.len());
                writer.text(name);
                writer.text(value);
                writer
            }
        };
        writer.finish()
    }

    /// Reads a frame without its length; a daemon answers in the version that it was asked in, the newest.
    ///
    /// # Errors
    /// Every [`WireError`].
    pub fn decode(frame: &[u8]) -> Result<Self, WireError> {
        let (version, kind, mut reader) = header(frame)?;
        if version != Version::NEWEST {
            return Err(WireError::UnknownVersion(version.number()));
        }
        let reply = match kind {
            ASK => Self::Ask { text: reader.text()?, echo: reader.flag()? },
            TELL => Self::Tell { text: reader.text()?, error: reader.flag()? },
            VERDICT => Self::Verdict(Verdict::decode(&mut reader)?),
            PASSWD => Self::Passwd(PasswdEntry::decode(&mut reader)?),
            GROUP => Self::Group(GroupEntry::decode(&mut reader)?),
            GROUPS => Self::Groups(reader.list(Reader::u32)?),
            NOT_FOUND => Self::NotFound,
            UNAVAILABLE => Self::Unavailable,
            NOT_ALLOWED => Self::NotAllowed,
            DOCUMENT => {
                Self::Document { last: reader.flag()?, bytes: Zeroizing::new(reader.bytes()?.to_vec()) }
            }
            EXPORT => Self::Export { name: reader.text()?, value: reader.text()? },
            other => return Err(WireError::UnknownKind(other)),
        };
        reader.end()?;
        Ok(reply)
    }
}

fn header(frame: &[u8]) -> Result<(Version, u16, Reader<'_>), WireError> {
    let mut reader = Reader::new(frame);
    let version = Version::of(reader.u16()?)?;
    Ok((version, reader.u16()?, reader))
}

fn text_and_flag(version: Version, kind: u16, text: &str, flag: bool) -> Writer {
    let mut writer = Writer::new(version, kind, text.len());
    writer.text(text);
    writer.flag(flag);
    writer
}

impl Lookup {
    fn encode(&self, version: Version) -> Writer {
        let mut writer = Writer::new(version, LOOKUP, 64);
        match self {
            Self::PasswdByName(name) => (writer.u8(1), writer.text(name)),
            Self::PasswdById(uid) => (writer.u8(2), writer.u32(*uid)),
            Self::GroupByName(name) => (writer.u8(3), writer.text(name)),
            Self::GroupById(gid) => (writer.u8(4), writer.u32(*gid)),
            Self::Groups(name) => (writer.u8(5), writer.text(name)),
        };
        writer
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match reader.u8()? {
            1 => Self::PasswdByName(reader.text()?),
            2 => Self::PasswdById(reader.u32()?),
            3 => Self::GroupByName(reader.text()?),
            4 => Self::GroupById(reader.u32()?),
            5 => Self::Groups(reader.text()?),
            other => return Err(WireError::UnknownKind(other.into())),
        })
    }
}

impl Verdict {
    fn encode(&self, version: Version) -> Writer {
        let mut writer = Writer::new(version, VERDICT, 64);
        writer.u8(match self {
            Self::Granted { .. } => 0,
            Self::Refused => 1,
            Self::UnknownUser => 2,
            Self::Locked => 3,
            Self::Unavailable => 4,
            Self::Untrusted => 5,
            Self::Failed => 6,
            Self::OutOfScope => 7,
            Self::NoAnswer => 8,
        });
        if let Self::Granted { user } = self {
            writer.text(user);
        }
        writer
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match reader.u8()? {
            0 => Self::Granted { user: reader.text()? },
            1 => Self::Refused,
            2 => Self::UnknownUser,
            3 => Self::Locked,
            4 => Self::Unavailable,
            5 => Self::Untrusted,
            6 => Self::Failed,
            7 => Self::OutOfScope,
            8 => Self::NoAnswer,
            other => return Err(WireError::UnknownKind(other.into())),
        })
    }
}

impl PasswdEntry {
    fn encode(&self, version: Version) -> Writer {
        let mut writer = Writer::new(version, PASSWD, 256);
        writer.text(&self.name);
        writer.u32(self.uid);
        writer.u32(self.gid);
        writer.text(&self.gecos);
        writer.text(&self.home);
        writer.text(&self.shell);
        writer
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            name: reader.text()?,
            uid: reader.u32()?,
            gid: reader.u32()?,
            gecos: reader.text()?,
            home: reader.text()?,
            shell: reader.text()?,
        })
    }
}

impl GroupEntry {
    fn encode(&self, version: Version) -> Writer {
        let mut writer = Writer::new(version, GROUP, 64);
        writer.text(&self.name);
        writer.u32(self.gid);
        writer.u32(u32::try_from(self.members.len()).unwrap_or(u32::MAX));
        self.members.iter().for_each(|member| writer.text(member));
        writer
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { name: reader.text()?, gid: reader.u32()?, members: reader.list(Reader::text)? })
    }
}
