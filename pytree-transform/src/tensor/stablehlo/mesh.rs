//! The replicas of a module. One replica runs for each combination of positions on the named axes.

use std::fmt::Write as _;

use crate::base::axis_names::AxisName;

/// The named axes of collectives. One replica runs for each combination of positions on the axes. Between neighbouring
/// replicas, the position on the last axis changes fastest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mesh {
    axes: Vec<(AxisName, usize)>,
}

impl Mesh {
    pub(super) fn new(axes: Vec<(AxisName, usize)>) -> Self {
        Self { axes }
    }

    /// Returns the names and the lengths of the axes.
    pub(super) fn axes(&self) -> &[(AxisName, usize)] {
        &self.axes
    }

    pub(super) fn replicas(&self) -> usize {
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

/// Displays lists of the same length as an attribute, for instance `dense<[[0, 1]]> : tensor<1x2xi64>`.
pub(crate) fn table(rows: &[Vec<usize>]) -> String {
    let width = rows.first().map_or(0, Vec::len);
    let rows_text: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    let mut text = format!("dense<[{}]>", rows_text.join(", "));
    if rows.is_empty() {
        "dense<>".clone_into(&mut text);
    }
    let _ = write!(text, " : tensor<{}x{width}xi64>", rows.len());
    text
}
