//! The errors of tensor operations.

use std::cell::Cell;
use std::fmt;

use pytree_base::suggest::Effort;
use pytree_kernels::base::array::too_large;
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::memory;
use thiserror::Error;

use crate::base::device_error::DeviceError;

/// An error of a tensor operation. The operation has no result.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The operands have incompatible shapes.
    #[error("cannot {operation} {}: {problem}; {fix}", operands(.found))]
    Shape {
        /// The operation as a verb phrase for messages, for instance `add`.
        operation: &'static str,
        /// The dtypes and shapes of the operands.
        found: Vec<AbstractArray>,
        /// The reason why the operands do not fit.
        problem: String,
        /// How to fix the call.
        fix: String,
    },
    /// The operands have unsupported or different dtypes.
    #[error("cannot {operation} {}: expected {expected}{}", operands(.found), conversion(.found, .expected))]
    DType {
        /// The operation as a verb phrase for messages, for instance `add`.
        operation: &'static str,
        /// The dtypes and shapes of the operands.
        found: Vec<AbstractArray>,
        /// The dtypes that the operation takes.
        expected: &'static str,
    },
    /// An axis is out of range.
    #[error("cannot {operation} {found}: axis {axis} is out of range; {}", valid_axes(.found.rank()))]
    Axis {
        /// The operation as a verb phrase for messages, for instance `sort`.
        operation: &'static str,
        /// The dtype and shape of the tensor.
        found: AbstractArray,
        /// The axis that was passed.
        axis: i128,
    },
    /// The number of elements does not fit the shape.
    #[error("cannot make a tensor of shape {shape:?}: expected {} elements, found {found}", expected_elements(.shape))]
    Length {
        /// The shape that was passed.
        shape: Vec<usize>,
        /// The number of elements that were passed.
        found: usize,
    },
    /// Nested lists at the same depth differ in length.
    #[error(
        "cannot make a tensor of nested lists: the list at {} has length {found}, but the first list at the same depth has length {expected}; give all lists at one depth the same length",
        place_of(.place)
    )]
    Ragged {
        /// The path of the list: one position for each depth.
        place: Vec<usize>,
        /// The length of the first list at the same depth.
        expected: usize,
        /// The length of the list at this path.
        found: usize,
    },
    /// A number that is combined with a tensor does not fit the dtype of the tensor.
    #[error(
        "cannot combine the number {number} with {found}: {} cannot represent this number; {}convert the tensor first, for instance with `.convert(DType::F32)`",
        .found.dtype,
        as_integer(.number, .found.dtype)
    )]
    Number {
        /// The number as text.
        number: String,
        /// The dtype and shape of the tensor.
        found: AbstractArray,
    },
    /// Memory for the result is not available. The result is too large to be addressed, or the system does not grant
    /// the memory.
    #[error("{}", too_large(.operation, .found))]
    TooLarge {
        /// The operation, as in the message.
        operation: &'static str,
        /// The dtype and shape of the result.
        found: AbstractArray,
    },
    /// Elements were read as a type other than the dtype of the tensor.
    #[error("cannot read {found} as {expected}; read the tensor as `{}`, or convert it first", .found.dtype)]
    Read {
        /// The dtype of the elements that the caller requested.
        expected: DType,
        /// The dtype and shape of the tensor.
        found: AbstractArray,
    },
    /// The value of a traced tensor was read, but the value is not known yet.
    #[error(
        "cannot read the value of a traced {found}: inside {transformation}, a tensor represents {stands_for}; {fix}"
    )]
    Traced {
        /// The dtype and shape of the tensor.
        found: AbstractArray,
        /// The transformation that traces the tensor.
        transformation: &'static str,
        /// The values that the tensor represents inside this transformation.
        stands_for: &'static str,
        /// Ways to avoid reading the value.
        fix: &'static str,
    },
    /// The name of a batch axis is not bound.
    #[error("cannot {operation} over the {}", unbound(.name, .bound, .mesh))]
    UnboundAxis {
        /// The operation as a verb phrase for messages.
        operation: &'static str,
        /// The name of a batch axis that was passed.
        name: String,
        /// The names of batch axes that enclosing `vmap`s bind, innermost first.
        bound: Vec<String>,
        /// The names of the axes of the mesh, inside of [`spmd`](crate::spmd).
        mesh: Vec<String>,
    },
    /// A batch axis is named twice.
    #[error("cannot {operation} over the batch axis `{name}` twice; name each axis once")]
    DuplicateAxis {
        /// The operation as a verb phrase for messages.
        operation: &'static str,
        /// The name that was passed twice.
        name: String,
    },
    /// An operation returned NaN or an infinity while results were checked; see [`debug_nans`](crate::debug_nans).
    #[error("`{operation}` at {line} returned {what}: {equation}; {operands}")]
    NotFinite {
        /// The name of the primitive.
        operation: &'static str,
        /// The line of the user's program that called the operation.
        line: &'static std::panic::Location<'static>,
        /// The kind of invalid value in the result (NaN or infinity), and the number of elements with this value.
        what: Box<str>,
        /// The equation of the operation, as text.
        equation: Box<str>,
        /// A summary of the elements of each operand.
        operands: Box<str>,
    },
    /// An iteration ended before its result was exact.
    #[error("cannot {operation} {}: the iteration did not converge; {fix}", operands(.found))]
    NotConverged {
        /// The operation as a verb phrase for messages, for instance `take the singular values of`.
        operation: &'static str,
        /// The dtypes and shapes of the operands.
        found: Vec<AbstractArray>,
        /// How to change the operands.
        fix: &'static str,
    },
    /// An equation has no form in StableHLO.
    #[error("cannot lower `{operation}` of {} at {line} to StableHLO: {problem}; {fix}", operands(.found))]
    Lowering {
        /// The name of the primitive.
        operation: &'static str,
        /// The line of the user's program that called the operation.
        line: &'static std::panic::Location<'static>,
        /// The dtypes and shapes of the operands.
        found: Vec<AbstractArray>,
        /// The reason why the operation has no form in StableHLO.
        problem: Box<str>,
        /// How to change the program.
        fix: Box<str>,
    },
    /// A traced tensor was used after its transformation finished, or on another thread.
    #[error(
        "cannot {operation} a traced {found}: the {transformation} that made it has finished, or runs on another thread; return the tensor from the function instead of storing it"
    )]
    Escaped {
        /// The operation as a verb phrase for messages.
        operation: &'static str,
        /// The dtype and shape of the tensor.
        found: AbstractArray,
        /// The transformation that created the tensor.
        transformation: &'static str,
    },
    /// A device reported an error. A device may compute later than the program calls it, so an error may appear where
    /// the result is read.
    #[error("cannot {operation} on {device}: {source}")]
    Device {
        /// The failed action as a verb phrase for messages, for instance `` run `sin` ``.
        operation: Box<str>,
        /// The name of the device.
        device: Box<str>,
        /// The error that the device reported.
        source: DeviceError,
    },
    /// The axes of a mesh of devices are invalid.
    #[error("cannot make the mesh ({axes}): {problem}; {fix}")]
    Mesh {
        /// The names and lengths of the axes, as text.
        axes: Box<str>,
        /// The reason why these are not the axes of a mesh.
        problem: Box<str>,
        /// How to fix the axes.
        fix: &'static str,
    },
    /// Tensors cannot be divided among the devices of a mesh as a spec or a rule says.
    #[error("cannot {operation}: {problem}; {fix}")]
    Sharding {
        /// The operation as a verb phrase for messages, for instance `shard the value`.
        operation: Box<str>,
        /// All problems as text, each with the tensor, its shape, and the names and lengths of the axes.
        problem: Box<str>,
        /// How to fix the problems.
        fix: Box<str>,
    },
    /// The operands are not on one device.
    #[error(
        "cannot {operation} {}: all tensors must be on one device; move them, for instance with `device_put(&x, &device)`",
        .found.join(" and ")
    )]
    Devices {
        /// The operation as a verb phrase for messages, for instance `add`.
        operation: Box<str>,
        /// The tensors on different devices as text, for instance `f32[3] on cuda:0`.
        found: Vec<String>,
    },
}

