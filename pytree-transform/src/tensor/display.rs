//! The display of tensors, which follows NumPy's display of arrays.
//!
//! The code follows NumPy's `arrayprint.py` with its default options: eight digits, and lines of 75 characters. In an
//! array of more than 1000 elements, only the first and last three items of a long axis are written.

mod numbers;

use std::fmt;

use pytree_base::lists::Tuple;
use pytree_kernels::base::array::Array;
use pytree_kernels::base::data::Data;

use self::numbers::{Format, Style, f16_text, item, scalar};
use crate::base::error::TensorError;
use crate::tensor::handle::Tensor;

const LINE_WIDTH: usize = 75;
const THRESHOLD: usize = 1000;
const EDGE_ITEMS: usize = 3;

impl fmt::Display for Tensor {
    /// Writes the elements like NumPy's `str`. For a traced tensor, writes its transformation, dtype and shape.
    ///
    /// In a format string, the precision is the number of digits after the decimal point of each element. The width is
    /// the minimum width of each element.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_display(self, f, false)
    }
}

impl fmt::LowerExp for Tensor {
    /// Writes the elements like `Display`, with an exponent for each element.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_display(self, f, true)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tracer() {
            None => write_debug(self, f),
            Some(tracer) => write!(f, "Traced<{}>({})", tracer.transformation(), tracer.info),
        }
    }
}

fn write_display(tensor: &Tensor, f: &mut fmt::Formatter<'_>, exponent: bool) -> fmt::Result {
    let array = match tensor.value() {
        Ok(array) if !tensor.is_traced() => array,
        Err(error) if !tensor.is_traced() => return write_unread(tensor, &error, f),
        _ => return fmt::Debug::fmt(tensor, f),
    };
    let style = Style {
        precision: f.precision(),
        exponent,
        width: f.width().unwrap_or(0),
    };
    if !array.shape().is_empty() {
        return f.write_str(&display(array, style));
    }
    // A single number follows all options of the format string, including fill, alignment and sign.
    let text = display(array, Style { width: 0, ..style });
    match text.strip_prefix('-') {
        Some(digits) => f.pad_integral(false, "", digits),
        None => f.pad_integral(true, "", &text),
    }
}

/// Writes a tensor like NumPy's `repr`, with the names of this crate: `Tensor([1., 2.], dtype=f32)`.
pub(crate) fn write_debug(tensor: &Tensor, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match tensor.value() {
        Ok(array) => f.write_str(&debug(array, "Tensor(", Some(&array.dtype().to_string()))),
        Err(error) => write_unread(tensor, &error, f),
    }
}

/// Writes a tensor whose elements the device could not return. A display cannot return this error, so the text contains
/// it.
fn write_unread(tensor: &Tensor, error: &TensorError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "Tensor({}, not read: {error})", tensor.info())
}

fn display(array: &Array, style: Style) -> String {
    match array.data() {
        _ if style.is_given() => {}
        Data::F32(elements) if array.shape().is_empty() => {
            return scalar(f64::from(elements[0]), &format!("{:e}", elements[0]));
        }
        Data::F64(elements) if array.shape().is_empty() => {
            return scalar(elements[0], &format!("{:e}", elements[0]));
        }
        Data::F16(elements) if array.shape().is_empty() => return f16_text(elements[0]),
        _ => {}
    }
    let layout = Spacing {
        separator: " ",
        width: LINE_WIDTH,
    };
    layout.write(array, 1, style)
}

