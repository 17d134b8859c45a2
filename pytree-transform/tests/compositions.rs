//! Compositions of the transformations on scalars, against closed forms.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

use pytree_transform::{
    DType, Function, Reversed, Tensor, grad, hessian, ix, jit, jvp, scan, value_and_grad,
    value_and_grad_mut, vjp, vmap,
};

fn scalar(value: f64) -> Tensor {
    Tensor::from(value)
}

fn close(found: &Tensor, expected: f64) {
    let found = found.item::<f64>();
    assert!(
        (found - expected).abs() <= 1e-12 * expected.abs().max(1.0),
        "found {found}, expected {expected}"
    );
}

#[test]
fn nested_gradients_are_higher_derivatives() {
    let x = scalar(0.7);
    close(&grad(|x: &Tensor| x.sin())(&x), 0.7_f64.cos());
    close(&grad(grad(|x: &Tensor| x.sin()))(&x), -0.7_f64.sin());
    close(&grad(grad(grad(|x: &Tensor| x.sin())))(&x), -0.7_f64.cos());
}

#[test]
fn perturbations_are_not_confused() {
    let outer = grad(|x: &Tensor| {
        let x = x.clone();
        let inner = grad(|y: &Tensor| &x + y)(&Tensor::from(1.0_f64));
        &x * inner
    });
    close(&outer(&scalar(3.0)), 1.0);
}

#[test]
fn jit_nests_with_grad_both_ways() {
    let x = scalar(0.3);
    let expected = 0.3_f64.cos() * 0.3_f64.exp() + 0.3_f64.sin() * 0.3_f64.exp();
    let f = |x: &Tensor| x.sin() * x.exp();
    close(&jit(grad(f))(x.clone()), expected);
    close(&grad(jit(|x: Tensor| x.sin() * x.exp()))(&x), expected);
    close(
        &jit(grad(jit(|x: Tensor| x.sin() * x.exp())))(x.clone()),
        expected,
    );
    let second = 2.0 * 0.3_f64.cos() * 0.3_f64.exp();
    close(&grad(grad(jit(|x: Tensor| x.sin() * x.exp())))(&x), second);
    close(
        &grad(jit(grad(jit(|x: Tensor| x.sin() * x.exp()))))(&x),
        second,
    );
}

#[test]
fn jvp_and_vjp_agree() {
    let f = |x: &Tensor| x.tanh() * x;
    let (_, forward) = jvp(f, &scalar(0.4), &scalar(2.0));
    let (_, pullback) = vjp(f, &scalar(0.4));
    close(&forward, 2.0 * pullback.call(&scalar(1.0)).item::<f64>());
    close(&forward, pullback.call(&scalar(2.0)).item::<f64>());
    let (_, through_jit) = jvp(jit(|x: Tensor| x.tanh() * x), &scalar(0.4), &scalar(2.0));
    close(&through_jit, forward.item());
}

#[test]
fn vmap_composes_with_grad_and_jit() {
    let x = Tensor::from([0.1_f64, 0.2, 0.3]);
    let expected: Vec<f64> = [0.1_f64, 0.2, 0.3].iter().map(|x| x.cos()).collect();
    let f = |x: &Tensor| x.sin();
    assert_eq!(vmap(grad(f))(x.clone()).to_vec::<f64>(), expected);
    assert_eq!(jit(vmap(grad(f)))(x.clone()).to_vec::<f64>(), expected);
    assert_eq!(vmap(jit(grad(f)))(x.clone()).to_vec::<f64>(), expected);
    assert_eq!(
        vmap(grad(jit(|x: Tensor| x.sin())))(x.clone()).to_vec::<f64>(),
        expected
    );
    let batch_gradient = grad(|x: &Tensor| vmap(|x: Tensor| x.sin())(x.clone()).sum())(&x);
    assert_eq!(batch_gradient.to_vec::<f64>(), expected);
}

#[test]
fn control_flow_works_under_grad() {
    let relu = grad(|x: &Tensor| if x.item::<f64>() > 0.0 { x * 3.0 } else { -x });
    close(&relu(&scalar(2.0)), 3.0);
    close(&relu(&scalar(-2.0)), -1.0);
}

