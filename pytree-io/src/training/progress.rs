//! The progress of a training run, in a terminal or in a log.

use std::fmt;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use pytree_base::platform::{self, Stream};

/// The number of characters of the bar.
const WIDTH: usize = 30;
/// The time between two drawings of the bar.
const INTERVAL: Duration = Duration::from_millis(100);

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressStyle {
    /// A bar that is drawn again in the last line of a terminal, with the metrics and the remaining time.
    Bar,
    /// A line for each report of metrics.
    Lines,
    /// Nothing.
    Hidden,
}

/// Shows the steps and the metrics of a training run on the standard error, or on the [output](pytree_base::platform) of a page.
///
/// In a terminal there is a bar with the remaining time. Otherwise, as in the log of a server, each
/// [`report`](Self::report) is a line. The bar is drawn at most ten times per second, so a step costs a few nanoseconds.
///
/// # Examples
/// ```
/// use pytree_io::training::Progress;
/// let mut progress = Progress::new(2 * 100);
/// for epoch in 0..2 {
///     for _ in 0..100 {
///         progress.step();
///     }
///     progress.report(format_args!("epoch {epoch}"), [("loss", 0.25), ("accuracy", 0.9)]);
/// }
/// ```
pub struct Progress {
    steps: usize,
    done: usize,
    /// The number of steps of an earlier run, which say nothing about the speed.
    skipped: usize,
    message: String,
    /// The times of the start and of the last drawing.
    started: Duration,
    drawn: Option<Duration>,
    style: ProgressStyle,
    output: Box<dyn Write + Send>,
}

impl Progress {
    /// Shows the progress of a run of `steps` steps on the standard error: a bar in a terminal, and lines otherwise.
    pub fn new(steps: usize) -> Self {
        let style = if Stream::Error.is_terminal() {
            ProgressStyle::Bar
        } else {
            ProgressStyle::Lines
        };
        Self::to(Stream::Error, style, steps)
    }

    /// Shows nothing. So a quiet run needs no other code.
    pub fn hidden() -> Self {
        Self::to(io::sink(), ProgressStyle::Hidden, 0)
    }

    /// Shows the progress in a given style on any output, such as a file. Errors of the output are ignored.
    pub fn to(output: impl Write + Send + 'static, style: ProgressStyle, steps: usize) -> Self {
        Self {
            steps,
            done: 0,
            skipped: 0,
            message: String::new(),
            started: platform::now(),
            drawn: None,
            style,
            output: Box::new(output),
        }
    }

    /// Begins at a step, because an earlier run made the steps before it. `step` is the number of finished steps.
    ///
    /// The bar begins at `step` of the whole run. The remaining time is estimated from the steps of this run only.
    ///
    /// # Examples
    /// ```
    /// use pytree_io::training::Progress;
    /// // A checkpoint of step 150 was loaded, so 50 steps remain.
    /// let mut progress = Progress::new(200).resumed_at(150);
    /// for _ in 150..200 {
    ///     progress.step();
    /// }
    /// ```
    #[must_use]
    pub fn resumed_at(mut self, step: usize) -> Self {
        (self.done, self.skipped) = (step, step);
        self
    }

    /// Counts a step.
    pub fn step(&mut self) {
        self.done += 1;
        let is_due = |drawn: Duration| platform::now().saturating_sub(drawn) >= INTERVAL;
        if self.style == ProgressStyle::Bar && self.drawn.is_none_or(is_due) {
            self.draw();
        }
    }

