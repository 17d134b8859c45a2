//! A loop gives the same results as the loop in Rust, under every transformation.

use pytree_transform::{
    ScanOptions, Tensor, associative_scan, cond, fori_loop, grad, jit, jvp, map, scan, scan_with,
    switch, vmap, while_loop,
};

use crate::control::close;

pub type Pair = (Tensor, Tensor);
pub type Scalar<'f> = &'f (dyn Fn(&Pair) -> Tensor + Send + Sync);

fn point() -> Pair {
    (
        Tensor::from([0.3_f64, -0.7]),
        Tensor::from([[0.5_f64, 0.1], [-0.4, 0.9], [0.2, -0.6]]),
    )
}

fn direction() -> Pair {
    (
        Tensor::from([0.8_f64, -0.2]),
        Tensor::from([[-0.3_f64, 0.6], [0.7, 0.4], [0.1, -0.9]]),
    )
}

fn row(x: &Tensor, at: usize) -> Tensor {
    x.take(&Tensor::from(at as i32), 0)
}

/// Asserts that two functions have the same values and derivatives, alone and under jit and vmap.
#[track_caller]
pub fn same(what: &str, f: Scalar<'_>, g: Scalar<'_>) {
    let (x, u) = (point(), direction());
    close(what, &f(&x), &g(&x));
    close(
        &format!("{what}: jvp"),
        &jvp(f, &x, &u).1,
        &jvp(g, &x, &u).1,
    );
    let inner = |(a, b): &Pair, (c, d): &Pair| (a * c).sum() + (b * d).sum();
    let both = |what: &str, f: Pair, g: Pair| {
        close(&format!("{what}, carry"), &f.0, &g.0);
        close(&format!("{what}, inputs"), &f.1, &g.1);
    };
    both(&format!("{what}: gradient"), grad(f)(&x), grad(g)(&x));
    both(
        &format!("{what}: reverse over reverse"),
        grad(|x: &Pair| inner(&grad(f)(x), &u))(&x),
        grad(|x: &Pair| inner(&grad(g)(x), &u))(&x),
    );
    both(
        &format!("{what}: forward over reverse"),
        jvp(grad(f), &x, &u).1,
        jvp(grad(g), &x, &u).1,
    );
    both(
        &format!("{what}: reverse over forward"),
        grad(|x: &Pair| jvp(f, x, &u).1)(&x),
        grad(|x: &Pair| jvp(g, x, &u).1)(&x),
    );
    let stacked = (
        Tensor::stack(&[x.0.clone(), u.0.clone()], 0),
        Tensor::stack(&[x.1.clone(), u.1.clone()], 2),
    );
    let batches = [
        ((Some(0), Some(2)), stacked.clone()),
        ((Some(0), None), (stacked.0.clone(), x.1.clone())),
        ((None, Some(2)), (x.0.clone(), stacked.1.clone())),
    ];
    for (axes, batch) in batches {
        let what = format!("{what}: vmap over {axes:?}");
        let mapped = |f: Scalar<'_>| vmap(|x: Pair| f(&x)).in_axes(axes)(batch.clone());
        close(&what, &mapped(f), &mapped(g));
        let slopes = |f: Scalar<'_>| vmap(|x: Pair| grad(f)(&x)).in_axes(axes)(batch.clone());
        both(&format!("{what} of grad"), slopes(f), slopes(g));
        let of_sum = |f: Scalar<'_>| {
            grad(|batch: &Pair| vmap(|x: Pair| f(&x)).in_axes(axes)(batch.clone()).sum())(&batch)
        };
        both(&format!("{what} in grad"), of_sum(f), of_sum(g));
        let second = |f: Scalar<'_>| {
            vmap(|x: Pair| grad(|x: &Pair| inner(&grad(f)(x), &u))(&x)).in_axes(axes)(batch.clone())
        };
        both(
            &format!("{what} of second derivatives"),
            second(f),
            second(g),
        );
    }
}

