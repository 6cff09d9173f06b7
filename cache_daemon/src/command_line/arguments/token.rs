//! `privacyidea-host token …`

use clap::{Args, Subcommand, ValueEnum};

use super::When;
use crate::administration;

#[derive(Subcommand)]
pub(in crate::command_line) enum TokenCommand {
    /// Make a token and show it once
    #[command(
        visible_alias = "enroll",
        long_about = "Makes a token for a user of this host and shows it: the QR code and the otpauth URI for an \
        authenticator app, or the recovery codes. The secret leaves the host here and never again.\n\n\
        Then it asks for a first code, to prove that the app works; until that is accepted the token lets nobody in. With \
        --json nothing is asked: confirm later with `privacyidea-host token confirm SERIAL`, or give --no-verify.\n\n\
        No PIN and no seed is ever an argument, because arguments can be seen by every user of the host: they are typed, or \
        come on standard input, the PIN on the first line, the seed on the next.",
        after_long_help = "Examples:\n  \
        An authenticator app (TOTP, 6 digits, 30 seconds, which every app can do):\n      \
        privacyidea-host token enrol alice\n  \
        The same with a PIN in front of the code, and a set of recovery codes:\n      \
        privacyidea-host token enrol alice --pin --recovery-codes\n  \
        A hardware token whose seed came with it (base32):\n      \
        privacyidea-host token enrol alice --type hotp --seed-from-stdin <seed.txt\n  \
        From a script; the token works at once:\n      \
        privacyidea-host token enrol alice --no-verify --json | jq -r .otpauth"
    )]
    Enrol(Enrol),
    /// Prove with a first code that a token works
    #[command(
        long_about = "Activates a token that was enrolled without its first code. The code that the device shows now is \
        asked for; without a terminal it is the first line of standard input. Without PIN. Root only.",
        after_long_help = "Examples:\n  \
        At the terminal:\n      \
        privacyidea-host token confirm TOTP0001\n  \
        From a script:\n      \
        printf '%s\\n' \"$code\" | privacyidea-host token confirm TOTP0001 --json"
    )]
    Confirm(Serial),
    /// List tokens
    #[command(
        visible_alias = "ls",
        long_about = "Lists tokens with their state and last use. Root only.",
        after_long_help = "Examples:\n  \
        Those of alice:\n      \
        privacyidea-host token list alice\n  \
        Serials of all locked tokens:\n      \
        privacyidea-host token list --json | jq -r '.tokens[] | select(.locked) | .serial'"
    )]
    List {
        /// Of this user only
        #[arg(value_name = "USER")]
        user: Option<String>,
    },
    /// Show everything about a token but its secret
    #[command(
        after_long_help = "Examples:\n  Everything but the secret:\n      privacyidea-host token show TOTP0001"
    )]
    Show(Serial),
    /// Find a token's place again by two consecutive codes
    #[command(
        long_about = "Finds a token's place again whose counter or clock has drifted too far. Two consecutive codes are \
        asked for; without a terminal they are the first two lines of standard input. Without PIN. Root only.",
        after_long_help = "Examples:\n  \
        A device whose button was pressed too often:\n      \
        privacyidea-host token resync HOTP0003"
    )]
    Resync(Serial),
    /// End a lock and a wait, forget failures
    #[command(
        long_about = "Ends a lock and sets the count of failures to zero: of one token, or of all of a user's. The user does \
        not have to wait either, from wherever they log in. Root only.",
        after_long_help = "Examples:\n  \
        All of alice's:\n      \
        privacyidea-host token unlock alice\n  \
        One token:\n      \
        privacyidea-host token unlock TOTP0001"
    )]
    Unlock {
        /// A serial, or a user for all of their tokens
        #[arg(value_name = "SERIAL|USER")]
        serial_or_user: String,
    },
    /// Set or remove a token's PIN
    #[command(
        long_about = "Sets the PIN of a token. It is asked for twice and not shown; without a terminal give \
        --pin-from-stdin. Root only.",
        after_long_help = "Examples:\n  \
        Ask for a new one:\n      \
        privacyidea-host token set-pin TOTP0001\n  \
        No PIN any more:\n      \
        privacyidea-host token set-pin TOTP0001 --no-pin"
    )]
    SetPin(SetPin),
    /// Remove a token for ever
    #[command(
        visible_alias = "rm",
        long_about = "Removes a token for ever, its secret included. Asks before; without a terminal give --yes. Root only.",
        after_long_help = "Examples:\n  \
        A lost phone:\n      \
        privacyidea-host token list alice\n      \
        privacyidea-host token remove TOTP0001"
    )]
    Remove(Remove),
}

