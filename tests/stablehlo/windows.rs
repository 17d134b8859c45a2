//! Convolutions and reductions of windows in several float dtypes, with their derivatives.

use pytree::convolution::{ConvDimensionNumbers, Convolution, Padding};
use pytree::pooling::{PaddingCount, Pooling};
use pytree::{DType, Tensor, grad, jvp, vmap};

use crate::stablehlo::{Case, case};

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::BF16, DType::F16];

/// Returns numbers of different sizes and signs, some of which are equal. The products of these numbers are exact in
/// every float dtype.
fn numbers(dtype: DType, shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    let places = Tensor::arange(DType::I32, count);
    let mixed = (places * 37).rem(Tensor::from(23)) - 11;
    (mixed.convert(dtype) / 8.0).reshape(shape)
}

type Pair = (Tensor, Tensor);

/// Returns the result of a convolution, the gradients of both operands, and the results for batches of one operand or
/// both operands.
fn convolved(x: &[Tensor], convolution: &Convolution) -> Vec<Tensor> {
    let apply = |(x, kernel): &Pair| convolution.apply(x, kernel);
    let pair = (x[0].clone(), x[1].clone());
    let square = |pair: &Pair| apply(pair).square().sum();
    let (slope_x, slope_kernel) = grad(square)(&pair);
    let twice = |x: &Tensor| Tensor::stack(&[x.clone(), -x * 2.0], 0);
    let (xs, kernels) = (twice(&pair.0), twice(&pair.1));
    let both = vmap(|pair: Pair| apply(&pair))((xs.clone(), kernels.clone()));
    let of_x = vmap(|x: Tensor| apply(&(x, pair.1.clone())))(xs.clone());
    let of_kernel = vmap(|kernel: Tensor| apply(&(pair.0.clone(), kernel)))(kernels.clone());
    let slopes = vmap(move |pair: Pair| grad(square)(&pair))((xs, kernels));
    vec![
        apply(&pair),
        slope_x,
        slope_kernel,
        both,
        of_x,
        of_kernel,
        slopes.0,
        slopes.1,
    ]
}

/// Returns the results of a pooling, the gradients, batches, and second derivatives.
fn pooled(x: &Tensor, pooling: &Pooling) -> Vec<Tensor> {
    let max = |x: &Tensor| pooling.max(x);
    let min = |x: &Tensor| pooling.min(x);
    let weighed = |x: &Tensor| (pooling.max(x).square() + pooling.min(x)).sum();
    let averages = |x: &Tensor| pooling.average(x).square().sum();
    let second = |x: &Tensor| grad(move |x: &Tensor| grad(weighed)(x).square().sum())(x);
    let xs = Tensor::stack(&[x.clone(), -x], 0);
    let tangent = |x: &Tensor| jvp(max, x, &(x * 0.5)).1;
    vec![
        max(x),
        min(x),
        pooling.sum(x),
        pooling.average(x),
        grad(weighed)(x),
        grad(averages)(x),
        second(x),
        tangent(x),
        vmap(|x: Tensor| grad(weighed)(&x))(xs.clone()),
        vmap(|x: Tensor| second(&x))(xs),
    ]
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in FLOATS {
        convolutions(&mut cases, dtype);
        poolings(&mut cases, dtype);
    }
    cases
}

