//! The person at the terminal, or answers from standard input.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;

use privacyidea_contract::Secret;

use crate::application::{NoAnswer, Style, Talk};
use crate::terminal;

/// The longest answer in bytes; libpam's own limit is 512.
const ANSWER_LENGTH_MAX: usize = 4096;

/// Shows messages on standard error, reads answers from standard input, and remembers what was shown.
pub(crate) struct Console {
    input: File,
    terminal: bool,
    messages: Vec<(Style, String)>,
    delay: Option<u32>,
}

impl Console {
    /// Over standard input; as a plain file if `plain`, else with hidden answers where it is a terminal.
    ///
    /// # Errors
    /// There is no standard input.
    pub(crate) fn new(plain: bool) -> io::Result<Self> {
        let stdin = io::stdin();
        let terminal = !plain && stdin.is_terminal();
        // Not through std's buffer: answers would stay in it.
        let input = File::from(stdin.as_fd().try_clone_to_owned()?);
        Ok(Self { input, terminal, messages: Vec::new(), delay: None })
    }

    /// What was shown since the last time, and the delay that was asked for.
    pub(crate) fn take(&mut self) -> (Vec<(Style, String)>, Option<u32>) {
        (std::mem::take(&mut self.messages), self.delay.take())
    }
}

impl Talk for Console {
    fn message(&mut self, style: Style, text: &str) -> Result<Option<Secret>, NoAnswer> {
        self.messages.push((style, text.to_owned()));
        let mut screen = io::stderr();
        match style {
            Style::ErrorMessage | Style::TextInfo => {
                let _ = writeln!(screen, "{text}");
                Ok(None)
            }
            Style::PromptEchoOn => {
                let _ = write!(screen, "{text}");
                read_line(&mut self.input).map(Some)
            }
            Style::PromptEchoOff if self.terminal => {
                let answer =
                    terminal::without_echo(&mut self.input, |_| write!(io::stderr(), "{text}"), read_line);
                let _ = writeln!(screen);
                answer.map_err(|_| NoAnswer)?.map(Some)
            }
            Style::PromptEchoOff => {
                let _ = writeln!(screen, "{text}");
                read_line(&mut self.input).map(Some)
            }
        }
    }

    fn delay(&mut self, microseconds: u32) {
        self.delay = Some(microseconds);
    }
}

/// A line without its end. The end of the input before the end of a line is no answer.
fn read_line(input: &mut File) -> Result<Secret, NoAnswer> {
    // Made at full size once: a secret must not be left behind by growth.
    let mut line = Vec::with_capacity(ANSWER_LENGTH_MAX);
    let mut byte = [0];
    while line.len() < ANSWER_LENGTH_MAX {
        match input.read(&mut byte) {
            Ok(1) if byte == *b"\n" => return Ok(Secret::new(line)),
            Ok(1) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => break,
        }
    }
    drop(Secret::new(line));
    Err(NoAnswer)
}
