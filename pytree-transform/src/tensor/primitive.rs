//! A primitive: one operation with all its rules.
//!
//! Every rule is a required method, so a primitive without one of its rules does not compile. Rules consist of tensor
//! operations, which can be traced. For this reason, transformations can be nested.

use std::any::{Any, TypeId};
use std::cmp::Reverse;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use pytree_base::bug::bug;
use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::fold::Fold;
use pytree_kernels::loops::elementwise::Elementwise;
use smallvec::SmallVec;

use crate::base::axis_names::AxisName;
use crate::base::error::TensorError;
use crate::tensor::handle::Tensor;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::Recorder;

/// The results of a primitive. Nearly all primitives have a single result.
pub(crate) type Outputs<T> = SmallVec<[T; 1]>;

/// The result of a shape rule: the dtypes and shapes of the primitive's results, or an error.
pub(crate) type AbstractResults = Result<Outputs<AbstractArray>, TensorError>;

/// The result of a JVP rule: the primitive's results, and a tangent for each of them. A tangent of `None` means zeros.
pub(crate) type WithTangents = (Outputs<Tensor>, Outputs<Option<Tensor>>);

/// The result of a transpose rule: a cotangent for each operand. A cotangent of `None` means zeros.
pub(crate) type Cotangents = SmallVec<[Option<Tensor>; 2]>;

/// The result of a batching rule: the primitive's results, and the batch axis of each result.
pub(crate) type Batched = (Outputs<Tensor>, Outputs<Option<usize>>);

/// The result of a lowering rule: the values of the primitive's results, or an error that names the user's source line.
pub(crate) type Lowered = Result<Outputs<Value>, TensorError>;

/// The result of a lowering rule of a primitive with a single result.
pub(crate) type LoweredOne = Result<Value, TensorError>;

/// The dtypes and shapes of operands or results.
pub(crate) type Infos<'a> = [&'a AbstractArray];

/// The results of an applied primitive, or the error of a shape rule.
pub(crate) type Applied = Result<Outputs<Tensor>, TensorError>;

/// The signatures of the bodies of a primitive, or a message about its operands.
pub(crate) type Signatures = Result<Vec<Signature>, String>;

/// A primitive with new inputs of its bodies, and the positions of operands before which the equation inserts their values.
pub(crate) type WithInputs = (Arc<dyn Primitive>, SmallVec<[usize; 2]>);

/// An operand of a transpose rule.
#[derive(Clone, Debug)]
pub(crate) enum Linear {
    /// An operand in which the primitive is linear. The transpose rule computes the cotangent of this operand.
    Unknown(AbstractArray),
    /// An operand with a known value.
    Known(Tensor),
}

impl Linear {
    /// Returns the value of a known operand.
    ///
    /// # Panics
    /// Panics if the operand is unknown, which means that the transpose rule has a bug.
    #[track_caller]
    pub(crate) fn known(&self) -> &Tensor {
        match self {
            Self::Known(tensor) => tensor,
            Self::Unknown(info) => bug(format_args!(
                "a known value for the operand {info} of a transpose rule"
            )),
        }
    }

