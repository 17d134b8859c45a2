//! Chooses the instruction set for leaf loops. The default is the widest instruction set of the processor. The alternative
//! is the instruction set that every processor has.
//!
//! A **leaf loop** touches at least some hundred elements, and decides nothing. Only leaf loops are compiled for several instruction
//! sets: what divides work, orders sums and interprets programs is compiled once, and runs leaf loops by [`leaf!`].

use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use pytree_base::bug::bug;
use pytree_base::bug::expect_some;
use pytree_base::platform;

/// The instruction sets for which leaf loops are compiled.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instructions {
    /// Those that every processor has.
    Portable,
    /// AVX2 with fused multiplications.
    V3,
    /// AVX-512.
    V4,
}

/// Returns whether kernels use only instructions that every processor has. The environment variable `PYTREE_PORTABLE=1`
/// selects only these instructions, as wasm always does. With this setting, results are the same on all machines, but kernels are
/// slower.
#[inline]
pub(crate) fn are_portable() -> bool {
    static PORTABLE: OnceLock<bool> = OnceLock::new();
    if cfg!(target_family = "wasm") {
        return true;
    }
    *PORTABLE.get_or_init(|| platform::flag("PYTREE_PORTABLE").unwrap_or(false))
}

/// Returns the instruction set that leaf loops use. The first call detects it.
#[cfg(target_arch = "x86_64")]
#[inline]
fn instructions() -> Instructions {
    static CHOSEN: OnceLock<Instructions> = OnceLock::new();
    macro_rules! has {
        ($($feature:tt)*) => {
            $(std::arch::is_x86_feature_detected!($feature))&&*
        };
    }
    *CHOSEN.get_or_init(|| {
        if are_portable() || !has!("avx2" "fma" "bmi1" "bmi2" "lzcnt" "popcnt") {
            Instructions::Portable
        } else if has!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl") {
            Instructions::V4
        } else {
            Instructions::V3
        }
    })
}

/// Returns whether kernels use fused multiplications. Without instructions for them, they would be very slow.
#[inline]
pub(crate) fn have_fused() -> bool {
    #[cfg(target_arch = "x86_64")]
    return instructions() != Instructions::Portable;
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64") && !are_portable();
}

/// Returns whether the instruction set has 32 vector registers, and not only 16.
#[inline]
pub(crate) fn have_many_registers() -> bool {
    #[cfg(target_arch = "x86_64")]
    return instructions() == Instructions::V4;
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

/// Runs a leaf loop, which is compiled for each instruction set, with the instruction set that was chosen.
///
/// The loop calls nothing but functions with `#[inline(always)]`, and simple methods of slices and numbers, because code that is not
/// inlined is compiled without wide instructions. Whether the compiler inlines `array::from_fn`, `array::map` or a long closure depends
/// on the profile.
macro_rules! leaf {
    ($($body:tt)*) => {
        $crate::base::instructions::run_leaf(
            #[inline(always)]
            move || {
                $($body)*
            },
        )
    };
}
pub(crate) use leaf;

/// Returns the elements of a slice from a position on. A leaf loop cannot call `copy_from_slice`, which is not always inlined.
#[inline(always)]
pub(crate) fn load<T: Copy, const N: usize>(elements: &[T], at: usize) -> [T; N] {
    let found = elements[at..].first_chunk();
    *expect_some(found, WHOLE_BLOCK)
}

/// Returns the elements of a slice from a position on, and zeros after the last one.
#[cold]
#[inline(never)]
pub(crate) fn padded<T: Copy + Default, const N: usize>(elements: &[T], at: usize) -> [T; N] {
    let mut block = [T::default(); N];
    for (to, from) in block.iter_mut().zip(&elements[at..]) {
        *to = *from;
    }
    block
}

/// Writes elements of a slice from a position on.
#[inline(always)]
pub(crate) fn store<T: Copy, const N: usize>(elements: &mut [T], at: usize, block: [T; N]) {
    let found = elements[at..].first_chunk_mut();
    *expect_some(found, WHOLE_BLOCK) = block;
}

/// The expected size of a slice, as text for the panic message of a library bug.
const WHOLE_BLOCK: &str = "a whole block of elements";

/// Runs a leaf loop on elements of type `$element`, as [`leaf!`] does for the types whose loops are compiled for several instruction sets.
macro_rules! leaf_of {
    ($element:ty => $($body:tt)*) => {
        $crate::base::instructions::leaf_if! {
            <$element as $crate::base::dtype::ArrayElement>::HAS_WIDE_LOOPS => $($body)*
        }
    };
}
pub(crate) use leaf_of;

/// Runs a leaf loop as [`leaf!`] does if the constant `$is_wide` is true. Otherwise, the loop is compiled once.
macro_rules! leaf_if {
    ($is_wide:expr => $($body:tt)*) => {
        if const { $is_wide } {
            $crate::base::instructions::leaf! { $($body)* }
        } else {
            $($body)*
        }
    };
}
pub(crate) use leaf_if;

/// Runs a leaf loop of fused multiplications, as [`leaf!`] does. The caller has asked [`have_fused`], so the loop is not compiled without
/// instructions for them.
macro_rules! fused_leaf {
    ($($body:tt)*) => {
        $crate::base::instructions::run_fused_leaf(
            #[inline(always)]
            move || {
                $($body)*
            },
        )
    };
}
pub(crate) use fused_leaf;

/// Runs the body of [`leaf!`].
#[inline]
pub(crate) fn run_leaf<R>(body: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if have_fused() {
        return run_fused_leaf(body);
    }
    body()
}

/// Runs the body of [`fused_leaf!`].
#[cfg(target_arch = "x86_64")]
#[allow(
    unsafe_code,
    reason = "the instruction set is chosen from those that the processor has"
)]
pub(crate) fn run_fused_leaf<R>(body: impl FnOnce() -> R) -> R {
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
    fn v3<R>(body: impl FnOnce() -> R) -> R {
        body()
    }

    #[target_feature(
        enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
    )]
    fn v4<R>(body: impl FnOnce() -> R) -> R {
        body()
    }

    match instructions() {
        // SAFETY: the processor has these instructions.
        Instructions::V4 => unsafe { v4(body) },
        // SAFETY: the processor has these instructions.
        Instructions::V3 => unsafe { v3(body) },
        Instructions::Portable => bug("instructions for fused multiplications"),
    }
}

