//! Says how the shared library is linked.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=exports.txt");
    // Where libtorch is, which any crate on top of `tensorquery` hands on.
    let arguments = env::var("DEP_TENSORQUERY_LINK_ARGS").unwrap_or_default();
    for argument in arguments.split(';').filter(|argument| !argument.is_empty()) {
        println!("cargo::rustc-link-arg={argument}");
    }
    let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rustc-link-arg=-Wl,--version-script={folder}/exports.txt");
}
