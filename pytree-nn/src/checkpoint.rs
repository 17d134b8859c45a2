//! Checkpoints: the leaves of any pytree in a safetensors file.
//!
//! A leaf is stored under its key path, a shared one once. A file is written beside the old one and takes
//! its place when it is complete, so that there is a complete one at any time. Loading compares the whole
//! file with a template first and makes a new value: nothing is ever half loaded.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use pytree_core::error::edit_distance;
use pytree_core::{PytreeOf, TreeDef, TreeError, graph};
use pytree_transform::{AbstractArray, DType, Tensor, TensorError};
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView, View};
use thiserror::Error;

/// The key of the file's metadata under which the kinds of the leaves are: one line each, name and kind.
const KINDS: &str = "pytree.kinds";

/// The name of a leaf that is itself the whole tree.
const ROOT: &str = "value";

/// A checkpoint can't be written or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file system refused.
    #[error("cannot {operation} the checkpoint `{}`: {source}", .path.display())]
    Io {
        /// What was being done.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is no safetensors file.
    #[error("cannot read the checkpoint `{}`: it is no safetensors file ({problem}); give the path of a file that `save` wrote", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The file is shorter or longer than it says.
    #[error("cannot read the checkpoint `{}`: expected {expected} bytes, found {found}; it was cut off or damaged: copy it again, or load an earlier one", .path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// The length that its header asks for.
        expected: usize,
        /// Its length.
        found: usize,
    },
    /// The file holds other leaves than the template.
    #[error("cannot load the checkpoint `{}`:{}\nload it into what was saved, or inspect it with `inspect`", .path.display(), list(.mismatches))]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// Each leaf that does not fit.
        mismatches: Vec<Mismatch>,
    },
    /// A leaf has no value to be saved.
    #[error("cannot save {name}: {source}")]
    Value {
        /// The leaf.
        name: String,
        /// Why it can't be read.
        source: TensorError,
    },
    /// A leaf has an element type that checkpoints don't hold.
    #[error(
        "cannot save {name}: expected bool, i32, i64, u32, f32 or f64, found {found}; convert it first"
    )]
    DType {
        /// The leaf.
        name: String,
        /// Its element type.
        found: DType,
    },
    /// Two leaves have the same path.
    #[error(
        "cannot save two leaves under the name {name}; the keys of a map display alike: change one of them"
    )]
    SameName {
        /// The path of both.
        name: String,
    },
    /// The template does not go together again.
    #[error("cannot rebuild the template: {0}")]
    Tree(#[from] TreeError),
}

/// A leaf that differs between a checkpoint and the template it is loaded into.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// In the template, not in the file.
    Missing {
        /// The leaf.
        name: String,
        /// What the template has.
        expected: AbstractArray,
        /// The name in the file that is most alike, of those that are not in the template.
        nearest: Option<String>,
    },
    /// In the file, not in the template.
    Unexpected {
        /// The leaf.
        name: String,
        /// What the file has.
        found: String,
        /// The name in the template that is most alike, of those that are not in the file.
        nearest: Option<String>,
    },
    /// Of another shape.
    Shape {
        /// The leaf.
        name: String,
        /// The shape in the template.
        expected: Vec<usize>,
        /// The shape in the file.
        found: Vec<usize>,
    },
    /// Of another element type.
    DType {
        /// The leaf.
        name: String,
        /// The element type in the template.
        expected: DType,
        /// The element type in the file.
        found: String,
    },
}

fn list(mismatches: &[Mismatch]) -> String {
    let suggestion = |nearest: &Option<String>| match nearest {
        Some(name) => format!("; did you mean {name}?"),
        None => String::new(),
    };
    let mut text = String::new();
    for mismatch in mismatches {
        let line = match mismatch {
            Mismatch::Missing {
                name,
                expected,
                nearest,
            } => {
                format!(
                    "{name}: expected {expected}, not in the file{}",
                    suggestion(nearest)
                )
            }
            Mismatch::Unexpected {
                name,
                found,
                nearest,
            } => {
                format!(
                    "{name}: found {found}, not in the template{}",
                    suggestion(nearest)
                )
            }
            Mismatch::Shape {
                name,
                expected,
                found,
            } => {
                format!("{name}: expected the shape {expected:?}, found {found:?}")
            }
            Mismatch::DType {
                name,
                expected,
                found,
            } => {
                format!("{name}: expected elements of {expected}, found {found}")
            }
        };
        text.push_str("\n  ");
        text.push_str(&line);
    }
    text
}

