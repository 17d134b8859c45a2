//! A program that was read from a file.

use std::fmt;

use pytree_transform::AbstractArray;

/// A program in StableHLO that [`load`](crate::export::load) read from a file.
///
/// To run the program, compile its [`text`](Self::text), for instance with `pytree_pjrt::Client::compile`. Then pass
/// one buffer for each of the [`inputs`](Self::inputs), in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    pub(super) version: String,
    pub(super) inputs: Vec<NamedArray>,
    pub(super) outputs: Vec<NamedArray>,
    pub(super) text: String,
}

impl Exported {
    /// Returns the version of StableHLO in which the text is written, for instance `1.9.0`. Later versions of StableHLO
    /// can also read this text.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the arguments of the function `main`.
    pub fn inputs(&self) -> &[NamedArray] {
        &self.inputs
    }

    /// Returns the results of the function `main`.
    pub fn outputs(&self) -> &[NamedArray] {
        &self.outputs
    }

    /// Returns the text of the module.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// An input or output of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedArray {
    /// The key path in the argument or in the result, or `value` if the argument or result is a single tensor. Other
    /// programs may write names in another form.
    pub name: String,
    /// The dtype and the shape.
    pub array: AbstractArray,
}

impl fmt::Display for NamedArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.array)
    }
}
