//! libpam, from the side of a program that wants to know who somebody is (pam_start(3), pam_conv(3)).

#![expect(unsafe_code, reason = "the binding of libpam")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use privacyidea_contract::Secret;

/// A PAM return code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

/// What libpam can be asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// pam_authenticate(3)
    Authenticate,
    /// pam_acct_mgmt(3)
    Account,
    /// pam_setcred(3), to establish
    Setcred,
    /// pam_open_session(3)
    OpenSession,
    /// pam_close_session(3)
    CloseSession,
    /// pam_chauthtok(3)
    Chauthtok,
}

/// How a message wants to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// A question whose answer is not shown.
    PromptEchoOff,
    /// A question whose answer is shown.
    PromptEchoOn,
    /// An error.
    ErrorMessage,
    /// A text.
    TextInfo,
}

/// The person's side.
pub(crate) trait Talk {
    /// Shows a message; for a prompt reads an answer.
    ///
    /// # Errors
    /// [`NoAnswer`]: libpam gets PAM_CONV_ERR.
    fn message(&mut self, style: Style, text: &str) -> Result<Option<Secret>, NoAnswer>;

    /// The delay that the stack asked for, in microseconds, where the application does not let libpam wait.
    fn delay(&mut self, microseconds: u32);
}

/// There is no answer.
#[derive(Debug)]
pub(crate) struct NoAnswer;

/// A transaction of libpam; it ends with PAM's pam_end(3).
pub(crate) struct Application<T: Talk> {
    handle: *mut c_void,
    // libpam keeps pointers to both.
    talk: Box<RefCell<T>>,
    _conversation: Box<Conversation>,
    last: Code,
}

#[repr(C)]
struct Message {
    style: c_int,
    text: *const c_char,
}

#[repr(C)]
struct Response {
    text: *mut c_char,
    unused: c_int,
}

type Converse = extern "C" fn(c_int, *const *const Message, *mut *mut Response, *mut c_void) -> c_int;

#[repr(C)]
struct Conversation {
    function: Converse,
    data: *mut c_void,
}

const PAM_CONV_ERR: c_int = 19;
const PAM_MESSAGES_MAX: c_int = 32;
const PAM_TTY: c_int = 3;
const PAM_RHOST: c_int = 4;
const PAM_FAIL_DELAY: c_int = 10;
const PAM_ESTABLISH_CRED: c_int = 2;

#[link(name = "pam")]
unsafe extern "C" {
    fn pam_start(
        service: *const c_char,
        user: *const c_char,
        conversation: *const Conversation,
        handle: *mut *mut c_void,
    ) -> c_int;
    fn pam_start_confdir(
        service: *const c_char,
        user: *const c_char,
        conversation: *const Conversation,
        directory: *const c_char,
        handle: *mut *mut c_void,
    ) -> c_int;
    fn pam_end(handle: *mut c_void, status: c_int) -> c_int;
    fn pam_set_item(handle: *mut c_void, item: c_int, value: *const c_void) -> c_int;
    fn pam_strerror(handle: *mut c_void, code: c_int) -> *const c_char;
    fn pam_authenticate(handle: *mut c_void, flags: c_int) -> c_int;
    fn pam_acct_mgmt(handle: *mut c_void, flags: c_int) -> c_int;
    fn pam_setcred(handle: *mut c_void, flags: c_int) -> c_int;
    fn pam_open_session(handle: *mut c_void, flags: c_int) -> c_int;
    fn pam_close_session(handle: *mut c_void, flags: c_int) -> c_int;
    fn pam_chauthtok(handle: *mut c_void, flags: c_int) -> c_int;
    fn pam_getenvlist(handle: *mut c_void) -> *mut *mut c_char;
}

impl<T: Talk> Application<T> {
    /// Begins. `confdir` replaces `/etc/pam.d`.
    ///
    /// # Errors
    /// libpam's code.
    pub(crate) fn start(service: &CStr, user: &CStr, confdir: Option<&CStr>, talk: T) -> Result<Self, Code> {
        let talk = Box::new(RefCell::new(talk));
        let data = ptr::from_ref::<RefCell<T>>(&talk).cast_mut().cast();
        let conversation = Box::new(Conversation { function: converse::<T>, data });
        let mut handle = ptr::null_mut();
        let (service, user) = (service.as_ptr(), user.as_ptr());
        let code = match confdir {
            // SAFETY: C strings and places that live long enough; the conversation and its data live as long as the
            // transaction, in boxes of their own.
            None => unsafe { pam_start(service, user, &*conversation, &mut handle) },
            // SAFETY: as above.
            Some(directory) => unsafe {
                pam_start_confdir(service, user, &*conversation, directory.as_ptr(), &mut handle)
            },
        };
        match Code(code) {
            Code::SUCCESS => Ok(Self { handle, talk, _conversation: conversation, last: Code::SUCCESS }),
            code => Err(code),
        }
    }