/// One leaf of a checkpoint: see [`inspect`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its key path.
    pub name: String,
    /// Its element type, for instance `f32`.
    pub dtype: String,
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// Its kind, for instance `Param`, if it was a leaf of a module.
    pub kind: Option<String>,
}

/// Writes all leaves of a pytree to a safetensors file.
///
/// The file appears complete or not at all: it is written beside the old one, flushed to the disk, and
/// renamed.
///
/// # Examples
/// ```
/// use pytree_nn::{Linear, Rngs, load, save};
/// let model = Linear::new(2, 3, &mut Rngs::new(0));
/// let path = std::env::temp_dir().join("pytree-save-example.safetensors");
/// save(&path, &model)?;
/// let template = Linear::new(2, 3, &mut Rngs::new(1));
/// assert_eq!(load(&path, &template)?, model);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`CheckpointError::Io`], [`CheckpointError::Value`] if a leaf is traced, [`CheckpointError::DType`] or
/// [`CheckpointError::SameName`].
pub fn save<T: PytreeOf<Tensor>>(path: impl AsRef<Path>, state: &T) -> Result<(), CheckpointError> {
    let path = path.as_ref();
    let (leaves, treedef) = graph::flatten::<Tensor, T>(state);
    let names = names(&treedef);
    let mut seen = BTreeSet::new();
    let mut stored = Vec::with_capacity(leaves.len());
    for (name, tensor) in names.iter().zip(&leaves) {
        if !seen.insert(name) {
            return Err(CheckpointError::SameName { name: name.clone() });
        }
        stored.push((name.as_str(), Stored::new(name, tensor)?));
    }
    let mut kinds = String::new();
    for (name, kind) in names.iter().zip(treedef.leaf_kinds()) {
        if let Some(kind) = kind {
            kinds.extend([name.as_str(), "\t", &kind.to_string(), "\n"]);
        }
    }
    let metadata = std::iter::once((KINDS.to_owned(), kinds)).collect();
    let bytes = safetensors::serialize(stored, Some(metadata)).map_err(|error| {
        CheckpointError::Format {
            path: path.to_owned(),
            problem: error.to_string(),
        }
    })?;
    write_atomically(path, &bytes).map_err(|source| CheckpointError::Io {
        operation: "write",
        path: path.to_owned(),
        source,
    })
}

/// Reads the leaves of a pytree from a safetensors file; `template` says which, and gives all else: the
/// structure, static values, sharing.
///
/// # Errors
/// [`CheckpointError::Io`], [`CheckpointError::Format`], [`CheckpointError::Length`], or
/// [`CheckpointError::Mismatch`] with every leaf that is missing, unexpected, or of another shape or element
/// type.
pub fn load<T: PytreeOf<Tensor>>(
    path: impl AsRef<Path>,
    template: &T,
) -> Result<T, CheckpointError> {
    let path = path.as_ref();
    let bytes = read(path)?;
    let file = parse(path, &bytes)?;
    let mut found: BTreeMap<String, TensorView<'_>> = file.tensors().into_iter().collect();
    let (expected, treedef) = graph::flatten::<Tensor, T>(template);
    let mut leaves = Vec::with_capacity(expected.len());
    let mut missing = Vec::new();
    let mut mismatches = Vec::new();
    for (name, leaf) in names(&treedef).into_iter().zip(&expected) {
        match found.remove(&name) {
            None => missing.push((name, leaf.info())),
            Some(view) => {
                let before = mismatches.len();
                if view.shape() != leaf.shape() {
                    mismatches.push(Mismatch::Shape {
                        name: name.clone(),
                        expected: leaf.shape().to_vec(),
                        found: view.shape().to_vec(),
                    });
                }
                if stored_dtype(leaf.dtype()) != Some(view.dtype()) {
                    mismatches.push(Mismatch::DType {
                        name,
                        expected: leaf.dtype(),
                        found: dtype_name(view.dtype()),
                    });
                }
                if before == mismatches.len() {
                    leaves.push(tensor_of(leaf.dtype(), view.shape(), view.data()));
                }
            }
        }
    }
    let unexpected: Vec<&String> = found.keys().collect();
    let missing_names: Vec<&String> = missing.iter().map(|(name, _)| name).collect();
    let mut absent: Vec<Mismatch> = missing
        .iter()
        .map(|(name, info)| Mismatch::Missing {
            name: name.clone(),
            expected: (*info).clone(),
            nearest: nearest(name, &unexpected),
        })
        .collect();
    absent.extend(found.iter().map(|(name, view)| Mismatch::Unexpected {
        name: name.clone(),
        found: format!("{}{:?}", dtype_name(view.dtype()), view.shape()).replace(' ', ""),
        nearest: nearest(name, &missing_names),
    }));
    absent.append(&mut mismatches);
    if !absent.is_empty() {
        return Err(CheckpointError::Mismatch {
            path: path.to_owned(),
            mismatches: absent,
        });
    }
    Ok(graph::unflatten(&treedef, leaves)?)
}

