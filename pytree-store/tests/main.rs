//! The tests of pytree-store, in one program, so that it is linked once.

#![allow(
    clippy::pedantic,
    clippy::single_range_in_vec_init,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod layouts;
mod models;

use std::path::PathBuf;

/// A file that is removed at the end of the test.
#[derive(Debug)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let unique = format!("pytree-store-{}-{name}.safetensors", std::process::id());
        Self(std::env::temp_dir().join(unique))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
