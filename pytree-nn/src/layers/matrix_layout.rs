//! Weights as matrices: which axes of a weight are the rows, and which are the columns.

use pytree_core::axes::AxisRole;
use pytree_core::{Static, Tree, TreeError};
use pytree_transform::Tensor;

/// The axes of a weight that represents a matrix, or a matrix for each index along its batch axes.
///
/// The roles of the axes determine the layout; see [`AxisRole`]. For example, the weight `[in, heads, head_dim]` of
/// attention is a matrix with `in` rows and `heads · head_dim` columns, and the weight `[kernel…, in, out]` of a
/// convolution is a matrix with `kernel · in` rows and `out` columns.
///
/// # Examples
/// ```
/// use pytree_core::{Tree, graph};
/// use pytree_nn::{HeadProjection, LinearOptions, MatrixLayout, Rngs};
/// let query = HeadProjection::new(16, 2, 8, LinearOptions::default(), &mut Rngs::new(0));
/// let roles = graph::structure(&query).leaf_roles()[0].of_leaf(&query.weight)?;
/// let layout = MatrixLayout::of(&roles).expect("the weight has inputs and outputs");
/// let matrix = layout.matrix(&query.weight);
/// assert_eq!(matrix.shape(), [16, 16]);
/// assert_eq!(layout.weight(&matrix, query.weight.shape()), query.weight);
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
#[derive(Static, Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MatrixLayout {
    /// The axes of independent matrices.
    pub batch: Vec<usize>,
    /// The axes that together are the rows: inputs, heads of the input, and the positions of a kernel.
    pub rows: Vec<usize>,
    /// The axes that together are the columns: outputs, and heads of the output.
    pub columns: Vec<usize>,
}

impl MatrixLayout {
    /// Returns the layout of a weight with these roles, or `None` if the weight is not a matrix: if it has no rows, no
    /// columns, or an axis with the role [`AxisRole::Feature`].
    pub fn of(roles: &[AxisRole]) -> Option<Self> {
        let axes = |is: fn(AxisRole) -> bool| -> Vec<usize> {
            let axes = roles.iter().enumerate();
            axes.filter(|(_, role)| is(**role))
                .map(|(axis, _)| axis)
                .collect()
        };
        let layout = Self {
            batch: axes(|role| role == AxisRole::Batch),
            rows: axes(AxisRole::is_row),
            columns: axes(AxisRole::is_column),
        };
        let is_whole = layout.permutation().len() == roles.len();
        (is_whole && !layout.rows.is_empty() && !layout.columns.is_empty()).then_some(layout)
    }

    /// Returns the axes in the order batch, rows, columns.
    fn permutation(&self) -> Vec<isize> {
        let axes = [&self.batch[..], &self.rows, &self.columns].concat();
        axes.into_iter().map(usize::cast_signed).collect()
    }

    /// Returns the shape `[batch…, rows, columns]` of the matrices in a weight of the given shape, or `None` if the
    /// weight does not have the axes of the layout.
    pub fn matrix_shape(&self, shape: &[usize]) -> Option<Vec<usize>> {
        let lengths = |axes: &[usize]| -> Option<Vec<usize>> {
            axes.iter().map(|&axis| shape.get(axis).copied()).collect()
        };
        let mut matrices = lengths(&self.batch)?;
        matrices.push(lengths(&self.rows)?.iter().product());
        matrices.push(lengths(&self.columns)?.iter().product());
        (self.permutation().len() == shape.len()).then_some(matrices)
    }

    /// Returns the weight as matrices `[batch…, rows, columns]`.
    ///
    /// # Panics
    /// If the weight does not have the axes of the layout.
    #[must_use]
    #[track_caller]
    pub fn matrix(&self, weight: &Tensor) -> Tensor {
        let permutation = self.permutation();
        let Some(shape) = self.matrix_shape(weight.shape()) else {
            panic!(
                "cannot convert a weight to a matrix: expected {} axes, found {}; pass a weight with the axes of the layout",
                permutation.len(),
                weight.info()
            );
        };
        if permutation.is_sorted() {
            return weight.reshape(shape);
        }
        weight.transpose(permutation).reshape(shape)
    }

    /// Converts matrices `[batch…, rows, columns]` to a weight of the given shape: the inverse of
    /// [`matrix`](Self::matrix).
    ///
    /// # Panics
    /// If a weight of this shape does not have such matrices.
    #[must_use]
    #[track_caller]
    pub fn weight(&self, matrix: &Tensor, shape: &[usize]) -> Tensor {
        let permutation = self.permutation();
        assert!(
            self.matrix_shape(shape).as_deref() == Some(matrix.shape()),
            "cannot convert the matrix {} to a weight of shape {shape:?}: expected a matrix of the shape {:?}",
            matrix.info(),
            self.matrix_shape(shape)
        );
        if permutation.is_sorted() {
            return matrix.reshape(shape);
        }
        let axes = permutation.iter().map(|&axis| axis.unsigned_abs());
        let lengths: Vec<usize> = axes.map(|axis| shape[axis]).collect();
        let mut inverse = vec![0; permutation.len()];
        for (position, axis) in permutation.iter().enumerate() {
            inverse[axis.unsigned_abs()] = position.cast_signed();
        }
        matrix.reshape(lengths).transpose(inverse)
    }
}

/// Returns the roles of each leaf for which `is_needed` is true.
///
/// # Errors
/// [`TreeError::Roles`] with all needed leaves whose roles are not declared.
pub(crate) fn roles_of(
    tree: &Tree<Tensor>,
    is_needed: impl Fn(&Tensor) -> bool,
) -> Result<Vec<Option<Vec<AxisRole>>>, TreeError> {
    let mut all_missing = Vec::new();
    let mut all = Vec::new();
    for (roles, leaf) in tree.treedef().leaf_roles().iter().zip(tree.leaves()) {
        let needed = is_needed(leaf).then(|| roles.of_leaf(leaf)).transpose();
        match needed {
            Ok(roles) => all.push(roles),
            Err(TreeError::Roles { missing }) => all_missing.extend(missing),
            Err(error) => return Err(error),
        }
    }
    if all_missing.is_empty() {
        return Ok(all);
    }
    Err(TreeError::Roles {
        missing: all_missing,
    })
}
