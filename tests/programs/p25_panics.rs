//! Tests the location of a panic in a transformation: the message of the panic shows the user's line.

use std::sync::{Arc, Mutex};

use pytree::control::{associative_scan, cond_mut, fori_loop};
use pytree::control::{cond, scan, while_loop};
use pytree::control::{map, switch};
use pytree::prelude::*;
use pytree::remat;
use pytree::vjp;
use pytree::{eval_shape, make_jaxpr};

use crate::panics::catch;

/// Returns where a program panics, as file and line.
fn place<T>(program: impl FnOnce() -> T) -> (String, u32) {
    let Err(panic) = catch(program) else {
        panic!("the program does not panic");
    };
    (panic.file, panic.line)
}

macro_rules! assert_here {
    ($($name:literal: $program:expr;)*) => {{
        let mut elsewhere = Vec::new();
        $(
            let (file, _) = place(|| $program);
            if file != file!() {
                elsewhere.push(format!("{}: {file}", $name));
            }
        )*
        assert!(elsewhere.is_empty(), "{}", elsewhere.join("\n"));
    }};
}

fn vector() -> Tensor {
    Tensor::from([1.0_f32, 2.0, 3.0])
}

#[test]
fn functions_that_run_at_once_panic_at_the_line_of_the_user() {
    let x = vector();
    let flag = Tensor::from(true);
    let mut written = vector();
    assert_here! {
        "cond": cond(&x, |x: Tensor| x, |x| x, x.clone());
        "cond branches": cond(&flag, |x: Tensor| x, |x| x.sum(), x.clone());
        "cond_mut": cond_mut(&x, |_: &mut Tensor| (), |_| (), &mut written);
        "switch": switch(&x, &[&|x: Tensor| x], x.clone());
        "scan": scan(|sum: Tensor, _: Tensor| (sum + 1.0, ()), Tensor::from(1.0_f32), Tensor::from(1.0_f32));
        "scan carry": scan(|_: Tensor, x: Tensor| (x.convert(DType::F64), ()), Tensor::from(1.0_f32), x.clone());
        "scan_mut": scan_mut(|sum: &mut Tensor, _: Tensor| *sum = sum.convert(DType::F64), &mut written, x.clone());
        "map": map(|x: Tensor| x, Tensor::from(1.0_f32));
        "fori_loop": fori_loop(0, &x, |_, x: Tensor| x, x.clone());
        "while_loop": while_loop(|x: &Tensor| x.clone(), |x| x, x.clone());
        "associative_scan": associative_scan(|left: Tensor, _: Tensor| left.sum(), x.clone());
        "jvp": jvp(|x: &Tensor| x.sin(), &x, &Tensor::from(1.0_f32));
        "vjp": vjp(|x: &Tensor| x.clone(), &Tensor::from([1, 2]));
        "pullback": vjp(|x: &Tensor| x.sin(), &x).1.call(&Tensor::from(1.0_f32));
        "eval_shape": eval_shape(|x: &Tensor| x.matmul(&Tensor::from([1.0_f32])), &x);
        "item": x.item::<f32>();
    }
}

#[test]
fn operations_inside_panic_at_the_line_of_the_user() {
    let x = vector();
    let wrong = Tensor::from([1.0_f32, 2.0]);
    let add = |x: Tensor| x + Tensor::from([1.0_f32, 2.0]);
    let sum = move |x: &Tensor| (x + &wrong).sum();
    assert_here! {
        "jit": jit(add)(x.clone());
        "jit_mut": jit_mut(|x: &mut Tensor| *x = &*x + Tensor::from([1.0_f32, 2.0]))(&mut vector());
        "vmap": vmap(add)(Tensor::ones(DType::F32, [2, 3]));
        "grad": grad(&sum)(&x);
        "value_and_grad": value_and_grad(&sum)(&x);
        "hessian": hessian(&sum)(&x);
        "make_jaxpr": make_jaxpr(add)(x.clone());
        "remat": remat(|x: &Tensor| x + Tensor::from([1.0_f32, 2.0]))(&x);
        "if": jit(|x: Tensor| if x.sum().item::<f32>() > 0.0 { x } else { -x })(x.clone());
    }
}

/// The results of transformations are called through `dyn Fn`, which does not know its caller. So the messages of these
/// panics name the line that built the function.
#[test]
fn built_functions_name_their_line_in_the_message() {
    fn message<T>(program: impl FnOnce() -> T) -> String {
        catch(|| drop(program())).unwrap_err().message
    }
    let x = vector();
    let texts = [
        message(|| grad(|x: &Tensor| x.sin())(&x)),
        message(|| value_and_grad_mut(|x: &mut Tensor| x.sin())(&mut vector())),
        message(|| vmap(|x: Tensor| x)(Tensor::from(1.0_f32))),
        message(|| vmap_mut(|x: &mut Tensor| *x = x.sin())(&mut Tensor::from(1.0_f32))),
    ];
    for text in texts {
        assert!(text.contains("p25_panics.rs:"), "{text}");
    }
}

/// A model behind a lock is not part of the argument: `jit` reads it once, while it traces the function.
#[test]
fn a_captured_model_is_a_constant() {
    let model = Arc::new(Mutex::new(Linear::new(3, 1, &mut Rngs::new(0))));
    let captured = Arc::clone(&model);
    let forward = jit(move |x: Tensor| captured.lock().unwrap().forward(&x));
    let x = Tensor::ones(DType::F32, [1, 3]);
    let first = forward(x.clone());
    {
        let mut model = model.lock().unwrap();
        model.weight = &model.weight * 10.0;
    }
    assert_eq!(forward(x.clone()), first, "the weights of the first call");
    assert_eq!(forward.traces(), 1);
    let current = model.lock().unwrap().clone();
    assert_ne!(current.forward(&x), first);

    // If the model is an argument, its current value is used.
    let forward = jit(|(model, x): (Linear, Tensor)| model.forward(&x));
    let found = forward((model.lock().unwrap().clone(), x.clone()));
    assert_eq!(found, current.forward(&x));
    // If the model is in a reference, its current value is also used.
    let reference = Ref::new(current.clone());
    let forward = jit(|(model, x): (Ref<Linear>, Tensor)| model.get().forward(&x));
    forward((reference.clone(), x.clone()));
    reference.modify(|model| model.weight = &model.weight * 2.0);
    assert_eq!(
        forward((reference.clone(), x.clone())),
        reference.get().forward(&x)
    );
}