    /// Says from where the person comes.
    ///
    /// # Errors
    /// libpam's code.
    pub(crate) fn set_rhost(&mut self, rhost: &CStr) -> Result<(), Code> {
        self.set(PAM_RHOST, rhost.as_ptr().cast())
    }

    /// Says at which terminal the person is.
    ///
    /// # Errors
    /// libpam's code.
    pub(crate) fn set_tty(&mut self, tty: &CStr) -> Result<(), Code> {
        self.set(PAM_TTY, tty.as_ptr().cast())
    }

    /// Has the delay after a failure told to [`Talk::delay`] instead of waited for.
    ///
    /// # Errors
    /// libpam's code.
    pub(crate) fn do_not_wait(&mut self) -> Result<(), Code> {
        let function: extern "C" fn(c_int, c_uint, *mut c_void) = delay::<T>;
        self.set(PAM_FAIL_DELAY, function as *const c_void)
    }

    /// Runs one phase of the stack.
    pub(crate) fn call(&mut self, phase: Phase) -> Code {
        self.call_with(phase, 0)
    }

    /// Runs one phase of the stack with PAM's flags.
    pub(crate) fn call_with(&mut self, phase: Phase, flags: c_int) -> Code {
        let (function, flags): (unsafe extern "C" fn(*mut c_void, c_int) -> c_int, _) = match phase {
            Phase::Authenticate => (pam_authenticate, flags),
            Phase::Account => (pam_acct_mgmt, flags),
            Phase::Setcred => (pam_setcred, flags | PAM_ESTABLISH_CRED),
            Phase::OpenSession => (pam_open_session, flags),
            Phase::CloseSession => (pam_close_session, flags),
            Phase::Chauthtok => (pam_chauthtok, flags),
        };
        // SAFETY: the handle is alive.
        self.last = Code(unsafe { function(self.handle, flags) });
        self.last
    }

    /// libpam's words for a code.
    pub(crate) fn text(&self, code: Code) -> String {
        // SAFETY: the handle is alive.
        let text = unsafe { pam_strerror(self.handle, code.0) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: libpam's texts are C strings that stay.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// What the stack has put into the session's environment, each as `NAME=value`, in the order of the names.
    pub(crate) fn environment(&self) -> Vec<String> {
        // SAFETY: the handle is alive.
        let list = unsafe { pam_getenvlist(self.handle) };
        let mut variables = Vec::new();
        let mut next = list;
        while !next.is_null() {
            // SAFETY: the list ends with NULL, where the loop has ended.
            let variable = unsafe { next.read() };
            if variable.is_null() {
                break;
            }
            // SAFETY: every other entry is a C string.
            variables.push(unsafe { CStr::from_ptr(variable) }.to_string_lossy().into_owned());
            // SAFETY: it is the caller's to free, and not looked at again.
            unsafe { libc::free(variable.cast()) };
            // SAFETY: the NULL at the end is still to come.
            next = unsafe { next.add(1) };
        }
        // SAFETY: so is the list itself; libpam may have given none.
        unsafe { libc::free(list.cast()) };
        variables.sort();
        variables
    }

    /// The person's side, between phases.
    pub(crate) fn with<R>(&mut self, what: impl FnOnce(&mut T) -> R) -> R {
        what(&mut self.talk.borrow_mut())
    }

    fn set(&mut self, item: c_int, value: *const c_void) -> Result<(), Code> {
        // SAFETY: the handle is alive, and the value is of the item's type; libpam copies strings.
        match Code(unsafe { pam_set_item(self.handle, item, value) }) {
            Code::SUCCESS => Ok(()),
            code => Err(code),
        }
    }
}

impl<T: Talk> Drop for Application<T> {
    fn drop(&mut self) {
        // SAFETY: the handle is alive, and not used afterwards.
        unsafe { pam_end(self.handle, self.last.0) };
    }
}

/// What libpam calls with messages for the person.
extern "C" fn converse<T: Talk>(
    count: c_int,
    messages: *const *const Message,
    responses: *mut *mut Response,
    data: *mut c_void,
) -> c_int {
    if !(1..=PAM_MESSAGES_MAX).contains(&count) || messages.is_null() || responses.is_null() {
        return PAM_CONV_ERR;
    }
    // SAFETY: `data` is the cell that `start` gave, which lives as long as the transaction.
    let talk = unsafe { &*data.cast::<RefCell<T>>() };
    let count = usize::try_from(count).unwrap_or_default();
    let all = || -> Result<Vec<Option<Secret>>, NoAnswer> {
        let mut talk = talk.try_borrow_mut().map_err(|_| NoAnswer)?;
        (0..count).map(|index| converse_one(&mut *talk, messages, index)).collect()
    };
    // No panic passes into C. Memory for libpam is only allocated when all answers are there.
    match catch_unwind(AssertUnwindSafe(all)) {
        Ok(Ok(answers)) => hand_over(&answers, responses),
        Ok(Err(NoAnswer)) | Err(_) => PAM_CONV_ERR,
    }
}

fn converse_one<T: Talk>(
    talk: &mut T,
    messages: *const *const Message,
    index: usize,
) -> Result<Option<Secret>, NoAnswer> {
    // SAFETY: Linux-PAM passes an array of `count` pointers, and `index` is below that.
    let message = unsafe { messages.add(index) };
    // SAFETY: as above.
    let message = unsafe { message.read() };
    // SAFETY: each points to a message, for the time of the call.
    let message = unsafe { message.as_ref() }.ok_or(NoAnswer)?;
    let style = match message.style {
        1 => Style::PromptEchoOff,
        2 => Style::PromptEchoOn,
        3 => Style::ErrorMessage,
        4 => Style::TextInfo,
        _ => return Err(NoAnswer),
    };
    let text = if message.text.is_null() {
        String::new()
    } else {
        // SAFETY: a message's text is a C string.
        unsafe { CStr::from_ptr(message.text) }.to_string_lossy().into_owned()
    };
    talk.message(style, &text)
}

/// Gives libpam the answers in memory that it frees. Without any answer there is no array either, which the contract
/// allows and which modules must bear.
fn hand_over(answers: &[Option<Secret>], responses: *mut *mut Response) -> c_int {
    if answers.iter().all(Option::is_none) {
        return Code::SUCCESS.0;
    }
    // SAFETY: plain allocation, zeroed.
    let array = unsafe { libc::calloc(answers.len(), size_of::<Response>()) }.cast::<Response>();
    if array.is_null() {
        return PAM_CONV_ERR;
    }
    for (index, answer) in answers.iter().enumerate() {
        let Some(answer) = answer else { continue };
        let text = answer.expose().split(|byte| *byte == 0).next().unwrap_or_default();
        // SAFETY: plain allocation of the text and its NUL, zeroed.
        let copy = unsafe { libc::calloc(text.len() + 1, 1) }.cast::<u8>();
        if copy.is_null() {
            continue;
        }
        // SAFETY: the memory is new and longer than the text.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr(), copy, text.len()) };
        // SAFETY: the array has as many entries as there are answers.
        let response = unsafe { array.add(index) };
        // SAFETY: as above.
        unsafe { response.write(Response { text: copy.cast(), unused: 0 }) };
    }
    // SAFETY: libpam gave a place for the array.
    unsafe { responses.write(array) };
    Code::SUCCESS.0
}

/// What libpam calls instead of waiting, after a success too.
extern "C" fn delay<T: Talk>(code: c_int, microseconds: c_uint, data: *mut c_void) {
    if code == Code::SUCCESS.0 {
        return;
    }
    // SAFETY: `data` is the conversation's, the cell that `start` gave.
    let talk = unsafe { &*data.cast::<RefCell<T>>() };
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if let Ok(mut talk) = talk.try_borrow_mut() {
            talk.delay(microseconds);
        }
    }));
}

