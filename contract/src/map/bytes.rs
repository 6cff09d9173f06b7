//! The mapped file.

#![expect(unsafe_code, reason = "the mapping, and atomic loads from it")]

use std::fs::File;
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::Mmap;

/// A whole file, mapped read-only.
///
/// Numbers are read with atomic loads: the file is not root's, so another process may change it at any time, and a
/// length that was checked must be the length that is used. Texts are only compared, checked and copied; whatever
/// happens to them meanwhile, no more than their length is read.
///
/// If the file's owner truncates it, a read ends in SIGBUS. The writer never does that to a published file.
pub(super) struct Bytes(Mmap);

impl Bytes {
    pub(super) fn map(file: &File) -> std::io::Result<Self> {
        // SAFETY: the file is never truncated by its writer. What is in it may change in two words, which are read as
        // atomics; if its owner breaks that rule the texts change under us, and they are not relied upon (see above).
        let mapping = unsafe { Mmap::map(file)? };
        Ok(Self(mapping))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The number at a byte position; none beyond the end or at a position that is no multiple of four.
    #[inline]
    pub(super) fn u32(&self, at: usize) -> Option<u32> {
        self.load_u32(at, Ordering::Relaxed)
    }

    /// The same, ordered before everything read afterwards.
    #[inline]
    pub(super) fn u32_acquire(&self, at: usize) -> Option<u32> {
        self.load_u32(at, Ordering::Acquire)
    }

    #[inline]
    fn load_u32(&self, at: usize, ordering: Ordering) -> Option<u32> {
        let field = self.slice(at, 4)?;
        if at % 4 != 0 {
            return None;
        }
        // SAFETY: four bytes inside the mapping, which is page-aligned, at a multiple of four; only ever loaded, and a
        // 32-bit load needs no writable memory.
        let number = unsafe { AtomicU32::from_ptr(field.as_ptr().cast_mut().cast()) };
        Some(number.load(ordering))
    }

    /// The number at a byte position; none beyond the end or at a position that is no multiple of four. It is loaded in
    /// two halves, because not every machine can load 64 bits at once from memory that it may not write to. The one
    /// number that moves in place is a time, whose upper half does not change before 2106.
    #[inline]
    pub(super) fn u64(&self, at: usize) -> Option<u64> {
        let halves = [self.u32(at)?.to_ne_bytes(), self.u32(at.checked_add(4)?)?.to_ne_bytes()];
        let [[a, b, c, d], [e, f, g, h]] = halves;
        Some(u64::from_ne_bytes([a, b, c, d, e, f, g, h]))
    }

    /// `length` bytes from a byte position on; none if they are not all inside.
    #[inline]
    pub(super) fn slice(&self, at: usize, length: usize) -> Option<&[u8]> {
        self.0.get(at..at.checked_add(length)?)
    }
}
