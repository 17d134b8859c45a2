//! Writes single numbers and the elements of an array as text. All elements of an array are written with the same
//! width.

use half::{bf16, f16};
use pytree_base::for_each_dtype;
use pytree_core::half_text::{shortest_f16, write_bf16, write_f16};
use pytree_kernels::base::array::Array;
use pytree_kernels::base::data::Data;
use pytree_kernels::base::dtype::DType;

/// Writes a single float as Python does. `scientific` is the shortest text with an exponent that identifies `value`.
pub(super) fn scalar(value: f64, scientific: &str) -> String {
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

/// The decimal digits of a float without trailing zeros: `digits[0].digits[1..] × 10^exponent`.
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i32,
}

impl Decimal {
    /// Parses the text of a number with an exponent, such as `-1.25e-3`.
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

/// Returns the digits of a number before and after the decimal point.
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

/// The parts of a float as text. The float is rounded to [`PRECISION`] digits after the decimal point.
struct Parts {
    whole: String,
    fraction: String,
    /// The exponent with its sign and at least two digits. Empty if the float is written without an exponent.
    exponent: String,
}

/// A float to print: its exact value, and the fewest digits that identify the value among the floats of its type.
#[derive(Clone)]
pub(super) struct Float {
    value: f64,
    scientific: String,
}

impl Float {
    /// Returns the parts of the shortest text. If this text would have more than [`PRECISION`] digits after the decimal
    /// point, rounds the exact value to [`PRECISION`] digits.
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

/// The common format of the elements of one array, which aligns the elements.
pub(super) enum Format {
    /// Right-aligned text of a common width.
    Padded { width: usize },
    Float {
        with_exponent: bool,
        left: usize,
        right: usize,
        exponent_digits: usize,
    },
}

/// The options of a format string, which apply to each element.
#[derive(Clone, Copy, Default)]
pub(super) struct Style {
    /// The number of digits after the decimal point. If the precision is `None` and `exponent` is false, elements are
    /// written as in NumPy.
    pub(super) precision: Option<usize>,
    pub(super) exponent: bool,
    /// The minimum width of an element.
    pub(super) width: usize,
}

impl Style {
    /// Returns whether the options determine the text of an element without the other elements.
    pub(super) fn is_given(self) -> bool {
        self.precision.is_some() || self.exponent
    }

    /// Writes a number. `shortest` is the shortest text with an exponent that identifies the number.
    fn write(self, value: f64, shortest: &str) -> String {
        if !value.is_finite() {
            return not_finite(value).to_owned();
        }
        if !self.exponent {
            let precision = self.precision.unwrap_or(PRECISION);
            return format!("{value:.precision$}");
        }
        let text = self.precision.map_or_else(
            || shortest.to_owned(),
            |precision| format!("{value:.precision$e}"),
        );
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = exponent
            .strip_prefix('-')
            .map_or(('+', exponent), |digits| ('-', digits));
        format!("{mantissa}e{sign}{digits:0>2}")
    }
}

/// An element to print.
pub(super) enum Item {
    Text(String),
    Float(Float),
}

pub(super) fn item(array: &Array, position: usize, style: Style) -> Item {
    let integer = |value: i64| {
        Item::Text(if style.exponent {
            style.write(value as f64, &format!("{value:e}"))
        } else {
            value.to_string()
        })
    };
    let float = |value: f64, scientific: String| {
        if style.is_given() {
            Item::Text(style.write(value, &scientific))
        } else {
            Item::Float(Float { value, scientific })
        }
    };
    macro_rules! text {
        (Bool $value:expr) => {
            Item::Text(if $value { "True" } else { "False" }.to_owned())
        };
        (BF16 $value:expr) => {
            match style.is_given() {
                true => float($value.into(), format!("{:e}", $value.to_f32())),
                false => Item::Text(bf16_text($value)),
            }
        };
        (F16 $value:expr) => {
            float($value.into(), shortest_f16($value.to_f32()))
        };
        (float $value:expr) => {
            float($value.into(), format!("{:e}", $value))
        };
        (integer $value:expr) => {
            integer($value.into())
        };
    }
    macro_rules! texts {
        ($([$kind:ident $dtype:ident $type:ty])*) => {
            match array.data() {
                $(Data::$dtype(elements) => row!($kind $dtype elements[position]),)*
            }
        };
    }
    // Bools and halves have a text for each dtype.
    macro_rules! row {
        (bool $dtype:ident $value:expr) => { text!($dtype $value) };
        (half $dtype:ident $value:expr) => { text!($dtype $value) };
        ($kind:ident $dtype:ident $value:expr) => { text!($kind $value) };
    }
    for_each_dtype!([texts])
}

impl Format {
    pub(super) fn of(array: &Array, positions: &[usize], style: Style) -> Self {
        let mut floats = Vec::new();
        let mut width = style.width;
        for &position in positions {
            match item(array, position, style) {
                Item::Text(text) => width = width.max(text.len()),
                Item::Float(float) => floats.push(float),
            }
        }
        if matches!(array.data(), Data::Bool(_)) && !array.shape().is_empty() {
            // Like NumPy, pad `True` to the width of `False`, even if the array has no `False`.
            width = width.max(5);
        }
        if matches!(array.data(), Data::BF16(_)) && !style.is_given() {
            // NumPy does not align the elements of a dtype from another package, and bf16 is from the package
            // `ml_dtypes`.
            width = style.width;
        }
        if floats.is_empty() {
            return Self::Padded { width };
        }
        Self::of_floats(&floats, array.dtype()).at_least(style.width)
    }

