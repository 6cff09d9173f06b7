//! Where things are in the file. All numbers are in the byte order of the host; the file never leaves it.
//!
//! `header | five tables | passwd records | group records | other records`. A position in the file is a `u32` that
//! counts units of 8 bytes, so a map may have 32 GiB. No record is at position 0, which marks an empty table slot.

use std::ops::Range;

/// The first eight bytes. Read as a number of the wrong byte order it does not match either.
pub(super) const MAGIC: u64 = u64::from_ne_bytes(*b"PIHOSTMP");
pub(super) const FORMAT_VERSION: u32 = 1;
pub(super) const UNIT: usize = 8;

/// Byte positions of the header's fields.
pub(super) mod header {
    pub(in crate::map) const MAGIC: usize = 0;
    pub(in crate::map) const VERSION: usize = 8;
    pub(in crate::map) const FLAGS: usize = 12;
    pub(in crate::map) const LENGTH: usize = 16;
    pub(in crate::map) const BUILT: usize = 24;
    /// Moved in place.
    pub(in crate::map) const FRESH_UNTIL: usize = 32;
    /// Moved in place: how many recent files were published beside this base, and [`REPLACED`](super::REPLACED).
    pub(in crate::map) const SUPERSEDED: usize = 40;
    pub(in crate::map) const STALE_FOR: usize = 48;
    pub(in crate::map) const SEED: usize = 56;
    /// Five pairs: position of the table, its number of slots.
    pub(in crate::map) const TABLES: usize = 64;
    /// Two pairs: position of the first passwd (group) record, position after the last one.
    pub(in crate::map) const REGIONS: usize = 104;
    /// Numbers of passwd and group entries.
    pub(in crate::map) const COUNTS: usize = 120;
    pub(in crate::map) const SIZE: usize = 128;
}

pub(super) const FLAG_ENUMERATE: u32 = 1;
pub(super) const FLAG_COMPLETE: u32 = 2;

/// Set in the word `SUPERSEDED` of a base that is no longer the published one. A mere number would not do: a reader
/// may open the old base, lose the processor, and read the number only after it was moved.
pub(super) const REPLACED: u32 = 1 << 31;

/// The hash tables, in the order of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    PasswdByName = 0,
    PasswdById = 1,
    GroupByName = 2,
    GroupById = 3,
    GroupsOf = 4,
}

impl Table {
    pub(super) const ALL: [Self; 5] =
        [Self::PasswdByName, Self::PasswdById, Self::GroupByName, Self::GroupById, Self::GroupsOf];
}

/// A slot is `u32 tag, u32 position`: the tag is the half of the hash that did not choose the slot.
pub(super) const SLOT_SIZE: usize = 8;
/// The longest walk from the slot that the hash chose, in slots. The writer takes another seed when it needs more.
pub(super) const PROBES_MAX: u32 = 128;

/// Every record starts with `u32 size in bytes, u32 kind, u64 expiry (UNIX seconds)`; then, by kind:
///
/// - passwd: `u32 uid, u32 gid, u16 length of name, gecos, home, shell`, the four texts
/// - group: `u32 gid, u32 number of members, u32 length of name, u32 bytes of members`, name, members
/// - groups of a name: `u32 number of gids, u32 length of name`, the gids, name
/// - absent name or id: `u32 id, u32 length of name`, name
///
/// Each text is followed by a NUL byte that its length does not count; the size is a multiple of 8.
pub(super) mod record {
    pub(in crate::map) const SIZE: usize = 0;
    pub(in crate::map) const KIND: usize = 4;
    pub(in crate::map) const EXPIRES: usize = 8;
    pub(in crate::map) const FIELDS: usize = 16;
    pub(in crate::map) const PASSWD_TEXTS: usize = 32;
    pub(in crate::map) const GROUP_TEXTS: usize = 32;
    pub(in crate::map) const GROUPS_GIDS: usize = 24;
    pub(in crate::map) const ABSENT_NAME: usize = 24;
    pub(in crate::map) const SIZE_MIN: usize = 24;
}

pub(super) const KIND_PASSWD: u32 = 1;
pub(super) const KIND_GROUP: u32 = 2;
pub(super) const KIND_GROUPS_OF: u32 = 3;
/// Plus the number of the table whose key is absent.
pub(super) const KIND_ABSENT: u32 = 16;

/// What a table is searched for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Key<'a> {
    Name(&'a [u8]),
    Id(u32),
}

impl Key<'_> {
    /// A fast hash, good enough for a table: it is keyed with a random seed, so that the names in a directory cannot
    /// be chosen beforehand to collide, and collisions beyond [`PROBES_MAX`] make the writer take another seed.
    #[inline]
    pub(super) fn hash(self, seed: u64) -> u64 {
        match self {
            Self::Id(id) => fold(u64::from(id) ^ seed, MIX_2),
            Self::Name(name) => {
                let mut state = seed ^ name.len() as u64;
                let mut chunks = name.chunks_exact(8);
                for chunk in &mut chunks {
                    let word = chunk.try_into().map_or(0, u64::from_ne_bytes);
                    state = fold(state ^ word, MIX_1);
                }
                let tail = chunks.remainder().iter().fold(0, |word, byte| (word << 8) | u64::from(*byte));
                fold(fold(state ^ tail, MIX_1), MIX_2)
            }
        }
    }
}

// Odd, with about half of their bits set: the fractions of the golden ratio and of the square root of two.
const MIX_1: u64 = 0x9e37_79b9_7f4a_7c15;
const MIX_2: u64 = 0x6a09_e667_f3bc_c909;

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// The slot where the search for `hash` begins, and its tag.
#[inline]
pub(super) fn slot_and_tag(hash: u64, slots: u32) -> (u32, u32) {
    ((hash as u32) & slots.wrapping_sub(1), (hash >> 32) as u32)
}

/// The number of bytes up to the next unit.
pub(super) fn padded(length: usize) -> usize {
    length.next_multiple_of(UNIT)
}

/// A range of byte positions from the two positions in units that the header holds.
pub(super) fn region(start: u32, end: u32) -> Range<usize> {
    start as usize * UNIT..end as usize * UNIT
}
