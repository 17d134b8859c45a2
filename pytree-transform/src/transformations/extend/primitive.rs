//! Primitives of other crates.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::Location;
use std::sync::Arc;

use pytree_derive::panicking_twin;
use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::dtype::AbstractArray;

use crate::base::error::{TensorError, or_panic};
use crate::primitives::body::rules::with_condition;
use crate::primitives::callback::HostCall;
use crate::primitives::shape::move_axis;
use crate::tensor::Tensor;
use crate::tensor::primitive::{
    AbstractResults, Applied, BatchAxis, Batched, Cotangents, Infos, Linear, Lowered, Outputs,
    Primitive as EnginePrimitive, WithTangents,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::{bind, current_line, under};
use crate::transformations::control::loops::map;
use crate::transformations::extend::rule::{Rule, different, not_derivative, not_examples};

/// An operand of a transpose rule.
#[derive(Clone, Debug)]
pub enum Operand {
    /// An operand in which the primitive is linear. The rule returns the cotangent of this operand, which has this dtype and
    /// shape.
    Linear(AbstractArray),
    /// An operand with a known value.
    Known(Tensor),
}

impl Operand {
    /// Returns the value of the operand, or `None` if the primitive is linear in it.
    pub fn known(&self) -> Option<&Tensor> {
        match self {
            Self::Linear(_) => None,
            Self::Known(value) => Some(value),
        }
    }
}

/// The results of a JVP rule: the results of the primitive, and the tangent of each result, or `None` for zeros.
pub type Tangents = (Vec<Tensor>, Vec<Option<Tensor>>);

/// The results of a batching rule: the results of the primitive, and the batch axis of each result, or `None` if the
/// examples have the result in common.
pub type Examples = (Vec<Tensor>, Vec<Option<usize>>);

/// An operation with all rules that transformations need. [`apply`] applies it.
///
/// Every rule is required, so a primitive works under all transformations in any order. [`CustomOp`] needs fewer rules.
///
/// Rules are called with shapes that [`shape`](Self::shape) accepts. The rules of derivatives and batches compute with
/// operations of tensors, which may be traced, so that transformations can be nested: they must not read elements.
///
/// `Eq` and `Hash` compare the parameters: of two equal operations on the same operands, a compiled program computes one.
///
/// # Examples
/// The sum of squares over the last axis. Its derivative and its batches are written with operations:
/// ```
/// use std::fmt;
/// use pytree_transform::extend::{Block, Examples, Operand, Primitive, Tangents, Value, apply};
/// use pytree_transform::{AbstractArray, Tensor, TensorError, grad, jit, vmap};
///
/// #[derive(Clone, Debug, PartialEq, Eq, Hash)]
/// struct SumOfSquares;
///
/// impl Primitive for SumOfSquares {
///     fn name(&self) -> &'static str {
///         "sum_of_squares"
///     }
///     fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
///         let [x] = operands else { unreachable!("`sum_of_squares` passes one operand") };
///         Ok(vec![AbstractArray::new(x.dtype, &x.shape[..x.rank() - 1])])
///     }
///     fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
///         let x = operands[0].view::<f32>().expect("floats");
///         vec![x.map_axis(ndarray::Axis(x.ndim() - 1), |row| row.dot(&row)).into()]
///     }
///     fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
///         let x = &primals[0];
///         let tangent = tangents[0].as_ref().map(|tangent| (x * tangent).sum_axes(-1) * 2.0);
///         (apply(self, &[x]), vec![tangent])
///     }
///     fn transpose(&self, _: &[Option<Tensor>], _: &[Operand]) -> Vec<Option<Tensor>> {
///         unreachable!("the primitive is linear in no operand")
///     }
///     fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: usize) -> Examples {
///         let x = match axes[0] {
///             Some(axis) => operands[0].move_axis(axis as isize, 0),
///             None => operands[0].clone(),
///         };
///         (apply(self, &[&x]), vec![axes[0].map(|_| 0)])
///     }
///     fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &[&AbstractArray]) -> Result<Vec<Value>, TensorError> {
///         block.computed(operands, |x| vec![x[0].square().sum_axes(-1)])
///     }
///     fn write_parameters(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
///         Ok(())
///     }
/// }
///
/// #[track_caller]
/// fn sum_of_squares(x: &Tensor) -> Tensor {
///     apply(&SumOfSquares, &[x]).remove(0)
/// }
///
/// let x = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
/// assert_eq!(sum_of_squares(&x).to_vec::<f32>(), [5.0, 25.0]);
/// let gradients = jit(vmap(grad(|x: &Tensor| sum_of_squares(x))));
/// assert_eq!(gradients(x), Tensor::from([[2.0_f32, 4.0], [6.0, 8.0]]));
/// ```
///
/// [`CustomOp`]: crate::extend::CustomOp
pub trait Primitive: fmt::Debug + Clone + Eq + Hash + Send + Sync + 'static {
    /// Returns the name of the primitive in jaxprs and messages.
    fn name(&self) -> &'static str;

    /// Returns the dtypes and shapes of the results.
    ///
    /// # Errors
    /// Returns an error if the operands do not fit the primitive, for instance a [`TensorError::Shape`]. The function that
    /// calls [`apply`] determines the number of operands.
    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError>;

    /// Computes the results on the host. The elements of the operands are known; see [`Tensor::view`] and [`Tensor::read`].
    ///
    /// The dtypes of half-precision floats and of integers with less than 32 bits arrive as f32, i32 or u32, and the results
    /// are converted to the dtypes that [`shape`](Self::shape) returns for the original operands.
    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor>;

    /// Computes the results as [`evaluate`](Self::evaluate) does, or returns the error of a computation that can fail, for
    /// instance [`TensorError::NotConverged`]. If the results are computed at once, [`try_apply`] returns the error. In a compiled
    /// program, and for [`apply`], the error is the message of a panic. The default calls `evaluate`.
    ///
    /// # Errors
    /// Returns the errors of the implementation.
    fn try_evaluate(&self, operands: &[Tensor]) -> Result<Vec<Tensor>, TensorError> {
        Ok(self.evaluate(operands))
    }

    /// Returns the results and their tangents for the given tangents of the operands. `None` stands for zeros.
    ///
    /// All operations of this rule and of the following ones have the line of the call of [`apply`], also those of functions that
    /// the rule passes to `vmap`, `jvp` or loops.
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents;

    /// Returns the cotangent of each operand in which the primitive is linear, and `None` for the others. `cotangents` holds the
    /// cotangents of the results. `None` stands for zeros. Reverse mode calls this rule for primitives that a JVP rule applies
    /// to tangents.
    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Operand])
    -> Vec<Option<Tensor>>;

    /// Returns the results for a batch of `size` examples. `axes` holds the batch axis of each operand, or `None` if the examples
    /// have the operand in common. [`each_example`] is a rule for every primitive.
    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], size: usize) -> Examples;

    /// Writes operations of StableHLO that compute the results, for devices. `results` holds the dtypes and shapes of the results.
    /// [`Block::computed`] writes a function of tensors.
    ///
    /// # Errors
    /// Returns the error of [`Block::refused`] if the primitive runs only on the host.
    fn lower(
        &self,
        block: &mut Block<'_>,
        operands: &[Value],
        results: &[&AbstractArray],
    ) -> Result<Vec<Value>, TensorError>;

    /// Writes the parameters in the notation of displayed jaxprs, for instance `axes=(0,)`.
    ///
    /// # Errors
    /// Returns the errors of `f`.
    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Returns whether the evaluation, or an operation of a rule, has an effect. A program then makes all evaluations, in their order.
    /// Under `vmap`, an example that does not reach the primitive does not evaluate it: the other examples are evaluated one by one.
    fn has_effect(&self) -> bool {
        false
    }
}

