//! Entries into the caller's buffer, through libnss's types. What was copied is what is checked, so that a map that
//! changes under us cannot slip anything through.

use std::io::{Error, ErrorKind, Result};
use std::ptr;

use libc::c_char;
use libnss::group::CGroup;
use libnss::interop::{CBuffer, ToC};
use libnss::passwd::CPasswd;
use privacyidea_contract::map::{GroupView, PasswdView};
use privacyidea_contract::names::{are_usable_field, are_usable_name, is_usable_id};

/// No password. Not `x`, which says "look into shadow(5)": pam_unix finds no entry of ours there, and its account phase
/// would lock our users out.
const PASSWORD: &[u8] = b"*";

/// Why an entry was not handed to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The caller's buffer is too small.
    TooSmall,
    /// realloc(3) failed.
    NoMemory,
    /// A name, id or field of it may not be believed.
    Unusable,
}

/// Where glibc wants an entry: its structure, and a buffer for the texts.
pub(crate) struct Destination<C> {
    pub(crate) result: *mut C,
    pub(crate) buffer: *mut c_char,
    pub(crate) length: usize,
}

impl<C> Destination<C> {
    /// Writes an entry.
    #[inline]
    pub(crate) fn put(&self, entry: &impl ToC<C>) -> std::result::Result<(), Refusal> {
        let mut buffer = CBuffer::new(self.buffer.cast(), self.length.min(isize::MAX as usize));
        // SAFETY: glibc owns both for the duration of the call, and the buffer has that length.
        let done = unsafe { entry.to_c(self.result, &mut buffer) };
        done.map_err(|error| match error.raw_os_error() {
            Some(libc::ERANGE) => Refusal::TooSmall,
            _ => Refusal::Unusable,
        })
    }
}

/// A passwd entry on its way to C.
pub(crate) struct PasswdOut<'a>(pub(crate) PasswdView<'a>);

impl ToC<CPasswd> for PasswdOut<'_> {
    #[inline]
    unsafe fn to_c(&self, result: *mut CPasswd, buffer: &mut CBuffer) -> Result<()> {
        let Self(entry) = self;
        if !is_usable_id(entry.uid) || !is_usable_id(entry.gid) {
            return Err(ErrorKind::InvalidData.into());
        }
        let filled = CPasswd {
            name: put_text(buffer, entry.name, are_usable_name)?,
            passwd: put_text(buffer, PASSWORD, |_| true)?,
            uid: entry.uid,
            gid: entry.gid,
            gecos: put_text(buffer, entry.gecos, are_usable_field)?,
            dir: put_text(buffer, entry.home, are_usable_field)?,
            shell: put_text(buffer, entry.shell, are_usable_field)?,
        };
        // SAFETY: the caller passes a structure that is ours to fill.
        unsafe { result.write(filled) };
        Ok(())
    }
}

/// A group entry on its way to C. Members whose names are not usable are left out.
pub(crate) struct GroupOut<'a>(pub(crate) GroupView<'a>);

impl ToC<CGroup> for GroupOut<'_> {
    #[inline]
    unsafe fn to_c(&self, result: *mut CGroup, buffer: &mut CBuffer) -> Result<()> {
        let Self(entry) = self;
        if !is_usable_id(entry.gid) {
            return Err(ErrorKind::InvalidData.into());
        }
        let filled = CGroup {
            name: put_text(buffer, entry.name, are_usable_name)?,
            passwd: put_text(buffer, PASSWORD, |_| true)?,
            gid: entry.gid,
            members: put_members(buffer, entry)?,
        };
        // SAFETY: the caller passes a structure that is ours to fill.
        unsafe { result.write(filled) };
        Ok(())
    }
}

#[inline]
fn put_text(buffer: &mut CBuffer, text: &[u8], is_usable: impl Fn(&[u8]) -> bool) -> Result<*mut c_char> {
    let copy = put_bytes(buffer, text, 1)?;
    // SAFETY: one byte more than the text was reserved.
    let end = unsafe { copy.add(text.len()) };
    // SAFETY: as above.
    unsafe { end.write(0) };
    // SAFETY: these bytes were just written, to a buffer that is the caller's and thereby ours for this call.
    let copied = unsafe { std::slice::from_raw_parts(copy, text.len()) };
    if is_usable(copied) { Ok(copy.cast()) } else { Err(ErrorKind::InvalidData.into()) }
}

/// The members' names and an array of pointers to them, ended by a null pointer.
fn put_members(buffer: &mut CBuffer, entry: &GroupView<'_>) -> Result<*mut *mut c_char> {
    let padding = reserve(buffer, 0)?.align_offset(align_of::<*mut c_char>());
    reserve(buffer, padding)?;
    let room = entry.member_count as usize;
    let array: *mut *mut c_char = reserve(buffer, (room + 1) * size_of::<*mut c_char>())?.cast();
    let block = entry.member_block;
    let copy = put_bytes(buffer, block, 1)?;
    // SAFETY: one byte more than the block was reserved. The last name ends there at the latest.
    let end = unsafe { copy.add(block.len()) };
    // SAFETY: as above.
    unsafe { end.write(0) };
    // SAFETY: these bytes were just written; what is written below is the array, which is beside them.
    let names = unsafe { std::slice::from_raw_parts(copy, block.len()) };
    let (mut at, mut count) = (0, 0);
    for name in names.split(|byte| *byte == 0) {
        if are_usable_name(name) && count < room {
            // SAFETY: where `name` begins, inside the copy.
            let start = unsafe { copy.add(at) };
            // SAFETY: the array has `room` places and one more.
            let place = unsafe { array.add(count) };
            // SAFETY: as above.
            unsafe { place.write(start.cast()) };
            count += 1;
        }
        at += name.len() + 1;
    }
    // SAFETY: `count` is at most `room`.
    let place = unsafe { array.add(count) };
    // SAFETY: as above.
    unsafe { place.write(ptr::null_mut()) };
    Ok(array)
}

