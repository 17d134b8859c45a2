//! Functions with rules, recomputation, and derivatives as functions.

use std::sync::atomic::{AtomicUsize, Ordering};

use pytree_transform::{
    AbstractArray, DType, RematPolicy, Tensor, custom_jvp, custom_vjp, eval_shape, fori_loop, grad,
    hessian, jacfwd, jacrev, jit, jvp, linear_transpose, linearize, remat, saved_residuals, scan,
    vjp, vmap,
};

use crate::control::close;
use crate::control::laws::same;
use crate::control::mistakes::reports;

type Pair = (Tensor, Tensor);

fn sin_by_rule(x: &Tensor) -> Tensor {
    custom_jvp(|x: &Tensor| x.sin(), |x, t| (x.sin(), x.cos() * t))(x)
}

#[test]
fn constant_tangent_of_rule_is_used() {
    let steps = |x: &Tensor| custom_jvp(Tensor::floor, |x, _| (x.floor(), x.square()))(x);
    let x = Tensor::from(1.5_f64);
    let (value, tangent) = jvp(steps, &x, &Tensor::from(7.0_f64));
    assert_eq!((value.item::<f64>(), tangent.item::<f64>()), (1.0, 2.25));
    // The constant does not depend on the tangent of the argument, so the argument's cotangent is zero, as in JAX.
    assert_eq!(grad(steps)(&x).item::<f64>(), 0.0);
    let each = vmap(move |x: Tensor| jvp(steps, &x, &Tensor::from(7.0_f64)).1);
    assert_eq!(
        each(Tensor::from([1.5_f64, 2.0])).to_vec::<f64>(),
        [2.25, 4.0]
    );
}

#[test]
fn correct_jvp_rule_changes_nothing() {
    let by_rule = |(c, x): &Pair| {
        let product = custom_jvp(
            |(c, x): &Pair| (sin_by_rule(c) * x, x.square()),
            |(c, x), (dc, dx)| {
                let values = (c.sin() * x, x.square());
                let tangents = (c.cos() * dc * x + sin_by_rule(c) * dx, x * dx * 2.0);
                (values, tangents)
            },
        );
        let (a, b) = product(&(c.clone(), x.clone()));
        (a.tanh() + b).sum() + sin_by_rule(x).sum()
    };
    let by_hand = |(c, x): &Pair| ((c.sin() * x).tanh() + x.square()).sum() + x.sin().sum();
    same("custom_jvp", &by_rule, &by_hand);
    let compiled = jit(move |x: Pair| by_rule(&x));
    same(
        "jit of custom_jvp",
        &|x: &Pair| compiled(x.clone()),
        &by_hand,
    );
    let in_scan = |(c, x): &Pair| {
        scan(
            |c, x: Tensor| (sin_by_rule(&(c * x)), ()),
            c.clone(),
            x.clone(),
        )
        .0
        .sum()
    };
    let in_scan_by_hand = |(c, x): &Pair| {
        scan(|c, x: Tensor| ((c * x).sin(), ()), c.clone(), x.clone())
            .0
            .sum()
    };
    same("scan of custom_jvp", &in_scan, &in_scan_by_hand);
}

#[test]
fn wrong_jvp_rule_is_used_as_given() {
    let f = |x: &Tensor| custom_jvp(|x: &Tensor| x.sin(), |x, t| (x.sin(), t * 7.0))(x).sum();
    let x = Tensor::from([0.3_f64, 0.4]);
    let sevens = Tensor::from([7.0_f64, 7.0]);
    close("grad", &grad(f)(&x), &sevens);
    close("jit of grad", &jit(grad(f))(x.clone()), &sevens);
    close(
        "grad of jit",
        &grad(jit(move |x: Tensor| f(&x)))(&x),
        &sevens,
    );
    close("vmap of grad", &vmap(grad(f))(x.clone()), &sevens);
    close(
        "grad of vmap",
        &grad(|x: &Tensor| vmap(|x: Tensor| f(&x))(x.clone()).sum())(&x),
        &sevens,
    );
    close("jvp", &jvp(f, &x, &x).1, &(x.sum() * 7.0));
    let second = grad(|x: &Tensor| grad(f)(x).sum())(&x);
    close("second", &second, &Tensor::zeros_like(&x));
}

/// x² with a rule whose gradient is three times the true gradient.
fn tripled(x: &Tensor) -> Tensor {
    custom_vjp(
        |x: &Tensor| x.square(),
        |x| (x.square(), x.clone()),
        |x, cotangent| x * cotangent * 6.0,
    )(x)
}