/// Applies a primitive to tensors, which may be traced, and returns the results.
///
/// The errors, and messages about the operation, have the line of the caller. So a function that calls `apply` has the attribute
/// `#[track_caller]`.
///
/// # Panics
/// Panics if the operands do not fit the primitive. When a transformation calls a rule, panics if the rule returns another number
/// of values, or values of other dtypes, shapes or numbers of examples, than the shape rule determines. Messages of a rule, also of
/// its panics, have the primitive, the rule and the line of the caller.
#[panicking_twin(apply, Shape)]
#[track_caller]
pub fn try_apply<P: Primitive>(
    primitive: &P,
    operands: &[&Tensor],
) -> Result<Vec<Tensor>, TensorError> {
    let opened = Opened {
        primitive: primitive.clone(),
        line: current_line(),
    };
    let results = bind(&opened, operands)?;
    Ok(results.into_vec())
}

/// A batching rule for every primitive: applies the primitive to one example after the other.
///
/// The rule takes what [`Primitive::batch`] takes, apart from the size of the batch.
#[track_caller]
pub fn each_example<P: Primitive>(
    primitive: &P,
    operands: &[Tensor],
    axes: &[Option<usize>],
) -> Examples {
    map_examples(operands, axes, |operands| apply(primitive, operands))
}

