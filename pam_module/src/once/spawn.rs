//! posix_spawn(3) with a child that inherits nothing.

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr;

/// Starts `program` with these arguments: `input` is its standard input, its other standard descriptors are /dev/null,
/// all further ones are closed. No environment, default signal actions, no blocked signals, its own session, `/` as its
/// directory.
///
/// # Errors
/// It could not be started; a program that cannot be executed is among the reasons.
pub(super) fn with_input(program: &CStr, arguments: &[&CStr], input: RawFd) -> io::Result<libc::pid_t> {
    let actions = Actions::new(input)?;
    let attributes = Attributes::new()?;
    let mut vector: Vec<*mut c_char> =
        arguments.iter().map(|argument| argument.as_ptr().cast_mut()).collect();
    vector.push(ptr::null_mut());
    let environment = [ptr::null_mut()];
    let mut child = 0;
    // SAFETY: both objects are initialised, both vectors end with NULL, and their strings live until the call returns.
    check(unsafe {
        libc::posix_spawn(
            &mut child,
            program.as_ptr(),
            &actions.0,
            &attributes.0,
            vector.as_ptr(),
            environment.as_ptr(),
        )
    })?;
    Ok(child)
}

struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new(input: RawFd) -> io::Result<Self> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: the object may be written to.
        check(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        // SAFETY: the function has initialised it.
        let mut actions = Self(unsafe { actions.assume_init() });
        // The same number on both sides is fine: glibc then clears close-on-exec.
        // SAFETY: the object is initialised.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&mut actions.0, input, 0) })?;
        for descriptor in [1, 2] {
            let null = c"/dev/null".as_ptr();
            // SAFETY: the object is initialised, and the path is a C string, which the function copies.
            check(unsafe {
                libc::posix_spawn_file_actions_addopen(&mut actions.0, descriptor, null, libc::O_WRONLY, 0)
            })?;
        }
        // SAFETY: the object is initialised.
        check(unsafe { libc::posix_spawn_file_actions_addclosefrom_np(&mut actions.0, 3) })?;
        // SAFETY: the object is initialised, and the path is a C string, which the function copies.
        check(unsafe { libc::posix_spawn_file_actions_addchdir_np(&mut actions.0, c"/".as_ptr()) })?;
        Ok(actions)
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: the object is initialised, and not used afterwards.
        unsafe { libc::posix_spawn_file_actions_destroy(&mut self.0) };
    }
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> io::Result<Self> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the object may be written to.
        check(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: the function has initialised it.
        let mut attributes = Self(unsafe { attributes.assume_init() });
        let (all, none) = signal_sets();
        // SAFETY: object and set are initialised.
        check(unsafe { libc::posix_spawnattr_setsigdefault(&mut attributes.0, &all) })?;
        // SAFETY: object and set are initialised.
        check(unsafe { libc::posix_spawnattr_setsigmask(&mut attributes.0, &none) })?;
        let signals = libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
        // Its own session, so that Ctrl-C at sudo's prompt does not reach it.
        let flags = libc::c_short::try_from(signals).map_err(io::Error::other)? | libc::POSIX_SPAWN_SETSID;
        // SAFETY: the object is initialised.
        check(unsafe { libc::posix_spawnattr_setflags(&mut attributes.0, flags) })?;
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the object is initialised, and not used afterwards.
        unsafe { libc::posix_spawnattr_destroy(&mut self.0) };
    }
}

fn signal_sets() -> (libc::sigset_t, libc::sigset_t) {
    let (mut all, mut none) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the set may be written to.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the set may be written to.
    unsafe { libc::sigemptyset(none.as_mut_ptr()) };
    // SAFETY: the function has initialised it.
    let all = unsafe { all.assume_init() };
    // SAFETY: the function has initialised it.
    let none = unsafe { none.assume_init() };
    (all, none)
}

fn check(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}
