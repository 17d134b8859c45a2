//! Products of matrices in slices, for the kernels of other crates.

use crate::base::dtype::ArrayElement;
use crate::base::threads;
use crate::loops::dot::matrix_product::{Factor, Loops, multiply};

/// Where the elements of a matrix are in a slice: element `[i, j]` is at the position `i * rows + j * columns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strides {
    /// The distance between neighbouring elements of a column.
    pub rows: usize,
    /// The distance between neighbouring elements of a row.
    pub columns: usize,
}

impl Strides {
    /// Returns the strides of a matrix in row-major order with a number of columns.
    pub fn row_major(columns: usize) -> Self {
        Self {
            rows: columns,
            columns: 1,
        }
    }

    /// Returns the strides of the transposed matrix in the same slice.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
        }
    }

    /// Returns the position of an element.
    pub fn offset(self, row: usize, column: usize) -> usize {
        row * self.rows + column * self.columns
    }
}

mod sealed {
    use super::Strides;

    pub trait Product: Sized {
        fn product(
            lengths: [usize; 3],
            left: (&[Self], Strides),
            right: (&[Self], Strides),
            target: &mut [Self],
        );
    }
}

/// An element type that has kernels of matrix products: `f32` or `f64`.
pub trait ProductElement: ArrayElement + sealed::Product {}

macro_rules! matrix_element {
    ($($float:ident)*) => {
        $(
            impl sealed::Product for $float {
                fn product(
                    lengths: [usize; 3],
                    left: (&[Self], Strides),
                    right: (&[Self], Strides),
                    target: &mut [Self],
                ) {
                    product(lengths, left, right, target);
                }
            }

            impl ProductElement for $float {}
        )*
    };
}

matrix_element!(f32 f64);

/// Writes the product of two matrices with the kernels and the threads of the library. `lengths` is
/// `[rows, columns, depth]`: the left matrix has `rows` rows and `depth` columns, the right one has `depth` rows and
/// `columns` columns. `target` is the product in row-major order.
///
/// The bits of the product depend neither on the number of threads nor on the strides of the operands.
///
/// # Panics
/// Panics if an element of an operand is outside of its slice, or if `target` does not have `rows * columns` elements.
///
/// # Examples
/// ```
/// use pytree_kernels::loops::dot::slices::{Strides, matrix_product};
/// let (left, right) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0]);
/// let mut product = [0.0; 2];
/// let transposed = Strides::row_major(2).transposed();
/// matrix_product([2, 1, 2], (&left, transposed), (&right, Strides::row_major(1)), &mut product);
/// assert_eq!(product, [1.0 * 5.0 + 3.0 * 6.0, 2.0 * 5.0 + 4.0 * 6.0]);
/// ```
pub fn matrix_product<T: ProductElement>(
    lengths: [usize; 3],
    left: (&[T], Strides),
    right: (&[T], Strides),
    target: &mut [T],
) {
    let [rows, columns, depth] = lengths;
    assert!(
        rows.checked_mul(columns) == Some(target.len()),
        "the product of matrices has {rows} rows and {columns} columns, but its slice has {} elements",
        target.len()
    );
    if target.is_empty() {
        return;
    }
    if depth == 0 {
        return target.fill(T::default());
    }
    check("left", [rows, depth], left.1, left.0.len());
    check("right", [depth, columns], right.1, right.0.len());
    T::product(lengths, left, right, target);
}

/// Panics if the last element of an operand is outside of its slice.
fn check(side: &str, [rows, columns]: [usize; 2], strides: Strides, found: usize) {
    let last = ((rows - 1).checked_mul(strides.rows))
        .zip((columns - 1).checked_mul(strides.columns))
        .and_then(|(row, column)| row.checked_add(column));
    assert!(
        last.is_some_and(|last| last < found),
        "the {side} matrix of a product has {rows} rows and {columns} columns with {strides:?}, but its slice has {found} elements"
    );
}

fn product<T: Factor>(
    [rows, columns, depth]: [usize; 3],
    (left, by_left): (&[T], Strides),
    (right, by_right): (&[T], Strides),
    target: &mut [T],
) {
    let [by_left, by_right] = [by_left, by_right].map(|strides| [strides.rows, strides.columns]);
    let loops = Loops::single([rows, columns, depth], by_left, by_right, columns);
    multiply(&loops, left, right, target, threads::count());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_of_slices_follows_strides() {
        let left: Vec<f64> = (0..12).map(f64::from).collect();
        let right: Vec<f64> = (0..20).map(|x| f64::from(x) / 4.0).collect();
        for (by_left, by_right) in [(4, 5), (3, 4)] {
            let turned = by_left == 3;
            let strides = |columns| {
                let strides = Strides::row_major(columns);
                if turned {
                    strides.transposed()
                } else {
                    strides
                }
            };
            let (by_left, by_right) = (strides(by_left), strides(by_right));
            let mut found = [f64::NAN; 15];
            matrix_product([3, 5, 4], (&left, by_left), (&right, by_right), &mut found);
            for (position, &found) in found.iter().enumerate() {
                let (row, column) = (position / 5, position % 5);
                let expected: f64 = (0..4)
                    .map(|k| left[by_left.offset(row, k)] * right[by_right.offset(k, column)])
                    .sum();
                assert!(
                    (found - expected).abs() < 1e-12,
                    "{found} is not {expected}"
                );
            }
        }
        let mut none = [1.0_f32; 4];
        let by_none = Strides::row_major(0);
        matrix_product([2, 2, 0], (&[], by_none), (&[], by_none), &mut none);
        assert!(none.iter().all(|element| element.abs() <= 0.0), "{none:?}");
    }

    #[test]
    #[should_panic(
        expected = "the right matrix of a product has 2 rows and 3 columns with Strides { rows: 3, columns: 1 }, but its slice has 5 elements"
    )]
    fn elements_outside_of_slices_are_refused() {
        let (left, right) = ([1.0; 4], [1.0; 5]);
        let (by_left, by_right) = (Strides::row_major(2), Strides::row_major(3));
        matrix_product(
            [2, 3, 2],
            (&left, by_left),
            (&right, by_right),
            &mut [0.0; 6],
        );
    }
}
