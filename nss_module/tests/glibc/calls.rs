//! glibc's functions, and the module's own found with dlsym.

use std::ffi::{CStr, CString, c_void};
use std::mem::{MaybeUninit, transmute};
use std::ptr;

use libc::{c_char, c_int, c_long, gid_t, size_t};
use privacyidea_contract::wire::{GroupEntry, PasswdEntry};

unsafe extern "C" {
    fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
}

/// What glibc says: an entry, none, or an error number.
pub(crate) type Answer<T> = Result<Option<T>, c_int>;

pub(crate) fn use_module_only() {
    for database in [c"passwd", c"group", c"initgroups"] {
        // SAFETY: two NUL-terminated strings.
        assert_eq!(unsafe { __nss_configure_lookup(database.as_ptr(), c"privacyidea".as_ptr()) }, 0);
    }
}

fn text(pointer: *const c_char) -> String {
    // SAFETY: glibc returns NUL-terminated strings that live as long as the buffer.
    unsafe { CStr::from_ptr(pointer) }.to_str().expect("UTF-8").to_owned()
}

fn passwd_entry(entry: &libc::passwd) -> PasswdEntry {
    assert_eq!(text(entry.pw_passwd), "*");
    PasswdEntry {
        name: text(entry.pw_name),
        uid: entry.pw_uid,
        gid: entry.pw_gid,
        gecos: text(entry.pw_gecos),
        home: text(entry.pw_dir),
        shell: text(entry.pw_shell),
    }
}

fn group_entry(entry: &libc::group) -> GroupEntry {
    assert_eq!(text(entry.gr_passwd), "*");
    let mut members = Vec::new();
    for index in 0.. {
        // SAFETY: the array ends with a null pointer.
        let place = unsafe { entry.gr_mem.add(index) };
        // SAFETY: as above.
        let member = unsafe { place.read() };
        if member.is_null() {
            break;
        }
        members.push(text(member));
    }
    GroupEntry { name: text(entry.gr_name), gid: entry.gr_gid, members }
}

/// Calls with larger and larger buffers, from 8 bytes on, as long as the answer is ERANGE.
fn growing<C, T>(
    call: impl Fn(*mut C, *mut c_char, size_t, *mut *mut C) -> c_int,
    convert: impl Fn(&C) -> T,
) -> Answer<T> {
    let mut buffer: Vec<c_char> = vec![0; 8];
    loop {
        let mut entry = MaybeUninit::<C>::uninit();
        let mut result = ptr::null_mut();
        match call(entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut result) {
            libc::ERANGE if buffer.len() < 1 << 24 => buffer.resize(buffer.len() * 2, 0),
            0 if result.is_null() => return Ok(None),
            // SAFETY: glibc set the result to our structure and filled it.
            0 => return Ok(Some(convert(unsafe { &*result }))),
            error => return Err(error),
        }
    }
}

pub(crate) fn passwd_by_name(name: &str) -> Answer<PasswdEntry> {
    let name = CString::new(name).unwrap();
    growing(
        // SAFETY: valid pointers, and the buffer's length.
        |entry, buffer, length, result| unsafe {
            libc::getpwnam_r(name.as_ptr(), entry, buffer, length, result)
        },
        passwd_entry,
    )
}

pub(crate) fn passwd_by_id(uid: u32) -> Answer<PasswdEntry> {
    growing(
        // SAFETY: valid pointers, and the buffer's length.
        |entry, buffer, length, result| unsafe { libc::getpwuid_r(uid, entry, buffer, length, result) },
        passwd_entry,
    )
}

pub(crate) fn group_by_name(name: &str) -> Answer<GroupEntry> {
    let name = CString::new(name).unwrap();
    growing(
        // SAFETY: valid pointers, and the buffer's length.
        |entry, buffer, length, result| unsafe {
            libc::getgrnam_r(name.as_ptr(), entry, buffer, length, result)
        },
        group_entry,
    )
}

