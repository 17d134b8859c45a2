//! Programs in StableHLO as files that other tools can read.
//!
//! A file consists of two lines of comments and the text of one module. MLIR ignores the comments, so every tool of
//! MLIR can read the file. The first line names the format and its version. The second line lists the names, dtypes and
//! shapes of the inputs and outputs in JSON. `docs/reference/formats.md` specifies both lines. The text contains all constants,
//! so the file is complete.

mod error;
mod signature;

use std::fmt;
use std::path::Path;

use pytree_transform::{AbstractArray, StableHlo};

use crate::export::signature::{read, written};
use pytree_store::files;

pub use error::ExportError;

/// Writes a module of StableHLO to a file, atomically.
///
/// [`Jit::stablehlo`](pytree_transform::Jit::stablehlo) returns the module of a compiled function. The names of its
/// inputs are the key paths of the argument's leaves. The text of the file contains the constants of the module. The
/// text contains no source lines, so equal programs give equal files.
///
/// # Examples
/// ```
/// use pytree_io::export;
/// use pytree_nn::{Linear, Rngs};
/// use pytree_transform::{DType, Tensor, jit};
/// let forward = jit(|(model, x): (Linear, Tensor)| model.forward(&x));
/// let argument = (Linear::new(2, 3, &mut Rngs::new(0)), Tensor::zeros(DType::F32, [4, 2]));
/// let path = std::env::temp_dir().join("pytree-export-example.mlir");
/// export::save(&path, &forward.stablehlo(&argument))?;
/// let exported = export::load(&path)?;
/// assert_eq!(exported.inputs()[0].to_string(), "[0].weight: f32[2,3]");
/// assert_eq!(exported.inputs()[2].to_string(), "[1]: f32[4,2]");
/// assert_eq!(exported.outputs()[0].to_string(), "value: f32[4,3]");
/// assert!(exported.text().starts_with("module @pytree"));
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`ExportError::Io`] if the file cannot be written. After an error, an existing file is unchanged.
#[doc(alias("jax.export.export", "torch.export.save"))]
pub fn save(path: impl AsRef<Path>, module: &StableHlo) -> Result<(), ExportError> {
    let path = path.as_ref();
    let module = module.with_inlined_constants();
    let mut text = written(&module);
    text.push_str(module.text_without_locations());
    files::write(path, text.as_bytes()).map_err(|source| ExportError::Io {
        operation: "write",
        path: path.to_owned(),
        source,
    })
}

/// Reads a file that [`save`] or `tools/export-convert` wrote. See [`save`] for an example.
///
/// Checks the first two lines. Does not parse the text of the module, because the compiler of the program parses the
/// text.
///
/// # Errors
/// Returns [`ExportError::Io`] if the file cannot be read. Returns [`ExportError::Version`] if a later version of this
/// library wrote the file. Returns [`ExportError::Format`] for every other defect, with the line of the defect.
#[doc(alias("jax.export.deserialize", "torch.export.load"))]
pub fn load(path: impl AsRef<Path>) -> Result<Exported, ExportError> {
    let path = path.as_ref();
    let bytes = files::read(path).map_err(|source| ExportError::Io {
        operation: "read",
        path: path.to_owned(),
        source,
    })?;
    read(path, bytes)
}

/// A program in StableHLO that [`load`] read from a file.
///
/// To run the program, compile its [`text`](Self::text), for instance with `pytree_pjrt::Client::compile`. Then pass
/// one buffer for each of the [`inputs`](Self::inputs), in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    version: String,
    inputs: Vec<NamedArray>,
    outputs: Vec<NamedArray>,
    text: String,
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

#[cfg(test)]
mod tests;
