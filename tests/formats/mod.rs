//! Checks that checkpoints, exported programs and treedefs of every version load as the values written here. `docs/reference/formats.md`
//! states the policy.
//!
//! A fixture is written once, by the code of its version, and is never changed. `PYTREE_WRITE_FIXTURES=1` writes
//! the missing fixtures of the current version.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed unwrap is a failed test, and says where"
)]

mod checkpoints;
mod exports;
mod folders;
mod treedefs;

use std::path::PathBuf;

/// Where a fixture is; it is there, or is made by `write` if that is allowed.
fn fixture(name: &str, present: bool, write: impl FnOnce(&PathBuf)) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/formats");
    let path = folder.join(name);
    if !path.exists() && present && std::env::var_os("PYTREE_WRITE_FIXTURES").is_some() {
        write(&path);
    }
    assert!(
        path.exists(),
        "there is no fixture `{name}`: a version that is written needs one; run \
         `PYTREE_WRITE_FIXTURES=1 cargo test -p pytree-tests --test all formats` and commit the new file"
    );
    path
}
