//! Operations of other crates, under all transformations.

mod wrong_rules;

use std::fmt;

use pytree_transform::extend::{
    Block, Examples, Operand, Primitive, Tangents, Value, apply, try_apply,
};
use pytree_transform::{
    AbstractArray, DType, Tensor, TensorError, fori_loop, grad, hessian, jit, jvp, make_jaxpr, vmap,
};

use crate::panics::catch;

/// The sum of squares over the last axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SumOfSquares;

impl Primitive for SumOfSquares {
    fn name(&self) -> &'static str {
        "sum_of_squares"
    }
    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        let x = operands[0];
        if x.rank() == 0 {
            return Err(TensorError::Shape {
                operation: "sum the squares of",
                found: vec![x.clone()],
                problem: "it has no axis".to_owned(),
                fix: "use `.square()`".to_owned(),
            });
        }
        Ok(vec![AbstractArray::new(x.dtype, &x.shape[..x.rank() - 1])])
    }
    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        let axis = ndarray::Axis(operands[0].rank() - 1);
        vec![match operands[0].dtype() {
            DType::F64 => {
                let x = operands[0].view::<f64>().unwrap();
                x.map_axis(axis, |row| row.dot(&row)).into()
            }
            _ => {
                let x = operands[0].view::<f32>().unwrap();
                x.map_axis(axis, |row| row.dot(&row)).into()
            }
        }]
    }
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let x = &primals[0];
        let tangent = |tangent: &Tensor| (x * tangent).sum_axes(-1) * 2.0;
        (apply(self, &[x]), vec![tangents[0].as_ref().map(tangent)])
    }
    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: usize) -> Examples {
        let x = match axes[0] {
            Some(axis) => operands[0].move_axis(axis as isize, 0),
            None => operands[0].clone(),
        };
        (apply(self, &[&x]), vec![axes[0].map(|_| 0)])
    }
    fn lower(
        &self,
        block: &mut Block<'_>,
        operands: &[Value],
        _: &[&AbstractArray],
    ) -> Result<Vec<Value>, TensorError> {
        block.computed(operands, |x| vec![x[0].square().sum_axes(-1)])
    }
}

#[track_caller]
fn sum_of_squares(x: &Tensor) -> Tensor {
    apply(&SumOfSquares, &[x]).remove(0)
}

fn reference(x: &Tensor) -> Tensor {
    x.square().sum_axes(-1)
}

fn matrix() -> Tensor {
    Tensor::from([[1.0_f64, 2.0, 3.0], [4.0, 5.0, 6.0]])
}

#[test]
fn a_primitive_of_another_crate_is_transformed() {
    let x = matrix();
    let row = Tensor::from([1.0_f64, 2.0, 3.0]);
    assert_eq!(sum_of_squares(&x), reference(&x));
    assert_eq!(jit(sum_of_squares)(&x), reference(&x));
    assert_eq!(grad(sum_of_squares)(&row), grad(reference)(&row));
    assert_eq!(
        jvp(sum_of_squares, &x, &x.sin()),
        jvp(reference, &x, &x.sin())
    );
    assert_eq!(hessian(sum_of_squares)(&row), hessian(reference)(&row));
    let over_columns = |f: fn(&Tensor) -> Tensor| vmap(move |x: Tensor| f(&x)).in_axes(1);
    assert_eq!(
        over_columns(sum_of_squares)(x.clone()),
        over_columns(reference)(x.clone())
    );
    let gradients = jit(vmap(grad(sum_of_squares)));
    assert_eq!(gradients(x.clone()), x.clone() * 2.0);
    let looped = |x: &Tensor| {
        fori_loop(
            0,
            3,
            |_, x: Tensor| &x * sum_of_squares(&x).sin(),
            x.clone(),
        )
    };
    let expected = |x: &Tensor| fori_loop(0, 3, |_, x: Tensor| &x * reference(&x).sin(), x.clone());
    let found = grad(|x: &Tensor| looped(x).sum())(&row);
    let expected = grad(|x: &Tensor| expected(x).sum())(&row);
    let error = ((found - &expected) / expected).abs().to_vec::<f64>();
    assert!(error.iter().all(|&error| error < 1e-12), "{error:?}");
}

#[test]
fn a_primitive_of_another_crate_is_shown_merged_and_lowered() {
    let twice = |x: Tensor| sum_of_squares(&x) + sum_of_squares(&x);
    let jaxpr = make_jaxpr(twice)(matrix());
    assert!(
        jaxpr.to_string().contains("b:f64[2] = sum_of_squares a"),
        "{jaxpr}"
    );
    let steps = jit(twice).lower(&matrix()).to_string();
    assert!(steps.contains("= add b b"), "{steps}");
    let module = jaxpr.to_stablehlo();
    let text = module.text_without_locations();
    assert_eq!(text.matches("stablehlo.reduce").count(), 2, "{text}");
}

