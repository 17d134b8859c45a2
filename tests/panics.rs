//! Catches panics and records where they began. Each test program that needs it has it as the module `panics`.
//!
//! The hook is set once for the process: tests that each replace the hook and restore it disturb one another.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// A panic that was caught: its location and its message.
#[derive(Clone, Debug, PartialEq)]
pub struct Caught {
    pub file: String,
    pub line: u32,
    pub message: String,
}

thread_local! {
    static IS_CATCHING: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<Option<Caught>> = const { RefCell::new(None) };
}

fn set_hook_once() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            if !IS_CATCHING.get() {
                return usual(info);
            }
            let payload = info.payload();
            let message = payload.downcast_ref::<String>().cloned();
            let message =
                message.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.into()));
            LAST.set(info.location().map(|place| Caught {
                file: place.file().to_owned(),
                line: place.line(),
                message: message.unwrap_or_default(),
            }));
        }));
    });
}

/// Calls a function. If it panics, prints nothing and returns where the panic began.
pub fn catch<T>(call: impl FnOnce() -> T) -> Result<T, Caught> {
    set_hook_once();
    let outer = IS_CATCHING.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(call));
    IS_CATCHING.set(outer);
    outcome.map_err(|_| LAST.take().expect("the hook has seen the panic"))
}
