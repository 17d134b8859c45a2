//! What a primitive is: one operation with all its rules.
//!
//! Every rule is a required method, so a primitive without one does not compile. Rules are written in
//! tensor operations and are therefore traced themselves: that is why transformations nest.

use std::any::{Any, TypeId};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use pytree_core::bug::bug;
use smallvec::SmallVec;

use crate::base::array::Array;
use crate::base::axis_names::AxisName;
use crate::base::dtype::AbstractArray;
use crate::base::error::{TensorError, or_panic};
use crate::tensor::Tensor;
use crate::tensor::elementwise::Elementwise;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::trace::Recorder;

/// The results of a primitive; nearly always one.
pub(crate) type Outputs<T> = SmallVec<[T; 1]>;

/// The operands handed to an evaluation. Who is the only holder of one may reuse its memory.
pub(crate) type Operands = SmallVec<[Arc<Array>; 4]>;

/// What a shape rule gives: element types and shapes, or what does not fit.
pub(crate) type AbstractResults = Result<Outputs<AbstractArray>, TensorError>;

/// What a JVP rule gives: results and their tangents, none of which stands for zeros.
pub(crate) type WithTangents = (Outputs<Tensor>, Outputs<Option<Tensor>>);

/// What a transpose rule gives: for each operand its cotangent, none of which stands for zeros.
pub(crate) type Cotangents = SmallVec<[Option<Tensor>; 2]>;

/// What a batching rule gives: results, and the axis over which each is mapped.
pub(crate) type Batched = (Outputs<Tensor>, Outputs<Option<usize>>);

/// An operand under transposition.
#[derive(Clone, Debug)]
pub(crate) enum Linear {
    /// The function is linear in it; its cotangent is wanted.
    Unknown(AbstractArray),
    /// A known factor.
    Known(Tensor),
}

impl Linear {
    /// The known value.
    ///
    /// # Panics
    /// If it is not known: a transpose rule asked for the wrong operand.
    #[track_caller]
    pub(crate) fn known(&self) -> &Tensor {
        match self {
            Self::Known(tensor) => tensor,
            Self::Unknown(info) => bug(format_args!(
                "the value of an operand {info} that a transpose rule needs"
            )),
        }
    }

    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    pub(crate) fn info(&self) -> AbstractArray {
        match self {
            Self::Unknown(info) => info.clone(),
            Self::Known(tensor) => tensor.info().clone(),
        }
    }
}

/// What a body must take and give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) inputs: Vec<AbstractArray>,
    pub(crate) outputs: Vec<AbstractArray>,
}

impl Signature {
    pub(crate) fn new<'a>(
        inputs: impl IntoIterator<Item = &'a AbstractArray>,
        outputs: impl IntoIterator<Item = &'a AbstractArray>,
    ) -> Self {
        Self {
            inputs: inputs.into_iter().cloned().collect(),
            outputs: outputs.into_iter().cloned().collect(),
        }
    }
}

/// The operands from one position to before another, or what is expected of their number.
pub(crate) fn operands_at<'a>(
    operands: &[&'a AbstractArray],
    range: std::ops::Range<usize>,
) -> Result<Vec<&'a AbstractArray>, String> {
    let found = operands.get(range.clone());
    found.map(<[_]>::to_vec).ok_or_else(|| {
        format!(
            "expected at least {} operands, found {}",
            range.end,
            operands.len()
        )
    })
}

/// How a reduction combines elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    Sum,
    Max,
    Min,
}

impl Fold {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Min => "min",
        }
    }
}

/// **Equality**: two primitives are equal exactly if they compute the same from the same operands; the executor then
/// computes it once. What a primitive derives `Eq` and `Hash` for has these rules.
pub(crate) trait Equality {
    /// Whether the other is a primitive of the same type with the same parameters.
    fn equals(&self, other: &dyn Any) -> bool;

    /// Adds the type and the parameters to a hash.
    fn add_to_hash(&self, hasher: &mut dyn Hasher);
}

impl<P: Any + Eq + Hash> Equality for P {
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn add_to_hash(&self, mut hasher: &mut dyn Hasher) {
        TypeId::of::<P>().hash(&mut hasher);
        self.hash(&mut hasher);
    }
}

