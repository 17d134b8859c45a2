//! What can go wrong with tensors.

use std::cell::Cell;
use std::fmt;

use thiserror::Error;

use crate::base::dtype::{AbstractArray, DType};

/// An operation on tensors can't be done; nothing was computed.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The shapes do not go together.
    #[error("cannot {operation} {}: {problem}; {mend}", operands(.found))]
    Shape {
        /// What was being done, for instance `matmul`.
        operation: &'static str,
        /// What it was given.
        found: Vec<AbstractArray>,
        /// What does not fit.
        problem: String,
        /// How to mend it.
        mend: String,
    },
    /// The element types do not go together.
    #[error("cannot {operation} {}: expected {expected}{}", operands(.found), conversion(.found, .expected))]
    DType {
        /// What was being done.
        operation: &'static str,
        /// What it was given.
        found: Vec<AbstractArray>,
        /// The element types it takes.
        expected: &'static str,
    },
    /// An axis that the tensor does not have.
    #[error("cannot {operation} {found}: axis {axis} is not there; its axes are {} to {}", -(.found.rank() as i128), .found.rank() as i128 - 1)]
    Axis {
        /// What was being done.
        operation: &'static str,
        /// The tensor.
        found: AbstractArray,
        /// The axis asked for.
        axis: i128,
    },
    /// A number of elements that does not fit a shape.
    #[error("cannot make a tensor of shape {shape:?}: expected {} elements, found {found}", expected_elements(.shape))]
    Length {
        /// The shape asked for.
        shape: Vec<usize>,
        /// The number of elements given.
        found: usize,
    },
    /// A number beside a tensor whose elements can't be it.
    #[error(
        "cannot put the number {number} beside {found}: {} holds no such number; convert the tensor first, for instance with `.convert(DType::F32)`",
        .found.dtype
    )]
    Number {
        /// The number, as written.
        number: String,
        /// The tensor.
        found: AbstractArray,
    },
    /// A result for which there is no memory: nothing can address it, or the system does not grant it.
    #[error(
        "cannot make {found} by `{operation}`: no memory of {} is available; check the lengths of its axes",
        .found.requested_bytes()
    )]
    TooLarge {
        /// What was being done.
        operation: &'static str,
        /// The result.
        found: AbstractArray,
    },
    /// Elements were asked for as another type than they have.
    #[error("cannot read {found} as {expected}; ask for `{}`, or convert the tensor first", .found.dtype)]
    Read {
        /// The type asked for.
        expected: DType,
        /// What the tensor is.
        found: AbstractArray,
    },
    /// The value of a tensor was asked for where it has none yet.
    #[error(
        "cannot read the value of a traced {found}: inside {transformation} a tensor stands for {stands_for}; {mend}"
    )]
    Traced {
        /// The tensor.
        found: AbstractArray,
        /// The transformation that traces.
        transformation: &'static str,
        /// What it stands for there.
        stands_for: &'static str,
        /// The ways out.
        mend: &'static str,
    },
    /// A name that no batch axis has.
    #[error(
        "cannot {operation} over the batch axis `{name}`: {}; name it by `.axis_name(\"{name}\")` of a `vmap` around",
        bound_names(.bound)
    )]
    UnboundAxis {
        /// What was being done.
        operation: &'static str,
        /// The name asked for.
        name: String,
        /// The names that are bound there, innermost first.
        bound: Vec<String>,
    },
    /// A batch axis named twice.
    #[error("cannot {operation} over the batch axis `{name}` twice; give each name once")]
    DuplicateAxis {
        /// What was being done.
        operation: &'static str,
        /// The name.
        name: String,
    },
    /// An operation gave NaN or an infinity while that is asked about: see [`debug_nans`](crate::debug_nans).
    #[error("`{operation}` at {line} gave {what}: {equation}; {operands}")]
    NotFinite {
        /// What was being done.
        operation: &'static str,
        /// The user's line.
        line: &'static std::panic::Location<'static>,
        /// What is in the result, and how often.
        what: Box<str>,
        /// The equation.
        equation: Box<str>,
        /// What the operands hold.
        operands: Box<str>,
    },
    /// A traced tensor outlived its transformation, or left its thread.
    #[error(
        "cannot {operation} a traced {found}: the {transformation} that made it is over, or runs on another thread; return the tensor from the function instead of storing it"
    )]
    Escaped {
        /// What was being done.
        operation: &'static str,
        /// The tensor.
        found: AbstractArray,
        /// The transformation that made it.
        transformation: &'static str,
    },
}