#[test]
fn hessian_holds_second_derivatives() {
    let rosenbrock = |p: &Tensor| {
        let (a, b) = (
            p.take(&Tensor::from([0_i32]), 0).sum(),
            p.take(&Tensor::from([1_i32]), 0).sum(),
        );
        (1.0 - &a).powi(2) + (b - a.powi(2)).powi(2) * 100.0
    };
    let second = hessian(rosenbrock)(&Tensor::from([0.5_f64, 0.7]));
    let expected = [2.0 + 1200.0 * 0.25 - 400.0 * 0.7, -200.0, -200.0, 200.0];
    for (found, expected) in second.to_vec::<f64>().iter().zip(expected) {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
}

#[test]
fn state_written_under_grad_is_kept() {
    let mut pair = (scalar(3.0), scalar(0.0));
    let (loss, (slope, _)) = value_and_grad_mut(|pair: &mut (Tensor, Tensor)| {
        pair.1 = &pair.1 + &pair.0;
        &pair.0 * &pair.0
    })(&mut pair);
    close(&loss, 9.0);
    close(&slope, 6.0);
    close(&pair.1, 3.0);
    assert!(!pair.1.is_traced());
}

#[test]
fn jitted_function_can_capture_differentiated_tensor() {
    // The rules of `square` and `max` create constants. These must not belong to the inner trace, which has finished
    // when they are used.
    let f = |x: &Tensor| {
        let x = x.clone();
        let product = jit(move |y: Tensor| y.sum() * x.square().max());
        product(Tensor::from([2.0_f64, 3.0]))
    };
    assert_eq!(
        grad(f)(&Tensor::from([1.0_f64, 4.0])).to_vec::<f64>(),
        [0.0, 40.0]
    );
}

#[test]
fn value_and_grad_returns_auxiliary_results() {
    let ((loss, twice), slope) = value_and_grad(|x: &Tensor| (x.exp(), x * 2.0))(&scalar(0.5));
    close(&loss, 0.5_f64.exp());
    close(&twice, 1.0);
    close(&slope, 0.5_f64.exp());
}

#[test]
fn panic_inside_leaves_thread_usable() {
    let outcome = std::panic::catch_unwind(|| {
        grad(|_: &Tensor| -> Tensor { panic!("on purpose") })(&scalar(1.0))
    });
    assert!(outcome.is_err());
    close(&grad(|x: &Tensor| x * 2.0)(&scalar(1.0)), 2.0);
}

#[test]
fn escaped_traced_tensor_is_rejected() {
    let stolen = std::sync::Mutex::new(None);
    let _ = grad(|x: &Tensor| {
        *stolen.lock().unwrap() = Some(x.clone());
        x.clone()
    })(&scalar(1.0));
    let stolen = stolen.lock().unwrap().take().unwrap();
    let message = *std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stolen.sin()))
        .unwrap_err()
        .downcast::<String>()
        .unwrap();
    assert!(
        message.contains("the grad that made it has finished"),
        "{message}"
    );
}

#[test]
fn escaped_tensor_names_what_recorded_it() {
    let stolen = std::sync::Mutex::new(None);
    let step = |x: Tensor, _: Tensor| {
        *stolen.lock().unwrap() = Some(x.clone());
        (x.clone(), x)
    };
    scan(step, scalar(1.0), Tensor::from([1.0_f64, 2.0]));
    let stolen = stolen.lock().unwrap().take().unwrap();
    let error = stolen.try_add(1.0).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot add a traced f64[]: the scan that made it has finished, or runs on another thread; return the tensor from the function instead of storing it"
    );
}

#[test]
fn jitted_function_is_called_from_two_threads() {
    let f = jit(|x: Tensor| x.sin());
    let expected = 0.5_f64.sin();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..100).for_each(|_| close(&f(scalar(0.5)), expected)));
        }
    });
    assert!(Function::<Tensor>::call(&f, scalar(0.5)).item::<f64>() == expected);
}

