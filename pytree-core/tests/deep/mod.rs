//! Depth: a dynamic tree has no bound; that of typed values is bounded, and beyond it is an error.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a failed unwrap is a failed test, and says where"
)]

mod dynamic;
mod shared;
mod typed;

use std::time::{Duration, Instant};

/// Runs on a thread with a stack of so many KiB, and hands a panic's message back.
fn on_stack<T: Send>(kib: usize, run: impl FnOnce() -> T + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .stack_size(kib << 10)
            .spawn_scoped(scope, run);
        thread
            .unwrap()
            .join()
            .map_err(|panic| match panic.downcast::<String>() {
                Ok(text) => *text,
                Err(panic) => panic
                    .downcast_ref::<&str>()
                    .map_or(String::new(), |text| (*text).to_owned()),
            })
    })
}

/// Runs within 256 KiB of stack and a few seconds: nothing recurses, and nothing is quadratic.
fn small<T: Send>(what: &str, run: impl FnOnce() -> T + Send) -> T {
    let start = Instant::now();
    let outcome = on_stack(256, run).unwrap();
    let took = start.elapsed();
    assert!(took < Duration::from_secs(20), "{what} took {took:?}");
    outcome
}
