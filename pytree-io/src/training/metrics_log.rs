//! Metrics of a training run as JSON lines.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::training::error::TrainingError;
use pytree_store::files;

/// The metrics of one step, read from a file.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsRecord {
    /// The number of the step or epoch.
    pub step: usize,
    /// The names and values, sorted by name.
    pub metrics: Vec<(String, f64)>,
}

impl MetricsRecord {
    /// Returns the value of a metric, or `None` if the line does not have it.
    pub fn get(&self, name: &str) -> Option<f64> {
        let found = self.metrics.iter().find(|(other, _)| other == name);
        found.map(|&(_, value)| value)
    }
}

/// A file of metrics: one JSON object for each step, such as `{"step":3,"loss":0.25}`.
///
/// Each line is written by one call of the system at the end of the file, so other programs see whole lines. A line that a killed
/// run began is removed when the file is [resumed](Self::resume). JSON has no NaN and no infinities, so they are
/// the texts `"NaN"`, `"Infinity"` and `"-Infinity"`, which `float` of Python and `Number` of JavaScript read. A float is written
/// with as many digits as its f64 needs, and reading gives the same bits.
///
/// # Examples
/// ```
/// use pytree_io::training::MetricsLog;
/// let path = std::env::temp_dir().join("pytree-metrics-example.jsonl");
/// let mut log = MetricsLog::create(&path)?;
/// for step in 0..4 {
///     log.write(step, [("loss", 1.0 / (step as f64 + 1.0))])?;
/// }
/// // The last checkpoint is that of step 1.
/// let mut log = MetricsLog::resume(&path, 1)?;
/// log.write(2, [("loss", f64::NAN)])?;
/// let lines = std::fs::read_to_string(&path)?;
/// assert_eq!(lines, "{\"step\":0,\"loss\":1.0}\n{\"step\":1,\"loss\":0.5}\n{\"step\":2,\"loss\":\"NaN\"}\n");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MetricsLog {
    /// The path of the file, or what stands for it in errors.
    path: PathBuf,
    output: Box<dyn Write + Send>,
    /// The step of the last line.
    last: Option<usize>,
}

impl MetricsLog {
    /// Creates an empty file. Replaces an existing file.
    ///
    /// # Errors
    /// Returns [`TrainingError::Io`] if the file cannot be created.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, TrainingError> {
        Self::truncated(path.as_ref(), 0, None)
    }

    /// Writes to any output instead of a file, for instance where there are no files. Each line is one call of `write_all`.
    ///
    /// # Examples
    /// ```
    /// use pytree_io::training::MetricsLog;
    /// use pytree_base::platform::Stream;
    /// let mut log = MetricsLog::to(Stream::Output);
    /// log.write(0, [("loss", 0.5)])?; // prints {"step":0,"loss":0.5}
    /// # Ok::<(), pytree_io::training::TrainingError>(())
    /// ```
    pub fn to(output: impl Write + Send + 'static) -> Self {
        Self {
            path: PathBuf::from("the output"),
            output: Box::new(output),
            last: None,
        }
    }

    /// Opens a file to continue a run after a step: removes all lines from the first line with a later step on, and an incomplete
    /// last line. Creates the file if it does not exist and `step` is 0.
    ///
    /// The file may end before `step`, because a run need not write a line for each step. The gap must then be at most as long
    /// as the longest gap between two lines. With a single line, any gap is accepted.
    ///
    /// # Errors
    /// Returns [`TrainingError::Resume`] if the file does not exist, has no lines, or ends too early,
    /// [`TrainingError::Io`] if it cannot be read or written, and [`TrainingError::Line`] if it has other lines than metrics. The
    /// file is then unchanged.
    pub fn resume(path: impl AsRef<Path>, step: usize) -> Result<Self, TrainingError> {
        let path = path.as_ref();
        let text = match files::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed("read the metrics in", path)(error)),
        };
        let (mut kept, mut is_earlier) = (0, true);
        let (mut last, mut longest_gap) = (None::<usize>, None);
        for (number, line) in lines(&text).enumerate() {
            let found = parse(path, number + 1, line)?.step;
            longest_gap = longest_gap.max(last.map(|last| found.saturating_sub(last)));
            is_earlier &= found <= step;
            if is_earlier {
                kept += line.len() + 1;
                last = Some(found);
            }
        }
        let is_too_short = match (last, longest_gap) {
            // All lines may be those of later steps.
            (None, _) => step > 0 && lines(&text).next().is_none(),
            (Some(_), None) => false,
            (Some(last), Some(gap)) => step - last > gap,
        };
        if is_too_short {
            return Err(TrainingError::Resume {
                path: path.to_owned(),
                step,
                last,
            });
        }
        Self::truncated(path, kept, last)
    }

    /// Opens a file for appending, after its first `length` bytes, whose last line is that of step `last`.
    fn truncated(path: &Path, length: usize, last: Option<usize>) -> Result<Self, TrainingError> {
        let open = || {
            files::existing_folder(path)?;
            if path.exists() && !path.is_file() {
                return Err(files::not_regular());
            }
            // On Windows, a file that is opened for appending cannot be truncated.
            let options = || {
                let mut options = OpenOptions::new();
                options.create(true).truncate(false);
                options
            };
            options().write(true).open(path)?.set_len(length as u64)?;
            options().append(true).open(path)
        };
        Ok(Self {
            path: path.to_owned(),
            output: Box::new(open().map_err(failed("write the metrics to", path))?),
            last,
        })
    }

    /// Writes the metrics of a step as one line. The values are `f64`, `f32` or smaller integers. Each step is greater than
    /// the step before.
    ///
    /// # Errors
    /// Returns [`TrainingError::Name`] if a name occurs twice or is `step`, [`TrainingError::Order`] if the last line has the
    /// same step or a later one, and [`TrainingError::Io`] if the line cannot be written.
    pub fn write<N: AsRef<str>, V: Into<f64>>(
        &mut self,
        step: usize,
        metrics: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), TrainingError> {
        if let Some(last) = self.last.filter(|last| step <= *last) {
            return Err(TrainingError::Order {
                path: self.path.clone(),
                step,
                last,
            });
        }
        let mut line = format!("{{\"step\":{step}");
        let mut names = vec!["step".to_owned()];
        for (name, value) in metrics {
            let name = name.as_ref().to_owned();
            line.push(',');
            line.push_str(&Value::from(name.as_str()).to_string());
            line.push(':');
            line.push_str(&json(value.into()).to_string());
            if names.contains(&name) {
                return Err(TrainingError::Name { step, name });
            }
            names.push(name);
        }
        line.push_str("}\n");
        self.output
            .write_all(line.as_bytes())
            .map_err(failed("write the metrics to", &self.path))?;
        self.last = Some(step);
        Ok(())
    }

    /// Reads the metrics of a file. Ignores an incomplete last line.
    ///
    /// # Errors
    /// Returns [`TrainingError::Io`] if the file cannot be read, and [`TrainingError::Line`] if it has other lines than
    /// metrics.
    pub fn read(path: impl AsRef<Path>) -> Result<Vec<MetricsRecord>, TrainingError> {
        let path = path.as_ref();
        let text = files::read(path).map_err(failed("read the metrics in", path))?;
        let numbered = lines(&text).enumerate();
        numbered
            .map(|(number, line)| parse(path, number + 1, line))
            .collect()
    }
}

