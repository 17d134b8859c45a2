//! Typed selectors: a place of a model named by Rust code.
