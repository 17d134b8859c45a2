//! The primitives of other crates as primitives of the engine.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::Location;
use std::sync::Arc;

use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::dtype::AbstractArray;

use crate::base::error::{TensorError, or_panic};
use crate::primitives::body::rules::with_condition;
use crate::primitives::callback::HostCall;
use crate::tensor::Tensor;
use crate::tensor::primitive::{
    AbstractResults, Applied, BatchAxis, Batched, Cotangents, Infos, Linear, Lowered, Outputs,
    Primitive as EnginePrimitive, WithTangents,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::{bind, current_line, under};
use crate::transformations::extend::primitive::{Operand, Primitive, map_examples};
use crate::transformations::extend::rule::{Rule, different, not_derivative, not_examples};

/// A primitive of another crate, as a primitive of the engine.
#[derive(Clone, Debug)]
pub(super) struct Opened<P> {
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
    /// The primitive, applied at the line of the caller.
    #[track_caller]
    pub(super) fn new(primitive: &P) -> Self {
        Self {
            primitive: primitive.clone(),
            line: current_line(),
        }
    }

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
