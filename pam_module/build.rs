//! How the module is linked.

fn main() {
    // libpam unloads modules in pam_end; code of Rust's standard library may still be wanted after that (thread-local
    // destructors), so the module stays where it is.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
