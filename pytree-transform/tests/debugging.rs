//! Debugging inside of functions: callbacks under every transformation, and the origin of NaN.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use pytree_transform::{
    DType, Tensor, TensorError, cond, debug_callback, debug_infs, debug_nans, debug_print, grad,
    jit, jvp, make_jaxpr, scan, vjp, vmap, while_loop,
};

/// The values that callbacks received, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    /// Records the values of tensors.
    fn note(&self, name: &'static str, operands: &[&Tensor]) {
        let seen = Arc::clone(&self.0);
        debug_callback(operands, move |values| {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            seen.lock()
                .unwrap()
                .push(format!("{name} {}", values.join(" ")));
        });
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// `x² + x`, which records `x` and `x²`.
    fn function(&self) -> impl Fn(&Tensor) -> Tensor + Send + Sync + Clone + 'static {
        let seen = self.clone();
        move |x: &Tensor| {
            seen.note("x", &[x]);
            let y = x.square();
            seen.note("y", &[&y]);
            y + x
        }
    }
}

fn panics(function: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(function)).unwrap_err();
    match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => (*payload.downcast::<&str>().unwrap()).to_owned(),
    }
}

#[test]
fn callbacks_run_when_values_are_known() {
    let seen = Seen::default();
    let f = seen.function();
    let x = Tensor::from(3.0_f32);
    f(&x);
    assert_eq!(seen.take(), ["x 3.0", "y 9.0"], "at once");
    let g = f.clone();
    let compiled = jit(move |x: Tensor| g(&x));
    compiled.jaxpr(&x);
    assert!(seen.take().is_empty(), "not while it is recorded");
    for _ in 0..2 {
        compiled(x.clone());
        assert_eq!(seen.take(), ["x 3.0", "y 9.0"], "at each run");
    }
    let jaxpr = make_jaxpr(compiled.clone())(x.clone());
    assert!(seen.take().is_empty());
    assert!(jaxpr.has_effect());
    jaxpr.evaluate(std::slice::from_ref(&x));
    assert_eq!(seen.take(), ["x 3.0", "y 9.0"]);
}

#[test]
fn callbacks_see_primals() {
    let seen = Seen::default();
    let f = seen.function();
    let x = Tensor::from(3.0_f32);
    let expected = ["x 3.0", "y 9.0"];
    assert_eq!(grad(f.clone())(&x).item::<f32>(), 7.0);
    assert_eq!(seen.take(), expected);
    jvp(f.clone(), &x, &Tensor::from(1.0_f32));
    assert_eq!(seen.take(), expected);
    let (_, pullback) = vjp(f.clone(), &x);
    assert_eq!(seen.take(), expected);
    pullback.call(&Tensor::from(1.0_f32));
    assert!(seen.take().is_empty(), "not again on the way back");
    let g = f.clone();
    let compiled = jit(move |x: Tensor| g(&x));
    assert_eq!(grad(compiled.clone())(&x).item::<f32>(), 7.0);
    assert_eq!(seen.take(), expected);
    let slope = jit(move |x: Tensor| grad(f.clone())(&x));
    assert_eq!(slope(x.clone()).item::<f32>(), 7.0);
    assert_eq!(seen.take(), expected);
    let second = grad(|x: &Tensor| grad(compiled.clone())(x))(&x);
    assert_eq!(second.item::<f32>(), 2.0);
    assert_eq!(seen.take(), expected);
}

