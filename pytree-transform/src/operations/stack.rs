//! Stacks pytrees of the same structure, for instance the models of an ensemble, and splits a stack into its members.

use pytree_core::graph;
use pytree_kernels::base::dtype::DType;

use crate::tensor::Tensor;
use crate::tensor::traceable::{Traceable, rebuild};

/// Returns one pytree whose leaves are the leaves of all members, stacked along a new axis.
///
/// The members are models, tensors or other pytrees. [`Tensor::stack`] also takes references to tensors.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, stack, unstack};
/// let members = [(Tensor::from(1.0_f32),), (Tensor::from(2.0_f32),)];
/// let stacked = stack(&members, 0);
/// assert_eq!(stacked.0.to_vec::<f32>(), [1.0, 2.0]);
/// assert_eq!(unstack(&stacked), members);
/// ```
///
/// # Panics
/// Panics if:
/// - there are no members
/// - the structures of the members differ
/// - the shapes or dtypes of a leaf differ
/// - the axis is out of range for a leaf
#[doc(alias = "torch.func.stack_module_state")]
#[track_caller]
pub fn stack<M: Traceable>(members: &[M], axis: isize) -> M {
    let mut members = members.iter().map(graph::flatten::<Tensor, M>);
    let Some((first, treedef)) = members.next() else {
        panic!("cannot stack: the list of members is empty; pass at least one member");
    };
    let mut columns: Vec<Vec<Tensor>> = first.into_iter().map(|leaf| vec![leaf]).collect();
    for (position, (leaves, other)) in members.enumerate() {
        if other != treedef {
            let differences: Vec<String> = treedef
                .differences(&other)
                .iter()
                .map(ToString::to_string)
                .collect();
            panic!(
                "cannot stack: the structures of member 0 and member {} differ: {}",
                position + 1,
                differences.join("; ")
            );
        }
        for (column, leaf) in columns.iter_mut().zip(leaves) {
            column.push(leaf);
        }
    }
    check_columns(&treedef, &columns);
    rebuild(
        &treedef,
        columns
            .iter()
            .map(|column| Tensor::stack(column, axis))
            .collect(),
    )
}

#[track_caller]
fn check_columns(treedef: &pytree_core::TreeDef, columns: &[Vec<Tensor>]) {
    let mut problems = Vec::new();
    for (path, column) in treedef.leaf_paths().iter().zip(columns) {
        if let Some(position) = column
            .iter()
            .position(|leaf| leaf.info() != column[0].info())
        {
            problems.push(format!(
                "{} is {} in member 0 and {} in member {position}",
                path.or_root(),
                column[0].info(),
                column[position].info()
            ));
        }
    }
    assert!(
        problems.is_empty(),
        "cannot stack: {}; pass members whose leaves have the same shapes and element types",
        problems.join("; ")
    );
}

/// Returns the members of a stack. This function is the inverse of [`stack`] along axis 0.
///
/// # Panics
/// Panics if:
/// - the tree has no leaves
/// - a leaf has no axis
/// - the first axes differ in length
#[track_caller]
pub fn unstack<M: Traceable>(stacked: &M) -> Vec<M> {
    let (leaves, treedef) = graph::flatten::<Tensor, M>(stacked);
    let lengths: Vec<Option<usize>> = leaves
        .iter()
        .map(|leaf| leaf.shape().first().copied())
        .collect();
    let Some(Some(length)) = lengths.first().copied() else {
        panic!(
            "cannot unstack {treedef}: it has no leaves, or its first leaf has no axes; pass a value whose leaves are \
             stacked along axis 0"
        );
    };
    assert!(
        lengths.iter().all(|&other| other == Some(length)),
        "cannot unstack {treedef}: the first axes of its leaves have the lengths {lengths:?}; pass leaves whose first axes have equal lengths"
    );
    (0..length)
        .map(|member| {
            let index = Tensor::constant(DType::I32, member as f64);
            rebuild(
                &treedef,
                leaves.iter().map(|leaf| leaf.take(&index, 0)).collect(),
            )
        })
        .collect()
}
