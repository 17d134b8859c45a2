//! What the fuzz targets share: panics that are allowed, and inputs made of the fuzzer's bytes.
//!
//! libFuzzer aborts at every panic. Operations that panic at a mistake by design run in [`call`], which checks that the
//! panic names a line of the caller and has a text.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

use arbitrary::{Result, Unstructured};

thread_local! {
    static AWAITED: Cell<bool> = const { Cell::new(false) };
    /// The file of the last awaited panic, and whether it had a text.
    static PANIC: RefCell<Option<(String, bool)>> = const { RefCell::new(None) };
}

/// Lets awaited panics through libFuzzer's hook. Each target calls this once.
pub fn await_panics() {
    let abort = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !AWAITED.get() {
            return abort(info);
        }
        let file = info.location().map_or("", |location| location.file());
        let has_text = info.payload_as_str().is_some_and(|text| !text.is_empty());
        PANIC.with_borrow_mut(|panic| *panic = Some((file.to_owned(), has_text)));
    }));
}

/// Runs an operation that may panic at a mistake, at the line of its caller in `file`.
pub fn call<T>(file: &str, operation: impl FnOnce() -> T) -> Option<T> {
    AWAITED.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(operation));
    AWAITED.set(false);
    if outcome.is_err() {
        let (place, has_text) = PANIC.take().unwrap_or_default();
        assert!(place == file && has_text, "a panic in {place}");
    }
    outcome.ok()
}

/// Returns a small number, or one at an edge of its type.
pub fn edge(bytes: &mut Unstructured<'_>) -> Result<i64> {
    let edges = [
        i64::MIN,
        i64::MIN + 1,
        i64::MAX,
        i64::from(i32::MIN),
        i64::from(i32::MAX),
        1 << 32,
        1 << 48,
    ];
    let number = bytes.int_in_range(0..=20_i64)?;
    let edge = usize::try_from(number - 14).ok();
    Ok(edge.map_or(number - 7, |edge| edges[edge]))
}