/// Runs the body of [`fused_leaf!`]. The compiler knows the only instruction set.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn run_fused_leaf<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// A function that is prepared once and called many times. If it is a leaf loop, its instruction set is chosen when it is prepared.
pub(crate) struct Prepared<A>(Box<dyn Call<A>>);

trait Call<A>: Send {
    /// # Safety
    /// The processor has the instructions for which this is compiled.
    #[allow(unsafe_code, reason = "the caller promises the instruction set")]
    unsafe fn call(&mut self, argument: &mut A);
}

/// Implements [`Call`] for functions that are compiled for an instruction set.
macro_rules! compiled_for {
    ($($(#[$attribute:meta])* $name:ident)*) => {$(
        #[allow(dead_code, reason = "not every architecture has all")]
        struct $name<F>(F);

        #[allow(unsafe_code, reason = "the trait has a condition")]
        impl<A, F: FnMut(&mut A) + Send> Call<A> for $name<F> {
            $(#[$attribute])*
            unsafe fn call(&mut self, argument: &mut A) {
                (self.0)(argument);
            }
        }
    )*};
}
compiled_for! {
    Portable
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt"))]
    V3
    #[cfg_attr(target_arch = "x86_64", target_feature(
        enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
    ))]
    V4
}

impl<A> Prepared<A> {
    /// Prepares a function that decides something, or calls something.
    pub(crate) fn new(function: impl FnMut(&mut A) + Send + 'static) -> Self {
        Self(Box::new(Portable(function)))
    }

    /// Prepares a leaf loop: a closure with `#[inline(always)]` that calls only what [`leaf!`] may call.
    pub(crate) fn leaf(function: impl FnMut(&mut A) + Send + 'static) -> Self {
        #[cfg(target_arch = "x86_64")]
        match instructions() {
            Instructions::V4 => return Self(Box::new(V4(function))),
            Instructions::V3 => return Self(Box::new(V3(function))),
            Instructions::Portable => {}
        }
        Self::new(function)
    }

    #[inline]
    #[allow(
        unsafe_code,
        reason = "the instruction set is chosen from those that the processor has"
    )]
    pub(crate) fn call(&mut self, argument: &mut A) {
        // SAFETY: the processor has the instructions that were chosen.
        unsafe { self.0.call(argument) }
    }
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;

    /// The system says what the processor has.
    #[test]
    fn widest_instructions_are_chosen() {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = text.lines().find(|line| line.starts_with("flags")).unwrap();
        let has = |names: &str| {
            names
                .split(' ')
                .all(|it| flags.split(' ').any(|flag| flag == it))
        };
        let expected = if are_portable() || !has("avx2 fma bmi1 bmi2 abm popcnt") {
            Instructions::Portable
        } else if has("avx512f avx512bw avx512cd avx512dq avx512vl") {
            Instructions::V4
        } else {
            Instructions::V3
        };
        assert_eq!(instructions(), expected);
    }
}
