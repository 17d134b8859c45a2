//! The element types of products, and the kernel of each.

use half::{bf16, f16};

use super::half::{Widened, half_product};
use super::loops::{Kernel, Loops};
use super::portable::portable_product;
use super::thin::{Fused, thin_parts, thin_product};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::tiles;
use super::{Part, Write};
use crate::base::dtype::ArrayElement;
use crate::base::instructions::{are_portable, have_fused};
use crate::base::narrow::{Half, narrow_bf16, narrow_f16, widen_bf16, widen_f16};
use crate::base::target::Target;

/// An element type of the operands of products.
pub(crate) trait Stored: ArrayElement + Send + Sync {
    /// The type in which products are summed.
    type Sum: Factor;

    /// Whether this is a half-precision float type.
    const IS_HALF: bool = false;

    /// Whether products with few rows or columns widen elements in registers, which is slow for f16.
    const IS_READ: bool = true;

    /// Returns the element as a number of the type of sums.
    fn wide(self) -> Self::Sum;

    /// Returns a sum as an element.
    fn rounded(sum: Self::Sum) -> Self;

    /// Returns elements as numbers of the type of sums, if they are such.
    fn sums(elements: &[Self]) -> Option<&[Self::Sum]>;

    /// Writes elements as numbers of the type of sums.
    fn widen(elements: &[Self], numbers: &mut [Self::Sum]);

    /// Writes sums as elements.
    fn narrow(sums: &[Self::Sum], elements: &mut [Self]);

    /// Writes the product of two matrices, whose strides are in the axes of `loops`, to `target`.
    fn matrix_product(
        loops: &Loops,
        left: &[Self],
        right: &[Self],
        target: Target<'_, Self>,
        write: Write,
    );

    /// Divides a matrix product among at most `count` threads by its terms. Returns the target if they should divide its rows or
    /// columns.
    fn parts_of_terms<'a>(
        _: &Loops,
        _: &'a [Self],
        _: &'a [Self],
        target: Target<'a, Self>,
        _: usize,
    ) -> Result<Vec<Part<'a>>, Target<'a, Self>> {
        Err(target)
    }
}

/// An element type in which products are summed.
pub(crate) trait Factor: Stored<Sum = Self> {
    /// Returns `self` plus the product of `left` and `right`.
    fn plus_product(self, left: Self, right: Self) -> Self;

    /// Returns the sum of two elements.
    fn plus(self, other: Self) -> Self;
}

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

/// Writes a product of floats to `target`. `product` multiplies if neither a few rows or columns nor a plain loop is faster.
fn float_product<E: Stored<Sum: Fused>>(
    loops: &Loops,
    left: &[E],
    right: &[E],
    target: Target<'_, E>,
    write: Write,
    product: fn(&Loops, &[E], &[E], Target<'_, E>, Write),
) {
    match loops.kernel() {
        _ if are_portable() => portable_product(loops, left, right, target, write),
        Kernel::Thin if have_fused() => thin_product(loops, left, right, target, write),
        Kernel::Plain | Kernel::Thin => plain_product(loops, left, right, target, write),
        _ => product(loops, left, right, target, write),
    }
}

/// The products of a float type, of which `$product` multiplies matrices that are neither small nor thin.
macro_rules! float_products {
    ($product:expr) => {
        fn matrix_product(
            loops: &Loops,
            left: &[Self],
            right: &[Self],
            target: Target<'_, Self>,
            write: Write,
        ) {
            float_product(loops, left, right, target, write, $product);
        }

        fn parts_of_terms<'a>(
            loops: &Loops,
            left: &'a [Self],
            right: &'a [Self],
            target: Target<'a, Self>,
            count: usize,
        ) -> Result<Vec<Part<'a>>, Target<'a, Self>> {
            if have_fused() {
                thin_parts(loops, left, right, target, count)
            } else {
                Err(target)
            }
        }
    };
}

macro_rules! float_factor {
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

        impl Stored for $float {
            type Sum = Self;

            #[inline(always)]
            fn wide(self) -> Self {
                self
            }
            #[inline(always)]
            fn rounded(sum: Self) -> Self {
                sum
            }
            fn sums(elements: &[Self]) -> Option<&[Self]> {
                Some(elements)
            }
            fn widen(elements: &[Self], numbers: &mut [Self]) {
                numbers.copy_from_slice(elements);
            }
            fn narrow(sums: &[Self], elements: &mut [Self]) {
                elements.copy_from_slice(sums);
            }
            float_products!($product);
        }

        impl Factor for $float {
            #[inline(always)]
            fn plus_product(self, left: Self, right: Self) -> Self {
                self + left * right
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
        }
    };
}
float_factor!(f32, gemm_f32_product, gemm_f32::gemm::f32::get_gemm_fn);
float_factor!(f64, gemm_f64_product, gemm_f64::gemm::f64::get_gemm_fn);

