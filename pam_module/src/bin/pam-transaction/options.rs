//! What is asked for.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;

use crate::application::{Phase, c_string};

/// The text for `--help`.
pub(crate) const HELP: &str = "\
Runs a PAM stack as a login program would, and shows what happened.

Usage: pam-transaction [OPTIONS] --service SERVICE --user USER
       pam-transaction [OPTIONS] SERVICE USER

  --service SERVICE     the file in /etc/pam.d
  --user USER           who wants in
  --rhost HOST          from where (PAM_RHOST)
  --tty TTY             at which terminal (PAM_TTY)
  --phases LIST         authenticate, account, setcred, open-session, close-session, chauthtok; separated by commas,
                        run in this order up to the first that fails (default: authenticate,account)
  --confdir DIR         read the stack from DIR instead of /etc/pam.d
  --answers-from-stdin  one answer a line; without it answers typed at a terminal are hidden
  --no-delay            do not wait after a failure; report the delay instead
  --json                print the report as JSON
  --help                print this

Prompts and messages go to standard error, the report, with the PAM environment in the end, to standard output. Exit status: 0 all phases succeeded, 1 one
failed, 2 the command line is wrong.
";

/// What to do.
#[derive(Debug)]
pub(crate) enum Wish {
    /// Run a transaction.
    Transaction(Options),
    /// Print [`HELP`].
    Help,
}

/// A transaction.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) service: CString,
    pub(crate) user: CString,
    pub(crate) rhost: Option<CString>,
    pub(crate) tty: Option<CString>,
    pub(crate) confdir: Option<CString>,
    pub(crate) phases: Vec<Phase>,
    pub(crate) answers_from_stdin: bool,
    pub(crate) no_delay: bool,
    pub(crate) json: bool,
}

impl Options {
    /// Reads the command line, without the program's name.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn read(arguments: impl Iterator<Item = OsString>) -> Result<Wish, String> {
        let (mut service, mut user, mut rhost, mut tty, mut confdir) = (None, None, None, None, None);
        let mut phases = vec![Phase::Authenticate, Phase::Account];
        let (mut answers_from_stdin, mut no_delay, mut json) = (false, false, false);
        let mut arguments = arguments.map(OsStringExt::into_vec);
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let name = String::from_utf8_lossy(&argument);
                let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
                c_string(value).ok_or_else(|| format!("{name}: a NUL byte"))
            };
            match argument.as_slice() {
                b"--service" => service = Some(value()?),
                b"--user" => user = Some(value()?),
                b"--rhost" => rhost = Some(value()?),
                b"--tty" => tty = Some(value()?),
                b"--confdir" => confdir = Some(value()?),
                b"--phases" => phases = read_phases(&value()?.to_string_lossy())?,
                b"--answers-from-stdin" => answers_from_stdin = true,
                b"--no-delay" => no_delay = true,
                b"--json" => json = true,
                b"--help" | b"-h" => return Ok(Wish::Help),
                word if !word.starts_with(b"-") && service.is_none() => service = c_string(word),
                word if !word.starts_with(b"-") && user.is_none() => user = c_string(word),
                _ => return Err(format!("unknown argument {}", String::from_utf8_lossy(&argument))),
            }
        }
        let service = service.ok_or("--service is missing; see --help")?;
        let user = user.ok_or("--user is missing; see --help")?;
        Ok(Wish::Transaction(Self {
            service,
            user,
            rhost,
            tty,
            confdir,
            phases,
            answers_from_stdin,
            no_delay,
            json,
        }))
    }
}

impl Phase {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Authenticate, "authenticate"),
        (Self::Account, "account"),
        (Self::Setcred, "setcred"),
        (Self::OpenSession, "open-session"),
        (Self::CloseSession, "close-session"),
        (Self::Chauthtok, "chauthtok"),
    ];

    /// Its name on the command line and in the report.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(phase, _)| *phase == self).map_or("", |(_, name)| name)
    }
}

fn read_phases(list: &str) -> Result<Vec<Phase>, String> {
    list.split(',')
        .map(|wanted| {
            let found = Phase::ALL.iter().find(|(_, name)| *name == wanted);
            found.map(|(phase, _)| *phase).ok_or_else(|| format!("--phases: there is no phase {wanted:?}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Wish, String> {
        Options::read(arguments.iter().map(OsString::from))
    }

    #[test]
    fn names_may_be_given_with_or_without_their_option() {
        for line in
            [&["--user", "alice", "--service", "sshd"][..], &["sshd", "alice"], &["sshd", "--json", "alice"]]
        {
            let Ok(Wish::Transaction(options)) = read(line) else { panic!("{line:?}") };
            assert_eq!((options.service.as_c_str(), options.user.as_c_str()), (c"sshd", c"alice"));
            assert_eq!(options.phases, [Phase::Authenticate, Phase::Account]);
        }
    }

    #[test]
    fn phases_are_read_in_their_order() {
        let line =
            ["su", "a", "--phases", "setcred,account,open-session,close-session,chauthtok,authenticate"];
        let Ok(Wish::Transaction(options)) = read(&line) else { panic!("refused") };
        let names: Vec<_> = options.phases.iter().map(|phase| phase.name()).collect();
        assert_eq!(names.join(","), line[3]);
    }

    #[test]
    fn a_wrong_command_line_is_refused() {
        let lines: [&[&str]; 6] = [
            &[],
            &["sshd"],
            &["sshd", "alice", "bob"],
            &["sshd", "alice", "--phases", "login"],
            &["sshd", "alice", "--rhost"],
            &["sshd", "alice", "--verbose"],
        ];
        for line in lines {
            assert!(read(line).is_err(), "{line:?}");
        }
        assert!(matches!(read(&["--help"]), Ok(Wish::Help)));
    }
}