/// The leaves that a checkpoint holds, without a template, in the order of their names.
///
/// # Examples
/// ```
/// use pytree_nn::{Linear, Rngs, inspect, save};
/// let path = std::env::temp_dir().join("pytree-inspect-example.safetensors");
/// save(&path, &Linear::new(2, 3, &mut Rngs::new(0)))?;
/// let entries = inspect(&path)?;
/// assert_eq!(entries[1].name, "weight");
/// assert_eq!(entries[1].shape, [2, 3]);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`CheckpointError::Io`], [`CheckpointError::Format`] or [`CheckpointError::Length`].
pub fn inspect(path: impl AsRef<Path>) -> Result<Vec<Entry>, CheckpointError> {
    let path = path.as_ref();
    let bytes = read(path)?;
    let file = parse(path, &bytes)?;
    let metadata = SafeTensors::read_metadata(&bytes).map(|(_, metadata)| metadata);
    let kinds = metadata
        .ok()
        .and_then(|metadata| {
            metadata
                .metadata()
                .as_ref()
                .and_then(|metadata| metadata.get(KINDS).cloned())
        })
        .unwrap_or_default();
    let kinds: BTreeMap<&str, &str> = kinds
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    let mut entries: Vec<Entry> = file
        .tensors()
        .into_iter()
        .map(|(name, view)| Entry {
            kind: kinds.get(name.as_str()).map(|&kind| kind.to_owned()),
            dtype: dtype_name(view.dtype()),
            shape: view.shape().to_vec(),
            name,
        })
        .collect();
    entries.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    Ok(entries)
}

/// The names under which the leaves of a tree are stored, in order.
fn names(treedef: &TreeDef) -> Vec<String> {
    let named = |path: String| {
        if path.is_empty() {
            ROOT.to_owned()
        } else {
            path
        }
    };
    treedef
        .leaf_paths()
        .iter()
        .map(|path| named(path.to_string()))
        .collect()
}

/// The name that is most alike, if one is alike at all.
fn nearest(name: &str, others: &[&String]) -> Option<String> {
    let (distance, other) = others
        .iter()
        .map(|other| (edit_distance(name, other), *other))
        .min()?;
    (2 * distance <= name.len().max(other.len())).then(|| other.clone())
}

fn read(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    fs::read(path).map_err(|source| CheckpointError::Io {
        operation: "read",
        path: path.to_owned(),
        source,
    })
}

fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<SafeTensors<'a>, CheckpointError> {
    SafeTensors::deserialize(bytes).map_err(|error| match (&error, length_of_header(bytes)) {
        (
            SafeTensorError::MetadataIncompleteBuffer | SafeTensorError::InvalidHeaderLength,
            Some(expected),
        ) if expected != bytes.len() => CheckpointError::Length {
            path: path.to_owned(),
            expected,
            found: bytes.len(),
        },
        _ => CheckpointError::Format {
            path: path.to_owned(),
            problem: error.to_string(),
        },
    })
}

/// The length of the file that its beginning asks for, as far as that can be read.
fn length_of_header(bytes: &[u8]) -> Option<usize> {
    const OFFSETS: &str = "\"data_offsets\":[";
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let header = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    // What is no safetensors file has nearly always an absurd length here.
    if rest.first() != Some(&b'{') {
        return None;
    }
    let Some(text) = rest.get(..header) else {
        return header.checked_add(8);
    };
    let ends = std::str::from_utf8(text)
        .ok()?
        .split(OFFSETS)
        .skip(1)
        .filter_map(|after| {
            let (_, after) = after.split_once(',')?;
            after.split_once(']')?.0.trim().parse::<usize>().ok()
        });
    ends.max().unwrap_or(0).checked_add(header)?.checked_add(8)
}

fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let unique = format!(
        ".{}.{}.{number}.tmp",
        name.to_string_lossy(),
        std::process::id()
    );
    let temporary = directory.join(unique);
    let written = write_flushed(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
        return written;
    }
    // The new name must reach the disk too; where a directory can't be flushed the rename still is atomic.
    if let Ok(directory) = File::open(directory) {
        let _ = directory.sync_all();
    }
    Ok(())
}

fn write_flushed(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A tensor as safetensors wants it.
struct Stored<'a> {
    tensor: &'a Tensor,
    dtype: Dtype,
}

/// Calls a macro with the element type that a [`DType`] stands for, for those that are numbers.
macro_rules! with_number {
    ($dtype:expr, $number:ident => $body:expr, else $otherwise:expr) => {
        match $dtype {
            DType::I32 => {
                type $number = i32;
                $body
            }
            DType::I64 => {
                type $number = i64;
                $body
            }
            DType::U32 => {
                type $number = u32;
                $body
            }
            DType::F32 => {
                type $number = f32;
                $body
            }
            DType::F64 => {
                type $number = f64;
                $body
            }
            _ => $otherwise,
        }
    };
}

impl<'a> Stored<'a> {
    fn new(name: &str, tensor: &'a Tensor) -> Result<Self, CheckpointError> {
        let Some(dtype) = stored_dtype(tensor.dtype()) else {
            return Err(CheckpointError::DType {
                name: name.to_owned(),
                found: tensor.dtype(),
            });
        };
        let readable = with_number!(
            tensor.dtype(),
            Number => tensor.read::<Number>().map(|_| ()),
            else tensor.read::<bool>().map(|_| ())
        );
        match readable {
            Ok(()) => Ok(Self { tensor, dtype }),
            Err(source) => Err(CheckpointError::Value {
                name: name.to_owned(),
                source,
            }),
        }
    }
}

impl View for Stored<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        self.tensor.shape()
    }
    fn data(&self) -> Cow<'_, [u8]> {
        let mut bytes = Vec::with_capacity(self.data_len());
        with_number!(
            self.tensor.dtype(),
            Number => {
                for number in self.tensor.read::<Number>().unwrap_or_default() {
                    bytes.extend_from_slice(&number.to_le_bytes());
                }
            },
            else bytes.extend(self.tensor.read::<bool>().unwrap_or_default().iter().map(|&bit| u8::from(bit)))
        );
        Cow::Owned(bytes)
    }
    fn data_len(&self) -> usize {
        self.tensor.len() * self.tensor.dtype().bytes()
    }
}

fn stored_dtype(dtype: DType) -> Option<Dtype> {
    Some(match dtype {
        DType::Bool => Dtype::BOOL,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::U32 => Dtype::U32,
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        _ => return None,
    })
}

/// An element type of a file as ours are written; also those that we don't have.
fn dtype_name(dtype: Dtype) -> String {
    format!("{dtype:?}").to_lowercase()
}