pub(crate) fn group_by_id(gid: u32) -> Answer<GroupEntry> {
    growing(
        // SAFETY: valid pointers, and the buffer's length.
        |entry, buffer, length, result| unsafe { libc::getgrgid_r(gid, entry, buffer, length, result) },
        group_entry,
    )
}

/// getgrouplist, sorted.
pub(crate) fn groups_of(name: &str, primary: u32) -> Vec<u32> {
    let name = CString::new(name).unwrap();
    let mut gids: Vec<gid_t> = vec![0; 1];
    loop {
        let mut count = c_int::try_from(gids.len()).unwrap();
        // SAFETY: room for `count` gids.
        let done = unsafe { libc::getgrouplist(name.as_ptr(), primary, gids.as_mut_ptr(), &raw mut count) };
        gids.resize(usize::try_from(count).unwrap(), 0);
        if done >= 0 {
            gids.sort_unstable();
            return gids;
        }
    }
}

/// getpwent until it ends. `rewind` calls setpwent first.
pub(crate) fn list_passwd(rewind: bool, mut each: impl FnMut(usize)) -> Vec<String> {
    if rewind {
        // SAFETY: no arguments.
        unsafe { libc::setpwent() };
    }
    let mut names = Vec::new();
    loop {
        each(names.len());
        // SAFETY: no other thread of this process enumerates.
        let entry = unsafe { libc::getpwent() };
        if entry.is_null() {
            // SAFETY: no arguments.
            unsafe { libc::endpwent() };
            return names;
        }
        // SAFETY: valid until the next call.
        names.push(passwd_entry(unsafe { &*entry }).name);
    }
}

pub(crate) fn list_groups() -> Vec<GroupEntry> {
    // SAFETY: no arguments.
    unsafe { libc::setgrent() };
    let mut groups = Vec::new();
    loop {
        // SAFETY: no other thread of this process enumerates.
        let entry = unsafe { libc::getgrent() };
        if entry.is_null() {
            return groups;
        }
        // SAFETY: valid until the next call.
        groups.push(group_entry(unsafe { &*entry }));
    }
}

type PasswdByName =
    unsafe extern "C" fn(*const c_char, *mut libc::passwd, *mut c_char, size_t, *mut c_int) -> c_int;
type GroupByName =
    unsafe extern "C" fn(*const c_char, *mut libc::group, *mut c_char, size_t, *mut c_int) -> c_int;
type ById<T> = unsafe extern "C" fn(u32, *mut T, *mut c_char, size_t, *mut c_int) -> c_int;
type InitgroupsDyn = unsafe extern "C" fn(
    *const c_char,
    gid_t,
    *mut c_long,
    *mut c_long,
    *mut *mut gid_t,
    c_long,
    *mut c_int,
) -> c_int;

/// The module itself, without glibc's walk through the services.
#[derive(Clone, Copy)]
pub(crate) struct Module(*mut c_void);