/// Asserts the same as [`same`], with the first function compiled inside and outside of the derivatives.
#[track_caller]
fn same_compiled(what: &str, f: fn(&Pair) -> Tensor, g: fn(&Pair) -> Tensor) {
    same(what, &f, &g);
    let inside = jit(move |x: Pair| f(&x));
    same(&format!("jit of {what}"), &|x: &Pair| inside(x.clone()), &g);
    let slope = jit(move |x: Pair| grad(f)(&x));
    close("jit of grad", &slope(point()).1, &grad(g)(&point()).1);
}

#[test]
fn scan_agrees_with_rust_loop() {
    let by_scan = |(c, x): &Pair| {
        let (last, outputs) = scan(
            |c: Tensor, x: Tensor| ((&c * &x).sin() + &c, c * x.exp()),
            c.clone(),
            x.clone(),
        );
        (last * 2.0).sum() + outputs.square().sum()
    };
    let by_hand = |(c, x): &Pair| {
        let (mut c, mut outputs) = (c.clone(), Vec::new());
        for at in 0..3 {
            let x = row(x, at);
            outputs.push(&c * x.exp());
            c = (&c * &x).sin() + &c;
        }
        (c * 2.0).sum() + Tensor::stack(&outputs, 0).square().sum()
    };
    same_compiled("scan", by_scan, by_hand);
}

#[test]
fn reverse_scan_agrees_with_reverse_rust_loop() {
    let by_scan = |(c, x): &Pair| {
        let (last, outputs) = scan_with(
            ScanOptions::new().reverse(),
            |c, x: Tensor| {
                let c = (c * &x).tanh() + x;
                (c.clone(), c)
            },
            c.clone(),
            x.clone(),
        );
        last.sum() + (outputs * x).sum()
    };
    let by_hand = |(c, x): &Pair| {
        let mut c = c.clone();
        let mut sum = Tensor::from(0.0_f64);
        for at in [2, 1, 0] {
            c = (c * row(x, at)).tanh() + row(x, at);
            sum += (&c * row(x, at)).sum();
        }
        c.sum() + sum
    };
    same_compiled("reverse scan", by_scan, by_hand);
}

#[test]
fn captured_tensors_are_operands() {
    let by_scan = |(c, x): &Pair| {
        let weight = c.sin();
        let (last, _) = scan(
            |h: Tensor, x: Tensor| ((h * weight.exp() + x * c).tanh(), ()),
            Tensor::from([0.1_f64, 0.2]),
            x.clone(),
        );
        last.sum()
    };
    let by_hand = |(c, x): &Pair| {
        let mut h = Tensor::from([0.1_f64, 0.2]);
        for at in 0..3 {
            h = (h * c.sin().exp() + row(x, at) * c).tanh();
        }
        h.sum()
    };
    same_compiled("captured", by_scan, by_hand);
}

#[test]
fn late_tangents_of_carries_are_found() {
    // The tangent of the last carry appears in the third iteration.
    let by_scan = |(_, x): &Pair| {
        let zero = Tensor::from([1.0_f64, 1.0]);
        let ((a, b, c), _) = scan(
            |(a, b, c): (Tensor, Tensor, Tensor), x: Tensor| {
                ((&a + &b, &b * c.sin(), c + a * x), ())
            },
            (zero.clone(), zero.clone(), zero),
            x.clone(),
        );
        (a * b * c).sum()
    };
    let by_hand = |(_, x): &Pair| {
        let one = Tensor::from([1.0_f64, 1.0]);
        let (mut a, mut b, mut c) = (one.clone(), one.clone(), one);
        for at in 0..3 {
            (a, b, c) = (&a + &b, &b * c.sin(), c + &a * row(x, at));
        }
        (a * b * c).sum()
    };
    same_compiled("late", by_scan, by_hand);
}

