//! Derivatives of high order, and Hessians.

use std::sync::Arc;

use pytree::{Tensor, grad, hessian, jit, vmap};

use crate::goldens::files::{read, tensor};
use crate::goldens::tolerance::assert_close;
use crate::stablehlo::record::Group;

type Function = Arc<dyn Fn(Tensor) -> Tensor + Send + Sync>;

#[test]
fn derivatives_to_order_four_match_jax() {
    let file = read("transforms.json");
    let derivatives = &file["higher_order"];
    let points = tensor(&derivatives["points"]);
    let mut group = Group::new(5);
    let mut f: Function = Arc::new(|x| x.sin() * x.tanh() * (-x).exp());
    let orders = derivatives["orders"].as_array().unwrap();
    for (order, expected) in orders.iter().enumerate() {
        let mapped = Arc::clone(&f);
        let found = vmap(move |x: Tensor| mapped(x))(points.clone());
        assert_close(&format!("order {order}"), &found, &tensor(expected));
        let recorded = Arc::clone(&f);
        group.add_known(
            format!("order {order}"),
            std::slice::from_ref(&points),
            vec![tensor(expected)],
            move |x| {
                let recorded = Arc::clone(&recorded);
                vec![vmap(move |x: Tensor| recorded(x))(x[0].clone())]
            },
        );
        let inner = Arc::clone(&f);
        f = Arc::new(move |x| grad(|x: &Tensor| inner(x.clone()))(&x));
    }
    assert_eq!(orders.len(), 5);
}

#[test]
fn hessian_of_three_variables_matches_jax() {
    let file = read("transforms.json");
    for case in file["rosenbrock"].as_array().unwrap() {
        let f = |p: &Tensor| {
            let at = |index: i32| p.take(&Tensor::from(index), 0);
            let (a, b, c) = (at(0), at(1), at(2));
            (1.0 - &a).powi(2)
                + (&b - a.powi(2)).powi(2) * 100.0
                + (&c - b.powi(2)).powi(2) * 100.0
                + (&a * &b * &c).sin()
        };
        let point = tensor(&case["point"]);
        let mut group = Group::new(1);
        let known = vec![tensor(&case["hessian"])];
        group.add_known("hessian", std::slice::from_ref(&point), known, move |x| {
            vec![hessian(f)(&x[0])]
        });
        assert_close("value", &f(&point), &tensor(&case["value"]));
        assert_close("gradient", &grad(f)(&point), &tensor(&case["gradient"]));
        assert_close("hessian", &hessian(f)(&point), &tensor(&case["hessian"]));
        assert_close(
            "jit of hessian",
            &jit(hessian(f))(point),
            &tensor(&case["hessian"]),
        );
    }
}
