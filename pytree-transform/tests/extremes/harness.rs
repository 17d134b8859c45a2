//! Runs tables of calls, and reports the result of each row that is wrong.

use pytree_transform::{DType, Tensor};

use crate::panics::catch;

/// The expected result of a call.
pub(crate) enum Expected {
    /// Elements in row-major order; NaN equals NaN, and -0 equals 0.
    Elements(Vec<f64>),
    /// A tensor of this shape.
    Shape(Vec<usize>),
    /// A panic whose message contains this.
    Panic(&'static str),
}

pub(crate) use Expected::{Panic, Shape};

pub(crate) fn elements<const N: usize>(elements: [f64; N]) -> Expected {
    Expected::Elements(elements.to_vec())
}

/// One call.
pub(crate) struct Row {
    pub(crate) text: &'static str,
    pub(crate) call: Box<dyn Fn() -> Tensor>,
    pub(crate) expected: Expected,
}

/// Builds a table of `call => expected;`.
macro_rules! rows {
    ($($call:expr => $expected:expr;)*) => {
        [$($crate::extremes::harness::Row {
            text: stringify!($call),
            call: Box::new(move || $call),
            expected: $expected,
        }),*]
    };
}
pub(crate) use rows;

/// Messages of the standard library for mistakes that this crate should have checked.
const OF_THE_STANDARD_LIBRARY: [&str; 9] = [
    "index out of bounds",
    "attempt to ",
    "capacity overflow",
    "slice index",
    "out of range for slice",
    "range start index",
    "called `Option::unwrap()`",
    "called `Result::unwrap()`",
    "bug in pytree",
];

fn elements_of(tensor: &Tensor) -> Vec<f64> {
    tensor.convert(DType::F64).to_vec()
}

fn same(found: &[f64], expected: &[f64]) -> bool {
    let equal = |(x, y): (&f64, &f64)| x == y || (x.is_nan() && y.is_nan());
    found.len() == expected.len() && found.iter().zip(expected).all(equal)
}

/// Returns the problem with a row, if there is one.
fn problem(row: &Row, file: &str) -> Option<String> {
    let outcome = catch(&row.call);
    match (outcome, &row.expected) {
        (Ok(found), Expected::Elements(expected)) => {
            let found = elements_of(&found);
            (!same(&found, expected)).then(|| format!("gave {found:?}, not {expected:?}"))
        }
        (Ok(found), Shape(expected)) => (found.shape() != expected.as_slice())
            .then(|| format!("gave the shape {:?}, not {expected:?}", found.shape())),
        (Ok(found), Panic(expected)) => {
            Some(format!("gave {}, not the panic {expected:?}", found.info()))
        }
        (Err(panic), expected) => {
            let (at, message) = (panic.file, panic.message);
            let foreign = OF_THE_STANDARD_LIBRARY
                .iter()
                .any(|text| message.contains(text));
            // A transformed function is called through a trait, which loses the caller's location. The message names
            // the line instead.
            let named = at == file || message.contains(&format!("vmap at {file}"));
            match expected {
                Panic(text) if message.contains(text) && !foreign && named => None,
                Panic(text) => Some(format!("{at}: {message}\n      wanted {text:?}")),
                _ => Some(format!("panicked at {at}: {message}")),
            }
        }
    }
}

/// Runs all rows of a table in a file.
#[track_caller]
pub(crate) fn check(rows: &[Row]) {
    let file = std::panic::Location::caller().file();
    let problems: Vec<String> = rows
        .iter()
        .filter_map(|row| Some(format!("{}\n   {}", row.text, problem(row, file)?)))
        .collect();
    assert!(
        problems.is_empty(),
        "{} of {} calls are wrong:\n{}",
        problems.len(),
        rows.len(),
        problems.join("\n")
    );
}