#[test]
fn fori_loop_agrees_with_rust_loop() {
    let by_loop = |(c, x): &Pair| {
        fori_loop(
            1,
            4,
            |i, c: Tensor| {
                (c * i.convert(pytree_transform::DType::F64)).sin() + x.take(&(i - 1), 0)
            },
            c.clone(),
        )
        .sum()
    };
    let by_hand = |(c, x): &Pair| {
        let mut c = c.clone();
        for i in 1..4 {
            c = (c * f64::from(i)).sin() + row(x, i as usize - 1);
        }
        c.sum()
    };
    same_compiled("fori_loop", by_loop, by_hand);
}

#[test]
fn cond_agrees_with_select() {
    let by_cond = |(c, x): &Pair| {
        let predicate = x.sum().greater(0.0);
        let (a, b) = cond(
            &predicate,
            |(c, x)| (c.sin() * &x, x.exp()),
            |(c, x): Pair| (&x * 2.0, x * c),
            (c.clone(), x.clone()),
        );
        (a * b).sum()
    };
    let by_select = |(c, x): &Pair| {
        let predicate = x.sum().greater(0.0);
        let (a, b) = (c.sin() * x, x.exp());
        let (d, e) = (x * 2.0, x * c);
        (predicate.select(&a, &d) * predicate.select(&b, &e)).sum()
    };
    same_compiled("cond", by_cond, by_select);
}

#[test]
fn switch_clamps_its_index() {
    let by_switch = |(c, x): &Pair| {
        let of = |index: i32| {
            switch(
                &Tensor::from(index),
                &[&|c: Tensor| c.sin() * x.sum(), &|c| c.square(), &|_| {
                    row(x, 1)
                }],
                c.clone(),
            )
        };
        (of(-3) * of(1) * of(9)).sum()
    };
    let by_hand = |(c, x): &Pair| (c.sin() * x.sum() * c.square() * row(x, 1)).sum();
    same_compiled("switch", by_switch, by_hand);
}

#[test]
fn nested_scan_agrees_with_nested_rust_loops() {
    let by_scan = |(c, x): &Pair| {
        let (last, _) = scan(
            |c: Tensor, x: Tensor| {
                let (sum, products) = scan(
                    |sum: Tensor, y: Tensor| ((&sum + &y * &x).sin(), sum * y),
                    x.clone(),
                    Tensor::stack(&[c.clone(), &c * &x], 0),
                );
                let kept = cond(
                    &sum.sum().greater(0.0),
                    |sum| sum * &c,
                    |sum| sum - x.sin(),
                    sum.clone(),
                );
                (kept + products.sum(), ())
            },
            c.clone(),
            x.clone(),
        );
        last.sum()
    };
    let by_hand = |(c, x): &Pair| {
        let mut c = c.clone();
        for at in 0..3 {
            let x = row(x, at);
            let mut sum = x.clone();
            let mut products = Tensor::from(0.0_f64);
            for y in [c.clone(), &c * &x] {
                products += (&sum * &y).sum();
                sum = (&sum + &y * &x).sin();
            }
            let kept = sum.sum().greater(0.0).select(&sum * &c, &sum - x.sin());
            c = kept + products;
        }
        c.sum()
    };
    same_compiled("nested", by_scan, by_hand);
}

#[test]
fn transformations_nest_in_scan() {
    let by_scan = |(c, x): &Pair| {
        let (last, _) = scan(
            |c: Tensor, x: Tensor| {
                let slope = grad(|y: &Tensor| (y.sin() * &x).sum())(&c);
                let doubled = jit(|y: Tensor| y.exp() * 0.5)(slope);
                let mapped = vmap(|y: Tensor| y.tanh() * &c)(x.clone());
                (doubled + mapped.sum_axes([0]), ())
            },
            c.clone(),
            x.clone(),
        );
        last.sum()
    };
    let by_hand = |(c, x): &Pair| {
        let mut c = c.clone();
        for at in 0..3 {
            let x = row(x, at);
            let mapped = x.tanh().expand_dims(1) * &c;
            c = (c.cos() * &x).exp() * 0.5 + mapped.sum_axes([0]);
        }
        c.sum()
    };
    same_compiled("transformations inside", by_scan, by_hand);
}

