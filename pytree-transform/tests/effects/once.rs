//! A host whose answers are 1, 2, …: the value and the derivative of a function use one answer, whatever transforms it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pytree_transform::{
    AbstractArray, DType, RematPolicy, Tensor, cond, custom_jvp, custom_vjp, grad, hessian,
    io_callback, jit, jvp, linearize, remat, scan, value_and_grad, vjp, vmap, while_loop,
};

use crate::panics::catch;

/// The answers of the host, and how many it has given.
#[derive(Clone, Default)]
struct Host(Arc<AtomicUsize>);

impl Host {
    fn answer(&self) -> Tensor {
        self.answer_to(&[])
    }

    fn answer_to(&self, operands: &[&Tensor]) -> Tensor {
        let count = Arc::clone(&self.0);
        let next = move |_: &[Tensor]| {
            let count = count.fetch_add(1, Ordering::Relaxed) + 1;
            vec![Tensor::from(count as f64)]
        };
        io_callback(operands, &[AbstractArray::new(DType::F64, [])], next).remove(0)
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Forgets the answers.
    fn again(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

type Function = Arc<dyn Fn(&Tensor) -> Tensor + Send + Sync>;

fn rematerialized(f: &Function) -> Function {
    let f = Arc::clone(f);
    let f = remat(move |x: &Tensor| f(x));
    Arc::new(move |x| f(x))
}

fn compiled(f: &Function) -> Function {
    let f = Arc::clone(f);
    let f = jit(move |x: &Tensor| f(x));
    Arc::new(move |x| f(x))
}

fn in_branch(f: &Function) -> Function {
    let f = Arc::clone(f);
    Arc::new(move |x| cond(&x.less(9.0), |x: Tensor| f(&x), |x| x, x.clone()))
}

fn in_scan(f: &Function) -> Function {
    let f = Arc::clone(f);
    let one = Tensor::from([0.0_f64]);
    Arc::new(move |x| scan(|x: Tensor, _: Tensor| (f(&x), ()), x.clone(), one.clone()).0)
}

/// The function `sin(x y)` of a host that is asked once for `y`, in each form that a program can have.
fn forms(host: &Host) -> Vec<(&'static str, Function)> {
    let f: Function = {
        let host = host.clone();
        Arc::new(move |x| (x * host.answer()).sin())
    };
    // The carry and the elements do not decide about the answer.
    let captures: Function = {
        let f = Arc::clone(&f);
        let one = Tensor::from([0.0_f64]);
        Arc::new(move |x| {
            let step = |sum: Tensor, _: Tensor| (sum + f(x), ());
            scan(step, Tensor::from(0.0_f64), one.clone()).0
        })
    };
    let by_jvp: Function = {
        let (f, g) = (Arc::clone(&f), Arc::clone(&f));
        let rule = move |x: &Tensor, tangent: &Tensor| jvp(|x: &Tensor| g(x), x, tangent);
        let f = custom_jvp(move |x: &Tensor| f(x), rule);
        Arc::new(move |x| f(x))
    };
    let by_vjp: Function = {
        let (f, host) = (Arc::clone(&f), host.clone());
        let forward = move |x: &Tensor| {
            let y = host.answer();
            ((x * &y).sin(), (x.clone(), y))
        };
        let backward = |(x, y): (Tensor, Tensor), cotangent: Tensor| cotangent * (x * &y).cos() * y;
        let f = custom_vjp(move |x: &Tensor| f(x), forward, backward);
        Arc::new(move |x| f(x))
    };
    let with_dots: Function = {
        let f = Arc::clone(&f);
        let f = remat(move |x: &Tensor| f(x)).policy(RematPolicy::Dots);
        Arc::new(move |x| f(x))
    };
    vec![
        ("plain", Arc::clone(&f)),
        ("jit", compiled(&f)),
        ("remat", rematerialized(&f)),
        ("remat that stores products", with_dots),
        ("remat of remat", rematerialized(&rematerialized(&f))),
        ("remat of jit", rematerialized(&compiled(&f))),
        ("jit of remat", compiled(&rematerialized(&f))),
        ("branch", in_branch(&f)),
        ("remat of branch", rematerialized(&in_branch(&f))),
        ("remat in branch", in_branch(&rematerialized(&f))),
        ("scan", in_scan(&f)),
        ("remat in scan", in_scan(&rematerialized(&f))),
        ("remat of scan", rematerialized(&in_scan(&f))),
        ("scan that captures", Arc::clone(&captures)),
        ("remat of scan that captures", rematerialized(&captures)),
        ("custom_jvp", Arc::clone(&by_jvp)),
        ("remat of custom_jvp", rematerialized(&by_jvp)),
        ("custom_vjp", Arc::clone(&by_vjp)),
        ("remat of custom_vjp", rematerialized(&by_vjp)),
    ]
}

#[track_caller]
fn close(what: &str, found: &Tensor, expected: f64) {
    let found = found.item::<f64>();
    assert!(
        (found - expected).abs() < 1e-12,
        "{what}: found {found}, expected {expected}"
    );
}

#[test]
fn value_and_derivatives_use_one_answer() {
    let host = Host::default();
    let x = Tensor::from(0.7_f64);
    let one = Tensor::from(1.0_f64);
    for (name, f) in forms(&host) {
        let what = |way: &str| format!("{way} of {name}");
        // What the first answer gives.
        let (value, slope, curve) = (0.7_f64.sin(), 0.7_f64.cos(), -0.7_f64.sin());
        let once = |way: &str| {
            assert_eq!(host.count(), 1, "{}", what(way));
            host.again();
        };
        close(&what("value"), &f(&x), value);
        once("value");

        let (y, gradient) = value_and_grad(&*f)(&x);
        close(&what("value_and_grad"), &y, value);
        close(&what("value_and_grad"), &gradient, slope);
        once("value_and_grad");
        let g = Arc::clone(&f);
        let (y, gradient) = jit(move |x: &Tensor| value_and_grad(&*g)(x))(&x);
        close(&what("jit of value_and_grad"), &y, value);
        close(&what("jit of value_and_grad"), &gradient, slope);
        once("jit of value_and_grad");
        let (y, pullback) = vjp(&*f, &x);
        close(&what("vjp"), &y, value);
        for _ in 0..2 {
            close(&what("vjp"), &pullback.call(&one), slope);
        }
        once("vjp");
        close(&what("reverse over reverse"), &grad(grad(&*f))(&x), curve);
        once("reverse over reverse");
        if name.contains("vjp") {
            continue;
        }
        let (y, tangent) = jvp(&*f, &x, &one);
        close(&what("jvp"), &y, value);
        close(&what("jvp"), &tangent, slope);
        once("jvp");
        let (y, linear) = linearize(&*f, &x);
        close(&what("linearize"), &y, value);
        for _ in 0..2 {
            close(&what("linearize"), &linear.call(&one), slope);
        }
        once("linearize");
        close(
            &what("forward over reverse"),
            &jvp(grad(&*f), &x, &one).1,
            curve,
        );
        once("forward over reverse");
        close(
            &what("reverse over forward"),
            &grad(|x: &Tensor| jvp(&*f, x, &one).1)(&x),
            curve,
        );
        once("reverse over forward");
        close(&what("hessian"), &hessian(&*f)(&x), curve);
        once("hessian");
    }
}

#[test]
fn each_example_has_one_answer() {
    let host = Host::default();
    let xs = [0.7_f64, 0.2, -0.4];
    let ask = host.clone();
    let f: Function = Arc::new(move |x| (x * ask.answer_to(&[&x.stop_gradient()])).sin());
    let forms = [
        ("plain", Arc::clone(&f)),
        ("remat", rematerialized(&f)),
        ("remat in scan", in_scan(&rematerialized(&f))),
    ];
    for (name, f) in forms {
        let batch = Tensor::from(xs);
        let check = |way: &str, value: Option<Tensor>, slope: &Tensor| {
            assert_eq!(host.count(), 3, "{way} of {name}");
            host.again();
            for (at, x) in xs.into_iter().enumerate() {
                let y = (at + 1) as f64;
                let near = |a: &Tensor, b: f64| (a.to_vec::<f64>()[at] - b).abs() < 1e-12;
                assert!(
                    value.iter().all(|it| near(it, (x * y).sin())),
                    "{way} of {name}"
                );
                assert!(near(slope, y * (x * y).cos()), "{way} of {name}");
            }
        };
        let (value, slope) = vmap(|x: Tensor| value_and_grad(&*f)(&x))(batch.clone());
        check("vmap of value_and_grad", Some(value), &slope);
        let slope = grad(|x: &Tensor| vmap(|x: Tensor| f(&x))(x.clone()).sum())(&batch);
        check("grad of vmap", None, &slope);
        let g = Arc::clone(&f);
        let both = jit(vmap(move |x: Tensor| value_and_grad(&*g)(&x)));
        let (value, slope) = both(batch);
        check("jit of vmap", Some(value), &slope);
    }
}

#[test]
fn loop_has_tangents_of_its_only_run() {
    let host = Host::default();
    let ask = host.clone();
    let f = move |x: &Tensor| {
        let step = |(n, x): (Tensor, Tensor)| (n + 1, (x * ask.answer()).sin());
        while_loop(|(n, _)| n.less(1), step, (Tensor::from(0), x.clone())).1
    };
    let (x, one) = (Tensor::from(0.7_f64), Tensor::from(1.0_f64));
    let (value, tangent) = jvp(&f, &x, &one);
    close("jvp", &value, 0.7_f64.sin());
    close("jvp", &tangent, 0.7_f64.cos());
    assert_eq!(host.count(), 1);
    host.again();
    // The derivative of its square does not need the tangents of the loop.
    let g = f.clone();
    let slope = grad(move |x: &Tensor| x * g(x).stop_gradient())(&x);
    close("grad", &slope, 0.7_f64.sin());
    assert_eq!(host.count(), 1);
    // `linearize` would run the loop again for each tangent.
    let (_, linear) = linearize(f, &x);
    let message = catch(|| linear.call(&one)).unwrap_err().message;
    assert!(
        message.contains("cannot run the `io_callback` at")
            && message.contains("once.rs:")
            && message.contains("use `jvp`"),
        "{message}"
    );
    assert_eq!(host.count(), 2);
}
