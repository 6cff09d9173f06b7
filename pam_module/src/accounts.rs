//! Whom the host knows. These lookups happen here, in the host's process: the daemon never asks NSS, because NSS may ask
//! the daemon.

#![expect(unsafe_code, reason = "the binding of getpwnam_r and geteuid")]

use std::ffi::{CStr, c_char};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// The largest passwd entry that is waited for, in bytes.
const ENTRY_LENGTH_MAX: usize = 1 << 20;

/// The uid that the host's name services have for `name`; none if they do not know it.
///
/// # Errors
/// A name service failed.
pub(crate) fn uid_of(name: &CStr) -> io::Result<Option<u32>> {
    let mut buffer: Vec<c_char> = vec![0; 4096];
    loop {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = ptr::null_mut();
        let (start, length) = (buffer.as_mut_ptr(), buffer.len());
        // SAFETY: the name is a C string, and the three places may be written to, the buffer for its length.
        let code = unsafe { libc::getpwnam_r(name.as_ptr(), entry.as_mut_ptr(), start, length, &mut found) };
        match code {
            _ if !found.is_null() => {
                // SAFETY: the function found an entry, so it has written it.
                return Ok(Some(unsafe { entry.assume_init_ref() }.pw_uid));
            }
            // The manual page's ways of saying "not found".
            0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            libc::EINTR => {}
            libc::ERANGE if buffer.len() < ENTRY_LENGTH_MAX => buffer.resize(buffer.len() * 4, 0),
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

/// The effective uid of the host program.
pub(crate) fn own_uid() -> u32 {
    // SAFETY: takes nothing, always succeeds.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_knows_root_and_not_everybody() {
        assert_eq!(uid_of(c"root").unwrap(), Some(0));
        assert_eq!(uid_of(c"no-such-user-here").unwrap(), None);
    }
}
