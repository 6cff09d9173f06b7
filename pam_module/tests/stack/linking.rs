//! What the module is, as the linker sees it.

use std::collections::BTreeSet;
use std::process::Command;

use crate::harness::module;

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).arg(module()).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Programs load it without libpam (openvpn), and libpam unloads it.
#[test]
fn it_brings_libpam_and_stays_in_memory() {
    let dynamic = output("readelf", &["-d", "-W"]);
    let needed: BTreeSet<_> = dynamic
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split(['[', ']']).nth(1))
        .collect();
    assert!(needed.contains("libpam.so.0"), "{needed:?}");
    let expected = BTreeSet::from(["libpam.so.0", "libc.so.6", "libgcc_s.so.1"]);
    let linker = |library: &&&str| !library.starts_with("ld-linux");
    assert_eq!(needed.iter().filter(linker).copied().collect::<BTreeSet<_>>(), expected);
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
    assert!(!dynamic.contains("RUNPATH") && !dynamic.contains("RPATH"), "{dynamic}");
}

#[test]
fn it_shows_the_six_functions_and_nothing_else() {
    let symbols = output("nm", &["-D", "--defined-only"]);
    let shown: BTreeSet<_> = symbols.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let functions = ["acct_mgmt", "authenticate", "chauthtok", "close_session", "open_session", "setcred"];
    let expected: BTreeSet<_> = functions.map(|function| format!("pam_sm_{function}")).into();
    assert_eq!(shown.iter().map(ToString::to_string).collect::<BTreeSet<_>>(), expected);
}

#[test]
fn it_loads_at_once_in_a_program_without_libpam() {
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("load.c"), directory.path().join("load"));
    let code = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int argc, char **argv) {
            for (int i = 0; i < 3; i++) {
                void *module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
                if (!module || !dlsym(module, "pam_sm_authenticate")) {
                    puts(dlerror());
                    return 1;
                }
                dlclose(module);
            }
            return argc != 2;
        }
    "#;
    std::fs::write(&source, code).unwrap();
    let compiled = Command::new("cc").arg("-o").args([&program, &source]).arg("-ldl").status().unwrap();
    assert!(compiled.success());
    let loaded = Command::new(&program).arg(module()).output().unwrap();
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stdout));
}
