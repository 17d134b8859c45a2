//! The roles of axes: what a module does with each axis of an array.
//!
//! A field declares roles beside the names of its axes: `#[param("in out", roles(input, output))]`. Roles decide which
//! parameters are matrices, and which of their axes are the rows and the columns. Names and the number of axes decide
//! nothing. Roles are not part of the equality, the hash or the bytes of a treedef.

use std::fmt;

use crate::node::statics::{StaticBox, StaticValue};

/// The role of an axis of an array, such as the weight of a layer.
///
/// # Examples
/// ```
/// use ndarray::{Array1, Array2};
/// use pytree_core::axes::AxisRole;
/// use pytree_core::{Module, graph};
/// #[derive(Module)]
/// struct Dense {
///     #[param("in out", roles(input, output))]
///     weight: Array2<f32>,
///     #[param("out", roles(output))]
///     bias: Array1<f32>,
/// }
/// let dense = Dense { weight: Array2::zeros((3, 2)), bias: Array1::zeros(2) };
/// let structure = graph::structure(&dense);
/// let roles = structure.leaf_roles();
/// assert_eq!(roles[0].for_rank(2), Some(vec![AxisRole::Input, AxisRole::Output]));
/// assert_eq!(roles[1].for_rank(1), Some(vec![AxisRole::Output]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AxisRole {
    /// `input`: the axis is multiplied by the features of the input, and summed over.
    Input,
    /// `output`: the axis is an axis of the result.
    Output,
    /// `input_head`: the axis counts the heads of an input whose features are divided into heads.
    InputHead,
    /// `output_head`: the axis counts the heads of a result whose features are divided into heads.
    OutputHead,
    /// `kernel`: the positions in the window of a convolution, which are summed over.
    Kernel,
    /// `item`: the rows of a table, such as an embedding. An index selects a row.
    Item,
    /// `batch`: independent copies. Each index along the axis has a weight of its own.
    Batch,
    /// `feature`: the features that are scaled or shifted one by one.
    Feature,
}

impl AxisRole {
    /// All roles.
    pub const ALL: [Self; 8] = [
        Self::Input,
        Self::Output,
        Self::InputHead,
        Self::OutputHead,
        Self::Kernel,
        Self::Item,
        Self::Batch,
        Self::Feature,
    ];

    /// Returns the name of the role in an attribute, such as `input`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::InputHead => "input_head",
            Self::OutputHead => "output_head",
            Self::Kernel => "kernel",
            Self::Item => "item",
            Self::Batch => "batch",
            Self::Feature => "feature",
        }
    }

    /// Returns whether the axis belongs to the rows of the matrix that the array represents: `input`, `input_head`,
    /// `kernel` or `item`.
    pub const fn is_row(self) -> bool {
        matches!(
            self,
            Self::Input | Self::InputHead | Self::Kernel | Self::Item
        )
    }

    /// Returns whether the axis belongs to the columns of the matrix that the array represents: `output` or
    /// `output_head`.
    pub const fn is_column(self) -> bool {
        matches!(self, Self::Output | Self::OutputHead)
    }
}

impl fmt::Display for AxisRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The declaration of the roles in a [`ShapePattern`](super::ShapePattern).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Roles {
    /// `roles(input, output)`: one role for each axis of the pattern. The role of `...` or `*name` is the role of all
    /// its axes.
    Listed(&'static [AxisRole]),
    /// `roles = function`: a function that computes one role for each axis, from the static fields of the module and the
    /// number of axes.
    Computed(fn(&StaticFields<'_>, usize) -> Option<Vec<AxisRole>>),
}

/// The static fields of a module, from which a function computes the roles of a parameter whose number of axes is not
/// fixed.
///
/// # Examples
/// ```
/// use ndarray::ArrayD;
/// use pytree_core::axes::{AxisRole, StaticFields};
/// use pytree_core::{Module, graph};
/// #[derive(Module)]
/// struct Contraction {
///     #[param("...", roles = Self::weight_roles)]
///     weight: ArrayD<f32>,
///     /// The number of axes that are summed over. They are the first axes of the weight.
///     #[r#static]
///     summed: usize,
/// }
/// impl Contraction {
///     fn weight_roles(fields: &StaticFields<'_>, rank: usize) -> Option<Vec<AxisRole>> {
///         let mut roles = vec![AxisRole::Input; fields.get("summed")?];
///         roles.resize(rank, AxisRole::Output);
///         Some(roles)
///     }
/// }
/// let layer = Contraction { weight: ArrayD::zeros(vec![2, 3, 4]), summed: 2 };
/// let roles = graph::structure(&layer).leaf_roles()[0].for_rank(3).unwrap();
/// assert_eq!(roles, [AxisRole::Input, AxisRole::Input, AxisRole::Output]);
/// ```
#[derive(Debug)]
pub struct StaticFields<'a> {
    fields: Vec<(&'a str, &'a StaticBox)>,
}

impl<'a> StaticFields<'a> {
    pub(crate) fn new(names: impl Iterator<Item = &'a str>, values: &'a [StaticBox]) -> Self {
        let fields = names.zip(values).collect();
        Self { fields }
    }

    /// Returns the value of a static field, or `None` if there is no such field of the type `T`.
    pub fn get<T: StaticValue>(&self, name: &str) -> Option<T> {
        let (_, value) = self.fields.iter().find(|(known, _)| *known == name)?;
        value.to_value()
    }
}