    /// Changes the format so that each element is at least `width` characters wide.
    fn at_least(mut self, width: usize) -> Self {
        if let Self::Float {
            with_exponent,
            left,
            right,
            exponent_digits,
        } = &mut self
        {
            let exponent = if *with_exponent {
                *exponent_digits + 2
            } else {
                0
            };
            *left += width.saturating_sub(*left + 1 + *right + exponent);
        }
        self
    }

    fn of_floats(floats: &[Float], dtype: DType) -> Self {
        let finite = floats.iter().filter(|float| float.value.is_finite());
        let sizes = finite
            .clone()
            .map(|float| float.value.abs())
            .filter(|&size| size != 0.0);
        let (least, greatest) = sizes.fold((f64::INFINITY, 0.0), |(least, greatest), size| {
            (size.min(least), size.max(greatest))
        });
        // Only three digits of an f16 are certain.
        let greatest_without_exponent = if dtype == DType::F16 { 1e3 } else { 1e8 };
        let with_exponent = greatest > 0.0
            && (greatest >= greatest_without_exponent
                || is_small(least, dtype)
                || ratio(greatest, least, dtype) > 1000.0);
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

    pub(super) fn write(&self, item: Item) -> String {
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
            // All elements get as many digits as the longest element. The added digits are digits of the exact value.
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

/// Returns whether a magnitude is so small that it needs an exponent. Like NumPy, compares in the array's dtype.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the value comes from an f32"
)]
fn is_small(size: f64, dtype: DType) -> bool {
    match dtype {
        DType::F16 => f16::from_f64(size) < f16::from_f64(0.0001),
        DType::F32 => (size as f32) < 0.0001,
        _ => size < 0.0001,
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the values come from f32")]
fn ratio(greatest: f64, least: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f16::from_f64(greatest / least).into(),
        DType::F32 => f64::from(greatest as f32 / least as f32),
        _ => greatest / least,
    }
}

/// Returns the text of an f16 as NumPy writes a single number.
pub(super) fn f16_text(value: f16) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_f16(&mut text, value.to_f32());
    text
}

/// Returns the text of a bf16 as JAX writes it.
fn bf16_text(value: bf16) -> String {
    let mut text = String::new();
    let _ = write_bf16(&mut text, value.to_f32());
    text
}

pub(super) const PRECISION: usize = 8;
