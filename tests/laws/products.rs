//! Laws of products: a compiled product has the bits of the eager one, whichever operand is transposed, at lengths around the
//! thresholds of the kernels.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use pytree::{DType, Tensor, grad, jit, vmap};

use crate::laws::cases;
use crate::laws::close::assert_same_bits;
use crate::laws::programs::noise;

/// Lengths around the thresholds at which kernels change, by themselves or as a factor of a number of elements.
const LENGTHS: &[usize] = &[
    1, 2, 3, 4, 5, 7, 8, 9, 10, 15, 16, 17, 21, 31, 32, 33, 40, 63, 64, 65, 66, 100, 127, 128, 129,
    200, 255, 256, 257, 400, 511, 512, 513, 520, 700, 1000, 1024, 1025, 2048, 2500,
];

/// The greatest number of multiplications of a product.
const MOST: usize = 1 << 20;

/// A product `[batch…, rows, depth] · [batch…, depth, columns]`.
#[derive(Clone, Debug)]
struct Sizes {
    batch: Option<usize>,
    rows: usize,
    depth: usize,
    columns: usize,
    seed: u64,
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let lengths = vec(
        prop_oneof![1 => select(&LENGTHS[..5]), 4 => select(LENGTHS)],
        3,
    );
    let batch = prop_oneof![3 => Just(None), 1 => select(vec![Some(1), Some(2), Some(3)])];
    (lengths, batch, any::<u64>()).prop_map(|(mut lengths, batch, seed)| {
        while lengths.iter().product::<usize>() * batch.unwrap_or(1) > MOST {
            let longest = (0..3).max_by_key(|&place| lengths[place]).unwrap_or(0);
            lengths[longest] = lengths[longest].div_ceil(2);
        }
        let [rows, depth, columns] = lengths[..] else {
            unreachable!()
        };
        Sizes {
            batch,
            rows,
            depth,
            columns,
            seed,
        }
    })
}

/// Which operands are given transposed.
#[derive(Clone, Copy, Debug)]
struct Form {
    left: bool,
    right: bool,
}

const FORMS: [Form; 4] = [
    Form {
        left: false,
        right: false,
    },
    Form {
        left: true,
        right: false,
    },
    Form {
        left: false,
        right: true,
    },
    Form {
        left: true,
        right: true,
    },
];

fn swapped(x: &Tensor) -> Tensor {
    x.swap_axes(-1, -2)
}

impl Form {
    /// Operands whose product has the given sizes in this form.
    fn operands(self, sizes: &Sizes, dtype: DType) -> [Tensor; 2] {
        let shape = |is_transposed: bool, rows: usize, columns: usize| {
            let matrix = if is_transposed {
                [columns, rows]
            } else {
                [rows, columns]
            };
            [sizes.batch.as_slice(), &matrix].concat()
        };
        [
            noise(
                dtype,
                &shape(self.left, sizes.rows, sizes.depth),
                sizes.seed,
            ),
            noise(
                dtype,
                &shape(self.right, sizes.depth, sizes.columns),
                sizes.seed + 1,
            ),
        ]
    }

    fn product(self, left: &Tensor, right: &Tensor) -> Tensor {
        let [left, right] = [(self.left, left), (self.right, right)]
            .map(|(is_transposed, x)| if is_transposed { swapped(x) } else { x.clone() });
        left.matmul(&right)
    }
}