/// The tensor of some bytes, whose number fits element type and shape.
fn tensor_of(dtype: DType, shape: &[usize], bytes: &[u8]) -> Tensor {
    with_number!(
        dtype,
        Number => {
            let chunks = bytes.as_chunks::<{ size_of::<Number>() }>().0;
            let numbers: Vec<Number> = chunks.iter().map(|&chunk| Number::from_le_bytes(chunk)).collect();
            Tensor::new(shape, numbers)
        },
        else Tensor::new(shape, bytes.iter().map(|&byte| byte != 0).collect::<Vec<bool>>())
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::{Activation, Linear, Mlp, Optimizer, Rngs, adam};
    use pytree_core::Shared;
    use pytree_transform::jit;

    /// A file that goes away with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let unique = format!("pytree-nn-{}-{name}", std::process::id());
            let directory = std::env::temp_dir().join(unique);
            fs::create_dir_all(&directory).unwrap();
            Self(directory.join("state.safetensors"))
        }
    }
    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(self.0.parent().unwrap());
        }
    }

    fn mlp(widths: &[usize]) -> Mlp {
        Mlp::new(widths, Activation::Relu, &mut Rngs::new(0))
    }

    #[test]
    fn every_element_type_comes_back_bit_by_bit() {
        let scratch = Scratch::new("types");
        let state = vec![
            Tensor::from([true, false]),
            Tensor::from([i32::MIN, -1, 7]),
            Tensor::from([[i64::MAX]]),
            Tensor::from([u32::MAX, 0]),
            Tensor::from([f32::from_bits(0x7FC0_1234), -0.0, f32::INFINITY, 1e-45]),
            Tensor::from([f64::from_bits(0x7FF8_0000_0000_1234), -0.0]),
            Tensor::from(1.5_f32),
            Tensor::zeros(DType::F32, [0, 3]),
        ];
        save(&scratch.0, &state).unwrap();
        let found = load(
            &scratch.0,
            &state.iter().map(Tensor::zeros_like).collect::<Vec<_>>(),
        )
        .unwrap();
        assert_eq!(found[..4], state[..4]);
        assert_eq!(found[6..], state[6..]);
        let bits = |tensor: &Tensor| {
            tensor
                .to_vec::<f32>()
                .iter()
                .map(|x| x.to_bits())
                .collect::<Vec<_>>()
        };
        assert_eq!(bits(&found[4]), bits(&state[4]));
        let bits = |tensor: &Tensor| {
            tensor
                .to_vec::<f64>()
                .iter()
                .map(|x| x.to_bits())
                .collect::<Vec<_>>()
        };
        assert_eq!(bits(&found[5]), bits(&state[5]));
    }

    #[test]
    fn model_optimizer_and_random_state_are_one_checkpoint() {
        let scratch = Scratch::new("whole");
        let model = mlp(&[2, 3, 1]);
        let optimizer = Optimizer::new(&model, adam(1e-3));
        let mut rngs = Rngs::with([("params", 1)]);
        let _ = rngs.params();
        let state = (model, optimizer, rngs);
        save(&scratch.0, &state).unwrap();
        let (model, optimizer, rngs) = load(&scratch.0, &state).unwrap();
        assert_eq!(model, state.0);
        assert_eq!(format!("{optimizer:?}"), format!("{:?}", state.1));
        assert_eq!(rngs, state.2);
        let names: Vec<String> = inspect(&scratch.0)
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        for name in [
            "[0].layers[0].weight",
            "[1].step",
            "[1].transformation.steps[0].mean.layers[1].bias",
            "[2].streams['params'].count",
        ] {
            assert!(
                names.iter().any(|found| found == name),
                "{name} is not in {names:?}"
            );
        }
    }

    #[test]
    fn kinds_are_kept_for_inspection() {
        let scratch = Scratch::new("kinds");
        save(
            &scratch.0,
            &(mlp(&[2, 1]), Rngs::new(0), Tensor::from(1.0_f32)),
        )
        .unwrap();
        let entries = inspect(&scratch.0).unwrap();
        let kinds: Vec<_> = entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.kind.as_deref()))
            .collect();
        assert_eq!(
            kinds,
            [
                ("[0].layers[0].bias", Some("Param")),
                ("[0].layers[0].weight", Some("Param")),
                ("[1].streams['default'].count", Some("RngState")),
                ("[1].streams['default'].key", Some("RngState")),
                ("[2]", None),
            ]
        );
        assert_eq!(entries[3].dtype, "u32");
        assert_eq!(entries[3].shape, [2]);
    }

    #[test]
    fn a_shared_leaf_is_stored_once_and_shared_again() {
        let scratch = Scratch::new("shared");
        let shared = Shared::new(Linear::new(2, 2, &mut Rngs::new(0)));
        let tied = (shared.clone(), shared);
        save(&scratch.0, &tied).unwrap();
        assert_eq!(inspect(&scratch.0).unwrap().len(), 2);
        let (first, second) = load(&scratch.0, &tied).unwrap();
        assert!(first.same(&second));
        assert_eq!(*first, *tied.0);
    }

    #[test]
    fn all_mismatches_are_reported_at_once() {
        let scratch = Scratch::new("mismatch");
        let (a, b) = (Tensor::from([1.0_f32]), Tensor::from([[1.0_f32, 2.0]]));
        let named = |entries: &[(&str, &Tensor)]| {
            entries
                .iter()
                .map(|(name, tensor)| ((*name).to_owned(), (*tensor).clone()))
                .collect::<BTreeMap<_, _>>()
        };
        save(
            &scratch.0,
            &named(&[("weight", &a), ("wieght2", &a), ("shape", &a), ("type", &a)]),
        )
        .unwrap();
        let template = named(&[
            ("weight", &a),
            ("weight2", &b),
            ("shape", &b),
            ("type", &a.convert(DType::F64)),
        ]);
        let error = load(&scratch.0, &template).unwrap_err();
        let text = error.to_string();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "  ['weight2']: expected f32[1,2], not in the file; did you mean ['wieght2']?",
                "  ['wieght2']: found f32[1], not in the template; did you mean ['weight2']?",
                "  ['shape']: expected the shape [1, 2], found [1]",
                "  ['type']: expected elements of f64, found f32",
                "load it into what was saved, or inspect it with `inspect`",
            ]
        );
        assert!(text.starts_with("cannot load the checkpoint"), "{text}");
    }

    #[test]
    fn a_file_cut_off_anywhere_is_an_error() {
        let scratch = Scratch::new("truncated");
        let model = mlp(&[2, 3]);
        save(&scratch.0, &model).unwrap();
        let whole = fs::read(&scratch.0).unwrap();
        for length in 0..whole.len() {
            fs::write(&scratch.0, &whole[..length]).unwrap();
            let error = load(&scratch.0, &model).unwrap_err();
            let named = error.to_string().contains("state.safetensors");
            assert!(named, "{error}");
            if length > 9 {
                assert!(
                    matches!(error, CheckpointError::Length { found, .. } if found == length),
                    "{error:?}"
                );
            }
        }
        fs::write(&scratch.0, &whole[..whole.len() - 1]).unwrap();
        let error = load(&scratch.0, &model).unwrap_err().to_string();
        assert!(
            error.contains(&format!(
                "expected {} bytes, found {}",
                whole.len(),
                whole.len() - 1
            )),
            "{error}"
        );
    }

    #[test]
    fn a_damaged_file_never_panics() {
        let scratch = Scratch::new("damaged");
        let model = mlp(&[2, 3]);
        save(&scratch.0, &model).unwrap();
        let whole = fs::read(&scratch.0).unwrap();
        for position in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[position] ^= 0x15;
            fs::write(&scratch.0, damaged).unwrap();
            let _ = load(&scratch.0, &model);
            let _ = inspect(&scratch.0);
        }
    }

    #[test]
    fn another_file_is_no_checkpoint() {
        let scratch = Scratch::new("other");
        fs::write(&scratch.0, "this is a text, and not a checkpoint").unwrap();
        let error = load(&scratch.0, &mlp(&[2, 3])).unwrap_err().to_string();
        assert!(error.contains("it is no safetensors file"), "{error}");
        let error = load(scratch.0.with_file_name("nowhere"), &mlp(&[2, 3])).unwrap_err();
        assert!(
            matches!(
                error,
                CheckpointError::Io {
                    operation: "read",
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn saving_leaves_no_other_file_behind() {
        let scratch = Scratch::new("atomic");
        let directory = scratch.0.parent().unwrap();
        save(&scratch.0, &mlp(&[2, 3])).unwrap();
        save(&scratch.0, &mlp(&[4, 1])).unwrap();
        assert_eq!(fs::read_dir(directory).unwrap().count(), 1);
        let into_a_directory = save(directory, &mlp(&[2, 3])).unwrap_err();
        assert!(
            matches!(
                into_a_directory,
                CheckpointError::Io {
                    operation: "write",
                    ..
                }
            ),
            "{into_a_directory}"
        );
        assert_eq!(fs::read_dir(directory).unwrap().count(), 1);
        let beside = fs::read_dir(directory.parent().unwrap()).unwrap();
        assert!(
            beside
                .filter_map(Result::ok)
                .all(|entry| !entry.file_name().to_string_lossy().ends_with(".tmp"))
        );
    }

    #[test]
    fn a_single_tensor_has_a_name_too() {
        let scratch = Scratch::new("single");
        let tensor = Tensor::from([1.0_f32, 2.0]);
        save(&scratch.0, &tensor).unwrap();
        assert_eq!(inspect(&scratch.0).unwrap()[0].name, "value");
        assert_eq!(load(&scratch.0, &tensor).unwrap(), tensor);
    }

    #[test]
    fn a_traced_leaf_cannot_be_saved() {
        let scratch = Scratch::new("traced");
        let path = scratch.0.clone();
        let compiled = jit(move |x: Tensor| {
            let error = save(&path, &vec![x.clone()]).unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with("cannot save [0]: cannot read the value of a traced f32[1]"),
                "{error}"
            );
            x
        });
        let _ = compiled(Tensor::from([1.0_f32]));
        assert!(!scratch.0.exists());
    }
}