    /// Shows metrics to the right of the bar, or as a line that begins with `label`.
    ///
    /// Metrics have four digits after the point, or an exponent if they are below 0.001 or at least 10,000.
    pub fn report<N: fmt::Display, V: Into<f64>>(
        &mut self,
        label: impl fmt::Display,
        metrics: impl IntoIterator<Item = (N, V)>,
    ) {
        if self.style == ProgressStyle::Hidden {
            return;
        }
        let mut text = label.to_string();
        let mut separator = ": ";
        for (name, value) in metrics {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "{separator}{name} {}", short(value.into()));
            separator = ", ";
        }
        if self.style == ProgressStyle::Lines {
            let _ = writeln!(self.output, "{text}");
            let _ = self.output.flush();
        } else {
            self.message = text;
            self.draw();
        }
    }

    /// Draws the bar over the last line of the terminal.
    fn draw(&mut self) {
        let now = platform::now();
        self.drawn = Some(now);
        let line = self.line(now.saturating_sub(self.started));
        // The line is cut at the edge of the terminal, because the start of a wrapped line could not be drawn over.
        let _ = write!(self.output, "\r\x1b[2K\x1b[?7l{line}\x1b[?7h");
        let _ = self.output.flush();
    }

    /// Returns the text of the bar after a time.
    fn line(&self, elapsed: Duration) -> String {
        let (done, steps) = (self.done.min(self.steps), self.steps.max(1));
        let full = WIDTH * done / steps;
        let mut line = format!(
            "{}{} {}/{} [{}",
            "█".repeat(full),
            "░".repeat(WIDTH - full),
            self.done,
            self.steps,
            clock(elapsed)
        );
        let made = self.done - self.skipped;
        if made > 0 && done < self.steps {
            let left = elapsed.as_secs_f64() * (self.steps - done) as f64 / made as f64;
            let left = Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX);
            let _ = write!(line, " < {}", clock(left));
        }
        let _ = write!(line, "] {}", self.message);
        line.truncate(line.trim_end().len());
        line
    }
}

impl Drop for Progress {
    /// Draws the last state of a bar and ends its line, also if the run panics.
    fn drop(&mut self) {
        if self.style == ProgressStyle::Bar && self.drawn.is_some() {
            self.draw();
            let _ = writeln!(self.output);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("steps", &self.steps)
            .field("done", &self.done)
            .field("style", &self.style)
            .finish_non_exhaustive()
    }
}

/// Returns a metric with few digits.
fn short(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (1e-3..1e4).contains(&size) || !value.is_finite() {
        format!("{value:.4}")
    } else {
        format!("{value:.2e}")
    }
}

/// Returns a time as minutes and seconds, with hours if there are any.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes:02}:{seconds:02}")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// An output that the test can read.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Shared {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    #[test]
    fn log_has_one_line_for_each_report() {
        let output = Shared::default();
        let mut progress = Progress::to(output.clone(), ProgressStyle::Lines, 2);
        progress.step();
        progress.report("epoch 1", [("loss", 0.25), ("rate", 1e-5)]);
        progress.step();
        progress.report("epoch 2", [("loss", f64::NAN), ("norm", 12345.0)]);
        progress.report("done", [] as [(&str, f64); 0]);
        drop(progress);
        assert_eq!(
            output.text(),
            "epoch 1: loss 0.2500, rate 1.00e-5\nepoch 2: loss NaN, norm 1.23e4\ndone\n"
        );
    }

    #[test]
    fn bar_has_steps_time_and_metrics() {
        let output = Shared::default();
        let mut progress = Progress::to(output.clone(), ProgressStyle::Bar, 10).resumed_at(3);
        progress.step();
        progress.step();
        progress.report("epoch 1", [("loss", 0.25_f32)]);
        let line = progress.line(Duration::from_secs(60));
        let bar = format!("{}{}", "█".repeat(15), "░".repeat(15));
        assert_eq!(
            line,
            format!("{bar} 5/10 [01:00 < 02:30] epoch 1: loss 0.2500")
        );
        drop(progress);
        let text = output.text();
        assert!(text.starts_with("\r\x1b[2K\x1b[?7l"), "{text:?}");
        assert!(text.ends_with("epoch 1: loss 0.2500\x1b[?7h\n"), "{text:?}");
        // The first step, the report, and the end. The second step came too soon.
        assert!(text.matches('\r').count() <= 4, "{text:?}");
    }

    #[test]
    fn more_steps_than_announced_are_shown() {
        let output = Shared::default();
        let mut progress = Progress::to(output, ProgressStyle::Bar, 0);
        progress.step();
        let line = progress.line(Duration::from_secs(3725));
        assert_eq!(line, format!("{} 1/0 [1:02:05]", "░".repeat(30)));
    }
}
