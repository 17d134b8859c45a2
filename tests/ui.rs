//! What the derives refuse, and in which words: one mistake a file, its message beside it.
//!
//! Most of the messages are pinned as the compiler of the day prints them. After a change, look at each
//! difference and let `TRYBUILD=overwrite cargo test --test ui` write the files anew.

#[test]
fn mistakes_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*/*.rs");
}
