//! Operations that reshape a tensor, and the types of shapes that they accept. One of the lengths of a shape may be -1.

use pytree_derive::panicking_twin;
use pytree_kernels::base::shape::Shape;
use smallvec::SmallVec;

use crate::base::error::{Mistake, TensorError, or_panic};
use crate::primitives::shape;
use crate::tensor::Tensor;

/// The length of an axis in a new shape: an integer. A length of -1 is computed from the other lengths.
pub trait NewLength: Copy {
    /// Returns the length, with its sign.
    #[doc(hidden)]
    fn signed(self) -> i128;
}

macro_rules! lengths {
    ($($integer:ty),*) => {$(
        impl NewLength for $integer {
            fn signed(self) -> i128 {
                // The check of the shape rejects a length that does not fit into i128, because it is too large.
                self.try_into().unwrap_or(i128::MAX)
            }
        }
    )*};
}
lengths!(usize, isize, i32, i64, u32);

/// The lengths of a new shape with their signs.
#[doc(hidden)]
#[derive(Debug)]
pub struct SignedLengths(SmallVec<[i128; 4]>);

impl FromIterator<i128> for SignedLengths {
    fn from_iter<I: IntoIterator<Item = i128>>(lengths: I) -> Self {
        Self(lengths.into_iter().collect())
    }
}

/// A shape for [`Tensor::reshape`]: an array, slice, vector or tuple of lengths. In a tuple, integer types may differ:
/// `(batch, -1)`. `()` is the shape of a scalar.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a shape",
    label = "expected an array or a tuple of lengths",
    note = "write the lengths in brackets: `x.reshape([2, -1])`; one length may be -1, and is computed from the others"
)]
pub trait NewShape {
    /// Returns the lengths, with their signs.
    #[doc(hidden)]
    fn lengths(&self) -> SignedLengths;
}

#[diagnostic::do_not_recommend]
impl<L: NewLength> NewShape for [L] {
    fn lengths(&self) -> SignedLengths {
        self.iter().map(|length| length.signed()).collect()
    }
}
#[diagnostic::do_not_recommend]
impl<L: NewLength, const N: usize> NewShape for [L; N] {
    fn lengths(&self) -> SignedLengths {
        self.as_slice().lengths()
    }
}
#[diagnostic::do_not_recommend]
impl<L: NewLength> NewShape for Vec<L> {
    fn lengths(&self) -> SignedLengths {
        self.as_slice().lengths()
    }
}
#[diagnostic::do_not_recommend]
impl NewShape for Shape {
    fn lengths(&self) -> SignedLengths {
        self.as_slice().lengths()
    }
}
#[diagnostic::do_not_recommend]
impl<T: NewShape + ?Sized> NewShape for &T {
    fn lengths(&self) -> SignedLengths {
        (**self).lengths()
    }
}
#[diagnostic::do_not_recommend]
impl NewShape for () {
    fn lengths(&self) -> SignedLengths {
        SignedLengths(SmallVec::new())
    }
}

macro_rules! tuples {
    ($($($length:ident $place:tt),+;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<$($length: NewLength),+> NewShape for ($($length,)+) {
            fn lengths(&self) -> SignedLengths {
                [$(self.$place.signed()),+].into_iter().collect()
            }
        }
    )*};
}
tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
}

/// Returns the shape. Replaces a length of -1 by the length that `count` elements and the other lengths require.
fn resolved(count: usize, lengths: &[i128]) -> Result<Shape, Mistake> {
    let usable = "pass a length of at least 0 for each axis, or -1 for at most one axis";
    if let Some(length) = lengths.iter().find(|&&length| length < -1) {
        let problem = format!("the shape {lengths:?} has the negative length {length}");
        return Err(Mistake::new(problem, usable));
    }
    let given = lengths.iter().filter(|&&length| length >= 0);
    let left = match lengths.iter().filter(|&&length| length == -1).count() {
        0 => 0,
        1 => {
            let product = given.fold(1_i128, |product, &length| product.saturating_mul(length));
            if product == 0 {
                let problem = format!(
                    "the shape {lengths:?} has a length of 0, so any length could replace -1"
                );
                return Err(Mistake::new(problem, "write the length instead of -1"));
            }
            if count as i128 % product != 0 {
                let problem = format!(
                    "its {count} elements cannot be divided by {product}, the product of the other lengths of the shape {lengths:?}"
                );
                let fix = "choose lengths whose product divides the number of elements";
                return Err(Mistake::new(problem, fix));
            }
            count as i128 / product
        }
        several => {
            let problem = format!("the shape {lengths:?} contains the length -1 {several} times");
            return Err(Mistake::new(problem, usable));
        }
    };
    let lengths = lengths
        .iter()
        .map(|&length| if length == -1 { left } else { length });
    Ok(lengths
        .map(|length| usize::try_from(length).unwrap_or(usize::MAX))
        .collect())
}