#[test]
fn vjp_rule_is_used_in_every_composition() {
    let f = |x: &Tensor| tripled(x).sum();
    let x = Tensor::from([0.5_f64, -2.0]);
    let expected = &x * 6.0;
    close("value", &f(&x), &x.square().sum());
    close("grad", &grad(f)(&x), &expected);
    close(
        "grad of jit",
        &grad(jit(move |x: Tensor| f(&x)))(&x),
        &expected,
    );
    close("jit of grad", &jit(grad(f))(x.clone()), &expected);
    close("vmap of grad", &vmap(grad(f))(x.clone()), &expected);
    close(
        "grad of vmap",
        &grad(|x: &Tensor| vmap(|x: Tensor| f(&x))(x.clone()).sum())(&x),
        &expected,
    );
    let sixes = Tensor::from([6.0_f64, 6.0]);
    close("second", &grad(|x: &Tensor| grad(f)(x).sum())(&x), &sixes);
    close("forward over reverse", &jvp(grad(f), &x, &x).1, &expected);
    close("vmap of second", &vmap(grad(grad(f)))(x.clone()), &sixes);
    let looped = |x: &Tensor| {
        scan(
            |c, x| (c + tripled(&x), ()),
            Tensor::from(0.0_f64),
            x.clone(),
        )
        .0
    };
    close("scan", &grad(looped)(&x), &expected);
    close("jit of scan", &jit(grad(looped))(x.clone()), &expected);
    // Each example contributes a cotangent to an argument that all examples share.
    let shared = |x: &Tensor| {
        vmap(|(y, x): Pair| tripled(&x) * y).in_axes((0, None))((
            Tensor::from([1.0_f64, 10.0]),
            x.clone(),
        ))
        .sum()
    };
    close(
        "shared",
        &grad(shared)(&Tensor::from(2.0_f64)),
        &Tensor::from(132.0_f64),
    );
}

#[test]
fn captured_values_are_constants_of_a_rule() {
    let scaled = |scale: &Tensor, x: &Tensor| {
        let [of_forward, of_backward] = [scale.clone(), scale.clone()];
        custom_vjp(
            |x: &Tensor| x * scale,
            move |x| (x * &of_forward, ()),
            move |(), cotangent| cotangent * &of_backward * 2.0,
        )(x)
    };
    let f = move |(scale, x): Pair| grad(|x: &Tensor| scaled(&scale, x).sum())(&x);
    let x = Tensor::from([1.0_f64, 2.0]);
    let scale = Tensor::from(3.0_f64);
    let sixes = Tensor::from([6.0_f64, 6.0]);
    close("jit", &jit(f)((scale.clone(), x.clone())), &sixes);
    close(
        "vmap",
        &vmap(f).in_axes((None, 0))((scale.clone(), x.clone())),
        &sixes,
    );
    reports(
        || grad(|scale: &Tensor| scaled(scale, &x).sum())(&scale),
        &[
            "custom_vjp",
            "with respect to the tensors that it captured",
            "pass each tensor",
        ],
    );
}

#[test]
fn mistakes_in_rules_name_their_paths() {
    let x = Tensor::from([1.0_f64, 2.0]);
    reports(
        || {
            grad(|x: &Tensor| {
                custom_jvp(
                    |x: &Tensor| (x.clone(), x.sum()),
                    |x, t| ((x.clone(), x.sum()), (t.sum(), t.clone())),
                )(x)
                .1
            })(&x)
        },
        &[
            "the tangent that the rule returns",
            "at [0]: expected f64[2], found f64[]",
            "at [1]",
        ],
    );
    reports(
        || grad(|x: &Tensor| custom_vjp(|x: &Tensor| x.sum(), |x| (x.sum(), ()), |(), t| t)(x))(&x),
        &[
            "the cotangent that `backward` returns",
            "the root: expected f64[2], found f64[]",
        ],
    );
    reports(
        || jvp(|x: &Tensor| tripled(x), &x, &x).1,
        &[
            "forward mode",
            "custom_vjp",
            "control/custom.rs",
            "`custom_jvp`",
        ],
    );
}

fn deep(x: &Tensor) -> Tensor {
    x.sin().exp().tanh().square()
}

