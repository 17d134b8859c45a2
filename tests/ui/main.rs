//! What the derives refuse, and in which words: one mistake a file, its message beside it. `tests/forms` has what they
//! accept.
//!
//! Most of the messages are pinned as the compiler of the day prints them. After a change, look at each
//! difference and let `TRYBUILD=overwrite cargo test --test ui` write the files anew.

#[test]
fn mistakes_are_explained() {
    let cases = trybuild::TestCases::new();
    for folder in [
        "attribute",
        "axes",
        "container",
        "derive",
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