impl Tensor {
    /// Returns the same elements in row-major order with another shape. One length may be -1. This length is computed
    /// from the number of elements and the other lengths.
    ///
    /// # Panics
    /// Panics if the new shape has a different number of elements, or if -1 occurs twice. With a length of -1, panics
    /// if the number of elements is not a multiple of the product of the other lengths.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([1, 2, 3, 4]);
    /// assert_eq!(x.reshape([2, 2]), Tensor::from([[1, 2], [3, 4]]));
    /// assert_eq!(x.reshape([-1, 2]), Tensor::from([[1, 2], [3, 4]]));
    /// let batch: usize = 4;
    /// assert_eq!(x.reshape((batch, -1)).shape(), [4, 1]);
    /// ```
    #[doc(alias("jnp.reshape", "torch.reshape", "torch.Tensor.view"))]
    #[panicking_twin(reshape, Shape)]
    pub fn try_reshape(&self, shape: impl NewShape) -> Result<Self, TensorError> {
        let shape = resolved(self.len(), &shape.lengths().0)
            .map_err(|mistake| mistake.error("reshape", &[self.info()]))?;
        shape::reshape(self, &shape)
    }

    /// Returns the elements in row-major order as one axis.
    ///
    /// # Panics
    /// Panics if the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).flatten(), Tensor::from([1, 2, 3, 4]));
    /// ```
    #[doc(alias("jnp.ravel", "torch.flatten"))]
    #[must_use]
    #[track_caller]
    pub fn flatten(&self) -> Self {
        or_panic(shape::reshape(self, &[self.len()]))
    }
}

#[cfg(test)]
mod tests {
    use pytree_kernels::base::dtype::DType;

    use super::*;

    #[test]
    fn one_length_may_be_left_open() {
        let x = Tensor::arange(DType::F32, 12);
        assert_eq!(x.reshape([3, -1]).shape(), [3, 4]);
        assert_eq!(x.reshape([-1]).shape(), [12]);
        assert_eq!(x.reshape(vec![2, -1, 3]).shape(), [2, 2, 3]);
        assert_eq!(x.reshape((x.len(), -1, 1_i64)).shape(), [12, 1, 1]);
        assert_eq!(x.reshape(&[4_isize, -1][..]).shape(), [4, 3]);
        assert_eq!(Tensor::from(1.0).reshape([-1]).shape(), [1]);
        assert_eq!(Tensor::from([1.0]).reshape(()).shape(), [0; 0]);
        assert_eq!(
            Tensor::zeros(DType::F32, [0, 3]).reshape([-1, 3]).shape(),
            [0, 3]
        );
    }

    #[test]
    fn errors_name_both_shapes() {
        let x = Tensor::zeros(DType::F32, [2, 3]);
        let message = |outcome: Result<Tensor, TensorError>| outcome.unwrap_err().to_string();
        assert_eq!(
            message(x.try_reshape([4, -1])),
            "cannot reshape f32[2,3]: its 6 elements cannot be divided by 4, the product of the other lengths of the shape [4, -1]; choose lengths whose product divides the number of elements"
        );
        assert_eq!(
            message(x.try_reshape([-1, 2, -1])),
            "cannot reshape f32[2,3]: the shape [-1, 2, -1] contains the length -1 2 times; pass a length of at least 0 for each axis, or -1 for at most one axis"
        );
        assert!(message(x.try_reshape([-2, -3])).contains("has the negative length -2"));
        let empty = Tensor::zeros(DType::F32, [0, 3]);
        assert!(message(empty.try_reshape([0, -1])).contains("any length could replace -1"));
        assert!(message(x.try_reshape([4])).contains("it has 6 elements, but the shape [4] has 4"));
    }
}
