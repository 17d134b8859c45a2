//! `grad` of `grad`, `hessian`, `jvp`, and Rust control flow on values under `grad`.

use pytree::prelude::*;

fn close(found: &Tensor, expected: f64) {
    assert!(
        (found.item::<f64>() - expected).abs() < 1e-9 * expected.abs().max(1.0),
        "{found:?} {expected}"
    );
}

#[test]
fn derivatives_of_every_order() {
    let x = 0.3_f64;
    let f = |x: &Tensor| x.powi(4) * x.sin();
    let first = 4.0 * x.powi(3) * x.sin() + x.powi(4) * x.cos();
    let second = 12.0 * x.powi(2) * x.sin() + 8.0 * x.powi(3) * x.cos() - x.powi(4) * x.sin();
    close(&grad(f)(&Tensor::from(x)), first);
    close(&grad(grad(f))(&Tensor::from(x)), second);
    let (value, slope) = jvp(f, &Tensor::from(x), &Tensor::from(2.0_f64));
    close(&value, x.powi(4) * x.sin());
    close(&slope, 2.0 * first);
    let (_, of_gradient) = jvp(grad(f), &Tensor::from(x), &Tensor::from(1.0_f64));
    close(&of_gradient, second);
}

#[test]
fn hessian_equals_finite_differences() {
    let f = |p: &Tensor| {
        let (a, b, c) = (p.index(ix![0]), p.index(ix![1]), p.index(ix![2]));
        (1.0 - &a).powi(2)
            + (&b - a.powi(2)).powi(2) * 100.0
            + (&c - b.powi(2)).powi(2) * 100.0
            + (&a * &b * &c).sin()
    };
    let p = Tensor::from([0.5_f64, 0.7, -0.3]);
    let second = hessian(f)(&p);
    assert_eq!(second.shape(), [3, 3]);
    assert!((&second - second.t()).abs().max().item::<f64>() < 1e-9);
    let columns: Vec<Tensor> = (0..3)
        .map(|k| {
            let step = |sign: f64| &p + Tensor::eye(DType::F64, 3).index(ix![k]) * (sign * 1e-5);
            (grad(f)(&step(1.0)) - grad(f)(&step(-1.0))) / 2e-5
        })
        .collect();
    let numeric = Tensor::stack(&columns, 1);
    assert!((second - numeric).abs().max().item::<f64>() < 1e-4);
}

#[test]
fn rust_decides_on_values_under_grad() {
    let newton_root = |x: &Tensor| {
        let mut root = Tensor::from(1.0_f64);
        while (root.square() - x).abs().item::<f64>() > 1e-12 {
            root = (&root + x / &root) / 2.0;
        }
        root
    };
    close(&newton_root(&Tensor::from(2.0_f64)), 2.0_f64.sqrt());
    let slope = grad(newton_root)(&Tensor::from(2.0_f64));
    assert!((slope.item::<f64>() - 0.5 / 2.0_f64.sqrt()).abs() < 1e-6);
}
