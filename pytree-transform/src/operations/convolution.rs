//! Convolutions: products of sliding windows of the input with a kernel.
//!
//! By default, the layout of the input is `[batch, space…, features]` and the layout of the kernel is
//! `[space…, in, out]`.

mod mistakes;

use pytree_derive::panicking_twin;
use pytree_kernels::base::shape::{AxisList, PerAxis, Shape};
use pytree_kernels::loops::convolution;

use crate::base::error::{Mistake, TensorError, called, or_panic};
pub use crate::operations::convolution_layout::ConvDimensionNumbers;
use crate::operations::convolution_layout::Orders;
pub use crate::operations::window_padding::Padding;
use crate::operations::window_padding::signed;
use crate::primitives::convolution::convolve;
use crate::primitives::slice::reverse;
use crate::tensor::Tensor;

/// A convolution over any number of axes, configured like `jax.lax.conv_general_dilated`. A convolution has one stride
/// for each spatial axis (an axis over which windows slide).
///
/// With `x: [batch, space…, in]` and `kernel: [size…, in / groups, out]`, the result is `[batch, space…, out]`.
/// [`dimension_numbers`](Self::dimension_numbers) selects other orders of the axes. The kernel is not flipped: the
/// operation is a correlation, as is usual in deep learning.
///
/// Padding, and the gaps of a dilated input, contribute nothing to a result or a gradient, also where the kernel is NaN or
/// infinite. On devices, XLA computes convolutions, and may multiply such an element of the kernel by 0, which is NaN.
///
/// # Examples
/// ```
/// use pytree_transform::{DType, Tensor, convolution::{Convolution, Padding}};
/// let x = Tensor::from([1.0, 2.0, 3.0, 4.0]).reshape([1, 4, 1]);
/// let kernel = Tensor::from([1.0, -1.0]).reshape([2, 1, 1]);
/// let y = Convolution::new([1], Padding::Valid).apply(&x, &kernel);
/// assert_eq!(y.flatten(), Tensor::from([-1.0, -1.0, -1.0]));
///
/// let images = Tensor::ones(DType::F32, [8, 28, 28, 3]);
/// let kernel = Tensor::ones(DType::F32, [3, 3, 3, 16]);
/// assert_eq!(Convolution::new([2, 2], Padding::Same).apply(&images, &kernel).shape(), [8, 14, 14, 16]);
/// ```
#[doc(alias("lax.conv_general_dilated", "F.conv2d"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convolution {
    strides: PerAxis,
    padding: Padding,
    input_dilation: PerAxis,
    kernel_dilation: PerAxis,
    feature_groups: usize,
    batch_groups: usize,
    dimension_numbers: ConvDimensionNumbers,
}

impl Convolution {
    /// Creates a convolution with `strides` and `padding`, without dilation and groups. The features are on the last
    /// axis.
    #[must_use]
    pub fn new(strides: impl AsRef<[usize]>, padding: Padding) -> Self {
        let strides = PerAxis::from_slice(strides.as_ref());
        let ones: PerAxis = strides.iter().map(|_| 1).collect();
        Self {
            input_dilation: ones.clone(),
            kernel_dilation: ones,
            strides,
            padding,
            feature_groups: 1,
            batch_groups: 1,
            dimension_numbers: ConvDimensionNumbers::default(),
        }
    }

    /// Sets the distance between neighbouring input elements (`lhs_dilation` in JAX). The gaps are filled with zeros.
    /// The default is 1.
    #[must_use]
    pub fn input_dilation(self, dilation: impl AsRef<[usize]>) -> Self {
        let input_dilation = PerAxis::from_slice(dilation.as_ref());
        Self {
            input_dilation,
            ..self
        }
    }

    /// Sets the distance between neighbouring kernel elements (`rhs_dilation` in JAX). The default is 1.
    #[must_use]
    pub fn kernel_dilation(self, dilation: impl AsRef<[usize]>) -> Self {
        let kernel_dilation = PerAxis::from_slice(dilation.as_ref());
        Self {
            kernel_dilation,
            ..self
        }
    }

    /// Sets the number of groups of input features (`feature_group_count` in JAX). Each group is convolved with its own
    /// part of the kernel's output features. The default is 1.
    #[must_use]
    pub fn feature_groups(self, feature_groups: usize) -> Self {
        Self {
            feature_groups,
            ..self
        }
    }

