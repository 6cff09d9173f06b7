//! libpam's functions, beside those that pamsm binds well: a conversation that wipes what it read, the log, PAM_TTY and
//! the delay after a failure.

#![expect(unsafe_code, reason = "the binding of libpam")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr;

use pamsm::{Pam, PamError, PamLibExt};
use privacyidea_contract::Secret;

use crate::dialogue::{NoAnswer, NotTaken};

/// The log's levels, as syslog(3) numbers them.
pub(crate) mod priority {
    pub(crate) use libc::{
        LOG_ALERT as ALERT, LOG_CRIT as CRIT, LOG_DEBUG as DEBUG, LOG_ERR as ERR, LOG_INFO as INFO,
    };
}

const PAM_SUCCESS: c_int = 0;
const PAM_TTY: c_int = 3;
const PAM_PROMPT_ECHO_OFF: c_int = 1;
const PAM_PROMPT_ECHO_ON: c_int = 2;
const PAM_ERROR_MSG: c_int = 3;
const PAM_TEXT_INFO: c_int = 4;

#[link(name = "pam")]
unsafe extern "C" {
    fn pam_prompt(
        pamh: *mut c_void,
        style: c_int,
        response: *mut *mut c_char,
        format: *const c_char,
        ...
    ) -> c_int;
    fn pam_syslog(pamh: *const c_void, priority: c_int, format: *const c_char, ...);
    fn pam_get_item(pamh: *const c_void, item: c_int, value: *mut *const c_void) -> c_int;
    fn pam_fail_delay(pamh: *mut c_void, microseconds: c_uint) -> c_int;
    fn pam_putenv(pamh: *mut c_void, name_value: *const c_char) -> c_int;
}

/// What the host program has begun with pam_start(3), for the time of one call.
pub(crate) struct Transaction<'a> {
    pam: &'a Pam,
    // libpam is not made for threads.
    not_send: PhantomData<*const ()>,
}

impl<'a> Transaction<'a> {
    /// The transaction that libpam handed over.
    pub(crate) fn of(pam: &'a Pam) -> Self {
        Self { pam, not_send: PhantomData }
    }

