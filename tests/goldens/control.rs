//! Programs with branches, loops and custom rules, as in `tests/golden/control_goldens.py`.

use pytree::control::{
    ScanOptions, associative_scan, associative_scan_with, cond, fori_loop, map, scan, scan_with,
    switch, while_loop,
};
use pytree::{
    Tensor, custom_jvp, custom_vjp, grad, hessian, jacfwd, jacrev, jit, jvp, linear_transpose,
    linearize, remat, vmap,
};
use serde_json::Value;

use crate::goldens::cases::{check_file, check_vmap, record_case};
use crate::goldens::files::{read, tensor};
use crate::goldens::tolerance::assert_close;
use crate::stablehlo::record::Group;

type Pair = (Tensor, Tensor);

fn step(c: Tensor, x: Tensor) -> Pair {
    let c = (&c * &x).sin() + c;
    (c.clone(), c * x.exp())
}

fn at(x: &Tensor, position: i32) -> Tensor {
    x.take(&Tensor::from(position), 0)
}

fn softplus(x: &Tensor) -> Tensor {
    let value = |x: &Tensor| x.exp().log1p();
    custom_jvp(value, move |x, t| (value(x), t * x.sigmoid()))(x)
}

fn crooked(x: &Tensor) -> Tensor {
    custom_jvp(|x: &Tensor| x.sin(), |x, t| (x.sin(), x * t * 7.0))(x)
}

fn clipped(x: &Tensor) -> Tensor {
    custom_vjp(
        |x: &Tensor| x.clone(),
        |x| (x.clone(), ()),
        |(), cotangent| cotangent.clip(-0.5, 0.5),
    )(x)
}

fn tripled(x: &Tensor, y: &Tensor) -> Tensor {
    let product = custom_vjp(
        |(x, y): &Pair| x * y,
        |(x, y)| (x * y, (x.clone(), y.clone())),
        |(x, y), cotangent: Tensor| (y * &cotangent * 3.0, x.sin() * cotangent),
    );
    product(&(x.clone(), y.clone()))
}

fn deep(x: &Tensor) -> Tensor {
    x.sin().exp().tanh()
}

fn cube(x: &Tensor) -> Tensor {
    x.powi(3).sum()
}

fn branches(name: &str, x: &[Tensor]) -> Tensor {
    let x1 = || x[1].clone();
    match name {
        "cond" => cond(&x[0], |x: Tensor| x.sin(), |x| x.square(), x1()),
        "cond of a sum" => cond(
            &x[0].sum().greater(0.0),
            |x: Tensor| &x * x.sum(),
            |x| x.exp(),
            x[0].clone(),
        ),
        "cond pair" => {
            let (a, b) = cond(
                &x[0],
                |(a, b): Pair| (a * &b, b),
                |(a, b)| (b, a.cos()),
                (x1(), x[2].clone()),
            );
            a + b
        }
        "cond captured" => cond(&x[0], |a: Tensor| a * &x[2], |a| a + x[2].sin(), x1()),
        "cond constant" => cond(&x[0], |x: Tensor| x, |x| Tensor::zeros_like(&x), x1()),
        "cond in cond" => cond(
            &x[0],
            |x: Tensor| {
                cond(
                    &at(&x, 0).greater(0.0),
                    |x: Tensor| x.exp(),
                    |x| x.sin(),
                    x.clone(),
                )
            },
            |x| x.square(),
            x1(),
        ),
        "cond of grad" => cond(
            &x[0],
            |x: Tensor| grad(cube)(&x),
            |x| grad(|x: &Tensor| x.sin().sum())(&x),
            x1(),
        ),
        "switch" => switch(
            &x[0],
            &[&|x: Tensor| x.sin(), &|x| x.square(), &|x| x.exp()],
            x1(),
        ),
        "switch of one" => switch(&x[0], &[&|x: Tensor| x.sin()], x1()),
        "switch captured" => switch(
            &x[0],
            &[&|a: Tensor| a * &x[2], &|a| a, &|_| x[2].cos()],
            x1(),
        ),
        _ => loops(name, x),
    }
}

