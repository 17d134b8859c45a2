//! How tensors print: as NumPy prints arrays.
//!
//! After NumPy's `arrayprint.py` with its default options: eight digits, lines of 75 characters, and
//! three items at each end of a long axis once there are more than 1000 elements.

use std::fmt;

use crate::array::{Array, Data};
use crate::tensor::Tensor;

const LINE_WIDTH: usize = 75;
const THRESHOLD: usize = 1000;
const EDGE_ITEMS: usize = 3;
const PRECISION: usize = 8;

impl fmt::Display for Tensor {
    /// As NumPy's `str`; a traced tensor shows the transformation, its element type and shape.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.array() {
            Some(array) => f.write_str(&display(array)),
            None => fmt::Debug::fmt(self, f),
        }
    }
}

/// As NumPy's `repr`, in our words: `Tensor([1., 2.], dtype=f32)`.
pub(crate) fn write_debug(tensor: &Tensor, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match tensor.array() {
        Some(array) => f.write_str(&debug(array, "Tensor(", Some(&array.dtype().to_string()))),
        None => fmt::Debug::fmt(tensor, f),
    }
}

fn display(array: &Array) -> String {
    match &array.data {
        Data::F32(elements) if array.shape().is_empty() => {
            scalar(f64::from(elements[0]), &scientific_f32(elements[0]))
        }
        Data::F64(elements) if array.shape().is_empty() => {
            scalar(elements[0], &format!("{:e}", elements[0]))
        }
        _ => Layout {
            separator: " ",
            width: LINE_WIDTH,
        }
        .write(array, 1),
    }
}

fn debug(array: &Array, prefix: &str, dtype: Option<&str>) -> String {
    let shape = array.shape();
    let elements = if array.info.is_empty() {
        "[]".to_owned()
    } else {
        Layout {
            separator: ", ",
            width: LINE_WIDTH - 1,
        }
        .write(array, prefix.len() + 1)
    };
    let mut extras = Vec::new();
    if (array.info.is_empty() && shape != [0]) || array.info.len() > THRESHOLD {
        extras.push(format!("shape={}", crate::primitives::shape::Tuple(shape)));
    }
    extras.extend(dtype.map(|dtype| format!("dtype={dtype}")));
    if extras.is_empty() {
        return format!("{prefix}{elements})");
    }
    let (text, extras) = (format!("{prefix}{elements},"), extras.join(", ") + ")");
    let last_line = text.len() - text.rfind('\n').map_or(0, |position| position + 1);
    if last_line + extras.len() + 1 > LINE_WIDTH {
        return format!("{text}\n{}{extras}", " ".repeat(prefix.len()));
    }
    format!("{text} {extras}")
}

fn scientific_f32(value: f32) -> String {
    format!("{value:e}")
}

/// A float without axes, as Python writes its floats; `scientific` is its shortest form with exponent.
fn scalar(value: f64, scientific: &str) -> String {
    if !value.is_finite() {
        return not_finite(value).to_owned();
    }
    let Decimal {
        negative,
        digits,
        exponent,
    } = Decimal::shortest(scientific);
    let sign = if negative { "-" } else { "" };
    if value == 0.0 {
        return format!("{sign}0.0");
    }
    if (1e-4..1e16).contains(&value.abs()) {
        let (whole, fraction) = positional(&digits, exponent);
        return format!(
            "{sign}{whole}.{}",
            if fraction.is_empty() { "0" } else { &fraction }
        );
    }
    let fraction = if digits.len() > 1 {
        format!(".{}", &digits[1..])
    } else {
        String::new()
    };
    format!(
        "{sign}{}{fraction}e{}{:02}",
        &digits[..1],
        if exponent < 0 { '-' } else { '+' },
        exponent.abs()
    )
}

fn not_finite(value: f64) -> &'static str {
    if value.is_nan() {
        "nan"
    } else if value > 0.0 {
        "inf"
    } else {
        "-inf"
    }
}

/// The decimal digits of a float without zeros at the end: `digits[0].digits[1..] × 10^exponent`.
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i32,
}

