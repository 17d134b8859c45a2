//! What surrounds a program: an output, a clock, threads, and files.
//!
//! Most systems have all of them. A web page (`wasm32-unknown-unknown`) has an output and a clock of its own, which it gives the library
//! by [`set_output`] and [`set_clock`], one thread, and no files. All crates of pytree print and measure time through this module.
//! Nothing of a result depends on the platform: random numbers begin with a key of the program, never with a seed of the system.
//!
//! # Examples
//! ```
//! use pytree_base::platform::{self, Stream};
//! use std::sync::{Arc, Mutex};
//! let page = Arc::new(Mutex::new(String::new()));
//! let text = Arc::clone(&page);
//! platform::set_output(move |_, printed| text.lock().unwrap().push_str(printed));
//! platform::print(Stream::Output, "loss = 0.25\n");
//! platform::reset_output();
//! assert_eq!(*page.lock().unwrap(), "loss = 0.25\n");
//! ```

use std::io::{self, IsTerminal};
use std::num::NonZero;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Whether the platform has files. Without them, reading and writing a path is an error.
pub const HAS_FILES: bool = !cfg!(all(target_family = "wasm", target_os = "unknown"));

/// Where text is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// The standard output, where `debug_print!` writes.
    Output,
    /// The standard error, where warnings and the progress of a run appear.
    Error,
}

type Output = Arc<dyn Fn(Stream, &str) + Send + Sync>;
type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

static OUTPUT: RwLock<Option<Output>> = RwLock::new(None);
static CLOCK: RwLock<Option<Clock>> = RwLock::new(None);

/// Sets the function that receives what the library prints in this process, instead of the standard output and the standard error. A
/// text may be a part of a line. The function runs in the thread that prints, and no lock is held meanwhile.
pub fn set_output(output: impl Fn(Stream, &str) + Send + Sync + 'static) {
    replace(&OUTPUT, Some(Arc::new(output)));
}

/// Prints on the standard output and the standard error again; see [`set_output`].
pub fn reset_output() {
    replace(&OUTPUT, None);
}

/// Sets the function that measures time: it returns the time since any moment, which is the same in all calls. In JavaScript this is
/// `performance.now()`, in milliseconds. Other platforms than a web page need no such function.
pub fn set_clock(clock: impl Fn() -> Duration + Send + Sync + 'static) {
    replace(&CLOCK, Some(Arc::new(clock)));
}

/// Prints a text. Does nothing in a web page that has no [output](set_output).
///
/// # Panics
/// As `print!` does, if the standard output or the standard error cannot be written.
pub fn print(stream: Stream, text: &str) {
    match current(&OUTPUT) {
        Some(output) => output(stream, text),
        None if stream == Stream::Output => print!("{text}"),
        None => eprint!("{text}"),
    }
}

/// Returns the time since a moment that is the same in all calls. Returns 0 in a web page that has no [clock](set_clock).
pub fn now() -> Duration {
    if let Some(clock) = current(&CLOCK) {
        return clock();
    }
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed()
    }
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    Duration::ZERO
}

/// Returns the number of threads that the system runs at once for this program, or 1 where programs have one thread.
#[must_use]
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Gives a warning: as an event if the feature `tracing` is on and this thread has a subscriber, and otherwise on the standard error, after
/// `prefix`.
pub fn warn(prefix: &str, warning: &dyn std::fmt::Display) {
    #[cfg(feature = "tracing")]
    if tracing::dispatcher::get_default(|it| !it.is::<tracing::subscriber::NoSubscriber>()) {
        return tracing::warn!(target: "pytree", "{warning}");
    }
    print(Stream::Error, &format!("{prefix}{warning}\n"));
}

/// Returns the value of an environment variable, as `read` understands its text, or `None` if it is not set or empty. If `read` returns
/// `None`, so does this function, after a warning with the name, the `expected` values and the value. A caller stores the result, so
/// that the warning is printed once.
pub fn variable<T>(name: &str, expected: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let text = std::env::var_os(name).filter(|text| !text.is_empty())?;
    let value = text.to_str().and_then(|text| read(text.trim()));
    if value.is_none() {
        let text = text.display();
        let warning = format!(
            "the environment variable `{name}` is ignored: expected {expected}, found `{text}`"
        );
        warn("pytree: warning: ", &warning);
    }
    value
}

/// Returns whether an environment variable is set to a word for yes or no; see [`variable`].
pub fn flag(name: &str) -> Option<bool> {
    variable(name, "0 or 1", |text| match text {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    })
}

impl Stream {
    /// Returns whether the text appears in a terminal.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        current(&OUTPUT).is_none()
            && match self {
                Self::Output => io::stdout().is_terminal(),
                Self::Error => io::stderr().is_terminal(),
            }
    }
}

/// A write returns the errors of the system, where [`print()`] panics.
impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (current(&OUTPUT), self) {
            (Some(output), stream) => output(*stream, &String::from_utf8_lossy(bytes)),
            (None, Self::Output) => return io::stdout().write(bytes),
            (None, Self::Error) => return io::stderr().write(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Output => io::stdout().flush(),
            Self::Error => io::stderr().flush(),
        }
    }
}

fn current<T: Clone>(function: &RwLock<Option<T>>) -> Option<T> {
    let function = function.read().unwrap_or_else(PoisonError::into_inner);
    function.clone()
}

fn replace<T>(function: &RwLock<Option<T>>, new: Option<T>) {
    let mut function = function.write().unwrap_or_else(PoisonError::into_inner);
    let before = std::mem::replace(&mut *function, new);
    // Dropping a function runs code of the user, so hold no lock.
    drop(function);
    drop(before);
}
