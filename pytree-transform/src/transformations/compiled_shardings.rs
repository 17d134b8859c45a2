//! What each device of a mesh holds of the leaves of a compiled function: the evidence from the compiled program.

use std::fmt;

use pytree_core::boundary::Visited;
use pytree_core::{KeyPath, TreeDef};
use pytree_kernels::base::dtype::AbstractArray;

use crate::tensor::Tensor;
use crate::tensor::device::{PartitionSpec, Program, Sharding};
use crate::transformations::compiled::Compiled;
use crate::transformations::placed::Place;

/// How a compiled function divides its argument and its result among the devices of a mesh, the result of
/// [`Jit::shardings`](crate::Jit::shardings). The display is a table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CompiledShardings {
    /// The leaves of the argument.
    pub inputs: Vec<LeafSharding>,
    /// The leaves of the result, followed by the new values of references.
    pub outputs: Vec<LeafSharding>,
}

/// How a leaf is divided among the devices of a mesh.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LeafSharding {
    /// The key path of the leaf, for instance `[0].layers[0].weight`.
    pub path: String,
    /// The dtype and the shape of the whole leaf.
    pub info: AbstractArray,
    /// The shape that each device holds. For the inputs that the program reads, this is the shape of the parameter in the
    /// compiled program, if the compiler reports it.
    pub part: Vec<usize>,
    /// The sharding. `None` if the function does not run on a mesh.
    pub sharding: Option<Sharding>,
}

impl<T, E> Compiled<T, E> {
    /// Compiles the function for the arguments of a call, and returns the shardings of the leaves.
    #[track_caller]
    pub(crate) fn shardings(&self, given: &dyn Visited<Tensor>) -> CompiledShardings {
        let (entry, leaves) = self.shown_with_leaves(given);
        let place = self.place(&entry, &leaves);
        let program = match &place {
            Place::Device(placed) => placed.program(),
            Place::Host => None,
        };
        let read = program.map(Program::parts).unwrap_or_default();
        let inputs = leaves.iter().enumerate().map(|(position, leaf)| {
            let sharding = program.and_then(|program| program.input_sharding(position, leaf));
            let read = read.get(position).cloned().flatten();
            (leaf.info().clone(), sharding, read)
        });
        let inputs = named(&entry.signature.treedef, inputs);
        let infos = entry.body.jaxpr.output_infos().cloned().enumerate();
        let outputs = infos.map(|(position, info)| {
            let sharding = program.and_then(|program| program.output_sharding(position, &leaves));
            (info, sharding, None)
        });
        CompiledShardings {
            inputs,
            outputs: named(entry.outcome.whole(), outputs),
        }
    }
}

/// Names leaves by the key paths of a structure.
fn named(
    treedef: &TreeDef,
    leaves: impl Iterator<Item = (AbstractArray, Option<Sharding>, Option<Vec<usize>>)>,
) -> Vec<LeafSharding> {
    let paths = treedef.leaf_paths();
    let named =
        |(position, (info, sharding, part)): (usize, (AbstractArray, Option<Sharding>, _))| {
            let path = paths.get(position);
            let path = path.map_or_else(|| format!("written[{position}]"), KeyPath::or_root);
            let of_sharding = || {
                let part = sharding.as_ref().and_then(|own| own.part_of(&info).ok());
                part.unwrap_or_else(|| info.clone()).shape.to_vec()
            };
            LeafSharding {
                path,
                part: Option::unwrap_or_else(part, of_sharding),
                info,
                sharding,
            }
        };
    leaves.enumerate().map(named).collect()
}

impl fmt::Display for CompiledShardings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |leaf: &LeafSharding| {
            let part = AbstractArray::new(leaf.info.dtype, &leaf.part[..]);
            let spec = leaf.sharding.as_ref().map(Sharding::spec);
            let spec = spec.as_ref().map(PartitionSpec::to_string);
            [
                leaf.path.clone(),
                leaf.info.to_string(),
                part.to_string(),
                spec.unwrap_or_else(|| "not on a mesh".to_owned()),
            ]
        };
        let head = |name: &str| [name, "whole", "on each device", "spec"].map(str::to_owned);
        let inputs = std::iter::once(head("input")).chain(self.inputs.iter().map(row));
        let outputs = std::iter::once(head("output")).chain(self.outputs.iter().map(row));
        let rows: Vec<[String; 4]> = inputs.chain(outputs).collect();
        let width = |column: usize| {
            let lengths = rows.iter().map(|row| row[column].chars().count());
            lengths.max().unwrap_or_default()
        };
        let widths = [0, 1, 2].map(width);
        for [first, second, third, last] in &rows {
            let [a, b, c] = widths;
            writeln!(f, "{first:a$}  {second:b$}  {third:c$}  {last}")?;
        }
        Ok(())
    }
}