impl TensorError {
    /// Creates the error for operands with incompatible shapes, for the shape rules of primitives. `operation` is a verb phrase;
    /// [`called`](crate::extend::called) replaces it by the function that the user called.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{AbstractArray, DType, TensorError};
    /// let x = AbstractArray::new(DType::F32, [3]);
    /// let error = TensorError::shape("transpose", &[&x], "it has one axis", "pass a matrix");
    /// assert_eq!(error.to_string(), "cannot transpose f32[3]: it has one axis; pass a matrix");
    /// ```
    pub fn shape(
        operation: &'static str,
        operands: &[&AbstractArray],
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let mut fix = fix.into();
        // Add the user's names of axes, which the operation does not know.
        if let Some(running) = pytree_core::axes::describe_running() {
            fix = format!("{fix}; {running}");
        }
        Self::Shape {
            operation: name_of(operation),
            found: cloned(operands),
            problem: problem.into(),
            fix,
        }
    }

    /// Creates the error for operands with unsupported or different dtypes; see [`shape`](Self::shape). `expected` describes the
    /// dtypes that the operation takes.
    pub fn dtype(
        operation: &'static str,
        operands: &[&AbstractArray],
        expected: &'static str,
    ) -> Self {
        Self::DType {
            operation: name_of(operation),
            found: cloned(operands),
            expected,
        }
    }

