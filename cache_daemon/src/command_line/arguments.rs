//! What can be typed: one description for parsing, help, completions and manual pages.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::times;

pub(super) mod token;

pub(super) use token::TokenCommand;

/// The exit statuses, for the help and the manual pages.
pub(super) const EXIT_STATUS: [(&str, &str); 5] = [
    ("0", "Done."),
    ("1", "Refused, or the answer is no. One sentence on standard error says why and what to do next."),
    ("2", "The command line is wrong."),
    ("3", "The daemon cannot be reached."),
    ("130", "Ctrl-C or Ctrl-D instead of an answer."),
];

/// One-time passwords and users of this host: tokens, users, cache, checks.
#[derive(Parser)]
#[command(
    name = "privacyidea-host",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    infer_subcommands = false,
    disable_help_subcommand = true,
    max_term_width = 100,
    long_about = "One-time passwords and users of this host: tokens, users, cache, checks.\n\n\
        Logins on this host are checked by the daemon privacyidea-cached: against tokens that are kept here, or at a \
        privacyIDEA server if config.toml names one. This command asks that daemon. If it does not run, root's \
        commands start it for one answer, so everything works without it as well.",
    after_help = "Start with `privacyidea-host status`; `privacyidea-host COMMAND --help` explains, with examples.",
    after_long_help = "Examples:\n  \
        How things are, and what to do next:\n      \
        privacyidea-host status\n  \
        A first token for an account of this host:\n      \
        privacyidea-host token enrol alice\n  \
        Whether alice would get in by ssh:\n      \
        privacyidea-host test-login alice --service sshd\n  \
        Why she did not get in:\n      \
        privacyidea-host log alice"
)]
pub(super) struct CommandLine {
    /// Print the answer as one JSON object, ask nothing
    #[arg(
        long,
        global = true,
        long_help = "Print the answer as one JSON object on standard output, and ask nothing. A refusal is \
        {\"answer\":\"refused\",\"reason\":…}, on standard output as well. Times are seconds since 1970-01-01 UTC."
    )]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Tokens of users: enrol, list, unlock, remove, …
    #[command(
        subcommand,
        long_about = "Tokens that are kept and checked on this host, with or without a server.\n\n\
        A user may have several; each of them lets in. Among them are the server's tokens with values for logins without \
        it (type `offline`); they can be listed, shown, unlocked and removed. Root only."
    )]
    Token(TokenCommand),
    /// Users of the users file
    #[command(
        subcommand,
        long_about = "Users of the embedded `files` resolver: people who may use this host without an account in \
        /etc/passwd. They are kept in passwd(5) and group(5) files of their own and reach every program through NSS."
    )]
    User(UserCommand),
    /// Cached users and groups
    #[command(
        subcommand,
        long_about = "Users and groups that the daemon has read from the resolvers. Each entry has a timeout, after \
        which it is read anew; see [cache] in privacyidea-host.toml(5)."
    )]
    Cache(CacheCommand),
    /// How the daemon, the server, the users and the tokens are, and what to do next
    #[command(
        long_about = "Shows how the daemon, the server, the users, the lookup map and the tokens are, and which PAM \
        services ask for one-time passwords. What is not as it should be comes with what to do next.\n\n\
        Anybody may ask while the daemon runs; root may ask always.",
        after_long_help = "Examples:\n  \
        For people:\n      \
        privacyidea-host status\n  \
        For a monitoring system: the server's problem, null if it answers\n      \
        privacyidea-host status --json | jq .server.problem"
    )]
    Status,
    /// Check a configuration file without using it
    #[command(
        long_about = "Reads a configuration file as the daemon would. It is valid, or one sentence names file, line, key \
        and what is allowed.",
        after_long_help = "Examples:\n  \
        After a change, before the restart:\n      \
        privacyidea-host check-config && systemctl restart privacyidea-cached\n  \
        Another file:\n      \
        privacyidea-host check-config ./config.toml"
    )]
    CheckConfig(CheckConfig),
    /// Try a login through PAM without logging in
    #[command(
        long_about = "Goes through the PAM stack of a service as that service would: asks what it would ask, then shows \
        what each phase answered and what the daemon noted about it. No session is left open.\n\n\
        It is a real attempt: a code is used up, a wrong one counts as a failure. Root only.",
        after_long_help = "Examples:\n  \
        Would alice get in by ssh?\n      \
        privacyidea-host test-login alice\n  \
        And by sudo?\n      \
        privacyidea-host test-login alice --service sudo\n  \
        From an address that the server has a policy for:\n      \
        privacyidea-host test-login alice --rhost 203.0.113.7"
    )]
    TestLogin(TestLogin),
    /// The latest logins and why they were refused
    #[command(
        long_about = "Shows the decisions about logins that the daemon has kept, the newest last. The journal has the same \
        lines; their numbers (PIH-AUTH-…) are explained in the administrator's guide. Root only.",
        after_long_help = "Examples:\n  \
        Why does alice not get in?\n      \
        privacyidea-host log alice\n  \
        Everything of the last two hours:\n      \
        privacyidea-host log --since 2h --limit 1000\n  \
        What happens while somebody tries to log in:\n      \
        privacyidea-host log --follow"
    )]
    Log(Log),
    /// Write a completion script for a shell
    #[command(
        long_about = "Writes a completion script to standard output. The Debian package installs those of bash, zsh and fish.",
        after_long_help = "Examples:\n  \
        For this shell only:\n      \
        source <(privacyidea-host completions bash)"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Subcommand)]
