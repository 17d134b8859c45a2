//! A picture of the division of a tensor among the devices of a mesh, as text.

use std::fmt::Write as _;

use super::sharding::Sharding;
use crate::tensor::device::placement::described;
use crate::tensor::handle::Tensor;

/// Returns a picture of the parts of a tensor on a [`Mesh`](crate::device::Mesh), with the numbers of the devices that hold
/// each part. Between neighbouring devices, the position on the last axis of the mesh changes fastest.
///
/// A matrix is drawn with its first axis downwards. For a tensor with more axes, the last two divided axes are drawn, with
/// one picture for each position along the others. Equivalent to `jax.debug.visualize_array_sharding`.
///
/// # Examples
/// A tensor on the host has one part:
/// ```
/// use pytree_transform::Tensor;
/// use pytree_transform::device::visualize_sharding;
/// assert_eq!(visualize_sharding(&Tensor::from([1.0_f32, 2.0])), "f32[2] on host\n");
/// ```
/// A matrix on a mesh with the axes `data` and `model` of length 2:
/// ```text
/// f32[8,6] on cpu mesh (data: 2, model: 2), divided by ("data", "model")
/// ┌───────┬───────┐
/// │   0   │   1   │
/// ├───────┼───────┤
/// │   2   │   3   │
/// └───────┴───────┘
/// ```
///
/// # Panics
/// Panics if the tensor is traced, because only the compiler knows how intermediate values are divided.
#[doc(alias = "jax.debug.visualize_array_sharding")]
#[must_use]
#[track_caller]
pub fn visualize_sharding(tensor: &Tensor) -> String {
    let mut text = described(tensor);
    assert!(
        !tensor.is_traced(),
        "cannot visualize the sharding of a traced {}: return the tensor from the function, and visualize the result",
        tensor.info()
    );
    let Some(sharding) = tensor.sharding() else {
        text.push('\n');
        return text;
    };
    let _ = writeln!(text, ", divided by {}", sharding.spec());
    let divided: Vec<usize> = (0..tensor.rank())
        .filter(|&axis| sharding.parts(axis) > 1)
        .collect();
    let drawn = match &divided[..] {
        _ if tensor.rank() == 1 => [None, Some(0)],
        _ if tensor.rank() == 2 => [Some(0), Some(1)],
        [] => [None, None],
        [only] => [None, Some(*only)],
        [.., rows, columns] => [Some(*rows), Some(*columns)],
    };
    let others: Vec<usize> = divided
        .into_iter()
        .filter(|axis| !drawn.contains(&Some(*axis)))
        .collect();
    if tensor.rank() > 2 {
        let axes = drawn.iter().flatten().map(usize::to_string);
        let axes: Vec<String> = axes.collect();
        if !axes.is_empty() {
            let plural = if axes.len() == 1 { "axis" } else { "axes" };
            let _ = writeln!(text, "{plural} {}", axes.join(" and "));
        }
    }
    let counts: Vec<usize> = others.iter().map(|&axis| sharding.parts(axis)).collect();
    for number in 0..counts.iter().product() {
        let mut rest = number;
        let mut place = vec![0; others.len()];
        for (at, count) in counts.iter().enumerate().rev() {
            place[at] = rest % count;
            rest /= count;
        }
        for (axis, position) in others.iter().zip(&place) {
            let _ = writeln!(text, "part {position} of axis {axis}");
        }
        let fixed: Vec<(usize, usize)> = others.iter().copied().zip(place).collect();
        draw(&mut text, sharding, drawn, &fixed);
    }
    text
}

/// Draws the parts along two axes. `fixed` has the positions along the other divided axes.
fn draw(
    text: &mut String,
    sharding: &Sharding,
    drawn: [Option<usize>; 2],
    fixed: &[(usize, usize)],
) {
    let [rows, columns] = drawn.map(|axis| axis.map_or(1, |axis| sharding.parts(axis)));
    let is_at = |device: usize, axis: Option<usize>, position: usize| {
        axis.is_none_or(|axis| sharding.position(device, axis) == position)
    };
    let cell = |row: usize, column: usize| {
        let devices = (0..sharding.devices()).filter(|&device| {
            is_at(device, drawn[0], row)
                && is_at(device, drawn[1], column)
                && fixed
                    .iter()
                    .all(|&(axis, at)| is_at(device, Some(axis), at))
        });
        devices
            .map(|device| device.to_string())
            .collect::<Vec<_>>()
            .join(",")
    };
    let cells: Vec<Vec<String>> = (0..rows)
        .map(|row| (0..columns).map(|column| cell(row, column)).collect())
        .collect();
    let width = cells
        .iter()
        .flatten()
        .map(String::len)
        .max()
        .unwrap_or_default()
        + 6;
    let line = |text: &mut String, [first, between, last]: [&str; 3]| {
        let parts = vec!["─".repeat(width); columns];
        let _ = writeln!(text, "{first}{}{last}", parts.join(between));
    };
    line(text, ["┌", "┬", "┐"]);
    for (row, cells) in cells.iter().enumerate() {
        if row > 0 {
            line(text, ["├", "┼", "┤"]);
        }
        let cells = cells.iter().map(|cell| format!("{cell:^width$}"));
        let _ = writeln!(text, "│{}│", cells.collect::<Vec<_>>().join("│"));
    }
    line(text, ["└", "┴", "┘"]);
}
