use pytree_kernels::base::dtype::DType;
use pytree_kernels::base::shape::{AxisList, PerAxis};
use pytree_kernels::loops::convolution::{Axes, Convolution, DimensionNumbers};
use smallvec::smallvec;

use super::{convolve, rules};
use crate::primitives::convert::convert;
use crate::primitives::shape::tests::rule_checks::{
    all_indices, assert_close, check_batching, check_tangent, check_transpose, noise,
};
use crate::tensor::Tensor;

/// Computes a convolution by its definition: sums over the input features of a group and over the elements of a window.
fn slow(convolution: &Convolution, input: &Tensor, kernel: &Tensor) -> Tensor {
    let of = &convolution.numbers;
    let shape = convolution
        .result_shape(input.shape(), kernel.shape())
        .unwrap();
    let lengths = |axes: &AxisList, tensor: &Tensor| -> Vec<usize> {
        axes.iter().map(|&axis| tensor.shape()[axis]).collect()
    };
    let (space, window) = (
        lengths(&of.input.space, input),
        lengths(&of.kernel.space, kernel),
    );
    let depth = kernel.shape()[of.kernel.features];
    let outputs = kernel.shape()[of.kernel.outer];
    let examples = input.shape()[of.input.outer] / convolution.batch_groups;
    let (x, k) = (input.view::<f64>().unwrap(), kernel.view::<f64>().unwrap());
    let place = |axes: &Axes, outer: usize, features: usize, space: &[usize]| {
        let mut place = vec![0; space.len() + 2];
        (place[axes.outer], place[axes.features]) = (outer, features);
        axes.space
            .iter()
            .zip(space)
            .for_each(|(&axis, &at)| place[axis] = at);
        place
    };
    let element = |index: Vec<usize>| {
        let (example, output) = (index[of.result.outer], index[of.result.features]);
        let feature_group = output * convolution.feature_groups / outputs;
        let batch_group = output * convolution.batch_groups / outputs;
        let mut sum = 0.0;
        for at in all_indices(&window) {
            let inside: Option<Vec<usize>> = (0..at.len())
                .map(|axis| {
                    let position = (index[of.result.space[axis]] * convolution.strides[axis]
                        + at[axis] * convolution.kernel_dilation[axis])
                        .cast_signed()
                        - convolution.padding[axis].0;
                    let position = usize::try_from(position).ok()?;
                    let (dilation, length) = (convolution.input_dilation[axis], space[axis]);
                    (position % dilation == 0 && position / dilation < length)
                        .then(|| position / dilation)
                })
                .collect();
            let Some(inside) = inside else { continue };
            for feature in 0..depth {
                let of_input = place(
                    &of.input,
                    batch_group * examples + example,
                    feature_group * depth + feature,
                    &inside,
                );
                sum += x[&of_input[..]] * k[&place(&of.kernel, output, feature, &at)[..]];
            }
        }
        sum
    };
    Tensor::new(&shape, all_indices(&shape).map(element).collect::<Vec<_>>())
}

/// A random convolution and the shapes of its operands.
#[derive(Clone, Debug)]
struct Case {
    convolution: Convolution,
    input: Vec<usize>,
    kernel: Vec<usize>,
}

impl Case {
    fn operands(&self) -> [Tensor; 2] {
        [noise(&self.input, 1), noise(&self.kernel, 2)]
    }

    fn result_is_valid(&self) -> bool {
        let padded = self.convolution.slidings(&self.input, &self.kernel);
        padded.iter().all(|sliding| sliding.count().is_some())
    }
}

/// Returns the axes. `order` has the positions of the batch axis, of the feature axis and of the spatial axes.
fn axes(order: &[usize]) -> Axes {
    Axes {
        outer: order[0],
        features: order[1],
        space: AxisList::from_slice(&order[2..]),
    }
}

fn laid_out(axes: &Axes, outer: usize, features: usize, space: &[usize]) -> Vec<usize> {
    let mut shape = vec![0; space.len() + 2];
    (shape[axes.outer], shape[axes.features]) = (outer, features);
    axes.space
        .iter()
        .zip(space)
        .for_each(|(&axis, &length)| shape[axis] = length);
    shape
}

/// Draws pseudo-random numbers.
struct Draw(u64);