    /// Creates the error for an iteration that has not converged, for the evaluation rules of primitives; see
    /// [`try_evaluate`](crate::extend::Primitive::try_evaluate).
    pub fn not_converged(
        operation: &'static str,
        operands: &[&AbstractArray],
        fix: &'static str,
    ) -> Self {
        Self::NotConverged {
            operation: name_of(operation),
            found: cloned(operands),
            fix,
        }
    }

    /// Creates the error for an axis that is out of range.
    pub(crate) fn axis(
        operation: &'static str,
        operand: &AbstractArray,
        axis: impl TryInto<i128>,
    ) -> Self {
        Self::Axis {
            operation: name_of(operation),
            found: operand.clone(),
            axis: axis.try_into().unwrap_or(i128::MAX),
        }
    }

    /// Creates the error for an operation that failed on a device.
    pub(crate) fn of_device(
        operation: impl Into<Box<str>>,
        device: &impl fmt::Display,
        source: DeviceError,
    ) -> Self {
        Self::Device {
            operation: operation.into(),
            device: device.to_string().into(),
            source,
        }
    }

    /// Creates the error for operands that are not on one device. The operands are given as text.
    pub(crate) fn devices(operation: impl Into<Box<str>>, found: impl Into<Vec<String>>) -> Self {
        Self::Devices {
            operation: operation.into(),
            found: found.into(),
        }
    }

    /// Creates the error for tensors that cannot be divided among devices. The error lists all mistakes.
    pub(crate) fn sharding(operation: impl Into<Box<str>>, mistakes: Vec<Mistake>) -> Self {
        let all = Mistake::joined(mistakes);
        Self::Sharding {
            operation: operation.into(),
            problem: all.problem.into(),
            fix: all.fix.into(),
        }
    }

    /// Creates the error for a result that does not fit into memory.
    pub(crate) fn too_large(operation: &'static str, found: &AbstractArray) -> Self {
        Self::TooLarge {
            operation: name_of(operation),
            found: found.clone(),
        }
    }

