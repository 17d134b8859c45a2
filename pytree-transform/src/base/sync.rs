//! The locks, atomics and threads of the cache of compiled functions.
//!
//! They are those of the standard library. In `tools/interleavings`, `sync.rs` is in the place of this file: shuttle runs
//! the threads of a test in many orders of their steps.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, atomic};
pub(crate) use std::thread;