    /// Sets the number of groups of examples (`batch_group_count` in JAX). Each group is convolved with its own part of
    /// the kernel's output features. The default is 1.
    #[must_use]
    pub fn batch_groups(self, batch_groups: usize) -> Self {
        Self {
            batch_groups,
            ..self
        }
    }

    /// Sets the order of the axes of input, kernel and result. The default is [`ConvDimensionNumbers::ChannelsLast`].
    #[must_use]
    pub fn dimension_numbers(self, dimension_numbers: ConvDimensionNumbers) -> Self {
        Self {
            dimension_numbers,
            ..self
        }
    }

    /// Returns the convolution of `x` with `kernel`.
    ///
    /// # Panics
    /// Panics if the shapes, the dtypes or the configuration do not match. The message lists every problem.
    #[must_use]
    #[panicking_twin(apply, Shape | DType)]
    pub fn try_apply(&self, x: &Tensor, kernel: &Tensor) -> Result<Tensor, TensorError> {
        let _called = called("convolve");
        let laid_out = self.lay_out("convolve", x, kernel)?;
        let pairs = self.pairs(&laid_out);
        self.convolve(&laid_out, &pairs, x, kernel)
    }

    /// Returns the transposed convolution of `x` with `kernel`, like `jax.lax.conv_transpose`.
    ///
    /// Inserts zeros between the input elements, so that neighbouring elements are `stride` positions apart. A spatial
    /// axis of the result is therefore about `stride` times as long as the same axis of the input. The kernel has the
    /// shape `[size…, in, out]` and is not flipped.
    ///
    /// # Panics
    /// Panics in the same cases as [`apply`](Self::apply), and if an input dilation or groups are set.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, convolution::{Convolution, Padding}};
    /// let x = Tensor::from([1.0, 2.0]).reshape([1, 2, 1]);
    /// let kernel = Tensor::from([10.0, 1.0]).reshape([2, 1, 1]);
    /// let y = Convolution::new([2], Padding::Valid).apply_transposed(&x, &kernel);
    /// assert_eq!(y.flatten(), Tensor::from([1.0, 10.0, 2.0, 20.0]));
    /// ```
    #[doc(alias("lax.conv_transpose", "F.conv_transpose2d"))]
    #[must_use]
    #[panicking_twin(apply_transposed, Shape | DType)]
    pub fn try_apply_transposed(&self, x: &Tensor, kernel: &Tensor) -> Result<Tensor, TensorError> {
        let operation = "convolve transposed";
        let _called = called(operation);
        let laid_out = self.lay_out(operation, x, kernel)?;
        let plain = self.feature_groups == 1
            && self.batch_groups == 1
            && self.input_dilation.iter().all(|&dilation| dilation == 1);
        if !plain {
            let mistake = Mistake::new(
                "a transposed convolution supports neither an input dilation nor groups",
                "remove `.input_dilation(…)`, `.feature_groups(…)` and `.batch_groups(…)`",
            );
            return Err(mistake.error(operation, &[x.info(), kernel.info()]));
        }
        let spans = self.spans(&laid_out.kernel);
        let axes = spans.iter().zip(&self.strides);
        let pairs = match &self.padding {
            Padding::Explicit(_) => self.pairs(&laid_out),
            Padding::Valid => axes
                .map(|(&span, &stride)| (signed(span - 1), signed((stride - 1).max(span - 1))))
                .collect(),
            Padding::Same | Padding::SameLower => axes
                .map(|(&span, &stride)| {
                    let whole = (span - 1).saturating_add(stride - 1);
                    let before = if stride > span - 1 {
                        span - 1
                    } else {
                        whole.div_ceil(2)
                    };
                    (signed(before), signed(whole - before))
                })
                .collect(),
        };
        let dense = Self {
            strides: self.strides.iter().map(|_| 1).collect(),
            input_dilation: self.strides.clone(),
            ..self.clone()
        };
        dense.convolve(&laid_out, &pairs, x, kernel)
    }

    /// Returns the number of input elements that the dilated kernel covers along each spatial axis.
    fn spans(&self, kernel: &[usize]) -> PerAxis {
        let sizes = kernel.iter().zip(&self.kernel_dilation);
        sizes
            .map(|(&size, &dilation)| {
                let gaps = size.saturating_sub(1);
                gaps.saturating_mul(dilation).saturating_add(1)
            })
            .collect()
    }

