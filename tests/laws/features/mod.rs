//! A table of features and of what is done to a value. Each pair is a test: the model with the feature computes the same as
//! the program without the feature, and an in-place function keeps references and unchanged shared nodes the same.
//!
//! A new feature is a row in `rows`, and a new function is a column in `columns`. A pair that the library refuses is in
//! `REFUSALS`, with a part of the message.

mod columns;
mod rows;

use std::panic::{AssertUnwindSafe, catch_unwind};

use pytree::core::NodeIdentity;
use pytree::core::boundary::flatten_with_references;
use pytree::{PytreeOf, Tensor, graph};

use self::columns::COLUMNS;
use self::rows::{Plain, ROWS, Row};

/// The pairs that are refused: the rows, the columns and a part of the message.
const REFUSALS: &[(&[&str], &[&str], &str)] = &[
    (
        &["Sowing", "LoraSowing", "MixedSowing", "QuantizedSowing"],
        &["scanned_mut", "scanned", "while_looped", "fori_looped"],
        "a carry must keep its structure, shapes and element types",
    ),
    (
        &["Sowing", "LoraSowing", "MixedSowing", "QuantizedSowing"],
        &["cond_mut_of", "switched"],
        "all branches must return the same structure, shapes and element types",
    ),
    // The integers have the structure of the model, which only the functions of `Quantized` change in all parts.
    (
        &["QuantizedSowing"],
        &["popped"],
        "change the structure of the model inside of `with_model` or `map_rest`",
    ),
    // The structure holds a constructor or a dtype, of which bytes keep only the text.
    (
        &[
            "Boxed",
            "Trained",
            "MixedTied",
            "MixedReferenced",
            "MixedCaptured",
            "MixedHeads",
            "MixedSowing",
        ],
        &["structure_in_bytes"],
        "unflatten with a treedef that was not read from bytes",
    ),
];

#[test]
fn every_feature_works_in_every_function() {
    let mut problems = Vec::new();
    for (row, make) in ROWS {
        for (column, check) in COLUMNS {
            let refusal = REFUSALS
                .iter()
                .find(|(rows, columns, _)| rows.contains(row) && columns.contains(column));
            let found = catch_unwind(AssertUnwindSafe(|| check(*make))).err();
            let message = found.map(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                text.or_else(|| Some((*panic.downcast_ref::<&str>()?).to_owned()))
                    .unwrap_or_default()
            });
            match (refusal, message) {
                (None, None) => {}
                (Some(refusal), Some(message)) if message.contains(refusal.2) => {}
                (_, message) => {
                    let expected = refusal.map_or("no error", |refusal| refusal.2);
                    let found = message.unwrap_or_else(|| "no error".to_owned());
                    let found: String = found.chars().take(400).collect();
                    problems.push(format!(
                        "{row} in {column}: expected {expected}, found {found}"
                    ));
                }
            }
        }
    }
    assert!(
        problems.is_empty(),
        "{} pairs fail:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

/// Returns the leaves with their paths. Each leaf of a shared node or reference is listed once.
fn leaves<M: PytreeOf<Tensor>>(model: &M) -> Vec<(String, Tensor)> {
    let (leaves, treedef) = graph::flatten::<Tensor, M>(model);
    let paths = treedef
        .leaf_paths()
        .into_iter()
        .map(|path| path.to_string());
    paths.zip(leaves).collect()
}

/// Returns the first leaf whose path ends with a name.
fn leaf<M: PytreeOf<Tensor>>(model: &M, name: &str) -> Tensor {
    let mut named = leaves(model)
        .into_iter()
        .filter(|(path, _)| path.ends_with(name));
    named
        .next()
        .unwrap_or_else(|| panic!("no leaf is named {name}"))
        .1
}

/// Checks that two tensors are equal up to the rounding of the wrappers.
fn close(what: &str, found: &Tensor, expected: &Tensor) {
    assert_eq!(found.info(), expected.info(), "{what}");
    let difference =
        (found.convert(pytree::DType::F64) - expected.convert(pytree::DType::F64)).abs();
    let difference = difference.max().item::<f64>();
    assert!(
        difference < 2e-6,
        "{what}: found {found}, expected {expected}"
    );
}

/// Checks that a model has the values of the program.
fn same_values(row: &Row, expected: &Plain) {
    for name in ["bias", "mean", "count"] {
        close(name, &leaf(row, name), &leaf(expected, name));
    }
}

/// The shared nodes and references of a model, which a value outside of the model also holds.
struct Outside {
    before: Row,
    references: Vec<NodeIdentity>,
    /// The leaves in shared nodes and references, with their values.
    leaves: Vec<(String, Tensor)>,
}

impl Outside {
    fn of(row: &Row) -> Self {
        let before = row.clone();
        let own = own_leaves(&before, row);
        Self {
            references: references(row),
            leaves: leaves(row)
                .into_iter()
                .filter(|(path, _)| !own.contains(path))
                .collect(),
            before,
        }
    }

    /// Checks that the model still has the references, and the shared nodes whose values are the same. A leaf named `written`
    /// may have been written, by the same value.
    fn check(&self, after: &Row, written: &str) {
        assert_eq!(
            references(after),
            self.references,
            "the references are others"
        );
        let own = own_leaves(&self.before, after);
        let after = leaves(after);
        for (path, before) in self.leaves.iter().filter(|(path, _)| own.contains(path)) {
            let (_, after) = after
                .iter()
                .find(|(found, _)| found == path)
                .expect("the same path");
            assert!(
                after != before || path.ends_with(written),
                "{path} is cut from the value outside"
            );
        }
    }
}

fn references(row: &Row) -> Vec<NodeIdentity> {
    flatten_with_references::<Tensor, Row>(row).2.identities()
}

/// Returns the paths of the leaves of `second` that are not in a shared node or reference of `first`.
fn own_leaves(first: &Row, second: &Row) -> Vec<String> {
    let pair = leaves(&(first.clone(), second.clone())).into_iter();
    pair.filter_map(|(path, _)| Some(path.strip_prefix("[1]")?.trim_start_matches('.').to_owned()))
        .collect()
}
