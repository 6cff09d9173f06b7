//! Which names and ids may be believed. Resolvers, the map and the NSS module each check with these, because none of
//! them trusts the one before it.

/// The lowest uid and gid that ever leave this project, whatever the settings say.
pub const FIRST_ID: u32 = 1000;
/// The longest user or group name, in bytes; what useradd(8) and utmp(5) allow.
pub const NAME_LENGTH_MAX: usize = 32;
/// The longest gecos, home or shell, in bytes.
pub const FIELD_LENGTH_MAX: usize = 1024;

/// Whether a uid or gid may be returned to the host: not a system id, not `nobody` (65534), not the two values that
/// system calls read as "no change" (65535 for 16-bit ids, 2^32-1).
#[must_use]
pub fn is_usable_id(id: u32) -> bool {
    id >= FIRST_ID && !matches!(id, 65534 | 65535 | u32::MAX)
}

/// Whether a user or group name may be returned to the host.
///
/// 1 to 32 bytes of ASCII letters, digits, `.`, `_`, `-`, `@` and a final `$`, or UTF-8 letters beyond ASCII; it
/// starts with neither `-`, `.`, `@` nor `$`, and is not made of digits alone (chown(1) would read an id).
#[must_use]
pub fn is_usable_name(name: &str) -> bool {
    are_usable_name(name.as_bytes())
}

/// The same for bytes that may not be UTF-8; such a name is not usable.
#[must_use]
pub fn are_usable_name(name: &[u8]) -> bool {
    let stem = name.strip_suffix(b"$").unwrap_or(name);
    let classes = classes_of_all(stem);
    !stem.is_empty()
        && name.len() <= NAME_LENGTH_MAX
        && !matches!(stem[0], b'-' | b'.' | b'@' | b'$')
        && classes & DIGIT == 0
        // Nearly all names are ASCII; the others take the longer way.
        && (classes & NAME != 0
            || (!stem.is_ascii() && std::str::from_utf8(stem).is_ok_and(|stem| stem.chars().all(is_safe_in_name))))
        && name != b"root"
}

fn is_safe_in_name(character: char) -> bool {
    match u8::try_from(character) {
        Ok(byte) if byte.is_ascii() => CLASSES[usize::from(byte)] & NAME != 0,
        _ => character.is_alphanumeric(),
    }
}

/// Whether a gecos, home or shell may stand in a passwd entry: no `:`, no control characters, not too long.
#[must_use]
pub fn is_usable_field(field: &str) -> bool {
    are_usable_field(field.as_bytes())
}

/// The same for bytes that may not be UTF-8; such a field is not usable.
#[must_use]
pub fn are_usable_field(field: &[u8]) -> bool {
    let is_safe = |character: char| character != ':' && !character.is_control();
    field.len() <= FIELD_LENGTH_MAX
        && (classes_of_all(field) & FIELD != 0
            || std::str::from_utf8(field).is_ok_and(|field| field.chars().all(is_safe)))
}

/// An ASCII character that may stand in a name.
const NAME: u8 = 1;
const DIGIT: u8 = 2;
/// An ASCII character that may stand in a field.
const FIELD: u8 = 4;

/// The classes of each byte. Every entry that NSS returns is checked anew, so this takes one look a byte.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 128u8 {
        let is_name = byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'@');
        let is_field = !byte.is_ascii_control() && byte != b':';
        classes[byte as usize] = if is_name { NAME } else { 0 }
            | if byte.is_ascii_digit() { DIGIT } else { 0 }
            | if is_field { FIELD } else { 0 };
        byte += 1;
    }
    classes
};

/// The classes that all bytes of a text have.
fn classes_of_all(text: &[u8]) -> u8 {
    text.iter().fold(u8::MAX, |classes, byte| classes & CLASSES[usize::from(*byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_break_something_are_refused() {
        for name in [
            "",
            "root",
            "-rf",
            ".hidden",
            "a:b",
            "a b",
            "a\nb",
            "a\0b",
            "1000",
            "a/b",
            "@x",
            "$",
            &"x".repeat(33),
        ] {
            assert!(!is_usable_name(name), "{name:?}");
        }
        for name in ["müller:", "mü\u{85}", "mü ", "ü/", "٣ ", "alice$$"] {
            assert!(!is_usable_name(name), "{name:?}");
        }
        for name in ["alice", "a", "host$", "müller", "first.last", "u_1-2", "u@example.org"] {
            assert!(is_usable_name(name), "{name:?}");
        }
    }

    #[test]
    fn ids_of_the_system_and_of_nobody_are_refused() {
        for id in [0, 1, 999, 65534, 65535, u32::MAX] {
            assert!(!is_usable_id(id), "{id}");
        }
        for id in [1000, 65533, 65536, u32::MAX - 1] {
            assert!(is_usable_id(id), "{id}");
        }
    }

    #[test]
    fn fields_with_separators_are_refused() {
        assert!(!are_usable_name(b"m\xfcller") && !are_usable_field(b"M\xfcller"), "not UTF-8");
        assert!(!is_usable_field("ü:") && !is_usable_field("ü\u{85}") && !is_usable_field("\u{7f}"));
        assert!(!is_usable_field(&"x".repeat(1025)) && is_usable_field(&"ü".repeat(512)));
        assert!(!is_usable_field("a:b") && !is_usable_field("a\nb") && !is_usable_field("a\0"));
        assert!(is_usable_field("Alice Example,,,") && is_usable_field(""));
    }
}
