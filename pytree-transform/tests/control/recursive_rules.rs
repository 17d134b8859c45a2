//! Rules that call their own function, rules that run only when they are needed, and their captured values.
//!
//! The expected numbers are closed forms. JAX 0.10.2 gives the same, and runs rules as often. It refuses rules that
//! capture traced tensors and run later.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pytree_core::{Module, Ref};
use pytree_transform::{
    DType, Tensor, cond, custom_jvp, custom_vjp, eval_shape, fori_loop, grad, hessian, jacrev, jit,
    jvp, remat, scan, vjp, vmap,
};

use crate::control::close;
use crate::control::mistakes::reports;

/// x³ with a rule that calls the function itself.
fn cube(x: &Tensor) -> Tensor {
    custom_jvp(
        |x: &Tensor| x.powi(3),
        |x, tangent| (cube(x), x.square() * 3.0 * tangent),
    )(x)
}

/// eˣ with a rule whose derivative is the function itself.
fn exp(x: &Tensor) -> Tensor {
    custom_jvp(Tensor::exp, |x, tangent| (exp(x), exp(x) * tangent))(x)
}

/// eˣ with a rule for cotangents, in which both functions call the function itself.
fn exp_backward(x: &Tensor) -> Tensor {
    custom_vjp(
        |x: &Tensor| x.exp(),
        |x| (exp_backward(x), x.clone()),
        |x, cotangent| exp_backward(&x) * cotangent,
    )(x)
}

/// Rounding as a straight-through estimator: the derivative is that of the identity.
fn rounded(x: &Tensor) -> Tensor {
    custom_jvp(Tensor::round, |x, tangent| (rounded(x), tangent.clone()))(x)
}

fn is_close(what: &str, found: &Tensor, expected: impl IntoIterator<Item = f64>) {
    let expected: Vec<f64> = expected.into_iter().collect();
    close(
        what,
        &found.reshape([expected.len()]),
        &Tensor::from(expected),
    );
}

/// Checks a function of which every derivative is known, by element, in all compositions.
fn derivatives_are(f: fn(&Tensor) -> Tensor, at: [f64; 2], derivatives: [fn(f64) -> f64; 4]) {
    let x = Tensor::from(at);
    let [zeroth, first, second, third] = derivatives.map(|derivative| at.map(derivative));
    let sum = move |x: &Tensor| f(x).sum();
    let slope = move |x: &Tensor| grad(sum)(x);
    let slopes = move |x: &Tensor| slope(x).sum();
    let curvature = move |x: &Tensor| grad(slopes)(x);
    let curvatures = move |x: &Tensor| curvature(x).sum();
    let compiled = jit(move |x: Tensor| f(&x));
    is_close("call", &f(&x), zeroth);
    is_close("jit", &compiled(x.clone()), zeroth);
    is_close("vmap", &vmap(move |x: Tensor| f(&x))(x.clone()), zeroth);
    is_close("grad", &slope(&x), first);
    is_close("jit of grad", &jit(grad(sum))(x.clone()), first);
    let of_jit = |x: &Tensor| compiled(x.clone()).sum();
    is_close("grad of jit", &grad(of_jit)(&x), first);
    is_close("vmap of grad", &vmap(grad(sum))(x.clone()), first);
    let of_vmap = |x: &Tensor| vmap(move |x: Tensor| f(&x))(x.clone()).sum();
    is_close("grad of vmap", &grad(of_vmap)(&x), first);
    let (value, pullback) = vjp(f, &x);
    is_close("value of vjp", &value, zeroth);
    is_close("vjp", &pullback.call(&Tensor::ones_like(&x)), first);
    is_close("grad of grad", &curvature(&x), second);
    is_close("jit of grad of grad", &jit(grad(slopes))(x.clone()), second);
    let slopes_of_jit = |x: &Tensor| grad(of_jit)(x).sum();
    is_close("grad of grad of jit", &grad(slopes_of_jit)(&x), second);
    let jit_of_slopes = jit(grad(sum));
    let between = |x: &Tensor| jit_of_slopes(x.clone()).sum();
    is_close("grad of jit of grad", &grad(between)(&x), second);
    is_close(
        "vmap of grad of grad",
        &vmap(grad(slopes))(x.clone()),
        second,
    );
    is_close("three times", &grad(curvatures)(&x), third);
    is_close(
        "jit of three times",
        &jit(grad(curvatures))(x.clone()),
        third,
    );
    let looped = move |x: &Tensor| scan(|c, x| (c + f(&x), ()), Tensor::from(0.0_f64), x.clone()).0;
    is_close("grad of scan", &grad(looped)(&x), first);
    let slopes_of_scan = move |x: &Tensor| grad(looped)(x).sum();
    is_close("grad of grad of scan", &grad(slopes_of_scan)(&x), second);
    let recomputed = move |x: &Tensor| remat(f)(x).sum();
    is_close("grad of remat", &grad(recomputed)(&x), first);
    let chosen = move |x: &Tensor| {
        cond(
            &x.sum().greater(-100.0),
            |x: Tensor| f(&x),
            |x| x,
            x.clone(),
        )
        .sum()
    };
    is_close(
        "grad of cond",
        &grad(jit(move |x: Tensor| chosen(&x)))(&x),
        first,
    );
}