#[test]
fn callbacks_run_for_each_example() {
    let seen = Seen::default();
    let f = seen.function();
    let x = Tensor::from([1.0_f32, 2.0]);
    let g = f.clone();
    vmap(move |x: Tensor| g(&x))(x.clone());
    let expected = ["x 1.0", "x 2.0", "y 1.0", "y 4.0"];
    assert_eq!(seen.take(), expected);
    let g = f.clone();
    let compiled = jit(move |x: Tensor| g(&x));
    vmap(compiled.clone())(x.clone());
    assert_eq!(seen.take(), expected);
    jit(move |x: Tensor| vmap(compiled.clone())(x))(x.clone());
    assert_eq!(seen.take(), expected);

    let inner = seen.clone();
    let pairs = vmap(move |x: Tensor| {
        let inner = inner.clone();
        vmap(move |(x, y): (Tensor, Tensor)| {
            inner.note("pair", &[&x, &y]);
            x + y
        })
        .in_axes((None, 0))((x, Tensor::from([10, 20])))
    });
    pairs(Tensor::from([1, 2]));
    assert_eq!(
        seen.take(),
        ["pair 1 10", "pair 1 20", "pair 2 10", "pair 2 20"]
    );

    let inner = seen.clone();
    vmap(move |x: Tensor| {
        inner.note("row", &[&x]);
        x
    })
    .in_axes(1)(Tensor::from([[1, 2], [3, 4]]));
    assert_eq!(seen.take(), ["row [1 3]", "row [2 4]"]);
}

#[test]
fn callback_without_operands_is_recorded() {
    let seen = Seen::default();
    let inner = seen.clone();
    let f = jit(move |x: Tensor| {
        inner.note("here", &[]);
        inner.note("constant", &[&Tensor::from(1)]);
        x
    });
    f.jaxpr(&Tensor::from(1));
    assert!(seen.take().is_empty());
    f(Tensor::from(1));
    assert_eq!(seen.take(), ["here ", "constant 1"]);
    assert!(
        f.jaxpr(&Tensor::from(1))
            .to_string()
            .contains("debug_callback 1:i32[]")
    );
}

#[test]
fn inner_jit_with_prints_is_recorded() {
    let seen = Seen::default();
    let f = seen.function();
    let inner = jit(move |x: Tensor| f(&x));
    let outer = jit(move |x: Tensor| x + inner(Tensor::from(2.0_f32)));
    outer.jaxpr(&Tensor::from(1.0_f32));
    assert!(seen.take().is_empty());
    for _ in 0..2 {
        assert_eq!(outer(Tensor::from(1.0_f32)).item::<f32>(), 7.0);
        assert_eq!(seen.take(), ["x 2.0", "y 4.0"]);
    }
}

#[test]
fn debug_print_accepts_all_formats() {
    let x = Tensor::from([1.0_f32, 2.0]);
    debug_print!("nothing");
    debug_print!("one {}", x);
    debug_print!("two {} {:?}", &x, x.sum(),);
    debug_print!("named {x} {y}", x = x, y = &x);
    debug_print!("captured {x:?} {x}, {} and {{x}}", x.sum());
    jit(|x: Tensor| debug_print!("captured {x}"))(x.clone());
    assert_eq!(x.len(), 2, "it was borrowed");
}

#[test]
fn nan_error_names_the_operation() {
    let x = Tensor::from([1.0_f32, -1.0, 4.0]);
    let f = |x: &Tensor| (x.log() + 1.0).sqrt().sum();
    let line = line!() - 1;
    assert!(f(&x).item::<f32>().is_nan(), "without checks it is a value");
    let message = panics(|| debug_nans(|| drop(f(&x))));
    let expected = format!(
        "`log` at {}:{line}:29 returned NaN in 1 of 3 elements: f32[3] = log f32[3]; operand 0 is f32[3] with values from -1 to 4",
        file!()
    );
    assert_eq!(message, expected);

    let compiled = jit(move |x: Tensor| f(&x));
    assert!(compiled(x.clone()).item::<f32>().is_nan());
    let message = panics(|| debug_nans(|| drop(compiled(x.clone()))));
    let expected = expected.replace("f32[3] = log f32[3]", "b:f32[3] = log a");
    assert_eq!(message, expected);
    let checked = compiled.clone().check_nans();
    assert_eq!(panics(|| drop(checked(x.clone()))), expected);
    assert!(checked(x.abs()).item::<f32>() > 0.0);
    assert!(
        compiled(x.clone()).item::<f32>().is_nan(),
        "the first is as it was"
    );
    let message = panics(|| drop(vmap(checked.clone())(Tensor::stack(&[x.clone(), x], 0))));
    assert!(
        message.contains("returned NaN in 2 of 6 elements"),
        "{message}"
    );
}

