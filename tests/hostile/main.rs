//! Hostile input: bytes, strings and calls that a seeded generator makes, and programs that are killed.
//!
//! Each target runs for `PYTREE_FUZZ_SECONDS`, by default one. An input that fails prints its seed, and
//! `PYTREE_FUZZ_SEED` runs only this input again. For hostile input, a reader returns an error and never panics. A
//! reader needs a bounded time for each input, and memory in proportion to the length of the input. If a mistake panics
//! by design, the panic is at the line of the caller and has a message of this library.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    unsafe_code,
    missing_docs,
    unreachable_pub,
    reason = "a failed unwrap is a failed test; an allocator that counts hands everything on to the system's"
)]

mod builder;
mod checkpoints;
mod einsums;
mod folders;
mod indices;
mod killed;
mod memory;
mod paths;
mod random;
mod treedefs;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::{Duration, Instant};

use random::Random;

/// The longest that one input may take, on a machine that does other things too.
const LONGEST: Duration = Duration::from_secs(5);

thread_local! {
    /// Where the last panic of this thread was, and its text, while one is awaited.
    static PANIC: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
    static AWAITED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps panics that are awaited off the output, and remembers where they were.
fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !AWAITED.get() {
                return usual(info);
            }
            let place = info
                .location()
                .map_or_else(String::new, ToString::to_string);
            let payload = info.payload();
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| {
                payload
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
            });
            let text = text.unwrap_or_default();
            PANIC.with_borrow_mut(|panic| *panic = Some((place, text)));
        }));
    });
}

/// Runs a function; its panic comes back as the place and the text.
fn caught<T>(run: impl FnOnce() -> T) -> Result<T, (String, String)> {
    watch_panics();
    let before = AWAITED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(run));
    AWAITED.set(before);
    outcome.map_err(|_| PANIC.take().unwrap_or_default())
}

/// Runs inputs until the time limit. Each input has its own generator, so its seed reproduces it.
fn fuzz(target: &str, input: impl Fn(&mut Random)) {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    let seconds = number("PYTREE_FUZZ_SECONDS").unwrap_or(1);
    let only = number("PYTREE_FUZZ_SEED");
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut seed = only.unwrap_or(0);
    let mut inputs = 0_u64;
    while only.is_none() && Instant::now() < end || inputs == 0 {
        let start = Instant::now();
        let outcome = caught(|| input(&mut Random::new(seed)));
        let needed = start.elapsed();
        let again =
            format!("PYTREE_FUZZ_SEED={seed} cargo test -p pytree-tests --test hostile {target}");
        if let Err((place, text)) = outcome {
            panic!("{place}: {text}\nrun it again by {again}");
        }
        assert!(
            needed < LONGEST,
            "an input took {needed:?}\nrun it again by {again}"
        );
        seed += 1;
        inputs += 1;
    }
    assert!(
        only.is_some() || inputs > 20,
        "only {inputs} inputs in {seconds} s"
    );
}

/// Runs a reader: it must not panic, and its memory is bounded by the bytes that it is given.
fn read<T>(bytes: usize, reader: impl FnOnce() -> T) -> T {
    let before = memory::begin();
    let outcome = caught(reader);
    let peak = memory::peak_since(before);
    let most = 1_000_000 + 1_000 * bytes;
    assert!(
        peak < most,
        "{peak} bytes of memory for {bytes} bytes of input"
    );
    match outcome {
        Ok(read) => read,
        Err((place, text)) => panic!("the reader panicked at {place}: {text}"),
    }
}

/// Texts of panics that are not ours.
const FOREIGN: [&str; 14] = [
    "attempt to ",
    "index out of bounds",
    "capacity overflow",
    "called `Option::unwrap",
    "called `Result::unwrap",
    "range end index",
    "range start index",
    "slice index",
    "out of range for slice",
    "byte index",
    "entered unreachable",
    "not implemented",
    "assertion ",
    "already borrowed",
];

/// Runs an operation that panics at a mistake: it must do so at the caller's line in `file`, and say something.
fn call<T>(file: &str, operation: impl FnOnce() -> T) -> Option<T> {
    let outcome = caught(operation);
    match outcome {
        Ok(value) => Some(value),
        Err((place, text)) => {
            assert!(place.starts_with(file), "a panic at {place}: {text}");
            let is_ours = !text.is_empty() && !FOREIGN.iter().any(|words| text.contains(words));
            assert!(is_ours, "the text of a panic is {text:?}");
            None
        }
    }
}
