//! Tells the kernels which module they are compiled for, and which of them are, as `gpu/build/compile.rs` does.

fn main() {
    println!("cargo::rerun-if-env-changed=CORRUST_TARGET");
    println!("cargo::rerun-if-env-changed=CORRUST_CFGS");
    println!("cargo::rustc-check-cfg=cfg(corrust_target, values(\"sm_80\", \"sm_90a\"))");
    let target = std::env::var("CORRUST_TARGET").unwrap_or_else(|_| "sm_80".to_owned());
    println!("cargo::rustc-cfg=corrust_target=\"{target}\"");
    for cfg in std::env::var("CORRUST_CFGS").unwrap_or_default().split_whitespace() {
        println!("cargo::rustc-cfg={cfg}");
    }
}
