//! The checked functions that run on this thread, with the lengths of their names.
//!
//! An operation inside of a checked function knows the lengths of its operands' axes, and does not know the names of
//! these axes. If the operation fails, its error also shows the names of the innermost checked function with their
//! lengths. This module provides these names.

use std::cell::RefCell;
use std::fmt::Write as _;

use super::bindings::Bound;
use super::capture;
use super::scope::Scope;
use crate::base::text::short_name;

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack { names: Vec::new(), frames: Vec::new() }) };
}

struct Stack {
    names: Vec<Bound<usize>>,
    frames: Vec<Frame>,
}

/// A checked function that is running.
struct Frame {
    function: &'static str,
    /// Returns the name of the type whose method is running. The name is `()` for a function without `self`.
    module: fn() -> &'static str,
    /// The index in [`Stack::names`] of the function's first name.
    first: usize,
}

/// A guard of a running checked function. The function counts as running until the guard is dropped.
#[doc(hidden)]
#[derive(Debug)]
#[must_use = "the function runs until the guard is dropped"]
pub struct Running {
    /// Whether the result is captured.
    is_captured: bool,
}

impl Running {
    /// Records that a method of a module runs. If the name of the module is `()`, a function without `self` runs.
    pub(crate) fn enter(
        module: fn() -> &'static str,
        function: &'static str,
        scope: &Scope,
    ) -> Self {
        with_stack(|stack| {
            stack.frames.push(Frame {
                function,
                module,
                first: stack.names.len(),
            });
            stack.names.extend_from_slice(&scope.bindings.lengths);
        });
        let is_captured = scope.captures();
        if is_captured {
            capture::begin(module, function, scope.array());
        }
        Self { is_captured }
    }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        if self.is_captured {
            capture::end();
        }
        with_stack(|stack| {
            if let Some(frame) = stack.frames.pop() {
                stack.names.truncate(frame.first);
            }
        });
    }
}

/// Calls a function with the stack of this thread. Returns `None` if the thread is ending and has dropped its stack.
/// This happens if the destructor of another thread-local value calls a checked function.
#[inline]
fn with_stack<R>(function: impl FnOnce(&mut Stack) -> R) -> Option<R> {
    STACK
        .try_with(|stack| function(&mut stack.borrow_mut()))
        .ok()
}

/// Returns the name of a module and the name of its function: `Linear::forward`.
pub(crate) fn name_of_function(module: &str, function: &str) -> String {
    match short_name(module).as_str() {
        "()" => function.to_owned(),
        module => format!("{module}::{function}"),
    }
}

/// Returns the innermost checked function that runs on this thread, with the lengths of its names:
/// `in Linear::forward, batch = 32 (from x), in = 64 (from weight)`. Returns `None` if no name has a length.
#[doc(hidden)]
#[cold]
pub fn describe_running() -> Option<String> {
    with_stack(|stack| {
        let frame = stack.frames.last()?;
        let names = stack.names.get(frame.first..)?;
        let mut text = format!("in {}", name_of_function((frame.module)(), frame.function));
        for bound in names {
            let _ = write!(text, ", {} = {}", bound.name, bound.value);
            if bound.label() != bound.name {
                let _ = write!(text, " (from {})", bound.label());
            }
        }
        (!names.is_empty()).then_some(text)
    })?
}