    /// Panics with this error. Where a caller returns an error if the system refuses memory, unwinds to this caller.
    #[doc(hidden)]
    #[cold]
    #[track_caller]
    pub fn raise(self) -> ! {
        if let Self::TooLarge { found, .. } = &self {
            memory::refuse(found.clone());
        }
        panic!("{self}")
    }
}

/// Runs a function that makes arrays. Returns an error if the system refuses the memory of one of them.
pub(crate) fn or_too_large<R>(
    operation: impl FnOnce() -> &'static str,
    function: impl FnOnce() -> Result<R, TensorError>,
) -> Result<R, TensorError> {
    let too_large = |found: Box<AbstractArray>| TensorError::too_large(operation(), &found);
    memory::catch_refused(function).unwrap_or_else(|found| Err(too_large(found)))
}

thread_local! {
    static CALLED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// A guard that makes errors name the function that the user called, and not an operation inside this function; see [`called`].
#[derive(Debug)]
#[must_use]
pub struct Called(Option<&'static str>);

impl Drop for Called {
    fn drop(&mut self) {
        CALLED.set(self.0);
    }
}

/// Makes errors name `function` until the guard is dropped. If errors already name a caller of `function`, keeps that
/// name. `function` is a verb phrase.
///
/// # Examples
/// ```
/// use pytree_transform::extend::called;
/// use pytree_transform::{Tensor, TensorError};
///
/// fn try_gram(x: &Tensor) -> Result<Tensor, TensorError> {
///     let _called = called("apply `gram` to");
///     x.try_matmul(&x.try_swap_axes(0, 1)?)
/// }
///
/// let error = try_gram(&Tensor::from([1.0, 2.0])).unwrap_err().to_string();
/// assert!(error.starts_with("cannot apply `gram` to f64[2]: "), "{error}");
/// ```
pub fn called(function: &'static str) -> Called {
    let outer = CALLED.get();
    CALLED.set(outer.or(Some(function)));
    Called(outer)
}

/// Makes errors name the operation itself until the guard is dropped. The guard exists while a function of the user
/// runs.
pub(crate) fn called_by_user() -> Called {
    Called(CALLED.replace(None))
}

/// Returns the name that errors use for an operation.
pub(crate) fn name_of(operation: &'static str) -> &'static str {
    CALLED.get().unwrap_or(operation)
}

fn cloned(operands: &[&AbstractArray]) -> Vec<AbstractArray> {
    operands.iter().map(|&operand| operand.clone()).collect()
}

/// A problem and its fix. A check that reports all problems together collects a list of mistakes.
#[derive(Debug)]
pub(crate) struct Mistake {
    pub(crate) problem: String,
    pub(crate) fix: String,
}

impl Mistake {
    pub(crate) fn new(problem: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
            fix: fix.into(),
        }
    }

    /// Joins all mistakes into one mistake. The joined mistake lists all problems, and then all fixes in the same
    /// order. Equal fixes are listed once.
    pub(crate) fn joined(mistakes: Vec<Self>) -> Self {
        let (mut problems, mut fixes) = (Vec::new(), Vec::new());
        for Self { problem, fix } in mistakes {
            problems.push(problem);
            if !fixes.contains(&fix) {
                fixes.push(fix);
            }
        }
        Self::new(problems.join("; "), fixes.join("; "))
    }

    pub(crate) fn error(self, operation: &'static str, operands: &[&AbstractArray]) -> TensorError {
        TensorError::shape(operation, operands, self.problem, self.fix)
    }
}

/// Returns the text about an axis `name` that is not bound: the bound names, and what to do.
fn unbound(name: &str, bound: &[String], mesh: &[String]) -> String {
    let quoted = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    let of_vmaps = format!("the enclosing `vmap`s have the names {}", quoted(bound));
    if mesh.is_empty() {
        let bound = match bound {
            [] => "no enclosing `vmap` names a batch axis",
            _ => &of_vmaps,
        };
        return format!(
            "batch axis `{name}`: {bound}; set this name with `.axis_name(\"{name}\")` on an enclosing `vmap`"
        );
    }
    let vmaps = match bound {
        [] => String::new(),
        _ => format!(", and {of_vmaps}"),
    };
    let known = mesh.iter().chain(bound).map(|known| (known, known));
    let nearest = match Effort::default().nearest(name, known) {
        Some((nearest, edits)) if edits * 2 <= name.chars().count() => {
            format!(" (did you mean `{nearest}`?)")
        }
        _ => String::new(),
    };
    format!(
        "axis `{name}`: the mesh has the axes {}{vmaps}; name one of these axes{nearest}",
        quoted(mesh)
    )
}

/// Returns the number of elements of a shape as text, even if the number does not fit an integer.
fn expected_elements(shape: &[usize]) -> String {
    let count = shape.iter().try_fold(1_u128, |product, &length| {
        product.checked_mul(length as u128)
    });
    count.map_or_else(|| "more than 2^128".to_owned(), |count| count.to_string())
}

/// Returns the advice to write a whole float as an integer. Returns an empty text if the dtype cannot hold the number.
fn as_integer(number: &str, dtype: DType) -> String {
    match number.strip_suffix(".0") {
        Some(integer) if dtype != DType::Bool => format!("write `{integer}`, or "),
        _ => String::new(),
    }
}

/// Returns the path of a nested list as text, for instance `[1][0]`.
fn place_of(place: &[usize]) -> String {
    let positions: Vec<String> = place.iter().map(usize::to_string).collect();
    format!("[{}]", positions.join("]["))
}

pytree_base::debug_as_display!(TensorError);

/// Returns advice on how to convert operands of wrong dtypes. Returns an empty text if the expected dtypes already
/// contain advice.
fn conversion(found: &[AbstractArray], expected: &str) -> String {
    let has = |dtype: DType| found.iter().any(|operand| operand.dtype == dtype);
    let floats = found.iter().map(|operand| operand.dtype);
    let float = floats
        .filter(|dtype| dtype.is_float())
        .max_by_key(|dtype| (dtype.bytes(), dtype.element().exponent_bits()));
    let (what, dtype) = match float {
        _ if expected.contains(';') => return String::new(),
        _ if expected.contains("integers") => ("the indices or numbers", DType::I32),
        Some(float) => ("the other tensor", float),
        None if expected == "a float dtype" => ("the tensors", DType::F32),
        None if has(DType::Bool) && expected.contains("number") => ("the tensors", DType::I32),
        None if found.len() > 1 && has(DType::I64) => ("the other tensor", DType::I64),
        None if found.len() > 1 => ("the other tensor", DType::I32),
        None => ("the tensor", DType::F32),
    };
    let what = if found.len() == 1 { "the tensor" } else { what };
    format!("; convert {what}, for instance with `.convert(DType::{dtype:?})`")
}

/// Returns text for an error about an axis: the valid axes of a tensor with `rank` axes.
pub(crate) fn valid_axes(rank: usize) -> String {
    match rank {
        0 => "the tensor has no axes".to_owned(),
        1 => "use axis 0 or -1".to_owned(),
        _ => format!("use an axis from -{rank} to {}", rank - 1),
    }
}

fn operands(found: &[AbstractArray]) -> String {
    if found.is_empty() {
        return "nothing".to_owned();
    }
    let mut text = String::new();
    for (position, operand) in found.iter().enumerate() {
        if position > 0 {
            text.push_str(if position + 1 == found.len() {
                " and "
            } else {
                ", "
            });
        }
        text.push_str(&operand.to_string());
    }
    text
}

/// Returns the value of `outcome`. If `outcome` is an error, panics with this error at the caller's line.
#[track_caller]
pub(crate) fn or_panic<T>(outcome: Result<T, TensorError>) -> T {
    match outcome {
        Ok(value) => value,
        Err(error) => error.raise(),
    }
}