impl Draw {
    /// Returns a number from `low` to `high`.
    fn between(&mut self, low: isize, high: isize) -> isize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let count = (high - low + 1).cast_unsigned() as u64;
        low + isize::try_from((self.0 >> 33) % count).unwrap()
    }

    fn below(&mut self, limit: usize) -> usize {
        self.between(0, limit.cast_signed() - 1).cast_unsigned()
    }

    fn up_to(&mut self, limit: usize) -> usize {
        1 + self.below(limit)
    }

    /// Returns 1 in half of the calls, and otherwise a number below `limit`.
    fn often_one(&mut self, limit: usize) -> usize {
        if self.below(2) == 0 {
            1
        } else {
            self.below(limit)
        }
    }

    /// Returns `order`, or a random permutation of it if `shuffled` is true.
    fn order(&mut self, mut order: Vec<usize>, shuffled: bool) -> Axes {
        if shuffled {
            for last in (1..order.len()).rev() {
                order.swap(last, self.below(last + 1));
            }
        }
        axes(&order)
    }

    fn case(&mut self) -> Case {
        let space = self.below(3);
        let rank = space + 2;
        let mut list =
            |low, high| -> Vec<isize> { (0..space).map(|_| self.between(low, high)).collect() };
        let padding: Vec<(isize, isize)> = list(-2, 3).into_iter().zip(list(-2, 3)).collect();
        let mut lengths = |low, high| -> PerAxis {
            list(low, high)
                .into_iter()
                .map(isize::cast_unsigned)
                .collect()
        };
        let (input, window) = (lengths(0, 6), lengths(1, 3));
        let (strides, input_dilation, kernel_dilation) =
            (lengths(1, 3), lengths(1, 3), lengths(1, 2));
        let shuffled = self.below(2) == 0;
        let outside: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
        let kernel = [rank - 1, rank - 2].into_iter().chain(0..space).collect();
        let numbers = DimensionNumbers {
            input: self.order(outside.clone(), shuffled),
            kernel: self.order(kernel, shuffled),
            result: self.order(outside, shuffled),
        };
        let groups = self.up_to(3);
        let (feature_groups, batch_groups) = if self.below(2) == 0 {
            (groups, 1)
        } else {
            (1, groups)
        };
        let (batch, depth, outputs) = (self.below(3), self.often_one(4), self.often_one(4));
        Case {
            input: laid_out(
                &numbers.input,
                batch * batch_groups,
                depth * feature_groups,
                &input,
            ),
            kernel: laid_out(&numbers.kernel, outputs * groups, depth, &window),
            convolution: Convolution {
                strides,
                padding: padding.into(),
                input_dilation,
                kernel_dilation,
                feature_groups,
                batch_groups,
                numbers,
            },
        }
    }
}

/// Returns random convolutions whose padding does not remove too many elements.
fn cases(count: usize) -> impl Iterator<Item = Case> {
    let mut draw = Draw(7);
    std::iter::repeat_with(move || draw.case())
        .filter(Case::result_is_valid)
        .take(count)
}

/// Fills the pool of freed memory with NaN, so that a test fails if a kernel leaves an element unwritten.
fn poison(shape: &[usize]) {
    drop(Tensor::full(DType::F64, shape, f64::NAN));
}

#[test]
fn convolutions_match_definition() {
    for case in cases(2000) {
        let [input, kernel] = case.operands();
        let expected = slow(&case.convolution, &input, &kernel);
        poison(expected.shape());
        assert_close(
            &convolve(&case.convolution, &input, &kernel).unwrap(),
            &expected,
            1e-13,
        );
    }
}

/// Puts NaN and infinities in place of some elements.
fn with_specials(tensor: &Tensor, draw: &mut Draw) -> Tensor {
    let special = |element: &f64| match draw.below(6) {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        _ => *element,
    };
    let elements: Vec<f64> = tensor.to_vec::<f64>().iter().map(special).collect();
    Tensor::new(tensor.shape(), elements)
}