impl fmt::Debug for MetricsLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsLog")
            .field("path", &self.path)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

/// Returns the function that makes an error of the operating system an error of a file of metrics or of a picture.
pub(super) fn failed(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> TrainingError {
    move |source| TrainingError::Io {
        operation,
        path: path.to_owned(),
        source,
    }
}

/// Returns the complete lines of a file, without the character at their ends.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let complete = text.split_inclusive(|&byte| byte == b'\n');
    complete.filter_map(|line| line.strip_suffix(b"\n"))
}

fn json(value: f64) -> Value {
    if value.is_nan() {
        Value::from("NaN")
    } else if value.is_infinite() {
        Value::from(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        Value::from(value)
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn parse(path: &Path, line: usize, text: &[u8]) -> Result<MetricsRecord, TrainingError> {
    let wrong = |expected: &'static str| {
        let text: String = String::from_utf8_lossy(text).chars().take(80).collect();
        TrainingError::Line {
            path: path.to_owned(),
            line,
            expected,
            found: format!("`{}`", text.escape_debug()),
        }
    };
    let object: Map<String, Value> =
        serde_json::from_slice(text).map_err(|_| wrong("a JSON object"))?;
    let step = object.get("step").and_then(Value::as_u64);
    let step = step.and_then(|step| usize::try_from(step).ok());
    let step = step.ok_or_else(|| wrong("`step` with a whole number"))?;
    let values = object.iter().filter(|(name, _)| *name != "step");
    let metrics = values.map(|(name, value)| {
        let value = number(value).ok_or_else(|| wrong("a number for each name"))?;
        Ok((name.clone(), value))
    });
    Ok(MetricsRecord {
        step,
        metrics: metrics.collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("pytree-metrics-{name}-{}", std::process::id()))
    }

    #[test]
    fn values_are_read_as_written() {
        let path = file("values");
        let values = [
            0.1,
            1.0 / 3.0,
            5e-324,
            f64::MAX,
            -0.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ];
        let mut log = MetricsLog::create(&path).unwrap();
        for (step, value) in (0..).zip(values) {
            log.write(step, [("a \"name\"", value), ("nan", f64::NAN)])
                .unwrap();
        }
        log.write(7, [("narrow", 0.1_f32)]).unwrap();
        let read = MetricsLog::read(&path).unwrap();
        for (record, value) in read.iter().zip(values) {
            assert_eq!(record.get("a \"name\"").unwrap().to_bits(), value.to_bits());
            assert!(record.get("nan").unwrap().is_nan());
        }
        assert_eq!(read[7].get("narrow"), Some(f64::from(0.1_f32)));
        assert_eq!(read[7].get("other"), None);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn resuming_removes_later_and_incomplete_lines() {
        let path = file("resume");
        let mut log = MetricsLog::create(&path).unwrap();
        for step in [1, 2, 3] {
            log.write(step, [("loss", 0.5)]).unwrap();
        }
        drop(log);
        let whole = std::fs::read_to_string(&path).unwrap();
        // A killed process has written a part of a line.
        std::fs::write(&path, format!("{whole}{{\"step\":4,\"lo")).unwrap();
        assert_eq!(MetricsLog::read(&path).unwrap().len(), 3);
        drop(MetricsLog::resume(&path, 4).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
        let mut log = MetricsLog::resume(&path, 1).unwrap();
        for step in [2, 3] {
            log.write(step, [("loss", 0.5)]).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
        std::fs::remove_file(&path).unwrap();
        drop(MetricsLog::resume(&path, 0).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn log_that_ends_too_early_is_not_resumed() {
        let path = file("early");
        let message = |step| MetricsLog::resume(&path, step).unwrap_err().to_string();
        let missing = format!(
            "cannot resume the metrics in `{}` after step 3: the file does not exist, or has no lines; give the path of the interrupted run, or start a new log with `MetricsLog::create`",
            path.display()
        );
        assert_eq!(message(3), missing);
        assert!(!path.exists());
        let mut log = MetricsLog::create(&path).unwrap();
        assert_eq!(message(3), missing);
        log.write(10, [("loss", 0.5)]).unwrap();
        // The distance of the lines is not known.
        drop(MetricsLog::resume(&path, 45).unwrap());
        for step in [20, 30] {
            log.write(step, [("loss", 0.5)]).unwrap();
        }
        let whole = std::fs::read_to_string(&path).unwrap();
        // The next line is that of step 40, so the checkpoint of step 39 has no line of its own.
        for step in [30, 39, 40] {
            drop(MetricsLog::resume(&path, step).unwrap());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
        }
        assert!(message(45).contains(
            "after step 45: the last line is that of step 30, and later lines are missing; if the run wrote none, pass 30; give"
        ));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
        // The run was interrupted before its first line.
        drop(MetricsLog::resume(&path, 5).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn missing_folder_is_named() {
        let path = file("no-folder").join("metrics.jsonl");
        let folder = file("no-folder");
        assert_eq!(
            MetricsLog::create(&path).unwrap_err().to_string(),
            format!(
                "cannot write the metrics to `{}`: the folder `{}` does not exist; create it with `std::fs::create_dir_all`",
                path.display(),
                folder.display()
            )
        );
    }

    #[test]
    fn steps_are_written_in_order() {
        let path = file("order");
        let mut log = MetricsLog::create(&path).unwrap();
        log.write(4, [("loss", 0.5)]).unwrap();
        for step in [4, 3] {
            let message = log.write(step, [("loss", 0.5)]).unwrap_err().to_string();
            let expected = format!(
                "cannot write the metrics of step {step} to `{}`: its last line is that of step 4; write each step once",
                path.display()
            );
            assert!(message.starts_with(&expected), "{message}");
        }
        let mut log = MetricsLog::resume(&path, 4).unwrap();
        assert!(log.write(4, [("loss", 0.5)]).is_err());
        log.write(5, [("loss", 0.5)]).unwrap();
        assert_eq!(MetricsLog::read(&path).unwrap().len(), 2);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn other_files_are_refused_and_unchanged() {
        let path = file("other");
        for (text, expected) in [
            (
                "name = \"mine\"\n",
                "line 1: expected a JSON object, found `name = \\\"mine\\\"`",
            ),
            (
                "{\"step\":1}\n{\"loss\":1}\n",
                "line 2: expected `step` with a whole number",
            ),
            (
                "{\"step\":1,\"loss\":[]}\n",
                "line 1: expected a number for each name",
            ),
            ("\n", "line 1: expected a JSON object, found ``"),
        ] {
            std::fs::write(&path, text).unwrap();
            let message = MetricsLog::resume(&path, 0).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        let mut log = MetricsLog::create(&path).unwrap();
        let twice = log.write(3, [("step", 1.0)]).unwrap_err().to_string();
        assert!(twice.contains("cannot write the metrics of step 3: the name `step` occurs twice"));
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        std::fs::remove_file(path).unwrap();
    }
}
