//! What is said. Requests go to the daemon, replies come from it.

use zeroize::Zeroizing;

use super::codec::{Reader, WireError, Writer};
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

impl Request {
    /// The whole frame, its length included.
    ///
    /// # Errors
    /// [`WireError::TooLong`].
    pub fn encode(&self) -> Result<Zeroizing<Vec<u8>>, WireError> {
        let writer = match self {
            Self::Login(login) => login.encode(LOGIN),
            Self::Account(login) => login.encode(ACCOUNT),
            Self::Answer(secret) => {
                let mut writer = Writer::new(ANSWER, secret.expose().len());
                writer.bytes(secret.expose());
                writer
            }
            Self::Lookup(lookup) => lookup.encode(),
            Self::Status => Writer::new(STATUS, 0),
            Self::Administration(document) => {
                let mut writer = Writer::new(ADMINISTRATION, document.len());
                writer.bytes(document);
                writer
            }
        };
        writer.finish()
    }

    /// Reads a frame without its length.
    ///
    /// # Errors
    /// Every [`WireError`]: the peer is not believed.
    pub fn decode(frame: &[u8]) -> Result<Self, WireError> {
        let (kind, mut reader) = header(frame)?;
        let request = match kind {
            LOGIN => Self::Login(Login::decode(&mut reader)?),
            ANSWER => Self::Answer(reader.secret()?),
            ACCOUNT => Self::Account(Login::decode(&mut reader)?),
            LOOKUP => Self::Lookup(Lookup::decode(&mut reader)?),
            STATUS => Self::Status,
            ADMINISTRATION => Self::Administration(Zeroizing::new(reader.bytes()?.to_vec())),
            other => return Err(WireError::UnknownKind(other)),
        };
        reader.end()?;
        Ok(request)
    }
}

impl Reply {
    /// The whole frame, its length included.
    ///
    /// # Errors
    /// [`WireError::TooLong`].
    pub fn encode(&self) -> Result<Zeroizing<Vec<u8>>, WireError> {
        let writer = match self {
            Self::Ask { text, echo } => text_and_flag(ASK, text, *echo),
            Self::Tell { text, error } => text_and_flag(TELL, text, *error),
            Self::Verdict(verdict) => verdict.encode(),
            Self::Passwd(entry) => entry.encode(),
            Self::Group(entry) => entry.encode(),
            Self::Groups(gids) => {
                let mut writer = Writer::new(GROUPS, 4 + 4 * gids.len());
                writer.u32(u32::try_from(gids.len()).unwrap_or(u32::MAX));
                gids.iter().for_each(|gid| writer.u32(*gid));
                writer
            }
            Self::NotFound => Writer::new(NOT_FOUND, 0),
            Self::Unavailable => Writer::new(UNAVAILABLE, 0),
            Self::NotAllowed => Writer::new(NOT_ALLOWED, 0),
            Self::Document { last, bytes } => {
                let mut writer = Writer::new(DOCUMENT, bytes.len());
                writer.flag(*last);
                writer.bytes(bytes);
                writer
            }
        };
        writer.finish()
    }

    /// Reads a frame without its length.
    ///
    /// # Errors
    /// Every [`WireError`].
    pub fn decode(frame: &[u8]) -> Result<Self, WireError> {
        let (kind, mut reader) = header(frame)?;
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
            other => return Err(WireError::UnknownKind(other)),
        };
        reader.end()?;
        Ok(reply)
    }
}

fn header(frame: &[u8]) -> Result<(u16, Reader<'_>), WireError> {
    let mut reader = Reader::new(frame);
    match reader.u16()? {
        super::VERSION => Ok((reader.u16()?, reader)),
        other => Err(WireError::UnknownVersion(other)),
    }
}

fn text_and_flag(kind: u16, text: &str, flag: bool) -> Writer {
    let mut writer = Writer::new(kind, text.len());
    writer.text(text);
    writer.flag(flag);
    writer
}

impl Login {
    fn encode(&self, kind: u16) -> Writer {
        let texts = [&self.user, &self.service, &self.rhost, &self.tty].map(|text| text.len());
        let length = texts.iter().sum::<usize>()
            + self.prompt.as_ref().map_or(0, String::len)
            + self.password.as_ref().map_or(0, |password| password.expose().len());
        let mut writer = Writer::new(kind, length);
        writer.text(&self.user);
        writer.optional(self.uid, Writer::u32);
        writer.text(&self.service);
        writer.text(&self.rhost);
        writer.text(&self.tty);
        writer.optional(self.prompt.as_deref(), Writer::text);
        writer.optional(self.password.as_ref(), |writer, password| writer.bytes(password.expose()));
        writer.flag(self.may_ask);
        writer
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            user: reader.text()?,
            uid: reader.optional(Reader::u32)?,
            service: reader.text()?,
            rhost: reader.text()?,
            tty: reader.text()?,
            prompt: reader.optional(Reader::text)?,
            password: reader.optional(Reader::secret)?,
            may_ask: reader.flag()?,
        })
    }
}

impl Lookup {
    fn encode(&self) -> Writer {
        let mut writer = Writer::new(LOOKUP, 64);
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
    fn encode(&self) -> Writer {
        let mut writer = Writer::new(VERDICT, 64);
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
    fn encode(&self) -> Writer {
        let mut writer = Writer::new(PASSWD, 256);
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
    fn encode(&self) -> Writer {
        let mut writer = Writer::new(GROUP, 64);
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