#[test]
fn nan_in_operand_is_distinguished() {
    let x = Tensor::from([f64::NAN, 2.0]);
    let message = panics(|| debug_nans(|| drop(&x + 1.0)));
    assert!(
        message.contains("operand 0 is f64[2] with the value 2, elements already NaN: 1"),
        "{message}"
    );
}

#[test]
fn nan_in_a_derivative_is_found() {
    let slope = grad(|x: &Tensor| x.sqrt() * 0.0);
    let message = panics(|| debug_nans(|| drop(slope(&Tensor::from(0.0_f32)))));
    assert!(
        message.contains("returned NaN in 1 of 1 elements"),
        "{message}"
    );
    assert!(message.contains("debugging.rs"), "{message}");
}

#[test]
fn nan_of_a_backward_pass_names_the_infinity() {
    let x = Tensor::from([0.0_f32, 4.0]);
    let slope = |x: &Tensor| grad(|x: &Tensor| x.square().log().sum())(x);
    let line = line!() - 1;
    let began = format!("infinite: 1, which began in `div` at {}:{line}:", file!());
    let compiled = jit(move |x: Tensor| slope(&x));
    let messages = [
        panics(|| debug_nans(|| drop(slope(&x)))),
        panics(|| debug_nans(|| drop(compiled(x.clone())))),
    ];
    for message in messages {
        assert!(
            message.contains("returned NaN in 1 of 2 elements"),
            "{message}"
        );
        assert!(message.contains(&began), "{message}");
    }

    // The infinity passes through other operations, and begins in the body of a loop.
    let line = line!() + 1;
    let step = |x: Tensor, add: Tensor| (x.exp(), add);
    let exploding = |x: Tensor| {
        scan(step, x, Tensor::zeros(DType::F32, [6]))
            .0
            .reshape([1, 1])
    };
    let message = panics(|| debug_nans(|| drop(exploding(Tensor::from(1.0_f32)) * 2.0 * 0.0)));
    let began = format!("which began in `exp` at {}:{line}:", file!());
    assert!(message.contains(&began), "{message}");

    // An infinity of the program's data began in no operation.
    let data = Tensor::from([f32::INFINITY, 1.0]);
    let message = panics(|| debug_nans(|| drop(&data - &data)));
    assert!(
        message.ends_with("elements already infinite: 1"),
        "{message}"
    );
}

/// A function that keeps NaN as a constant for elements that are out of range.
fn in_range(x: &Tensor) -> Tensor {
    let missing = Tensor::full(x.dtype(), [], f64::NAN);
    let moved = missing.expand_dims(0).broadcast_to(x.shape()).reverse([0]);
    x.less(10.0).select(x, &moved) + x.less(10.0).select(x, &missing)
}

