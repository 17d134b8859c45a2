//! The element types of products, and the kernel of each.

use half::{bf16, f16};

use super::gemm::{gemm_f32_product, gemm_f64_product};
use super::half::{Widened, half_product};
use super::loops::{Kernel, Loops};
use super::plain::plain_product;
use super::portable::portable_product;
use super::stored::{Factor, Part, Stored, Write};
use super::thin::fused::Fused;
use super::thin::{thin_parts, thin_product};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::tiles;
use crate::base::instructions::{are_portable, have_fused};
use crate::base::narrow::{Half, narrow_bf16, narrow_f16, widen_bf16, widen_f16};
use crate::base::target::Target;

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
    ($float:ty, $product:path) => {
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
float_factor!(f32, gemm_f32_product);
float_factor!(f64, gemm_f64_product);

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