#[test]
fn jvp_rule_may_call_its_function() {
    derivatives_are(
        cube,
        [0.5, -2.0],
        [|x| x.powi(3), |x| 3.0 * x * x, |x| 6.0 * x, |_| 6.0],
    );
    derivatives_are(exp, [0.5, -2.0], [f64::exp; 4]);
    derivatives_are(
        |x| rounded(x).square(),
        [0.75, -2.25],
        [|x| x.round().powi(2), |x| 2.0 * x.round(), |_| 2.0, |_| 0.0],
    );
}

#[test]
fn vjp_rule_may_call_its_function() {
    derivatives_are(exp_backward, [0.5, -2.0], [f64::exp; 4]);
}

#[test]
fn forward_mode_of_rule_that_calls_its_function() {
    let (x, one) = (Tensor::from([0.5_f64, -2.0]), Tensor::from([1.0_f64, 1.0]));
    let slope = |x: &Tensor| jvp(cube, x, &one).1;
    is_close("jvp", &slope(&x), [0.75, 12.0]);
    is_close("jvp of jvp", &jvp(slope, &x, &one).1, [3.0, -12.0]);
    let compiled = jit({
        let one = one.clone();
        move |x: Tensor| jvp(|x: &Tensor| jvp(cube, x, &one).1, &x, &one).1
    });
    is_close("jit of jvp of jvp", &compiled(x.clone()), [3.0, -12.0]);
    for f in [cube as fn(&Tensor) -> Tensor, |x| {
        jit(|x: Tensor| cube(&x))(x.clone())
    }] {
        let curvature = hessian(move |x: &Tensor| f(x).sum())(&x);
        is_close("hessian", &curvature, [3.0, 0.0, 0.0, -12.0]);
    }
    let curvature = jit(jacrev(grad(|x: &Tensor| exp_backward(x).sum())));
    let [a, b] = [0.5_f64.exp(), (-2.0_f64).exp()];
    is_close("jacrev of grad", &curvature(x.clone()), [a, 0.0, 0.0, b]);
    // As in JAX, forward mode reaches the function that the rule calls, which has no rule for tangents.
    reports(
        || hessian(|x: &Tensor| exp_backward(x).sum())(&x),
        &["custom_vjp", "in forward mode"],
    );
}

/// x³, with a rule that counts how often it runs.
fn counted(runs: &Arc<AtomicUsize>) -> impl Fn(&Tensor) -> Tensor + Clone + Send + Sync + 'static {
    let runs = Arc::clone(runs);
    move |x: &Tensor| {
        let runs = Arc::clone(&runs);
        custom_jvp(
            |x: &Tensor| x.powi(3),
            move |x, tangent| {
                runs.fetch_add(1, Ordering::Relaxed);
                (counted(&runs)(x), x.square() * 3.0 * tangent)
            },
        )(x)
    }
}