impl Code {
    /// PAM_SUCCESS
    pub(crate) const SUCCESS: Self = Self(0);

    /// Its name in the manual, for example `PAM_AUTH_ERR`.
    pub(crate) fn name(self) -> &'static str {
        usize::try_from(self.0).ok().and_then(|number| NAMES.get(number)).unwrap_or(&"unknown")
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Text for libpam. None: it has a NUL byte.
pub(crate) fn c_string(text: impl Into<Vec<u8>>) -> Option<CString> {
    CString::new(text).ok()
}

const NAMES: [&str; 32] = [
    "PAM_SUCCESS",
    "PAM_OPEN_ERR",
    "PAM_SYMBOL_ERR",
    "PAM_SERVICE_ERR",
    "PAM_SYSTEM_ERR",
    "PAM_BUF_ERR",
    "PAM_PERM_DENIED",
    "PAM_AUTH_ERR",
    "PAM_CRED_INSUFFICIENT",
    "PAM_AUTHINFO_UNAVAIL",
    "PAM_USER_UNKNOWN",
    "PAM_MAXTRIES",
    "PAM_NEW_AUTHTOK_REQD",
    "PAM_ACCT_EXPIRED",
    "PAM_SESSION_ERR",
    "PAM_CRED_UNAVAIL",
    "PAM_CRED_EXPIRED",
    "PAM_CRED_ERR",
    "PAM_NO_MODULE_DATA",
    "PAM_CONV_ERR",
    "PAM_AUTHTOK_ERR",
    "PAM_AUTHTOK_RECOVERY_ERR",
    "PAM_AUTHTOK_LOCK_BUSY",
    "PAM_AUTHTOK_DISABLE_AGING",
    "PAM_TRY_AGAIN",
    "PAM_IGNORE",
    "PAM_ABORT",
    "PAM_AUTHTOK_EXPIRED",
    "PAM_MODULE_UNKNOWN",
    "PAM_BAD_ITEM",
    "PAM_CONV_AGAIN",
    "PAM_INCOMPLETE",
];
