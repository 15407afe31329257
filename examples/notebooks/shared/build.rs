//! Hands on where libtorch is, as any crate on top of `tensorquery` does.

fn main() {
    for argument in std::env::var("DEP_TENSORQUERY_LINK_ARGS").unwrap_or_default().split(';').filter(|a| !a.is_empty()) {
        println!("cargo::rustc-link-arg={argument}");
    }
}
