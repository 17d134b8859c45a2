//! Errors of files of metrics.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A file of metrics or a picture cannot be written or read.
#[derive(Error)]
#[non_exhaustive]
pub enum TrainingError {
    /// The operating system reported an error.
    #[error("cannot {operation} `{}`: {source}", .path.display())]
    Io {
        /// The operation that failed, such as `write the metrics to`.
        operation: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A line of a file of metrics is invalid.
    #[error("cannot read the metrics in `{}`: line {line}: expected {expected}, found {found}; remove the line, or write to another file", .path.display())]
    Line {
        /// The path of the file.
        path: PathBuf,
        /// The number of the line, starting at 1.
        line: usize,
        /// The expected content.
        expected: &'static str,
        /// The actual content.
        found: String,
    },
    /// Two metrics of a step have the same name, or a metric is named `step`.
    #[error(
        "cannot write the metrics of step {step}: the name `{name}` occurs twice; each name, also `step`, occurs once in a line"
    )]
    Name {
        /// The number of the step.
        step: usize,
        /// The name.
        name: String,
    },
    /// The step is not behind the last step of the file.
    #[error(
        "cannot write the metrics of step {step} to `{}`: its last line is that of step {last}; write each step once, in order, or resume from an earlier step with `MetricsLog::resume`", .path.display()
    )]
    Order {
        /// The path of the file.
        path: PathBuf,
        /// The number of the step.
        step: usize,
        /// The last step of the file.
        last: usize,
    },
    /// The file that is to be continued lacks the steps before.
    #[error("cannot resume the metrics in `{}` after step {step}: {}; give the path of the interrupted run, or start a new log with `MetricsLog::create`", .path.display(), end_of(*.last))]
    Resume {
        /// The path of the file.
        path: PathBuf,
        /// The step after which the run continues.
        step: usize,
        /// The last step of the file, or `None` if the file does not exist or has no lines.
        last: Option<usize>,
    },
    /// No record has a metric of this name.
    #[error("cannot draw the metric `{name}`: no record has it; the records have {}", quoted(.names))]
    NoMetric {
        /// The name.
        name: String,
        /// The names that the records have, sorted.
        names: Vec<String>,
    },
    /// A picture would have no curve.
    #[error("cannot draw the picture `{}`: {}", .path.display(), empty_diagram(.title.as_deref()))]
    NoCurves {
        /// The path of the file.
        path: PathBuf,
        /// The title of the diagram without a curve, or `None` if there is no diagram.
        title: Option<String>,
    },
}

pytree_base::debug_as_display!(TrainingError);

fn end_of(last: Option<usize>) -> String {
    last.map_or_else(
        || "the file does not exist, or has no lines".to_owned(),
        |last| format!("the last line is that of step {last}, and later lines are missing; if the run wrote none, pass {last}"),
    )
}

fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.len() {
        0 => "no metrics, or there are no records".to_owned(),
        _ => quoted.join(", "),
    }
}

fn empty_diagram(title: Option<&str>) -> String {
    title.map_or_else(
        || "there is no diagram; pass at least one with a curve".to_owned(),
        |title| format!("the diagram `{title}` has no curve; add one with `curve` or `metric`"),
    )
}