fn loops(name: &str, x: &[Tensor]) -> Tensor {
    let pair = || (x[0].clone(), x[1].clone());
    let (first, last) = (|| x[0].clone(), || x[x.len() - 1].clone());
    match name {
        "scan" | "scan of none" => scan(step, pair().0, pair().1).0,
        "scan outputs" | "scan of no outputs" => scan(step, pair().0, pair().1).1,
        "scan reverse" => scan_with(ScanOptions::new().reverse(), step, pair().0, pair().1).1,
        "scan both" => {
            let (last, outputs) = scan(step, pair().0, pair().1);
            last * outputs.sum_axes([0])
        }
        "scan without inputs" => {
            let options = ScanOptions::new().length(4);
            scan_with(options, |c: Tensor, ()| (c.sin() * 2.0, c), first(), ()).1
        }
        "scan captured" => {
            scan(
                |c: Tensor, y| ((c * x[2].sin() + y).tanh(), ()),
                first(),
                pair().1,
            )
            .0
        }
        "scan of matrices" => {
            scan(
                |c: Tensor, y: Tensor| ((x[2].matmul(&c) + y).tanh(), c),
                first(),
                pair().1,
            )
            .1
        }
        "scan of pairs" => {
            let init = (at(&x[0], 0), at(&x[1], 0));
            scan(
                |(a, b): Pair, (x, y): Pair| ((b, &a * x + y), a),
                init,
                pair(),
            )
            .1
        }
        "scan with a counter" => {
            let init = (Tensor::from(0), first());
            scan(
                |(i, c): Pair, x: Tensor| ((&i + 1, &c * &x + i.convert(x.dtype())), c),
                init,
                pair().1,
            )
            .1
        }
        "scan with a late tangent" => {
            let one = Tensor::ones(x[0].dtype(), [3]);
            let init = (one.clone(), one.clone(), one);
            scan(
                |(a, b, c): (Tensor, Tensor, Tensor), x: Tensor| {
                    ((&a + &b, &b * c.sin(), c + &a * x), a)
                },
                init,
                first(),
            )
            .1
        }
        "scan in scan" => {
            scan(
                |c: Tensor, x: Tensor| {
                    let inner = scan(
                        |a: Tensor, b: Tensor| ((a + b).sin() * &c, ()),
                        x.clone(),
                        Tensor::stack(&[c.clone(), &c * &x], 0),
                    );
                    (inner.0, c.clone())
                },
                first(),
                pair().1,
            )
            .1
        }
        "cond in scan" => {
            scan(
                |c: Tensor, x: Tensor| {
                    let positive = at(&x, 0).greater(0.0);
                    let next = cond(&positive, |c: Tensor| c * &x, |c| c.sin() - &x, c.clone());
                    (next, c)
                },
                first(),
                pair().1,
            )
            .0
        }
        "switch in scan" => {
            scan(
                |c: Tensor, (i, x): Pair| {
                    (
                        switch(&i, &[&|c: Tensor| c.sin(), &|c| c * &x, &|c| c.square()], c),
                        (),
                    )
                },
                first(),
                (Tensor::arange(pytree::DType::I32, 4), pair().1),
            )
            .0
        }
        "scan in cond" => cond(
            &x[0],
            |c: Tensor| scan(step, c, x[2].clone()).0,
            |c| c * 2.0,
            x[1].clone(),
        ),
        "grad in scan" => {
            scan(
                |c: Tensor, x: Tensor| (grad(|c: &Tensor| (c * &x).sin().sum())(&c), c),
                first(),
                pair().1,
            )
            .0
        }
        "vmap in scan" => {
            scan(
                |c: Tensor, x: Tensor| {
                    let sum = c.sum();
                    (vmap(|a: Tensor| a * &sum)(x), c)
                },
                first(),
                pair().1,
            )
            .0
        }
        "jit in scan" => {
            scan(
                |c: Tensor, x: Tensor| (jit(move |c: Tensor| c.sin() * &x)(c), ()),
                first(),
                pair().1,
            )
            .0
        }
        "fori_loop" => fori_loop(0, 4, |_, c: Tensor| c.sin() * &x[0], first()),
        "fori_loop of the number" => fori_loop(
            1,
            4,
            |i, c: Tensor| c * &x[0] + i.convert(x[0].dtype()),
            first(),
        ),
        "fori_loop of none" => fori_loop(3, 1, |_, c: Tensor| c * &x[0], first()),
        "fori_loop in fori_loop" => fori_loop(
            0,
            2,
            |_, c: Tensor| fori_loop(0, 3, |_, d: Tensor| (d + &c).sin(), c.clone()),
            first(),
        ),
        "map" => map(|y: Tensor| y.sin() * &x[1], first()),
        "map of sums" => map(|x: Tensor| x.sum().square(), first()),
        "associative_scan sum" => associative_scan(|a: Tensor, b| a + b, first()),
        "associative_scan product" => associative_scan(|a: Tensor, b| a * b, first()),
        "associative_scan reverse" => {
            associative_scan_with(ScanOptions::new().reverse(), |a: Tensor, b| a * b, first())
        }
        "associative_scan affine" => {
            associative_scan(
                |(a, b): Pair, (c, d): Pair| (a * &c, b * c + d),
                (first(), last()),
            )
            .1
        }
        _ => rules(name, x),
    }
}