/// **Sharing**: a copy of a primitive that an equation keeps. Whatever can be cloned has it.
pub(crate) trait ToShared {
    /// The copy.
    fn to_shared(&self) -> Arc<dyn Primitive>;
}

impl<P: Primitive + Clone> ToShared for P {
    fn to_shared(&self) -> Arc<dyn Primitive> {
        Arc::new(self.clone())
    }
}

impl PartialEq for dyn Primitive {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other)
    }
}

impl Eq for dyn Primitive {}

impl Hash for dyn Primitive {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.add_to_hash(hasher);
    }
}

/// One operation with all its rules.
pub(crate) trait Primitive: Equality + ToShared + fmt::Debug + Send + Sync + Any {
    /// Its name in jaxprs and messages.
    fn name(&self) -> &'static str;

    /// **Shape**: element types and shapes of the results.
    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults;

    /// **Evaluation** on concrete arrays that the shape rule accepts.
    fn evaluate(&self, operands: Operands) -> Outputs<Array>;

    /// **JVP**: the results and their tangents. No tangent stands for zeros.
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents;

    /// **Transpose**: for each operand the function is linear in, its cotangent from those of the results.
    /// No cotangent stands for zeros. A primitive that is linear in nothing calls [`not_linear`].
    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents;

    /// **Batching**: the results for a batch of operands, each mapped over the axis given, and the axis
    /// over which each result is mapped. If the axis of the batch has a name, the primitive works over it: the
    /// results are for the batch axes that are left.
    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched;

    /// **Display**: the parameters as a jaxpr shows them, for instance `axes=[0]`.
    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// The reduction over axes it is, if it is one that the executor fuses.
    fn reduction(&self) -> Option<(Fold, &[usize])> {
        None
    }

    /// **Bodies**: the jaxprs it holds as parameters, by the names under which a jaxpr shows them; several of
    /// one name are shown as a list. [`write_parameters`](Self::write_parameters) leaves them out.
    fn bodies(&self) -> Vec<(&'static str, &Jaxpr)> {
        Vec::new()
    }

    /// **Signatures** of the [`bodies`](Self::bodies), in the same order: what each must take and give, for operands and
    /// results of these types. [`verify`](crate::verify) compares them with the bodies.
    ///
    /// # Errors
    /// What is expected of the operands and not so.
    fn signatures(
        &self,
        operands: &[&AbstractArray],
        results: &[AbstractArray],
    ) -> Result<Vec<Signature>, String> {
        let _ = (operands, results);
        Ok(Vec::new())
    }

    /// If it is a call: the jaxpr whose inputs are its operands, and what recorded it.
    fn callee(&self) -> Option<(Recorder, &Jaxpr)> {
        None
    }

    /// **Effect**: whether it does something besides computing results. Then it is neither left out, nor merged
    /// with its like, nor moved before another effect.
    fn has_effect(&self) -> bool {
        self.bodies().iter().any(|(_, body)| body.has_effect())
    }

    /// The element-by-element operation it is, if it is one: what the executor fuses.
    fn elementwise(&self) -> Option<Elementwise> {
        None
    }

    /// The names of the batch axes that it works over; none for most. It is refused where they are not bound.
    fn axis_names(&self) -> &[AxisName] {
        &[]
    }

    /// The length of the batch axis that it works over, where its parameters depend on it. It is refused where the axis has
    /// another.
    fn axis_length(&self) -> Option<usize> {
        None
    }
}

/// The axis of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BatchAxis {
    pub(crate) size: usize,
    /// Its name; for a batching rule only if the primitive works over the axis.
    pub(crate) name: Option<AxisName>,
}

impl BatchAxis {
    /// An axis that no operation works over.
    pub(crate) fn unnamed(size: usize) -> Self {
        Self { size, name: None }
    }
}

