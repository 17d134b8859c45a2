//! Reads tables of comma-separated numbers from text files.
//!
//! A table has numbers of one dtype, in rows of one length. Use the crate `csv` for texts, comments, missing values and other
//! encodings: `docs/how-to/data.md` shows how its rows become tensors.

use pytree_derive::Defaults;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pytree_transform::{DType, Tensor, TensorElement, TensorError};
use thiserror::Error;

/// How a table is written; see [`load_with`].
#[derive(Debug, Defaults, Clone, Copy, PartialEq, Eq)]
pub struct CsvOptions {
    /// The number of lines before the first row, such as 1 for a line with the names of the columns. 0 by default.
    #[default(0)]
    pub skipped_lines: usize,
    /// The character between two numbers. A comma by default. Files of spreadsheets often have `';'`, and `.tsv` files `'\t'`.
    /// With `' '`, any number of spaces and tabs separates two numbers.
    ///
    /// A separator inside of double quotes also divides columns, and a decimal comma is not a number.
    #[default(',')]
    pub separator: char,
}

/// A table of numbers cannot be read.
#[derive(Error)]
#[non_exhaustive]
pub enum CsvError {
    /// The operating system reported an error.
    #[error("cannot read the table `{}`: {source}", .path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A field is not a number of the dtype.
    #[error("cannot read the table{}: line {line}, column {column}: expected a number of dtype {expected}, found {}", named(.path.as_deref()), found_and_fix(.found, *.separator, *.expected))]
    Number {
        /// The path of the file, or `None` if the text was not read from a file.
        path: Option<PathBuf>,
        /// The number of the line, starting at 1.
        line: usize,
        /// The number of the column, starting at 1.
        column: usize,
        /// The dtype.
        expected: DType,
        /// The text of the field.
        found: String,
        /// The separator of the options.
        separator: char,
    },
    /// The file is not a text in UTF-8.
    #[error("cannot read the table `{}`: line {line} is not text in UTF-8; give the path of a text file{}", .path.display(), other_format(.found))]
    Text {
        /// The path of the file.
        path: PathBuf,
        /// The number of the line, starting at 1.
        line: usize,
        /// The first bytes of the file.
        found: Vec<u8>,
    },
    /// The table has no row.
    #[error("cannot read the table{}: expected rows of numbers after {skipped_lines} skipped lines, found {}", named(.path.as_deref()), no_row(*.lines, *.skipped_lines))]
    Empty {
        /// The path of the file, or `None` if the text was not read from a file.
        path: Option<PathBuf>,
        /// The number of lines that are not empty.
        lines: usize,
        /// The number of skipped lines of the options.
        skipped_lines: usize,
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

pytree_base::debug_as_display!(CsvError);

fn named(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| format!(" `{}`", path.display()))
}

/// Returns the text of a field that is not a number, and how to read the table.
fn found_and_fix(found: &str, separator: char, expected: DType) -> String {
    const OTHERS: &str = "remove columns of text, or read the table with the crate `csv`";
    let number = found.trim_matches('"').trim();
    if number.is_empty() {
        return format!(
            "an empty field; write `nan` for a missing float, remove the separator, {OTHERS}"
        );
    }
    let is_float = |text: &str| text.parse::<f64>().is_ok();
    let is_other = |other: &char| *other != separator && number.contains(*other);
    let other = [';', '\t', ',', '|', ' '].into_iter().find(is_other);
    let fix = match other {
        _ if number.starts_with('#') => {
            "skip lines of comments at the beginning with the field `skipped_lines` of `CsvOptions`, and remove others".to_owned()
        }
        // A field has at most 40 characters of the text.
        _ if found.matches('"').count() == 1 && found.chars().count() < 40 => {
            format!("a separator inside of double quotes also divides columns: remove it, as in `1234` for `\"1{separator}234\"`, or {OTHERS}")
        }
        _ if number.parse::<i128>().is_ok() => {
            format!("it is out of the range of {expected}: read the table as `i64` or `f64`")
        }
        _ if is_float(number) => "it is no integer: read the table as `f32` or `f64`".to_owned(),
        Some(',') if is_float(&number.replacen(',', ".", 1)) => {
            "set `separator: ','` in `CsvOptions`, if it separates the columns, or replace decimal commas by points: `csv::parse` with `text.replace(',', \".\")`".to_owned()
        }
        Some(other) => {
            format!("set `separator: {other:?}` in `CsvOptions`, if it separates the columns")
        }
        None => format!(
            "skip lines of names with the field `skipped_lines` of `CsvOptions`, {OTHERS}"
        ),
    };
    format!("`{}`; {fix}", found.escape_debug())
}

/// Returns what a table without a row has.
fn no_row(lines: usize, skipped_lines: usize) -> &'static str {
    match (lines, skipped_lines) {
        (0, _) => "an empty file; write the table again",
        (_, 0 | 1) => "only the skipped line; check that the table was written completely",
        _ => "no further line; lower `skipped_lines` in `CsvOptions`",
    }
}

