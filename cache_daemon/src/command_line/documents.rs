//! Manual pages and completions, written in the package's build from the same description that parses the arguments.

use std::io::{self, Write};
use std::path::Path;

use clap::{Command, CommandFactory, ValueEnum};
use clap_complete::{Generator, Shell};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::arguments::{CommandLine, EXIT_STATUS};

/// The program's name.
pub(super) const PROGRAM: &str = "privacyidea-host";

const SECTION: &str = "8";

const FILES: [(&str, &str); 5] = [
    ("/etc/privacyidea-host/config.toml", "Settings; see privacyidea-host.toml(5)."),
    (
        "/etc/privacyidea-host/users/passwd, /etc/privacyidea-host/users/group",
        "Users and groups of the embedded `files` resolver, which `privacyidea-host user` keeps.",
    ),
    ("/run/privacyidea-host/auth.sock, /run/privacyidea-host/lookup.sock", "Where the daemon is asked."),
    ("/var/lib/privacyidea-host/state.db", "Tokens, their counters, and decisions about logins."),
    ("/etc/pam.d", "Which services ask for one-time passwords."),
];

const ENVIRONMENT: [(&str, &str); 2] = [
    ("NO_COLOR", "Set and not empty: no colour, but for the QR code, which would be unreadable."),
    ("TZ", "The time zone in which times are shown; without it the host's."),
];

const SEE_ALSO: [&str; 5] = [
    "privacyidea-host(8)",
    "privacyidea-cached(8)",
    "pam_privacyidea(8)",
    "libnss_privacyidea(8)",
    "privacyidea-host.toml(5)",
];

/// Writes `man/*.8`, one page a command, and `completions/`: `privacyidea-host.bash`, `_privacyidea-host` (zsh),
/// `privacyidea-host.fish`, and those of the other shells that are known.
///
/// # Errors
/// A file cannot be written.
pub fn write(directory: &Path) -> io::Result<()> {
    let man = directory.join("man");
    std::fs::create_dir_all(&man)?;
    let mut root = CommandLine::command();
    root.build();
    write_pages(&root, &man)?;
    let completions = directory.join("completions");
    std::fs::create_dir_all(&completions)?;
    for shell in Shell::value_variants() {
        let name = shell.file_name(PROGRAM);
        std::fs::write(completions.join(name), completion(*shell))?;
    }
    Ok(())
}

/// The completion script for `shell`.
pub(super) fn completion(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), PROGRAM, &mut script);
    if shell != Shell::Bash {
        return script;
    }
    // clap_complete 4.6 writes the hyphen of the program's name in two ways into the states of the bash script, so that
    // nothing is completed after a subcommand (clap-rs/clap#6421).
    let (wrong, right) = (PROGRAM.replace('-', "__subcmd__"), PROGRAM.replace('-', "__"));
    String::from_utf8_lossy(&script).replace(&wrong, &right).into_bytes()
}

fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        write_pages(subcommand, directory)?;
    }
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let page = render(command.clone())?;
    std::fs::write(directory.join(format!("{name}.{SECTION}")), page)
}

fn render(command: Command) -> io::Result<Vec<u8>> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let examples = command.get_after_long_help().map(ToString::to_string);
    let has_subcommands = command.has_subcommands();
    let man = Man::new(command.version(None::<&str>).after_help(None::<&str>))
        .title(name.to_uppercase())
        .section(SECTION)
        .source(format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION")))
        .manual("System administration");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_subcommands {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::new();
    definitions(&mut roff, "EXIT STATUS", &EXIT_STATUS);
    if name == PROGRAM {
        definitions(&mut roff, "ENVIRONMENT", &ENVIRONMENT);
        definitions(&mut roff, "FILES", &FILES);
    }
    if let Some(examples) = examples {
        example_section(&mut roff, &examples);
    }
    see_also(&mut roff, &name);
    roff.to_writer(&mut page)?;
    page.flush()?;
    Ok(page)
}

fn definitions(roff: &mut Roff, heading: &str, entries: &[(&str, &str)]) {
    roff.control("SH", [heading]);
    for (term, text) in entries {
        roff.control("TP", []);
        roff.text([bold(*term)]);
        roff.text([roman(*text)]);
    }
}

/// The long help's examples: a heading, sentences indented by two, commands by six.
fn example_section(roff: &mut Roff, text: &str) {
    roff.control("SH", ["EXAMPLES"]);
    for line in text.lines().skip(1) {
        match line.strip_prefix("      ") {
            Some(command) => {
                roff.control("RS", ["4"]);
                roff.control("nf", []);
                roff.text([bold(command)]);
                roff.control("fi", []);
                roff.control("RE", []);
            }
            None => {
                roff.control("PP", []);
                roff.text([roman(line.trim())]);
            }
        }
    }
}

fn see_also(roff: &mut Roff, name: &str) {
    roff.control("SH", ["SEE ALSO"]);
    let others: Vec<_> = SEE_ALSO.into_iter().filter(|page| page.strip_suffix("(8)") != Some(name)).collect();
    roff.text([roman(others.join(", "))]);
}
