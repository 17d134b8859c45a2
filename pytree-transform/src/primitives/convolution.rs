//! Convolutions: products of sliding windows of an input with a kernel.
//!
//! The derivatives with respect to the input and to the kernel are convolutions, and so is a batched convolution. For
//! this reason the primitive has general dimension numbers, dilations of both operands, and two kinds of groups.

mod depthwise;
mod evaluation;
mod lowering;
mod packed;
mod phases;
mod problem;
mod rows;
mod rules;
mod single_product;
#[cfg(test)]
mod tests;

use std::fmt;

use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::shape::{AxisList, PerAxis, Shape};

use crate::base::error::{Mistake, TensorError, or_panic};
use crate::base::text_layout::Tuple;
use crate::primitives::elementwise::sum_of;
use crate::primitives::sliding::Sliding;
use crate::tensor::Tensor;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Linear, Lowered, Operands, Outputs, Primitive,
    WithTangents, one, take,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::bind_one;

/// Slides windows over the input and multiplies each window by the kernel, like `lax.conv_general_dilated`.
///
/// The operands are the input and the kernel. The kernel is not reversed. Windows slide over the spatial axes, and each
/// list has one number for each spatial axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Convolution {
    /// The distance between neighbouring windows.
    pub(crate) strides: PerAxis,
    /// The number of zeros before and after the input. A negative number removes elements.
    pub(crate) padding: PerAxis<(isize, isize)>,
    /// The distance between neighbouring elements of the input. The gaps are filled with zeros.
    pub(crate) input_dilation: PerAxis,
    /// The distance between neighbouring elements of a window.
    pub(crate) kernel_dilation: PerAxis,
    /// The number of groups of input features. Each group is convolved with its own part of the kernel's output
    /// features.
    pub(crate) feature_groups: usize,
    /// The number of groups of examples. Each group is convolved with its own part of the kernel's output features.
    pub(crate) batch_groups: usize,
    pub(crate) numbers: DimensionNumbers,
}

/// The meaning of the axes of input, kernel and result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DimensionNumbers {
    pub(crate) input: Axes,
    pub(crate) kernel: Axes,
    pub(crate) result: Axes,
}

/// The positions of the axes of one array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Axes {
    /// The batch axis. For a kernel, the axis of the output features.
    pub(crate) outer: usize,
    /// The feature axis. For a kernel, the axis of the input features.
    pub(crate) features: usize,
    /// The spatial axes, in the same order for all arrays.
    pub(crate) space: AxisList,
}

impl Axes {
    /// Returns the axes with the outer axis and the feature axis swapped.
    fn swapped(&self) -> Self {
        Self {
            outer: self.features,
            features: self.outer,
            space: self.space.clone(),
        }
    }

    /// Returns whether each axis of an array of rank `rank` occurs exactly once.
    fn are_all(&self, rank: usize) -> bool {
        let named =
            |axis| self.outer == axis || self.features == axis || self.space.contains(&axis);
        self.space.len() + 2 == rank && (0..rank).all(named)
    }
}

/// Applies a [`Convolution`] to an input and a kernel.
#[track_caller]
pub(crate) fn convolve(
    convolution: &Convolution,
    input: &Tensor,
    kernel: &Tensor,
) -> Result<Tensor, TensorError> {
    bind_one(convolution, &[input, kernel])
}

impl Convolution {
    /// Returns the geometry along the spatial axis with the index `axis`.
    fn sliding(&self, axis: usize, input: &[usize], kernel: &[usize]) -> Sliding {
        Sliding {
            length: input[self.numbers.input.space[axis]],
            dilation: self.input_dilation[axis],
            padding: self.padding[axis],
            size: kernel[self.numbers.kernel.space[axis]],
            window_dilation: self.kernel_dilation[axis],
            stride: self.strides[axis],
        }
    }

