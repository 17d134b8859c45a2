//! Errors of optimizers, with all affected parameters.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use pytree_core::{KeyPath, ShapeError, TreeError};
use pytree_transform::AbstractArray;
use thiserror::Error;

/// The reason why an optimizer cannot be created or changed, or cannot apply gradients. After an error, the optimizer
/// and the model are unchanged.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OptimizerError {
    /// The gradients do not match the trained parameters.
    #[error("cannot update the model:{}", list(.problems))]
    Gradients {
        /// All gradients and parameters that do not match, each with the reason.
        problems: Vec<GradientProblem>,
    },
    /// The number of leaves of the model has changed since the optimizer was created.
    #[error(
        "cannot update the model: the optimizer was made for a model with {expected} leaves, but this model has {found}; make a new optimizer with `Optimizer::new`"
    )]
    OtherModel {
        /// The number of leaves of the model that the optimizer was created for.
        expected: usize,
        /// The number of leaves of the model to update.
        found: usize,
    },
    /// The shapes of the model do not match the named axes of its modules.
    #[error("cannot make an optimizer: {0}")]
    Shapes(ShapeError),
    /// A state to be trained is not a float, such as the key of a random stream or a counter.
    #[error(
        "cannot train {path}: it is a state, {found}, and only floats have gradients; leave the states out: `filter & !Filter::any_state()`"
    )]
    State {
        /// The path of the state.
        path: String,
        /// The dtype and shape of the state.
        found: AbstractArray,
    },
    /// A leaf to be trained is not a float.
    #[error(
        "cannot train {path}: expected a float dtype, found {found}; make the leaf a state, or choose which leaves to train with `Optimizer::with_filter`"
    )]
    NotFloat {
        /// The path of the leaf.
        path: String,
        /// The dtype and shape of the leaf.
        found: AbstractArray,
    },
    /// No transformation of the chain has a learning rate.
    #[error(
        "cannot set the learning rate: no transformation of the chain has one; add `scale_by_learning_rate` at the end of the chain; for `groups`, give each group a schedule"
    )]
    NoLearningRate,
    /// The learning rate is not a single number.
    #[error(
        "cannot set the learning rate: expected one number, found {found}; for different rates, use `groups`"
    )]
    LearningRate {
        /// The dtype and shape of the given rate.
        found: AbstractArray,
    },
    /// The learning rate is NaN or infinite.
    #[error("cannot set the learning rate: expected a finite number, found {found}")]
    InfiniteRate {
        /// The given rate.
        found: String,
    },
    /// A hyper-parameter has an unknown name or a wrong value.
    #[error("cannot set the hyper-parameter `{name}`: expected {expected}, found {found}")]
    Hyperparameter {
        /// The name.
        name: String,
        /// What is expected.
        expected: String,
        /// The value or the name that was given.
        found: String,
    },
    /// The filter of the trained leaves has an unknown path or accepts no leaf.
    #[error("cannot choose the leaves to train: {0}")]
    Filter(TreeError),
    /// The filter of a transformation, such as a weight decay, has an unknown path or accepts no parameter.
    #[error("cannot choose the parameters of a transformation: {0}")]
    Mask(TreeError),
    /// The fields of some parameters do not declare the roles of their axes, which an optimizer with factored mean squares
    /// needs.
    #[error(
        "cannot factor the mean squares of matrices: {0}; or store the whole mean squares: `min_factored_length: None`"
    )]
    Factored(TreeError),
    /// Some parameters are not accepted by the filter of any group.
    #[error(
        "cannot divide the parameters into groups: no filter accepts {}; add the group `(Filter::everything(), set_to_zero())` at the end, or exclude the parameters with `Optimizer::with_filter`",
        paths_of(.paths)
    )]
    NoGroup {
        /// The paths of these parameters.
        paths: Vec<KeyPath>,
    },
    /// Earlier groups take all parameters that the filter of a group accepts.
    #[error(
        "cannot divide the parameters into groups: group {} of {groups} gets no parameter, because earlier groups take all that its filter accepts:{}\na parameter belongs to the first group whose filter accepts it: put group {} before them, or remove it",
        .group + 1, taken_of(.taken), .group + 1
    )]
    EmptyGroup {
        /// The index of the group, starting at 0.
        group: usize,
        /// The number of groups.
        groups: usize,
        /// The parameters that the filter of the group accepts, each with the index of the group that takes it.
        taken: Vec<(KeyPath, usize)>,
    },
    /// The model cannot be rebuilt.
    #[error("cannot update the model: {0}")]
    Tree(#[from] TreeError),
}

pytree_base::debug_as_display!(OptimizerError);