impl Decimal {
    /// From a form such as `-1.25e-3`.
    fn shortest(scientific: &str) -> Self {
        let (negative, unsigned) = match scientific.strip_prefix('-') {
            Some(unsigned) => (true, unsigned),
            None => (false, scientific),
        };
        let (mantissa, exponent) = unsigned.split_once('e').unwrap_or((unsigned, "0"));
        let digits = mantissa.replace('.', "");
        let trimmed = digits.trim_end_matches('0');
        let digits = if trimmed.is_empty() { "0" } else { trimmed };
        Self {
            negative,
            digits: digits.to_owned(),
            exponent: exponent.parse().unwrap_or(0),
        }
    }
}

/// The digits before and behind the point.
fn positional(digits: &str, exponent: i32) -> (String, String) {
    match usize::try_from(exponent) {
        Ok(exponent) if digits.len() > exponent + 1 => (
            digits[..=exponent].to_owned(),
            digits[exponent + 1..].to_owned(),
        ),
        Ok(exponent) => (
            format!("{digits:0<width$}", width = exponent + 1),
            String::new(),
        ),
        Err(_) if digits == "0" => ("0".to_owned(), String::new()),
        Err(_) => {
            let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
            ("0".to_owned(), "0".repeat(zeros) + digits)
        }
    }
}

/// A float by parts, rounded to [`PRECISION`] digits behind the point.
struct Parts {
    whole: String,
    fraction: String,
    /// With its sign, two digits at least.
    exponent: String,
}

/// A float to be printed: exactly, with the shortest digits that tell it from others of its type.
#[derive(Clone)]
struct Float {
    value: f64,
    scientific: String,
}

impl Float {
    /// Shortest digits, unless they are too many; then the exact value rounded.
    fn parts(&self, with_exponent: bool) -> Parts {
        let Decimal {
            negative,
            mut digits,
            mut exponent,
        } = Decimal::shortest(&self.scientific);
        let sign = if negative { "-" } else { "" };
        if with_exponent {
            if digits.len() > PRECISION + 1 {
                let rounded = Decimal::shortest(&format!("{:.*e}", PRECISION, self.value));
                (digits, exponent) = (rounded.digits, rounded.exponent);
            }
            let exponent_sign = if exponent < 0 { '-' } else { '+' };
            return Parts {
                whole: format!("{sign}{}", &digits[..1]),
                fraction: digits[1..].to_owned(),
                exponent: format!("{exponent_sign}{:02}", exponent.abs()),
            };
        }
        let (mut whole, mut fraction) = positional(&digits, exponent);
        if fraction.len() > PRECISION {
            let rounded = format!("{:.*}", PRECISION, self.value.abs());
            let (left, right) = rounded.split_once('.').unwrap_or((&rounded, ""));
            (whole, fraction) = (left.to_owned(), right.trim_end_matches('0').to_owned());
        }
        Parts {
            whole: format!("{sign}{whole}"),
            fraction,
            exponent: String::new(),
        }
    }
}

/// How the elements of one array are written, so that they align.
enum Format {
    /// Right-aligned.
    Padded { width: usize },
    Float {
        with_exponent: bool,
        left: usize,
        right: usize,
        exponent_digits: usize,
    },
}

/// An element to be printed.
enum Item {
    Text(String),
    Float(Float),
}

fn item(array: &Array, position: usize) -> Item {
    match &array.data {
        Data::Bool(elements) => {
            Item::Text(if elements[position] { "True" } else { "False" }.to_owned())
        }
        Data::I32(elements) => Item::Text(elements[position].to_string()),
        Data::I64(elements) => Item::Text(elements[position].to_string()),
        Data::U32(elements) => Item::Text(elements[position].to_string()),
        Data::F32(elements) => {
            let value = elements[position];
            Item::Float(Float {
                value: f64::from(value),
                scientific: scientific_f32(value),
            })
        }
        Data::F64(elements) => {
            let value = elements[position];
            Item::Float(Float {
                value,
                scientific: format!("{value:e}"),
            })
        }
    }
}

impl Format {
    fn of(array: &Array, positions: &[usize]) -> Self {
        let mut floats = Vec::new();
        let mut width = 0;
        for &position in positions {
            match item(array, position) {
                Item::Text(text) => width = width.max(text.len()),
                Item::Float(float) => floats.push(float),
            }
        }
        if matches!(array.data, Data::Bool(_)) && !array.shape().is_empty() {
            // True is padded even where no False stands beside it.
            width = 5;
        }
        if floats.is_empty() {
            return Self::Padded { width };
        }
        Self::of_floats(&floats, matches!(array.data, Data::F32(_)))
    }