    /// Returns the geometry along all spatial axes.
    fn slidings(&self, input: &[usize], kernel: &[usize]) -> Vec<Sliding> {
        let axes = 0..self.strides.len();
        axes.map(|axis| self.sliding(axis, input, kernel)).collect()
    }

    /// Returns the shape of the result, or `None` if the padding does not fit the input.
    fn result_shape(&self, input: &[usize], kernel: &[usize]) -> Option<Shape> {
        let numbers = &self.numbers;
        let mut shape = Shape::from(input);
        shape[numbers.result.outer] = input[numbers.input.outer] / self.batch_groups;
        shape[numbers.result.features] = kernel[numbers.kernel.outer];
        for (sliding, &axis) in self
            .slidings(input, kernel)
            .iter()
            .zip(&numbers.result.space)
        {
            shape[axis] = sliding.count()?;
        }
        Some(shape)
    }

    /// Returns a mistake if the numbers of axes do not match. The other checks rely on matching numbers of axes.
    fn wrong_ranks(&self, input: &[usize], kernel: &[usize]) -> Option<Mistake> {
        let axes = self.strides.len();
        let lists = [
            self.padding.len(),
            self.input_dilation.len(),
            self.kernel_dilation.len(),
        ];
        if lists != [axes; 3] {
            return Some(Mistake::new(
                format!(
                    "the strides {:?}, the padding {:?}, the input dilation {:?} and the kernel dilation {:?} differ in length",
                    self.strides, self.padding, self.input_dilation, self.kernel_dilation
                ),
                "give one number for each spatial axis",
            ));
        }
        let Self {
            numbers:
                DimensionNumbers {
                    input: of_input,
                    kernel: of_kernel,
                    result,
                },
            ..
        } = self;
        let rank = axes + 2;
        let fits = of_input.are_all(input.len())
            && of_kernel.are_all(kernel.len())
            && result.are_all(rank)
            && [input.len(), kernel.len()] == [rank; 2];
        (!fits).then(|| {
            Mistake::new(
                format!("{} do not name each of the {rank} axes once", self.numbers),
                "name a batch axis, a feature axis and one spatial axis for each stride",
            )
        })
    }

    /// Returns a mistake if the numbers of features, examples and groups do not match.
    fn wrong_groups(&self, input: &[usize], kernel: &[usize]) -> Option<Mistake> {
        let (groups, batch_groups) = (self.feature_groups, self.batch_groups);
        let of = &self.numbers;
        let (batch, features) = (input[of.input.outer], input[of.input.features]);
        let (output, depth) = (kernel[of.kernel.outer], kernel[of.kernel.features]);
        let fits = groups > 0
            && batch_groups > 0
            && (groups == 1 || batch_groups == 1)
            && depth.checked_mul(groups) == Some(features)
            && output % groups == 0
            && output % batch_groups == 0
            && batch % batch_groups == 0;
        (!fits).then(|| Mistake::new(
            format!("a batch of {batch} with {features} features and a kernel with {depth} input and {output} output features \
                     do not fit {groups} feature groups and {batch_groups} batch groups"),
            "use one kind of groups, a kernel with the features of one group, and numbers that the groups divide",
        ))
    }

    /// Returns a mistake if a stride, a dilation or a length of the kernel is 0.
    fn wrong_numbers(&self, kernel: &[usize]) -> Option<Mistake> {
        let lists = [&self.strides, &self.input_dilation, &self.kernel_dilation];
        let zero = lists.iter().any(|numbers| numbers.contains(&0));
        let empty = self
            .numbers
            .kernel
            .space
            .iter()
            .any(|&axis| kernel[axis] == 0);
        (zero || empty).then(|| Mistake::new(
            format!(
                "the strides {:?}, the input dilation {:?}, the kernel dilation {:?} or the lengths of the kernel contain 0",
                self.strides, self.input_dilation, self.kernel_dilation
            ),
            "give numbers above 0 and a kernel with at least one element",
        ))
    }
}

