//! A private stack, an actor at its prompt, a scripted daemon at its socket.

use std::collections::VecDeque;
use std::ffi::CString;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use privacyidea_contract::Secret;
use privacyidea_contract::wire::{Login, Reply, Request, Stream, Verdict};
use tempfile::TempDir;

use crate::application::{Application, Code, NoAnswer, Phase, Style, Talk, c_string};

/// The control of a line that shows the module's own code: whatever it is, it ends the stack.
pub(crate) const AS_IS: &str = "[success=done ignore=ignore default=die]";

/// The code of a stack in which our module said PAM_IGNORE. libpam never returns that itself: what is ignored goes on
/// to the next line, and that is [`next_line`].
pub(crate) const IGNORED: &str = "PAM_MODULE_UNKNOWN";

/// The line that is reached when our module is ignored.
pub(crate) fn next_line(kind: &str) -> String {
    let codes = ["auth", "cred", "acct", "prechauthtok", "open_session", "close_session"]
        .map(|phase| format!("{phase}=module_unknown"));
    format!("{kind} [default=die] pam_debug.so {}", codes.join(" "))
}

/// The built module.
pub(crate) fn module() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let module = deps.join("libpam_privacyidea.so");
    assert!(module.exists(), "cargo has not built {}", module.display());
    module
}

/// A directory in the place of `/etc/pam.d`, with one service, `test`.
pub(crate) struct Stack {
    pub(crate) directory: TempDir,
}

impl Stack {
    /// A stack of our module alone in all four types, with the private socket and further arguments.
    pub(crate) fn new(arguments: &str) -> Self {
        let stack = Self { directory: tempfile::tempdir().unwrap() };
        let line = stack.line(arguments);
        let types = ["auth", "account", "session", "password"];
        stack.write(&types.map(|kind| format!("{kind} {AS_IS} {line}\n{}", next_line(kind))).join("\n"));
        stack
    }

    /// A stack with an auth line before ours.
    pub(crate) fn after(first: &str, arguments: &str) -> Self {
        let stack = Self { directory: tempfile::tempdir().unwrap() };
        stack.write(&format!("{first}\nauth {AS_IS} {}", stack.line(arguments)));
        stack
    }

    /// Our module with the private socket.
    fn line(&self, arguments: &str) -> String {
        format!("{} socket={} {arguments}", module().display(), self.socket().display())
    }

    fn write(&self, lines: &str) {
        fs::write(self.directory.path().join("test"), format!("{lines}\n")).unwrap();
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("auth.sock")
    }

    pub(crate) fn confdir(&self) -> CString {
        c_string(self.directory.path().to_str().unwrap()).unwrap()
    }

    pub(crate) fn begin(&self, user: &str, actor: Actor) -> Application<Actor> {
        self.begin_with(&c_string(user).unwrap(), actor)
    }

    pub(crate) fn begin_with(&self, user: &CString, actor: Actor) -> Application<Actor> {
        let mut application = Application::start(c"test", user, Some(&self.confdir()), actor).unwrap();
        application.do_not_wait().unwrap();
        application
    }

    /// Runs one phase for root, a user that every host knows.
    pub(crate) fn run(&self, phase: Phase, actor: Actor) -> (Code, Actor) {
        let mut application = self.begin("root", actor);
        let code = application.call(phase);
        (code, application.with(std::mem::take))
    }

    /// Listens, before anybody can connect, and serves one connection.
    pub(crate) fn serve<R: Send + 'static>(
        &self,
        script: impl FnOnce(Stream) -> R + Send + 'static,
    ) -> JoinHandle<R> {
        let listener = UnixListener::bind(self.socket()).unwrap();
        thread::spawn(move || script(Stream::new(listener.accept().unwrap().0)))
    }

    /// Serves one login with one verdict; gives what was asked.
    pub(crate) fn serve_verdict(&self, verdict: Verdict) -> JoinHandle<Request> {
        self.serve(move |mut stream| {
            let request = stream.receive_request(soon()).unwrap();
            stream.send_reply(&Reply::Verdict(verdict), soon()).unwrap();
            request
        })
    }
}

/// A deadline that only a broken test meets.
pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

pub(crate) fn granted(user: &str) -> Verdict {
    Verdict::Granted { user: user.to_owned() }
}

pub(crate) fn login_of(request: Request) -> Login {
    match request {
        Request::Login(login) | Request::Account(login) => login,
        _ => panic!("neither a login nor an account request"),
    }
}

/// Who sits at the prompt: answers with what it was given, remembers what it was shown.
#[derive(Default)]
pub(crate) struct Actor {
    answers: VecDeque<Vec<u8>>,
    pub(crate) shown: Vec<(Style, String)>,
    pub(crate) delay: Option<u32>,
}

impl Actor {
    pub(crate) fn answering(answers: &[&str]) -> Self {
        Self::answering_bytes(&answers.iter().map(|answer| answer.as_bytes()).collect::<Vec<_>>())
    }

    pub(crate) fn answering_bytes(answers: &[&[u8]]) -> Self {
        Self { answers: answers.iter().map(|answer| answer.to_vec()).collect(), ..Self::default() }
    }

    pub(crate) fn silent() -> Self {
        Self::default()
    }
}

impl Talk for Actor {
    fn message(&mut self, style: Style, text: &str) -> Result<Option<Secret>, NoAnswer> {
        if !text.ends_with("=module_unknown") {
            // All but what pam_debug says about itself.
            self.shown.push((style, text.to_owned()));
        }
        match style {
            Style::PromptEchoOff | Style::PromptEchoOn => {
                self.answers.pop_front().map(|answer| Some(Secret::new(answer))).ok_or(NoAnswer)
            }
            Style::ErrorMessage | Style::TextInfo => Ok(None),
        }
    }

    fn delay(&mut self, microseconds: u32) {
        self.delay = Some(microseconds);
    }
}
