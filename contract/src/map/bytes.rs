//! The mapped file: the only `unsafe` code of this crate beside SO_PEERCRED.

use std::fs::File;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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

    /// The number at a byte position; none beyond the end or at a position that is no multiple of eight.
    #[inline]
    pub(super) fn u64(&self, at: usize) -> Option<u64> {
        let field = self.slice(at, 8)?;
        if at % 8 != 0 {
            return None;
        }
        // SAFETY: as in `load_u32`, with eight bytes; the project builds for machines with 64-bit atomics only.
        let number = unsafe { AtomicU64::from_ptr(field.as_ptr().cast_mut().cast()) };
        Some(number.load(Ordering::Relaxed))
    }

    /// `length` bytes from a byte position on; none if they are not all inside.
    #[inline]
    pub(super) fn slice(&self, at: usize, length: usize) -> Option<&[u8]> {
        self.0.get(at..at.checked_add(length)?)
    }
}
