//! What the derives refuse, and in which words: one mistake a file, its message beside it. `tests/forms` has what they
//! accept.
//!
//! The messages are those of one compiler. With another one, the test says that it is skipped; with the variable `CI` it fails.
//! After a change, look at each difference and let `TRYBUILD=overwrite cargo test -p pytree-ui-tests` write the files anew.

use std::process::Command;

/// The compiler whose messages the files have. `.ci/common` installs it.
const PINNED: &str = "rustc 1.95.0";

/// Returns the version of the compiler that builds the cases.
fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    output.map_or_else(
        |problem| problem.to_string(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

#[test]
fn mistakes_are_explained() {
    let compiler = compiler();
    if !compiler.starts_with(PINNED) {
        assert!(
            std::env::var_os("CI").is_none(),
            "the messages are those of {PINNED}, not of {compiler}"
        );
        eprintln!("skipped: the messages are those of {PINNED}, and this is {compiler}");
        return;
    }
    let cases = trybuild::TestCases::new();
    for folder in [
        "attribute",
        "axes",
        "container",
        "derive",
        "foreign",
        "generic",
        "item",
        "missing_kind",
        "object",
        "operand",
        "references",
        "tree",
        "use",
        "wrong_kind",
    ] {
        cases.compile_fail(format!("{folder}/*.rs"));
    }
}
