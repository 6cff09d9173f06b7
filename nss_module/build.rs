//! How the module is linked: its SONAME, which glibc and ldconfig expect, and `nodelete`, because a program may
//! dlclose it while another of its threads is inside.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnss_privacyidea.so.2");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
