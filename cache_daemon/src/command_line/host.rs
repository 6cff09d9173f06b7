//! What the host's own files say about us: which PAM services ask for one-time passwords, whether NSS asks us.

use std::path::Path;

/// The module's file name, as it stands in PAM lines.
const MODULE: &str = "pam_privacyidea.so";
/// The NSS module's name in nsswitch.conf(5).
const NSS_SERVICE: &str = "privacyidea";

/// The files below `directory` (/etc/pam.d) with a line that names the PAM module, sorted.
pub(super) fn pam_services(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut services: Vec<String> = entries
        .flatten()
        .filter(|entry| std::fs::read(entry.path()).is_ok_and(|text| names_module(&text)))
        .filter_map(|entry| entry.file_name().into_string().ok())
        // What editors and dpkg leave behind is no service.
        .filter(|name| !name.starts_with('.') && !name.ends_with('~') && !name.contains(".dpkg-"))
        .collect();
    services.sort();
    services
}

/// Which of the databases passwd and group ask us, by `file` (/etc/nsswitch.conf).
pub(super) fn nss_databases(file: &Path) -> Vec<&'static str> {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    ["passwd", "group"].into_iter().filter(|database| asks_us(&text, database)).collect()
}

fn names_module(text: &[u8]) -> bool {
    String::from_utf8_lossy(text)
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .any(|line| line.split_whitespace().any(|word| word.rsplit('/').next() == Some(MODULE)))
}

fn asks_us(text: &str, database: &str) -> bool {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .filter_map(|line| line.split_once(':'))
        .any(|(name, services)| {
            name.trim() == database && services.split_whitespace().any(|service| service == NSS_SERVICE)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_that_name_the_module_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        write("sshd", "auth [success=done default=die]\tpam_privacyidea.so debug\n");
        write("login", "# auth required pam_privacyidea.so\nauth required pam_unix.so\n");
        write("su", "auth sufficient /usr/lib/security/pam_privacyidea.so\n");
        write("sudo.dpkg-old", "auth required pam_privacyidea.so\n");
        assert_eq!(pam_services(directory.path()), ["sshd", "su"]);
        assert!(pam_services(&directory.path().join("missing")).is_empty());
    }

    #[test]
    fn databases_that_ask_us_are_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "passwd: files privacyidea # ours\n#group: privacyidea\ngroup: files\n")
            .unwrap();
        assert_eq!(nss_databases(file.path()), ["passwd"]);
    }
}
