//! Lets every binary find libtorch at run time, however it is started.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // torch-sys, whose `links` key is `tch`, tells where it found libtorch.
    println!("cargo::rerun-if-env-changed=DEP_TCH_LIBTORCH_LIB");
    let Some(libraries) = env::var_os("DEP_TCH_LIBTORCH_LIB").map(PathBuf::from) else {
        return;
    };
    // Our own binaries, tests, examples and benches carry the path.
    let mut arguments = vec![format!("-Wl,-rpath,{}", libraries.display())];
    // Nothing refers to the CUDA library by name, so the linker would leave it out, and libtorch would find
    // no device: it comes in by being loaded.
    if libraries.join("libtorch_cuda.so").exists() {
        arguments.push("-Wl,--push-state,--no-as-needed,-ltorch_cuda,--pop-state".to_owned());
    }
    for argument in &arguments {
        println!("cargo::rustc-link-arg={argument}");
    }
    // Crates on top of ours get them to hand on from a build script of their own, which sees this as
    // DEP_TENSORQUERY_LINK_ARGS; the README says how.
    println!("cargo::metadata=LINK_ARGS={}", arguments.join(";"));
    // Neither they nor doctests can be given link arguments from here. But cargo puts a library folder on the dynamic loader's path for what it runs, if it lies in its own target folder.
    if let Some(out) = env::var_os("OUT_DIR") {
        let link = Path::new(&out).join("libtorch");
        if let Err(error) = symlink(&libraries, &link) {
            println!("cargo::warning=no link to libtorch at {}: {error}", link.display());
            return;
        }
        println!("cargo::rustc-link-search=native={}", link.display());
    }
}

#[cfg(unix)]
fn symlink(libraries: &Path, link: &Path) -> std::io::Result<()> {
    if link.symlink_metadata().is_ok() {
        fs::remove_file(link)?;
    }
    std::os::unix::fs::symlink(libraries, link)
}

#[cfg(not(unix))]
fn symlink(_: &Path, _: &Path) -> std::io::Result<()> {
    Ok(())
}