fn rules(name: &str, x: &[Tensor]) -> Tensor {
    let pair = || (x[0].clone(), x[1].clone());
    match name {
        "remat" => remat(deep)(&x[0]) * &x[0],
        "remat in scan" => {
            let step = remat(|(c, x): &Pair| step(c.clone(), x.clone()));
            scan(|c, x: Tensor| step(&(c, x)), pair().0, pair().1).1
        }
        "remat twice" => remat(|x: &Tensor| remat(deep)(x).sum() * x)(&x[0]),
        "custom_jvp" => softplus(&x[0]),
        "custom_jvp crooked" => crooked(&x[0]) * &x[0],
        "custom_jvp in scan" => {
            scan(
                |c: Tensor, x: Tensor| (crooked(&(&c + x)), c),
                pair().0,
                pair().1,
            )
            .1
        }
        "custom_vjp clip" => clipped(&x[0]).square(),
        "custom_vjp crooked" => tripled(&x[0], &x[1].sin()),
        "custom_vjp in scan" => {
            scan(
                |c: Tensor, x: Tensor| (tripled(&c, &x), c),
                pair().0,
                pair().1,
            )
            .1
        }
        "custom_vjp in cond" => cond(&x[0], |x: Tensor| tripled(&x, &x), |x| x.sin(), pair().1),
        "custom_vjp in vmap" => vmap(|(x, y): Pair| tripled(&x, &y)).in_axes((0, None))(pair()),
        "custom_vjp of remat" => remat(|x: &Tensor| tripled(&deep(x), x))(&x[0]),
        "jacfwd" => jacfwd(|x: &Tensor| x.sin() * x.sum())(&x[0]),
        "jacrev" => jacrev(|x: &Tensor| x.sin() * x.sum())(&x[0]),
        "jacfwd of a part" => jacfwd(|a: &Tensor| a.expand_dims(1) * &x[1])(&x[0]),
        "jacrev of a part" => jacrev(|a: &Tensor| a.expand_dims(1) * &x[1])(&x[0]),
        "hessian" => hessian(|x: &Tensor| (x.sin() * at(x, 0)).sum())(&x[0]),
        "hessian of a pair" => hessian(|(x, y): &Pair| (x.sin() * y).sum())(&pair()).0.1,
        "hessian of a scan" => hessian(|x: &Tensor| {
            scan(step, x.clone(), Tensor::stack(&[x.clone(), x.clone()], 0))
                .0
                .sum()
        })(&x[0]),
        "linearize" => linearize(deep, &x[0]).1.call(&x[1]),
        "linear_transpose" => linear_transpose(|y: &Tensor| x[0].matmul(y), &x[1]).call(&x[1]),
        _ => endless(name, x),
    }
}

fn endless(name: &str, x: &[Tensor]) -> Tensor {
    let first = || x[0].clone();
    match name {
        "while_loop" => while_loop(|x: &Tensor| x.sum().less(20.0), |x| x * 1.5, first()),
        "while_loop of none" => while_loop(|x: &Tensor| x.sum().less(0.0), |x| x * 1.5, first()),
        "while_loop newton" => {
            while_loop(
                |(count, y): &Pair| (y.square() - &x[0]).abs().greater(1e-3) & count.less(11),
                |(count, y)| (count + 1, (&y + &x[0] / &y) / 2.0),
                (Tensor::from(0), first()),
            )
            .1
        }
        "while_loop captured" => while_loop(
            |c: &Tensor| c.sum().less(x[1].sum() * 9.0),
            |c| c + (&x[0] * &x[1]).exp(),
            first(),
        ),
        "while_loop in scan" => {
            scan(
                |c: Tensor, x: Tensor| {
                    (
                        while_loop(|a: &Tensor| a.less(3.0), |a| a * 1.25 + &c, x),
                        (),
                    )
                },
                at(&x[0], 0),
                first(),
            )
            .0
        }
        "fori_loop of a tensor" => {
            fori_loop(0, &x[0], |_, c: Tensor| c.sin() + &x[1], x[1].clone())
        }
        other => panic!("program {other}"),
    }
}