    /// Returns the numbers of padding elements before the first and after the last element of each spatial axis.
    fn pairs(&self, LaidOut { x, kernel, .. }: &LaidOut) -> Vec<(isize, isize)> {
        let lengths = &x[1..x.len() - 1];
        let spans = self.spans(kernel);
        self.padding.pairs(lengths, &spans, &self.strides)
    }

    /// Returns the shapes of the operands in the canonical order of their axes: batch, space, features. The error lists
    /// every problem.
    #[track_caller]
    fn lay_out(
        &self,
        operation: &'static str,
        x: &Tensor,
        kernel: &Tensor,
    ) -> Result<LaidOut, TensorError> {
        let found = [x.info(), kernel.info()];
        if x.dtype() != kernel.dtype() {
            return Err(TensorError::dtype(
                operation,
                &found,
                "the same element type in both tensors",
            ));
        }
        let refused = |mistakes| Mistake::joined(mistakes).error(operation, &found);
        let mistakes = self.wrong_ranks(x.shape(), kernel.shape());
        if !mistakes.is_empty() {
            return Err(refused(mistakes));
        }
        let orders = self.dimension_numbers.orders(self.strides.len());
        let orders = orders.map_err(|mistake| mistake.error(operation, &found))?;
        let permuted = |tensor: &Tensor, order: &AxisList| -> Shape {
            order.iter().map(|&axis| tensor.shape()[axis]).collect()
        };
        let laid_out = LaidOut {
            x: permuted(x, &orders.input),
            kernel: permuted(kernel, &orders.kernel),
            orders,
        };
        let mistakes = self.mistakes(&laid_out.x, &laid_out.kernel);
        if mistakes.is_empty() {
            Ok(laid_out)
        } else {
            Err(refused(mistakes))
        }
    }

    /// Applies the primitive.
    #[track_caller]
    fn convolve(
        &self,
        laid_out: &LaidOut,
        pairs: &[(isize, isize)],
        x: &Tensor,
        kernel: &Tensor,
    ) -> Result<Tensor, TensorError> {
        let primitive = convolution::Convolution {
            strides: self.strides.clone(),
            padding: pairs.iter().copied().collect(),
            input_dilation: self.input_dilation.clone(),
            kernel_dilation: self.kernel_dilation.clone(),
            feature_groups: self.feature_groups,
            batch_groups: self.batch_groups,
            numbers: laid_out.orders.dimension_numbers(),
        };
        convolve(&primitive, x, kernel)
    }
}

/// The shapes of the operands with their axes in the canonical order: batch, space, features. The canonical order of a
/// kernel is space, input features, output features.
struct LaidOut {
    x: Shape,
    kernel: Shape,
    orders: Orders,
}

/// Returns the kernel with its first `axes` axes reversed.
///
/// A flipped kernel turns a correlation into a mathematical convolution. A flipped kernel turns a transposed
/// convolution into the transpose of the convolution.
///
/// # Panics
/// Panics if the kernel has fewer than `axes` axes.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, convolution::turned};
/// let kernel = Tensor::from([1, 2, 3]).reshape([3, 1, 1]);
/// assert_eq!(turned(&kernel, 1).flatten(), Tensor::from([3, 2, 1]));
/// ```
#[must_use]
#[track_caller]
pub fn turned(kernel: &Tensor, axes: usize) -> Tensor {
    or_panic(reverse(kernel, &(0..axes).collect::<AxisList>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposed_convolution_with_flipped_kernel_is_transpose() {
        use crate::primitives::body::tape::linearize;
        use crate::primitives::shape::tests::rule_checks::{assert_close, noise};
        let convolution = Convolution::new([2], Padding::Valid);
        let (kernel, x) = (noise(&[3, 2, 5], 1), noise(&[4, 9, 2], 2));
        let apply = |x: Vec<Tensor>| (vec![convolution.apply(&x[0], &kernel)], ());
        let (y, tape, ()) = linearize(&[x], &[true], apply);
        let cotangent = noise(y[0].shape(), 3);
        let swapped = turned(&kernel, 1).transpose([0, 2, 1]);
        let found = convolution.apply_transposed(&cotangent, &swapped);
        let expected = tape.transpose(vec![Some(cotangent)]);
        assert_close(&found, expected[0].as_ref().unwrap(), 1e-13);
    }
}
