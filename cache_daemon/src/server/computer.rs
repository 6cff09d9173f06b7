//! How this computer calls itself in the User-Agent.
//!
//! privacyIDEA ties some offline tokens to the name after `ComputerName/` and lists clients by the whole User-Agent
//! (`lib/utils`, `get_computer_name_from_user_agent`), so it never changes while the computer is the same one.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const MACHINE_ID: &str = "/etc/machine-id";
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// The name: 16 hexadecimal digits derived from /etc/machine-id, or the host name where there is none.
#[must_use]
pub fn computer_name() -> String {
    let machine_id = std::fs::read_to_string(MACHINE_ID).unwrap_or_default();
    let host_name = std::fs::read_to_string(HOST_NAME).unwrap_or_default();
    derived(&machine_id, &host_name)
}

/// The machine id itself is confidential (machine-id(5)): what leaves the host is a keyed hash of a fixed label, as
/// `sd_id128_get_machine_app_specific` makes it, which does not lead back to the id.
fn derived(machine_id: &str, host_name: &str) -> String {
    let id = machine_id.trim();
    if id.len() != 32 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
        // Empty in an image that was not started yet, `uninitialized` during the first boot.
        return token(host_name);
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(id.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(b"privacyidea-host ComputerName 1");
    data_encoding::HEXLOWER.encode(&mac.finalize().into_bytes()[..8])
}

/// `name` as one word of a header.
pub(super) fn token(name: &str) -> String {
    let word: String = name
        .trim()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
        .take(64)
        .collect();
    if word.is_empty() { "unnamed".to_owned() } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_stable_and_hides_the_machine_id() {
        let id = "0123456789abcdef0123456789abcdef";
        let name = derived(&format!("{id}\n"), "host");
        assert_eq!(name, derived(id, "renamed"));
        assert_ne!(name, derived("1123456789abcdef0123456789abcdef", "host"));
        assert_eq!(name.len(), 16);
        assert!(!id.contains(&name));
    }

    #[test]
    fn without_a_machine_id_it_is_the_host_name() {
        for id in ["", "uninitialized\n"] {
            assert_eq!(derived(id, "web-1.example.org\n"), "web-1.example.org");
        }
        assert_eq!(derived("", "a b\r\nX-Evil: 1"), "abX-Evil1");
        assert_eq!(derived("", "\n"), "unnamed");
    }
}