fn apply(name: &str, _: &Value, x: &[Tensor]) -> Tensor {
    branches(name, x)
}

#[test]
fn control_flow_matches_jax() {
    check_file("control.json", 100, apply);
}

/// A case with the derivatives of one mode: the floats among its inputs, and the program as a function of them.
fn narrow_cases(
    group: &str,
    check: fn(&str, &Value, &Vec<Tensor>, &(dyn Fn(&Vec<Tensor>) -> Tensor + Send + Sync)),
) {
    let file = read("control.json");
    let cases = file[group].as_array().unwrap();
    assert!(cases.len() >= 12);
    let mut group = Group::new(20);
    for case in cases {
        let name = case["name"].as_str().unwrap().to_owned();
        let what = format!("{name} {}", case["dtype"]);
        let list = |name: &str| -> Vec<Tensor> {
            case[name].as_array().unwrap().iter().map(tensor).collect()
        };
        let inputs = list("inputs");
        let program = move |x: &Vec<Tensor>| branches(&name, x);
        let expected = tensor(&case["output"]);
        assert_close(&what, &program(&inputs), &expected);
        let compiled = jit({
            let program = program.clone();
            move |x: Vec<Tensor>| program(&x)
        });
        assert_close(
            &format!("{what}: jit"),
            &compiled(inputs.clone()),
            &expected,
        );
        check_vmap(&what, case, &program);
        record_case(&what, case, &inputs, program.clone(), &mut group);
        let floats: Vec<Tensor> = inputs
            .iter()
            .filter(|x| x.dtype().is_float())
            .cloned()
            .collect();
        let of_floats = move |floats: &Vec<Tensor>| {
            let mut floats = floats.iter().cloned();
            let full = inputs.iter().map(|x| {
                if x.dtype().is_float() {
                    floats.next().unwrap()
                } else {
                    x.clone()
                }
            });
            program(&full.collect())
        };
        check(&what, case, &floats, &of_floats);
    }
}

#[test]
fn rules_for_cotangents_are_as_in_jax() {
    narrow_cases("reverse", |what, case, x, f| {
        let list = |name: &str| -> Vec<Tensor> {
            case[name].as_array().unwrap().iter().map(tensor).collect()
        };
        let weights = tensor(&case["weights"]);
        let loss = |x: &Vec<Tensor>| (f(x) * &weights).sum();
        let slopes = grad(loss)(x);
        for (found, expected) in slopes.leaves().iter().zip(list("gradients")) {
            assert_close(&format!("{what}: gradient"), found, &expected);
        }
        let direction = list("direction");
        let along = |x: &Vec<Tensor>| {
            let slopes = grad(loss)(x);
            let products = slopes
                .leaves()
                .iter()
                .zip(&direction)
                .map(|(l, r)| (l * r).sum());
            products.reduce(|sum, term| sum + term).unwrap()
        };
        let second = grad(along)(x);
        for (found, expected) in second.leaves().iter().zip(list("second")) {
            assert_close(&format!("{what}: second derivative"), found, &expected);
        }
    });
}

#[test]
fn forward_derivatives_of_loops_match_jax() {
    narrow_cases("forward", |what, case, x, f| {
        let list = case["direction"].as_array().unwrap();
        let direction: Vec<Tensor> = list.iter().map(tensor).collect();
        let along = |x: &Vec<Tensor>| jvp(|x: &Vec<Tensor>| f(x), x, &direction).1;
        assert_close(&format!("{what}: jvp"), &along(x), &tensor(&case["jvp"]));
        let second = jvp(|x: &Vec<Tensor>| along(x), x, &direction).1;
        assert_close(
            &format!("{what}: second derivative"),
            &second,
            &tensor(&case["second"]),
        );
    });
}