#[test]
fn map_agrees_with_vmap() {
    let by_map = |(c, x): &Pair| {
        map(|x: Tensor| (x * c).sin().sum(), x.clone())
            .square()
            .sum()
    };
    let by_vmap = |(c, x): &Pair| {
        vmap(|x: Tensor| (x * c).sin().sum())(x.clone())
            .square()
            .sum()
    };
    same_compiled("map", by_map, by_vmap);
}

#[test]
fn associative_scan_agrees_with_scan() {
    for length in 0..9_usize {
        let numbers: Vec<f64> = (0..2 * length).map(|i| 1.0 + 0.1 * i as f64).collect();
        let x = Tensor::new([length, 2], numbers);
        // Compositions of affine functions are associative.
        let parallel = |x: &Tensor| {
            let (a, b) = associative_scan(
                |(a, b): Pair, (c, d): Pair| (&a * &c, b * &c + d),
                (x.sin(), x.clone()),
            );
            (a * 2.0 + b).sum()
        };
        let serial = |x: &Tensor| {
            let one = Tensor::from([1.0_f64, 1.0]);
            let (_, (a, b)) = scan(
                |(a, b): Pair, (c, d): Pair| {
                    let next = (&a * &c, b * c + d);
                    (next.clone(), next)
                },
                (one.clone(), &one * 0.0),
                (x.sin(), x.clone()),
            );
            (a * 2.0 + b).sum()
        };
        close("value", &parallel(&x), &serial(&x));
        close("gradient", &grad(parallel)(&x), &grad(serial)(&x));
        close(
            "jit",
            &jit(move |x: Tensor| parallel(&x))(x.clone()),
            &serial(&x),
        );
    }
}

#[test]
fn loop_without_iterations_returns_its_carry() {
    let f = |(c, x): &Pair| {
        let (last, outputs) = scan(|c, x: Tensor| (c * &x, x.exp()), c.clone(), x.clone());
        last.sum() + outputs.sum()
    };
    let x = (
        Tensor::from([1.0_f64, 2.0]),
        Tensor::zeros(pytree_transform::DType::F64, [0, 2]),
    );
    close("value", &f(&x), &Tensor::from(3.0_f64));
    let (of_carry, of_inputs) = grad(f)(&x);
    close("carry", &of_carry, &Tensor::from([1.0_f64, 1.0]));
    assert_eq!(of_inputs.shape(), [0, 2]);
}

fn halvings(x: &Tensor) -> (Tensor, Tensor) {
    while_loop(
        |(_, x)| x.sum().greater(1.0),
        |(count, x)| (count + 1, x * 0.5),
        (Tensor::from(0), x.clone()),
    )
}

#[test]
fn while_loop_ends_each_example_separately() {
    let x = Tensor::from([0.5_f64, 3.0, 100.0, f64::NAN]);
    let (counts, values) = vmap(|x: Tensor| halvings(&x))(x.clone());
    assert_eq!(counts.to_vec::<i32>(), [0, 2, 7, 0]);
    let one_by_one: Vec<Tensor> = (0..3).map(|at| halvings(&row(&x, at)).1).collect();
    assert_eq!(
        values.to_vec::<f64>()[..3],
        Tensor::stack(&one_by_one, 0).to_vec::<f64>()
    );
    let compiled = jit(vmap(|x: Tensor| halvings(&x)));
    assert_eq!(compiled(x).0, counts);
}