#[derive(Args)]
pub(in crate::command_line) struct Enrol {
    /// Login name
    #[arg(value_name = "USER")]
    pub user: String,
    /// What kind of token
    #[arg(long = "type", value_enum, default_value = "totp", value_name = "TYPE")]
    pub kind: Kind,
    /// Length of a code, 6 to 8
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(6..=8), value_name = "NUMBER")]
    pub digits: u32,
    /// Hash; many apps can do sha1 only
    #[arg(long, value_enum, default_value = "sha1", value_name = "HASH")]
    pub algorithm: Algorithm,
    /// How long a TOTP code lasts, in seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86400), value_name = "SECONDS")]
    pub period: u32,
    /// Ask for a PIN, to be typed together with the code
    #[arg(long)]
    pub pin: bool,
    /// Read the PIN from standard input
    #[arg(long, alias = "pin-stdin", conflicts_with = "pin")]
    pub pin_from_stdin: bool,
    /// Where the PIN is typed
    #[arg(long, value_enum, default_value = "before", value_name = "WHERE")]
    pub pin_position: PinPosition,
    /// Read the seed from standard input (base32) instead of making one
    #[arg(long)]
    pub seed_from_stdin: bool,
    /// What the token is, for people
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    pub description: String,
    /// Activate the token without a first code
    #[arg(long)]
    pub no_verify: bool,
    /// Take a user whom neither /etc/passwd nor a resolver knows, but another NSS source of this host
    #[arg(long)]
    pub unknown_user: bool,
    /// Make a set of recovery codes as well
    #[arg(
        long,
        long_help = "Make a set of recovery codes as well, a token of its own. With --json it is the member \
        recovery-codes of the answer."
    )]
    pub recovery_codes: bool,
    /// Draw the QR code
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub qr: When,
}

#[derive(Args)]
pub(in crate::command_line) struct Serial {
    /// The token's serial, as `token list` shows it
    #[arg(value_name = "SERIAL")]
    pub serial: String,
}

#[derive(Args)]
pub(in crate::command_line) struct SetPin {
    /// The token's serial, as `token list` shows it
    #[arg(value_name = "SERIAL")]
    pub serial: String,
    /// Read the PIN from standard input
    #[arg(long, alias = "pin-stdin")]
    pub pin_from_stdin: bool,
    /// Remove the PIN
    #[arg(long, conflicts_with = "pin_from_stdin")]
    pub no_pin: bool,
}

#[derive(Args)]
pub(in crate::command_line) struct Remove {
    /// The token's serial, as `token list` shows it
    #[arg(value_name = "SERIAL")]
    pub serial: String,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::command_line) enum Kind {
    /// Codes that change with time, from an app (RFC 6238)
    Totp,
    /// Codes that change with each use, from an app or a device (RFC 4226)
    Hotp,
    /// A PIN alone, the same at every login
    SimplePass,
    /// A set of codes for one login each
    RecoveryCodes,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::command_line) enum Algorithm {
    /// What every app can do
    Sha1,
    /// SHA-256
    Sha256,
    /// SHA-512
    Sha512,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::command_line) enum PinPosition {
    /// PIN, then code
    Before,
    /// Code, then PIN
    After,
}

impl From<Kind> for administration::TokenKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Totp => Self::Totp,
            Kind::Hotp => Self::Hotp,
            Kind::SimplePass => Self::SimplePass,
            Kind::RecoveryCodes => Self::RecoveryCodes,
        }
    }
}

impl From<Algorithm> for administration::Algorithm {
    fn from(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha1 => Self::Sha1,
            Algorithm::Sha256 => Self::Sha256,
            Algorithm::Sha512 => Self::Sha512,
        }
    }
}

impl From<PinPosition> for administration::PinPosition {
    fn from(position: PinPosition) -> Self {
        match position {
            PinPosition::Before => Self::Before,
            PinPosition::After => Self::After,
        }
    }
}