#[test]
fn jvp_rule_runs_only_when_it_is_needed() {
    let runs = Arc::new(AtomicUsize::new(0));
    let f = counted(&runs);
    let took = |what: &str, expected: usize| {
        assert_eq!(runs.swap(0, Ordering::Relaxed), expected, "{what}");
    };
    let x = Tensor::from(2.0_f64);
    f(&x);
    took("call", 0);
    let compiled = jit({
        let f = f.clone();
        move |x: Tensor| f(&x)
    });
    compiled(x.clone());
    eval_shape(&f, &x);
    vmap(|x: Tensor| f(&x))(Tensor::from([1.0_f64, 2.0]));
    fori_loop(0, 3, |_, x: Tensor| f(&x), x.clone());
    took("nothing is differentiated", 0);
    grad(|y: &Tensor| f(&x) * y)(&x);
    took("a constant", 0);
    let slope = grad(&f);
    for _ in 0..2 {
        slope(&x);
        took("grad", 1);
    }
    let curvature = grad(grad(&f));
    for _ in 0..2 {
        is_close("curvature", &curvature(&x), [12.0]);
        took("grad of grad", 2);
    }
    let of_jit = grad(|x: &Tensor| compiled(x.clone()));
    of_jit(&x);
    took("grad of jit", 1);
    of_jit(&x);
    took("grad of jit again", 0);
    let of_jit = grad(grad(|x: &Tensor| compiled(x.clone())));
    is_close("curvature", &of_jit(&x), [12.0]);
    took("grad of grad of jit", 1);
    of_jit(&x);
    took("grad of grad of jit again", 0);
    let compiled = jit(grad(f.clone()));
    for expected in [1, 0] {
        compiled(x.clone());
        took("jit of grad", expected);
    }
    let each = vmap(grad(&f));
    each(Tensor::from([1.0_f64, 2.0]));
    took("vmap of grad", 1);
}

#[test]
fn vjp_rule_runs_only_when_it_is_needed() {
    let runs = Arc::new(AtomicUsize::new(0));
    let f = {
        let runs = Arc::clone(&runs);
        move |x: &Tensor| {
            let (forward, backward) = (Arc::clone(&runs), Arc::clone(&runs));
            custom_vjp(
                |x: &Tensor| x.square(),
                move |x| {
                    forward.fetch_add(1, Ordering::Relaxed);
                    (x.square(), x.clone())
                },
                move |x, cotangent: Tensor| {
                    backward.fetch_add(10, Ordering::Relaxed);
                    x * cotangent * 2.0
                },
            )(x)
        }
    };
    let took = |what: &str, expected: usize| {
        assert_eq!(runs.swap(0, Ordering::Relaxed), expected, "{what}");
    };
    let x = Tensor::from(2.0_f64);
    f(&x);
    let compiled = jit({
        let f = f.clone();
        move |x: Tensor| f(&x)
    });
    compiled(x.clone());
    vmap(|x: Tensor| f(&x))(Tensor::from([1.0_f64, 2.0]));
    took("nothing is differentiated", 0);
    for _ in 0..2 {
        grad(&f)(&x);
        took("grad", 11);
    }
    for expected in [11, 0] {
        grad(|x: &Tensor| compiled(x.clone()))(&x);
        took("grad of jit", expected);
    }
}

#[derive(Module, Clone, Debug)]
struct Quantizer {
    #[param]
    scale: Tensor,
    #[state]
    offset: Ref<Tensor>,
    #[r#static]
    power: i32,
}

/// scale · xⁿ + offset, with a rule that calls the function.
fn quantized(pair: &(Quantizer, Tensor)) -> Tensor {
    custom_jvp(
        |(model, x): &(Quantizer, Tensor)| &model.scale * x.powi(model.power) + model.offset.get(),
        |pair, (of_model, of_x)| {
            let (model, x) = pair;
            let power = f64::from(model.power);
            let slope = &model.scale * x.powi(model.power - 1) * power;
            let tangent = slope * of_x + &of_model.scale * x.powi(model.power);
            (quantized(pair), tangent + of_model.offset.get())
        },
    )(pair)
}

