//! Chooses the instruction set for kernels. The default is the widest instruction set of the processor. The alternative
//! is the instruction set that every processor has.

use std::sync::OnceLock;

use pytree_base::platform;

use crate::base::dtype::ArrayElement;

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

/// Returns the instruction set that kernels use. The first call detects the instruction set.
///
/// Dispatch a struct that implements [`pulp::WithSimd`]. Mark its `with_simd` and all functions that `with_simd` calls
/// with `#[inline(always)]`, because code that is not inlined is compiled without wide instructions. The compiler does
/// not inline large closures, or iterators of the standard library that are used at several places.
#[inline]
pub(crate) fn arch() -> pulp::Arch {
    static ARCH: OnceLock<pulp::Arch> = OnceLock::new();
    // Known when the kernels are compiled, such that a web page does not have those for other instruction sets.
    if cfg!(target_family = "wasm") {
        return pulp::Arch::Scalar;
    }
    *ARCH.get_or_init(|| {
        if are_portable() {
            pulp::Arch::Scalar
        } else {
            pulp::Arch::new()
        }
    })
}

/// Returns whether kernels use fused multiplications. Without instructions for them, they would be very slow.
#[inline]
pub(crate) fn have_fused() -> bool {
    !matches!(arch(), pulp::Arch::Scalar)
}

/// Runs a kernel with the instruction set that kernels use for elements of type `T`, as [`arch`] does for the types whose
/// loops are compiled for several instruction sets.
#[inline]
pub(crate) fn dispatch<T: ArrayElement, K: pulp::WithSimd>(kernel: K) -> K::Output {
    if T::HAS_WIDE_LOOPS {
        arch().dispatch(kernel)
    } else {
        kernel.with_simd(pulp::Scalar::new())
    }
}

// The test names instruction sets that only x86-64 has.
#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn widest_instructions_are_chosen() {
        // Each instruction set is a feature of the crate `pulp`. Without this feature, processors with the instruction
        // set would run slower code.
        let expected = if are_portable() {
            "Scalar"
        } else if pulp::x86::V4::try_new().is_some() {
            "V4"
        } else if pulp::x86::V3::try_new().is_some() {
            "V3"
        } else {
            "Scalar"
        };
        let chosen = format!("{:?}", arch());
        assert!(
            chosen.starts_with(expected),
            "{chosen} instead of {expected}"
        );
    }
}
