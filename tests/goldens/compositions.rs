//! Compositions of jit, vmap, grad and jvp up to depth three, and derivatives of high order.

use std::sync::Arc;

use pytree::{Tensor, grad, hessian, jit, jvp, vmap};

use crate::files::{read, tensor};
use crate::tolerance::assert_close;

type Function = Arc<dyn Fn(Tensor) -> Tensor + Send + Sync>;

/// Applies a transformation, named as in the file, to a function of one tensor.
fn transform(name: &str, f: Function, direction: Tensor, directions: Tensor) -> Function {
    match name {
        "jit" => {
            let compiled = jit(move |x: Tensor| f(x));
            #[allow(
                clippy::redundant_closure,
                reason = "a `Jit` derefs to a function and is none itself"
            )]
            Arc::new(move |x| compiled(x))
        }
        "vmap" => Arc::new(move |x| vmap(|x: Tensor| f(x))(x)),
        "grad" => Arc::new(move |x| grad(|x: &Tensor| f(x.clone()).sum())(&x)),
        "jvp" => Arc::new(move |x| {
            let along = if x.rank() == 1 {
                &direction
            } else {
                &directions
            };
            jvp(|x: &Tensor| f(x.clone()), &x, along).1
        }),
        other => panic!("transformation {other}"),
    }
}

#[test]
fn compositions_up_to_depth_three_are_as_in_jax() {
    let file = read("transforms.json");
    let group = &file["compositions"];
    let (w, direction, directions) = (
        tensor(&group["w"]),
        tensor(&group["direction"]),
        tensor(&group["directions"]),
    );
    let cases = group["cases"].as_array().unwrap();
    assert!(cases.len() >= 70);
    for case in cases {
        let w = w.clone();
        let base: Function = Arc::new(move |x| x.matmul(&w).tanh().square().sum());
        let names: Vec<&str> = case["transforms"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        let f = names.iter().rev().fold(base, |f, name| {
            transform(name, f, direction.clone(), directions.clone())
        });
        let input = tensor(&group[case["input"].as_str().unwrap()]);
        assert_close(&format!("{names:?}"), &f(input), &tensor(&case["output"]));
    }
}

#[test]
fn derivatives_up_to_order_four_are_as_in_jax() {
    let file = read("transforms.json");
    let group = &file["higher_order"];
    let points = tensor(&group["points"]);
    let mut f: Function = Arc::new(|x| x.sin() * x.tanh() * (-x).exp());
    let orders = group["orders"].as_array().unwrap();
    for (order, expected) in orders.iter().enumerate() {
        let mapped = Arc::clone(&f);
        let found = vmap(move |x: Tensor| mapped(x))(points.clone());
        assert_close(&format!("order {order}"), &found, &tensor(expected));
        let inner = Arc::clone(&f);
        f = Arc::new(move |x| grad(|x: &Tensor| inner(x.clone()))(&x));
    }
    assert_eq!(orders.len(), 5);
}

#[test]
fn the_hessian_of_three_variables_is_as_in_jax() {
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