#[test]
fn rule_calls_its_function_of_a_module() {
    let model = |power| Quantizer {
        scale: Tensor::from(2.0_f64),
        offset: Ref::new(Tensor::from(1.0_f64)),
        power,
    };
    let x = Tensor::from([0.5_f64, -2.0]);
    for power in [2, 3] {
        let of_x = |x: &Tensor| quantized(&(model(power), x.clone())).sum();
        let of_model = |model: &Quantizer| quantized(&(model.clone(), x.clone())).sum();
        let n = f64::from(power);
        let slope = [0.5_f64, -2.0].map(|x: f64| 2.0 * n * x.powi(power - 1));
        is_close("x", &grad(of_x)(&x), slope);
        let compiled = jit(move |pair: (Quantizer, Tensor)| quantized(&pair).sum());
        let of_jit = |x: &Tensor| compiled((model(power), x.clone()));
        is_close("x of jit", &grad(of_jit)(&x), slope);
        let slopes = |x: &Tensor| grad(of_jit)(x).sum();
        let second = [0.5_f64, -2.0].map(|x: f64| 2.0 * n * (n - 1.0) * x.powi(power - 2));
        is_close("second", &grad(slopes)(&x), second);
        let gradient = grad(of_model)(&model(power));
        is_close(
            "scale",
            &gradient["scale"],
            [0.5_f64.powi(power) + (-2.0_f64).powi(power)],
        );
        assert_eq!(gradient.len(), 1);
    }
}

/// scale · x³, with rules that capture the scale.
fn scaled(scale: &Tensor, x: &Tensor) -> Tensor {
    let (of_function, of_rule) = (scale.clone(), scale.clone());
    custom_jvp(
        move |x: &Tensor| x.powi(3) * &of_function,
        move |x, tangent| (scaled(&of_rule, x), x.square() * tangent * &of_rule * 3.0),
    )(x)
}

/// scale · x³, with a rule for cotangents that returns and captures the scale.
fn scaled_backward(scale: &Tensor, x: &Tensor) -> Tensor {
    let [of_function, of_forward, of_backward] = [scale.clone(), scale.clone(), scale.clone()];
    custom_vjp(
        move |x: &Tensor| x.powi(3) * &of_function,
        move |x| {
            let residuals = (x.clone(), of_forward.clone());
            (scaled_backward(&of_forward, x), residuals)
        },
        move |(x, scale): (Tensor, Tensor), cotangent| {
            let half = (&of_backward + scale) * 0.5;
            x.square() * cotangent * half * 3.0
        },
    )(x)
}

#[test]
fn captured_tensor_is_used_by_rule_that_runs_later() {
    let (scale, x) = (Tensor::from(5.0_f64), Tensor::from([0.5_f64, -2.0]));
    for f in [scaled as fn(&Tensor, &Tensor) -> Tensor, scaled_backward] {
        let compiled = jit(move |(scale, x): (Tensor, Tensor)| f(&scale.exp().log(), &x));
        let of_jit = |x: &Tensor| compiled((scale.clone(), x.clone())).sum();
        is_close("grad of jit", &grad(of_jit)(&x), [3.75, 60.0]);
        let slopes = |x: &Tensor| grad(of_jit)(x).sum();
        is_close("grad of grad of jit", &grad(slopes)(&x), [15.0, -60.0]);
        let curvatures = |x: &Tensor| grad(slopes)(x).sum();
        is_close("third", &grad(curvatures)(&x), [30.0, 30.0]);
        let scales = Tensor::from([5.0_f64, 10.0]);
        let batched = jit(vmap(move |(scale, x): (Tensor, Tensor)| f(&scale, &x)));
        let of_vmap = |x: &Tensor| batched((scales.clone(), x.clone())).sum();
        is_close("grad of jit of vmap", &grad(of_vmap)(&x), [3.75, 120.0]);
        let slopes = |x: &Tensor| grad(of_vmap)(x).sum();
        is_close(
            "grad of grad of jit of vmap",
            &grad(slopes)(&x),
            [15.0, -120.0],
        );
        let looped = jit(move |(scale, x): (Tensor, Tensor)| {
            let step = |c: Tensor, x: Tensor| (c + f(&scale, &x), ());
            scan(step, Tensor::from(0.0_f64), x).0
        });
        let of_scan = |x: &Tensor| looped((scale.clone(), x.clone()));
        is_close("grad of jit of scan", &grad(of_scan)(&x), [3.75, 60.0]);
        let inside = jit(move |(scale, x): (Tensor, Tensor)| {
            let looped = |x: &Tensor| {
                let step = |c: Tensor, x: Tensor| (c + f(&scale, &x), ());
                scan(step, Tensor::from(0.0_f64), x.clone()).0
            };
            grad(looped)(&x)
        });
        is_close(
            "jit of grad of scan",
            &inside((scale.clone(), x.clone())),
            [3.75, 60.0],
        );
    }
}