fn convolutions(cases: &mut Vec<Case>, dtype: DType) {
    let programs: [(&str, [&[usize]; 2], fn(&[Tensor]) -> Vec<Tensor>); 8] = [
        ("valid", [&[2, 7, 3], &[3, 3, 2]], |x| {
            convolved(x, &Convolution::new([1], Padding::Valid))
        }),
        ("strides", [&[2, 7, 6, 2], &[3, 2, 2, 3]], |x| {
            convolved(x, &Convolution::new([2, 3], Padding::Same))
        }),
        ("dilations", [&[1, 7, 5, 2], &[2, 3, 2, 3]], |x| {
            let convolution = Convolution::new([2, 1], Padding::Explicit(vec![(2, 1), (0, 3)]));
            let convolution = convolution.input_dilation([2, 3]).kernel_dilation([3, 2]);
            convolved(x, &convolution)
        }),
        ("feature groups", [&[2, 6, 4], &[3, 2, 6]], |x| {
            convolved(x, &Convolution::new([1], Padding::Same).feature_groups(2))
        }),
        ("depthwise", [&[2, 6, 5, 3], &[3, 2, 1, 6]], |x| {
            let convolution = Convolution::new([1, 2], Padding::Same);
            convolved(x, &convolution.feature_groups(3))
        }),
        ("batch groups", [&[4, 6, 3], &[3, 3, 6]], |x| {
            convolved(x, &Convolution::new([2], Padding::Same).batch_groups(2))
        }),
        ("negative padding", [&[2, 8, 3], &[3, 3, 2]], |x| {
            let convolution = Convolution::new([2], Padding::Explicit(vec![(-2, 1)]));
            convolved(x, &convolution.input_dilation([2]))
        }),
        ("channels first", [&[2, 3, 6, 5], &[4, 3, 3, 2]], |x| {
            let convolution = Convolution::new([1, 2], Padding::Same);
            convolved(
                x,
                &convolution.dimension_numbers(ConvDimensionNumbers::ChannelsFirst),
            )
        }),
    ];
    for (name, shapes, program) in programs {
        let operands = shapes.map(|shape| numbers(dtype, shape));
        cases.push(case(
            format!("convolution of {dtype}, {name}"),
            operands,
            program,
        ));
    }
    cases.push(case(
        format!("transposed convolution of {dtype}"),
        [numbers(dtype, &[2, 4, 3]), numbers(dtype, &[3, 3, 2])],
        |x| vec![Convolution::new([2], Padding::Same).apply_transposed(&x[0], &x[1])],
    ));
}

fn poolings(cases: &mut Vec<Case>, dtype: DType) {
    let programs: [(&str, &[usize], fn(&[Tensor]) -> Vec<Tensor>); 5] = [
        ("overlapping windows", &[2, 7, 2], |x| {
            pooled(&x[0], &Pooling::new([3]))
        }),
        ("strides", &[2, 7, 6, 2], |x| {
            pooled(&x[0], &Pooling::new([2, 3]).strides([2, 2]))
        }),
        ("padding", &[1, 5, 5, 2], |x| {
            let pooling = Pooling::new([3, 2]).strides([2, 1]).padding(Padding::Same);
            pooled(&x[0], &pooling.count_padding(PaddingCount::Exclude))
        }),
        ("negative padding", &[2, 8, 1], |x| {
            let padding = Padding::Explicit(vec![(-1, 1)]);
            pooled(&x[0], &Pooling::new([3]).strides([2]).padding(padding))
        }),
        ("gaps", &[2, 9, 1], |x| {
            pooled(&x[0], &Pooling::new([2]).strides([4]))
        }),
    ];
    for (name, shape, program) in programs {
        let x = numbers(dtype, shape);
        cases.push(case(format!("pooling of {dtype}, {name}"), [x], program));
    }
    let nan = f64::NAN;
    let special = [
        1.0,
        nan,
        3.0,
        -0.0,
        0.0,
        f64::NEG_INFINITY,
        f64::INFINITY,
        nan,
        2.0,
        2.0,
    ];
    let special = Tensor::from(special.to_vec())
        .convert(dtype)
        .reshape([10, 1]);
    cases.push(case(format!("pooling of {dtype}, NaN"), [special], |x| {
        let pooling = Pooling::new([2]).padding(Padding::Explicit(vec![(1, 1)]));
        vec![
            pooling.max(&x[0]),
            pooling.min(&x[0]),
            grad(|x: &Tensor| pooling.max(x).sum())(&x[0]),
            grad(|x: &Tensor| pooling.min(x).sum())(&x[0]),
        ]
    }));
}
