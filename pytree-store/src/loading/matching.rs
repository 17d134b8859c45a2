//! Matches the leaves of a template with the tensors of a file, or lists all differences.

use std::collections::BTreeMap;

use pytree_base::suggest::Effort;
use pytree_core::{ArrayInfo, ElementType};
use safetensors::tensor::TensorInfo;

use crate::format::bytes::{dtype_name, dtype_of, is_float, stored_dtype};
use crate::loading::options::LoadOptions;
use crate::loading::reading::{Plan, Reading, TargetLeaf};
use crate::names::weight_names::Place;
use crate::report::guess::{Names, OtherPrefix};
use crate::report::load_report::{Converted, LoadReport};
use crate::report::mismatch::{AxisMismatch, Mismatch};
use pytree_core::axes;

/// All leaves that differ between a file and its template, and the prefix whose replacement resolves most differences.
pub(crate) type Refused = (Vec<Mismatch>, Option<OtherPrefix>);

/// The leaves of a template.
pub(crate) struct Template<'t> {
    /// The names of the leaves.
    pub(crate) names: &'t [String],
    /// Where the file has the leaves.
    pub(crate) places: Vec<Place>,
    pub(crate) leaves: &'t [ArrayInfo],
}

/// A tensor of the file under its new name.
struct Found {
    stored: String,
    info: TensorInfo,
}

