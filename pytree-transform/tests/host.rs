//! Functions of the host in programs, and checks of values.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pytree_transform::{
    AbstractArray, DType, HostBatches, Tensor, cond, custom_jvp, custom_vjp, error_if, fori_loop,
    grad, io_callback, jit, make_jaxpr, pure_callback, pure_callback_with, scan, vmap,
    without_error_if,
};

use crate::panics::catch;

/// A function of the host that squares, and a counter of its calls.
fn squares() -> (
    impl Fn(&Tensor) -> Tensor + Clone + Send + Sync,
    Arc<AtomicUsize>,
) {
    let count = Arc::new(AtomicUsize::new(0));
    let calls = Arc::clone(&count);
    let square = move |x: &Tensor| {
        let calls = Arc::clone(&calls);
        let square = move |values: &[Tensor]| {
            calls.fetch_add(1, Ordering::Relaxed);
            vec![values[0].view::<f32>().unwrap().mapv(|x| x * x).into()]
        };
        pure_callback(&[x], &[x.info().clone()], square).remove(0)
    };
    (square, count)
}

#[test]
fn pure_functions_run_when_their_results_are_needed() {
    let (square, count) = squares();
    let x = Tensor::from([1.0_f32, 2.0]);
    assert_eq!(square(&x).to_vec::<f32>(), [1.0, 4.0]);
    let f = jit({
        let square = square.clone();
        move |x: &Tensor| {
            let _unused = square(x);
            square(&(x + 1.0)) * 2.0
        }
    });
    assert_eq!(f(&x).to_vec::<f32>(), [8.0, 18.0]);
    assert_eq!(f(&x).to_vec::<f32>(), [8.0, 18.0]);
    assert_eq!(
        count.load(Ordering::Relaxed),
        3,
        "one eager, two compiled calls"
    );
}

#[test]
fn batches_are_computed_example_by_example_or_whole() {
    let (square, count) = squares();
    let x = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let each = vmap(move |x: Tensor| square(&x));
    assert_eq!(each(x.clone()), x.square());
    assert_eq!(count.load(Ordering::Relaxed), 3);
    let whole = |x: Tensor, y: Tensor| {
        let sum = |values: &[Tensor]| {
            assert_eq!(
                (values[0].shape(), values[1].shape()),
                (&[2, 3][..], &[2, 3][..])
            );
            vec![&values[0] + &values[1]]
        };
        let scalar = AbstractArray::new(DType::F32, []);
        pure_callback_with(&[&x, &y], &[scalar], HostBatches::Whole, sum).remove(0)
    };
    let nested = vmap(move |row: Tensor| {
        vmap(move |(x, y): (Tensor, Tensor)| whole(x, y)).in_axes((0, None))((
            row.clone(),
            row.sum(),
        ))
    });
    assert_eq!(
        nested(x.t().clone()),
        x.t() + x.t().sum_axes(1).expand_dims(1)
    );
}

#[test]
fn results_of_any_dtype_are_checked() {
    let wrong = |returned: Vec<Tensor>, declared: &[AbstractArray]| {
        let declared = declared.to_vec();
        catch(|| pure_callback(&[], &declared, move |_| returned.clone()))
            .unwrap_err()
            .message
    };
    let half = Tensor::from(1.5_f32).convert(DType::F16);
    let info = AbstractArray::new(DType::F16, []);
    let returned = half.clone();
    assert_eq!(
        pure_callback(&[], std::slice::from_ref(&info), move |_| vec![
            returned.clone()
        ]),
        std::slice::from_ref(&half)
    );
    let message = wrong(vec![half.clone(), half], &[info]);
    assert!(
        message.contains("host.rs:") && message.contains("returned f16[], f16[]: expected f16[]"),
        "{message}"
    );
    let message = wrong(vec![], &[AbstractArray::new(DType::I32, [2])]);
    assert!(
        message.contains("returned no results: expected i32[2]"),
        "{message}"
    );
}

#[test]
fn derivatives_need_a_rule() {
    let (square, _) = squares();
    let x = Tensor::from([1.0_f32, 2.0]);
    let without = square.clone();
    let message = catch(|| grad(move |x: &Tensor| without(x).sum())(&x))
        .unwrap_err()
        .message;
    assert!(
        message.starts_with("cannot differentiate the `pure_callback` at ")
            && message.contains("host.rs:")
            && message.contains("`custom_vjp`"),
        "{message}"
    );
    let (forward, reverse) = (square.clone(), square.clone());
    let jvp_rule = custom_jvp(square.clone(), move |x: &Tensor, t: &Tensor| {
        (forward(x), x * t * 2.0)
    });
    let vjp_rule = custom_vjp(
        square,
        move |x: &Tensor| (reverse(x), x.clone()),
        |x: Tensor, cotangent: Tensor| x * cotangent * 2.0,
    );
    let doubled = x.clone() * 2.0;
    assert_eq!(grad(move |x: &Tensor| jvp_rule(x).sum())(&x), doubled);
    let vjp_rule = Arc::new(vjp_rule);
    let loss = move |x: &Tensor| vjp_rule(x).sum();
    assert_eq!(jit(grad(loss.clone()))(x.clone()), doubled);
    assert_eq!(
        vmap(grad(loss))(Tensor::from([[1.0_f32], [2.0]])),
        Tensor::from([[2.0_f32], [4.0]])
    );
}