#[test]
fn while_loop_has_forward_derivatives() {
    let root = |a: &Tensor| {
        let (x, _) = while_loop(
            |(x, a): &(Tensor, Tensor)| (x.square() - a).abs().greater(1e-13),
            |(x, a)| ((&x + &a / &x) * 0.5, a),
            (Tensor::from(1.0_f64), a.clone()),
        );
        x
    };
    let a = Tensor::from(2.0_f64);
    let one = Tensor::from(1.0_f64);
    let expected = Tensor::from(0.5 / 2.0_f64.sqrt());
    close("jvp", &jvp(root, &a, &one).1, &expected);
    close(
        "jvp of jit",
        &jvp(jit(move |a: Tensor| root(&a)), &a, &one).1,
        &expected,
    );
    let many = Tensor::from([2.0_f64, 9.0]);
    let slopes = vmap(|a: Tensor| jvp(root, &a, &Tensor::from(1.0_f64)).1)(many.clone());
    let expected = Tensor::from([0.5 / 2.0_f64.sqrt(), 0.5 / 3.0]);
    close("vmap of jvp", &slopes, &expected);
    let all = jvp(
        |a: &Tensor| vmap(|a: Tensor| root(&a))(a.clone()),
        &many,
        &Tensor::from([1.0_f64, 1.0]),
    )
    .1;
    close("jvp of vmap", &all, &expected);
    // A loop without differentiated values does not prevent reverse mode.
    let f = |x: &Tensor| x.powi(2) * halvings(&Tensor::from(9.0_f64)).1;
    close(
        "grad beside a loop",
        &grad(f)(&a),
        &(a.clone() * 2.0 * halvings(&Tensor::from(9.0_f64)).1),
    );
}

#[test]
fn traced_bound_makes_while_loop() {
    let power = |(x, n): (Tensor, Tensor)| fori_loop(0, &n, |_, p| p * &x, Tensor::from(1.0_f64));
    let x = Tensor::from(1.5_f64);
    let at = |n: i32| jit(power)((x.clone(), Tensor::from(n)));
    close("four", &at(4), &x.powi(4));
    close("none", &at(-2), &Tensor::from(1.0_f64));
    let many = vmap(power).in_axes((None, 0))((x.clone(), Tensor::from([0, 1, 3])));
    close(
        "vmap",
        &many,
        &Tensor::from([1.0_f64, 1.5, 1.5 * 1.5 * 1.5]),
    );
}

#[test]
fn branch_not_taken_keeps_gradient_finite() {
    // These are JAX's results: the root is computed for all examples, and its derivative below 0 is NaN.
    let x = Tensor::from([4.0_f64, 0.0, -1.0]);
    let root = |x: Tensor| {
        cond(
            &x.greater(0.0),
            |x: Tensor| x.sqrt(),
            |x| &x * 0.0,
            x.clone(),
        )
    };
    let total = move |x: &Tensor| vmap(root)(x.clone()).sum();
    let expected = Tensor::from([0.25_f64, 0.0, 0.0]);
    assert_eq!(grad(total)(&x), expected);
    assert_eq!(jit(grad(total))(x.clone()), expected);
    assert_eq!(
        grad(jit(move |x: Tensor| vmap(root)(x).sum()))(&x),
        expected
    );
    let chosen = |x: Tensor| {
        let index = x.greater(0.0).convert(pytree_transform::DType::I32);
        switch(&index, &[&|x: Tensor| &x * 0.0, &|x| x.sqrt()], x)
    };
    assert_eq!(
        grad(|x: &Tensor| vmap(chosen)(x.clone()).sum())(&x),
        expected
    );
    let shared = |w: &Tensor| {
        let root = |x: Tensor| {
            cond(
                &x.greater(0.0),
                |x: Tensor| (x * w).sqrt(),
                |_| w * 1.0,
                x.clone(),
            )
        };
        vmap(root)(x.clone()).sum()
    };
    let slope = 4.0 / (2.0 * 8.0_f64.sqrt()) + 2.0;
    close(
        "a captured weight",
        &grad(shared)(&Tensor::from(2.0_f64)),
        &Tensor::from(slope),
    );
}