impl Template<'_> {
    /// Returns what must be read from the file and the report of the load, or all mismatches. `axes` returns the named
    /// axes of the leaves.
    pub(crate) fn matched(
        mut self,
        axes: impl Fn() -> Vec<Option<Vec<String>>>,
        file: BTreeMap<String, TensorInfo>,
        options: &LoadOptions<'_>,
    ) -> Result<(Plan, LoadReport), Refused> {
        let mut problems = Vec::new();
        let mut report = LoadReport::default();
        let mut found = found(file, options, &mut report, &mut problems);
        for place in &mut self.places {
            if let Some(first) = options.first_name(&place.file) {
                place.file = first;
            }
        }
        let mut plan = Plan::new();
        let mut used = Vec::new();
        let mut missing = Vec::new();
        let mut axes_of: Option<Vec<Option<Vec<String>>>> = None;
        for group in self.groups() {
            let file_name = &self.places[group[0]].file;
            let Some(entry) = found.get(file_name) else {
                missing.extend(group);
                continue;
            };
            let entry_name = entry.stored.clone();
            used.push(file_name.clone());
            if let Some(reading) = self.reading(&group, entry, options, &mut report) {
                for added in &self.places[group[0]].added {
                    used.push(added.clone());
                    match found.get(added) {
                        Some(other) if is_alike(entry, other) => {
                            let readings = plan.entry(other.stored.clone()).or_default();
                            readings.push(reading.clone());
                        }
                        Some(other) => {
                            let axes = axes_of.get_or_insert_with(&axes);
                            problems.extend(self.differences(&group, other, axes, options));
                        }
                        None => problems.push(Mismatch::Missing {
                            name: self.names[group[0]].clone(),
                            expected: self.leaves[group[0]].clone(),
                            nearest: None,
                            stored: Some(added.clone()),
                        }),
                    }
                }
                plan.entry(entry_name).or_default().push(reading);
            } else {
                let axes = axes_of.get_or_insert_with(&axes);
                problems.extend(self.differences(&group, entry, axes, options));
            }
        }
        for name in used {
            found.remove(&name);
        }
        missing.sort_unstable();
        let (missing, unused, prefix) = self.left_over(&missing, &found);
        let is_error = |allowed: bool, mismatches: &[Mismatch]| !allowed && !mismatches.is_empty();
        if !problems.is_empty()
            || is_error(options.may_miss, &missing)
            || is_error(options.may_not_use, &unused)
        {
            // The error also lists missing and unused leaves that are allowed, because they may explain other mismatches.
            let rules = options.unused_rules(self.names);
            let mismatches = missing.into_iter().chain(unused).chain(rules);
            let mismatches = mismatches.chain(problems);
            return Err((mismatches.collect(), prefix));
        }
        // The leaves are matched by their names in the file, and reported in their order in the model.
        let order: BTreeMap<&str, usize> = self.names.iter().map(String::as_str).zip(0..).collect();
        let position = |name: &String| order.get(name.as_str()).copied();
        report.applied.sort_by_key(position);
        report.transposed.sort_by_key(position);
        report.converted.sort_by_key(|leaf| position(&leaf.name));
        (report.missing, report.unused) = (missing, unused);
        report.unused_rules = options.unused_rules(self.names);
        Ok((plan, report))
    }

    /// Returns the positions of the leaves that are one tensor in the file, in the order of the parts.
    fn groups(&mut self) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut fused: BTreeMap<(&str, usize), usize> = BTreeMap::new();
        for (leaf, place) in self.places.iter().enumerate() {
            let (_, parts) = place.part;
            if parts == 1 {
                groups.push(vec![leaf]);
                continue;
            }
            let group = *fused.entry((&place.file, parts)).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push(leaf);
        }
        for group in &mut groups {
            group.sort_by_key(|&leaf| self.places[leaf].part.0);
        }
        groups
    }

    /// Returns the shape that the file must have for a group of leaves. `None` if parts are absent or do not fit each other.
    fn file_shape(&self, group: &[usize]) -> Option<Vec<usize>> {
        let first = &self.places[group[0]];
        let mut shape = first.arrangement.file_shape();
        let axis = first.arrangement.outputs();
        let (_, parts) = first.part;
        if parts == 1 {
            return Some(shape);
        }
        for (expected, &leaf) in group.iter().enumerate() {
            let place = &self.places[leaf];
            let mut other = place.arrangement.file_shape();
            let fits = place.part.0 == expected
                && other.len() == shape.len()
                && place.arrangement.outputs() == axis;
            if !fits {
                return None;
            }
            if expected > 0 {
                let length = *other.get(axis)?;
                let sum = shape[axis] + length;
                other[axis] = shape[axis];
                if other != shape {
                    return None;
                }
                shape[axis] = sum;
            }
        }
        (group.len() == parts).then_some(shape)
    }

    /// Returns how a group of leaves is read. `None` if shapes or dtypes differ.
    fn reading(
        &self,
        group: &[usize],
        found: &Found,
        options: &LoadOptions<'_>,
        report: &mut LoadReport,
    ) -> Option<Reading> {
        let dtype = self.leaves[group[0]].element;
        let stored = found.info.dtype;
        let is_same = stored_dtype(dtype) == Some(stored);
        let converts = options.converts && is_float(stored) && dtype.is_float();
        let has_dtype = |leaf: &usize| self.leaves[*leaf].element == dtype;
        if !group.iter().all(has_dtype)
            || !(is_same || converts)
            || self.file_shape(group)? != found.info.shape
        {
            return None;
        }
        let mut parts = Vec::with_capacity(group.len());
        for &leaf in group {
            let arrangement = self.places[leaf].arrangement.clone();
            let name = &self.names[leaf];
            if !arrangement.is_same() {
                report.transposed.push(name.clone());
            }
            if !is_same {
                report.converted.push(Converted {
                    name: name.clone(),
                    from: dtype_name(stored),
                    to: dtype,
                });
            }
            report.applied.push(name.clone());
            let shape = self.leaves[leaf].shape.clone();
            parts.push(TargetLeaf {
                leaf,
                shape,
                arrangement,
            });
        }
        Some(Reading { dtype, parts })
    }

    /// Lists the leaves of a group, whose shape or dtype differs from that of the file.
    fn differences(
        &self,
        group: &[usize],
        found: &Found,
        axes: &mut [Option<Vec<String>>],
        options: &LoadOptions<'_>,
    ) -> Vec<Mismatch> {
        let whole = self.file_shape(group);
        let differences = group.iter().map(|&leaf| {
            let (place, expected) = (&self.places[leaf], &self.leaves[leaf]);
            let axes = axes.get_mut(leaf).and_then(Option::take);
            let lengths = match (&axes, place.part) {
                (Some(axes), (_, 1)) => {
                    other_lengths(axes, place, &expected.shape, &found.info.shape)
                }
                _ => Vec::new(),
            };
            let in_file = whole
                .as_ref()
                .filter(|shape| shape[..] != expected.shape[..]);
            Mismatch::Different {
                name: self.names[leaf].clone(),
                expected: expected.clone(),
                found: described(&found.info),
                axes,
                lengths,
                stored: (found.stored != self.names[leaf]).then(|| found.stored.clone()),
                stored_shape: in_file.cloned(),
                layout: options.library(),
                hint: hint(expected.element, whole.as_deref(), &found.info),
            }
        });
        differences.collect()
    }

    /// Returns the leaves that are only in the template, the leaves that are only in the file, and the prefix of names
    /// whose replacement makes most of these leaves match.
    fn left_over(
        &self,
        missing: &[usize],
        found: &BTreeMap<String, Found>,
    ) -> (Vec<Mismatch>, Vec<Mismatch>, Option<OtherPrefix>) {
        let file_name = |leaf: usize| self.places[leaf].file.as_str();
        let left = Names::new(found.keys().map(String::as_str));
        let absent = Names::new(missing.iter().map(|&leaf| file_name(leaf)));
        let prefix = OtherPrefix::find(&left, &absent);
        let mut effort = Effort::default();
        let missing = missing.iter().map(|&leaf| {
            let (name, expected) = (&self.names[leaf], file_name(leaf));
            Mismatch::Missing {
                name: name.clone(),
                expected: self.leaves[leaf].clone(),
                nearest: match prefix.as_ref().and_then(|prefix| prefix.stored(expected)) {
                    Some(stored) if left.contains(&stored) => Some(stored),
                    _ => left.nearest(expected, &mut effort),
                },
                stored: (expected != name).then(|| expected.to_owned()),
            }
        });
        let missing: Vec<Mismatch> = missing.collect();
        let unused = found.iter().map(|(name, found)| Mismatch::Unexpected {
            name: name.clone(),
            found: described(&found.info),
            nearest: match prefix.as_ref().and_then(|prefix| prefix.expected(name)) {
                Some(expected) if absent.contains(&expected) => Some(expected),
                _ => absent.nearest(name, &mut effort),
            },
        });
        let unused: Vec<Mismatch> = unused.collect();
        (missing, unused, prefix)
    }
}