/// Applies a function to one example after the other.
fn map_examples(
    operands: &[Tensor],
    axes: &[Option<usize>],
    function: impl Fn(&[&Tensor]) -> Vec<Tensor>,
) -> Examples {
    let (mut batched, mut common) = (Vec::new(), Vec::new());
    for (operand, axis) in operands.iter().zip(axes) {
        match axis {
            Some(axis) => batched.push(or_panic(move_axis(operand, *axis, 0))),
            None => common.push(operand.clone()),
        }
    }
    let results = map(
        |examples: Vec<Tensor>| {
            let (mut examples, mut common) = (examples.into_iter(), common.iter().cloned());
            let operands: Vec<Tensor> = axes
                .iter()
                .filter_map(|axis| match axis {
                    Some(_) => examples.next(),
                    None => common.next(),
                })
                .collect();
            function(&operands.iter().collect::<Vec<_>>())
        },
        batched,
    );
    let axes = vec![Some(0); results.len()];
    (results, axes)
}

/// A primitive of another crate, as a primitive of the engine.
#[derive(Clone, Debug)]
struct Opened<P> {
    primitive: P,
    /// The line that applied the primitive, for messages.
    line: &'static Location<'static>,
}

impl<P: Primitive> PartialEq for Opened<P> {
    fn eq(&self, other: &Self) -> bool {
        self.primitive == other.primitive
    }
}

impl<P: Primitive> Eq for Opened<P> {}

impl<P: Primitive> Hash for Opened<P> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.primitive.hash(hasher);
    }
}

impl<P: Primitive> Opened<P> {
    fn rule(&self, name: &'static str) -> Rule {
        Rule {
            name,
            operation: self.primitive.name(),
            line: self.line,
        }
    }

    /// Returns the dtypes and shapes of the results for operands that the shape rule accepts.
    fn expected<'a>(
        &self,
        operands: impl Iterator<Item = &'a AbstractArray>,
    ) -> Outputs<AbstractArray> {
        let operands: Vec<&AbstractArray> = operands.collect();
        self.rule("shape")
            .run(|| or_panic(self.abstract_evaluation(&operands)))
    }
}

