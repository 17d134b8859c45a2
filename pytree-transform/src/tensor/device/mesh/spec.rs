//! The spec of a sharding: for each axis of a tensor, the axes of a mesh that divide it. A spec belongs to no mesh.

use std::fmt;
use std::hash::{Hash, Hasher};

use pytree_base::lists::Tuple;
use smallvec::SmallVec;

use crate::base::axis_names::AxisName;

/// How one axis of a tensor is divided among devices.
///
/// A string is the name of an axis of the mesh. An array or a tuple of strings holds several names, the outermost first.
/// `None` means that the axis is not divided.
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpecAxis {
    /// The axis is divided along these axes of the mesh, the outermost first. If there are no names, the axis is not
    /// divided.
    Along(SmallVec<[AxisName; 1]>),
    /// The compiler chooses how the axis is divided: `PartitionSpec.UNCONSTRAINED` in JAX.
    Unconstrained,
}

impl SpecAxis {
    /// Returns the names of the axes of the mesh that divide the axis.
    pub(crate) fn names(&self) -> &[AxisName] {
        match self {
            Self::Along(names) => names,
            Self::Unconstrained => &[],
        }
    }

    fn of<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let names = names.into_iter();
        Self::Along(names.map(|name| AxisName::from(name.as_ref())).collect())
    }
}

impl fmt::Display for SpecAxis {
    /// Writes, for instance, `"data"`, `("data", "model")` or `None`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unconstrained => f.write_str("Unconstrained"),
            Self::Along(names) => match &names[..] {
                [] => f.write_str("None"),
                [name] => write!(f, "\"{name}\""),
                names => {
                    let names: Vec<String> =
                        names.iter().map(|name| format!("\"{name}\"")).collect();
                    write!(f, "({})", names.join(", "))
                }
            },
        }
    }
}

impl fmt::Debug for SpecAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

pytree_base::conversions! { SpecAxis:
    [] &str, |name| Self::of([name]);
    [] String, |name| Self::of([name]);
    [] &String, |name| Self::of([name]);
    [] Option<&str>, |name| Self::of(name);
    [S: AsRef<str>, const N: usize] [S; N], |names| Self::of(names);
    [A: AsRef<str>, B: AsRef<str>] (A, B),
        |(first, second)| Self::of([first.as_ref(), second.as_ref()]);
}

/// How a tensor is divided among the devices of a mesh: for each axis of the tensor, the axes of the mesh that divide it.
/// Equivalent to `PartitionSpec` in JAX.
///
/// A tuple or an array has a member for each axis of the tensor, in order: the name of an axis of the mesh, several names,
/// or `None`. Axes of the tensor without a member are not divided. A single string divides the first axis. Along an axis
/// of the mesh that the spec does not name, all devices hold the same elements.
///
/// # Examples
/// ```
/// use pytree_transform::device::PartitionSpec;
/// // The first axis is divided along `data`, and the last along `model`.
/// let spec = PartitionSpec::from(("data", None, "model"));
/// assert_eq!(spec.to_string(), r#"("data", None, "model")"#);
/// // Both axes of the mesh divide the first axis of the tensor. `data` is the outer one.
/// let spec = PartitionSpec::from([["data", "model"]]);
/// assert_eq!(spec.to_string(), r#"(("data", "model"),)"#);
/// // All devices hold all elements.
/// assert_eq!(PartitionSpec::from(()).to_string(), "()");
/// ```
///
/// Specs that differ only in members `None` at the end are equal.
#[doc(alias = "jax.sharding.PartitionSpec")]
#[derive(Clone, Default)]
pub struct PartitionSpec(SmallVec<[SpecAxis; 4]>);

impl PartitionSpec {
    /// Returns the members of the spec, one for each of the first axes of a tensor.
    pub fn axes(&self) -> &[SpecAxis] {
        &self.0
    }

    /// Returns the members without those at the end that divide nothing.
    fn dividing(&self) -> &[SpecAxis] {
        let divides = |axis: &SpecAxis| !matches!(axis, SpecAxis::Along(names) if names.is_empty());
        let count = self.0.iter().rposition(divides).map_or(0, |last| last + 1);
        &self.0[..count]
    }

