//! Kernels that follow products.

use pytree_kernels::base::dtype::DType;

use super::{Function, check, check_in, kernels, product, recorded, softmax};
use crate::executor::products::join_products;
use crate::executor::schedule::schedule;
use crate::operations::convolution::{ConvDimensionNumbers, Convolution, Padding};
use crate::tensor::Tensor;

/// A layer: a product, a bias and an activation. `axis` is the axis of the weights over which the product sums.
fn layer(x: &[Tensor], axis: usize) -> Tensor {
    (product(&x[0], &x[1], [1, axis]) + &x[2]).maximum(0.0)
}

/// The numbers of rows, columns and contracted elements of products. In some of them, two threads take half of the rows or of
/// the columns each.
const PRODUCTS: [[usize; 3]; 9] = [
    [1, 1, 1],
    [3, 5, 2],
    [8, 10, 128],
    [64, 128, 128],
    [300, 96, 100],
    [1, 3000, 300],
    [3000, 1, 300],
    [70, 700, 90],
    [20, 2, 700],
];

#[test]
fn kernels_follow_products() {
    let shapes = |[rows, columns, depth]: [usize; 3]| {
        [vec![rows, depth], vec![depth, columns], vec![columns]]
    };
    let text = |function: Function| {
        let shapes = shapes([8, 4, 6]);
        let (kernels, alone) = kernels(&recorded(
            &shapes.each_ref().map(|shape| &shape[..]),
            function,
        ));
        assert_eq!(alone, 0);
        kernels
    };
    let plain: Function = |x| vec![layer(x, 0)];
    assert_eq!(text(plain), ["32 elements: dot_general, add, max"]);
    // A later step reads the product.
    let kept: Function = |x| {
        let product = x[0].matmul(&x[1]);
        vec![(&product + &x[2]).tanh(), product]
    };
    assert_eq!(text(kept), ["32 elements: dot_general, add, tanh"]);
    let totals: Function = |x| {
        let y = layer(x, 0);
        vec![y.sum_axes([0]), y.sum(), y.max_axes([0])]
    };
    assert_eq!(
        text(totals),
        [
            "32 elements in rows of 32: dot_general, add, max, reduce_sum, reduce_sum rows, reduce_max"
        ]
    );
    let rows: Function = |x| vec![softmax(&[x[0].matmul(&x[1])]).remove(0) * &x[2]];
    assert_eq!(
        text(rows),
        [
            "32 elements in rows of 4: dot_general, reduce_max rows, sub, exp, reduce_sum rows, div, mul"
        ]
    );
    let columns: Function = |x| vec![layer(x, 0).sum_axes([0]), layer(x, 0) * 2.0];
    for sizes in PRODUCTS {
        let shapes = shapes(sizes);
        let shapes = shapes.each_ref().map(|shape| &shape[..]);
        for function in [plain, kept, totals, rows, columns] {
            check(&shapes, function);
            check_in(DType::F64, &shapes, function);
        }
        let turned = [shapes[0], &[sizes[1], sizes[2]], shapes[2]];
        check(&turned, |x| vec![layer(x, 1), layer(x, 1).sum_axes([0])]);
    }
}

#[test]
fn kernels_follow_convolutions() {
    /// A convolution whose strides and padding the test sets, a norm with known statistics, and an activation. Also the sums of a
    /// norm that computes its statistics.
    fn layer(convolution: &Convolution, x: &[Tensor]) -> Vec<Tensor> {
        let product = convolution.apply(&x[0], &x[1]);
        let outside: Vec<isize> = (0..x[0].rank() - 1).map(usize::cast_signed).collect();
        let normed = ((&product - &x[2]) * &x[3]).maximum(0.0);
        let sums = normed.sum_axes(&outside);
        vec![normed, sums]
    }
    let same = |x: &[Tensor]| layer(&Convolution::new([1, 1], Padding::Same), x);
    let strided: Function = |x| layer(&Convolution::new([2, 2], Padding::Same), x);
    let valid: Function = |x| layer(&Convolution::new([1, 1], Padding::Valid), x);
    let wide: Function = |x| layer(&Convolution::new([1], Padding::Explicit(vec![(9, 9)])), x);
    let transposed: Function = |x| {
        let convolution = Convolution::new([2, 2], Padding::Same);
        let product = convolution.apply_transposed(&x[0], &x[1]);
        vec![((&product - &x[2]) * &x[3]).maximum(0.0), product]
    };
    let channels_first: Function = |x| {
        let numbers = ConvDimensionNumbers::ChannelsFirst;
        let convolution = Convolution::new([1, 1], Padding::Same).dimension_numbers(numbers);
        vec![convolution.apply(&x[0], &x[1]) * 2.0 + 1.0]
    };
    let operands = |x: &[usize], kernel: &[usize]| {
        let features = kernel[kernel.len() - 1];
        [x.to_vec(), kernel.to_vec(), vec![features], vec![features]]
    };
    let cases: [(Function, _, _); 9] = [
        (same, &[2, 8, 8, 3][..], &[3, 3, 3, 4][..]),
        // Several parts, each of which continues, with blocks of sums.
        (same, &[4, 16, 16, 8], &[3, 3, 8, 32]),
        (strided, &[3, 17, 15, 5], &[3, 3, 5, 24]),
        // A single matrix product, and one that two threads share.
        (same, &[2, 6, 6, 8], &[1, 1, 8, 16]),
        (same, &[8, 16, 16, 64], &[1, 1, 64, 64]),
        (valid, &[40, 3, 3, 20], &[3, 3, 20, 30]),
        // Of the windows, some are in the padding.
        (wide, &[2, 5, 3], &[4, 3, 6]),
        (transposed, &[2, 5, 6, 3], &[3, 3, 3, 4]),
        // The result is in another order in memory, so no kernel can follow.
        (channels_first, &[2, 3, 8, 8], &[4, 3, 3, 3]),
    ];
    for (function, x, kernel) in cases {
        let shapes = operands(x, kernel);
        let shapes = shapes.each_ref().map(|shape| &shape[..]);
        let (kernels, _) = kernels(&recorded(&shapes, function));
        let follows = kernels[0].contains(": conv_general_dilated, ");
        assert_eq!(follows, x[1] != 3 || x[0] == 40, "{x:?}: {kernels:?}");
        check(&shapes, function);
        check_in(DType::F64, &shapes, function);
    }
    // Padding contributes nothing where the kernel is NaN. The kernel has fewer elements than the result, and more.
    let with_nans: Function = |x| {
        let kernel = x[1].log();
        let product = Convolution::new([1, 1], Padding::Same).apply(&x[0], &kernel);
        vec![(product * 2.0).isnan().convert(x[0].dtype())]
    };
    for x in [[4, 16, 16, 8], [1, 3, 3, 8]] {
        check(&[&x, &[3, 3, 8, 16]], with_nans);
    }
}

