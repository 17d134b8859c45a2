//! Padding around and between elements, and reversal of axes.

mod modes;

use pytree_derive::panicking_twin;
use pytree_kernels::base::shape::PerAxis;

use crate::base::error::TensorError;
use crate::operations::axes::{TensorAxes, axes_of};
use crate::primitives::elementwise::operand::Operand;
use crate::primitives::slice;
use crate::tensor::Tensor;

pub use self::modes::PadMode;

/// The padding of an axis in [`Tensor::pad`]: the pair `(low, high)`, or the triple `(low, high, interior)`.
pub trait PadWidths {
    /// Returns the numbers of elements before the first element, after the last element, and between neighbours.
    fn widths(&self) -> (isize, isize, usize);
}

impl PadWidths for (isize, isize) {
    fn widths(&self) -> (isize, isize, usize) {
        (self.0, self.1, 0)
    }
}

impl PadWidths for (isize, isize, usize) {
    fn widths(&self) -> (isize, isize, usize) {
        *self
    }
}

impl Tensor {
    /// Pads the tensor with `value`. For each axis, `padding` holds a pair or a triple of numbers: the padding elements
    /// before the first element, after the last element, and between neighbours, which are 0 in a pair. A negative first
    /// or second number removes elements. For other modes of `numpy.pad` than a constant, see [`pad_mode`](Self::pad_mode).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([1.0_f32, 2.0]);
    /// assert_eq!(x.pad(0.0, [(1, 2)]).to_vec::<f32>(), [0.0, 1.0, 2.0, 0.0, 0.0]);
    /// assert_eq!(x.pad(0.0, [(1, 0, 1)]).to_vec::<f32>(), [0.0, 1.0, 0.0, 2.0]);
    /// ```
    ///
    /// # Panics
    /// Panics if `padding` does not have one pair or triple for each axis, or if more elements are removed than an axis has.
    #[doc(alias("jnp.pad", "lax.pad", "F.pad"))]
    #[panicking_twin(pad)]
    pub fn try_pad<P: PadWidths>(
        &self,
        value: impl Operand,
        padding: impl AsRef<[P]>,
    ) -> Result<Self, TensorError> {
        let padding = padding.as_ref().iter().map(PadWidths::widths);
        let low: PerAxis<isize> = padding.clone().map(|axis| axis.0).collect();
        let high: PerAxis<isize> = padding.clone().map(|axis| axis.1).collect();
        let interior: PerAxis = padding.map(|axis| axis.2).collect();
        slice::pad(self, &value.beside(self)?, &low, &high, &interior)
    }

    /// Reverses the order of the elements along `axes`. Negative axes count from the end.
    ///
    /// # Panics
    /// Panics if an axis is out of range or given twice.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).reverse([-1]), Tensor::from([[2, 1], [4, 3]]));
    /// ```
    #[doc(alias("jnp.flip", "lax.rev", "torch.flip"))]
    #[panicking_twin(reverse, Axis | Shape)]
    pub fn try_reverse(&self, axes: impl TensorAxes) -> Result<Self, TensorError> {
        let axes = axes_of("reverse", self.info(), axes.axes())?;
        slice::reverse(self, &axes)
    }
}
