//! The hash tables: open addressing, a power of two of slots, at most half of them used, a bounded walk.

use super::bytes::Bytes;
use super::layout::{Key, PROBES_MAX, SLOT_SIZE, UNIT, slot_and_tag};

/// A table in a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MappedTable {
    /// Byte position.
    pub(super) at: usize,
    /// Number of slots: 0 or a power of two.
    pub(super) slots: u32,
}

impl MappedTable {
    /// The first record position, in bytes, whose tag fits and that `matches`.
    #[inline]
    pub(super) fn find<T>(
        self,
        bytes: &Bytes,
        key: Key<'_>,
        seed: u64,
        mut matches: impl FnMut(usize) -> Option<T>,
    ) -> Option<T> {
        if self.slots == 0 {
            return None;
        }
        let (mut slot, tag) = slot_and_tag(key.hash(seed), self.slots);
        for _ in 0..PROBES_MAX {
            let at = self.at + slot as usize * SLOT_SIZE;
            let position = bytes.u32(at + 4)?;
            if position == 0 {
                return None;
            }
            if bytes.u32(at)? == tag {
                let found = matches(position as usize * UNIT);
                if found.is_some() {
                    return found;
                }
            }
            slot = slot.wrapping_add(1) & (self.slots - 1);
        }
        None
    }
}

/// A table being built.
pub(super) struct TableBuilder {
    slots: Vec<[u32; 2]>,
}

/// The walk became too long: take another seed.
#[derive(Debug)]
pub(super) struct TooManyProbes;

impl TableBuilder {
    /// A table for so many keys; none need no slots.
    pub(super) fn slots_for(keys: usize) -> usize {
        if keys == 0 { 0 } else { (keys * 2).next_power_of_two().max(8) }
    }

    pub(super) fn new(keys: usize) -> Self {
        Self { slots: vec![[0; 2]; Self::slots_for(keys)] }
    }

    /// Adds a record's position in units, unless `is_same` says that a record already there has the same key: the
    /// first one wins.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        position: u32,
        mut is_same: impl FnMut(u32) -> bool,
    ) -> Result<(), TooManyProbes> {
        let mask = self.slots.len() - 1;
        let (first, tag) = slot_and_tag(hash, u32::try_from(self.slots.len()).map_err(|_| TooManyProbes)?);
        for probe in 0..PROBES_MAX as usize {
            let slot = &mut self.slots[(first as usize + probe) & mask];
            if slot[1] == 0 {
                *slot = [tag, position];
                return Ok(());
            }
            if slot[0] == tag && is_same(slot[1]) {
                return Ok(());
            }
        }
        Err(TooManyProbes)
    }

    /// The table as it lies in the file.
    pub(super) fn write(&self, out: &mut impl std::io::Write) -> std::io::Result<()> {
        self.slots.iter().try_for_each(|[tag, position]| {
            out.write_all(&tag.to_ne_bytes())?;
            out.write_all(&position.to_ne_bytes())
        })
    }
}

impl std::fmt::Display for TooManyProbes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("too many names of the lookup map collide")
    }
}

impl std::error::Error for TooManyProbes {}