    /// PAM_USER; libpam asks for it if the host program has not set it.
    ///
    /// # Errors
    /// libpam's code.
    pub(crate) fn user(&self) -> Result<Option<&'a CStr>, PamError> {
        self.pam.get_user(None)
    }

    /// PAM_SERVICE, for example `sshd`.
    pub(crate) fn service(&self) -> String {
        text(self.pam.get_service().ok().flatten())
    }

    /// PAM_RHOST, empty for a local login.
    pub(crate) fn rhost(&self) -> String {
        text(self.pam.get_rhost().ok().flatten())
    }

    /// PAM_TTY, which pamsm does not bind.
    pub(crate) fn tty(&self) -> String {
        let mut value = ptr::null();
        // SAFETY: the handle is libpam's and alive, `value` is writable.
        let code = unsafe { pam_get_item(self.handle(), PAM_TTY, &mut value) };
        if code != PAM_SUCCESS || value.is_null() {
            return String::new();
        }
        // SAFETY: PAM_TTY is a C string that libpam keeps until it is set again, which does not happen in here.
        text(Some(unsafe { CStr::from_ptr(value.cast()) }))
    }

    /// PAM_AUTHTOK: what an earlier module asked for. It is read, never set.
    pub(crate) fn password(&self) -> Option<Secret> {
        let password = self.pam.get_cached_authtok().ok().flatten()?;
        Some(Secret::new(password.to_bytes().to_vec()))
    }

    /// Makes every failure of this transaction take about as long (pam_fail_delay(3)).
    pub(crate) fn delay_failure(&self, microseconds: u32) {
        // SAFETY: the handle is libpam's and alive. The result only says whether it is.
        unsafe { pam_fail_delay(self.handle(), microseconds) };
    }

    /// Writes a line to authpriv (pam_syslog(3)).
    pub(crate) fn log(&self, priority: c_int, line: &str) {
        // A user name in the line may hold anything: no line breaks, no NUL.
        let line: String = line.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let Ok(line) = CString::new(line) else { return };
        // SAFETY: the format takes one C string, and `line` is one.
        unsafe { pam_syslog(self.handle(), priority, c"%s".as_ptr(), line.as_ptr()) };
    }

    /// Shows `text` and reads an answer. The copy that libpam made of it is wiped.
    ///
    /// # Errors
    /// The host program cannot ask, or its answer is none.
    pub(crate) fn ask(&self, text: &str, echo: bool) -> Result<Secret, NoAnswer> {
        let style = if echo { PAM_PROMPT_ECHO_ON } else { PAM_PROMPT_ECHO_OFF };
        let text = CString::new(text).map_err(|_| NoAnswer)?;
        let mut answer = ptr::null_mut();
        // SAFETY: the format takes one C string, and `text` is one; `answer` is writable.
        let code = unsafe { pam_prompt(self.handle(), style, &mut answer, c"%s".as_ptr(), text.as_ptr()) };
        // Taken over before the code is looked at: a failed conversation may leave an answer behind, too.
        let answer = Answer::take(answer);
        match answer {
            Some(answer) if code == PAM_SUCCESS => Ok(Secret::new(answer.bytes().to_vec())),
            _ => Err(NoAnswer),
        }
    }

    /// Shows `text`.
    ///
    /// # Errors
    /// The host program cannot show it.
    pub(crate) fn tell(&self, text: &str, error: bool) -> Result<(), NoAnswer> {
        let style = if error { PAM_ERROR_MSG } else { PAM_TEXT_INFO };
        let text = CString::new(text).map_err(|_| NoAnswer)?;
        // SAFETY: the format takes one C string, and `text` is one. No place for an answer is given: libpam frees one
        // that comes nevertheless, and bears none, which hosts may give to what is no question.
        let code =
            unsafe { pam_prompt(self.handle(), style, ptr::null_mut(), c"%s".as_ptr(), text.as_ptr()) };
        if code == PAM_SUCCESS { Ok(()) } else { Err(NoAnswer) }
    }

    /// Puts `name=value` into the PAM environment, which the host program hands to the session (pam_putenv(3)).
    ///
    /// # Errors
    /// libpam does not take it.
    pub(crate) fn export(&self, name: &str, value: &str) -> Result<(), NotTaken> {
        let variable = CString::new(format!("{name}={value}")).map_err(|_| NotTaken)?;
        // SAFETY: the handle is libpam's and alive, and the C string is copied.
        let code = unsafe { pam_putenv(self.handle(), variable.as_ptr()) };
        if code == PAM_SUCCESS { Ok(()) } else { Err(NotTaken) }
    }

    fn handle(&self) -> *mut c_void {
        let pam: *const Pam = self.pam;
        // SAFETY: pamsm declares `Pam` as a transparent wrapper of the `pam_handle_t *` that libpam passed.
        unsafe { pam.cast::<*mut c_void>().read() }
    }
}

/// An answer in memory that the host program allocated with malloc(3): wiped and freed.
struct Answer(ptr::NonNull<c_char>);

impl Answer {
    /// Takes over what pam_prompt left.
    fn take(answer: *mut c_char) -> Option<Self> {
        ptr::NonNull::new(answer).map(Self)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: by the contract of pam_conv(3) an answer is a C string; nobody else has it any more.
        unsafe { CStr::from_ptr(self.0.as_ptr()) }.to_bytes()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let length = self.bytes().len();
        // SAFETY: the string has that many bytes, and it is ours.
        unsafe { libc::explicit_bzero(self.0.as_ptr().cast(), length) };
        // SAFETY: by the contract of pam_conv(3) it came from malloc and is the caller's to free; this is the only time.
        unsafe { libc::free(self.0.as_ptr().cast()) };
    }
}

/// An item as text; what is not UTF-8 in a host or terminal name is replaced.
fn text(item: Option<&CStr>) -> String {
    item.map(|item| item.to_string_lossy().into_owned()).unwrap_or_default()
}
