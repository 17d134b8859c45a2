//! A model whose forward pass can fail: a `Result` passes through every transformation.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use pytree::control;
use pytree::prelude::*;
use pytree::transform::{CustomJvp, Hessian, Jacobians, Jit, Remat};
use pytree::{
    TensorError, custom_jvp, custom_vjp, eval_shape, jacfwd, jacrev, linear_transpose, linearize,
    saved_residuals, vjp,
};

/// The reason why a forward pass is impossible. The error does not implement `Clone`, so transformations must return
/// the original error.
#[derive(Debug)]
enum ForwardError {
    Tensor(TensorError),
    Features { expected: usize, found: usize },
}

impl fmt::Display for ForwardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(error) => error.fmt(f),
            Self::Features { expected, found } => {
                write!(f, "expected {expected} features, found {found}")
            }
        }
    }
}

impl std::error::Error for ForwardError {}

impl From<TensorError> for ForwardError {
    fn from(error: TensorError) -> Self {
        Self::Tensor(error)
    }
}

#[derive(Module, Clone, Debug)]
struct Net {
    #[param]
    weight: Tensor,
    #[param]
    bias: Tensor,
    #[state]
    calls: Ref<Tensor>,
}

impl Net {
    fn new() -> Self {
        Self {
            weight: Key::new(0).normal(DType::F32, [3, 2]),
            bias: Tensor::zeros(DType::F32, [2]),
            calls: Ref::new(Tensor::from(0)),
        }
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor, ForwardError> {
        self.calls.update(|calls| calls + 1);
        let (expected, found) = (self.weight.shape()[0], *x.shape().last().unwrap_or(&0));
        if expected != found {
            return Err(ForwardError::Features { expected, found });
        }
        Ok(x.try_matmul(&self.weight)?.try_add(&self.bias)?.tanh())
    }

    fn loss(&self, x: &Tensor, y: &Tensor) -> Result<Tensor, ForwardError> {
        Ok(self.forward(x)?.try_subtract(y)?.square().mean())
    }
}

fn data() -> (Tensor, Tensor) {
    let x = Key::new(1).normal(DType::F32, [8, 3]);
    let y = Key::new(2).uniform(DType::F32, [8, 2]);
    (x, y)
}

fn calls(net: &Net) -> i32 {
    net.calls.get().item()
}

#[test]
fn fallible_model_is_trained() -> Result<(), ForwardError> {
    let (x, y) = data();
    let mut net = Net::new();
    let mut optimizer = Optimizer::new(&net, adam(0.05));
    let step = jit(
        |(mut net, mut optimizer, x, y): (Net, Optimizer<Net>, Tensor, Tensor)| {
            let (loss, gradient) = value_and_grad(|net: &Net| net.loss(&x, &y))(&net)?;
            optimizer.update(&mut net, &gradient);
            Ok::<_, ForwardError>((net, optimizer, loss))
        },
    );
    let mut losses = Vec::new();
    for _ in 0..50 {
        let loss;
        (net, optimizer, loss) = step((net, optimizer, x.clone(), y.clone()))?;
        losses.push(loss.item::<f32>());
    }
    assert!(losses[49] < 0.7 * losses[0], "{losses:?}");
    assert_eq!(calls(&net), 50);
    assert_eq!(step.traces(), 1);
    Ok(())
}

#[test]
fn error_is_returned_and_nothing_is_kept() {
    let (x, _) = data();
    let net = Net::new();
    let forward = jit(|(net, x): (Net, Tensor)| net.forward(&x));
    let narrow = Tensor::ones(DType::F32, [8, 2]);
    for _ in 0..2 {
        let error = forward((net.clone(), narrow.clone())).unwrap_err();
        assert_eq!(error.to_string(), "expected 3 features, found 2");
    }
    assert_eq!(calls(&net), 0, "the write of the failed call is lost");
    assert_eq!(forward.cached(), 0);
    assert_eq!(forward.traces(), 0, "a failure is no trace");
    let jaxpr = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        forward.jaxpr(&(net.clone(), narrow.clone()))
    }));
    let message = *jaxpr.unwrap_err().downcast::<String>().unwrap();
    assert!(
        message.contains("the function returned an `Err`"),
        "{message}"
    );
    let y = forward((net.clone(), x.clone())).unwrap();
    assert_eq!(y, net.forward(&x).unwrap());
    assert_eq!((calls(&net), forward.cached()), (2, 1));
}

