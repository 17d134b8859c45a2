//! Which instructions kernels are run with: the widest that the processor has, or those that every one has.

use std::sync::OnceLock;

/// The instructions to run with, found out once. `PYTREE_PORTABLE=1` in the environment asks for those that
/// every processor has: results are then the same on all machines of one word size, and slower.
pub(crate) fn arch() -> pulp::Arch {
    static ARCH: OnceLock<pulp::Arch> = OnceLock::new();
    *ARCH.get_or_init(|| {
        if std::env::var_os("PYTREE_PORTABLE").is_some_and(|value| value == "1") {
            pulp::Arch::Scalar
        } else {
            pulp::Arch::new()
        }
    })
}

/// Whether only the instructions that every processor has are to be used.
pub(crate) fn are_portable() -> bool {
    matches!(arch(), pulp::Arch::Scalar)
}