fn debug(array: &Array, prefix: &str, dtype: Option<&str>) -> String {
    let shape = array.shape();
    let elements = if array.info.is_empty() {
        "[]".to_owned()
    } else {
        Spacing {
            separator: ", ",
            width: LINE_WIDTH - 1,
        }
        .write(array, prefix.len() + 1, Style::default())
    };
    let mut extras = Vec::new();
    if (array.info.is_empty() && shape != [0]) || array.info.len() > THRESHOLD {
        extras.push(format!("shape={}", Tuple(shape)));
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

/// The text between elements, and the maximum width of a line.
#[derive(Clone, Copy)]
struct Spacing {
    separator: &'static str,
    width: usize,
}

/// An array to write, with the settings that are the same for all its parts.
struct Writer<'a> {
    layout: Spacing,
    array: &'a Array,
    style: Style,
    format: Format,
    summarised: bool,
}

impl Spacing {
    fn write(self, array: &Array, indent: usize, style: Style) -> String {
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
            style,
            format: Format::of(array, &positions, style),
            summarised,
        };
        writer.axis(0, 0, indent, self.width)
    }
}

/// Returns the displayed indices of an axis. `None` marks the position of the omitted indices.
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
    /// Writes the subarray over `axis` and all later axes. `start` is the row-major position of this subarray among all
    /// subarrays over these axes.
    fn axis(&self, axis: usize, start: usize, indent: usize, width: usize) -> String {
        let shape = self.array.shape();
        let Some(&length) = shape.get(axis) else {
            return self.format.write(item(self.array, start, self.style));
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

    /// Writes one row (the elements along the last axis), in as many lines as necessary.
    fn row(&self, start: usize, length: usize, indent: usize, width: usize) -> String {
        let separator = self.layout.separator;
        let room = width - separator.trim_end().len().max(1);
        let (mut text, mut line) = (String::new(), " ".repeat(indent));
        for index in shown(length, self.summarised) {
            let word = match index {
                Some(index) => self
                    .format
                    .write(item(self.array, start + index, self.style)),
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
    use pytree_kernels::base::dtype::DType;

    use super::*;

    #[test]
    fn tensors_print_as_numpy_prints_arrays() {
        // The expected texts below are from NumPy 2. Many more are in tests/golden/display.json.
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
    fn format_options_apply_to_each_element() {
        let loss = Tensor::from(0.123_456_f32);
        assert_eq!(format!("{loss:.3}"), "0.123");
        assert_eq!(
            format!("{loss:>9.3}|{loss:<7.2}|{loss:+.1}"),
            "    0.123|0.12   |+0.1"
        );
        assert_eq!(format!("{:08.3}", Tensor::from(-1.5)), "-001.500");
        assert_eq!(
            format!("{:6}|{:6}", Tensor::from(12), Tensor::from(1.5)),
            "    12|   1.5"
        );
        assert_eq!(format!("{:.0}", Tensor::from(2.5_f64)), "2");
        assert_eq!(format!("{loss:e} {loss:.2e}"), "1.23456e-01 1.23e-01");
        assert_eq!(format!("{:.2e}", Tensor::from(1500)), "1.50e+03");
        let row = Tensor::from([0.125_f32, -10.0, 3.136_59]);
        assert_eq!(format!("{row:.2}"), "[  0.12 -10.00   3.14]");
        assert_eq!(format!("{row:8.1}"), "[     0.1    -10.0      3.1]");
        assert_eq!(format!("{row:.1e}"), "[ 1.2e-01 -1.0e+01  3.1e+00]");
        let odd = Tensor::from([f64::NAN, f64::NEG_INFINITY, 1.0]);
        assert_eq!(format!("{odd:.2}"), "[ nan -inf 1.00]");
        assert_eq!(format!("{:.2}", Tensor::from(f32::NAN)), "nan");
        assert_eq!(format!("{:4}", Tensor::from([1, -2])), "[   1   -2]");
        assert_eq!(format!("{:6}", Tensor::from([1.5, 2.0])), "[   1.5    2. ]");
        assert_eq!(
            format!("{:.3}", Tensor::from([true, false])),
            "[ True False]"
        );
        assert_eq!(
            format!("{:.1}", Tensor::from([[1.0, 2.0], [3.0, 4.0]])),
            "[[1.0 2.0]\n [3.0 4.0]]"
        );
        assert_eq!(format!("{:.2}", Tensor::zeros(DType::F32, [0])), "[]");
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
