//! Colour and tables.

use std::borrow::Cow;

/// Whether and how words are marked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) coloured: bool,
}

impl Style {
    /// A heading.
    pub(super) fn heading<'a>(self, text: &'a str) -> Cow<'a, str> {
        self.mark("1", text)
    }

    /// As it should be.
    pub(super) fn good<'a>(self, text: &'a str) -> Cow<'a, str> {
        self.mark("32", text)
    }

    /// Worth a look.
    pub(super) fn warning<'a>(self, text: &'a str) -> Cow<'a, str> {
        self.mark("33", text)
    }

    /// Does not work.
    pub(super) fn bad<'a>(self, text: &'a str) -> Cow<'a, str> {
        self.mark("31", text)
    }

    fn mark<'a>(self, code: &str, text: &'a str) -> Cow<'a, str> {
        if self.coloured && !text.is_empty() {
            Cow::Owned(format!("\x1b[{code}m{text}\x1b[0m"))
        } else {
            Cow::Borrowed(text)
        }
    }
}

/// Control characters as `?`: what the daemon says comes in part from files and servers, and must not steer the
/// terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A table with a heading, columns aligned by two blanks.
pub(super) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]], style: Style) -> Vec<String> {
    let rows: Vec<_> = rows.iter().map(|row| row.each_ref().map(|cell| printable(cell))).collect();
    let mut widths = heading.map(width);
    for row in &rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = width(cell).max(*widest);
        }
    }
    let line = |cells: &[String; N]| {
        let mut line = String::new();
        for (cell, widest) in cells.iter().zip(widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', widest - width(cell) + 2));
        }
        line.trim_end().to_owned()
    };
    let heading = line(&heading.map(str::to_owned));
    let mut lines = vec![style.heading(&heading).into_owned()];
    lines.extend(rows.iter().map(line));
    lines
}

/// Columns on the terminal, near enough: names are letters, and wide ones do no more than shift a row.
fn width(text: &str) -> usize {
    text.chars().count()
}

/// `1 user`, `2 users`.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// `12 KiB`
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["bytes", "KiB", "MiB", "GiB"];
    let mut unit = 0;
    let mut value = bytes;
    while value >= 10 * 1024 && unit + 1 < UNITS.len() {
        value /= 1024;
        unit += 1;
    }
    format!("{value} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_tail() {
        let rows = [["TOTP0001", "alice", ""], ["H1", "bj\u{f6}rn", "locked\x1b[2J"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        let lines = table(["SERIAL", "USER", "STATE"], &rows, Style { coloured: false });
        assert_eq!(lines, ["SERIAL    USER   STATE", "TOTP0001  alice", "H1        bj\u{f6}rn  locked?[2J"]);
    }

    #[test]
    fn colour_only_where_wanted() {
        assert_eq!(Style { coloured: false }.bad("x"), "x");
        assert_eq!(Style { coloured: true }.bad("x"), "\x1b[31mx\x1b[0m");
    }

    #[test]
    fn numbers_with_their_words() {
        assert_eq!(count(1, "user", "users"), "1 user");
        assert_eq!(count(0, "user", "users"), "0 users");
        assert_eq!(size(300), "300 bytes");
        assert_eq!(size(40_960), "40 KiB");
        assert_eq!(size(3 * 1024 * 1024 * 1024), "3072 MiB");
    }
}