impl TensorError {
    /// Operands whose shapes do not go together.
    pub(crate) fn shape(
        operation: &'static str,
        operands: &[&AbstractArray],
        problem: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self::Shape {
            operation: name_of(operation),
            found: cloned(operands),
            problem: problem.into(),
            mend: mend.into(),
        }
    }

    /// Operands whose element types do not go together.
    pub(crate) fn dtype(
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

    /// An axis that an operand does not have.
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

    /// A result for which there is no memory.
    pub(crate) fn too_large(operation: &'static str, found: &AbstractArray) -> Self {
        Self::TooLarge {
            operation: name_of(operation),
            found: found.clone(),
        }
    }
}

thread_local! {
    static CALLED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// While it lives, errors name the function that the user called and not those that it is made of.
#[derive(Debug)]
#[doc(hidden)]
#[must_use]
pub struct Called(Option<&'static str>);

impl Drop for Called {
    fn drop(&mut self) {
        CALLED.set(self.0);
    }
}

/// Errors name `function` from now on, unless they already name one that calls it.
#[doc(hidden)]
pub fn called(function: &'static str) -> Called {
    let outer = CALLED.get();
    CALLED.set(outer.or(Some(function)));
    Called(outer)
}

/// Errors name no function from now on: a user's function runs.
pub(crate) fn called_by_user() -> Called {
    Called(CALLED.replace(None))
}

/// The name that an error has for an operation.
fn name_of(operation: &'static str) -> &'static str {
    CALLED.get().unwrap_or(operation)
}

fn cloned(operands: &[&AbstractArray]) -> Vec<AbstractArray> {
    operands.iter().map(|&operand| operand.clone()).collect()
}

/// One thing that does not fit, and the remedy for it: what a check that names all of them collects.
#[derive(Debug)]
pub(crate) struct Mistake {
    pub(crate) problem: String,
    pub(crate) mend: String,
}

impl Mistake {
    pub(crate) fn new(problem: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
            mend: mend.into(),
        }
    }

    /// All of them as one: what does not fit, then the remedies in the same order, each once.
    pub(crate) fn joined(mistakes: Vec<Self>) -> Self {
        let (mut problems, mut mends) = (Vec::new(), Vec::new());
        for Self { problem, mend } in mistakes {
            problems.push(problem);
            if !mends.contains(&mend) {
                mends.push(mend);
            }
        }
        Self::new(problems.join("; "), mends.join("; "))
    }

    pub(crate) fn error(self, operation: &'static str, operands: &[&AbstractArray]) -> TensorError {
        TensorError::shape(operation, operands, self.problem, self.mend)
    }
}

/// Which batch axes there are.
fn bound_names(bound: &[String]) -> String {
    if bound.is_empty() {
        return "no `vmap` around it names one".to_owned();
    }
    let names: Vec<String> = bound.iter().map(|name| format!("`{name}`")).collect();
    format!("the ones named here are {}", names.join(", "))
}

/// How many elements a shape has, which may be more than can be counted.
fn expected_elements(shape: &[usize]) -> String {
    let count = shape.iter().try_fold(1_u128, |product, &length| {
        product.checked_mul(length as u128)
    });
    count.map_or_else(|| "more than 2^128".to_owned(), |count| count.to_string())
}

impl fmt::Debug for TensorError {
    /// As it displays: this is what `unwrap` and a program print that returns it from `main`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How to mend operands of wrong element types; nothing if what was expected says it.
fn conversion(found: &[AbstractArray], expected: &str) -> String {
    let has = |dtype: DType| found.iter().any(|operand| operand.dtype == dtype);
    let floats = [DType::F64, DType::F32]
        .into_iter()
        .find(|&dtype| has(dtype));
    let (what, name) = match floats {
        _ if expected.contains(';') => return String::new(),
        _ if expected.contains("integers") => ("the indices or numbers", "I32"),
        Some(DType::F64) => ("the other", "F64"),
        Some(_) => ("the other", "F32"),
        None if expected == "f32 or f64" => ("them", "F32"),
        None if has(DType::Bool) && expected.contains("number") => ("them", "I32"),
        None if found.len() > 1 && has(DType::I64) => ("the other", "I64"),
        None if found.len() > 1 => ("the other", "I32"),
        None => ("it", "F32"),
    };
    let what = if found.len() == 1 { "it" } else { what };
    format!("; convert {what}, for instance with `.convert(DType::{name})`")
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

/// The value, or a panic at the caller's line.
#[track_caller]
pub(crate) fn or_panic<T>(outcome: Result<T, TensorError>) -> T {
    match outcome {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}
