//! The differences between a checkpoint and its template, and their texts.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use pytree_core::ArrayInfo;

use crate::report::guess::OtherPrefix;

/// A leaf that differs between a checkpoint and its template.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// The leaf is in the template but not in the file.
    Missing {
        /// The name of the leaf.
        name: String,
        /// The dtype and shape in the template.
        expected: ArrayInfo,
        /// The most similar name that only the file has.
        nearest: Option<String>,
        /// The name that the leaf must have in the file, if it differs from `name`.
        stored: Option<String>,
    },
    /// The leaf is in the file but not in the template.
    Unexpected {
        /// The name of the leaf.
        name: String,
        /// The dtype and shape in the file.
        found: String,
        /// The most similar name that only the template has.
        nearest: Option<String>,
    },
    /// The value of a static field in the file is not one of the field in the template.
    Static(StaticMismatch),
    /// Two leaves of the file are renamed to the same name.
    SameName {
        /// The new name of both leaves.
        name: String,
        /// The names of the two leaves in the file.
        stored: [String; 2],
    },
    /// The file has two tensors that [`WeightNames::tied`](crate::checkpoint::WeightNames::tied) names, and they differ.
    NotTied {
        /// The names of the two tensors in the file.
        stored: [String; 2],
    },
    /// A rule of [`WeightNames`](crate::checkpoint::WeightNames) matches no leaf of the template. This is not an error
    /// in itself, but may explain other mismatches.
    UnusedRule {
        /// The path in the file.
        file: String,
        /// The path in the template, or the paths of the parts.
        model: String,
    },
    /// The file has names of PyTorch, and is loaded without [`LoadOptions::names`](crate::checkpoint::LoadOptions::names). This
    /// explains other mismatches.
    PyTorchNames {
        /// What files of PyTorch have.
        sign: String,
    },
    /// The shape or the dtype of the leaf in the file differs from its shape or dtype in the template.
    Different {
        /// The name of the leaf.
        name: String,
        /// The dtype and shape in the template.
        expected: ArrayInfo,
        /// The dtype and shape in the file.
        found: String,
        /// The named axes of the leaf in the template, if its module declares them.
        axes: Option<Vec<String>>,
        /// The named axes whose lengths differ.
        lengths: Vec<AxisMismatch>,
        /// The name of the leaf in the file, if it differs from `name`.
        stored: Option<String>,
        /// The shape that the tensor in the file must have, if it differs from the shape in the template.
        stored_shape: Option<Vec<usize>>,
        /// The library whose layout has `stored_shape`, as `PyTorch's`, if `LoadOptions::names` names one.
        layout: Option<String>,
        /// What the user can do.
        hint: Option<String>,
    },
}

/// A named axis whose length in a checkpoint differs from its length in the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AxisMismatch {
    /// The name of the axis, or the computation of its length.
    pub axis: String,
    /// The length in the template.
    pub expected: usize,
    /// The length in the file.
    pub found: usize,
}

/// The value in a checkpoint of a field with `#[r#static(saved)]`, which is not one of the field in the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticMismatch {
    /// The name of the field.
    pub name: String,
    /// The type of the field.
    pub expected: &'static str,
    /// The value in the file, as JSON.
    pub found: String,
    /// The error of serde.
    pub problem: String,
}

impl fmt::Display for StaticMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, found, problem] = [&self.name, &self.found, &self.problem].map(|it| shown(it));
        let expected = self.expected;
        write!(
            f,
            "{name}: expected a value of `{expected}`, found {found} in the file: {problem}"
        )
    }
}

impl fmt::Display for AxisMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            axis,
            expected,
            found,
        } = self;
        write!(
            f,
            "{axis} is {found} in the file and {expected} in the model"
        )
    }
}

