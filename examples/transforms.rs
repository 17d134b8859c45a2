//! A tour of the transformations. Each transformation takes a function and returns a function, so transformations nest
//! in any order.
//!
//! Run it with `cargo run --example transforms`. It prints:
//!
//!     # jit: a function becomes a list of equations
//!     `jit` runs the function once, with tensors that only have a shape and a dtype,
//!     and records the operations: a jaxpr. Later calls replay it.
//!     { lambda ; a:f64[2]. let b:f64[2] = sin a; c:f64[2] = mul b a in (c,) }
//!     # jit of grad, and grad of jit
//!     The derivative of x³ is 3x². If it is compiled, both passes, forward and backward, are one list of
//!     equations. The gradient of a compiled function splits its call in two. The first call also
//!     computes the residuals of the second call, which is linear.
//!     { lambda ; a:f64[]. let
//!         b:f64[] = integer_pow[y=2] a
//!         c:f64[] = mul b 3.0:f64[]
//!         d:f64[] = full[dtype=f64 shape=() value=1.0]
//!         e:f64[] = mul d c
//!       in (e,) }
//!     12.0
//!     12.0
//!     { lambda ; a:f64[]. let
//!         _:f64[] b:f64[] = jit[
//!           name=<closure>
//!           jaxpr={ lambda ; a:f64[]. let
//!               _:f64[] = integer_pow[y=3] a
//!               c:f64[] = integer_pow[y=2] a
//!               b:f64[] = mul c 3.0:f64[]
//!             in (_, b) }
//!         ] a
//!         d:f64[] = full[dtype=f64 shape=() value=1.0]
//!         e:f64[] = jit[
//!           name=<closure>
//!           jaxpr={ lambda ; b:f64[] d:f64[]. let e:f64[] = mul d b in (e,) }
//!         ] b d
//!       in (e,) }
//!     # vmap of grad
//!     `vmap` turns a function of an example into a function of a batch. There is no loop: each
//!     equation computes the whole batch, as the shapes in the jaxpr show.
//!     { lambda ; a:f64[3]. let
//!         b:f64[3] = cos a
//!         c:f64[] = full[dtype=f64 shape=() value=1.0]
//!         d:f64[3] = broadcast_in_dim[broadcast_dimensions=() shape=(3,)] c
//!         e:f64[3] = mul d b
//!       in (e,) }
//!     [ 1.          0.54030231 -0.41614684]
//!     # per-example gradients
//!     The gradient with respect to a model is a part of that model. With a `vmap` over the examples,
//!     but not over the model, each example has a gradient. Their mean is the gradient of the mean loss.
//!     each:         Line { slope: Tensor([ 0.,  2., -8.], dtype=f64), offset: Tensor([ 0.,  2., -4.], dtype=f64) }
//!     of the mean:  Line { slope: Tensor(-2., dtype=f64), offset: Tensor(-0.66666667, dtype=f64) }
//!     # hessian
//!     Second derivatives are the `jvp` of `grad` along each axis, with `vmap` over the axes: this is
//!     `hessian`. The `jvp` along one direction is a product with the matrix, which is never computed.
//!     [[10.  6.]
//!      [ 6.  0.]]
//!     # jvp of grad
//!     The first result is the gradient. The second is its derivative along the direction.
//!     [30.  9.] and [10.  6.]
//!     # vmap of vmap
//!     Two nested `vmap`s map over two axes, each with its own `in_axes`. The inner one maps over the
//!     columns for a fixed row, the outer one over the rows. The result has all pairs.
//!     [[1. 2. 4.]
//!      [9. 8. 6.]]
//!     # value_and_grad, with further results
//!     A function may return a tuple with the loss first. The rest is returned unchanged.
//!     The loss and its gradient are computed in one run.
//!     loss 0.5, predictions [1. 3.], gradient Line { slope: Tensor(1., dtype=f64), offset: Tensor(1., dtype=f64) }
//!     # why_retraced
//!     Other shapes, dtypes or structures need another jaxpr. A compiled function reports how
//!     often it was recorded, and the reason for the last retrace.
//!     traced 1 time
//!     traced 2 times
//!     [1]: f64[1] before, f64[2] now

use pytree::prelude::*;

/// The line `slope · x + offset`. The examples below differentiate its error.
#[derive(Module, Clone, Debug)]
struct Line {
    #[param]
    slope: Tensor,
    #[param]
    offset: Tensor,
}

fn line() -> Line {
    Line {
        slope: Tensor::from(2.0),
        offset: Tensor::from(1.0),
    }
}

/// Returns the squared error of a line at one point.
fn error(line: &Line, x: &Tensor, y: &Tensor) -> Tensor {
    (x * &line.slope + &line.offset - y).square()
}

fn recorded() {
    println!("# jit: a function becomes a list of equations");
    println!("`jit` runs the function once, with tensors that only have a shape and a dtype,");
    println!("and records the operations: a jaxpr. Later calls replay it.");
    let f = jit(|x: Tensor| x.sin() * &x);
    println!("{}", f.jaxpr(&Tensor::from([1.0, 2.0])));
}

