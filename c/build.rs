//! Names the shared library as programs look for it: `libcorrust.so.0.2` of version 0.2.0, by the part of the version
//! that says what is compatible.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let part = |name: &str| env::var(name).expect("cargo sets it");
    if part("CARGO_CFG_TARGET_OS") == "linux" {
        let (major, minor) = (part("CARGO_PKG_VERSION_MAJOR"), part("CARGO_PKG_VERSION_MINOR"));
        let compatible = if major == "0" { format!("0.{minor}") } else { major };
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcorrust.so.{compatible}");
    }
}
