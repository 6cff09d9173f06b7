//! The module in a real glibc: each scenario is a process of its own that glibc has load the module that was built,
//! in a mount namespace with an empty /var/cache and /run. Wants root, or user namespaces.

mod calls;
mod scenarios;
mod world;

use std::process::Command;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name] = arguments.as_slice() {
        if flag == "--scenario" {
            return run_here(name);
        }
    }
    if arguments.iter().any(|argument| argument == "--list") {
        // cargo-nextest asks for those to be left out too: there are none, or it would leave out all.
        if !arguments.iter().any(|argument| argument == "--ignored") {
            scenarios::ALL.iter().for_each(|(name, _)| println!("{name}: test"));
        }
        return;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let chosen =
        scenarios::ALL.iter().filter(|(name, _)| filter.is_none_or(|filter| name.contains(filter.as_str())));
    let mut failures = 0;
    for (name, _) in chosen {
        let module =
            if *name == scenarios::PANICKING { world::panicking_module() } else { world::built_module() };
        let library = world::library_directory(&module);
        let output = isolated(name).env("LD_LIBRARY_PATH", library.path()).output().expect("unshare(1) runs");
        let is_success = output.status.success();
        println!("test {name} ... {}", if is_success { "ok" } else { "FAILED" });
        if !is_success {
            failures += 1;
            println!("{}: {}", name, output.status);
            println!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
    if failures > 0 {
        println!("{failures} scenarios failed");
        std::process::exit(101);
    }
}

fn run_here(name: &str) {
    let (_, scenario) = scenarios::ALL.iter().find(|(other, _)| *other == name).expect("a known scenario");
    world::mount();
    calls::use_module_only();
    scenario();
}

fn isolated(name: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "--propagation", "private", "timeout", "60"]);
    command.arg(std::env::current_exe().expect("a path")).args(["--scenario", name]);
    command
}