    fn of_floats(floats: &[Float], single: bool) -> Self {
        let finite = floats.iter().filter(|float| float.value.is_finite());
        let sizes = finite
            .clone()
            .map(|float| float.value.abs())
            .filter(|&size| size != 0.0);
        let (least, greatest) = sizes.fold((f64::INFINITY, 0.0), |(least, greatest), size| {
            (size.min(least), size.max(greatest))
        });
        let with_exponent = greatest > 0.0
            && (greatest >= 1e8
                || is_small(least, single)
                || ratio(greatest, least, single) > 1000.0);
        let parts: Vec<Parts> = finite.map(|float| float.parts(with_exponent)).collect();
        let longest = |length: fn(&Parts) -> usize| parts.iter().map(length).max().unwrap_or(0);
        let fraction = longest(|parts| parts.fraction.len());
        let exponent_digits = longest(|parts| parts.exponent.len()).saturating_sub(1);
        let mut left = longest(|parts| parts.whole.len());
        let right = if with_exponent {
            exponent_digits + 2 + fraction
        } else {
            fraction
        };
        for float in floats.iter().filter(|float| !float.value.is_finite()) {
            left = left.max(not_finite(float.value).len().saturating_sub(right + 1));
        }
        Self::Float {
            with_exponent,
            left,
            right: if with_exponent { fraction } else { right },
            exponent_digits,
        }
    }

    fn write(&self, item: Item) -> String {
        let (with_exponent, left, right, exponent_digits) = match (self, &item) {
            (Self::Padded { width }, Item::Text(text)) => return format!("{text:>width$}"),
            (
                Self::Float {
                    with_exponent,
                    left,
                    right,
                    exponent_digits,
                },
                _,
            ) => (*with_exponent, *left, *right, *exponent_digits),
            (Self::Padded { width }, Item::Float(_)) => return " ".repeat(*width),
        };
        let Item::Float(float) = item else {
            return String::new();
        };
        let exponent_width = if with_exponent {
            exponent_digits + 2
        } else {
            0
        };
        if !float.value.is_finite() {
            return format!(
                "{:>width$}",
                not_finite(float.value),
                width = left + 1 + right + exponent_width
            );
        }
        if with_exponent {
            // All get as many digits as the longest, exact ones where the shortest form has fewer.
            let text = format!("{:.right$e}", float.value);
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, digits) = exponent
                .strip_prefix('-')
                .map_or(('+', exponent), |digits| ('-', digits));
            let point = if right == 0 { "." } else { "" };
            return format!(
                "{mantissa:>width$}{point}e{sign}{digits:0>exponent_digits$}",
                width = left + right + usize::from(right > 0)
            );
        }
        let Parts {
            whole, fraction, ..
        } = float.parts(false);
        format!("{whole:>left$}.{fraction:<right$}")
    }
}

