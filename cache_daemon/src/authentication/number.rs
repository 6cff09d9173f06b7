//! The numbers of the log's lines. `docs/tokens.md` lists them, and a test compares; one that was released keeps its
//! meaning.

/// `PIH-AUTH-012` in the log. Only those below exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(u16);

impl Number {
    pub(super) fn value(self) -> u16 {
        self.0
    }
}

macro_rules! numbers {
    ($($number:literal $name:ident $meaning:literal)+) => {
        impl Number {
            $(#[doc = $meaning] pub(super) const $name: Self = Self($number);)+
        }

        #[cfg(test)]
        const ALL: &[(u16, &str)] = &[$(($number, $meaning)),+];
    };
}

numbers! {
    1 GRANTED_BY_TOKEN "granted by a local token"
    2 GRANTED_BY_SERVER "granted by the server"
    3 ACCOUNT_KNOWN "account phase: known and not locked (not written down)"
    4 OUT_OF_SCOPE "account phase: not an account of ours (not written down)"
    10 WRONG_CODE "wrong code, or wrong PIN beside it"
    11 USED_CODE "the code was used before, or passed over"
    12 FAR_CODE "a right code outside the window, remembered for a resync"
    13 NO_TOKEN "no active token, and no server to ask"
    14 UNKNOWN_USER "no such user on this host; the name is left out"
    15 NOTHING_TYPED "the answer was empty; nothing was looked at or counted"
    16 LOCKED "every active token is locked"
    17 THROTTLED "too many failures of this user from this source; not looked at"
    18 REFUSED_BY_SERVER "the server says no"
    19 UNKNOWN_TO_SERVER "the server does not know the user"
    20 SECOND_STEP "the server asks for a further step that cannot be done here: a security key, or nobody can be asked"
    21 NOTHING_TYPED_BEFORE "use_first_pass, and no module before ours has asked"
    22 WRONG_STEP "a further step of the server was answered wrongly three times"
    23 DECLINED "the login was declined on the other device, or the server has withdrawn it"
    24 NOT_CONFIRMED "the login was not confirmed on the other device in time"
    25 TOO_MANY_STEPS "the server asks for one further step after another"
    30 SERVER_UNREACHABLE "the server cannot be reached"
    31 SERVER_UNABLE "the server says that it cannot check now"
    32 SERVER_RUBBISH "what answers is no privacyIDEA"
    33 SERVER_UNTRUSTED "the server's certificate is not the expected one"
    40 STORE_FAILED "`state.db` cannot be read or written"
    41 ACCOUNTS_FAILED "it cannot be told whose account this is"
    50 NO_ANSWER "the person went away, or cannot be asked"
    51 GRANTED_OFFLINE "granted by an offline value"
    52 OFFLINE_MISSED "no offline value fits, and the server cannot say more"
    53 OFFLINE_USED "another login has used the offline value at this moment"
    60 NO_TOKEN_NAMED "the server accepted without naming a token, and `require-token` is set"
    61 OTHER_REALM "the server accepted a user of another realm than the one asked"
    62 UNVERIFIED "beside the decision: `nossl` on the PAM line, the server's certificate is not looked at"
    63 LINE_REFUSED "the PAM line names a server that cannot be asked: its `url=` or `cacerts=` is none"
    64 LINE_IGNORED "beside the decision: a program that is not root's has a PAM line about server or realm, which does not count"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_every_number() {
        let documented: Vec<&str> = include_str!("../../../docs/tokens.md")
            .lines()
            .filter(|line| line.starts_with("| PIH-AUTH-0"))
            .collect();
        let expected: Vec<String> =
            ALL.iter().map(|(number, meaning)| format!("| PIH-AUTH-{number:03} | {meaning} |")).collect();
        assert_eq!(documented, expected);
    }

    #[test]
    fn the_administrators_guide_says_what_to_do_about_every_number() {
        let guide = include_str!("../../../docs/administrators-guide.md");
        for (number, meaning) in ALL {
            let row =
                guide.lines().find(|line| line.starts_with("| 0") && line.contains(&format!("{number:03}")));
            assert!(row.is_some(), "{number:03} {meaning}");
        }
    }

    #[test]
    fn no_number_means_two_things() {
        assert!(ALL.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order, each once");
    }
}
