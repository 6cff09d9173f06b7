//! Who the daemon is.

use crate::paths::DAEMON_USER;
use crate::wire::PeerCredentials;

/// The daemon's user, `_privacyidea`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaemonUser {
    /// User id, never 0.
    pub uid: u32,
    /// Its primary group, never 0.
    pub gid: u32,
}

impl DaemonUser {
    /// Reads it from `/etc/passwd` itself: a name service must not be able to say who the daemon is, and may have to
    /// ask the daemon. None if there is no such user, or one with root's ids.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read() -> std::io::Result<Option<Self>> {
        Ok(Self::find(&std::fs::read("/etc/passwd")?))
    }

    /// The first entry of that name.
    fn find(passwd: &[u8]) -> Option<Self> {
        let mut lines = passwd.split(|byte| *byte == b'\n');
        let fields = lines.find_map(|line| line.strip_prefix(DAEMON_USER.as_bytes())?.strip_prefix(b":"))?;
        let mut fields = std::str::from_utf8(fields).ok()?.split(':').skip(1);
        let mut id = || fields.next()?.parse::<u32>().ok().filter(|id| !matches!(*id, 0 | u32::MAX));
        Some(Self { uid: id()?, gid: id()? })
    }
}

impl PeerCredentials {
    /// Whether the peer may be told secrets, as the daemon: root (systemd holds `auth.sock`), the daemon's user, or
    /// this process's own (a daemon run by hand, for a test).
    #[must_use]
    pub fn is_daemon(&self) -> bool {
        let is_daemons_user = || DaemonUser::read().ok().flatten().is_some_and(|user| user.uid == self.uid);
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw() || is_daemons_user()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_found_by_its_whole_name_and_never_with_roots_ids() {
        let passwd =
            b"root:x:0:0::/root:/bin/sh\n_privacyidea2:x:7:7:::\n\xff:x:9:9:::\n_privacyidea:x:120:130::/:/no\n";
        assert_eq!(DaemonUser::find(passwd), Some(DaemonUser { uid: 120, gid: 130 }));
        for bad in [
            "",
            "root:x:0:0:::",
            "_privacyidea:x:0:5:::",
            "_privacyidea:x:5:0:::",
            "_privacyidea:x:4294967295:5:::",
            "_privacyidea:x",
            "_privacyidea:x:a:b:::",
            "_privacyidea:x:-1:5:::",
        ] {
            assert_eq!(DaemonUser::find(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn root_and_oneself_are_believed_and_nobody_is_not() {
        let own = rustix::process::geteuid().as_raw();
        for (uid, is_daemon) in [(0, true), (own, true), (65534, own == 65534), (u32::MAX, false)] {
            assert_eq!(PeerCredentials { uid, gid: 0, pid: 1 }.is_daemon(), is_daemon, "{uid}");
        }
    }
}