#[test]
fn reading_value_under_jit_names_alternatives() {
    let f = jit(|x: Tensor| if x.item::<f64>() > 0.0 { x } else { -x });
    let message = *std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(scalar(1.0))))
        .unwrap_err()
        .downcast::<String>()
        .unwrap();
    assert!(
        message.contains("inside jit") && message.contains("select"),
        "{message}"
    );
}

#[test]
fn concrete_tensors_compare_by_value() {
    let two = Tensor::from(2.0_f64);
    let f = |x: &Tensor| {
        if *x == Tensor::from(2.0_f64) {
            x * 10.0
        } else {
            x * 3.0
        }
    };
    close(&grad(f)(&two), 10.0);
    close(&grad(f)(&scalar(3.0)), 3.0);
    close(&grad(|x: &Tensor| grad(f)(x) * x)(&two), 10.0);
    assert!(
        jit(|x: Tensor| Tensor::from(f64::from(u8::from(x == x.clone()))))(two.clone())
            .item::<f64>()
            > 0.5
    );
    for mapped in [false, true] {
        let panic = std::panic::catch_unwind(|| {
            let f = |x: Tensor| if x == Tensor::from(2.0_f64) { x } else { -x };
            if mapped {
                vmap(f)(Tensor::from([2.0_f64]))
            } else {
                jit(f)(scalar(2.0))
            }
        });
        let message = *panic.unwrap_err().downcast::<String>().unwrap();
        assert!(
            message.starts_with("cannot compare tensors by `==`: "),
            "{message}"
        );
        assert!(
            message.contains("`select`")
                && message.ends_with("use `.equal(&other)` instead of `==`"),
            "{message}"
        );
    }
}

#[test]
fn negative_window_start_counts_from_end() {
    // The expected values are those of `jax.lax.dynamic_slice` and `dynamic_update_slice`.
    let x = Tensor::from([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]);
    let starts = [Tensor::from(3), Tensor::from(-1)];
    assert_eq!(
        x.dynamic_slice(&starts, [2, 2]),
        Tensor::from([[7, 8], [10, 11]])
    );
    let line = Tensor::from([0, 0, 0, 0]);
    let update = Tensor::from([1, 2]);
    assert_eq!(
        line.dynamic_update_slice(&update, &[Tensor::from(-1)]),
        Tensor::from([0, 0, 1, 2])
    );
    assert_eq!(
        line.dynamic_update_slice(&update, &[Tensor::from(-9)]),
        Tensor::from([1, 2, 0, 0])
    );
}

#[test]
fn integer_derivative_error_names_user_line() {
    let refused: [Box<dyn Fn()>; 3] = [
        Box::new(|| {
            drop(pytree_transform::jacrev(|x: &Tensor| x * 2)(&Tensor::from(
                [1, 2],
            )))
        }),
        Box::new(|| {
            drop(pytree_transform::jacfwd(|x: &Tensor| x * 2)(&Tensor::from(
                [1, 2],
            )))
        }),
        Box::new(|| drop(hessian(|x: &Tensor| x.sum())(&Tensor::from([1, 2])))),
    ];
    for refused in refused {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(refused)).unwrap_err();
        let message = *panic.downcast::<String>().unwrap();
        assert!(message.contains("only floats have gradients"), "{message}");
        assert!(message.contains("tests/compositions.rs:"), "{message}");
    }
}

#[test]
fn compiled_and_batched_cumulative_sums_agree() {
    let x = Tensor::iota(DType::F32, [3, 1000], 1).sin() + Tensor::iota(DType::F32, [3, 1000], 0);
    let sum = |x: Tensor| x.cumsum(0);
    let of_row = |row: usize| x.index(ix![row]);
    let batched = vmap(sum)(x.clone());
    let weighted = move |x: &Tensor, w: &Tensor| (sum(x.clone()) * w).sum();
    for row in 0..3 {
        let eager = sum(of_row(row));
        assert_eq!(jit(sum)(of_row(row)), eager);
        assert_eq!(batched.index(ix![row]), eager);
        let weights = of_row(2 - row);
        let slope = grad(|x: &Tensor| weighted(x, &weights))(&of_row(row));
        assert_eq!(slope, weights.cumsum(Reversed(0)));
    }
}
