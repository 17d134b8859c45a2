//! The condition under which operations call the host.
//!
//! Under `vmap`, the branches of a `cond` run for all examples, and so does a loop until the last example has ended. An effect must
//! run only for the examples that reach it. So the batching rules apply such a function [`under`] a condition: every operation that
//! may call the host gets the condition as an operand. All other operations are unchanged.
//!
//! A recording has no condition: the equation that calls the recorded function gets it.

use std::cell::Cell;

use crate::tensor::handle::Tensor;
use crate::tensor::trace::levels::INNERMOST;

/// The condition of a scope, or `None` if its operations never call the host.
#[derive(Clone)]
pub(super) struct Condition(pub(super) Option<Tensor>);

/// A condition, and the innermost trace level when it began. The rules of this level are below the condition.
struct Scope {
    condition: Condition,
    level: Option<usize>,
}

thread_local! {
    /// Whether there is a scope, which each operation asks.
    static HAS_SCOPE: Cell<bool> = const { Cell::new(false) };
}

pytree_core::per_thread! {
    static SCOPE: Option<Scope> = None;
}

fn replace(scope: Option<Scope>) -> Option<Scope> {
    HAS_SCOPE.set(scope.is_some());
    SCOPE.replace(scope)
}

/// A guard that restores the condition of the enclosing code.
pub(crate) struct Restore(Option<Scope>);

impl Drop for Restore {
    fn drop(&mut self) {
        replace(self.0.take());
    }
}

/// Runs a function whose operations call the host only if `condition` is true. If `condition` is `None`, they never do, because the
/// calls have been made. See [`bind_under`](crate::tensor::primitive::Primitive::bind_under).
pub(crate) fn under<R>(condition: Option<&Tensor>, run: impl FnOnce() -> R) -> R {
    let scope = Scope {
        condition: Condition(condition.cloned()),
        level: INNERMOST.get(),
    };
    let _restore = Restore(replace(Some(scope)));
    run()
}

/// Suspends the condition until the guard is dropped.
pub(crate) fn suspended() -> Restore {
    Restore(replace(None))
}

/// Returns the condition of the running code, or `None` outside of every scope.
pub(super) fn current() -> Option<Condition> {
    if !HAS_SCOPE.get() {
        return None;
    }
    SCOPE.with_borrow(|scope| {
        let scope = scope.as_ref()?;
        (INNERMOST.get() >= scope.level).then(|| scope.condition.clone())
    })
}
