//! Lines of passwd(5) and group(5). What comes out has the right form; whether it is believed is for the rules.

use privacyidea_contract::wire::{GroupEntry, PasswdEntry};

/// The longest line of a passwd file, in bytes.
pub(super) const PASSWD_LINE_MAX: usize = 8 * 1024;
/// The longest line of a group file, in bytes: some 30,000 members.
pub(super) const GROUP_LINE_MAX: usize = 1024 * 1024;

/// One line of a file.
pub(super) enum Line<'a> {
    /// Empty, or a comment.
    Nothing,
    /// `name:…`, as text.
    Entry(&'a str),
    /// Not text, or too long.
    Malformed(&'static str),
}

/// What a line is.
pub(super) fn line(bytes: &[u8], length_max: usize) -> Line<'_> {
    if bytes.len() > length_max {
        return Line::Malformed("it is too long");
    }
    match std::str::from_utf8(bytes) {
        Err(_) => Line::Malformed("it is not UTF-8"),
        Ok(text) if text.contains('\0') => Line::Malformed("it has a NUL byte"),
        Ok(text) if text.trim().is_empty() || text.starts_with('#') => Line::Nothing,
        Ok(text) => Line::Entry(text),
    }
}

/// `name:x:uid:gid:gecos:home:shell`
pub(super) fn user(line: &str) -> Result<PasswdEntry, String> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, password, uid, gid, gecos, home, shell] = fields[..] else {
        return Err(format!("it has {} fields instead of name:x:uid:gid:gecos:home:shell", fields.len()));
    };
    if !matches!(password, "x" | "*" | "!") {
        return Err("its password field is not x (no password and no hash belongs into this file)".to_owned());
    }
    Ok(PasswdEntry {
        name: name.to_owned(),
        uid: id("uid", uid)?,
        gid: id("gid", gid)?,
        gecos: gecos.to_owned(),
        home: home.to_owned(),
        shell: shell.to_owned(),
    })
}

/// `name:x:gid:member,member`
pub(super) fn group(line: &str) -> Result<GroupEntry, String> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, password, gid, members] = fields[..] else {
        return Err(format!("it has {} fields instead of name:x:gid:members", fields.len()));
    };
    if !matches!(password, "x" | "*" | "!" | "") {
        return Err("its password field is not x (no password and no hash belongs into this file)".to_owned());
    }
    let members = members.split(',').filter(|member| !member.is_empty()).map(str::to_owned).collect();
    Ok(GroupEntry { name: name.to_owned(), gid: id("gid", gid)?, members })
}

/// The line of a user, its newline included.
pub(super) fn user_line(user: &PasswdEntry) -> String {
    let PasswdEntry { name, uid, gid, gecos, home, shell } = user;
    format!("{name}:x:{uid}:{gid}:{gecos}:{home}:{shell}\n")
}

/// The line of a group, its newline included.
pub(super) fn group_line(group: &GroupEntry) -> String {
    format!("{}:x:{}:{}\n", group.name, group.gid, group.members.join(","))
}

fn id(what: &str, digits: &str) -> Result<u32, String> {
    // `parse` alone would take a sign.
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse() {
        Ok(id) if is_number => Ok(id),
        _ => Err(format!("its {what} is no number from 0 to 4294967295")),
    }
}