macro_rules! half_stored {
    ($half:ident, $of:expr, $is_read:expr, $widen:path, $narrow:path, $product:expr) => {
        impl Stored for $half {
            type Sum = f32;

            const IS_HALF: bool = true;
            const IS_READ: bool = $is_read;

            #[inline(always)]
            fn wide(self) -> f32 {
                $widen(self.to_bits())
            }
            #[inline(always)]
            fn rounded(sum: f32) -> Self {
                Self::from_bits($narrow(sum))
            }
            fn sums(_: &[Self]) -> Option<&[f32]> {
                None
            }
            fn widen(elements: &[Self], numbers: &mut [f32]) {
                $of.widen(bytemuck::cast_slice(elements), numbers);
            }
            fn narrow(sums: &[f32], elements: &mut [Self]) {
                $of.narrow(sums, bytemuck::cast_slice_mut(elements));
            }
            float_products!($product);
        }
    };
}
half_stored!(
    bf16,
    Half::BF16,
    true,
    widen_bf16,
    narrow_bf16,
    bf16_product
);
half_stored!(
    f16,
    Half::F16,
    false,
    widen_f16,
    narrow_f16,
    half_product::<Widened<f16>, f16>
);

/// Writes a matrix product to `target`.
fn bf16_product(
    loops: &Loops,
    left: &[bf16],
    right: &[bf16],
    target: Target<'_, bf16>,
    write: Write,
) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(product) = tiles::product() {
        let [left, right] = [left, right].map(bytemuck::cast_slice);
        return product(loops, left, right, target, write);
    }
    half_product::<Widened<bf16>, _>(loops, left, right, target, write);
}

impl Write {
    /// Writes a sum to an element.
    #[inline]
    pub(super) fn sum<T: Stored>(self, sum: T::Sum, element: &mut T) {
        *element = match self {
            Self::Overwrite => T::rounded(sum),
            Self::Add => T::rounded(element.wide().plus(sum)),
        };
    }

    /// Writes sums to elements of `target`, which are `stride` apart.
    pub(super) fn sums<T: Stored>(self, sums: &[T::Sum], mut target: Target<'_, T>, stride: usize) {
        if stride == 1 && self == Self::Overwrite {
            return T::narrow(sums, target.slice_mut(0, sums.len()));
        }
        for (at, &sum) in sums.iter().enumerate() {
            self.sum(sum, &mut target.slice_mut(at * stride, 1)[0]);
        }
    }
}

/// Computes a product of integers, or a product that is too small for other kernels.
pub(super) fn plain_product<T: Stored>(
    loops: &Loops,
    left: &[T],
    right: &[T],
    mut target: Target<'_, T>,
    write: Write,
) {
    let Loops {
        rows,
        columns,
        depth,
        ..
    } = *loops;
    for row in 0..rows.length {
        for column in 0..columns.length {
            let mut sum = T::Sum::default();
            for step in 0..depth.length {
                let factor = left[row * rows.left + step * depth.left];
                let other = right[step * depth.right + column * columns.right];
                sum = sum.plus_product(factor.wide(), other.wide());
            }
            let position = row * rows.result + column * columns.result;
            write.sum(sum, &mut target.slice_mut(position, 1)[0]);
        }
    }
}

macro_rules! integer_factor {
    ($($integer:ty),*) => {$(
        impl Factor for $integer {
            #[inline]
            fn plus_product(self, left: Self, right: Self) -> Self {
                self.wrapping_add(left.wrapping_mul(right))
            }
            #[inline]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }

        impl Stored for $integer {
            type Sum = Self;

            #[inline]
            fn wide(self) -> Self {
                self
            }
            #[inline]
            fn rounded(sum: Self) -> Self {
                sum
            }
            fn sums(elements: &[Self]) -> Option<&[Self]> {
                Some(elements)
            }
            fn widen(elements: &[Self], numbers: &mut [Self]) {
                numbers.copy_from_slice(elements);
            }
            fn narrow(sums: &[Self], elements: &mut [Self]) {
                elements.copy_from_slice(sums);
            }
            fn matrix_product(
                loops: &Loops,
                left: &[Self],
                right: &[Self],
                target: Target<'_, Self>,
                write: Write,
            ) {
                plain_product(loops, left, right, target, write);
            }
        }
    )*};
}
integer_factor!(i32, i64, u32);