/// Returns the tensors of a file by their new names. A tensor that has two names is there once, under the first.
fn found(
    file: BTreeMap<String, TensorInfo>,
    options: &LoadOptions<'_>,
    report: &mut LoadReport,
    problems: &mut Vec<Mismatch>,
) -> BTreeMap<String, Found> {
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    let mut twins = Vec::new();
    for (stored, info) in file {
        let name = options.renamed(stored.clone());
        if options.ignores(&name) {
            report.ignored.push(stored);
            continue;
        }
        let entry = Found { stored, info };
        if let Some(first) = options.first_name(&name) {
            twins.push((first, entry));
            continue;
        }
        let stored = entry.stored.clone();
        if let Some(other) = found.insert(name.clone(), entry) {
            problems.push(Mismatch::SameName {
                name,
                stored: [other.stored, stored],
            });
        }
    }
    for (first, twin) in twins {
        let Some(known) = found.get(&first) else {
            found.insert(first, twin);
            continue;
        };
        let stored = [known.stored.clone(), twin.stored.clone()];
        if is_alike(known, &twin) {
            report.tied.push(stored);
        } else {
            problems.push(Mismatch::NotTied { stored });
        }
    }
    found
}

/// Returns whether two tensors of a file have the same dtype and shape.
fn is_alike(one: &Found, other: &Found) -> bool {
    one.info.dtype == other.info.dtype && one.info.shape == other.info.shape
}

/// Returns the named axes whose lengths differ. Returns an empty list if the two shapes have different ranks.
fn other_lengths(
    axes: &[String],
    place: &Place,
    expected: &[usize],
    found: &[usize],
) -> Vec<AxisMismatch> {
    let names = axes::names(axes, expected.len()).unwrap_or_default();
    let Some(names) = place.arrangement.file_axes(&names) else {
        return Vec::new();
    };
    let expected = place.arrangement.file_shape();
    if expected.len() != found.len() {
        return Vec::new();
    }
    let lengths = names.into_iter().zip(expected.iter().zip(found));
    let different = lengths.filter(|(_, (expected, found))| expected != found);
    let mismatches = different.filter_map(|(name, (&expected, &found))| {
        Some(AxisMismatch {
            axis: name?.to_owned(),
            expected,
            found,
        })
    });
    mismatches.collect()
}

/// Returns what the user can do about a leaf that differs.
fn hint(dtype: ElementType, expected: Option<&[usize]>, found: &TensorInfo) -> Option<String> {
    let expected = expected?;
    if expected == found.shape {
        let can_convert = dtype.is_float() && is_float(found.dtype);
        return Some(match can_convert {
            true => "convert it with `LoadOptions::convert_floats`".to_owned(),
            false if dtype_of(found.dtype).is_none() => {
                format!("this library has no dtype {}", dtype_name(found.dtype))
            }
            false => return None,
        });
    }
    let sorted = |shape: &[usize]| {
        let mut shape = shape.to_vec();
        shape.sort_unstable();
        shape
    };
    if expected.len() > 1 && sorted(expected) == sorted(&found.shape) {
        let text = match expected.len() {
            2 => "its transpose has this shape",
            _ => "it has these lengths in another order",
        };
        return Some(format!(
            "{text}: load it with the names and layouts of its library, by `LoadOptions::names`, or set its layout with `WeightNames::layout`"
        ));
    }
    None
}

/// Returns the dtype and the shape of a stored tensor as text, for example `f32[2,3]`.
pub(crate) fn described(info: &TensorInfo) -> String {
    format!("{}{:?}", dtype_name(info.dtype), info.shape).replace(' ', "")
}
