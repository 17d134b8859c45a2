//! Parts of messages.

use std::fmt::{self, Write as _};

use crate::base::path::KeyPath;

/// Writes the message of [`TreeError::TooDeep`].
pub(crate) fn too_deep(limit: usize, path: &KeyPath) -> String {
    const SHOWN: usize = 6;
    let start: KeyPath = path.keys().iter().take(SHOWN).cloned().collect();
    let more = if path.keys().len() > SHOWN { "…" } else { "" };
    format!(
        "typed values are nested deeper than {limit} nodes at {}{more}: use a dynamic `Tree`, whose depth is not limited, or put the parts of a recursive type into a `Vec`; if the parts are `Ref` or `Shared`, put the innermost part first and use the functions of `graph`; or use the value in a thread with a larger stack, inside of `depth::with_stack`",
        start.or_root()
    )
}

/// Returns the panic message for leaves that cannot be borrowed because they are behind a reference.
pub(crate) fn behind_a_reference(path: &KeyPath) -> String {
    let place = if path.keys().is_empty() {
        String::new()
    } else {
        format!(" at {path}")
    };
    format!(
        "cannot borrow the leaves{place}: they are in a reference, whose value may be replaced at any time; use `flatten`, which copies the leaves"
    )
}

/// Returns the panic message for a weak edge with a target in a value that is visited as a tree.
pub(crate) fn weak_in_a_tree(path: &KeyPath) -> String {
    format!(
        "cannot visit a value as a tree: the weak edge at {} leads to another node, and trees have no weak edges; use a function of `graph`, such as `graph::flatten_any`, which keeps the edge",
        path.or_root()
    )
}

/// Returns the panic message for a cycle in a value that is visited as a tree.
pub(crate) fn cycle_in_a_tree(path: &KeyPath, back: &KeyPath) -> String {
    format!(
        "cannot visit a value as a tree: {} leads back to {}, and trees have no cycles; use a function of `graph`, such as `graph::flatten_any`, which keeps the cycle",
        path.or_root(),
        back.or_root()
    )
}

/// The greatest number of items that a message lists. Further items are only counted.
const LISTED: usize = 20;

pub(super) fn list<T: fmt::Display>(items: &[T]) -> String {
    let mut text = if items.len() > 1 {
        format!("{} places:", items.len())
    } else {
        String::new()
    };
    for item in items.iter().take(LISTED) {
        if items.len() > 1 {
            text.push_str("\n  ");
        }
        text.push_str(&item.to_string());
    }
    if items.len() > LISTED {
        let _ = write!(text, "\n  and {} more", items.len() - LISTED);
    }
    text
}

/// Returns the first paths in one line, and the number of the others.
pub(super) fn some_paths(paths: &[KeyPath]) -> String {
    const SHOWN: usize = 6;
    let shown: Vec<String> = paths.iter().take(SHOWN).map(KeyPath::or_root).collect();
    let mut text = format!("`{}`", shown.join("`, `"));
    if paths.len() > SHOWN {
        // Writing to a `String` cannot fail.
        let _ = write!(text, " and {} more", paths.len() - SHOWN);
    }
    text
}

/// Lists paths; the empty path is written as `the root`.
pub(super) fn list_of_paths(paths: &[KeyPath]) -> String {
    let paths: Vec<String> = paths.iter().map(KeyPath::or_root).collect();
    list(&paths)
}

pub(super) fn suggestion(nearest: Option<&KeyPath>) -> String {
    nearest
        .map(|path| format!("; did you mean `{path}`?"))
        .unwrap_or_default()
}

/// Returns why no static field was selected.
pub(super) fn no_static(filter: &str, places: &[KeyPath]) -> String {
    if places.is_empty() {
        return "the model has no static field of that type".to_owned();
    }
    format!(
        "the filter {filter} selects no static field of that type; static fields have no kind, so select one of these fields by its path: {}",
        list(places)
    )
}

/// Formats the misspelt names of a filter, each with a suggestion. If there are none, returns a general hint.
pub(super) fn no_steps(
    misspelt: &[(String, Option<String>)],
    parameters: usize,
    states: usize,
) -> String {
    if misspelt.is_empty() {
        let count = |number, noun| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
        return format!(
            "; the tree has {} and {}: use a kind and a path that exist in the tree",
            count(parameters, "parameter"),
            count(states, "state")
        );
    }
    let reported = misspelt.iter().map(|(name, nearest)| {
        let nearest = nearest.as_ref().map_or_else(String::new, |nearest| {
            format!("; did you mean `{nearest}`?")
        });
        format!(": no path contains the name `{name}`{nearest}")
    });
    reported.collect()
}

/// What is wrong with the calls that a `visit` makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum VisitProblem {
    /// The number of children passed to `enter` is not the number of visited children.
    Children {
        /// The number passed to `enter`.
        announced: usize,
        /// The number of visited children.
        visited: usize,
    },
    /// So many calls of `enter` have no call of `exit`.
    NotEnded(usize),
    /// So many calls of `exit` have no call of `enter`.
    EndedTwice(usize),
}

impl fmt::Display for VisitProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Children { announced, visited } => {
                write!(
                    f,
                    "`enter` announces {announced} children, and `visit` visits {visited}"
                )
            }
            Self::NotEnded(1) => f.write_str("a call of `enter` has no call of `exit`"),
            Self::NotEnded(count) => write!(f, "{count} calls of `enter` have no call of `exit`"),
            Self::EndedTwice(1) => f.write_str("a call of `exit` has no call of `enter`"),
            Self::EndedTwice(count) => write!(f, "{count} calls of `exit` have no call of `enter`"),
        }
    }
}

/// Returns the message of [`TreeError::WrongVisit`](crate::TreeError::WrongVisit).
pub(crate) fn wrong_visit(path: &KeyPath, types: &[String], problem: &VisitProblem) -> String {
    format!(
        "cannot visit the value at {path}: {problem}; in the impl of `Pytree` for {}, pass `enter` the number of children, and call `exit` once after them",
        quoted(types)
    )
}

/// Returns names in backticks, separated by `or`.
pub(crate) fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(" or ")
}
