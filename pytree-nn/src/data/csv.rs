//! Tables of numbers in text files, with comma-separated values: read.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pytree_transform::{Tensor, TensorElement, TensorError};
use thiserror::Error;

/// How a table is written; see [`load_with`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsvOptions {
    /// The number of lines before the first row, such as 1 for a line with the names of the columns. 0 by default.
    pub skipped_lines: usize,
    /// The character between two numbers. A comma by default.
    pub separator: char,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            skipped_lines: 0,
            separator: ',',
        }
    }
}

/// A table of numbers cannot be read.
#[derive(Error)]
#[non_exhaustive]
pub enum CsvError {
    /// The operating system reported an error, or the file is not UTF-8.
    #[error("cannot read the table `{}`: {source}", .path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A field is not a number of the dtype.
    #[error("cannot read the table{}: line {line}, column {column}: expected a number of dtype {expected}, found `{found}`; skip lines of names with the field `skipped_lines` of `CsvOptions`, or remove columns of text", named(.path.as_deref()))]
    Number {
        /// The path of the file, or `None` if the text was not read from a file.
        path: Option<PathBuf>,
        /// The number of the line, starting at 1.
        line: usize,
        /// The number of the column, starting at 1.
        column: usize,
        /// The dtype.
        expected: pytree_transform::DType,
        /// The text of the field.
        found: String,
    },
    /// A row has another number of columns than the first row.
    #[error("cannot read the table{}: line {line}: expected {expected} columns as in the first row, found {found}; check the separator, which is an option", named(.path.as_deref()))]
    Columns {
        /// The path of the file, or `None` if the text was not read from a file.
        path: Option<PathBuf>,
        /// The number of the line, starting at 1.
        line: usize,
        /// The number of columns of the first row.
        expected: usize,
        /// The number of columns of this row.
        found: usize,
    },
    /// There is no memory for the table.
    #[error("cannot read the table: {0}")]
    Tensor(#[from] TensorError),
}

impl fmt::Debug for CsvError {
    /// Writes the same text as `Display`, because Rust prints the debug form if `unwrap` fails or if `main` returns the
    /// error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn named(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| format!(" `{}`", path.display()))
}

/// Reads a table of numbers from a file: `[rows, columns]`.
///
/// # Errors
/// Returns the errors of [`load_with`].
pub fn load<T: TensorElement + FromStr>(path: impl AsRef<Path>) -> Result<Tensor, CsvError> {
    load_with::<T>(path, CsvOptions::default())
}

/// Reads a table of numbers from a file, with options: `[rows, columns]`.
///
/// # Errors
/// Returns [`CsvError::Io`] if the file cannot be read, [`CsvError::Number`] if a field is not a number of type `T`, and
/// [`CsvError::Columns`] if the rows have different lengths.
pub fn load_with<T: TensorElement + FromStr>(
    path: impl AsRef<Path>,
    options: CsvOptions,
) -> Result<Tensor, CsvError> {
    let file = path.as_ref();
    let text = std::fs::read_to_string(file).map_err(|source| CsvError::Io {
        path: file.to_owned(),
        source,
    })?;
    parse::<T>(&text, options).map_err(|mut error| {
        if let CsvError::Number { path, .. } | CsvError::Columns { path, .. } = &mut error {
            *path = Some(file.to_owned());
        }
        error
    })
}

/// Reads a table of numbers from a text: `[rows, columns]`.
///
/// Numbers may have spaces or double quotes around them. Empty lines are ignored. Floats may be `nan` or `inf`.
///
/// # Examples
/// ```
/// use pytree_nn::data::csv::{self, CsvOptions};
/// use pytree_transform::Tensor;
/// let options = CsvOptions { skipped_lines: 1, ..CsvOptions::default() };
/// let table = csv::parse::<f32>("height,width\n1.5,2\n3,4e1\n", options)?;
/// assert_eq!(table, Tensor::from([[1.5_f32, 2.0], [3.0, 40.0]]));
/// # Ok::<(), csv::CsvError>(())
/// ```
///
/// # Errors
/// Returns [`CsvError::Number`] if a field is not a number of type `T`, and [`CsvError::Columns`] if the rows have
/// different lengths.
pub fn parse<T: TensorElement + FromStr>(
    text: &str,
    options: CsvOptions,
) -> Result<Tensor, CsvError> {
    let (mut elements, mut columns, mut rows) = (Vec::new(), None, 0);
    let lines = text.lines().enumerate().skip(options.skipped_lines);
    for (number, row) in lines.filter(|(_, row)| !row.trim().is_empty()) {
        let (line, before) = (number + 1, elements.len());
        for (column, field) in row.split(options.separator).enumerate() {
            let field = field.trim();
            let unquoted = field
                .strip_prefix('"')
                .and_then(|field| field.strip_suffix('"'));
            let element = unquoted.unwrap_or(field).parse::<T>();
            elements.push(element.map_err(|_| CsvError::Number {
                path: None,
                line,
                column: column + 1,
                expected: T::DTYPE,
                found: field.chars().take(40).collect(),
            })?);
        }
        let found = elements.len() - before;
        let expected = *columns.get_or_insert(found);
        if found != expected {
            return Err(CsvError::Columns {
                path: None,
                line,
                expected,
                found,
            });
        }
        rows += 1;
    }
    Ok(Tensor::try_new([rows, columns.unwrap_or(0)], elements)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_exactly() {
        let options = CsvOptions {
            separator: ';',
            ..CsvOptions::default()
        };
        let table = parse::<i64>("9007199254740993; -1\r\n\n \"2\";3\n", options).unwrap();
        assert_eq!(
            table,
            Tensor::from([[9_007_199_254_740_993_i64, -1], [2, 3]])
        );
        let floats = parse::<f64>("0.1,nan,-inf", CsvOptions::default()).unwrap();
        assert_eq!(floats.to_vec::<f64>()[0].to_bits(), 0.1_f64.to_bits());
        assert!(floats.to_vec::<f64>()[1].is_nan());
        assert_eq!(
            parse::<f32>("\n", CsvOptions::default()).unwrap().shape(),
            [0, 0]
        );
    }

    #[test]
    fn mistakes_have_line_and_column() {
        let message = |text| {
            parse::<u8>(text, CsvOptions::default())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            message("1,2\n3,256\n"),
            "cannot read the table: line 2, column 2: expected a number of dtype u8, found `256`; skip lines of names with the field `skipped_lines` of `CsvOptions`, or remove columns of text"
        );
        assert!(
            message("a,b\n1,2")
                .contains("line 1, column 1: expected a number of dtype u8, found `a`")
        );
        assert!(message("1,,2").contains("line 1, column 2"));
        assert!(
            message("1,2\n\n3\n")
                .contains("line 3: expected 2 columns as in the first row, found 1")
        );
        let error = load::<f32>("/no/such/table.csv").unwrap_err().to_string();
        assert!(
            error.starts_with("cannot read the table `/no/such/table.csv`: "),
            "{error}"
        );
    }
}
