//! Files that are no plugins, and plugins of other versions. Needs no plugin.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what it checks in its name, and fails by panicking"
)]
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pytree_pjrt::{Client, PjrtError};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let path = path(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn refused(path: &Path) -> PjrtError {
    Client::load(path).unwrap_err()
}

/// Compiles a library with this source.
fn library(name: &str, source: &str) -> PathBuf {
    let source = written(&format!("{name}.rs"), source.as_bytes());
    let library = path(name);
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    let command = command.args([
        "--edition=2024",
        "--crate-type=cdylib",
        "--crate-name=library",
        "-Cpanic=abort",
        "-o",
    ]);
    let status = command.arg(&library).arg(&source).status().unwrap();
    assert!(status.success());
    library
}

/// Compiles a plugin that has a table of this version with some functions, which all succeed and do nothing.
fn plugin(name: &str, version: (i32, i32), functions: usize) -> PathBuf {
    let (major, minor) = version;
    let source = format!(
        "#[repr(C)]
        struct Table(usize, usize, usize, usize, i32, i32, [extern \"C\" fn(usize) -> usize; {functions}]);
        extern \"C\" fn succeed(_arguments: usize) -> usize {{ 0 }}
        static TABLE: Table = Table(size_of::<Table>(), 0, 24, 0, {major}, {minor}, [succeed; {functions}]);
        #[unsafe(no_mangle)]
        extern \"C\" fn GetPjrtApi() -> *const () {{ (&raw const TABLE).cast() }}"
    );
    library(name, &source)
}

#[test]
fn missing_file_is_reported() {
    let error = refused(Path::new("no/such/plugin.so"));
    assert!(matches!(error, PjrtError::NotFound { .. }), "{error}");
    let message = error.to_string();
    assert!(
        message.contains("\"no/such/plugin.so\": expected a shared library, found no file"),
        "{message}"
    );
    assert!(
        message.contains("pytree-pjrt/no/such/plugin.so here)"),
        "{message}"
    );
    assert!(message.contains("`PYTREE_PJRT_PLUGIN`"), "{message}");
}

#[test]
fn files_of_other_kinds_are_refused() {
    let cases = [
        (
            written("text.so", b"this is a text, and no library\n"),
            "found a file of another kind",
        ),
        (written("empty.so", b""), "found a file of another kind"),
        (
            written("plugin.whl", b"PK\x03\x04 and more"),
            "found a zip archive, such as a wheel of Python; unzip it",
        ),
        (
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            "found a directory; pass the path of the shared library inside",
        ),
    ];
    for (path, expected) in cases {
        let error = refused(&path);
        assert!(matches!(error, PjrtError::NotALibrary { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// Loading a cut library would end the process with `SIGBUS`, because the system maps pages after the end of the file.
#[test]
fn cut_library_is_refused() {
    let whole = fs::read(plugin("whole.so", (0, 81), 118)).unwrap();
    let lengths = (1..32).map(|part| whole.len() * part / 32);
    for length in lengths.chain([64, 65, 4096, whole.len() - 1]) {
        let error = refused(&written("cut.so", &whole[..length]));
        assert!(matches!(error, PjrtError::NotALibrary { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("found a file that was cut off; copy"),
            "{text}"
        );
        assert!(
            text.contains(&format!("and the file has {length}")),
            "{text}"
        );
    }
}

#[test]
fn pipe_is_refused() {
    let pipe = path("pipe.so");
    let _ = fs::remove_file(&pipe);
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let error = refused(&pipe).to_string();
    assert!(
        error.contains("found a pipe, a socket or a device"),
        "{error}"
    );
}

#[test]
fn library_without_function_is_no_plugin() {
    let math = [
        "/lib/x86_64-linux-gnu/libm.so.6",
        "/lib64/libm.so.6",
        "/usr/lib/libm.so.6",
    ];
    let math = math.map(Path::new).into_iter().find(|path| path.exists());
    let other = library(
        "libother.so",
        "#[unsafe(no_mangle)] extern \"C\" fn other() {}",
    );
    for path in math.into_iter().chain([&*other]) {
        let error = refused(path);
        assert!(matches!(error, PjrtError::NotAPlugin { .. }), "{error}");
        let expected =
            "expected a library with the function `GetPjrtApi`, found a library without it";
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn extensions_of_python_are_recognised() {
    let loads = library("loads.cpython-312-x86_64-linux-gnu.so", "");
    let error = refused(&loads);
    assert!(matches!(error, PjrtError::NotAPlugin { .. }), "{error}");
    let expected = "found an extension module of Python without it; pass the library of the plugin";
    assert!(error.to_string().contains(expected), "{error}");
    // Needs functions that only Python's own process has.
    let needs = library(
        "needs.so",
        "unsafe extern \"C\" { static PyExc_TypeError: usize; }
        #[unsafe(no_mangle)] extern \"C\" fn get() -> usize { unsafe { (&raw const PyExc_TypeError).read_volatile() } }",
    );
    let error = refused(&needs);
    assert!(matches!(error, PjrtError::NotALibrary { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("found an extension module of Python; "),
        "{error}"
    );
}

#[test]
fn other_versions_are_refused() {
    for (name, version) in [("major.so", (1, 0)), ("old.so", (0, 56))] {
        let error = refused(&plugin(name, version, 118));
        let (major, minor) = version;
        let expected = format!(
            "expected PJRT 0.57 or newer with the major version 0, found {major}.{minor}; "
        );
        assert!(error.to_string().contains(&expected), "{error}");
    }
}

#[test]
fn missing_functions_are_reported_with_version() {
    // The table ends before `PJRT_Client_Create`.
    let error = refused(&plugin("short.so", (0, 60), 10));
    let expected =
        "the plugin has PJRT 0.60, which has no function `PJRT_Client_Create`; use a newer plugin";
    assert!(error.to_string().contains(expected), "{error}");
}

/// A plugin that returns nothing where it promises an object.
#[test]
fn null_objects_are_errors() {
    let error = refused(&plugin("null.so", (0, 81), 118));
    let expected = "the plugin reported success and returned a null pointer";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn empty_table_is_no_plugin() {
    let source = "#[unsafe(no_mangle)] extern \"C\" fn GetPjrtApi() -> usize { 0 }";
    let error = refused(&library("nothing.so", source));
    assert!(matches!(error, PjrtError::NotAPlugin { .. }), "{error}");
}