impl Module {
    pub(crate) fn load() -> Self {
        // SAFETY: a NUL-terminated name; the module's constructors do nothing.
        let handle = unsafe { libc::dlopen(c"libnss_privacyidea.so.2".as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        Self(handle)
    }

    pub(crate) fn unload(self) {
        // SAFETY: the handle is from dlopen and not used again.
        assert_eq!(unsafe { libc::dlclose(self.0) }, 0);
    }

    fn symbol(self, name: &CStr) -> *mut c_void {
        // SAFETY: a handle from dlopen and a NUL-terminated name.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!symbol.is_null());
        symbol
    }

    /// Status, errno and uid of one call with a buffer of 1024 bytes. Makes no system call of its own.
    pub(crate) fn passwd_by_name(self) -> impl Fn(&CStr) -> (c_int, c_int, u32) {
        let symbol = self.symbol(c"_nss_privacyidea_getpwnam_r");
        // SAFETY: the function's type by nss(5).
        let function = unsafe { transmute::<*mut c_void, PasswdByName>(symbol) };
        move |name| {
            let mut entry = MaybeUninit::<libc::passwd>::zeroed();
            let mut buffer = [0; 1024];
            let mut errno = 0;
            // SAFETY: valid pointers, and the buffer's length.
            let status = unsafe {
                function(name.as_ptr(), entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut errno)
            };
            // SAFETY: zeroes are a valid entry.
            (status, errno, unsafe { entry.assume_init() }.pw_uid)
        }
    }

    /// Whether alice (uid 2000) and her group staff (gid 5000) are found by id, by name and by membership. Makes no
    /// system call of its own.
    pub(crate) fn all_others_succeed(self) -> bool {
        let symbol = self.symbol(c"_nss_privacyidea_getpwuid_r");
        // SAFETY: the function's type by nss(5).
        let getpwuid = unsafe { transmute::<*mut c_void, ById<libc::passwd>>(symbol) };
        let symbol = self.symbol(c"_nss_privacyidea_getgrgid_r");
        // SAFETY: as above.
        let getgrgid = unsafe { transmute::<*mut c_void, ById<libc::group>>(symbol) };
        let symbol = self.symbol(c"_nss_privacyidea_getgrnam_r");
        // SAFETY: as above.
        let getgrnam = unsafe { transmute::<*mut c_void, GroupByName>(symbol) };
        let symbol = self.symbol(c"_nss_privacyidea_initgroups_dyn");
        // SAFETY: as above.
        let initgroups = unsafe { transmute::<*mut c_void, InitgroupsDyn>(symbol) };
        let mut user = MaybeUninit::<libc::passwd>::uninit();
        let mut group = MaybeUninit::<libc::group>::uninit();
        let mut buffer = [0; 1024];
        let (start, length) = (buffer.as_mut_ptr(), buffer.len());
        let (mut used, mut size, mut errno) = (1, 16, 0);
        let mut list = [0; 16];
        let mut gids = list.as_mut_ptr();
        // SAFETY: valid pointers, and the buffer's length.
        let by_uid = unsafe { getpwuid(2000, user.as_mut_ptr(), start, length, &raw mut errno) };
        // SAFETY: as above.
        let by_gid = unsafe { getgrgid(5000, group.as_mut_ptr(), start, length, &raw mut errno) };
        // SAFETY: as above.
        let by_name =
            unsafe { getgrnam(c"staff".as_ptr(), group.as_mut_ptr(), start, length, &raw mut errno) };
        let (used_at, size_at, gids_at) = (&raw mut used, &raw mut size, &raw mut gids);
        // SAFETY: as above; three groups fit, so that the list, which is not from malloc, does not grow.
        let groups =
            unsafe { initgroups(c"alice".as_ptr(), 5000, used_at, size_at, gids_at, -1, &raw mut errno) };
        [by_uid, by_gid, by_name, groups] == [1; 4] && used == 3
    }

    /// Status and gids of one initgroups call that begins with an empty list without room.
    pub(crate) fn groups_of(self, name: &CStr, limit: c_long) -> (c_int, Vec<u32>) {
        let symbol = self.symbol(c"_nss_privacyidea_initgroups_dyn");
        // SAFETY: the function's type by glibc's nss.h.
        let function = unsafe { transmute::<*mut c_void, InitgroupsDyn>(symbol) };
        let (mut used, mut size, mut errno) = (0, 0, 0);
        let mut gids: *mut gid_t = ptr::null_mut();
        // SAFETY: valid pointers; realloc takes a null pointer.
        let status = unsafe {
            function(name.as_ptr(), 5000, &raw mut used, &raw mut size, &raw mut gids, limit, &raw mut errno)
        };
        let count = usize::try_from(used).unwrap();
        if count == 0 {
            return (status, Vec::new());
        }
        // SAFETY: the list has `used` gids.
        let list = unsafe { std::slice::from_raw_parts(gids, count) }.to_vec();
        // SAFETY: from realloc.
        unsafe { libc::free(gids.cast()) };
        (status, list)
    }
}