#[test]
fn a_primitive_of_another_crate_has_half_precision_and_errors() {
    let x = matrix().convert(DType::BF16);
    assert_eq!(sum_of_squares(&x), reference(&x));
    let error = try_apply(&SumOfSquares, &[&Tensor::from(1.0_f32)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot sum the squares of f32[]: it has no axis; use `.square()`"
    );
    let caught = catch(|| sum_of_squares(&Tensor::from(1.0_f32))).unwrap_err();
    assert!(caught.file.ends_with("extend.rs"), "{caught:?}");
}

/// Reverses the last axis: a linear operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Mirror;

impl Primitive for Mirror {
    fn name(&self) -> &'static str {
        "mirror"
    }
    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        Ok(vec![operands[0].clone()])
    }
    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        let mut x = operands[0].to_ndarray::<f64>().unwrap();
        x.invert_axis(ndarray::Axis(x.ndim() - 1));
        vec![x.into()]
    }
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let tangent = tangents[0].as_ref();
        (
            apply(self, &[&primals[0]]),
            vec![tangent.map(|tangent| apply(self, &[tangent]).remove(0))],
        )
    }
    fn transpose(
        &self,
        cotangents: &[Option<Tensor>],
        operands: &[Operand],
    ) -> Vec<Option<Tensor>> {
        assert!(matches!(&operands[0], Operand::Linear(info) if info.rank() == 1));
        let cotangent = cotangents[0].as_ref();
        vec![cotangent.map(|cotangent| apply(self, &[cotangent]).remove(0))]
    }
}

#[test]
fn linear_operations_are_transposed_and_mapped_example_by_example() {
    let mirror = |x: &Tensor| apply(&Mirror, &[x]).remove(0);
    let weights = Tensor::from([1.0_f64, 2.0, 3.0]);
    let loss = move |x: &Tensor| (mirror(x) * &weights).sum();
    let row = Tensor::from([5.0_f64, 6.0, 7.0]);
    assert_eq!(grad(loss.clone())(&row).to_vec::<f64>(), [3.0, 2.0, 1.0]);
    let rows = vmap(move |x: Tensor| apply(&Mirror, &[&x]).remove(0));
    let x = matrix();
    assert_eq!(rows(x.clone()), x.reverse(1));
    assert_eq!(
        vmap(grad(loss))(x),
        Tensor::from([[3.0_f64, 2.0, 1.0], [3.0, 2.0, 1.0]])
    );
}

/// An operation that has only the rules that are required, or wrong ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Bare {
    results: usize,
    dtype: DType,
}

impl Primitive for Bare {
    fn name(&self) -> &'static str {
        "bare"
    }
    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        Ok(vec![operands[0].clone()])
    }
    fn evaluate(&self, _: &[Tensor]) -> Vec<Tensor> {
        vec![Tensor::zeros(self.dtype, [2]); self.results]
    }
}

#[test]
fn missing_and_wrong_rules_are_named_with_the_line() {
    let x = Tensor::from([1.0_f32, 2.0]);
    let bare = Bare {
        results: 1,
        dtype: DType::F32,
    };
    let call = |op: &Bare, x: &Tensor| apply(op, &[x]).remove(0);
    let line = format!("extend.rs:{}:", line!() - 1);
    let compiled = jit({
        let bare = bare.clone();
        move |x: Tensor| apply(&bare, &[&x]).remove(0)
    });
    assert_eq!(compiled(x.clone()).len(), 2);
    let check = |message: String, expected: [&str; 2]| {
        assert!(message.contains(&line), "{message}");
        assert!(expected.iter().all(|it| message.contains(it)), "{message}");
    };
    let missing = catch(|| grad(|x: &Tensor| call(&bare, x).sum())(&x))
        .unwrap_err()
        .message;
    check(
        missing,
        [
            "cannot differentiate `bare` of f32[2] at ",
            "the operation has no rule `jvp`; implement `Primitive::jvp` for `",
        ],
    );
    let batch = vmap(|x: Tensor| call(&bare, &x))(Tensor::ones(DType::F32, [3, 2]));
    assert_eq!(batch, Tensor::zeros(DType::F32, [3, 2]));
    let jaxpr = make_jaxpr(|x: Tensor| call(&bare, &x))(x.clone());
    assert!(
        jaxpr
            .to_string()
            .contains("bare[parameters=Bare { results: 1, dtype: F32 }] a"),
        "{jaxpr}"
    );
    let refused = jaxpr.try_to_stablehlo().unwrap_err().to_string();
    check(
        refused,
        [
            "cannot lower `bare` of f32[2] at ",
            "implement `Primitive::lower`, or run the function on the host",
        ],
    );
    let two = catch(|| {
        call(
            &Bare {
                results: 2,
                ..bare.clone()
            },
            &x,
        )
    })
    .unwrap_err()
    .message;
    assert!(two.contains("returned 2 results: expected 1"), "{two}");
    let other = catch(|| {
        call(
            &Bare {
                dtype: DType::I32,
                ..bare.clone()
            },
            &x,
        )
    })
    .unwrap_err()
    .message;
    assert!(
        other.contains("the evaluation rule of `bare` at ")
            && other.contains("number 0 of the results is i32[2]: expected f32[2]"),
        "{other}"
    );
}