/// A reason why a gradient or a parameter does not match.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GradientProblem {
    /// A trained parameter received no gradient.
    Missing(KeyPath),
    /// A leaf that is not trained received a gradient.
    Frozen(KeyPath),
    /// The gradients have a leaf that the model does not have.
    NoLeaf(KeyPath),
    /// The leaf was a state when the optimizer was created, for example in a frozen module. Now the leaf is a
    /// parameter, and received a gradient.
    ThawedSince(KeyPath),
    /// The leaf was a trained parameter when the optimizer was created. Now the leaf is a state, for example in a
    /// frozen module, and received no gradient.
    FrozenSince(KeyPath),
    /// The shape or dtype of the gradient differs from the shape or dtype of the parameter.
    Shape {
        /// The path of the parameter.
        path: KeyPath,
        /// The dtype and shape of the parameter.
        expected: AbstractArray,
        /// The dtype and shape of the gradient.
        found: AbstractArray,
    },
    /// The shape or dtype of the parameter has changed since the optimizer was created.
    Parameter {
        /// The path of the parameter.
        path: KeyPath,
        /// The dtype and shape that the parameter had when the optimizer was created.
        expected: AbstractArray,
        /// The dtype and shape of the parameter.
        found: AbstractArray,
    },
}

impl GradientProblem {
    /// Returns a text that describes the problem, and a text that describes the fix.
    fn line_and_fix(&self) -> (String, &'static str) {
        match self {
            GradientProblem::Missing(path) => (
                format!("{} received no gradient", path.or_root()),
                "a parameter has no gradient if the loss does not depend on it, or if `.wrt(filter)` excludes it: use the parameter in the loss, freeze it with `Optimizer::with_filter(&model, …, &filter)`, or set its gradient to zero with `.with_missing_gradients(MissingGradients::Zero)`",
            ),
            GradientProblem::Frozen(path) => (
                format!("{} is frozen, but received a gradient", path.or_root()),
                "take the gradient with respect to the leaves that are trained: `.wrt(filter)`, with the filter of the optimizer",
            ),
            GradientProblem::NoLeaf(path) => (
                format!(
                    "{} received a gradient, but is not in the model",
                    path.or_root()
                ),
                "take the gradient of the model that is updated, and change its structure only after the update",
            ),
            GradientProblem::ThawedSince(path) => (
                format!(
                    "{} is a parameter now, but was frozen or a state when the optimizer was made",
                    path.or_root()
                ),
                "make a new optimizer for the current model: `Optimizer::new(&model, …)`; or freeze the parts that were frozen when the optimizer was made",
            ),
            GradientProblem::FrozenSince(path) => (
                format!(
                    "{} is frozen or a state now, but was a parameter when the optimizer was made",
                    path.or_root()
                ),
                "make a new optimizer for the current model: `Optimizer::new(&model, …)`; or unfreeze the parts that were not frozen when the optimizer was made",
            ),
            GradientProblem::Parameter {
                path,
                expected,
                found,
            } => (
                format!(
                    "{} is {found}, but the optimizer was made for {expected}",
                    path.or_root()
                ),
                "make a new optimizer for this model: `Optimizer::new(&model, …)`",
            ),
            GradientProblem::Shape {
                path,
                expected,
                found,
            } => (
                format!(
                    "the gradient at {} is {found}, expected {expected}",
                    path.or_root()
                ),
                "pass the gradient of this model; if the shapes of the model have changed, make a new optimizer",
            ),
        }
    }
}

impl fmt::Display for GradientProblem {
    /// Writes the parameter and the problem.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line_and_fix().0)
    }
}

/// Returns the first paths, separated by commas, and the number of further paths.
fn paths_of(paths: &[KeyPath]) -> String {
    let first: Vec<String> = paths.iter().take(LISTED).map(KeyPath::or_root).collect();
    let text = first.join(", ");
    match paths.len().saturating_sub(LISTED) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// Returns a line for each of the first parameters with the number of the group that takes it.
fn taken_of(taken: &[(KeyPath, usize)]) -> String {
    let mut text = String::new();
    for (path, group) in taken.iter().take(LISTED) {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\n  group {} takes {}", group + 1, path.or_root());
    }
    if taken.len() > LISTED {
        let _ = write!(text, "\n  and {} more", taken.len() - LISTED);
    }
    text
}

/// The maximum number of problems that a message lists. Further problems are only counted.
const LISTED: usize = 20;

fn list(problems: &[GradientProblem]) -> String {
    let mut text = String::new();
    let mut fixes = BTreeSet::new();
    for problem in problems.iter().take(LISTED) {
        let (line, fix) = problem.line_and_fix();
        text.push_str("\n  ");
        text.push_str(&line);
        fixes.insert(fix);
    }
    if problems.len() > LISTED {
        text.push_str("\n  and ");
        text.push_str(&(problems.len() - LISTED).to_string());
        text.push_str(" more");
    }
    for fix in fixes {
        text.push('\n');
        text.push_str(fix);
    }
    text
}
