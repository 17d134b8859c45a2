//! The error of shapes that do not match named axes.

use std::fmt;

use thiserror::Error;

/// The error that lists all shapes that do not match the named axes of a module or function.
///
/// # Examples
/// ```
/// use ndarray::{Array1, Array2};
/// use pytree_core::{Module, Pytree};
///
/// #[derive(Module)]
/// struct Linear {
///     #[param("in out")]
///     weight: Array2<f32>,
///     #[param("out")]
///     bias: Array1<f32>,
/// }
/// let linear = Linear { weight: Array2::zeros((64, 128)), bias: Array1::zeros(100) };
/// assert_eq!(
///     linear.check_shapes().unwrap_err().to_string(),
///     "Linear: bias is f32[100], expected [out] with out = 128 (from weight: f32[64,128] as [in out]); \
///      make bias and weight with the same `out`"
/// );
/// ```
#[derive(Clone, PartialEq, Eq, Error)]
pub struct ShapeError(Box<Contents>);

#[derive(Clone, PartialEq, Eq)]
struct Contents {
    checked: String,
    mismatches: Vec<ShapeMismatch>,
    /// The innermost checked function that was running, with the lengths of its names. If the arguments of a function
    /// are wrong, the function is not running yet, and this field contains its caller.
    inside: Option<String>,
}

/// One shape that does not match its named axes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShapeMismatch {
    /// The argument, or the key path of the leaf. If a static field is wrong, the key path of this field.
    pub place: String,
    /// The dtype and shape of the array, or the value of the static field.
    pub found: String,
    /// The expected axes, with the length of each name and the origin of this length.
    pub expected: String,
    /// How to fix the mismatch.
    pub fix: String,
}

impl ShapeError {
    pub(crate) fn new(checked: String, mismatches: Vec<ShapeMismatch>) -> Self {
        Self(Box::new(Contents {
            checked,
            mismatches,
            inside: None,
        }))
    }

    /// Adds the innermost checked function that is running, if there is one.
    pub(crate) fn inside(mut self, function: Option<String>) -> Self {
        self.0.inside = function;
        self
    }

    /// Returns what was checked: a function, for instance `Linear::forward`, or the name of a model.
    pub fn checked(&self) -> &str {
        &self.0.checked
    }

    /// Returns all shapes that do not match.
    pub fn mismatches(&self) -> &[ShapeMismatch] {
        &self.0.mismatches
    }
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mismatches() {
            [only] => write!(f, "{}: {only}", self.checked())?,
            all => {
                write!(f, "{}: {} shapes do not match:", self.checked(), all.len())?;
                all.iter()
                    .try_for_each(|mismatch| write!(f, "\n  {mismatch}"))?;
            }
        }
        match &self.0.inside {
            Some(function) => write!(f, "; {function}"),
            None => Ok(()),
        }
    }
}

pytree_base::debug_as_display!(ShapeError);

impl fmt::Display for ShapeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            found,
            expected,
            fix,
        } = self;
        // The first field of a tuple struct has the path `0`, which alone looks like a length.
        let field = if place.starts_with(|first: char| first.is_ascii_digit()) {
            "field "
        } else {
            ""
        };
        write!(f, "{field}{place} is {found}, expected {expected}; {fix}")
    }
}