/// The n-th power, by loops in the rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Power(i32);

impl Primitive for Power {
    fn name(&self) -> &'static str {
        "power"
    }
    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        Ok(vec![operands[0].clone()])
    }
    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        let x = operands[0].view::<f64>().unwrap();
        vec![x.mapv(|x| x.powi(self.0)).into()]
    }
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let power = |x: &Tensor| vmap(|x: Tensor| x.powi(self.0))(x.clone());
        let (value, tangent) = jvp(power, &primals[0], tangents[0].as_ref().unwrap());
        (vec![value], vec![Some(tangent)])
    }
    fn lower(
        &self,
        block: &mut Block<'_>,
        operands: &[Value],
        _: &[&AbstractArray],
    ) -> Result<Vec<Value>, TensorError> {
        block.computed(operands, |x| {
            let step = |_, (power, count): (Tensor, Tensor)| (power * &x[0], count + self.0);
            let ones = Tensor::ones_like(&x[0]);
            let (power, _) = fori_loop(0, self.0, step, (ones, Tensor::from(0)));
            vec![power]
        })
    }
    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n={}", self.0)
    }
}

#[test]
fn loops_of_lowering_rules_are_different_functions() {
    let power = |n: i32, x: &Tensor| apply(&Power(n), &[x]).remove(0);
    let powers = |x: Tensor| (2..40).map(|n| power(n, &x)).collect::<Vec<Tensor>>();
    let module = make_jaxpr(powers)(matrix()).to_stablehlo();
    for n in 2..40 {
        // Each body adds its own number.
        let number = format!("dense<{n}> : tensor<i32>");
        let of_body = module
            .text_without_locations()
            .split("func.func private")
            .skip(1);
        assert!(of_body.clone().any(|body| body.contains(&number)), "{n}");
    }
}

#[test]
fn operations_of_rules_have_the_line_of_the_call() {
    let power = |x: &Tensor| apply(&Power(3), &[x]).remove(0);
    let line = line!() - 1;
    let tangent = move |x: Tensor| jvp(power, &x, &x).1;
    let jaxpr = make_jaxpr(tangent)(matrix());
    assert!(jaxpr.equations().len() > 0);
    for equation in jaxpr.equations() {
        assert_eq!(equation.line().line(), line, "{equation:?}");
    }
    let text = make_jaxpr(move |x: Tensor| power(&x))(matrix())
        .to_stablehlo()
        .text();
    let lines: Vec<&str> = text.lines().filter(|it| it.starts_with("#line")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains(&format!("extend.rs\":{line}:")),
        "{lines:?}"
    );
}

/// Returns its operand, or an error if a number is negative, as an iteration that does not converge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Iteration;

impl Primitive for Iteration {
    fn name(&self) -> &'static str {
        "iteration"
    }
    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        Ok(vec![operands[0].clone()])
    }
    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        self.try_evaluate(operands).unwrap()
    }
    fn try_evaluate(&self, operands: &[Tensor]) -> Result<Vec<Tensor>, TensorError> {
        let x = &operands[0];
        if x.to_vec::<f32>().iter().any(|&x| x < 0.0) {
            let fix = "pass positive numbers";
            return Err(TensorError::not_converged("iterate", &[x.info()], fix));
        }
        Ok(vec![x.clone()])
    }
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        (apply(self, &[&primals[0]]), tangents.to_vec())
    }
    fn lower(
        &self,
        _: &mut Block<'_>,
        operands: &[Value],
        _: &[&AbstractArray],
    ) -> Result<Vec<Value>, TensorError> {
        Ok(operands.to_vec())
    }
}

#[test]
fn evaluation_that_fails_is_an_error() {
    let iterate = |x: &Tensor| apply(&Iteration, &[x]).remove(0);
    let (good, bad) = (Tensor::from([1.0_f32, 2.0]), Tensor::from([1.0_f32, -2.0]));
    assert_eq!(try_apply(&Iteration, &[&good]).unwrap()[0], good);
    let expected = "cannot iterate f32[2]: the iteration did not converge; pass positive numbers";
    let error = try_apply(&Iteration, &[&bad]).unwrap_err();
    assert!(
        matches!(error, TensorError::NotConverged { .. }),
        "{error:?}"
    );
    assert_eq!(error.to_string(), expected);
    let both = Tensor::stack(&[&good, &bad], 0);
    let messages = [
        catch(|| iterate(&bad)),
        catch(|| jit(iterate)(&bad)),
        catch(|| jit(move |x: &Tensor| iterate(&(x * 2.0)).sin())(&bad)),
        catch(|| grad(|x: &Tensor| iterate(x).sum())(&bad)),
        catch(|| vmap(|x: Tensor| iterate(&x))(both)),
    ];
    for caught in messages {
        let message = caught.unwrap_err().message;
        assert!(message.contains(expected), "{message}");
    }
}
