//! QR codes (ISO/IEC 18004) in a terminal: two modules a character, a quiet zone, and colours of its own, so that it can
//! be read on dark and on light terminals.

use qrcodegen::{QrCode, QrCodeEcc};

/// Modules of white around the code: what the standard asks for.
const QUIET_ZONE: i32 = 4;

/// Draws `text`. Without `coloured`, white modules are drawn and black ones left out: right on a dark terminal, inverted
/// on a light one, which most apps read as well. None: it is too long for any code.
pub(crate) fn draw(text: &str, coloured: bool) -> Option<Vec<String>> {
    let code = QrCode::encode_text(text, QrCodeEcc::Medium).ok()?;
    let area = -QUIET_ZONE..code.size() + QUIET_ZONE;
    // An odd number of rows: the last one is white below.
    let is_white = |x, y| !code.get_module(x, y);
    let lines = area.clone().step_by(2).map(|y| {
        let row: String = area
            .clone()
            .map(|x| match (is_white(x, y), is_white(x, y + 1)) {
                (true, true) => '\u{2588}',
                (true, false) => '\u{2580}',
                (false, true) => '\u{2584}',
                (false, false) => ' ',
            })
            .collect();
        // Bright white and black of the 256 colours that themes leave alone.
        if coloured { format!("\x1b[38;5;231;48;5;16m{row}\x1b[0m") } else { row }
    });
    Some(lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const URI: &str = "otpauth://totp/host:alice?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=host";

    /// The modules as a camera sees them: true is white.
    fn seen(lines: &[String]) -> Vec<Vec<bool>> {
        lines
            .iter()
            .flat_map(|line| {
                let upper = line.chars().map(|c| matches!(c, '\u{2588}' | '\u{2580}')).collect();
                let lower = line.chars().map(|c| matches!(c, '\u{2588}' | '\u{2584}')).collect();
                [upper, lower]
            })
            .collect()
    }

    #[test]
    fn every_module_is_where_it_belongs_with_white_around() {
        let code = QrCode::encode_text(URI, QrCodeEcc::Medium).unwrap();
        let modules = seen(&draw(URI, false).unwrap());
        let width = usize::try_from(code.size() + 2 * QUIET_ZONE).unwrap();
        assert_eq!(modules.len(), width + 1, "an odd number of rows and a white one below");
        for (y, row) in (-QUIET_ZONE..).zip(&modules) {
            assert_eq!(row.len(), width);
            for (x, white) in (-QUIET_ZONE..).zip(row) {
                assert_eq!(*white, !code.get_module(x, y), "module {x},{y}");
            }
        }
        // The finder pattern's upper left corner and its white ring.
        assert!(!modules[4][4] && modules[5][5] && !modules[6][6] && modules[3][3]);
    }

    #[test]
    fn it_fits_a_terminal() {
        let lines = draw(URI, false).unwrap();
        assert!(lines.len() <= 27 && lines[0].chars().count() <= 53, "{}", lines.len());
    }

    #[test]
    fn colours_are_set_and_reset_in_every_line() {
        for line in draw(URI, true).unwrap() {
            assert!(line.starts_with("\x1b[38;5;231;48;5;16m") && line.ends_with("\x1b[0m"));
        }
    }

    #[test]
    fn what_is_too_long_is_not_drawn() {
        assert!(draw(&"x".repeat(5000), false).is_none());
    }
}