#[test]
fn every_transformation_returns_the_error() {
    let ((x, y), net) = (data(), Net::new());
    let narrow = Tensor::ones(DType::F32, [8, 2]);
    let before = net.weight.to_vec::<f32>();
    let message = |error: ForwardError| error.to_string();
    let expected = "expected 3 features, found 2";
    let slope = grad(|net: &Net| net.loss(&narrow, &y));
    assert_eq!(message(slope(&net).unwrap_err()), expected);
    let both = value_and_grad(|net: &Net| net.loss(&narrow, &y));
    assert_eq!(message(both(&net).unwrap_err()), expected);
    let with_auxiliary = value_and_grad(|net: &Net| Ok((net.loss(&narrow, &y)?, y.clone())));
    assert_eq!(message(with_auxiliary(&net).unwrap_err()), expected);
    let mut written = net.clone();
    let error = value_and_grad_mut(|net: &mut Net| {
        net.bias = &net.bias + 1.0;
        net.loss(&narrow, &y)
    })(&mut written);
    assert_eq!(message(error.unwrap_err()), expected);
    let each = vmap(|(net, x): (Net, Tensor)| net.forward(&x)).in_axes((None, 0));
    assert_eq!(
        message(each((net.clone(), narrow.clone())).unwrap_err()),
        expected
    );
    let error = vmap_mut(|(net, x): (&mut Net, Tensor)| {
        net.bias = &net.bias + 1.0;
        net.forward(&x)
    })
    .in_axes((None, 0))((&mut written, narrow.clone()));
    assert_eq!(message(error.unwrap_err()), expected);
    let pair = (net.clone(), narrow.clone());
    let forward = |(net, x): &(Net, Tensor)| net.forward(x);
    assert_eq!(message(jvp(forward, &pair, &pair).unwrap_err()), expected);
    assert_eq!(
        message(vjp(forward, &pair).map(drop).unwrap_err()),
        expected
    );
    assert_eq!(calls(&net), 0);
    assert_eq!(written.weight.to_vec::<f32>(), before);
    assert_eq!(written.bias.to_vec::<f32>(), [0.0, 0.0]);

    // The errors have no effect on later calls.
    let infallible = grad(|net: &Net| net.loss(&x, &y).unwrap())(&net);
    let fallible = grad(|net: &Net| net.loss(&x, &y))(&net).unwrap();
    assert_eq!(infallible["weight"], fallible["weight"]);
    let rows = each((net.clone(), x.clone())).unwrap();
    assert_eq!(rows.shape(), [8, 2]);
}

#[test]
fn fallible_transformations_nest() -> Result<(), ForwardError> {
    let cube = |x: &Tensor| {
        if x.rank() > 0 {
            return Err(ForwardError::Features {
                expected: 0,
                found: x.rank(),
            });
        }
        Ok(x.powi(3))
    };
    let (x, one) = (Tensor::from(2.0_f64), Tensor::from(1.0_f64));
    let (value, tangent) = jvp(cube, &x, &one)?;
    assert_eq!((value.item::<f64>(), tangent.item::<f64>()), (8.0, 12.0));
    let (value, pullback) = vjp(cube, &x)?;
    assert_eq!(
        (value.item::<f64>(), pullback.call(&one).item::<f64>()),
        (8.0, 12.0)
    );
    assert_eq!(grad(grad(cube))(&x)?.item::<f64>(), 12.0);
    assert_eq!(jit(grad(cube))(x.clone())?.item::<f64>(), 12.0);
    assert_eq!(
        grad(jit(move |x: Tensor| cube(&x)))(&x)?.item::<f64>(),
        12.0
    );
    let xs = Tensor::from([1.0_f64, 2.0]);
    assert_eq!(vmap(grad(cube))(xs.clone())?.to_vec::<f64>(), [3.0, 12.0]);
    assert_eq!(
        vmap(jit(grad(grad(cube))))(xs.clone())?.to_vec::<f64>(),
        [6.0, 12.0]
    );
    assert_eq!(
        jit(vmap(grad(cube)))(xs.clone())?.to_vec::<f64>(),
        [3.0, 12.0]
    );
    assert!(jit(grad(grad(cube)))(xs.clone()).is_err());
    assert!(vmap(jit(move |x: Tensor| cube(&x)))(Tensor::ones(DType::F64, [2, 2])).is_err());
    Ok(())
}

