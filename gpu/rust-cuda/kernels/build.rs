//! Tells the kernels which module they are compiled for, as `gpu/build.rs` does.

fn main() {
    println!("cargo::rerun-if-env-changed=CORRUST_TARGET");
    println!("cargo::rustc-check-cfg=cfg(corrust_target, values(\"sm_80\", \"sm_90a\"))");
    let target = std::env::var("CORRUST_TARGET").unwrap_or_else(|_| "sm_80".to_owned());
    println!("cargo::rustc-cfg=corrust_target=\"{target}\"");
}