#[test]
fn effects_happen_in_order_also_without_results() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = {
        let seen = Arc::clone(&seen);
        move |x: &Tensor| {
            let seen = Arc::clone(&seen);
            let note = move |values: &[Tensor]| {
                let value = values[0].item::<f32>();
                seen.lock().unwrap().push(value);
                vec![Tensor::from(value + 1.0)]
            };
            io_callback(&[x], &[AbstractArray::new(DType::F32, [])], note).remove(0)
        }
    };
    let program = {
        let log = log.clone();
        jit(move |x: Tensor| {
            let _unused = log(&x);
            let (_, all) = scan(
                |x: Tensor, _: Tensor| (log(&x), log(&(&x * 10.0))),
                x,
                Tensor::from([0, 1]),
            );
            all
        })
    };
    assert_eq!(program(Tensor::from(1.0_f32)).to_vec::<f32>(), [11.0, 21.0]);
    assert_eq!(
        seen.lock().unwrap().split_off(0),
        [1.0, 1.0, 10.0, 2.0, 20.0]
    );
    let rows = vmap(move |x: Tensor| log(&x));
    assert_eq!(
        rows(Tensor::from([5.0_f32, 6.0])).to_vec::<f32>(),
        [6.0, 7.0]
    );
    assert_eq!(*seen.lock().unwrap(), [5.0, 6.0]);
}

#[test]
fn devices_refuse_functions_of_the_host_with_the_line() {
    let (square, _) = squares();
    let jaxpr = make_jaxpr(move |x: Tensor| square(&x))(Tensor::from([1.0_f32]));
    let error = jaxpr.try_to_stablehlo().unwrap_err().to_string();
    assert!(
        error.contains("cannot lower `pure_callback` of f32[1] at ") && error.contains("host.rs:"),
        "{error}"
    );
}

#[test]
fn error_if_survives_transformations() {
    let line = line!() + 2;
    let root = |x: &Tensor| {
        let x = error_if(x, &x.less(0.0), "expected positive numbers");
        x.sqrt()
    };
    let at = format!("host.rs:{line}:");
    let fails = |call: &dyn Fn() -> Tensor, parts: &[&str]| {
        let message = catch(call).unwrap_err().message;
        assert!(
            message.starts_with("cannot continue: expected positive numbers (`error_if` at "),
            "{message}"
        );
        assert!(message.contains(&at), "{message}");
        for part in parts {
            assert!(message.contains(part), "{message}");
        }
    };
    let (good, bad) = (Tensor::from(4.0_f32), Tensor::from(-4.0_f32));
    assert_eq!(root(&good).item::<f32>(), 2.0);
    fails(&|| root(&bad), &["; x is f32[]: -4"]);
    let compiled = jit(root);
    assert_eq!(compiled(&good).item::<f32>(), 2.0);
    fails(&|| compiled(&bad), &["; x is f32[]: -4"]);
    assert_eq!(
        compiled(&good).item::<f32>(),
        2.0,
        "it goes on after an error"
    );
    assert_eq!(grad(root)(&good).item::<f32>(), 0.25);
    fails(&|| grad(compiled.clone())(&bad), &[]);
    let examples = Tensor::from([[1.0_f32, 4.0], [9.0, -1.0], [-2.0, 1.0]]);
    fails(
        &|| jit(vmap(grad(move |x: &Tensor| root(x).sum())))(examples.clone()),
        &["example [1], element 1 of bool[2]"],
    );
    fails(
        &|| vmap(vmap(move |x: Tensor| root(&x)))(examples.clone()),
        &["example [1, 1])", "x is f32[]: -1"],
    );
    let looped = jit(move |x: Tensor| fori_loop(0, 3, move |_, x: Tensor| root(&(x - 1.0)), x));
    assert!(looped(Tensor::from(100.0_f32)).item::<f32>() > 0.0);
    fails(&|| looped(Tensor::from(3.0_f32)), &[]);
    let branched = jit(move |x: Tensor| {
        cond(
            &x.less(0.0),
            |x: Tensor| -x,
            move |x: Tensor| root(&x),
            x.clone(),
        )
    });
    assert_eq!(
        branched(bad.clone()).item::<f32>(),
        4.0,
        "only the branch that is taken checks"
    );
}

#[test]
fn error_if_is_switched_off_and_checks_its_condition() {
    let bad = Tensor::from(-1.0_f32);
    let check = |x: &Tensor| error_if(x, &x.less(0.0), "negative");
    let unchecked = jit(check);
    assert_eq!(without_error_if(|| unchecked(&bad)), bad);
    assert_eq!(unchecked(&bad), bad, "the recorded program has no check");
    assert!(catch(|| check(&bad)).is_err());
    let message = catch(|| error_if(&bad, &bad, "negative"))
        .unwrap_err()
        .message;
    assert_eq!(
        message,
        "cannot check f32[]: expected bool; compare numbers first, for instance with `.less(0.0)`"
    );
}
