//! Putting elements around and between those of a tensor, and turning axes round.

use pytree_derive::panicking_twin;
use smallvec::SmallVec;

use crate::base::error::{TensorError, or_panic};
use crate::operations::shape::axes_of;
use crate::primitives::elementwise::operators::Operand;
use crate::primitives::slice;
use crate::tensor::Tensor;

impl Tensor {
    /// The tensor with `value` around its elements: for each axis how many before, behind, and between
    /// neighbours. Negative numbers before or behind take elements away.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([1.0_f32, 2.0]);
    /// assert_eq!(x.pad(0.0, [(1, 0, 1)]).to_vec::<f32>(), [0.0, 1.0, 0.0, 2.0]);
    /// ```
    ///
    /// # Panics
    /// If there is not one triple for each axis, or more is taken away than there is.
    #[must_use]
    #[panicking_twin(pad)]
    #[track_caller]
    pub fn try_pad(
        &self,
        value: impl Operand,
        padding: impl AsRef<[(isize, isize, usize)]>,
    ) -> Result<Self, TensorError> {
        let padding = padding.as_ref();
        let low: SmallVec<[isize; 4]> = padding.iter().map(|axis| axis.0).collect();
        let high: SmallVec<[isize; 4]> = padding.iter().map(|axis| axis.1).collect();
        let interior: SmallVec<[usize; 4]> = padding.iter().map(|axis| axis.2).collect();
        slice::pad(self, &value.beside(self)?, &low, &high, &interior)
    }

    /// The tensor with the order along some axes turned round; negative axes count from the end.
    ///
    /// # Panics
    /// If an axis is not there, or named twice.
    #[must_use]
    #[track_caller]
    pub fn reverse(&self, axes: impl AsRef<[isize]>) -> Self {
        let axes = or_panic(axes_of("reverse", self.info(), axes.as_ref()));
        or_panic(slice::reverse(self, &axes))
    }
}
