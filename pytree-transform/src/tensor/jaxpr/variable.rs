//! The variables of a jaxpr.

use pytree_base::bug::bug;

/// A variable of a jaxpr, identified by its position in the list of all variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Variable(pub(crate) u32);

impl Variable {
    /// Returns the variable at a position in the list of all variables. The position fits into 32 bits, because 2^32
    /// variables would need over 100 GB.
    pub(crate) fn at(position: usize) -> Self {
        match u32::try_from(position) {
            Ok(position) => Self(position),
            Err(_) => bug(format_args!(
                "fewer than 2^32 variables in a jaxpr, found {position}"
            )),
        }
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}
