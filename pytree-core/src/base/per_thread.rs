//! Variables of a thread that can also be used while the thread ends.
//!
//! The standard library destroys the variables of a thread one after another. A destructor may use a variable that is
//! already destroyed: a user's `thread_local!` holds a value whose `drop` calls a compiled function, for example. A
//! [`PerThread`] then continues with a second variable, which is never destroyed.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::thread::LocalKey;

/// A variable of each thread. Create it with `per_thread!`.
#[derive(Debug)]
pub struct PerThread<T: 'static> {
    usual: &'static LocalKey<RefCell<T>>,
    late: &'static LocalKey<ManuallyDrop<RefCell<T>>>,
}

impl<T: 'static> PerThread<T> {
    #[doc(hidden)]
    pub const fn new(
        usual: &'static LocalKey<RefCell<T>>,
        late: &'static LocalKey<ManuallyDrop<RefCell<T>>>,
    ) -> Self {
        Self { usual, late }
    }

    /// Calls `function` with the variable of this thread.
    #[inline]
    pub fn with<R>(&self, function: impl FnOnce(&RefCell<T>) -> R) -> R {
        let mut function = Some(function);
        let mut call = |variable: &RefCell<T>| function.take().map(|function| function(variable));
        let usual = self.usual.try_with(&mut call);
        let called = usual.unwrap_or_else(|_| self.late.with(|late| call(late)));
        pytree_base::bug::expect_some(
            called,
            "one call of a function with the variable of a thread",
        )
    }

    /// Calls `function` with a borrow of the variable of this thread.
    #[inline]
    pub fn with_borrow<R>(&self, function: impl FnOnce(&T) -> R) -> R {
        self.with(|variable| function(&variable.borrow()))
    }

    /// Calls `function` with a mutable borrow of the variable of this thread.
    #[inline]
    pub fn with_borrow_mut<R>(&self, function: impl FnOnce(&mut T) -> R) -> R {
        self.with(|variable| function(&mut variable.borrow_mut()))
    }

    /// Replaces the variable of this thread, and returns its old value.
    #[inline]
    pub fn replace(&self, value: T) -> T {
        self.with(|variable| variable.replace(value))
    }
}

/// Defines a [`PerThread`](crate::per_thread::PerThread) like `thread_local!`, with a constant initial value.
#[macro_export]
#[doc(hidden)]
macro_rules! per_thread {
    ($(#[$attributes:meta])* static $name:ident: $type:ty = $value:expr;) => {
        $(#[$attributes])*
        static $name: $crate::per_thread::PerThread<$type> = {
            use ::std::{cell::RefCell, mem::ManuallyDrop};
            ::std::thread_local! {
                static USUAL: RefCell<$type> = const { RefCell::new($value) };
                static LATE: ManuallyDrop<RefCell<$type>> =
                    const { ManuallyDrop::new(RefCell::new($value)) };
            }
            $crate::per_thread::PerThread::new(&USUAL, &LATE)
        };
    };
}
