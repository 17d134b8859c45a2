//! Compiles the page for WebAssembly and collects its files in a folder.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use brotli::enc::BrotliEncoderParams;
use wasm_bindgen_cli_support::Bindgen;

use crate::tutorial;

/// The greatest size of the module in bytes, compressed by Brotli as servers of static files do.
const LIMIT: usize = 1_300_000;
const TARGET: &str = "wasm32-unknown-unknown";

/// The folder `web` of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Writes the files of the page into a folder.
pub(crate) fn build(folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let compiled = Command::new(env!("CARGO"))
        .args([
            "build",
            "--release",
            "--locked",
            "-p",
            "page",
            "--target",
            TARGET,
        ])
        .current_dir(root())
        .env("RUSTFLAGS", "-C target-feature=+simd128")
        .status()?;
    if !compiled.success() {
        return Err(format!(
            "the page was not compiled; `rustup target add {TARGET}` installs the target"
        )
        .into());
    }
    let module = target().join(TARGET).join("release/page.wasm");
    Bindgen::new()
        .input_path(&module)
        .web(true)?
        .typescript(false)
        .remove_name_section(true)
        .generate(folder)?;
    let files = root().join("static");
    for file in fs::read_dir(&files)? {
        let file = file?;
        fs::copy(file.path(), folder.join(file.file_name()))?;
    }
    let tutorial = fs::read_to_string(root().join("../docs/tutorial.md"))?;
    let page = fs::read_to_string(files.join("index.html"))?;
    fs::write(
        folder.join("index.html"),
        tutorial::with_steps(&page, &tutorial)?,
    )?;

    let module = fs::read(folder.join("page_bg.wasm"))?;
    let mut compressed = Vec::new();
    let size = brotli::BrotliCompress(
        &mut &module[..],
        &mut compressed,
        &BrotliEncoderParams::default(),
    )?;
    println!("page_bg.wasm: {} bytes, compressed {size}", module.len());
    if size > LIMIT {
        return Err(
            format!("the module has {size} bytes, compressed, and may have {LIMIT}").into(),
        );
    }
    println!("the page is in {}", folder.display());
    Ok(())
}
