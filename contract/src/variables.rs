//! Which variables may enter the environment of a session. The settings, the daemon and the PAM module each check with
//! these: the module is in a program of root, which believes the daemon about its users and about nothing else.

/// The longest name of a variable, in bytes.
pub const NAME_LENGTH_MAX: usize = 64;
/// The longest value, in bytes.
pub const VALUE_LENGTH_MAX: usize = 1024;

/// Names that mean something to the dynamic loader, to shells, to the C library or to an interpreter, or that the login
/// program sets itself.
const TAKEN: [&str; 44] = [
    "BASHOPTS",
    "BASH_ENV",
    "BROWSER",
    "CDPATH",
    "CLASSPATH",
    "DISPLAY",
    "EDITOR",
    "ENV",
    "FPATH",
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "GLOBIGNORE",
    "HISTFILE",
    "HOME",
    "HOSTALIASES",
    "IFS",
    "INPUTRC",
    "LANG",
    "LANGUAGE",
    "LOCALDOMAIN",
    "LOCPATH",
    "LOGNAME",
    "MAIL",
    "MAILCHECK",
    "NLSPATH",
    "OLDPWD",
    "PAGER",
    "PATH",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "PWD",
    "RESOLV_HOST_CONF",
    "RES_OPTIONS",
    "SHELL",
    "SHELLOPTS",
    "TERM",
    "TMPDIR",
    "USER",
    "VISUAL",
    "XAUTHORITY",
];

/// Families of such names.
const TAKEN_FAMILIES: [&str; 27] = [
    "BASH_FUNC_",
    "CURL_",
    "DBUS_",
    "GIT_",
    "GIO_",
    "GTK_",
    "JAVA_",
    "KRB5",
    "LC_",
    "LD_",
    "LESS",
    "LUA_",
    "MALLOC_",
    "NODE_",
    "OPENSSL_",
    "PAM_",
    "PERL",
    "PYTHON",
    "QT_",
    "RUBY",
    "SSH_",
    "SSL_",
    "SUDO_",
    "SYSTEMD_",
    "TERM",
    "TZ",
    "XDG_",
];

/// Whether a variable of this name may be handed on: 1 to 64 characters, `A` to `Z`, digits and `_`, no digit first,
/// and none that programs of the session take orders from.
#[must_use]
pub fn is_exportable_variable(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=NAME_LENGTH_MAX).contains(&name.len())
        && name.bytes().all(is_word)
        && !name.as_bytes()[0].is_ascii_digit()
        && !TAKEN.contains(&name)
        && !TAKEN_FAMILIES.iter().any(|family| name.starts_with(family))
        && !name.ends_with("_PROXY")
}

/// Whether a variable may have this value: 1 to 1024 bytes, no control characters.
#[must_use]
pub fn is_exportable_value(value: &str) -> bool {
    (1..=VALUE_LENGTH_MAX).contains(&value.len()) && !value.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_take_orders_from_is_never_handed_on() {
        for name in [
            "PRIVACYIDEA_MAIL",
            "_X",
            "A",
            "DEPARTMENT",
            "A1",
            "REALM",
            "USER_MAIL",
            &"X".repeat(NAME_LENGTH_MAX),
        ] {
            assert!(is_exportable_variable(name), "{name}");
        }
        let longer = "X".repeat(NAME_LENGTH_MAX + 1);
        for name in [
            "",
            "a",
            "1A",
            "A-B",
            "A=B",
            "A B",
            "A\0",
            "Ä",
            "LD_PRELOAD",
            "LD_",
            "PATH",
            "IFS",
            "HOME",
            "SHELL",
            "USER",
            "LOGNAME",
            "BASH_ENV",
            "ENV",
            "PYTHONPATH",
            "PERL5LIB",
            "GLIBC_TUNABLES",
            "TZDIR",
            "SSH_AUTH_SOCK",
            "LC_ALL",
            "HTTPS_PROXY",
            "PAM_KWALLET5_LOGIN",
            "XDG_SESSION_ID",
            "TERMINFO",
            &longer,
        ] {
            assert!(!is_exportable_variable(name), "{name}");
        }
    }

    #[test]
    fn values_are_printable_and_have_an_end() {
        for value in ["carla@example.org", "a=b,c", "ü", &"x".repeat(VALUE_LENGTH_MAX)] {
            assert!(is_exportable_value(value), "{value}");
        }
        for value in ["", "a\nb", "a\0b", "\u{1b}[m", "\u{85}", &"x".repeat(VALUE_LENGTH_MAX + 1)] {
            assert!(!is_exportable_value(value), "{value:?}");
        }
    }
}