/// Returns the function that reads a file with these first bytes, or how to write the file as UTF-8.
fn other_format(found: &[u8]) -> &'static str {
    if found.starts_with(b"\x93NUMPY") {
        ", or read this file of NumPy with `npy::load`"
    } else if found.starts_with(b"\xff\xfe") || found.starts_with(b"\xfe\xff") {
        ", or write this text in UTF-16 again in UTF-8"
    } else {
        ", or write the table again in UTF-8"
    }
}

/// Reads a table of numbers from a file: `[rows, columns]`.
///
/// # Errors
/// Returns the errors of [`load_with`].
#[doc(alias("np.loadtxt", "np.genfromtxt"))]
pub fn load<T: TensorElement + FromStr>(path: impl AsRef<Path>) -> Result<Tensor, CsvError> {
    load_with::<T>(path, CsvOptions::default())
}

/// Reads a table of numbers from a file, with options: `[rows, columns]`.
///
/// # Errors
/// Returns [`CsvError::Io`] if the file cannot be read, [`CsvError::Text`] if it is not text, and the errors of [`parse`].
pub fn load_with<T: TensorElement + FromStr>(
    path: impl AsRef<Path>,
    options: CsvOptions,
) -> Result<Tensor, CsvError> {
    let file = path.as_ref();
    let bytes = pytree_store::files::read(file).map_err(|source| CsvError::Io {
        path: file.to_owned(),
        source,
    })?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        CsvError::Text {
            path: file.to_owned(),
            line: 1 + before.matches('\n').count(),
            found: bytes.iter().copied().take(8).collect(),
        }
    })?;
    parse::<T>(text, options).map_err(|mut error| {
        if let CsvError::Number { path, .. }
        | CsvError::Columns { path, .. }
        | CsvError::Empty { path, .. } = &mut error
        {
            *path = Some(file.to_owned());
        }
        error
    })
}