#[test]
fn padding_contributes_nothing() {
    let mut draw = Draw(5);
    for case in cases(2000) {
        let mut convolution = case.convolution.clone();
        // Windows that lie entirely in the padding, and more of them than elements.
        if let Some(padding) = convolution.padding.first_mut() {
            padding.1 += draw.between(0, 5);
        }
        let [input, kernel] = case.operands();
        let mut operands = [input, with_specials(&kernel, &mut draw)];
        if draw.below(2) == 0 {
            operands[0] = with_specials(&operands[0], &mut draw);
        }
        let expected = slow(&convolution, &operands[0], &operands[1]);
        poison(expected.shape());
        let found = convolve(&convolution, &operands[0], &operands[1]).unwrap();
        assert_close(&found, &expected, 1e-13);
        // Specials and small whole numbers are exact in narrow dtypes.
        let [input, kernel] = operands.map(|operand| (operand * 3.0).round());
        let expected = slow(&convolution, &input, &kernel);
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let [input, kernel] = [&input, &kernel].map(|it| convert(it, dtype).unwrap());
            let found = convolve(&convolution, &input, &kernel).unwrap();
            assert_close(&found, &convert(&expected, dtype).unwrap(), 0.0);
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the numbers of elements are small whole numbers"
)]
/// Returns the cotangents of both operands by their definition: each result that reads an element multiplies it by one element of the
/// other operand.
fn slow_cotangents(
    convolution: &Convolution,
    operands: &[Tensor; 2],
    cotangent: &Tensor,
) -> [Tensor; 2] {
    let cotangents = cotangent.to_vec::<f64>();
    let numbered = |tensor: &Tensor| {
        Tensor::new(
            tensor.shape(),
            (1..=tensor.len()).map(|it| it as f64).collect::<Vec<_>>(),
        )
    };
    [0, 1].map(|position| {
        let (operand, other) = (&operands[position], &operands[1 - position]);
        let values = other.to_vec::<f64>();
        let of_element = |element: usize| {
            let mut unit = vec![0.0; operand.len()];
            unit[element] = 1.0;
            let unit = Tensor::new(operand.shape(), unit);
            // The number of the other operand's element, or 0 if the result does not read this element.
            let read = match position {
                0 => slow(convolution, &unit, &numbered(other)),
                _ => slow(convolution, &numbered(other), &unit),
            };
            let terms = read.to_vec::<f64>().into_iter().zip(&cotangents);
            let terms = terms.filter(|(read, _)| *read > 0.0);
            terms
                .map(|(read, cotangent)| values[read as usize - 1] * cotangent)
                .sum::<f64>()
        };
        Tensor::new(
            operand.shape(),
            (0..operand.len()).map(of_element).collect::<Vec<_>>(),
        )
    })
}

#[test]
fn padding_contributes_nothing_to_derivatives() {
    let mut draw = Draw(9);
    for case in cases(300) {
        let convolution = &case.convolution;
        let [input, kernel] = case.operands();
        if input.len().max(kernel.len()) > 200 {
            continue;
        }
        let kernel = with_specials(&kernel, &mut draw);
        let shape = convolution
            .result_shape(input.shape(), kernel.shape())
            .unwrap();
        let cotangent = with_specials(&noise(&shape, 3), &mut draw);
        let operands = [input, kernel];
        let expected = slow_cotangents(convolution, &operands, &cotangent);
        let [input, kernel] = &operands;
        let of_input = rules::cotangent_of_input(convolution, &cotangent, input.info(), kernel);
        assert_close(&of_input, &expected[0], 1e-13);
        let of_kernel = rules::cotangent_of_kernel(convolution, &cotangent, input, kernel.info());
        assert_close(&of_kernel, &expected[1], 1e-13);
    }
}

#[test]
fn whole_numbers_convolve_exactly() {
    for case in cases(500) {
        let whole = |tensor: &Tensor| {
            convert(&convert(&(tensor * 7.0), DType::I32).unwrap(), DType::F64).unwrap()
        };
        let [input, kernel] = case.operands().map(|tensor| whole(&tensor));
        let expected = slow(&case.convolution, &input, &kernel);
        for dtype in [DType::I32, DType::I64, DType::F32] {
            let of_dtype = |tensor: &Tensor| convert(tensor, dtype).unwrap();
            let found = convolve(&case.convolution, &of_dtype(&input), &of_dtype(&kernel)).unwrap();
            assert_eq!(convert(&found, DType::F64).unwrap(), expected, "{case:?}");
        }
    }
}

#[test]
fn rules_agree_with_evaluation() {
    let mut draw = Draw(11);
    for case in cases(500) {
        let (convolution, operands) = (&case.convolution, case.operands());
        check_transpose(convolution, &operands, 0);
        check_transpose(convolution, &operands, 1);
        check_tangent(convolution, &operands);
        let mut with_batch = |shape: &[usize]| {
            let (axis, mut shape) = (draw.below(shape.len() + 1), shape.to_vec());
            shape.insert(axis, 2);
            (noise(&shape, 3), Some(axis))
        };
        let ((input, first), (kernel, second)) =
            (with_batch(&case.input), with_batch(&case.kernel));
        let [plain_input, plain_kernel] = operands;
        check_batching(convolution, &[input.clone(), plain_kernel], &[first, None]);
        check_batching(convolution, &[plain_input, kernel.clone()], &[None, second]);
        check_batching(convolution, &[input, kernel], &[first, second]);
    }
}