#[test]
fn remat_keeps_derivatives_equal() {
    for policy in [
        RematPolicy::Nothing,
        RematPolicy::Dots,
        RematPolicy::Everything,
    ] {
        let by_remat = |(c, x): &Pair| {
            let weight = c.exp();
            let layer =
                remat(|x: &Tensor| deep(&(x.matmul(&x.t()).matmul(x) * &weight))).policy(policy);
            let step = remat(|(c, x): &Pair| (c * x).sin() + deep(x)).policy(policy);
            let last = scan(|c, x: Tensor| (step(&(c, x)), ()), c.clone(), x.clone()).0;
            layer(x).sum() + last.sum()
        };
        let by_hand = |(c, x): &Pair| {
            let last = scan(
                |c: Tensor, x: Tensor| ((c * &x).sin() + deep(&x), ()),
                c.clone(),
                x.clone(),
            )
            .0;
            deep(&(x.matmul(&x.t()).matmul(x) * c.exp())).sum() + last.sum()
        };
        same("remat", &by_remat, &by_hand);
        let compiled = jit(by_remat_of(policy));
        same(
            "jit of remat",
            &|x: &Pair| compiled(x.clone()),
            &|(_, x): &Pair| deep(x).sum(),
        );
    }
}

fn by_remat_of(policy: RematPolicy) -> impl Fn(Pair) -> Tensor + Send + Sync {
    move |(_, x)| remat(deep).policy(policy)(&x).sum()
}

fn bytes(residuals: &[AbstractArray]) -> usize {
    residuals
        .iter()
        .map(|info| info.len() * info.dtype.bytes())
        .sum()
}

#[test]
fn remat_keeps_less() {
    let x = Tensor::ones(DType::F64, [8, 8]);
    let layer = |x: &Tensor| deep(&x.matmul(x).sin().matmul(x));
    let all = bytes(&saved_residuals(layer, &x));
    let kept = |policy| bytes(&saved_residuals(remat(layer).policy(policy), &x));
    assert_eq!(kept(RematPolicy::Nothing), 8 * 64);
    assert_eq!(kept(RematPolicy::Dots), 3 * 8 * 64);
    assert_eq!(kept(RematPolicy::Everything), all);
    assert!(all >= 6 * 8 * 64, "{all}");
    // In a scan, only the carry is stacked.
    let looped = |policy: Option<RematPolicy>| {
        saved_residuals(
            move |x: &Tensor| {
                let step =
                    remat(|x: &Tensor| deep(x)).policy(policy.unwrap_or(RematPolicy::Everything));
                scan(
                    |c: Tensor, _: Tensor| (step(&c), ()),
                    x.clone(),
                    Tensor::zeros(DType::F64, [5]),
                )
                .0
            },
            &x,
        )
    };
    let shapes = |residuals: Vec<AbstractArray>| {
        residuals
            .iter()
            .filter(|info| info.shape[..] == [5, 8, 8])
            .count()
    };
    assert_eq!(shapes(looped(Some(RematPolicy::Nothing))), 1);
    assert!(shapes(looped(None)) >= 4);
}

#[test]
fn loop_invariants_are_not_stacked() {
    let f = |w: &Tensor| {
        let rows = Tensor::ones(DType::F64, [7, 3]);
        scan(
            |h: Tensor, x: Tensor| (((h + x).matmul(&w.sin())).tanh(), ()),
            Tensor::zeros(DType::F64, [3]),
            rows,
        )
        .0
    };
    let residuals = saved_residuals(f, &Tensor::ones(DType::F64, [3, 3]));
    assert!(
        residuals.iter().all(|info| info.shape[..] != [7, 3, 3]),
        "{residuals:?}"
    );
    assert!(
        residuals.iter().any(|info| info.shape[..] == [7, 3]),
        "{residuals:?}"
    );
}

#[test]
fn linearize_agrees_with_jvp() {
    let calls = AtomicUsize::new(0);
    let f = |(x, y): &Pair| {
        calls.fetch_add(1, Ordering::Relaxed);
        (x.sin() * y, y.clone(), Tensor::from(3.0_f64))
    };
    let point = (Tensor::from([0.5_f64, 1.0]), Tensor::from([2.0_f64, -1.0]));
    let (value, derivative) = linearize(f, &point);
    assert_eq!(value, f(&point));
    for scale in [1.0, -2.0] {
        let tangents = (&point.1 * scale, &point.0 * scale);
        assert_eq!(derivative.call(&tangents), jvp(f, &point, &tangents).1);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 4);
    let mapped = vmap(|t: Tensor| derivative.call(&(t.clone(), t)).0)(Tensor::eye(DType::F64, 2));
    assert_eq!(mapped.shape(), [2, 2]);
    let x = Tensor::from([1.0_f64]);
    reports(
        || derivative.call(&(x.clone(), x.clone())).0,
        &["at [0]: expected f64[2], found f64[1]", "at [1]"],
    );
    let slope =
        grad(|x: &Tensor| linearize(|x: &Tensor| x.powi(3), x).1.call(x))(&Tensor::from(2.0_f64));
    close("grad of linearize", &slope, &Tensor::from(36.0_f64));
}

