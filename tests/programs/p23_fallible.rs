//! A model whose forward pass can fail: a `Result` passes through every transformation.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use pytree::TensorError;
use pytree::prelude::*;
use pytree::transform::Jit;
use pytree::vjp;

/// Why a forward pass is impossible. It can't be cloned, and is returned as it is.
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
    assert_eq!(forward.traces(), 2, "an error is not cached");
    let jaxpr = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        forward.jaxpr(&(net.clone(), narrow.clone()))
    }));
    let message = *jaxpr.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("it returned an `Err`"), "{message}");
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

    // Later calls are as if nothing had happened.
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
        predict: Jit<(Net, Tensor), Tensor, Result<Tensor, ForwardError>>,
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
    assert_eq!((f.cached(), f.traces()), (1, 2));
}