/// Returns a convolution with strides of 1, the usual layout and a padding that keeps the lengths.
fn plain(sizes: &[usize], feature_groups: usize) -> Convolution {
    let space = sizes.len();
    let ones: PerAxis = smallvec![1; space];
    let outside = Axes {
        outer: 0,
        features: space + 1,
        space: (1..=space).collect(),
    };
    Convolution {
        strides: ones.clone(),
        padding: sizes
            .iter()
            .map(|&size| ((size / 2).cast_signed(), ((size - 1) / 2).cast_signed()))
            .collect(),
        input_dilation: ones.clone(),
        kernel_dilation: ones,
        feature_groups,
        batch_groups: 1,
        numbers: DimensionNumbers {
            input: outside.clone(),
            kernel: Axes {
                outer: space + 1,
                features: space,
                space: (0..space).collect(),
            },
            result: outside,
        },
    }
}

#[test]
fn long_convolutions_match_definition() {
    // The sizes exceed a block of windows, and the widths exceed the lanes of a depthwise convolution.
    for (input, kernel, groups, stride) in [
        (&[3, 20, 21, 7][..], &[3, 3, 7, 5][..], 1, 1),
        (&[2, 9, 9, 300], &[3, 3, 300, 2], 1, 2),
        (&[2, 3000, 3], &[5, 3, 4], 1, 1),
        (&[2, 9, 10, 85], &[3, 3, 1, 85], 85, 1),
        (&[2, 300, 85], &[3, 1, 85], 85, 2),
        (&[4, 30, 30, 8], &[3, 3, 4, 6], 2, 1),
        (&[300, 4, 4, 3], &[1, 1, 3, 6], 1, 1),
        (&[30, 4, 4, 3], &[4, 4, 3, 6], 1, 1),
    ] {
        let mut convolution = plain(&kernel[..kernel.len() - 2], groups);
        convolution
            .strides
            .iter_mut()
            .for_each(|number| *number = stride);
        let (x, k) = (noise(input, 1), noise(kernel, 2));
        let expected = slow(&convolution, &x, &k);
        poison(expected.shape());
        assert_close(&convolve(&convolution, &x, &k).unwrap(), &expected, 1e-13);
        let k_special = with_specials(&k, &mut Draw(3));
        let expected = slow(&convolution, &x, &k_special);
        let found = convolve(&convolution, &x, &k_special).unwrap();
        assert_close(&found, &expected, 1e-12);
        // The derivatives are linear, so the inner products are exact up to rounding.
        check_transpose(&convolution, &[x.clone(), k.clone()], 0);
        check_transpose(&convolution, &[x, k], 1);
    }
}

#[test]
fn errors_say_what_does_not_fit() {
    let (x, k) = (noise(&[2, 8, 3], 1), noise(&[3, 3, 4], 2));
    let message = |change: fn(&mut Convolution)| {
        let mut convolution = plain(&[3], 1);
        change(&mut convolution);
        convolve(&convolution, &x, &k).unwrap_err().to_string()
    };
    for (change, expected) in [
        (
            (|c| c.strides.push(1)) as fn(&mut Convolution),
            "differ in length; give one number for each spatial axis",
        ),
        (
            |c| c.numbers.input.outer = 1,
            "lhs_spec=(1, 2, 1), rhs_spec=(2, 1, 0), out_spec=(0, 2, 1)) do not name each of the 3 axes once",
        ),
        (
            |c| c.feature_groups = 2,
            "a batch of 2 with 3 features and a kernel with 3 input and 4 output features do not fit 2 feature groups",
        ),
        (
            |c| c.strides[0] = 0,
            "the strides [0], the input dilation [1]",
        ),
        (
            |c| c.padding[0] = (-9, 0),
            "the padding [(-9, 0)] and the input dilation [1] do not fit the input",
        ),
    ] {
        let found = message(change);
        assert!(found.contains(expected), "{found}");
    }
    let floats = convolve(&plain(&[3], 1), &x, &convert(&k, DType::F32).unwrap());
    assert!(
        floats
            .unwrap_err()
            .to_string()
            .contains("the same element type in both tensors")
    );
}

#[test]
fn parameters_are_displayed_as_in_jax() {
    use crate::tensor::primitive::Primitive;
    struct Parameters(Convolution);
    impl std::fmt::Display for Parameters {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.write_parameters(f)
        }
    }
    assert_eq!(
        Parameters(plain(&[3, 2], 1)).to_string(),
        "batch_group_count=1 dimension_numbers=ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), \
         out_spec=(0, 3, 1, 2)) feature_group_count=1 lhs_dilation=(1, 1) padding=((1, 1), (1, 0)) rhs_dilation=(1, 1) \
         window_strides=(1, 1)"
    );
}