#[test]
fn linear_function_is_transposed() {
    let w = Tensor::from([[1.0_f64, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let f = |x: &Tensor| w.matmul(x) * 2.0;
    let v = Tensor::from([1.0_f64, -1.0]);
    let transpose = linear_transpose(f, &Tensor::zeros(DType::F64, [3]));
    let expected = vjp(f, &Tensor::zeros(DType::F64, [3])).1.call(&v);
    assert_eq!(transpose.call(&v), expected);
    let looped = |x: &Tensor| fori_loop(0, 3, |_, c| c * 2.0 + x, x.clone());
    let looped = linear_transpose(looped, &v);
    close("loop", &looped.call(&v), &(v.clone() * 15.0));
    reports(
        || linear_transpose(|x: &Tensor| x * x, &v).call(&v),
        &["not linear", "control/custom.rs:", "`vjp`"],
    );
}

#[test]
fn jacobians_of_both_modes_agree() {
    let f = |(x, y): &Pair| (x.sin() * y, vec![(x * y).sum(), y.square()]);
    let point = (
        Tensor::from([0.5_f64, 1.0, 2.0]),
        Tensor::from([[2.0_f64, -1.0, 0.5]]),
    );
    let (forward, backward) = (jacfwd(f)(&point), jacrev(f)(&point));
    let pairs = [
        (&forward.0, &backward.0, [vec![1, 3, 3], vec![1, 3, 1, 3]]),
        (&forward.1[0], &backward.1[0], [vec![3], vec![1, 3]]),
        (
            &forward.1[1],
            &backward.1[1],
            [vec![1, 3, 3], vec![1, 3, 1, 3]],
        ),
    ];
    for (forward, backward, [of_x, of_y]) in pairs {
        close("x", &forward.0, &backward.0);
        close("y", &forward.1, &backward.1);
        assert_eq!(
            (forward.0.shape(), forward.1.shape()),
            (&of_x[..], &of_y[..])
        );
    }
    let empty = (Tensor::zeros(DType::F64, [0]), Tensor::from([[1.0_f64]]));
    assert_eq!(
        jacrev(|(x, y): &Pair| x * y.sum())(&empty).0.shape(),
        [0, 0]
    );
    assert_eq!(
        jacfwd(|(x, y): &Pair| x * y.sum())(&empty).1.shape(),
        [0, 1, 1]
    );
    reports(
        || jacfwd(|x: &Tensor| x.greater(0.0))(&point.0),
        &["bool[3]", "no", "floats"],
    );
}

#[test]
fn hessian_of_tuple_is_tuple_of_tuples() {
    let f = |(x, y): &Pair| (x.sin() * y.square()).sum();
    let point = (Tensor::from([0.5_f64, 1.0]), Tensor::from(2.0_f64));
    let ((xx, xy), (yx, yy)) = hessian(f)(&point);
    let diagonal = Tensor::eye(DType::F64, 2) * (-point.0.sin() * 4.0);
    close("xx", &xx, &diagonal);
    close("xy", &xy, &(point.0.cos() * 4.0));
    close("yx", &yx, &xy);
    close("yy", &yy, &(point.0.sin() * 2.0).sum());
}

#[test]
fn eval_shape_computes_no_values() {
    // The product would have 2^40 elements.
    let f = |x: &Tensor| {
        let large = Tensor::zeros(DType::F32, [1 << 20, 1 << 20]) + x;
        (large.sum_axes([0]), large)
    };
    let shapes = eval_shape(f, &Tensor::from(1.0_f32));
    assert_eq!(shapes.leaves()[0].to_string(), "f32[1048576]");
    assert_eq!(shapes.leaves()[1].to_string(), "f32[1048576,1048576]");
    reports(
        || {
            Tensor::from(
                eval_shape(
                    |x: &Tensor| if x.item::<f32>() > 0.0 { x.clone() } else { -x },
                    &Tensor::from(1.0_f32),
                )
                .leaves()
                .len() as i32,
            )
        },
        &["inside eval_shape", "`cond`"],
    );
}
