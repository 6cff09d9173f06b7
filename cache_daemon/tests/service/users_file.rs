//! What the users file may not say: refused with one line in the log each, and published nowhere.

use cache_daemon::administration::{Answer, Command};
use privacyidea_contract::map::{Cursor, Snapshot};
use privacyidea_contract::wire::{Lookup, Reply, Request};
use rustix::process::Signal;

use crate::harness::*;

/// Lines of the users file with the reason for which each is refused; `resi` stands before them, `last` behind.
const REFUSED: [(&str, &str); 9] = [
    ("broken line", "it has 1 fields"),
    ("root:x:20002:20002::/:/bin/sh", "root is never taken"),
    ("toor:x:0:0::/:/bin/sh", "its uid 0 is below 1000"),
    ("carla:x:20003:20003::/:/bin/sh", "/etc/passwd has a user of this name"),
    ("mallory:x:1001:20004::/:/bin/sh", "its uid 1001 belongs to bob in /etc/passwd"),
    ("low:x:999:20005::/:/bin/sh", "its uid 999 is below 1000"),
    ("bell\u{7}:x:20006:20006::/:/bin/sh", "its name"),
    ("resi:x:20007:20007::/:/bin/sh", "line 1 has the same name"),
    ("twin:x:20001:20008::/:/bin/sh", "line 1 has the same id 20001"),
];

#[test]
fn each_refused_line_is_told_once_and_published_nowhere() {
    let host = host();
    let mut text = "resi:x:20001:20001:Resi:/home/resi:/bin/sh\n".to_owned();
    REFUSED.iter().for_each(|(line, _)| text += &format!("{line}\n"));
    text += "last:x:20009:20001::/home/last:/bin/sh\n";
    std::fs::write(host.path("etc/privacyidea-host/users/passwd"), text).unwrap();
    let daemon = host.daemon();
    // Read twice: what was told is not told again.
    assert!(matches!(
        host.administrate(&Command::CacheFlush { user: None }),
        Answer::Flushed { known: None }
    ));

    let found = |lookup: Lookup| {
        let mut stream = host.connect_lookup();
        stream.send_request(&Request::Lookup(lookup), soon()).unwrap();
        match stream.receive_reply(soon()).unwrap() {
            Reply::Passwd(entry) => Some(entry.name),
            Reply::NotFound => None,
            _ => panic!("another reply"),
        }
    };
    for (line, _) in REFUSED.iter().filter(|(line, _)| !line.starts_with("resi:")) {
        let name = line.split(':').next().unwrap();
        assert_eq!(found(Lookup::PasswdByName(name.to_owned())), None, "{line}");
    }
    for uid in [0, 999, 1001, 20002, 20003, 20006, 20007] {
        assert_eq!(found(Lookup::PasswdById(uid)), None, "{uid}");
    }
    assert_eq!(found(Lookup::PasswdById(20001)).as_deref(), Some("resi"));
    let map = Snapshot::open(&host.path("var/cache/privacyidea-host")).unwrap();
    let mut cursor = Cursor::default();
    let names: Vec<_> = std::iter::from_fn(|| {
        map.next_passwd(&mut cursor, 0).map(|entry| String::from_utf8(entry.name.to_vec()).unwrap())
    })
    .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&"resi".to_owned()) && names.contains(&"last".to_owned()), "{names:?}");

    daemon.signal(Signal::TERM);
    let log: Vec<_> = daemon.lines.iter().collect();
    for (number, (line, reason)) in (2..).zip(REFUSED) {
        let place = format!("/etc/privacyidea-host/users/passwd line {number} ");
        let told: Vec<_> = log.iter().filter(|text| text.contains(&place)).collect();
        assert_eq!(told.len(), 1, "{line:?}: {log:?}");
        assert!(told[0].contains("is refused: ") && told[0].contains(reason), "{line:?}: {told:?}");
    }
    assert!(daemon.end().success());
}