impl<P: Primitive> EnginePrimitive for Opened<P> {
    fn name(&self) -> &'static str {
        self.primitive.name()
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let results = self.rule("shape").run(|| self.primitive.shape(operands));
        results.map(Outputs::from_vec)
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        // The message of a panic has the line of the caller.
        self.rule("evaluation")
            .run(|| or_panic(self.try_evaluate(operands)))
    }

    fn try_evaluate(&self, operands: Operands) -> Result<Outputs<Array>, TensorError> {
        let operands: Vec<Tensor> = operands.into_iter().map(Tensor::from_shared).collect();
        let expected = self.expected(operands.iter().map(Tensor::info));
        let rule = self.rule("evaluation");
        let results = rule.run(|| self.primitive.try_evaluate(&operands))?;
        // An operand that is a result, and that nothing else holds, is not copied.
        drop(operands);
        rule.check("results", &results, &expected, |result, expected| {
            different(result.info(), expected)
        });
        let array = |result: Tensor| {
            let array = Arc::clone(rule.run(|| or_panic(result.value())));
            drop(result);
            Arc::unwrap_or_clone(array)
        };
        Ok(results.into_iter().map(array).collect())
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let expected = self.expected(primals.iter().map(Tensor::info));
        let rule = self.rule("JVP");
        let (results, tangents) = rule.run(|| self.primitive.jvp(primals, tangents));
        rule.check("results", &results, &expected, |result, expected| {
            different(result.info(), expected)
        });
        rule.check("tangents", &tangents, &expected, |tangent, result| {
            not_derivative(tangent.as_ref(), Some(result))
        });
        (results.into(), tangents.into())
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let operands: Vec<Operand> = operands
            .iter()
            .map(|operand| match operand {
                Linear::Unknown(info) => Operand::Linear(info.clone()),
                Linear::Known(value) => Operand::Known(value.clone()),
            })
            .collect();
        let rule = self.rule("transpose");
        let found = rule.run(|| self.primitive.transpose(cotangents, &operands));
        rule.check("cotangents", &found, &operands, |cotangent, operand| {
            let of = match operand {
                Operand::Linear(info) => Some(info),
                Operand::Known(_) => None,
            };
            not_derivative(cotangent.as_ref(), of)
        });
        found.into()
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let mut examples: Vec<AbstractArray> =
            operands.iter().map(|it| it.info().clone()).collect();
        for (example, axis) in examples.iter_mut().zip(axes) {
            if let Some(axis) = *axis {
                example.shape.remove(axis);
            }
        }
        let expected = self.expected(examples.iter());
        let rule = self.rule("batching");
        let (results, axes) = rule.run(|| self.primitive.batch(operands, axes, batch.size));
        rule.check("results", &results, &expected, |_, _| None);
        rule.check("batch axes", &axes, &expected, |_, _| None);
        let examples: Vec<_> = axes.iter().zip(&expected).collect();
        rule.check("results", &results, &examples, |result, (axis, example)| {
            not_examples(result.info(), **axis, example, batch.size)
        });
        (results.into(), axes.into())
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], results: &Infos<'_>) -> Lowered {
        let rule = self.rule("lowering");
        let values = rule.run(|| self.primitive.lower(block, operands, results))?;
        rule.check("values", &values, results, |value, expected| {
            different(value.info(), expected)
        });
        Ok(values.into())
    }

    fn can_fail(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.primitive.write_parameters(f)
    }

    fn has_effect(&self) -> bool {
        self.primitive.has_effect()
    }

    fn has_result_of_effect(&self) -> bool {
        self.has_effect()
    }

    fn bind_under(&self, condition: Option<&Tensor>, operands: &[&Tensor]) -> Applied {
        let Some(condition) = condition else {
            let infos: Vec<_> = operands.iter().map(|operand| operand.info()).collect();
            let results = self.abstract_evaluation(&infos)?.into_vec();
            return bind(&HostCall::refused(self.name(), results.into()), &[]);
        };
        let conditional = Conditional(self.clone());
        bind(
            &conditional,
            &with_condition(Some(condition), operands, &[0]),
        )
    }
}

/// A primitive of another crate that has an effect, with a bool as its first operand. If this condition is false, the primitive is
/// not evaluated, and its results are zeros.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Conditional<P: Primitive>(Opened<P>);

impl<P: Primitive> EnginePrimitive for Conditional<P> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        self.0.abstract_evaluation(&operands[1..])
    }

    fn evaluate(&self, mut operands: Operands) -> Outputs<Array> {
        if operands.remove(0).elements::<bool>()[0] {
            return self.0.evaluate(operands);
        }
        let infos: Vec<&AbstractArray> = operands.iter().map(|operand| &operand.info).collect();
        let results = or_panic(self.0.abstract_evaluation(&infos));
        results.iter().map(Array::zeros).collect()
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        under(Some(&primals[0]), || {
            self.0.jvp(&primals[1..], &tangents[1..])
        })
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let rule = || self.0.transpose(cotangents, &operands[1..]);
        let mut found = under(Some(operands[0].known()), rule);
        found.insert(0, None);
        found
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let (results, axes) = if axes[0].is_some() {
            map_examples(operands, axes, |operands| {
                or_panic(bind(self, operands)).into_vec()
            })
        } else {
            let rule = || self.0.batch(&operands[1..], &axes[1..], batch);
            return under(Some(&operands[0]), rule);
        };
        (results.into(), axes.into())
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        Err(block.refused(
            operands,
            "it has an effect, which not all examples of a `vmap` reach",
            "run the function on the host",
        ))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_parameters(f)
    }

    fn has_effect(&self) -> bool {
        true
    }

    fn has_result_of_effect(&self) -> bool {
        true
    }

    fn bind_under(&self, condition: Option<&Tensor>, operands: &[&Tensor]) -> Applied {
        let both = condition.map(|condition| operands[0] & condition);
        self.0.bind_under(both.as_ref(), &operands[1..])
    }
}