#[test]
fn kernels_follow_products_of_batches() {
    let function: Function = |x| {
        let scores = x[0].matmul(&x[1]) * 0.125;
        let exponentials = (&scores - scores.max_keep([-1])).exp();
        vec![
            &exponentials / exponentials.sum_keep([-1]),
            exponentials.sum_axes([0, 1]),
        ]
    };
    let shapes: [&[usize]; 2] = [&[3, 4, 5], &[3, 5, 6]];
    let (kernels, alone) = kernels(&recorded(&shapes, function));
    assert_eq!((kernels.len(), alone), (1, 0), "{kernels:?}");
    for [batch, rows, columns, depth] in [
        [3, 4, 6, 5],
        [40, 64, 64, 32],
        [1, 200, 200, 8],
        [2, 3, 900, 90],
    ] {
        check(&[&[batch, rows, depth], &[batch, depth, columns]], function);
    }
}

#[test]
fn kernel_follows_the_latest_product() {
    // The first product is in memory when the second one is computed.
    let function: Function = |x| vec![x[0].matmul(&x[1]) * x[1].matmul(&x[0]) + 1.0];
    let (kernels, alone) = kernels(&recorded(&[&[6, 6], &[6, 6]], function));
    assert_eq!(
        (kernels, alone),
        (vec!["36 elements: dot_general, mul, add".to_owned()], 1)
    );
    check(&[&[6, 6], &[6, 6]], function);
    // A product of integers, and a product that another step reads first, run alone.
    check(&[&[6, 6], &[6, 6]], |x| {
        let product = x[0].matmul(&x[1]);
        let whole = x[0].convert(DType::I32);
        let integers = whole.matmul(&whole).convert(DType::F32);
        vec![product.t().matmul(&x[0]), product + 1.0, integers * 0.5]
    });
}

#[test]
fn update_runs_after_other_readers_of_its_parameter() {
    // The update of the weights could follow the first product, but the second product still reads the old weights.
    let function: Function = |x| {
        let slope = product(&x[0], &x[2], [0, 0]);
        let back = product(&x[2], &x[1], [1, 1]);
        vec![&x[1] - slope * 0.1, back]
    };
    let shapes: [&[usize]; 3] = [&[6, 8], &[8, 4], &[6, 4]];
    let jaxpr = recorded(&shapes, function);
    let steps: Vec<Vec<usize>> = join_products(&jaxpr, schedule(&jaxpr))
        .iter()
        .map(|step| {
            step.inputs(&jaxpr)
                .iter()
                .map(|input| input.index())
                .collect()
        })
        .collect();
    let [x, weights, slope] = [0, 1, 2].map(|input| jaxpr.inputs[input].index());
    assert_eq!(steps, [vec![slope, weights], vec![x, weights, slope]]);
    check(&shapes, function);
    // A later reader of a product that moved does not move before it.
    check(&shapes, |x| {
        let slope = product(&x[0], &x[2], [0, 0]);
        let back = product(&x[2], &x[1], [1, 1]);
        let update = &x[1] - &slope * 0.1;
        let other = product(&x[0], &back, [1, 1]).sum() * 0.3;
        vec![
            update,
            product(&slope, &x[1], [1, 1]) * other + &slope.sum(),
            slope * 2.0 + 1.0,
        ]
    });
}
