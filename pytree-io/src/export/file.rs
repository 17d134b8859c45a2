//! Writes and reads files of programs.

use std::path::Path;

use pytree_store::files;
use pytree_transform::StableHlo;

use crate::export::error::ExportError;
use crate::export::program::Exported;
use crate::export::signature::{read, written};

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