impl fmt::Display for DimensionNumbers {
    /// Writes the axes in JAX's order. For the kernel, the axis of the output features is the first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = |axes: &Axes| -> AxisList {
            [axes.outer, axes.features]
                .into_iter()
                .chain(axes.space.iter().copied())
                .collect()
        };
        write!(
            f,
            "ConvDimensionNumbers(lhs_spec={}, rhs_spec={}, out_spec={})",
            Tuple(&spec(&self.input)),
            Tuple(&spec(&self.kernel)),
            Tuple(&spec(&self.result))
        )
    }
}

impl Primitive for Convolution {
    fn name(&self) -> &'static str {
        "conv_general_dilated"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let (input, kernel) = (operands[0], operands[1]);
        if input.dtype != kernel.dtype || input.dtype == DType::Bool {
            return Err(TensorError::dtype(
                "convolve",
                operands,
                "numbers, with the same element type in both tensors",
            ));
        }
        let mistake = self
            .wrong_ranks(&input.shape, &kernel.shape)
            .or_else(|| self.wrong_groups(&input.shape, &kernel.shape))
            .or_else(|| self.wrong_numbers(&kernel.shape));
        if let Some(mistake) = mistake {
            return Err(mistake.error("convolve", operands));
        }
        match self.result_shape(&input.shape, &kernel.shape) {
            Some(shape) => Ok(one(AbstractArray {
                dtype: input.dtype,
                shape,
            })),
            None => Err(TensorError::shape(
                "convolve",
                operands,
                format!(
                    "the padding {:?} and the input dilation {:?} do not fit the input",
                    &self.padding[..],
                    self.input_dilation
                ),
                "use a padding that removes at most the length of the axis, and a padded axis that fits into memory",
            )),
        }
    }

    fn evaluate(&self, operands: Operands) -> Outputs<pytree_kernels::base::array::Array> {
        let [input, kernel] = take(operands);
        one(match input.dtype() {
            DType::F32 => evaluation::convolve::<f32>(self, &input, &kernel),
            DType::I32 => evaluation::convolve::<i32>(self, &input, &kernel),
            DType::I64 => evaluation::convolve::<i64>(self, &input, &kernel),
            DType::U32 => evaluation::convolve::<u32>(self, &input, &kernel),
            _ => evaluation::convolve::<f64>(self, &input, &kernel),
        })
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let apply = |input: &Tensor, kernel: &Tensor| or_panic(convolve(self, input, kernel));
        let of_input = tangents[0]
            .as_ref()
            .map(|tangent| apply(tangent, &primals[1]));
        let of_kernel = tangents[1]
            .as_ref()
            .map(|tangent| apply(&primals[0], tangent));
        (
            one(apply(&primals[0], &primals[1])),
            one(sum_of(of_input, of_kernel)),
        )
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let Some(cotangent) = &cotangents[0] else {
            return smallvec::smallvec![None, None];
        };
        let (input, kernel) = (&operands[0], &operands[1]);
        let of_input = || self.cotangent_of_input(cotangent, &input.info(), kernel.known());
        let of_kernel = || self.cotangent_of_kernel(cotangent, input.known(), &kernel.info());
        smallvec::smallvec![
            input.is_unknown().then(of_input),
            kernel.is_unknown().then(of_kernel)
        ]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        self.batched(operands, axes, batch.size)
    }

    fn lower(
        &self,
        block: &mut Block<'_>,
        operands: &[Value],
        results: &[&AbstractArray],
    ) -> Lowered {
        Ok(one(self.lowered(block, operands, results[0])))
    }

    fn multiplies_narrow_floats(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "batch_group_count={} dimension_numbers={} feature_group_count={} lhs_dilation={} padding={} rhs_dilation={} window_strides={}",
            self.batch_groups,
            self.numbers,
            self.feature_groups,
            Tuple(&self.input_dilation),
            crate::primitives::sliding::Pairs(&self.padding),
            Tuple(&self.kernel_dilation),
            Tuple(&self.strides)
        )
    }
}
