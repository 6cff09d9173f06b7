//! A cursor that takes fields off a frame, and its opposite. Nothing here allocates more than the frame holds.

use crate::Secret;

/// The longest frame in bytes, its four length bytes not counted.
pub const FRAME_LENGTH_MAX: usize = 64 * 1024;

/// What a peer speaks. A daemon answers in the version of the request; everybody else speaks the newest only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Without [`Overrides`](super::Overrides) and [`Reply::Export`](super::Reply::Export).
    One,
    /// Today's.
    Two,
}

impl Version {
    /// What this build speaks by itself.
    pub const NEWEST: Self = Self::Two;

    pub(super) fn number(self) -> u16 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }

    pub(super) fn of(number: u16) -> Result<Self, WireError> {
        match number {
            1 => Ok(Self::One),
            2 => Ok(Self::Two),
            other => Err(WireError::UnknownVersion(other)),
        }
    }
}

/// Why a frame was refused. All of them mean: close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The frame ended inside a field.
    Truncated,
    /// The frame goes on after its last field.
    TrailingBytes,
    /// The frame is longer than [`FRAME_LENGTH_MAX`].
    TooLong,
    /// The peer speaks a version that this build does not know.
    UnknownVersion(u16),
    /// A message kind, verdict or flag that this build does not know.
    UnknownKind(u16),
    /// A text field is not UTF-8, holds a NUL byte, or is longer than such a field may be.
    BadText,
    /// The message does not exist in the version that the peer speaks.
    NotInVersion(Version),
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Truncated => f.write_str("the message ends inside a field"),
            Self::TrailingBytes => f.write_str("the message goes on after its last field"),
            Self::TooLong => write!(f, "the message is longer than {FRAME_LENGTH_MAX} bytes"),
            Self::UnknownVersion(version) => write!(f, "the peer speaks protocol version {version}"),
            Self::UnknownKind(kind) => write!(f, "the message kind {kind} is unknown"),
            Self::BadText => f.write_str("a text field is not UTF-8, holds a NUL byte or is too long"),
            Self::NotInVersion(version) => {
                write!(f, "protocol version {} has no such message", version.number())
            }
        }
    }
}

impl std::error::Error for WireError {}

pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(frame: &'a [u8]) -> Self {
        Self(frame)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (field, rest) = self.0.split_at_checked(length).ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(field)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        self.take(N)?.try_into().map_err(|_| WireError::Truncated)
    }

    pub(super) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn flag(&mut self) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(WireError::UnknownKind(other.into())),
        }
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = self.u32()?;
        self.take(usize::try_from(length).map_err(|_| WireError::Truncated)?)
    }

    pub(super) fn text(&mut self) -> Result<String, WireError> {
        let text = std::str::from_utf8(self.bytes()?).map_err(|_| WireError::BadText)?;
        if text.contains('\0') { Err(WireError::BadText) } else { Ok(text.to_owned()) }
    }

    /// A text of `longest` bytes at most.
    pub(super) fn short_text(&mut self, longest: usize) -> Result<String, WireError> {
        let text = self.text()?;
        if text.len() > longest { Err(WireError::BadText) } else { Ok(text) }
    }

    pub(super) fn secret(&mut self) -> Result<Secret, WireError> {
        Ok(Secret::new(self.bytes()?.to_vec()))
    }

    pub(super) fn optional<T>(
        &mut self,
        field: impl FnOnce(&mut Self) -> Result<T, WireError>,
    ) -> Result<Option<T>, WireError> {
        if self.flag()? { field(self).map(Some) } else { Ok(None) }
    }

    /// A `u32` count and that many items; an item takes at least one byte, so the count cannot lie about memory.
    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let count = self.u32()? as usize;
        if count > self.0.len() {
            return Err(WireError::Truncated);
        }
        (0..count).map(|_| item(self)).collect()
    }

    pub(super) fn end(self) -> Result<(), WireError> {
        if self.0.is_empty() { Ok(()) } else { Err(WireError::TrailingBytes) }
    }
}

/// Builds a frame. The buffer is made at full capacity once, so that a secret in it is never copied by growth, and is
/// wiped when dropped.
pub(super) struct Writer(zeroize::Zeroizing<Vec<u8>>);

impl Writer {
    pub(super) fn new(version: Version, kind: u16, capacity: usize) -> Self {
        let mut writer = Self(zeroize::Zeroizing::new(Vec::with_capacity(capacity + 64)));
        writer.u32(0);
        writer.u16(version.number());
        writer.u16(kind);
        writer
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn flag(&mut self, value: bool) {
        self.u8(value.into());
    }

    pub(super) fn bytes(&mut self, value: &[u8]) {
        // A field longer than a frame fails in `finish`; the cast cannot lie before that.
        self.u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(value);
    }

    pub(super) fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    pub(super) fn optional<T>(&mut self, value: Option<T>, field: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            field(self, value);
        }
    }

    pub(super) fn finish(mut self) -> Result<zeroize::Zeroizing<Vec<u8>>, WireError> {
        let length = self.0.len() - 4;
        if length > FRAME_LENGTH_MAX {
            return Err(WireError::TooLong);
        }
        let length = u32::try_from(length).map_err(|_| WireError::TooLong)?;
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        Ok(self.0)
    }
}