#[test]
fn tensor_captured_by_rule_alone_is_reported() {
    let f = |limit: Tensor, x: &Tensor| {
        custom_vjp(
            |x: &Tensor| x.clone(),
            |x| (x.clone(), ()),
            move |(), cotangent: Tensor| cotangent.minimum(&limit),
        )(x)
    };
    let (limit, x) = (Tensor::from(0.5_f64), Tensor::from(2.0_f64));
    let inside = jit(move |(limit, x): (Tensor, Tensor)| {
        grad(|x: &Tensor| f(limit.clone(), x).square())(&x)
    });
    assert_eq!(inside((limit.clone(), x.clone())).item::<f64>(), 0.5);
    let compiled = jit(move |(limit, x): (Tensor, Tensor)| f(limit, &x));
    reports(
        || grad(|x: &Tensor| compiled((limit.clone(), x.clone())))(&x),
        &["jit", "has finished"],
    );
    let nested = jit(move |(limit, x): (Tensor, Tensor)| {
        let looped = |x: &Tensor| fori_loop(0, 2, |_, x| f(limit.clone(), &x), x.clone());
        grad(looped)(&x)
    });
    reports(
        || nested((limit.clone(), x.clone())),
        &[
            "cannot apply the rule of the custom_vjp at ",
            "control/recursive_rules.rs",
            "captured a traced tensor (f64[])",
            "pass the tensor as a part of the argument",
        ],
    );
}

#[test]
fn batched_rule_may_depend_on_more_than_its_function() {
    // The function does not depend on its argument, the tangent does.
    let f = |x: &Tensor| {
        custom_jvp(
            |_: &Tensor| Tensor::zeros(DType::F64, []),
            |x, tangent| (Tensor::zeros(DType::F64, []), x * tangent),
        )(x)
    };
    let compiled = jit(vmap(move |x: Tensor| f(&x)));
    let x = Tensor::from([2.0_f64, 3.0]);
    assert_eq!(compiled(x.clone()).to_vec::<f64>(), [0.0, 0.0]);
    is_close(
        "grad",
        &grad(|x: &Tensor| compiled(x.clone()).sum())(&x),
        [2.0, 3.0],
    );
    let by_name = jit(vmap(|x: Tensor| {
        custom_jvp(
            |x: &Tensor| x - pytree_transform::psum(x, "i"),
            |x, t| {
                (
                    x - pytree_transform::psum(x, "i"),
                    t * pytree_transform::psum(x, "i"),
                )
            },
        )(&x)
    })
    .axis_name("i"));
    is_close(
        "named",
        &grad(|x: &Tensor| by_name(x.clone()).sum())(&x),
        [5.0, 5.0],
    );
}

fn endless(x: &Tensor) -> Tensor {
    custom_jvp(endless, |x, tangent| (x.clone(), tangent.clone()))(x)
}

fn endless_backward(x: &Tensor) -> Tensor {
    custom_vjp(
        endless_backward,
        |x| (x.clone(), ()),
        |(), cotangent| cotangent,
    )(x)
}

/// A function whose rule takes the derivative of the function.
fn endless_rule(x: &Tensor) -> Tensor {
    custom_jvp(Tensor::exp, |x, tangent| {
        (x.exp(), grad(|x: &Tensor| endless_rule(x))(x) * tangent)
    })(x)
}

#[test]
fn endless_recursion_is_reported() {
    let x = Tensor::from(1.0_f64);
    let words = [
        "seems to call itself endlessly",
        "control/recursive_rules.rs",
    ];
    for f in [endless as fn(&Tensor) -> Tensor, endless_backward] {
        reports(|| f(&x), &words);
        reports(|| jit(move |x: Tensor| f(&x))(x.clone()), &words);
        reports(|| grad(f)(&x), &words);
        reports(
            || vmap(move |x: Tensor| f(&x))(Tensor::from([1.0_f64])),
            &words,
        );
    }
    is_close("call", &endless_rule(&x), [1.0_f64.exp()]);
    reports(|| grad(endless_rule)(&x), &words);
    // The message does not spoil later calls.
    is_close("later", &grad(cube)(&x), [3.0]);
}