/// Elements of a product computed by its formula in f64, and the sums of the absolute values of their terms.
fn check_against_formula(sizes: &Sizes, found: &Tensor, [left, right]: [Tensor; 2]) {
    // The relative errors of a term of a sum, and of the rounded sum.
    let (epsilon, rounding) = match found.dtype() {
        DType::F64 => (f64::EPSILON, 0.0),
        DType::BF16 => (f64::from(f32::EPSILON), 0.5_f64.powi(8)),
        DType::F16 => (f64::from(f32::EPSILON), 0.5_f64.powi(11)),
        _ => (f64::from(f32::EPSILON), 0.0),
    };
    let [found, left, right] =
        [found, &left, &right].map(|x| x.convert(DType::F64).to_vec::<f64>());
    let Sizes {
        batch,
        rows,
        depth,
        columns,
        ..
    } = *sizes;
    let last = batch.unwrap_or(1) - 1;
    for (row, column) in [
        (0, 0),
        (rows - 1, columns - 1),
        (rows / 2, 0),
        (0, columns / 2),
    ] {
        let terms = (0..depth).map(|step| {
            let left = left[(last * rows + row) * depth + step];
            left * right[(last * depth + step) * columns + column]
        });
        let (expected, weight) = terms.fold((0.0, 0.0), |(sum, weight), term| {
            (sum + term, weight + term.abs())
        });
        let difference = (found[(last * rows + row) * columns + column] - expected).abs();
        // The bound of any order of summation (Higham, Accuracy and Stability of Numerical Algorithms, equation 3.5).
        assert!(
            difference <= depth as f64 * epsilon * weight + rounding * expected.abs(),
            "{difference:e} at {row}, {column}"
        );
    }
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn compiled_products_have_the_bits_of_eager_ones(sizes in sizes()) {
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
            for form in FORMS {
                let [left, right] = form.operands(&sizes, dtype);
                let expected = form.product(&left, &right);
                let whole = [(form.left, &left), (form.right, &right)]
                    .map(|(is_transposed, x)| if is_transposed { swapped(x) } else { x.clone() });
                check_against_formula(&sizes, &expected, whole);
                let compiled = jit(move |(left, right): (Tensor, Tensor)| form.product(&left, &right));
                assert_same_bits(&format!("{form:?} in {dtype}"), &[compiled((left, right))], &[expected]);
            }
        }
    }

    #[test]
    fn compiled_products_with_themselves_have_the_bits_of_eager_ones(sizes in sizes()) {
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            let [x, _] = FORMS[0].operands(&sizes, dtype);
            let both = |x: &Tensor| vec![x.matmul(&swapped(x)), swapped(x).matmul(x)];
            assert_same_bits("a·aᵀ and aᵀ·a", &jit(move |x: Tensor| both(&x))(x.clone()), &both(&x));
        }
    }

    #[test]
    fn compiled_derivatives_of_products_have_the_bits_of_eager_ones(sizes in sizes()) {
        for form in FORMS {
            let operands = form.operands(&sizes, DType::F32);
            let slope = move |operands: &Vec<Tensor>| {
                let loss = |operands: &Vec<Tensor>| form.product(&operands[0], &operands[1]).square().sum();
                grad(loss)(operands).leaves().to_vec()
            };
            let operands = operands.to_vec();
            let expected = slope(&operands);
            let compiled = jit(move |operands: Vec<Tensor>| slope(&operands));
            assert_same_bits(&format!("{form:?}"), &compiled(operands), &expected);
        }
    }

    #[test]
    fn compiled_products_over_any_axes_have_the_bits_of_eager_ones(
        lengths in vec(select(vec![1_usize, 2, 3, 5, 8, 17, 33, 65]), 4),
        seed in any::<u64>(),
        orders in [select(&ORDERS[..]), select(&ORDERS[..])],
        axes in 1..3_usize,
    ) {
        let [a, b, c, d] = lengths[..] else { unreachable!() };
        // One or two axes are contracted; the operands are stored in any order of axes.
        let (left, right): ([usize; 3], [usize; 3]) =
            if axes == 1 { ([a, b, c], [c, b, d]) } else { ([a, b, c], [b, c, d]) };
        let stored = |shape: [usize; 3], order: [isize; 3]| {
            let mut stored = [0; 3];
            (0..3).for_each(|axis| stored[order[axis] as usize] = shape[axis]);
            stored
        };
        let operands = vec![
            noise(DType::F32, &stored(left, orders[0]), seed),
            noise(DType::F32, &stored(right, orders[1]), seed + 1),
        ];
        let product = move |operands: &Vec<Tensor>| {
            let [left, right] = [0, 1].map(|side| operands[side].transpose(orders[side]));
            match axes {
                1 => left.tensordot(&right, (&[2], &[0])),
                _ => left.tensordot(&right, (&[1, 2], &[0, 1])),
            }
        };
        let expected = product(&operands);
        let compiled = jit(move |operands: Vec<Tensor>| product(&operands));
        assert_same_bits("a product over axes", &[compiled(operands.clone())], &[expected]);

        // The batch axis of vmap becomes an axis of the product.
        let stacked: Vec<Tensor> = operands.iter().map(|x| Tensor::stack(&[x, &(x * 0.5)], 0)).collect();
        let each = move |operands: Vec<Tensor>| vmap(|operands: Vec<Tensor>| product(&operands))(operands);
        assert_same_bits("a batched product over axes", &[jit(each)(stacked.clone())], &[each(stacked)]);
    }
}

/// All orders of three axes.
const ORDERS: [[isize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];
