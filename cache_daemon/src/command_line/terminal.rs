//! The person at the terminal: questions, answers that must not be seen, and a terminal that is left as it was.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use zeroize::Zeroizing;

/// The longest line that is read, in bytes.
const LINE_LENGTH_MAX: usize = 4096;

/// Who answers questions: a terminal, a pipe, or a test.
pub trait Person {
    /// Whether somebody is there to be asked.
    fn is_present(&self) -> bool;

    /// Shows `prompt`, reads a line; what is typed is visible if `echo`. None: no answer (Ctrl-D).
    ///
    /// # Errors
    /// The terminal cannot be used.
    fn ask(&mut self, prompt: &str, echo: bool) -> io::Result<Option<Zeroizing<String>>>;

    /// Reads a line that nobody is asked for: a secret on standard input. None: the input has ended.
    ///
    /// # Errors
    /// The input cannot be read.
    fn line(&mut self) -> io::Result<Option<Zeroizing<String>>>;

    /// Lets time pass. False: whoever read the answer has gone.
    fn wait(&mut self, time: Duration) -> bool;
}

/// Standard input and, for prompts, standard error: standard output may be a file.
pub(super) struct StandardInput;

impl Person for StandardInput {
    fn is_present(&self) -> bool {
        rustix::termios::isatty(rustix::stdio::stdin()) && rustix::termios::isatty(rustix::stdio::stderr())
    }

    fn ask(&mut self, prompt: &str, echo: bool) -> io::Result<Option<Zeroizing<String>>> {
        if echo {
            show(prompt)?;
            return read_line(rustix::stdio::stdin());
        }
        let answer = hidden(prompt);
        // The Enter that was typed has not moved the cursor.
        eprintln!();
        answer
    }

    fn line(&mut self) -> io::Result<Option<Zeroizing<String>>> {
        read_line(rustix::stdio::stdin())
    }

    fn wait(&mut self, time: Duration) -> bool {
        // A reader of a pipe that has gone is always told, whatever is asked for.
        let mut output = [PollFd::from_borrowed_fd(rustix::stdio::stdout(), PollFlags::empty())];
        let time = Timespec::try_from(time).expect("a short time");
        matches!(rustix::event::poll(&mut output, Some(&time)), Ok(0) | Err(Errno::INTR))
    }
}

fn show(prompt: &str) -> io::Result<()> {
    let mut stream = io::stderr();
    stream.write_all(prompt.as_bytes())?;
    stream.flush()
}

/// Reads a line while the terminal does not show it.
fn hidden(prompt: &str) -> io::Result<Option<Zeroizing<String>>> {
    let input = rustix::stdio::stdin();
    let signals = Signals::watch()?;
    let mut silence = Silence::of(input)?;
    // Only now: whoever sees the prompt can type unseen.
    show(prompt)?;
    loop {
        let mut ready = [PollFd::new(&input, PollFlags::IN), PollFd::new(&signals.stream, PollFlags::IN)];
        match rustix::event::poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [input_events, signal_events] = ready.map(|ready| ready.revents());
        if !signal_events.is_empty() {
            // The terminal is put right before the signal does to this process what it always does. Only after
            // SIGTSTP and SIGCONT does this go on.
            drop(silence);
            signals.obey()?;
            silence = Silence::of(input)?;
            show(prompt)?;
            continue;
        }
        if !input_events.is_empty() {
            return read_line(input);
        }
    }
}

/// Echo is off until this is dropped.
struct Silence<'a> {
    terminal: BorrowedFd<'a>,
    before: Termios,
}

impl<'a> Silence<'a> {
    fn of(terminal: BorrowedFd<'a>) -> io::Result<Self> {
        let before = rustix::termios::tcgetattr(terminal)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
        // Flush: what was typed before the question is no answer to it.
        rustix::termios::tcsetattr(terminal, OptionalActions::Flush, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        let _ = rustix::termios::tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Signals that end or stop the process, as bytes on a socket.
struct Signals {
    stream: UnixStream,
    ids: Vec<signal_hook::SigId>,
    flags: Vec<(i32, std::sync::Arc<std::sync::atomic::AtomicBool>)>,
}

impl Signals {
    fn watch() -> io::Result<Self> {
        let (stream, theirs) = UnixStream::pair()?;
        let mut signals = Self { stream, ids: Vec::new(), flags: Vec::new() };
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP] {
            let flag = std::sync::Arc::default();
            signals.ids.push(signal_hook::flag::register(signal, std::sync::Arc::clone(&flag))?);
            signals.ids.push(signal_hook::low_level::pipe::register(signal, theirs.try_clone()?)?);
            signals.flags.push((signal, flag));
        }
        Ok(signals)
    }

    /// Does what the signals that came do by default.
    fn obey(&self) -> io::Result<()> {
        let mut bytes = [0; 16];
        rustix::io::read(&self.stream, &mut bytes)?;
        for (signal, flag) in &self.flags {
            if flag.swap(false, std::sync::atomic::Ordering::SeqCst) {
                eprintln!();
                signal_hook::low_level::emulate_default_handler(*signal)?;
            }
        }
        Ok(())
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in &self.ids {
            signal_hook::low_level::unregister(*id);
        }
    }
}

/// Reads up to a line's end and not one byte more, so that the next line is still there for whoever comes next.
fn read_line(input: impl AsFd) -> io::Result<Option<Zeroizing<String>>> {
    let mut line = Zeroizing::new(Vec::with_capacity(LINE_LENGTH_MAX));
    let mut byte = Zeroizing::new([0]);
    loop {
        match rustix::io::read(&input, &mut byte[..]) {
            Ok(0) if line.is_empty() => return Ok(None),
            Ok(0) => break,
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) if line.len() == LINE_LENGTH_MAX => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the line is too long"));
            }
            Ok(_) => line.push(byte[0]),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    let text = std::str::from_utf8(&line)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the line is not UTF-8"))?;
    Ok(Some(Zeroizing::new(text.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_and_the_next_is_left() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all("1234\r\nGEZDGNBV\nrest".as_bytes()).unwrap();
        drop(theirs);
        let lines: Vec<_> = (0..4).map(|_| read_line(&ours).unwrap().map(|line| line.to_string())).collect();
        let expected = [Some("1234"), Some("GEZDGNBV"), Some("rest"), None];
        assert_eq!(lines, expected.map(|line| line.map(str::to_owned)));
    }

    #[test]
    fn a_line_that_is_too_long_or_no_text_is_an_error() {
        for bytes in [vec![b'x'; LINE_LENGTH_MAX + 1], vec![0xff, b'\n']] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(&bytes).unwrap();
            drop(theirs);
            assert_eq!(read_line(&ours).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
