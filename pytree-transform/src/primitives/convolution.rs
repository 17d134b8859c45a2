//! Convolutions: products of sliding windows of an input with a kernel.
//!
//! The derivatives with respect to the input and to the kernel are convolutions, and so is a batched convolution. For
//! this reason the primitive has general dimension numbers, dilations of both operands, and two kinds of groups.

mod lowering;
mod rules;
#[cfg(test)]
mod tests;

use pytree_base::lists::Tuple;
use pytree_kernels::base::shape::AxisList;
use pytree_kernels::loops::convolution::{self, Axes, Convolution, DimensionNumbers};

use crate::base::error::Mistake;
use crate::base::text_layout::pairs_tuple;
use crate::primitives::elementwise::sum_of;
use crate::primitives::prelude::*;
use crate::tensor::primitive::Division;

pub(crate) use self::rules::convolve;

/// Returns whether each axis of an array of rank `rank` occurs exactly once.
fn are_all(axes: &Axes, rank: usize) -> bool {
    let named = |axis| axes.outer == axis || axes.features == axis || axes.space.contains(&axis);
    axes.space.len() + 2 == rank && (0..rank).all(named)
}

/// Returns a mistake if the numbers of axes do not match. The other checks rely on matching numbers of axes.
fn wrong_ranks(convolution: &Convolution, input: &[usize], kernel: &[usize]) -> Option<Mistake> {
    let axes = convolution.strides.len();
    let lists = [
        convolution.padding.len(),
        convolution.input_dilation.len(),
        convolution.kernel_dilation.len(),
    ];
    if lists != [axes; 3] {
        return Some(Mistake::new(
            format!(
                "the strides {:?}, the padding {:?}, the input dilation {:?} and the kernel dilation {:?} differ in length",
                convolution.strides,
                convolution.padding,
                convolution.input_dilation,
                convolution.kernel_dilation
            ),
            "give one number for each spatial axis",
        ));
    }
    let Convolution {
        numbers:
            DimensionNumbers {
                input: of_input,
                kernel: of_kernel,
                result,
            },
        ..
    } = convolution;
    let rank = axes + 2;
    let fits = are_all(of_input, input.len())
        && are_all(of_kernel, kernel.len())
        && are_all(result, rank)
        && [input.len(), kernel.len()] == [rank; 2];
    (!fits).then(|| {
        Mistake::new(
            format!(
                "{} do not name each of the {rank} axes once",
                Numbers(&convolution.numbers)
            ),
            "name a batch axis, a feature axis and one spatial axis for each stride",
        )
    })
}

/// Returns a mistake if the numbers of features, examples and groups do not match.
fn wrong_groups(convolution: &Convolution, input: &[usize], kernel: &[usize]) -> Option<Mistake> {
    let (groups, batch_groups) = (convolution.feature_groups, convolution.batch_groups);
    let of = &convolution.numbers;
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
fn wrong_numbers(convolution: &Convolution, kernel: &[usize]) -> Option<Mistake> {
    let lists = [
        &convolution.strides,
        &convolution.input_dilation,
        &convolution.kernel_dilation,
    ];
    let zero = lists.iter().any(|numbers| numbers.contains(&0));
    let empty = convolution
        .numbers
        .kernel
        .space
        .iter()
        .any(|&axis| kernel[axis] == 0);
    (zero || empty).then(|| Mistake::new(
        format!(
            "the strides {:?}, the input dilation {:?}, the kernel dilation {:?} or the lengths of the kernel contain 0",
            convolution.strides, convolution.input_dilation, convolution.kernel_dilation
        ),
        "give numbers above 0 and a kernel with at least one element",
    ))
}

/// Displays dimension numbers as jaxprs write them.
struct Numbers<'a>(&'a DimensionNumbers);

impl fmt::Display for Numbers<'_> {
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
            Tuple(&spec(&self.0.input)),
            Tuple(&spec(&self.0.kernel)),
            Tuple(&spec(&self.0.result))
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
        let mistake = wrong_ranks(self, &input.shape, &kernel.shape)
            .or_else(|| wrong_groups(self, &input.shape, &kernel.shape))
            .or_else(|| wrong_numbers(self, &kernel.shape));
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

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [input, kernel] = take(operands);
        one(convolution::evaluate(self, &input, &kernel))
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
        let of_input = || rules::cotangent_of_input(self, cotangent, &input.info(), kernel.known());
        let of_kernel =
            || rules::cotangent_of_kernel(self, cotangent, input.known(), &kernel.info());
        smallvec::smallvec![
            input.is_unknown().then(of_input),
            kernel.is_unknown().then(of_kernel)
        ]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        rules::batched(self, operands, axes, batch.size)
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], results: &Infos<'_>) -> Lowered {
        Ok(one(lowering::lowered(self, block, operands, results[0])))
    }

    fn multiplies_narrow_floats(&self) -> bool {
        true
    }

    fn division(&self, _: &[&AbstractArray]) -> Option<Division> {
        (self.batch_groups == 1).then(|| Division {
            operands: smallvec::smallvec![Some(self.numbers.input.outer), None],
            result: self.numbers.result.outer,
        })
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "batch_group_count={} dimension_numbers={} feature_group_count={} lhs_dilation={} padding={} rhs_dilation={} window_strides={}",
            self.batch_groups,
            Numbers(&self.numbers),
            self.feature_groups,
            Tuple(&self.input_dilation),
            pairs_tuple(&self.padding),
            Tuple(&self.kernel_dilation),
            Tuple(&self.strides)
        )
    }
}
