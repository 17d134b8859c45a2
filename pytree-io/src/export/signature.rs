//! The first two lines of a file: its format, and the inputs and outputs of the program.

use std::path::Path;

use pytree_core::ElementType;
use pytree_transform::{AbstractArray, DType, StableHlo};
use serde_json::{Map, Value, json};

use crate::export::error::ExportError;
use crate::export::program::{Exported, NamedArray};

/// The version of the format that this library writes.
const VERSION: u32 = 1;

const FORMAT_LINE: &str = "// pytree-export ";
const SIGNATURE_LINE: &str = "// ";

const NOT_OURS: &str =
    "give the path of a file that `export::save` or `tools/export-convert` wrote";
const DAMAGED: &str = "the file was changed or damaged: save or convert the program again";
const CONVERT: &str = "convert the program to a dtype of this library before it is exported";

/// Returns the first two lines of the file for a module.
pub(super) fn written(module: &StableHlo) -> String {
    let arrays = |names: &[String], arrays: &[AbstractArray]| -> Value {
        let arrays = names.iter().zip(arrays);
        let array = |(name, array): (&String, &AbstractArray)| json!({"name": name, "dtype": array.dtype.to_string(), "shape": array.shape.as_slice()});
        arrays.map(array).collect()
    };
    let signature = json!({
        "stablehlo": StableHlo::VERSION,
        "inputs": arrays(module.input_names(), module.inputs()),
        "outputs": arrays(module.output_names(), module.outputs()),
    });
    format!("{FORMAT_LINE}{VERSION}\n{SIGNATURE_LINE}{signature}\n")
}

/// Reads a file from its bytes.
pub(super) fn read(path: &Path, bytes: Vec<u8>) -> Result<Exported, ExportError> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let start = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = start.split(|&byte| byte == b'\n').count();
        let found = "bytes that are not UTF-8".to_owned();
        Defect::new("text", found, NOT_OURS).in_line(path, line)
    })?;
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let version = format_version(first).map_err(|defect| defect.in_line(path, 1))?;
    if version > VERSION {
        return Err(ExportError::Version {
            path: path.to_owned(),
            newest: VERSION,
            found: version,
        });
    }
    let (second, module) = rest.split_once('\n').unwrap_or((rest, ""));
    let (version, inputs, outputs) = signature(second).map_err(|defect| defect.in_line(path, 2))?;
    if !module.contains("@main") {
        let found = match module.lines().next() {
            Some(line) => quoted(line),
            None => "the end of the file".to_owned(),
        };
        let defect = Defect::new("a module with the function `@main`", found, DAMAGED);
        return Err(defect.in_line(path, 3));
    }
    Ok(Exported {
        version,
        inputs,
        outputs,
        text: module.to_owned(),
    })
}

/// A defect of a line. The caller knows the line number.
struct Defect {
    expected: String,
    found: String,
    fix: &'static str,
}

impl Defect {
    fn new(expected: impl Into<String>, found: String, fix: &'static str) -> Self {
        Self {
            expected: expected.into(),
            found,
            fix,
        }
    }

    fn in_line(self, path: &Path, line: usize) -> ExportError {
        let Self {
            expected,
            found,
            fix,
        } = self;
        ExportError::Format {
            path: path.to_owned(),
            line,
            expected,
            found,
            fix,
        }
    }
}

/// Quotes the beginning of a text for a message.
fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

fn format_version(line: &str) -> Result<u32, Defect> {
    let number = line.trim_end().strip_prefix(FORMAT_LINE);
    let number = number.and_then(|number| number.parse::<u32>().ok());
    number.filter(|&number| number > 0).ok_or_else(|| {
        let expected = format!("`{FORMAT_LINE}{VERSION}`");
        Defect::new(expected, quoted(line), NOT_OURS)
    })
}

/// Reads the version of StableHLO, the inputs and the outputs.
fn signature(line: &str) -> Result<(String, Vec<NamedArray>, Vec<NamedArray>), Defect> {
    let expected = "`// ` and a JSON object";
    let json = line.strip_prefix(SIGNATURE_LINE);
    let json = json.ok_or_else(|| Defect::new(expected, quoted(line), DAMAGED))?;
    let value: Value = serde_json::from_str(json)
        .map_err(|error| Defect::new(expected, format!("{}: {error}", quoted(json)), DAMAGED))?;
    let Value::Object(fields) = &value else {
        return Err(Defect::new(expected, quoted(json), DAMAGED));
    };
    let version = text(fields, "stablehlo", "")?;
    Ok((
        version,
        arrays(fields, "inputs")?,
        arrays(fields, "outputs")?,
    ))
}

/// Returns a field of an object. `place` is the position of the object, and is used in messages.
fn field<'v, T>(
    fields: &'v Map<String, Value>,
    (name, place): (&str, &str),
    expected: &str,
    convert: impl FnOnce(&'v Value) -> Option<T>,
) -> Result<T, Defect> {
    let value = fields.get(name);
    value.and_then(convert).ok_or_else(|| {
        let found = value.map_or("no such field".to_owned(), |value| {
            quoted(&value.to_string())
        });
        Defect::new(format!("{expected} as `{place}{name}`"), found, DAMAGED)
    })
}

fn text(fields: &Map<String, Value>, name: &str, place: &str) -> Result<String, Defect> {
    field(fields, (name, place), "a string", Value::as_str).map(str::to_owned)
}

fn arrays(fields: &Map<String, Value>, name: &str) -> Result<Vec<NamedArray>, Defect> {
    let values = field(fields, (name, ""), "a list", Value::as_array)?;
    let values = values.iter().enumerate();
    let read = |(position, value)| named_array(value, &format!("{name}[{position}]"));
    values.map(read).collect()
}

fn named_array(value: &Value, place: &str) -> Result<NamedArray, Defect> {
    let Value::Object(fields) = value else {
        let (expected, found) = (format!("an object as `{place}`"), value.to_string());
        return Err(Defect::new(expected, quoted(&found), DAMAGED));
    };
    let place = &format!("{place}.");
    let dtype = text(fields, "dtype", place)?;
    let known = ElementType::from_name(&dtype).and_then(DType::from_element);
    let dtype = known.ok_or_else(|| {
        let known: Vec<String> = DType::ALL.iter().map(DType::to_string).collect();
        let expected = known.join(", ");
        let expected = format!("one of the dtypes {expected} as `{place}dtype`");
        Defect::new(expected, quoted(&dtype), CONVERT)
    })?;
    let shape = field(fields, ("shape", place), "a list of lengths", lengths)?;
    Ok(NamedArray {
        name: text(fields, "name", place)?,
        array: AbstractArray::new(dtype, shape),
    })
}

fn lengths(value: &Value) -> Option<Vec<usize>> {
    let lengths = value.as_array()?.iter();
    lengths
        .map(|length| usize::try_from(length.as_u64()?).ok())
        .collect()
}
