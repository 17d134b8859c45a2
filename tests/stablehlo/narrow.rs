//! Programs on half-precision floats and on narrow integers: indices, movements, control flow, and constants.

use pytree::control::{ScanOptions, cond, scan_with, while_loop};
use pytree::indexing::Step;
use pytree::random::Key;
use pytree::{DType, Tensor, bf16, custom_jvp, f16, grad, ix, jit, jvp, vmap};

use crate::stablehlo::{Case, case};

const HALVES: [DType; 2] = [DType::BF16, DType::F16];
const INTEGERS: [DType; 4] = [DType::I8, DType::I16, DType::U8, DType::U16];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in HALVES {
        of_halves(&mut cases, dtype);
    }
    for dtype in HALVES.into_iter().chain(INTEGERS) {
        of_all(&mut cases, dtype);
    }
    for dtype in INTEGERS {
        indices(&mut cases, dtype);
    }
    constants(&mut cases);
    cases.push(case("random halves", [Tensor::from(3)], |x| {
        let key = Key::new(42).fold_in(x[0].clone());
        let uniform = HALVES.map(|dtype| key.uniform(dtype, [50]));
        let normal = HALVES.map(|dtype| key.normal(dtype, [50]));
        [uniform, normal].concat()
    }));
    cases
}

fn of_halves(cases: &mut Vec<Case>, dtype: DType) {
    let x = || (Tensor::arange(DType::F64, 24) * 0.25 - 3.0).convert(dtype);
    cases.push(case(format!("control flow in {dtype}"), [x()], |x| {
        let half = |x: &Tensor| x * 0.5;
        let step = |c: Tensor, x: Tensor| (half(&c) + x.sin(), c * x);
        let scanned = |x: &Tensor| {
            let start = Tensor::zeros(x.dtype(), []);
            scan_with(ScanOptions::new(), step, start, x.clone())
        };
        let slope = grad(|x: &Tensor| scanned(x).1.sum())(&x[0]);
        let looped = while_loop(
            |x: &Tensor| x.sum().less(50.0),
            |x: Tensor| x * 0.75 + 1.0,
            x[0].clone(),
        );
        let branch = cond(
            &x[0].sum().greater(0.0),
            |x: Tensor| x.exp(),
            |x| x.cos(),
            x[0].clone(),
        );
        let (last, products) = scanned(&x[0]);
        vec![last, products, slope, looped, branch]
    }));
    cases.push(case(format!("functions in {dtype}"), [x()], |x| {
        let called = jit(|x: Tensor| x.tanh() * x);
        let slopes = vmap(|x: Tensor| grad(|x: &Tensor| called(x.clone()).sum())(&x))(x[0].clone());
        let custom = custom_jvp(
            |x: &Tensor| x.exp(),
            |x: &Tensor, t: &Tensor| (x.exp(), t * 2.0),
        );
        let tangents = jvp(|x: &Tensor| custom(x), &x[0], &x[0]);
        vec![called(x[0].clone()), slopes, tangents.0, tangents.1]
    }));
    cases.push(case(format!("long sums in {dtype}"), [x()], |x| {
        let long = x[0].tile([200]) * 0.1 + 1.0;
        vec![
            long.sum(),
            long.mean(),
            (&long - long.mean()).square().mean(),
            long.cumsum(0),
            long.matmul(&long),
        ]
    }));
    let at = Tensor::from([0, 5, 5, -1, 5, 99, 5, 5]);
    cases.push(case(format!("scattered sums in {dtype}"), [x(), at], |x| {
        let weighed = |y: &Tensor| (y.take(&x[1], 0).sin() * 0.3).sum();
        let values = x[0].take(&x[1], 0) * 0.1;
        vec![
            grad(weighed)(&x[0]),
            x[0].at_indices(&x[1], 0).add(&values),
            x[0].at_indices(&x[1], 0).multiply(&values),
        ]
    }));
}

fn of_all(cases: &mut Vec<Case>, dtype: DType) {
    let x = || Tensor::arange(dtype, 24).reshape([4, 6]);
    cases.push(case(format!("movements of {dtype}"), [x()], |x| {
        let x = &x[0];
        let even = x
            .rem(Tensor::full(x.dtype(), [], 2.0))
            .equal(Tensor::zeros(x.dtype(), []));
        vec![
            x.t(),
            x.reshape([8, 3]),
            x.index(ix![.., Step(.., -1)]),
            x.roll(2, 1),
            x.pad(3.0, [(1, -1, 1), (-1, 2, 0)]),
            Tensor::concatenate(&[x.clone(), x.clone()], 1),
            even.select(x, x.roll(1, 0)),
            x.expand_dims(1).broadcast_to([4, 2, 6]),
            x.stop_gradient(),
            x.clip(3.0, 7.0),
            x.dynamic_slice(&[Tensor::from(2), Tensor::from(9)], [2, 3]),
            x.sort(1),
        ]
    }));
}

/// Adds programs with a constant of a few numbers, one that is written as hexadecimal digits, and one that is an
/// argument of the module.
fn constants(cases: &mut Vec<Case>) {
    macro_rules! of {
        ($($dtype:ident: |$n:ident| $number:expr;)*) => {$(
            cases.push(case(
                format!("constants of {}", DType::$dtype),
                [Tensor::ones(DType::$dtype, [])],
                |x| {
                    let constants = [7_i16, 100, 2000].map(|count| {
                        let numbers = (0..count).map(|$n| $number).collect::<Vec<_>>();
                        Tensor::from(numbers) + &x[0]
                    });
                    let full = Tensor::full(DType::$dtype, [3], 2.5) * &x[0];
                    [&constants[..], &[full]].concat()
                },
            ));
        )*};
    }
    of! {
        BF16: |n| bf16::from_f32(f32::from(n) * 0.7 - 3.0);
        F16: |n| f16::from_f32(f32::from(n) * 0.7 - 3.0);
        I8: |n| (n - 3) as i8;
        I16: |n| n - 3;
        U8: |n| n as u8;
        U16: |n| n.cast_unsigned() * 31;
    }
}

fn indices(cases: &mut Vec<Case>, dtype: DType) {
    let x = Tensor::arange(DType::F32, 900).reshape([300, 3]);
    let at = Tensor::from([0, 3, 120, 127, 128, 200, 255, -1, -2, -128, 7]).convert(dtype);
    cases.push(case(format!("take at {dtype}"), [x, at], |x| {
        let values = x[0].take(&x[1], 0);
        vec![
            values.clone(),
            grad(|y: &Tensor| y.take(&x[1], 0).square().sum())(&x[0]),
            x[0].at_indices(&x[1], 0).set(&values),
            x[0].at_indices(&x[1], 0).max(&(values + 1.0)),
            x[1].one_hot(9, DType::BF16),
        ]
    }));
}