fn gradient_and_jit() {
    println!("# jit of grad, and grad of jit");
    println!(
        "The derivative of x³ is 3x². If it is compiled, both passes, forward and backward, are one list of"
    );
    println!(
        "equations. The gradient of a compiled function splits its call in two. The first call also"
    );
    println!("computes the residuals of the second call, which is linear.");
    let x = Tensor::from(2.0);
    let cube = |x: &Tensor| x.powi(3);
    let outside = jit(grad(cube));
    println!("{}", outside.jaxpr(&x));
    println!("{}", outside(x.clone()));
    let inside = grad(jit(move |x: Tensor| cube(&x)));
    println!("{}", inside(&x));
    println!("{}", jit(inside).jaxpr(&x));
}

fn gradients_of_a_batch() {
    println!("# vmap of grad");
    println!(
        "`vmap` turns a function of an example into a function of a batch. There is no loop: each"
    );
    println!("equation computes the whole batch, as the shapes in the jaxpr show.");
    let slope = |x: Tensor| grad(|x: &Tensor| x.sin())(&x);
    let batch = Tensor::from([0.0, 1.0, 2.0]);
    let slopes = jit(vmap(slope));
    println!("{}", slopes.jaxpr(&batch));
    println!("{}", slopes(batch));
}

fn gradients_of_examples() {
    println!("# per-example gradients");
    println!(
        "The gradient with respect to a model is a part of that model. With a `vmap` over the examples,"
    );
    println!(
        "but not over the model, each example has a gradient. Their mean is the gradient of the mean loss."
    );
    let model = line();
    let (x, y) = (Tensor::from([0.0, 1.0, 2.0]), Tensor::from([1.0, 2.0, 7.0]));
    let each =
        vmap(|(line, x, y): (Line, Tensor, Tensor)| grad(|line: &Line| error(line, &x, &y))(&line))
            .in_axes((None, 0, 0));
    let gradients = each((model.clone(), x.clone(), y.clone()));
    println!("each:         {gradients}");
    let of_mean = grad(|line: &Line| error(line, &x, &y).mean())(&model);
    println!("of the mean:  {of_mean}");
}

fn second_derivatives() {
    println!("# hessian");
    println!(
        "Second derivatives are the `jvp` of `grad` along each axis, with `vmap` over the axes: this is"
    );
    println!(
        "`hessian`. The `jvp` along one direction is a product with the matrix, which is never computed."
    );
    let f = |x: &Tensor| x.index(ix![0]).powi(2) * x.index(ix![1]);
    let (x, direction) = (Tensor::from([3.0, 5.0]), Tensor::from([1.0, 0.0]));
    println!("{}", hessian(f)(&x));
    println!("# jvp of grad");
    println!("The first result is the gradient. The second is its derivative along the direction.");
    let (gradient, change) = jvp(grad(f), &x, &direction);
    println!("{gradient} and {change}");
}

fn nested_batches() {
    println!("# vmap of vmap");
    println!(
        "Two nested `vmap`s map over two axes, each with its own `in_axes`. The inner one maps over the"
    );
    println!("columns for a fixed row, the outer one over the rows. The result has all pairs.");
    let difference = |(x, y): (Tensor, Tensor)| (x - y).abs();
    let inner = vmap(difference).in_axes((None, 0));
    let pairs = vmap(inner).in_axes((0, None));
    println!(
        "{}",
        pairs((Tensor::from([0.0, 10.0]), Tensor::from([1.0, 2.0, 4.0])))
    );
}

fn value_and_rest() {
    println!("# value_and_grad, with further results");
    println!("A function may return a tuple with the loss first. The rest is returned unchanged.");
    println!("The loss and its gradient are computed in one run.");
    let (x, y) = (Tensor::from([0.0, 1.0]), Tensor::from([1.0, 2.0]));
    let loss = |line: &Line| {
        let predictions = &x * &line.slope + &line.offset;
        (mse(&predictions, &y), predictions)
    };
    let ((loss, predictions), gradient) = value_and_grad(loss)(&line());
    println!("loss {loss}, predictions {predictions}, gradient {gradient}");
}

fn traced_again() {
    println!("# why_retraced");
    println!(
        "Other shapes, dtypes or structures need another jaxpr. A compiled function reports how"
    );
    println!("often it was recorded, and the reason for the last retrace.");
    let total = jit(|(x, y): (Tensor, Tensor)| x.sum() + y.sum());
    total((Tensor::from([1.0]), Tensor::from([1.0])));
    total((Tensor::from([2.0]), Tensor::from([2.0])));
    println!("traced {} time", total.traces());
    total((Tensor::from([1.0]), Tensor::from([1.0, 2.0])));
    println!("traced {} times", total.traces());
    if let Some(why) = total.why_retraced() {
        println!("{why}");
    }
}

fn main() {
    recorded();
    gradient_and_jit();
    gradients_of_a_batch();
    gradients_of_examples();
    second_derivatives();
    nested_batches();
    value_and_rest();
    traced_again();
}
