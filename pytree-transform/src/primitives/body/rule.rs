//! The derivative rule that a user supplied. The rule is recorded when it is first needed.
//!
//! It runs when its function is differentiated, once for each order of differentiation, because a rule may call its own function. A
//! rule may have captured tensors of a transformation that has finished by then: see `stand_ins`.

use std::fmt;
use std::sync::OnceLock;

use crate::primitives::body::Linearized;

/// A derivative rule that maps tangents of all float arguments to tangents of all float results.
///
/// The rule runs once, when the function is first differentiated. The rule does not run when the function is recorded,
/// because the function may never be differentiated, and because the rule may call the function itself.
pub(crate) struct Rule {
    recorded: OnceLock<Linearized>,
    record: Option<Box<dyn Fn() -> Linearized + Send + Sync>>,
}

impl Rule {
    /// Creates a rule that is already recorded.
    pub(crate) fn recorded(split: Linearized) -> Self {
        Self {
            recorded: OnceLock::from(split),
            record: None,
        }
    }

    /// Creates a rule that is recorded by a call of `record` when it is first needed.
    pub(crate) fn when_needed(record: impl Fn() -> Linearized + Send + Sync + 'static) -> Self {
        Self {
            recorded: OnceLock::new(),
            record: Some(Box::new(record)),
        }
    }

    /// Returns the recorded rule. Records the rule first if necessary.
    pub(crate) fn get(&self) -> &Linearized {
        match (self.recorded.get(), &self.record) {
            (None, Some(record)) => {
                // No lock is held while the user's rule runs.
                let split = record();
                self.recorded.get_or_init(|| split)
            }
            (recorded, _) => pytree_base::bug::expect_some(recorded, "the rule to have run"),
        }
    }

    /// Returns the recorded rule, or `None` if it is not recorded yet.
    pub(crate) fn known(&self) -> Option<&Linearized> {
        self.recorded.get()
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rule").field(&self.recorded).finish()
    }
}