/// A primitive of one operand that is linear in it: the tangent goes through it as the value does.
///
/// What is written for each is what differs. The other rules follow, by the implementation of
/// [`Primitive`] below.
pub(crate) trait LinearPrimitive:
    fmt::Debug + Clone + Eq + Hash + Send + Sync + Any
{
    /// As [`Primitive::name`].
    fn name(&self) -> &'static str;

    /// **Shape**: element type and shape of the result.
    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError>;

    /// **Evaluation** on an array that the shape rule accepts.
    fn evaluate(&self, operand: Arc<Array>) -> Array;

    /// **Transpose**: the cotangent of the operand from that of the result.
    fn transpose(&self, cotangent: &Tensor, operand: &AbstractArray) -> Tensor;

    /// **Batching**: the results for operands that lie along `axis`, and the axis along which they lie.
    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize);

    /// As [`Primitive::write_parameters`].
    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// As [`Primitive::reduction`].
    fn reduction(&self) -> Option<(Fold, &[usize])> {
        None
    }

    /// As [`Primitive::axis_names`].
    fn axis_names(&self) -> &[AxisName] {
        &[]
    }

    /// As [`Primitive::axis_length`].
    fn axis_length(&self) -> Option<usize> {
        None
    }

    /// **Batching over one of its own axes**, as [`Primitive::batch`]: for what has [`axis_names`](Self::axis_names).
    fn batch_over(&self, _: &AxisName, operand: &Tensor, axis: Option<usize>, _: usize) -> Batched {
        bug(format_args!(
            "a rule over batch axes of `{}`, of {} at {axis:?}",
            LinearPrimitive::name(self),
            operand.info()
        ))
    }

    /// The primitive of a tensor; it may do without an equation where it changes nothing.
    #[track_caller]
    fn apply(&self, operand: &Tensor) -> Result<Tensor, TensorError> {
        crate::tensor::trace::bind_one(self, &[operand])
    }
}

impl<P: LinearPrimitive> Primitive for P {
    fn name(&self) -> &'static str {
        LinearPrimitive::name(self)
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        self.result(operands[0]).map(one)
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        one(LinearPrimitive::evaluate(self, operand))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let result = |operand: &Tensor| or_panic(self.apply(operand));
        (
            one(result(&primals[0])),
            one(tangents[0].as_ref().map(result)),
        )
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let pulled = |cotangent| LinearPrimitive::transpose(self, cotangent, &operands[0].info());
        smallvec::smallvec![cotangents[0].as_ref().map(pulled)]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        if let Some(name) = &batch.name {
            return self.batch_over(name, &operands[0], axes[0], batch.size);
        }
        let Some(axis) = axes[0] else {
            return (one(or_panic(self.apply(&operands[0]))), one(None));
        };
        let (result, axis) = LinearPrimitive::batch(self, &operands[0], axis);
        (one(result), one(Some(axis)))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        LinearPrimitive::write_parameters(self, f)
    }

    fn reduction(&self) -> Option<(Fold, &[usize])> {
        LinearPrimitive::reduction(self)
    }

    fn axis_names(&self) -> &[AxisName] {
        LinearPrimitive::axis_names(self)
    }

    fn axis_length(&self) -> Option<usize> {
        LinearPrimitive::axis_length(self)
    }
}

/// The results of a primitive with nothing beside them: no tangents, where they are constant nearly everywhere; no
/// batch axes, where nothing is batched.
#[track_caller]
pub(crate) fn alone<T>(
    primitive: &dyn Primitive,
    operands: &[Tensor],
) -> (Outputs<Tensor>, Outputs<Option<T>>) {
    let operands: SmallVec<[&Tensor; 4]> = operands.iter().collect();
    let results = or_panic(crate::tensor::trace::bind(primitive, &operands));
    let nothing = results.iter().map(|_| None).collect();
    (results, nothing)
}

/// What a transpose rule calls that can't be reached, since its primitive is linear in no operand.
#[track_caller]
pub(crate) fn not_linear(primitive: &dyn Primitive) -> ! {
    bug(format_args!(
        "no transpose of `{}`, which is not linear",
        primitive.name()
    ))
}

/// The single result of a primitive.
pub(crate) fn one<T>(value: T) -> Outputs<T> {
    smallvec::smallvec![value]
}

/// The operands as an array; their number is the primitive's.
pub(crate) fn take<const N: usize>(operands: Operands) -> [Arc<Array>; N] {
    let count = operands.len();
    let operands = <[Arc<Array>; N]>::try_from(operands.into_vec());
    operands.unwrap_or_else(|_| bug(format_args!("{N} operands of a primitive, found {count}")))
}
