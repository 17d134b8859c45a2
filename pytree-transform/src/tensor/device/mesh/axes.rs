//! The named axes of a mesh. One device runs for each combination of positions on the axes. A module of StableHLO calls
//! these devices replicas.

use std::fmt;

use pytree_base::lists::Joined;

use crate::base::axis_names::AxisName;

/// The named axes of a mesh with their lengths. One replica runs for each combination of positions on the axes. Between
/// neighbouring replicas, the position on the last axis changes fastest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MeshAxes {
    axes: Vec<(AxisName, usize)>,
}

impl MeshAxes {
    pub(crate) fn new(axes: Vec<(AxisName, usize)>) -> Self {
        Self { axes }
    }

    /// Returns the names and the lengths of the axes.
    pub(crate) fn axes(&self) -> &[(AxisName, usize)] {
        &self.axes
    }

    /// Returns the number of replicas, which is the number of devices.
    pub(crate) fn replicas(&self) -> usize {
        self.axes.iter().map(|(_, length)| length).product()
    }

    /// Returns the length of an axis, and the distance between replicas that are neighbours on the axis.
    pub(crate) fn axis(&self, name: &AxisName) -> Option<(usize, usize)> {
        let position = self.axes.iter().position(|(known, _)| known == name)?;
        let stride = self.axes[position + 1..].iter().map(|(_, length)| length);
        Some((self.axes[position].1, stride.product()))
    }

    /// Returns the groups of replicas that differ only in their positions on the named axes. The replicas of a group
    /// are in the order of their positions. Returns `None` if a name is unknown.
    pub(crate) fn groups(&self, names: &[AxisName]) -> Option<Vec<Vec<usize>>> {
        let axes: Option<Vec<(usize, usize)>> = names.iter().map(|name| self.axis(name)).collect();
        let axes = axes?;
        let is_first = |replica: &usize| {
            axes.iter()
                .all(|&(length, stride)| (replica / stride).is_multiple_of(length))
        };
        let group = |first: usize| {
            let mut members = vec![first];
            for &(length, stride) in &axes {
                members = members
                    .iter()
                    .flat_map(|member| (0..length).map(move |place| member + place * stride))
                    .collect();
            }
            members
        };
        Some((0..self.replicas()).filter(is_first).map(group).collect())
    }
}

/// Displays the axes with their lengths, for instance `data: 4, model: 2`.
impl fmt::Display for MeshAxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes = self.axes.iter();
        Joined(", ", axes.map(|(name, length)| format!("{name}: {length}"))).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> MeshAxes {
        MeshAxes::new(vec![("data".into(), 2), ("model".into(), 3)])
    }

    #[test]
    fn groups_differ_in_named_axes_only() {
        let groups = |names: &[&str]| {
            let names: Vec<AxisName> = names.iter().map(|name| AxisName::from(*name)).collect();
            axes().groups(&names)
        };
        assert_eq!(
            groups(&["data"]).unwrap(),
            [[0, 3], [1, 4], [2, 5]].map(Vec::from)
        );
        assert_eq!(
            groups(&["model"]).unwrap(),
            [[0, 1, 2], [3, 4, 5]].map(Vec::from)
        );
        assert_eq!(
            groups(&["data", "model"]).unwrap(),
            [[0, 1, 2, 3, 4, 5]].map(Vec::from)
        );
        assert_eq!(
            groups(&["model", "data"]).unwrap(),
            [[0, 3, 1, 4, 2, 5]].map(Vec::from)
        );
        assert_eq!(groups(&["time"]), None);
    }

    #[test]
    fn display_lists_names_and_lengths() {
        assert_eq!(axes().to_string(), "data: 2, model: 3");
        assert_eq!(axes().replicas(), 6);
    }
}
