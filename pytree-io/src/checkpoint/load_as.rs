//! Loads a checkpoint as what a function builds, without a template.

use pytree_base::bug::expect_some;
use pytree_core::{ArrayLeaf, PytreeOf, graph};
use pytree_nn::Rngs;
use pytree_store::checkpoint::{CheckpointError, LoadOptions, LoadReport, Location, load_leaves};
use pytree_transform::{Tensor, eval_shape};

use crate::checkpoint::blank::Blank;

/// Loads a file as the value that `build` would return, without a template: `build` is traced with the random streams as its argument
/// (see [`eval_shape`]), so no random number is computed, and no memory is allocated for it. The loaded tensors are on the host.
///
/// If [`allow_missing`](LoadOptions::allow_missing) is set and the file lacks leaves, `build` runs with `Rngs::new(0)`, and the result
/// has its values.
///
/// # Examples
/// ```
/// use pytree_io::checkpoint::{self, LoadOptions};
/// use pytree_nn::{Activation, Mlp, Rngs};
/// let build = |rngs: &mut Rngs| Mlp::new(&[8, 16, 2], Activation::Relu, rngs);
/// let path = std::env::temp_dir().join("pytree-load-as-example.safetensors");
/// let trained = build(&mut Rngs::new(7));
/// checkpoint::save(&path, &trained)?;
///
/// let (loaded, _) = checkpoint::load_as(&path, &LoadOptions::new(), build)?;
/// assert_eq!(loaded, trained);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the errors of [`load_with`](pytree_store::checkpoint::load_with).
///
/// # Panics
/// If `build` panics, for instance because it reads the elements of a tensor.
#[doc(alias("jax.eval_shape", "nnx.eval_shape", "orbax.checkpoint.restore"))]
#[track_caller]
pub fn load_as<T: PytreeOf<Tensor>>(
    path: impl Location,
    options: &LoadOptions<'_>,
    build: impl Fn(&mut Rngs) -> T,
) -> Result<(T, LoadReport), CheckpointError> {
    let rngs = Rngs::new(0);
    let shapes = eval_shape(|rngs: &Rngs| build(&mut rngs.clone()), &rngs);
    let treedef = shapes.treedef();
    let blanks: Vec<Blank> = shapes.leaves().iter().cloned().map(Blank).collect();
    let arrays: Vec<&dyn ArrayLeaf> = blanks.iter().map(|blank| blank as _).collect();
    let (treedef, loaded, report) = load_leaves(path, treedef, &arrays, options)?;
    let missing = if loaded.iter().all(Option::is_some) {
        Vec::new()
    } else {
        graph::try_flatten_any(&build(&mut rngs.clone()))?.0
    };
    let mut missing = missing.into_iter();
    let leaves = loaded.into_iter().map(|loaded| {
        let built = missing.next();
        expect_some(loaded.or(built), "a leaf of the value that is built")
    });
    Ok((graph::unflatten(&treedef, leaves.collect())?, report))
}