/// Reads a table of numbers from a text: `[rows, columns]`.
///
/// Numbers may have spaces or double quotes around them. Empty lines and a byte-order mark at the beginning are ignored.
/// Floats may be `nan` or `inf`. All columns have the dtype of `T`. An f32 has 24 bits of precision, so whole numbers above
/// 2²⁴ = 16,777,216, such as ids, are rounded: read a table with such a column as `i64` or `f64`.
///
/// # Examples
/// ```
/// use pytree_io::data::csv::{self, CsvOptions};
/// use pytree_transform::Tensor;
/// let options = CsvOptions { skipped_lines: 1, ..CsvOptions::default() };
/// let table = csv::parse::<f32>("height,width\n1.5,2\n3,4e1\n", options)?;
/// assert_eq!(table, Tensor::from([[1.5_f32, 2.0], [3.0, 40.0]]));
/// # Ok::<(), csv::CsvError>(())
/// ```
///
/// # Errors
/// Returns [`CsvError::Number`] if a field is not a number of type `T`, [`CsvError::Columns`] if the rows have different
/// lengths, and [`CsvError::Empty`] if there is no row.
pub fn parse<T: TensorElement + FromStr>(
    text: &str,
    options: CsvOptions,
) -> Result<Tensor, CsvError> {
    let (mut elements, mut columns, mut rows) = (Vec::new(), None, 0);
    // Excel writes a byte-order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Old programs end lines with CR alone. A CR before the end of a line is white space.
    let end = if text.contains('\n') { '\n' } else { '\r' };
    let lines = text.split(end).enumerate().skip(options.skipped_lines);
    for (number, row) in lines.filter(|(_, row)| !row.trim().is_empty()) {
        let (line, before) = (number + 1, elements.len());
        for (column, field) in fields(row, options.separator).enumerate() {
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
                separator: options.separator,
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
    let Some(columns) = columns else {
        let lines = text.split(end).filter(|row| !row.trim().is_empty());
        return Err(CsvError::Empty {
            path: None,
            lines: lines.count(),
            skipped_lines: options.skipped_lines,
        });
    };
    Ok(Tensor::try_new([rows, columns], elements)?)
}

/// Returns the fields of a row, without spaces around them.
fn fields(row: &str, separator: char) -> impl Iterator<Item = &str> {
    // If any number of spaces separates two fields, the empty text between two spaces is no field.
    let fields = row.split(move |c: char| c == separator || separator == ' ' && c.is_whitespace());
    let fields = fields.map(str::trim);
    fields.filter(move |field| separator != ' ' || !field.is_empty())
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
    }

    #[test]
    fn byte_order_mark_is_skipped() {
        let table = parse::<f32>("\u{feff}1,2\n", CsvOptions::default()).unwrap();
        assert_eq!(table, Tensor::from([[1.0_f32, 2.0]]));
    }

    #[test]
    fn table_without_row_is_refused() {
        let message = |text: &str, skipped_lines| {
            let options = CsvOptions {
                skipped_lines,
                ..CsvOptions::default()
            };
            parse::<f32>(text, options).unwrap_err().to_string()
        };
        for empty in ["", "\n \n", "\u{feff}"] {
            assert_eq!(
                message(empty, 0),
                "cannot read the table: expected rows of numbers after 0 skipped lines, found an empty file; write the table again"
            );
        }
        assert!(message("a,b\n", 1).contains("found only the skipped line; check that"));
        assert!(message("a,b\n1,2\n", 9).ends_with(
            "after 9 skipped lines, found no further line; lower `skipped_lines` in `CsvOptions`"
        ));
    }

    #[test]
    fn other_separator_and_empty_field_are_named() {
        let message = |text: &str, separator| {
            let options = CsvOptions {
                separator,
                ..CsvOptions::default()
            };
            parse::<f32>(text, options).unwrap_err().to_string()
        };
        assert_eq!(
            message("1;2\n3;4\n", ','),
            "cannot read the table: line 1, column 1: expected a number of dtype f32, found `1;2`; set `separator: ';'` in `CsvOptions`, if it separates the columns"
        );
        assert!(message("1\t2", ',').contains("found `1\\t2`; set `separator: '\\t'`"));
        assert!(message("1,2", ';').contains("set `separator: ','`"));
        assert!(message("\"1,234\",5", ',').ends_with(
            "found `\\\"1`; a separator inside of double quotes also divides columns: remove it, as in `1234` for `\"1,234\"`, or remove columns of text, or read the table with the crate `csv`"
        ));
        assert!(message("# height width\n1,2", ',').ends_with(
            "found `# height width`; skip lines of comments at the beginning with the field `skipped_lines` of `CsvOptions`, and remove others"
        ));
        for text in ["1,,2", "1, ,2", "1,\"\",2"] {
            let text = message(text, ',');
            assert!(
                text.contains(
                    "column 2: expected a number of dtype f32, found an empty field; write `nan` for a missing float, remove the separator, remove columns of text, or read the table with the crate `csv`"
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn spaces_and_old_line_ends_are_read() {
        let spaces = CsvOptions {
            separator: ' ',
            ..CsvOptions::default()
        };
        let expected = Tensor::from([[1.0_f32, 2.5], [-3.0, 4.0]]);
        for text in [
            "1   2.5\n-3\t4 \n",
            "  1 2.5\r\n -3  4\r\n\r\n",
            "1 2.5\r-3 4\r",
        ] {
            assert_eq!(parse::<f32>(text, spaces).unwrap(), expected, "{text:?}");
        }
        assert_eq!(
            parse::<f32>("1,2.5\r-3,4", CsvOptions::default()).unwrap(),
            expected
        );
        let error = parse::<f32>("1,2\r\n\r\n3\r\n", CsvOptions::default()).unwrap_err();
        assert!(
            error.to_string().contains("line 3: expected 2 columns"),
            "{error}"
        );
    }

    #[test]
    fn common_mistakes_are_named() {
        let options = |separator| CsvOptions {
            separator,
            ..CsvOptions::default()
        };
        let ints = |text: &str| parse::<i32>(text, options(',')).unwrap_err().to_string();
        let floats = |text: &str, separator| {
            parse::<f32>(text, options(separator))
                .unwrap_err()
                .to_string()
        };
        for (message, expected) in [
            (
                ints("7,3000000000"),
                "column 2: expected a number of dtype i32, found `3000000000`; it is out of the range of i32: read the table as `i64` or `f64`",
            ),
            (
                ints("1.5"),
                "found `1.5`; it is no integer: read the table as `f32` or `f64`",
            ),
            (
                floats("1,5;2", ';'),
                "or replace decimal commas by points: `csv::parse` with `text.replace(',', \".\")`",
            ),
            (floats("1,5;2,5", ','), "found `5;2`; set `separator: ';'`"),
            (
                floats("1 2  3", ','),
                "found `1 2  3`; set `separator: ' '`",
            ),
            (floats("# made by hand\n1,2", ','), "found `# made by hand`"),
            (
                floats("1,setosa", ','),
                "found `setosa`; skip lines of names with the field `skipped_lines` of `CsvOptions`, remove columns of text, or read the table with the crate `csv`",
            ),
        ] {
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn binary_file_is_not_a_table() {
        let path = std::env::temp_dir().join(format!("pytree-table-{}", std::process::id()));
        for (bytes, expected) in [
            (
                &b"1,2\n3,\xff\n"[..],
                "line 2 is not text in UTF-8; give the path of a text file, or write the table again in UTF-8",
            ),
            (
                b"\x93NUMPY\x01\x00",
                "line 1 is not text in UTF-8; give the path of a text file, or read this file of NumPy with `npy::load`",
            ),
            (
                b"\xff\xfe1\x00",
                "line 1 is not text in UTF-8; give the path of a text file, or write this text in UTF-16 again in UTF-8",
            ),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let message = load::<f32>(&path).unwrap_err().to_string();
            assert_eq!(
                message,
                format!("cannot read the table `{}`: {expected}", path.display())
            );
        }
        std::fs::remove_file(path).unwrap();
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
            "cannot read the table: line 2, column 2: expected a number of dtype u8, found `256`; it is out of the range of u8: read the table as `i64` or `f64`"
        );
        assert!(
            message("a,b\n1,2")
                .contains("line 1, column 1: expected a number of dtype u8, found `a`")
        );
        assert!(message("1,,2").contains("line 1, column 2"));
        assert!(message("").contains("an empty file"));
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