#[test]
fn function_that_may_fail_is_stored() {
    struct Server {
        predict: Jit<(Net, Tensor), Result<Tensor, ForwardError>>,
    }
    let server = Server {
        predict: jit(|(net, x): (Net, Tensor)| net.forward(&x)),
    };
    let (x, _) = data();
    assert!((server.predict)((Net::new(), x.clone())).is_ok());
    assert!((server.predict)((Net::new(), x.t())).is_err());
}

#[test]
fn waiting_threads_trace_after_an_error() {
    let tries = AtomicUsize::new(0);
    let tries: &'static AtomicUsize = Box::leak(Box::new(tries));
    let f = jit(move |x: Tensor| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        match tries.fetch_add(1, Ordering::Relaxed) {
            0 => Err("not yet"),
            _ => Ok(x * 2.0),
        }
    });
    let results = std::thread::scope(|scope| {
        let call = || f(Tensor::from(1.0)).is_ok();
        let threads = [scope.spawn(call), scope.spawn(call), scope.spawn(call)];
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(results.iter().filter(|ok| **ok).count(), 2);
    assert_eq!((f.cached(), f.traces()), (1, 1));
    assert_eq!(tries.load(Ordering::Relaxed), 2, "an error is not cached");
}

/// Returns the cube of each element of a vector with two elements. Fails for any other shape.
fn cubes(x: &Tensor) -> Result<Tensor, ForwardError> {
    let (expected, found) = (2, x.len());
    if x.rank() != 1 || expected != found {
        return Err(ForwardError::Features { expected, found });
    }
    Ok(x.powi(3))
}

fn sum_of_cubes(x: &Tensor) -> Result<Tensor, ForwardError> {
    Ok(cubes(x)?.sum())
}

fn vector() -> Tensor {
    Tensor::from([1.0_f64, 2.0])
}

fn wrong() -> Tensor {
    Tensor::ones(DType::F64, [3])
}

/// Asserts that a result is the error of [`cubes`] for the vector [`wrong`].
fn assert_wrong<T>(result: Result<T, ForwardError>) {
    let error = result.map(drop).unwrap_err();
    assert_eq!(error.to_string(), "expected 2 features, found 3");
}

#[test]
fn derivatives_return_the_error() -> Result<(), ForwardError> {
    let x = vector();
    let diagonal = [3.0, 0.0, 0.0, 12.0];
    assert_eq!(jacrev(cubes)(&x)?.to_vec::<f64>(), diagonal);
    assert_eq!(jacfwd(cubes)(&x)?.to_vec::<f64>(), diagonal);
    assert_eq!(
        hessian(sum_of_cubes)(&x)?.to_vec::<f64>(),
        [6.0, 0.0, 0.0, 12.0]
    );
    assert_wrong(jacrev(cubes)(&wrong()));
    assert_wrong(jacfwd(cubes)(&wrong()));
    assert_wrong(hessian(sum_of_cubes)(&wrong()));

    let (value, derivative) = linearize(cubes, &x)?;
    assert_eq!(value.to_vec::<f64>(), [1.0, 8.0]);
    assert_eq!(
        derivative.call(&Tensor::ones_like(&x)).to_vec::<f64>(),
        [3.0, 12.0]
    );
    assert_wrong(linearize(cubes, &wrong()));
    let double = |x: &Tensor| Ok(cubes(&Tensor::ones_like(x))? + x * 2.0);
    let transpose = linear_transpose(double, &x)?;
    assert_eq!(transpose.call(&x).to_vec::<f64>(), [2.0, 4.0]);
    assert_wrong(linear_transpose(double, &wrong()));
    assert_eq!(saved_residuals(cubes, &x)?.len(), 1);
    assert_wrong(saved_residuals(cubes, &wrong()));

    // The transformations nest, and the errors have no effect on later calls.
    let rows = Tensor::stack(&[x.clone(), x.clone()], 0);
    assert_eq!(vmap(jacrev(cubes))(rows)?.shape(), [2, 2, 2]);
    assert_eq!(jit(hessian(sum_of_cubes))(x.clone())?.shape(), [2, 2]);
    assert_wrong(jit(jacfwd(cubes))(wrong()));
    Ok(())
}

#[test]
fn failed_derivative_writes_no_reference() {
    let (net, narrow) = (Net::new(), Tensor::ones(DType::F32, [8, 2]));
    let y = Tensor::ones(DType::F32, [8, 2]);
    let found = |error: ForwardError| assert_eq!(error.to_string(), "expected 3 features, found 2");
    found(
        jacrev(|net: &Net| net.forward(&narrow))(&net)
            .map(drop)
            .unwrap_err(),
    );
    found(
        hessian(|net: &Net| net.loss(&narrow, &y))(&net)
            .map(drop)
            .unwrap_err(),
    );
    found(
        linearize(|net: &Net| net.forward(&narrow), &net)
            .map(drop)
            .unwrap_err(),
    );
    assert_eq!(calls(&net), 0);
}

#[test]
fn recorded_functions_return_the_error() -> Result<(), ForwardError> {
    let shapes = eval_shape(cubes, &vector())?;
    assert_eq!(shapes.leaves()[0].to_string(), "f64[2]");
    assert_wrong(eval_shape(cubes, &wrong()));
    let record = pytree::make_jaxpr(|x: Tensor| cubes(&x));
    assert_eq!(record(vector())?.equations().count(), 1);
    assert_wrong(record(wrong()));
    Ok(())
}

#[test]
fn recomputed_function_returns_the_error() -> Result<(), ForwardError> {
    let layer: Remat<'_, Tensor, Result<Tensor, ForwardError>> = pytree::remat(cubes);
    let twice = |x: &Tensor| Ok::<_, ForwardError>(layer(&layer(x)?)?.sum());
    assert_eq!(grad(twice)(&vector())?.to_vec::<f64>(), [9.0, 2304.0]);
    assert_eq!(layer(&vector())?.to_vec::<f64>(), [1.0, 8.0]);
    for _ in 0..2 {
        assert_wrong(layer(&wrong()));
        assert_wrong(grad(twice)(&wrong()));
        assert_wrong(jit(pytree::remat(cubes))(wrong()));
    }
    // Nothing is written if the function fails.
    let (net, (x, y)) = (Net::new(), data());
    let layer = pytree::remat(|(net, x): &(Net, Tensor)| net.forward(x));
    let loss = |net: &Net| Ok::<_, ForwardError>((layer(&(net.clone(), x.clone()))? - &y).sum());
    grad(loss)(&net)?;
    assert_eq!(calls(&net), 1);
    let pair = (net.clone(), Tensor::ones(DType::F32, [8, 2]));
    assert!(jit(pytree::remat(|(net, x): &(Net, Tensor)| net.forward(x)))(pair).is_err());
    assert_eq!(calls(&net), 1);
    Ok(())
}

#[test]
fn function_with_a_rule_returns_the_error() -> Result<(), ForwardError> {
    // The rule runs only after the function succeeded with the same shapes, so the rule returns values and not a
    // `Result`.
    let forward: CustomJvp<'_, Tensor, Result<Tensor, ForwardError>> =
        custom_jvp(cubes, |x, tangent| (x.powi(3), tangent * 10.0));
    let reverse = custom_vjp(
        cubes,
        |x| (x.powi(3), ()),
        |(), cotangent| cotangent.clip(-1.0, 1.0),
    );
    let loss = |x: &Tensor| Ok::<_, ForwardError>(forward(x)?.sum());
    assert_eq!(grad(loss)(&vector())?.to_vec::<f64>(), [10.0, 10.0]);
    let loss = |x: &Tensor| Ok::<_, ForwardError>((reverse(x)? * 5.0).sum());
    assert_eq!(grad(loss)(&vector())?.to_vec::<f64>(), [1.0, 1.0]);
    for _ in 0..2 {
        assert_wrong(forward(&wrong()));
        assert_wrong(reverse(&wrong()));
        assert_wrong(grad(loss)(&wrong()));
        assert_wrong(jacfwd(&forward)(&wrong()));
    }
    let compiled = jit(custom_jvp(cubes, |x, tangent| (x.powi(3), tangent * 10.0)));
    assert_wrong(compiled(wrong()));
    assert_eq!(compiled(vector())?.to_vec::<f64>(), [1.0, 8.0]);
    Ok(())
}

#[test]
fn branches_return_the_error() -> Result<(), ForwardError> {
    let (yes, no) = (Tensor::from(true), Tensor::from(false));
    let choose =
        |which: &Tensor, x: Tensor| control::cond(which, |x: Tensor| cubes(&x), |x| Ok(x * 2.0), x);
    assert_eq!(choose(&yes, vector())?.to_vec::<f64>(), [1.0, 8.0]);
    assert_eq!(choose(&no, vector())?.to_vec::<f64>(), [2.0, 4.0]);
    // Both branches are traced, so the branch that is not taken may also fail.
    assert_wrong(choose(&yes, wrong()));
    assert_wrong(choose(&no, wrong()));
    let compiled = jit(move |(which, x): (Tensor, Tensor)| choose(&which, x));
    assert_wrong(compiled((yes.clone(), wrong())));
    assert_eq!(
        compiled((yes.clone(), vector()))?.to_vec::<f64>(),
        [1.0, 8.0]
    );

    let select = |x: Tensor| {
        control::switch(
            &Tensor::from(1),
            &[&|x: Tensor| Ok(x * 2.0), &|x| cubes(&x)],
            x,
        )
    };
    assert_eq!(select(vector())?.to_vec::<f64>(), [1.0, 8.0]);
    assert_wrong(select(wrong()));

    let write = |x: &mut Tensor| {
        control::cond_mut(
            &yes,
            |x| {
                *x = &*x + 1.0;
                cubes(x)
            },
            |x| Ok(x.clone()),
            x,
        )
    };
    let mut written = vector();
    assert_eq!(write(&mut written)?.to_vec::<f64>(), [8.0, 27.0]);
    assert_eq!(written.to_vec::<f64>(), [2.0, 3.0]);
    let mut unchanged = wrong();
    assert_wrong(write(&mut unchanged));
    assert_eq!(unchanged, wrong());

    // A reference that the failed branch wrote keeps its value.
    let count = Ref::new(Tensor::from(0));
    let failed = control::cond(
        &yes,
        |(count, x): (Ref<Tensor>, Tensor)| {
            count.update(|count| count + 1);
            cubes(&x)
        },
        |(_, x)| Ok(x),
        (count.clone(), wrong()),
    );
    assert_wrong(failed);
    assert_eq!(count.get().item::<i32>(), 0);
    Ok(())
}

#[test]
fn loops_return_the_error() -> Result<(), ForwardError> {
    let x = vector();
    let rows = |row: &Tensor| Tensor::stack(&[row.clone(), row.clone(), row.clone()], 0);
    let sums = |inputs| {
        let step = |sum: Tensor, x: Tensor| {
            let sum = sum + cubes(&x)?.sum();
            Ok((sum.clone(), sum))
        };
        scan(step, Tensor::from(0.0_f64), inputs)
    };
    let (last, all) = sums(rows(&x))?;
    assert_eq!(last.item::<f64>(), 27.0);
    assert_eq!(all.to_vec::<f64>(), [9.0, 18.0, 27.0]);
    assert_wrong(sums(rows(&wrong())));
    let slope = grad(|x: &Tensor| Ok::<_, ForwardError>(sums(rows(x))?.0));
    assert_eq!(slope(&x)?.to_vec::<f64>(), [9.0, 36.0]);
    assert_wrong(slope(&wrong()));

    let count = Ref::new(Tensor::from(0));
    let mut carry = (Tensor::from(0.0_f64), count.clone());
    let mut sums = |inputs| {
        let step = |(sum, count): &mut (Tensor, Ref<Tensor>), x: Tensor| {
            count.update(|count| count + 1);
            *sum = &*sum + 1.0;
            cubes(&x)
        };
        let outputs = scan_mut(step, &mut carry, inputs);
        (outputs, carry.0.item::<f64>(), count.get().item::<i32>())
    };
    let (failed, sum, steps) = sums(rows(&wrong()));
    assert_wrong(failed);
    assert_eq!((sum, steps), (0.0, 0));
    let (outputs, sum, steps) = sums(rows(&x));
    assert_eq!(outputs?.shape(), [3, 2]);
    assert_eq!((sum, steps), (3.0, 3));

    let each = |inputs| control::map(|x: Tensor| cubes(&x), inputs);
    assert_eq!(each(rows(&x))?.shape(), [3, 2]);
    assert_wrong(each(rows(&wrong())));

    let powers = |x| control::fori_loop(0, 2, |_, x| cubes(&x), x);
    assert_eq!(powers(x.clone())?.to_vec::<f64>(), [1.0, 512.0]);
    assert_wrong(powers(wrong()));
    let to_traced_bound =
        |(limit, x): (Tensor, Tensor)| control::fori_loop(0, limit, |_, x| cubes(&x), x);
    let compiled = jit(to_traced_bound);
    assert_eq!(
        compiled((Tensor::from(2), x.clone()))?.to_vec::<f64>(),
        [1.0, 512.0]
    );
    assert_wrong(compiled((Tensor::from(2), wrong())));

    let prefixes = |stack: Tensor| {
        control::associative_scan(
            |left: Tensor, right: Tensor| {
                let (expected, found) = (2, left.shape()[1]);
                if expected != found {
                    return Err(ForwardError::Features { expected, found });
                }
                Ok(left + right)
            },
            stack,
        )
    };
    assert_eq!(
        prefixes(rows(&x))?.to_vec::<f64>(),
        [1.0, 2.0, 2.0, 4.0, 3.0, 6.0]
    );
    assert_wrong(prefixes(rows(&wrong())));
    Ok(())
}

#[test]
fn condition_and_body_may_both_fail() -> Result<(), ForwardError> {
    let is_small = |x: &Tensor| x.max().less(100.0);
    let body = |x: Tensor| Ok::<_, ForwardError>(cubes(&x)? + 1.0);
    let grown = control::while_loop(is_small, body, vector())?;
    assert_eq!(grown.to_vec::<f64>(), [9.0, 730.0]);
    assert_wrong(control::while_loop(is_small, body, wrong()));
    // Here, only the condition may fail.
    let is_small = |x: &Tensor| Ok::<_, ForwardError>(cubes(x)?.max().less(1000.0));
    assert_eq!(
        control::while_loop(is_small, |x| x * 2.0, vector())?.to_vec::<f64>(),
        [8.0, 16.0]
    );
    assert_wrong(control::while_loop(is_small, |x| x * 2.0, wrong()));
    // Here, both may fail. The outer `Result` is the result of the condition.
    let too_wide = |x: Tensor| match x.len() {
        3 => Err("too wide"),
        _ => Ok(x * 2.0),
    };
    let grown = control::while_loop(is_small, too_wide, vector())?.unwrap();
    assert_eq!(grown.to_vec::<f64>(), [8.0, 16.0]);
    assert_wrong(control::while_loop(is_small, too_wide, wrong()));
    let always = |_: &Tensor| Ok::<_, ForwardError>(Tensor::from(false));
    assert_eq!(
        control::while_loop(always, too_wide, wrong())?,
        Err("too wide")
    );
    Ok(())
}

#[test]
fn derivatives_that_may_fail_are_stored() {
    struct Curves {
        slopes: Jacobians<'static, Tensor, Result<Tensor, ForwardError>>,
        curvature: Hessian<'static, Tensor, Result<Tensor, ForwardError>>,
    }
    let curves = Curves {
        slopes: jacrev(cubes),
        curvature: hessian(sum_of_cubes),
    };
    assert!((curves.slopes)(&vector()).is_ok());
    assert_wrong((curves.curvature)(&wrong()));
}