impl fmt::Display for Mismatch {
    /// Writes the name of the leaf, the values in the template and in the file, and the most similar name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suggestion = |nearest: &Option<String>| match nearest {
            Some(name) => format!("; did you mean {}?", shown(name)),
            None => String::new(),
        };
        let line = match self {
            Mismatch::Missing {
                name,
                expected,
                nearest,
                stored,
            } => {
                let absent = match stored {
                    Some(stored) => format!("`{}`", shown(stored)),
                    None => "leaf with this name".to_owned(),
                };
                format!(
                    "{}: expected {expected}, but the file has no {absent}{}",
                    shown(name),
                    suggestion(nearest)
                )
            }
            Mismatch::Unexpected {
                name,
                found,
                nearest,
            } => {
                format!(
                    "{}: found {found}, but the template has no leaf with this name{}",
                    shown(name),
                    suggestion(nearest)
                )
            }
            Mismatch::Static(mismatch) => mismatch.to_string(),
            Mismatch::SameName {
                name,
                stored: [first, second],
            } => {
                let (name, first, second) = (shown(name), shown(first), shown(second));
                format!("{name}: {first} and {second} are both renamed to this name")
            }
            Mismatch::NotTied {
                stored: [first, second],
            } => {
                let (first, second) = (shown(first), shown(second));
                format!(
                    "`{first}` and `{second}` differ, although `WeightNames::tied` says that they are the same: load them into two leaves"
                )
            }
            Mismatch::UnusedRule { file, model } => {
                format!(
                    "the template has no leaf at {model}, to which `WeightNames` give the path `{file}` in the file"
                )
            }
            Mismatch::PyTorchNames { sign } => {
                format!(
                    "the file has {sign}, as files of PyTorch have: load it with `LoadOptions::new().names(WeightNames::pytorch())`"
                )
            }
            Mismatch::Different {
                name,
                expected,
                found,
                axes,
                lengths,
                stored,
                stored_shape,
                layout,
                hint,
            } => {
                let mut line = format!("{} is {found} in the file", shown(name));
                if let Some(stored) = stored {
                    let _ = write!(line, " as `{}`", shown(stored));
                }
                line.push_str(", expected ");
                if let Some(axes) = axes {
                    let _ = write!(line, "[{}] = ", axes.join(" "));
                }
                let _ = write!(line, "{expected}");
                if let Some(shape) = stored_shape {
                    let _ = write!(
                        line,
                        ", which in {} layout is {}",
                        layout.as_deref().unwrap_or("the file's"),
                        ArrayInfo {
                            element: expected.element,
                            shape
                        }
                    );
                }
                for (position, length) in lengths.iter().enumerate() {
                    let before = if position == 0 { ": " } else { ", " };
                    let _ = write!(line, "{before}{length}");
                }
                if let Some(hint) = hint {
                    let _ = write!(line, "; {hint}");
                }
                line
            }
        };
        f.write_str(&line)
    }
}

/// The maximum number of mismatches that a message lists. Further mismatches are only counted.
const LISTED: usize = 20;

/// The maximum number of characters of a name that a message shows.
const SHOWN: usize = 200;

/// Returns a name for a message. A long name is shortened in the middle.
fn shown(name: &str) -> Cow<'_, str> {
    let boundary = |index: usize| name.char_indices().nth(index).map(|(at, _)| at);
    let Some(_) = boundary(SHOWN) else {
        return Cow::Borrowed(name);
    };
    let start = &name[..boundary(SHOWN / 2).unwrap_or(0)];
    let end = name.char_indices().rev().nth(SHOWN / 2 - 1);
    let end = end.map_or("", |(at, _)| &name[at..]);
    Cow::Owned(format!("{start}…{end}"))
}

/// Returns what the user can do about the mismatches.
pub(super) fn advice(mismatches: &[Mismatch]) -> String {
    let mut text = match mismatches.iter().find_map(other_schedule) {
        Some(place) => format!(
            "the file has another kind of schedule at `{}`: make the optimizer with the kind that was saved, and change it \
             after the load with `Optimizer::set_learning_rate`; or ",
            shown(place)
        ),
        None => String::new(),
    };
    text += "load it into a model with the saved structure, rename leaves with `LoadOptions::rename_with`, ";
    let has = |wanted: fn(&Mismatch) -> bool| mismatches.iter().any(wanted);
    if has(|mismatch| matches!(mismatch, Mismatch::Missing { .. })) {
        text.push_str("keep the template's values of missing leaves with `allow_missing()`, ");
    }
    if has(|mismatch| matches!(mismatch, Mismatch::Unexpected { .. })) {
        text.push_str("ignore unused leaves of the file with `allow_unused()`, or single leaves with `WeightNames::ignore`, ");
    }
    text.push_str("name the library that wrote the file with `LoadOptions::names`, or list the leaves of the file with `inspect`");
    text
}

/// Returns the path of the schedule if a leaf of a schedule is only in the file or only in the template.
fn other_schedule(mismatch: &Mismatch) -> Option<&str> {
    let (Mismatch::Missing { name, .. } | Mismatch::Unexpected { name, .. }) = mismatch else {
        return None;
    };
    let (schedule, _) = name.split_once(".function.")?;
    schedule.contains("steps[").then_some(schedule)
}

pub(super) fn prefixed(prefix: Option<&OtherPrefix>) -> String {
    prefix.map_or_else(String::new, |prefix| format!(" {prefix}"))
}

pub(super) fn list<'m>(
    mismatches: impl IntoIterator<Item = &'m Mismatch, IntoIter: Clone>,
) -> String {
    let mut text = String::new();
    let mismatches = mismatches.into_iter();
    for mismatch in mismatches.clone().take(LISTED) {
        let _ = write!(text, "\n  {mismatch}");
    }
    let more = mismatches.skip(LISTED).count();
    if more > 0 {
        let _ = write!(text, "\n  and {more} more");
    }
    text
}