/// A copy in the buffer, with `more` bytes behind it that are not yet written.
#[inline]
fn put_bytes(buffer: &mut CBuffer, bytes: &[u8], more: usize) -> Result<*mut u8> {
    let copy = reserve(buffer, bytes.len() + more)?;
    // SAFETY: so many bytes were reserved in the caller's buffer, which is not the map.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len()) };
    Ok(copy)
}

#[inline]
fn reserve(buffer: &mut CBuffer, length: usize) -> Result<*mut u8> {
    let length = isize::try_from(length).map_err(|_| Error::from_raw_os_error(libc::ERANGE))?;
    // SAFETY: the buffer was made from a pointer and a length that belong together.
    let reserved = unsafe { buffer.reserve(length) };
    reserved.map(|start| start.cast())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn put<C>(entry: &impl ToC<C>, room: usize, offset: usize) -> std::result::Result<(C, Vec<u8>), Refusal> {
        let mut buffer = vec![0xaa; offset + room];
        let mut result = std::mem::MaybeUninit::uninit();
        // SAFETY: `offset` is inside.
        let start = unsafe { buffer.as_mut_ptr().add(offset) };
        let to = Destination { result: result.as_mut_ptr(), buffer: start.cast(), length: room };
        to.put(entry)?;
        // SAFETY: `put` fills it when it succeeds.
        Ok((unsafe { result.assume_init() }, buffer))
    }

    fn text(pointer: *const c_char) -> String {
        // SAFETY: the tests pass what `put` wrote.
        unsafe { CStr::from_ptr(pointer) }.to_str().unwrap().to_owned()
    }

    fn group(members: &[u8], member_count: u32) -> GroupOut<'_> {
        GroupOut(GroupView { name: b"staff", gid: 5000, member_count, member_block: members })
    }

    fn members(group: &CGroup) -> Vec<String> {
        // SAFETY: the array ends with a null pointer.
        let place = |index| unsafe { group.members.add(index) };
        // SAFETY: as above.
        let at = |index| unsafe { place(index).read() };
        (0..).map(at).take_while(|member| !member.is_null()).map(|member| text(member)).collect()
    }

    #[test]
    fn the_member_array_is_aligned_wherever_the_buffer_begins() {
        for offset in 0..8 {
            let (filled, _buffer) = put(&group(b"alice\0bob\0", 2), 256, offset).unwrap();
            assert_eq!(filled.members as usize % align_of::<*mut c_char>(), 0);
            assert_eq!(members(&filled), ["alice", "bob"]);
        }
    }

    #[test]
    fn members_that_may_not_be_believed_are_left_out() {
        let (filled, _buffer) = put(&group(b"alice\0root\0a:b\0\xff\0\0bob\0", 6), 256, 0).unwrap();
        assert_eq!(members(&filled), ["alice", "bob"]);
        // A count that is too small or too large, and a block without its last NUL byte.
        let (filled, _buffer) = put(&group(b"alice\0bob", 1), 256, 0).unwrap();
        assert_eq!(members(&filled), ["alice"]);
        let (filled, _buffer) = put(&group(b"alice\0bob", 9), 256, 0).unwrap();
        assert_eq!(members(&filled), ["alice", "bob"]);
    }

    #[test]
    fn every_buffer_that_is_too_small_is_refused_and_never_exceeded() {
        let alice =
            PasswdView { name: b"alice", uid: 2000, gid: 5000, gecos: b"A", home: b"/a", shell: b"/bin/sh" };
        for room in 0..64 {
            match put(&PasswdOut(alice), room, 0) {
                Ok((filled, _buffer)) => {
                    assert!(room >= 21, "{room}");
                    assert_eq!(
                        (text(filled.name), text(filled.passwd)),
                        ("alice".to_owned(), "*".to_owned())
                    );
                    assert_eq!(text(filled.shell), "/bin/sh");
                }
                Err(refusal) => assert_eq!((refusal, room < 21), (Refusal::TooSmall, true), "{room}"),
            }
        }
        assert_eq!(put(&PasswdOut(PasswdView { uid: 0, ..alice }), 64, 0).err(), Some(Refusal::Unusable));
        assert_eq!(put(&PasswdOut(PasswdView { gid: 10, ..alice }), 64, 0).err(), Some(Refusal::Unusable));
        assert_eq!(
            put(&PasswdOut(PasswdView { name: b"root", ..alice }), 64, 0).err(),
            Some(Refusal::Unusable)
        );
        assert_eq!(
            put(&PasswdOut(PasswdView { home: b"/:", ..alice }), 64, 0).err(),
            Some(Refusal::Unusable)
        );
    }
}