pub(super) enum UserCommand {
    /// Add a user
    #[command(
        visible_alias = "create",
        long_about = "Adds a user to the users file. The name must be new: neither in /etc/passwd nor in the file. The user \
        can be looked up at once; a token lets them in.",
        after_long_help = "Examples:\n  \
        With the next free ids, a group of her own, /home/alice and /bin/bash:\n      \
        privacyidea-host user add alice --full-name 'Alice Example'\n  \
        With ids that a file server knows:\n      \
        privacyidea-host user add bob --uid 20017 --gid 20000"
    )]
    Add(UserAdd),
    /// Remove a user
    #[command(
        long_about = "Removes a user from the users file. The home directory stays, and so do the user's tokens: they would \
        let in whoever gets the same name later, so the command names those that are left.",
        after_long_help = "Examples:\n  \
        Without being asked:\n      \
        privacyidea-host user remove bob --yes"
    )]
    Remove(UserRemove),
    /// List the users whom the daemon knows
    #[command(
        visible_alias = "ls",
        long_about = "Lists the users whom the daemon has read from the resolvers. Root only.",
        after_long_help = "Examples:\n  \
        Names only:\n      \
        privacyidea-host user list --json | jq -r '.entries[].name'"
    )]
    List,
}

#[derive(Args)]
pub(super) struct UserAdd {
    /// Login name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// User id [default: the next free one]
    #[arg(long)]
    pub uid: Option<u32>,
    /// Id of an existing primary group [default: a new group of the same name]
    #[arg(long)]
    pub gid: Option<u32>,
    /// Full name
    #[arg(long, visible_alias = "gecos", value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub full_name: String,
    /// Home directory [default: /home/NAME]; it is not made
    #[arg(long, value_name = "PATH")]
    pub home: Option<String>,
    /// Login shell [default: /bin/bash]
    #[arg(long, value_name = "PATH")]
    pub shell: Option<String>,
    /// The `files` resolver to add to [default: the first one of config.toml]
    #[arg(long, value_name = "NAME")]
    pub resolver: Option<String>,
}

#[derive(Args)]
pub(super) struct UserRemove {
    /// Login name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The `files` resolver to remove from [default: the first one of config.toml]
    #[arg(long, value_name = "NAME")]
    pub resolver: Option<String>,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Subcommand)]
pub(super) enum CacheCommand {
    /// Forget cached entries and read the resolvers anew
    #[command(
        long_about = "Forgets what is cached and reads the resolvers anew, so that a change shows at once instead of \
        after its timeout. Root only.",
        after_long_help = "Examples:\n  \
        After the users file was edited by hand:\n      \
        privacyidea-host cache flush\n  \
        One user only:\n      \
        privacyidea-host cache flush alice"
    )]
    Flush {
        /// This user only, and the groups that list them
        #[arg(value_name = "USER")]
        user: Option<String>,
    },
    /// List cached users and groups with their timeouts
    #[command(
        visible_alias = "ls",
        long_about = "Lists cached users and groups with their timeouts, and names that are known not to exist. Root only."
    )]
    List,
}

#[derive(Args)]
pub(super) struct CheckConfig {
    /// The file [default: /etc/privacyidea-host/config.toml]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct TestLogin {
    /// Login name
    #[arg(value_name = "USER")]
    pub user: String,
    /// The PAM service: a name in /etc/pam.d
    #[arg(long, default_value = "sshd", value_name = "NAME")]
    pub service: String,
    /// Where the login is said to come from: an address or host name [default: a local login]
    #[arg(long, value_name = "ADDRESS")]
    pub rhost: Option<String>,
}

#[derive(Args)]
pub(super) struct Log {
    /// Of this user only
    #[arg(value_name = "USER")]
    pub user: Option<String>,
    /// Not older than this: 30m, 2h, 7d [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = times::seconds)]
    pub since: Option<u64>,
    /// At most so many, the newest
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    pub limit: u32,
    /// Go on and show each login as it comes, until Ctrl-C
    #[arg(
        long,
        short,
        long_help = "Go on and show each login as it comes, until Ctrl-C. With --json one object a line."
    )]
    pub follow: bool,
}

/// When something depends on whether standard output is a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    /// If standard output is a terminal
    Auto,
    /// In any case
    Always,
    /// In no case
    Never,
}
