//! The functions that glibc calls (nss(5), "The GNU C Library", section "NSS Module Function Internals").

use std::ffi::CStr;

use libc::{c_char, c_int, c_long, gid_t, size_t, uid_t};
use libnss::group::CGroup;
use libnss::passwd::CPasswd;

use crate::answer::answer;
use crate::boundary::{Outcome, at_boundary};
use crate::enumeration::{GROUP, PASSWD};
use crate::fill::{Destination, GroupOut, PasswdOut};
use crate::group_list::GroupList;
use crate::question::{Group, GroupsOf, Passwd};

/// getpwnam_r(3).
///
/// # Safety
/// As for every function here: called by glibc, whose pointers are valid for the duration of the call; `buffer` has
/// `length` bytes; a name ends with a NUL byte.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _nss_privacyidea_getpwnam_r(
    name: *const c_char,
    result: *mut CPasswd,
    buffer: *mut c_char,
    length: size_t,
    errnop: *mut c_int,
) -> c_int {
    let to = Destination { result, buffer, length };
    at_boundary(errnop, || {
        // SAFETY: see above.
        let Some(name) = (unsafe { text(name) }) else { return Outcome::NotFound };
        answer(Passwd::ByName(name), |entry| to.put(&PasswdOut(entry)))
    })
}

/// getpwuid_r(3).
///
/// # Safety
/// As for [`_nss_privacyidea_getpwnam_r`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _nss_privacyidea_getpwuid_r(
    uid: uid_t,
    result: *mut CPasswd,
    buffer: *mut c_char,
    length: size_t,
    errnop: *mut c_int,
) -> c_int {
    let to = Destination { result, buffer, length };
    at_boundary(errnop, || answer(Passwd::ById(uid), |entry| to.put(&PasswdOut(entry))))
}

/// getgrnam_r(3).
///
/// # Safety
/// As for [`_nss_privacyidea_getpwnam_r`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _nss_privacyidea_getgrnam_r(
    name: *const c_char,
    result: *mut CGroup,
    buffer: *mut c_char,
    length: size_t,
    errnop: *mut c_int,
) -> c_int {
    let to = Destination { result, buffer, length };
    at_boundary(errnop, || {
        // SAFETY: see above.
        let Some(name) = (unsafe { text(name) }) else { return Outcome::NotFound };
        answer(Group::ByName(name), |entry| to.put(&GroupOut(entry)))
    })
}

/// getgrgid_r(3).
///
/// # Safety
/// As for [`_nss_privacyidea_getpwnam_r`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _nss_privacyidea_getgrgid_r(
    gid: gid_t,
    result: *mut CGroup,
    buffer: *mut c_char,
    length: size_t,
    errnop: *mut c_int,
) -> c_int {
    let to = Destination { result, buffer, length };
    at_boundary(errnop, || answer(Group::ById(gid), |entry| to.put(&GroupOut(entry))))
}

/// getgrouplist(3), initgroups(3): puts the user's groups behind those that other services found.
///
/// # Safety
/// As for [`_nss_privacyidea_getpwnam_r`]; `gids` points to a list from malloc(3) with room for `size` gids, of which
/// `used` are there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _nss_privacyidea_initgroups_dyn(
    name: *const c_char,
    primary: gid_t,
    used: *mut c_long,
    size: *mut c_long,
    gids: *mut *mut gid_t,
    limit: c_long,
    errnop: *mut c_int,
) -> c_int {
    let list = GroupList { primary, used, size, gids, limit };
    at_boundary(errnop, || {
        // SAFETY: see above.
        let Some(name) = (unsafe { text(name) }) else { return Outcome::NotFound };
        answer(GroupsOf(name), |groups| list.append(groups))
    })
}

/// setpwent(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn _nss_privacyidea_setpwent(_stay_open: c_int) -> c_int {
    at_boundary(std::ptr::null_mut(), || PASSWD.rewind())
}

/// endpwent(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn _nss_privacyidea_endpwent() -> c_int {
    at_boundary(std::ptr::null_mut(), || PASSWD.rewind())
}

/// getpwent_r(3).
///
/// # Safety
/// As for [`_nss_privacyidea_getpwnam_r`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _nss_privacyidea_getpwent_r(
    result: *mut CPasswd,
    buffer: *mut c_char,
    length: size_t,
    errnop: *mut c_int,
) -> c_int {
    let to = Destination { result, buffer, length };
    at_boundary(errnop, || {
        PASSWD.next(|snapshot, cursor, now| {
            snapshot.next_passwd(cursor, now).map(|entry| to.put(&PasswdOut(entry)))
        })
    })
}

/// setgrent(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn _nss_privacyidea_setgrent(_stay_open: c_int) -> c_int {
    at_boundary(std::ptr::null_mut(), || GROUP.rewind())
}

/// endgrent(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn _nss_privacyidea_endgrent() -> c_int {
    at_boundary(std::ptr::null_mut(), || GROUP.rewind())
}

/// getgrent_r(3).
///
/// # Safety
/// As for [`_nss_privacyidea_getpwnam_r`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _nss_privacyidea_getgrent_r(
    result: *mut CGroup,
    buffer: *mut c_char,
    length: size_t,
    errnop: *mut c_int,
) -> c_int {
    let to = Destination { result, buffer, length };
    at_boundary(errnop, || {
        GROUP.next(|snapshot, cursor, now| {
            snapshot.next_group(cursor, now).map(|entry| to.put(&GroupOut(entry)))
        })
    })
}

/// A name from glibc; none if it is null or no UTF-8, which no name of ours is.
///
/// # Safety
/// `name` is null or ends with a NUL byte and outlives the result.
unsafe fn text<'a>(name: *const c_char) -> Option<&'a str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: see above.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}
