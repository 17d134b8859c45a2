//! Sets the condition `unoptimized` in a build without optimizations, so that the library can warn of it once. A
//! program cannot see the level in another way: `debug_assertions` is also set where only dependencies are optimized.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(unoptimized)");
    if std::env::var("OPT_LEVEL").is_ok_and(|level| level == "0") {
        println!("cargo::rustc-cfg=unoptimized");
    }
}