    /// Returns the spec of a batch of tensors with this spec. The compiler chooses how the batch axis is divided.
    pub(crate) fn batched(&self, axis: usize) -> Self {
        let mut axes = self.0.clone();
        let undivided = SpecAxis::Along(SmallVec::new());
        while axes.len() < axis {
            axes.push(undivided.clone());
        }
        axes.insert(axis, SpecAxis::Unconstrained);
        Self(axes)
    }

    /// Returns the first axis of the mesh that the spec names twice.
    pub(crate) fn duplicate(&self) -> Option<&AxisName> {
        let names: SmallVec<[&AxisName; 4]> = self.0.iter().flat_map(SpecAxis::names).collect();
        let mut repeated = names.iter().enumerate();
        repeated.find_map(|(at, name)| names[..at].contains(name).then_some(*name))
    }
}

impl PartialEq for PartitionSpec {
    fn eq(&self, other: &Self) -> bool {
        self.dividing() == other.dividing()
    }
}

impl Eq for PartitionSpec {}

impl Hash for PartitionSpec {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.dividing().hash(hasher);
    }
}

impl FromIterator<SpecAxis> for PartitionSpec {
    fn from_iter<I: IntoIterator<Item = SpecAxis>>(axes: I) -> Self {
        Self(axes.into_iter().collect())
    }
}

impl fmt::Display for PartitionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Tuple(&self.0).fmt(f)
    }
}

impl fmt::Debug for PartitionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartitionSpec{self}")
    }
}

pytree_base::conversions! { PartitionSpec:
    [] (), |()| Self::default();
    [] &Self, |spec| spec.clone();
    [] &str, |name| Self::from_iter([name.into()]);
    [A: Into<SpecAxis>, const N: usize] [A; N], |axes| axes.into_iter().map(Into::into).collect();
    [A: Into<SpecAxis>] Vec<A>, |axes| axes.into_iter().map(Into::into).collect();
}

macro_rules! tuples {
    ($(($($name:ident),+))*) => {$(
        impl<$($name: Into<SpecAxis>),+> From<($($name,)+)> for PartitionSpec {
            fn from(($($name,)+): ($($name,)+)) -> Self {
                Self::from_iter([$($name.into()),+])
            }
        }
    )*};
}
#[allow(non_snake_case, reason = "the type parameters name the members")]
mod tuples {
    use super::{PartitionSpec, SpecAxis};
    tuples! { (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn specs_are_written_like_tuples() {
        let shown = |spec: PartitionSpec| spec.to_string();
        assert_eq!(shown("data".into()), r#"("data",)"#);
        assert_eq!(shown((None, "model").into()), r#"(None, "model")"#);
        assert_eq!(
            shown((("data", "model"), None).into()),
            r#"(("data", "model"), None)"#
        );
        assert_eq!(shown(["data", "model"].into()), r#"("data", "model")"#);
    }

    #[test]
    fn undivided_axes_at_the_end_make_no_difference() {
        let rows = PartitionSpec::from(("data", None));
        assert_eq!(rows, "data".into());
        assert_eq!(PartitionSpec::from((None, None)), ().into());
        assert_ne!(PartitionSpec::from((None, "data")), "data".into());
        assert_ne!(PartitionSpec::default().batched(0), ().into());
        let specs = HashSet::from([rows, "data".into()]);
        assert_eq!(specs.len(), 1);
    }

    #[test]
    fn repeated_name_is_found() {
        let spec = PartitionSpec::from((("data", "model"), "data"));
        assert_eq!(spec.duplicate().map(|name| &**name), Some("data"));
        assert_eq!(PartitionSpec::from(("data", "model")).duplicate(), None);
    }

    #[test]
    fn batch_axis_is_unconstrained() {
        let spec = PartitionSpec::from(("data",));
        assert_eq!(spec.batched(0).to_string(), r#"(Unconstrained, "data")"#);
        assert_eq!(
            spec.batched(2).to_string(),
            r#"("data", None, Unconstrained)"#
        );
    }
}
