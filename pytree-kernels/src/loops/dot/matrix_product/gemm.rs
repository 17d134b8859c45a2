//! Products of `f32` and `f64` by the kernels of the crate `gemm`.

use super::loops::Loops;
use super::stored::Write;
use crate::base::target::Target;

/// Returns whether the offsets of all positions on two axes are below `elements`. Each axis is given by its length and
/// stride. If the result is true, a kernel may omit the bounds checks.
fn within(elements: usize, axes: [(usize, usize); 2]) -> bool {
    let last = axes
        .into_iter()
        .try_fold(0_usize, |last, (length, stride)| {
            last.checked_add(length.checked_sub(1)?.checked_mul(stride)?)
        });
    last.is_some_and(|last| last < elements)
}

macro_rules! gemm_product {
    ($float:ty, $product:ident, $gemm:path) => {
        /// Writes a matrix product to `target` with a kernel of the crate `gemm`.
        #[allow(unsafe_code, reason = "the kernels of gemm take pointers")]
        pub(super) fn $product(
            loops: &Loops,
            left: &[$float],
            right: &[$float],
            target: Target<'_, $float>,
            write: Write,
        ) {
            let Loops {
                rows,
                columns,
                depth,
                ..
            } = *loops;
            assert!(
                within(
                    left.len(),
                    [(rows.length, rows.left), (depth.length, depth.left)]
                ) && within(
                    right.len(),
                    [(depth.length, depth.right), (columns.length, columns.right)]
                ) && within(
                    target.elements(),
                    [(rows.length, rows.result), (columns.length, columns.result)]
                ),
                "this is a bug in pytree: expected a matrix product whose positions are inside its operands; please report it"
            );
            let stride = usize::cast_signed;
            let left = (left.as_ptr(), stride(depth.left), stride(rows.left), rows);
            let right = (
                right.as_ptr(),
                stride(depth.right),
                stride(columns.right),
                columns,
            );
            // The kernels expect a result in which neighbouring rows are neighbours in memory. If neighbouring
            // columns are neighbours in memory instead, multiply the transposed operands to get the transposed
            // product.
            let (first, second) = if columns.result == 1 {
                (right, left)
            } else {
                (left, right)
            };
            let (down, across) = (first.3, second.3);
            // SAFETY: the assertion above keeps all reads and writes within the operands and the target. The target
            // does not overlap an operand, since it is borrowed mutably, and no other part of the product writes to
            // the positions of these loops.
            unsafe {
                $gemm()(
                    down.length,
                    across.length,
                    depth.length,
                    target.first(),
                    stride(across.result),
                    stride(down.result),
                    write == Write::Add,
                    first.0,
                    first.1,
                    first.2,
                    second.0,
                    second.2,
                    second.1,
                    1.0,
                    1.0,
                    false,
                    false,
                    false,
                    gemm_common::Parallelism::None,
                );
            }
        }
    };
}
gemm_product!(f32, gemm_f32_product, gemm_f32::gemm::f32::get_gemm_fn);
gemm_product!(f64, gemm_f64_product, gemm_f64::gemm::f64::get_gemm_fn);
