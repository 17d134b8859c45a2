//! Where the NaNs and infinities of arrays began, while results are checked.
//!
//! A NaN is often reported long after the operation that is to blame: in a backward pass, an infinity times zero. So each thread
//! remembers the operation in which the NaNs or infinities of an array began, by the address of the array's elements. An operation
//! whose operands have them hands their origin on. Every checked result replaces what was known of its address. An array that a program
//! makes of its own data is no result: at the address of freed memory, only its number of elements tells it apart.

use std::collections::HashMap;
use std::fmt;
use std::panic::Location;

use pytree_kernels::base::array::Array;
use pytree_kernels::base::bits::with_bits;

/// The number of addresses that a thread remembers. Beyond it, the thread forgets all of them.
const MANY: usize = 1 << 14;

/// An operation, at the line of the user's program that called it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) operation: &'static str,
    pub(super) line: &'static Location<'static>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` at {}", self.operation, self.line)
    }
}

/// The operations in which the NaNs and the infinities of an array began. `None` if it has none, or if their origin is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Origins {
    pub(super) nans: Option<Origin>,
    pub(super) infs: Option<Origin>,
}

#[derive(Default)]
struct Known {
    /// The origins by address, with the number of elements of the array.
    of_address: HashMap<usize, (usize, Origins)>,
    /// The newest origins, which also are those of a loop whose body ran last.
    newest: Origins,
}

pytree_core::per_thread! {
    static KNOWN: Option<Known> = None;
}

fn address(array: &Array) -> usize {
    with_bits!(array.dtype(), T => array.bits::<T>().as_ptr().addr())
}

impl Origins {
    /// Returns the origins of the NaNs and infinities of an operand.
    pub(super) fn of(array: &Array) -> Self {
        KNOWN
            .with_borrow(|known| {
                let (length, origins) = known.as_ref()?.of_address.get(&address(array))?;
                (*length == array.info.len()).then_some(*origins)
            })
            .unwrap_or_default()
    }

    /// Returns the origins that began last on this thread.
    pub(super) fn newest() -> Self {
        KNOWN.with_borrow(|known| known.as_ref().map(|known| known.newest).unwrap_or_default())
    }

    /// Remembers the origins of a result.
    pub(super) fn remember(self, result: &Array) {
        KNOWN.with_borrow_mut(|known| {
            let known = known.get_or_insert_default();
            let address = address(result);
            if self.nans.is_none() && self.infs.is_none() {
                known.of_address.remove(&address);
                return;
            }
            if known.of_address.len() >= MANY {
                known.of_address.clear();
            }
            known.newest = Self {
                nans: self.nans.or(known.newest.nans),
                infs: self.infs.or(known.newest.infs),
            };
            known.of_address.insert(address, (result.info.len(), self));
        });
    }
}