/// Whether a size calls for an exponent; compared in the type of the array, as NumPy does.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the value comes from an f32"
)]
fn is_small(size: f64, single: bool) -> bool {
    if single {
        (size as f32) < 0.0001
    } else {
        size < 0.0001
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the values come from f32")]
fn ratio(greatest: f64, least: f64, single: bool) -> f64 {
    if single {
        f64::from(greatest as f32 / least as f32)
    } else {
        greatest / least
    }
}

/// How the elements are laid out in lines.
#[derive(Clone, Copy)]
struct Layout {
    separator: &'static str,
    width: usize,
}

/// What stays the same while an array is written.
struct Writer<'a> {
    layout: Layout,
    array: &'a Array,
    format: Format,
    summarised: bool,
}

impl Layout {
    fn write(self, array: &Array, indent: usize) -> String {
        if array.info.is_empty() {
            return "[]".to_owned();
        }
        let summarised = array.info.len() > THRESHOLD;
        let mut positions = vec![0];
        for &length in array.shape() {
            let shown: Vec<usize> = shown(length, summarised).flatten().collect();
            positions = positions
                .iter()
                .flat_map(|&start| shown.iter().map(move |index| start * length + index))
                .collect();
        }
        let writer = Writer {
            layout: self,
            array,
            format: Format::of(array, &positions),
            summarised,
        };
        writer.axis(0, 0, indent, self.width)
    }
}

/// The indices that are shown of an axis; none stands for those left out.
fn shown(length: usize, summarised: bool) -> impl Iterator<Item = Option<usize>> {
    let summary = summarised && 2 * EDGE_ITEMS < length;
    let leading = if summary { EDGE_ITEMS } else { 0 };
    let trailing = if summary { length - EDGE_ITEMS } else { 0 };
    (0..leading)
        .map(Some)
        .chain(summary.then_some(None))
        .chain((trailing..length).map(Some))
}

impl Writer<'_> {
    /// The part of the array below the axis, from the row-major number `start` of its first part on.
    fn axis(&self, axis: usize, start: usize, indent: usize, width: usize) -> String {
        let shape = self.array.shape();
        let Some(&length) = shape.get(axis) else {
            return self.format.write(item(self.array, start));
        };
        if axis + 1 == shape.len() {
            return self.row(start * length, length, indent, width);
        }
        let margin = " ".repeat(indent);
        let between = format!(
            "{}{}",
            self.layout.separator.trim_end(),
            "\n".repeat(shape.len() - axis - 1)
        );
        let parts = shown(length, self.summarised).map(|index| match index {
            Some(index) => format!(
                "{margin}{}",
                self.axis(axis + 1, start * length + index, indent + 1, width - 1)
            ),
            None => format!("{margin}..."),
        });
        let text = parts.collect::<Vec<_>>().join(&between);
        format!("[{}]", &text[indent..])
    }

    /// The elements along the last axis, in as many lines as they need.
    fn row(&self, start: usize, length: usize, indent: usize, width: usize) -> String {
        let separator = self.layout.separator;
        let room = width - separator.trim_end().len().max(1);
        let (mut text, mut line) = (String::new(), " ".repeat(indent));
        for index in shown(length, self.summarised) {
            let word = match index {
                Some(index) => self.format.write(item(self.array, start + index)),
                None => "...".to_owned(),
            };
            if line.len() + word.len() > room && line.len() > indent {
                text.push_str(line.trim_end());
                text.push('\n');
                line = " ".repeat(indent);
            }
            line.push_str(&word);
            if index != Some(length - 1) {
                line.push_str(separator);
            }
        }
        text.push_str(&line);
        format!("[{}]", &text[indent..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    #[test]
    fn tensors_print_as_numpy_prints_arrays() {
        // From NumPy 2; many more are in tests/golden/display.json.
        assert_eq!(
            Tensor::from([0.1_f32, 0.25, -3.5]).to_string(),
            "[ 0.1   0.25 -3.5 ]"
        );
        assert_eq!(
            Tensor::from([1e10, 1.0, -2.5]).to_string(),
            "[ 1.0e+10  1.0e+00 -2.5e+00]"
        );
        assert_eq!(
            Tensor::from([1.0, f64::NAN, 2.25]).to_string(),
            "[1.    nan 2.25]"
        );
        assert_eq!(
            Tensor::from([[true, false], [false, true]]).to_string(),
            "[[ True False]\n [False  True]]"
        );
        assert_eq!(Tensor::from(1e-8_f32).to_string(), "1e-08");
        assert_eq!(Tensor::from(f32::NEG_INFINITY).to_string(), "-inf");
        assert_eq!(
            Tensor::arange(DType::I32, 1001).to_string(),
            "[   0    1    2 ...  998  999 1000]"
        );
    }

    #[test]
    fn debug_names_the_element_type() {
        assert_eq!(
            format!("{:?}", Tensor::from([[1.0_f32, 2.0]])),
            "Tensor([[1., 2.]], dtype=f32)"
        );
        assert_eq!(format!("{:?}", Tensor::from(1)), "Tensor(1, dtype=i32)");
        assert_eq!(
            format!("{:?}", Tensor::zeros(DType::F32, [0, 3])),
            "Tensor([], shape=(0, 3), dtype=f32)"
        );
    }
}
