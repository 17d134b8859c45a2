//! Checks that the parts of a tensor are a grid: they neither overlap nor leave gaps.
//!
//! The parts that a mesh writes are always a grid. So the check needs no general geometry, and its work grows like a sort of
//! the parts.

use std::ops::Range;

/// Returns the defect of the parts of a tensor, and the position of a part at fault, if there is one. Each part has a range for
/// each axis, and lies inside of the tensor.
pub(crate) fn defect(
    shape: &[usize],
    parts: &[&[Range<usize>]],
) -> Option<(Option<usize>, String)> {
    if shape.contains(&0) {
        return None;
    }
    // The first positions of parts on each axis. In a grid, a part ends where the next begins.
    let mut starts: Vec<Vec<usize>> = Vec::with_capacity(shape.len());
    for axis in 0..shape.len() {
        let mut own: Vec<usize> = parts.iter().map(|part| part[axis].start).collect();
        own.sort_unstable();
        own.dedup();
        if own.first() != Some(&0) {
            let end = own.first().copied().unwrap_or(shape[axis]);
            let gap = format!("no file has the positions {:?} of axis {axis}", 0..end);
            return Some((None, gap));
        }
        starts.push(own);
    }
    let mut cells: Vec<(Vec<usize>, usize)> = Vec::with_capacity(parts.len());
    for (number, part) in parts.iter().enumerate() {
        let mut cell = Vec::with_capacity(shape.len());
        for (axis, range) in part.iter().enumerate() {
            let at = starts[axis].partition_point(|&start| start < range.start);
            let end = starts[axis].get(at + 1).copied().unwrap_or(shape[axis]);
            if range.end < end {
                let gap = format!(
                    "no file has the positions {:?} of axis {axis} after this part",
                    range.end..end
                );
                return Some((Some(number), gap));
            }
            if range.end > end {
                let overlap = format!(
                    "it overlaps another part, which begins at position {end} of axis {axis}"
                );
                return Some((Some(number), overlap));
            }
            cell.push(at);
        }
        cells.push((cell, number));
    }
    cells.sort_unstable();
    for pair in cells.windows(2) {
        if pair[0].0 == pair[1].0 {
            return Some((
                Some(pair[1].1),
                "another part has the same place".to_owned(),
            ));
        }
    }
    missing(shape, &starts, &cells)
}

/// Returns the first cell of the grid that no part has. `cells` are the sorted cells of the parts, each once.
fn missing(
    shape: &[usize],
    starts: &[Vec<usize>],
    cells: &[(Vec<usize>, usize)],
) -> Option<(Option<usize>, String)> {
    let mut expected = vec![0; shape.len()];
    for (cell, _) in cells {
        if *cell != expected {
            break;
        }
        // Advances to the next cell, the last axis first.
        let mut axis = shape.len();
        loop {
            if axis == 0 {
                return None;
            }
            axis -= 1;
            expected[axis] += 1;
            if expected[axis] < starts[axis].len() {
                break;
            }
            expected[axis] = 0;
        }
    }
    let ranges = expected
        .iter()
        .zip(starts)
        .zip(shape)
        .map(|((&at, starts), &length)| {
            let end = starts.get(at + 1).copied().unwrap_or(length);
            format!("{}:{end}", starts[at])
        });
    let ranges = ranges.collect::<Vec<_>>().join(",");
    Some((None, format!("no file has its part [{ranges}]")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(shape: &[usize], parts: &[&[Range<usize>]]) -> Option<String> {
        defect(shape, parts).map(|(_, defect)| defect)
    }

    #[test]
    fn grids_are_accepted() {
        assert_eq!(found(&[], &[&[]]), None);
        assert_eq!(found(&[0, 2], &[]), None);
        let halves = [2..4, 0..2].map(|half| vec![half]);
        assert_eq!(found(&[4], &[&halves[0], &halves[1]]), None);
        let grid: [&[Range<usize>]; 4] =
            [&[0..1, 3..6], &[1..4, 0..3], &[0..1, 0..3], &[1..4, 3..6]];
        assert_eq!(found(&[4, 6], &grid), None);
    }

    #[test]
    #[allow(
        clippy::single_range_in_vec_init,
        reason = "a part has a range for each axis"
    )]
    fn gaps_and_overlaps_are_found() {
        let gap = found(&[], &[]).unwrap();
        assert_eq!(gap, "no file has its part []");
        let gap = found(&[4], &[&[2..4]]).unwrap();
        assert_eq!(gap, "no file has the positions 0..2 of axis 0");
        let gap = found(&[4], &[&[0..3]]).unwrap();
        assert_eq!(
            gap,
            "no file has the positions 3..4 of axis 0 after this part"
        );
        let gap = found(&[4, 4], &[&[0..2, 0..2], &[0..2, 2..4], &[2..4, 0..2]]).unwrap();
        assert_eq!(gap, "no file has its part [2:4,2:4]");
        let overlap = found(&[4], &[&[0..3], &[2..4]]).unwrap();
        assert_eq!(
            overlap,
            "it overlaps another part, which begins at position 2 of axis 0"
        );
        let twice = found(&[4], &[&[0..4], &[0..4]]).unwrap();
        assert_eq!(twice, "another part has the same place");
    }
}