#[test]
fn intended_nan_is_reported_where_it_is_selected() {
    let (good, bad) = (Tensor::from([1.0_f32, 2.0]), Tensor::from([1.0_f32, 20.0]));
    let compiled = jit(|x: Tensor| in_range(&x));
    let batched = jit(|x: Tensor| vmap(|x: Tensor| in_range(&x.expand_dims(0)))(x));
    let looped = jit(|x: Tensor| scan(|(), x: Tensor| ((), in_range(&x.expand_dims(0))), (), x).1);
    let slope = jit(|x: Tensor| grad(|x: &Tensor| in_range(x).sum())(&x));
    debug_nans(|| {
        assert_eq!(in_range(&good), Tensor::from([2.0_f32, 4.0]));
        assert_eq!(compiled(good.clone()), Tensor::from([2.0_f32, 4.0]));
        assert_eq!(batched(good.clone()), Tensor::from([[2.0_f32], [4.0]]));
        assert_eq!(looped(good.clone()), Tensor::from([[2.0_f32], [4.0]]));
        assert_eq!(slope(good.clone()), Tensor::from([2.0_f32, 2.0]));
    });
    let runs: [&dyn Fn(Tensor) -> Tensor; 4] =
        [&|x| in_range(&x), &|x| compiled(x), &|x| batched(x), &|x| {
            looped(x)
        }];
    for run in runs {
        let message = panics(|| debug_nans(|| drop(run(bad.clone()))));
        assert!(message.starts_with("`select` at "), "{message}");
        assert!(message.contains("returned NaN in 1 of "), "{message}");
        assert!(message.contains("elements already NaN: "), "{message}");
    }
}

#[test]
fn infinities_have_a_separate_check() {
    let divide = || Tensor::from([1.0_f32, 0.0]) / Tensor::from([0.0_f32, 1.0]);
    debug_nans(|| drop(divide()));
    let message = panics(|| debug_infs(|| drop(divide())));
    assert!(message.contains("`div`"), "{message}");
    assert!(
        message.contains("returned an infinity in 1 of 2 elements"),
        "{message}"
    );
    let compiled = jit(|x: Tensor| 1.0 / x).check_infs();
    assert!(panics(|| drop(compiled(Tensor::from(0.0_f32)))).contains("an infinity"));
}

#[test]
fn checks_end_with_their_scope() {
    let x = Tensor::from(-1.0_f32);
    panics(|| debug_nans(|| drop(x.log())));
    assert!(x.log().item::<f32>().is_nan(), "after a panic, too");
    let error = debug_nans(|| debug_infs(|| x.try_add(f32::NAN)));
    assert!(
        matches!(error, Err(TensorError::NotFinite { .. })),
        "{error:?}"
    );
}

#[test]
fn small_operands_keep_callback_order() {
    let seen = Seen::default();
    let inner = seen.clone();
    let f = jit(move |(x, y): (Tensor, Tensor)| {
        let total = x.sin().sum() * 0.0;
        inner.note("large", &[&total]);
        inner.note("small", &[&(&y + 1.0)]);
        total + y
    });
    f((Tensor::from(vec![1.0_f32; 1000]), Tensor::from(1.0_f32)));
    assert_eq!(seen.take(), ["large 0.0", "small 2.0"]);
}

#[test]
fn nan_of_branch_not_taken_is_not_reported() {
    let root = |x: Tensor| {
        cond(
            &x.greater_equal(0.0),
            |x: Tensor| x.sqrt(),
            |x| -x,
            x.clone(),
        )
    };
    let halved = |x: Tensor| {
        let body = |x: Tensor| (&x - 1.0).sqrt() * 0.5;
        while_loop(|x: &Tensor| x.greater(1.0), body, x)
    };
    let x = Tensor::from([4.0_f64, -1.0]);
    let roots = Tensor::from([2.0_f64, 1.0]);
    assert_eq!(debug_nans(|| vmap(root)(x.clone())), roots);
    assert_eq!(debug_nans(|| jit(vmap(root))(x.clone())), roots);
    debug_nans(|| grad(|x: &Tensor| vmap(root)(x.clone()).sum())(&x));
    debug_nans(|| vmap(halved)(x.clone()));
    debug_nans(|| jit(vmap(halved))(x.clone()));
    // The NaN of an example that takes the branch is reported with its origin.
    let wrong = |x: Tensor| cond(&x.less(0.0), |x: Tensor| x.sqrt(), |x| x, x.clone());
    let message = panics(|| drop(debug_nans(|| vmap(wrong)(x))));
    assert!(
        message.contains("NaN in 1 of 2 elements") && message.contains("began in `sqrt` at"),
        "{message}"
    );
}