    /// Returns the value of the operand, or `None` if it is unknown.
    pub(crate) fn value(&self) -> Option<&Tensor> {
        match self {
            Self::Known(tensor) => Some(tensor),
            Self::Unknown(_) => None,
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

/// The dtypes and shapes of the inputs and outputs that a body must have. A body is a jaxpr that a primitive holds.
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

/// Returns the operands at a range of positions. Returns an error message if there are too few operands.
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

/// The axes along which an evaluation may be divided into parts: a slice of the result depends only on the same slice of each of
/// these operands.
#[derive(Clone, Debug)]
pub(crate) struct Division {
    /// For each operand, the axis that is divided. `None` for an operand that each part reads as a whole.
    pub(crate) operands: SmallVec<[Option<usize>; 3]>,
    /// The axis of the single result.
    pub(crate) result: usize,
}

impl Division {
    /// Returns the division along one axis of the only operand and of the result, or `None` without an axis. Of several `axes`, the
    /// first of the longest ones is divided.
    pub(crate) fn along(
        operand: &AbstractArray,
        axes: impl IntoIterator<Item = usize>,
    ) -> Option<Self> {
        let longest = axes
            .into_iter()
            .min_by_key(|&axis| Reverse(operand.shape[axis]));
        longest.map(|axis| Self {
            operands: smallvec::smallvec![Some(axis)],
            result: axis,
        })
    }
}

/// **Equality**: two primitives are equal if and only if they compute the same results from the same operands. The
/// executor computes only one of several equal equations. Every primitive that derives `Eq` and `Hash` implements this
/// trait.
pub(crate) trait Equality {
    /// Returns whether `other` is a primitive of the same type with the same parameters.
    fn equals(&self, other: &dyn Any) -> bool;

    /// Adds the type and the parameters of the primitive to a hash.
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

/// **Copy**: every primitive can be copied into a jaxpr.
pub(crate) trait ToShared {
    /// Returns a copy of the primitive.
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

/// A primitive: one operation with all its rules.
pub(crate) trait Primitive: Equality + ToShared + fmt::Debug + Send + Sync + Any {
    /// Returns the name of the primitive in jaxprs and messages.
    fn name(&self) -> &'static str;

    /// **Shape**: returns the dtypes and shapes of the results.
    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults;

    /// **Evaluation**: computes the results on arrays that the shape rule accepts. The arrays have wide dtypes unless
    /// the primitive [`accepts_narrow`](Self::accepts_narrow). Call [`evaluate`](crate::tensor::evaluation::evaluate)
    /// instead of this rule.
    fn evaluate(&self, operands: Operands) -> Outputs<Array>;

    /// Computes the results as [`evaluate`](Self::evaluate) does, or returns the error of a computation that failed.
    fn try_evaluate(&self, operands: Operands) -> Result<Outputs<Array>, TensorError> {
        Ok(self.evaluate(operands))
    }

    /// **JVP**: returns the results and their tangents. A tangent of `None` means zeros.
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents;

    /// **Transpose**: returns the cotangents of the operands in which the primitive is linear. `cotangents` holds the
    /// cotangents of the results. A cotangent of `None` means zeros. A primitive that is linear in no operand keeps
    /// this default, which reports a bug.
    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let _ = (cotangents, operands);
        not_linear(self.name())
    }

    /// **Transpose with sums**: returns the sums of the cotangents of the operands so far and of those that
    /// [`transpose`](Self::transpose) returns, or `None` if the caller adds them. A rule may take the cotangents of the results and the
    /// sums, and overwrite them. It adds each contribution to a cotangent in the order in which the operations of the function do, if they
    /// are transposed one by one.
    fn transpose_onto(
        &self,
        _cotangents: &mut [Option<Tensor>],
        _operands: &[Linear],
        _sums: &mut [Option<Tensor>],
    ) -> Option<Cotangents> {
        None
    }

    /// **Batching**: returns the results for a batch of operands, and the batch axis of each result. `axes` holds the
    /// batch axis of each operand, or `None` if the operand is not batched. `batch` has a name only if the primitive is
    /// a collective over this batch axis. In this case, the rule combines the examples.
    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched;

    /// **Lowering**: writes operations of StableHLO that compute the results, and returns the values of the results.
    /// `results` holds the dtypes and shapes of the results. If StableHLO cannot express the primitive, returns the
    /// error of [`Block::refused`].
    fn lower(&self, block: &mut Block<'_>, operands: &[Value], results: &Infos<'_>) -> Lowered;

    /// **Display**: writes the parameters in the notation of displayed jaxprs, for instance `axes=(0,)`, if there are any.
    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = f;
        Ok(())
    }

    /// **Width**: returns whether `evaluate` accepts operands of narrow dtypes. A primitive accepts narrow dtypes if
    /// the primitive only moves elements, combines the examples of a batch or runs its bodies. For all other primitives,
    /// [`evaluate`](crate::tensor::evaluation::evaluate) widens the operands and narrows the results.
    fn accepts_narrow(&self) -> bool {
        !self.bodies().is_empty() || !self.axis_names().is_empty()
    }

    /// Returns whether `evaluate` accepts operands of one half-precision dtype. Other operands are not narrow.
    fn accepts_halves(&self) -> bool {
        false
    }

    /// Returns whether `evaluate` accepts operands of narrow dtypes because it widens them part by part, and narrows its results.
    fn widens_parts(&self) -> bool {
        self.elementwise().is_some()
    }

    /// **Division**: returns axes along which an evaluation may be divided. If `evaluate` does not accept narrow dtypes, narrow operands
    /// are then widened part by part, and otherwise as a whole.
    fn division(&self, operands: &[&AbstractArray]) -> Option<Division> {
        let _ = operands;
        None
    }

    /// **Products**: returns whether the operation that [`lower`](Self::lower) writes multiplies operands of bf16 or f16
    /// and adds their products in f32. The operation then reads such operands without a conversion. Many devices have
    /// instructions for it.
    fn multiplies_narrow_floats(&self) -> bool {
        false
    }

    /// Returns the reduction and its axes. Returns `None` if the executor cannot fuse the primitive as a reduction.
    fn reduction(&self) -> Option<(Fold, &[usize])> {
        None
    }

    /// **Bodies**: returns the parameters that are jaxprs, each with its name in displayed equations. Jaxprs that have
    /// the same name are displayed as a list. [`write_parameters`](Self::write_parameters) omits these parameters, and
    /// writes all other parameters on which the results depend.
    fn bodies(&self) -> Vec<(&'static str, &Jaxpr)> {
        Vec::new()
    }

    /// **Signatures**: returns the dtypes and shapes that the inputs and outputs of each of the
    /// [`bodies`](Self::bodies) must have. These dtypes and shapes depend on the operands and results of the equation.
    /// [`verify`](crate::verify) compares the signatures with the bodies.
    ///
    /// # Errors
    /// Returns an error message if the operands differ from the expected number, dtypes or shapes.
    fn signatures(&self, operands: &Infos<'_>, results: &[AbstractArray]) -> Signatures {
        let _ = (operands, results);
        Ok(Vec::new())
    }

    /// **Inputs of bodies**: returns the primitive with other [`bodies`](Self::bodies), in the same order. Each new
    /// body has `count` more inputs than the present body. These inputs are the first inputs. Also returns positions of
    /// operands, in ascending order. Before the operand at each position, the equation must insert the values of the
    /// new inputs.
    ///
    /// # Panics
    /// Panics if the primitive has no bodies.
    fn with_inputs(&self, bodies: Vec<Jaxpr>, count: usize) -> WithInputs {
        let _ = (bodies, count);
        bug(format_args!("a rule of `{}` for its bodies", self.name()))
    }

    /// Returns the called jaxpr and its recorder if the primitive is a call. The recorder is the function of the
    /// library that recorded the jaxpr, for instance `jit`. The inputs of the jaxpr are the operands. Returns `None` if
    /// the primitive is not a call.
    fn callee(&self) -> Option<(Recorder, &Jaxpr)> {
        None
    }

    /// **Effect**: returns whether the primitive has a side effect, for instance printing. An equation with a side
    /// effect is never removed, never merged with an equal equation, and never moved before another equation with a
    /// side effect.
    fn has_effect(&self) -> bool {
        self.bodies().iter().any(|(_, body)| body.has_effect())
    }

    /// **Effect**: returns whether results of the primitive may depend on the results of an effect. Unlike a value, they cannot be
    /// computed again.
    fn has_result_of_effect(&self) -> bool {
        let bodies = self.bodies();
        let mut equations = bodies.iter().flat_map(|(_, body)| &body.equations);
        equations.any(|equation| equation.primitive.has_result_of_effect())
    }

    /// **Condition**: returns whether the primitive, or a function that a transformation derives from it, may call a function of
    /// the user on the host. Such a call must not be made for an example that does not reach it.
    fn may_call_host(&self) -> bool {
        self.has_effect()
    }

    /// **Condition**: applies the primitive so that it calls the host only if `condition`, a bool, is true. Otherwise, the results
    /// of the call are zeros. If `condition` is `None`, the primitive never calls the host: the call has been made, and its results
    /// are not needed again. See [`under`](crate::tensor::trace::under).
    ///
    /// # Errors
    /// As [`bind`](crate::tensor::trace::bind).
    fn bind_under(&self, condition: Option<&Tensor>, operands: &[&Tensor]) -> Applied {
        let _ = (condition, operands);
        bug(format_args!("a rule of `{}` for a condition", self.name()))
    }

    /// **Failure**: returns whether the evaluation may panic although it has enough memory, because it runs code of the user, or
    /// because its operands may have values that it rejects.
    fn can_fail(&self) -> bool {
        self.has_effect() || self.bodies().iter().any(|(_, body)| body.can_fail())
    }

    /// **Memory**: returns how many bytes the bodies need at most at a time.
    fn scratch(&self) -> usize {
        0
    }

    /// **Memory**: returns the operand in whose memory the result is written, for any dtype, if nothing else holds this operand.
    fn overwritten(&self) -> Option<usize> {
        None
    }

    /// Returns the elementwise operation. Returns `None` if the executor cannot fuse the primitive as an elementwise
    /// operation.
    fn elementwise(&self) -> Option<Elementwise> {
        None
    }

    /// Returns whether the primitive says how its result is divided among the devices of a mesh. A device that is not a
    /// mesh ignores the primitive.
    fn is_sharding_constraint(&self) -> bool {
        false
    }

    /// Returns the names of the batch axes over which the primitive works. Most primitives have none. `bind` returns an
    /// error if a name is not bound.
    fn axis_names(&self) -> &[AxisName] {
        &[]
    }

    /// Returns the length of the batch axis over which the primitive works. Returns `None` if the parameters of the
    /// primitive do not depend on this length. `bind` returns an error if the axis has another length.
    fn axis_length(&self) -> Option<usize> {
        None
    }
}

/// A batch axis: the number of its examples, and its name if it has one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BatchAxis {
    pub(crate) size: usize,
    /// The name of the batch axis. A batching rule receives the name only if the primitive works over this axis.
    pub(crate) name: Option<AxisName>,
    /// Whether each example is a device of a mesh, which runs the function alone. Control flow is then checked: all devices
    /// must take part in a collective.
    pub(crate) is_mesh: bool,
}

impl BatchAxis {
    /// Creates a batch axis without a name. No collective can work over this axis.
    pub(crate) fn unnamed(size: usize) -> Self {
        Self {
            size,
            name: None,
            is_mesh: false,
        }
    }
}

/// Reports a bug: a transpose rule was called for a primitive that is linear in no operand.
#[track_caller]
pub(crate) fn not_linear(primitive: &str) -> ! {
    bug(format_args!(
        "no transpose of `{primitive}`, which is not linear"
    ))
}

/// Returns the single result of a primitive as a list of results.
pub(crate) fn one<T>(value: T) -> Outputs<T> {
    smallvec::smallvec![value]
}

/// Returns the operands as an array, for a primitive with a fixed number of operands.
pub(crate) fn take<const N: usize>(operands: Operands) -> [Arc<Array>; N] {
    let count = operands.len();
    let operands = <[Arc<Array>; N]>::try_from(operands.into_vec());
    operands.unwrap_or_else(|_| bug(format_args!("{N} operands of a primitive, found {count}")))
}
