//! Warnings about programs that run, but not as intended. An example is a compiled function that is traced in every
//! call.
//!
//! Each warning is given once for its source line. A hook receives the warning. The default hook prints the warning on
//! stderr; with the feature `tracing`, it is an event.

use std::collections::HashSet;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};

use pytree_base::platform;

/// The subject of a [`Warning`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WarningKind {
    /// A source line builds compiled functions repeatedly, and each of these functions is traced.
    Rebuilt,
    /// A compiled function is traced again in most of its calls.
    Retraced,
    /// A compiled function changes states of its argument but does not return them, so the changes are lost.
    DroppedState,
    /// The gradient of a large table, of which a compiled function reads few rows, is computed as a whole.
    DenseGradient,
    /// The library was built without optimizations. Given once for the process.
    DebugBuild,
}

/// A warning about a program, as the hook receives it. The display of a warning is its message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The subject of the warning.
    pub kind: WarningKind,
    /// The line of the user's program that called the transformation.
    pub line: &'static Location<'static>,
    /// The text of the warning: what happens, where, and how to fix it.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

type Hook = Arc<dyn Fn(&Warning) + Send + Sync>;

/// The user's hook, or `None` for the default hook.
static HOOK: RwLock<Option<Hook>> = RwLock::new(None);

/// The kinds and source lines of the warnings that were given so far.
static GIVEN: LazyLock<Mutex<HashSet<(WarningKind, &'static Location<'static>)>>> =
    LazyLock::new(Mutex::default);

/// Sets the function that receives the warnings of this process. Without a hook, warnings are printed on stderr.
///
/// Each warning is given once for its source line. The hook runs in the thread that causes the warning. No lock is held
/// while the hook runs.
///
/// # Examples
/// ```
/// use pytree_transform::{reset_warning_hook, set_warning_hook};
/// set_warning_hook(|warning| println!("pytree, {:?}: {warning}", warning.kind)); // or to a log
/// set_warning_hook(|_| ()); // no warnings
/// reset_warning_hook(); // on stderr again
/// ```
pub fn set_warning_hook(hook: impl Fn(&Warning) + Send + Sync + 'static) {
    replace(Some(Arc::new(hook)));
}

/// Prints warnings on stderr again; see [`set_warning_hook`].
pub fn reset_warning_hook() {
    replace(None);
}

fn replace(hook: Option<Hook>) {
    let mut current = HOOK.write().unwrap_or_else(PoisonError::into_inner);
    let before = std::mem::replace(&mut *current, hook);
    // Dropping a hook runs code of the user, so hold no lock.
    drop(current);
    drop(before);
}

/// Warns once that the library was built without optimizations, and says how to build it. Does nothing in any other
/// build. Training code calls this function.
#[track_caller]
#[inline]
pub fn warn_of_debug_build() {
    #[cfg(unoptimized)]
    {
        static IS_GIVEN: std::sync::Once = std::sync::Once::new();
        let line = Location::caller();
        IS_GIVEN.call_once(|| {
            warn(WarningKind::DebugBuild, line, || DEBUG_BUILD.to_owned());
        });
    }
}

#[cfg(unoptimized)]
const DEBUG_BUILD: &str = "this is a build without optimizations, in which training takes up to 70 times as long; run with `--release`, or write this in the Cargo.toml of the workspace:
[profile.dev]
opt-level = 1
[profile.dev.package.\"*\"]
opt-level = 3";

/// Gives a warning. Does nothing if a warning of this kind was already given for this line.
pub(crate) fn warn(
    kind: WarningKind,
    line: &'static Location<'static>,
    message: impl FnOnce() -> String,
) {
    let is_first = GIVEN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert((kind, line));
    if !is_first {
        return;
    }
    let message = message();
    let warning = Warning {
        kind,
        line,
        message,
    };
    let hook = HOOK.read().unwrap_or_else(PoisonError::into_inner).clone();
    match hook {
        Some(hook) => hook(&warning),
        None => platform::warn("warning: ", &warning),
    }
}

#[cfg(all(test, unoptimized))]
mod tests {
    use super::*;

    #[test]
    fn debug_build_is_reported_once() {
        let seen: Arc<Mutex<Vec<Warning>>> = Arc::default();
        let hook = Arc::clone(&seen);
        set_warning_hook(move |warning| hook.lock().unwrap().push(warning.clone()));
        for _ in 0..3 {
            warn_of_debug_build();
        }
        reset_warning_hook();
        let mut seen = std::mem::take(&mut *seen.lock().unwrap());
        seen.retain(|warning| warning.kind == WarningKind::DebugBuild);
        assert_eq!(seen.len(), 1);
        let text = &seen[0].message;
        assert!(text.ends_with(
            "\n[profile.dev]\nopt-level = 1\n[profile.dev.package.\"*\"]\nopt-level = 3"
        ));
    }
}
