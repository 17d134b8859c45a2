//! Pictures of learning curves.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use pytree_derive::panicking_twin;

use crate::training::error::TrainingError;
use crate::training::metrics_log::{MetricsRecord, failed};
use crate::training::ticks::ticks;
use pytree_store::files;

/// The size of the picture of one diagram, and the margins around its curves, in pixels.
const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 42.0;
/// Colours that colour-blind readers can tell apart (Okabe and Ito 2008, "Color universal design").
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
];

/// Curves of one diagram, such as the losses of the training and the test examples by epoch.
///
/// # Examples
/// ```
/// use pytree_io::training::{Curves, save_curves};
/// let loss = Curves::new("loss")
///     .curve("training", [(1.0, 2.3), (2.0, 0.9), (3.0, 0.4)])
///     .curve("test", [(1.0, 2.3), (2.0, 1.1), (3.0, 0.7)]);
/// assert!(loss.svg().starts_with("<svg "));
/// let path = std::env::temp_dir().join("pytree-curves-example.svg");
/// save_curves(&path, &[loss, Curves::new("accuracy").curve("test", [(1.0, 0.2), (2.0, 0.8)])])?;
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    title: String,
    axis: String,
    series: Vec<(String, Vec<(f64, f64)>)>,
}

impl Curves {
    /// Creates a diagram without curves. The horizontal axis is named `epoch`.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            axis: "epoch".to_owned(),
            series: Vec::new(),
        }
    }

    /// Names the horizontal axis.
    #[must_use]
    pub fn axis(self, axis: impl Into<String>) -> Self {
        Self {
            axis: axis.into(),
            ..self
        }
    }

    /// Adds a curve through points. A point leaves a gap if a coordinate is NaN, or beyond ±10^100.
    #[must_use]
    pub fn curve(
        mut self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        self.series
            .push((name.into(), points.into_iter().collect()));
        self
    }

    /// Adds the curve of a metric by step, from the records of [`MetricsLog::read`](crate::training::MetricsLog::read).
    ///
    /// # Panics
    /// If no record has the metric, for instance because there are no records.
    #[panicking_twin(metric, NoMetric)]
    pub fn try_metric(self, name: &str, records: &[MetricsRecord]) -> Result<Self, TrainingError> {
        let point = |record: &MetricsRecord| Some((record.step as f64, record.get(name)?));
        let points: Vec<(f64, f64)> = records.iter().filter_map(point).collect();
        if points.is_empty() {
            let names = records.iter().flat_map(|record| &record.metrics);
            let names: BTreeSet<&String> = names.map(|(name, _)| name).collect();
            return Err(TrainingError::NoMetric {
                name: name.to_owned(),
                names: names.into_iter().cloned().collect(),
            });
        }
        Ok(self.curve(name, points))
    }

    /// Returns the picture as SVG.
    pub fn svg(&self) -> String {
        picture(std::slice::from_ref(self))
    }

    /// Draws the diagram at `left` pixels from the left side of the picture.
    fn draw(&self, svg: &mut String, left: f64) {
        let points = || self.series.iter().flat_map(|(_, points)| points).copied();
        let points = || points().filter(is_drawn);
        let x = Axis::new(
            points().map(|(x, _)| x),
            0.0,
            left + LEFT,
            left + WIDTH - RIGHT,
        );
        let y = Axis::new(points().map(|(_, y)| y), 0.05, HEIGHT - BOTTOM, TOP);
        let centre = left + LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        text(svg, centre, 20.0, "middle", 15, &self.title);
        text(svg, centre, HEIGHT - 8.0, "middle", 12, &self.axis);
        draw_axes(svg, &x, &y);
        for (number, (_, points)) in self.series.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            for run in points.split(|point| !is_drawn(point)) {
                let places = run.iter().map(|&(px, py)| (x.place(px), y.place(py)));
                if let [_] = run {
                    // A line through one point would be invisible.
                    places.for_each(|(px, py)| {
                        let _ = writeln!(
                            svg,
                            r#"<circle cx="{px:.1}" cy="{py:.1}" r="2.5" fill="{colour}"/>"#
                        );
                    });
                } else if !run.is_empty() {
                    let places = places.map(|(px, py)| format!("{px:.1},{py:.1}"));
                    let places = places.collect::<Vec<_>>().join(" ");
                    let _ = writeln!(
                        svg,
                        r#"<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.8" stroke-linejoin="round"/>"#
                    );
                }
            }
        }
        self.draw_legend(svg, left);
    }

    /// Draws the names of the curves where they hide the fewest points: at the top or at the bottom of the right side.
    fn draw_legend(&self, svg: &mut String, left: f64) {
        if self.series.len() < 2 {
            return;
        }
        let last = self.series.iter().filter_map(|(_, points)| points.last());
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let points = self.series.iter().flat_map(|(_, points)| points);
        points.filter(|point| is_drawn(point)).for_each(|&(_, y)| {
            low = low.min(y);
            high = high.max(y);
        });
        let above = last.filter(|(_, y)| *y > low + (high - low) / 2.0).count();
        let lines = self.series.len() as f64;
        let top = if above * 2 > self.series.len() {
            HEIGHT - BOTTOM - 16.0 * lines - 2.0
        } else {
            TOP + 6.0
        };
        let right = left + WIDTH - RIGHT - 8.0;
        for (number, (name, _)) in self.series.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let line = top + 16.0 * number as f64;
            let (from, middle) = (right - 18.0, line + 6.0);
            let _ = writeln!(
                svg,
                r#"<line x1="{from}" y1="{middle}" x2="{right}" y2="{middle}" stroke="{colour}" stroke-width="2.5"/>"#
            );
            text(svg, right - 24.0, line + 10.0, "end", 12, name);
        }
    }
}

/// Writes diagrams side by side as one picture in SVG, atomically. See [`Curves`] for an example.
///
/// # Errors
/// Returns [`TrainingError::NoCurves`] if there is no diagram, or if a diagram has no curve, and [`TrainingError::Io`] if the
/// file cannot be written.
pub fn save_curves(path: impl AsRef<Path>, diagrams: &[Curves]) -> Result<(), TrainingError> {
    let path = path.as_ref();
    let empty = diagrams.iter().find(|diagram| diagram.series.is_empty());
    if diagrams.is_empty() || empty.is_some() {
        return Err(TrainingError::NoCurves {
            path: path.to_owned(),
            title: empty.map(|diagram| diagram.title.clone()),
        });
    }
    files::write(path, picture(diagrams).as_bytes()).map_err(failed("write the picture", path))
}

fn picture(diagrams: &[Curves]) -> String {
    let width = WIDTH * diagrams.len().max(1) as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{HEIGHT}\" viewBox=\"0 0 {width} {HEIGHT}\" font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (number, diagram) in diagrams.iter().enumerate() {
        diagram.draw(&mut svg, WIDTH * number as f64);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns whether a picture can show a point.
fn is_drawn((x, y): &(f64, f64)) -> bool {
    x.abs() <= 1e100 && y.abs() <= 1e100
}

/// An axis: the range of its numbers, and the pixels where the range begins and ends.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Creates an axis for some finite numbers, with a margin in parts of their range.
    fn new(numbers: impl Iterator<Item = f64>, margin: f64, from: f64, to: f64) -> Self {
        let (low, high) = numbers
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| {
                (low.min(number), high.max(number))
            });
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        // The range of equal numbers, or of numbers that differ by rounding, would be too small for labels.
        let least = (low.abs().max(high.abs()) * 1e-6).max(1e-9);
        let widened = if high - low < least {
            least
        } else {
            (high - low) * margin
        };
        Self {
            low: low - widened,
            high: high + widened,
            from,
            to,
        }
    }

    fn place(&self, number: f64) -> f64 {
        self.from + (number - self.low) / (self.high - self.low) * (self.to - self.from)
    }
}

fn draw_axes(svg: &mut String, x: &Axis, y: &Axis) {
    let (numbers, digits) = ticks(x.low, x.high);
    for number in numbers {
        let place = x.place(number);
        line(svg, (place, y.from), (place, y.to), "#e5e5e5");
        text(
            svg,
            place,
            y.from + 16.0,
            "middle",
            11,
            &format!("{number:.digits$}"),
        );
    }
    let (numbers, digits) = ticks(y.low, y.high);
    for number in numbers {
        let place = y.place(number);
        line(svg, (x.from, place), (x.to, place), "#e5e5e5");
        let label = if number.abs() >= 1e6 {
            format!("{number:.1e}")
        } else {
            format!("{number:.digits$}")
        };
        text(svg, x.from - 6.0, place + 4.0, "end", 11, &label);
    }
    line(svg, (x.from, y.from), (x.to, y.from), "#555555");
    line(svg, (x.from, y.from), (x.from, y.to), "#555555");
}

fn line(svg: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str) {
    let _ = writeln!(
        svg,
        r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{colour}"/>"#
    );
}

/// Draws a text that begins, ends or has its middle (`anchor`) at a place.
fn text(svg: &mut String, x: f64, y: f64, anchor: &str, size: u32, content: &str) {
    let mut escaped = String::with_capacity(content.len());
    for character in content.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // XML has no control characters.
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    let _ = writeln!(
        svg,
        r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" text-anchor="{anchor}">{escaped}</text>"#
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the points of all lines through several points.
    fn polylines(svg: &str) -> Vec<Vec<(f64, f64)>> {
        let parts = svg.split("<polyline points=\"").skip(1);
        let points = parts.filter_map(|part| part.split('"').next());
        let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
        points
            .map(|points| {
                let pairs = points.split(' ').filter_map(|pair| pair.split_once(','));
                pairs.map(|(x, y)| (number(x), number(y))).collect()
            })
            .collect()
    }

    #[test]
    fn points_are_at_their_places() {
        let svg = Curves::new("loss")
            .curve("a", [(0.0, 0.0), (5.0, 1.0), (10.0, 10.0)])
            .svg();
        let lines = polylines(&svg);
        // 10 is 5% of the range below the top, and 0 is 5% above the bottom.
        let height = HEIGHT - TOP - BOTTOM;
        let place = |y: f64| HEIGHT - BOTTOM - height * (y + 0.5) / 11.0;
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        let expected = [
            (LEFT, place(0.0)),
            (middle, place(1.0)),
            (WIDTH - RIGHT, place(10.0)),
        ];
        for (found, expected) in lines[0].iter().zip(expected) {
            assert!(
                (found.0 - expected.0).abs() < 0.06,
                "{found:?} {expected:?}"
            );
            assert!(
                (found.1 - expected.1).abs() < 0.06,
                "{found:?} {expected:?}"
            );
        }
        assert!(!svg.contains(">a<"), "one curve needs no legend");
    }

    #[test]
    fn numbers_that_are_not_finite_leave_gaps() {
        let values = [1.0, 2.0, f64::NAN, 3.0, f64::INFINITY, 4.0, 5.0, 6.0];
        let points = values.into_iter().enumerate();
        let points = points.map(|(step, value)| (step as f64, value));
        let svg = Curves::new("<&>").curve("a", points).curve("b", []).svg();
        let lengths: Vec<usize> = polylines(&svg).iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, 3]);
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(svg.contains("&lt;&amp;&gt;"));
    }

    #[test]
    fn any_numbers_are_drawn_inside_of_picture() {
        for values in [
            vec![],
            vec![0.0],
            vec![7.0; 3],
            vec![f64::MAX, -f64::MAX, f64::MIN_POSITIVE],
            vec![1e100, 1e100 * (1.0 - 1e-15)],
            vec![1e100, -1e100],
            vec![1e-320, 2e-320],
            vec![f64::NAN],
        ] {
            let points = values.iter().enumerate();
            let points: Vec<_> = points.map(|(step, &value)| (step as f64, value)).collect();
            let svg = Curves::new("any")
                .curve("a", points.clone())
                .curve("b", points)
                .svg();
            assert!(
                !svg.contains("NaN") && !svg.contains("inf"),
                "{values:?}: {svg}"
            );
            for (x, y) in polylines(&svg).into_iter().flatten() {
                assert!((0.0..=WIDTH).contains(&x) && (0.0..=HEIGHT).contains(&y));
            }
        }
    }

    #[test]
    fn metrics_of_file_are_curve() {
        let record = |step, name: &str, value| MetricsRecord {
            step,
            metrics: vec![(name.to_owned(), value)],
        };
        let records = [
            record(1, "loss", 2.0),
            record(1, "other", 9.0),
            record(2, "loss", 1.0),
        ];
        let expected = Curves::new("").curve("loss", [(1.0, 2.0), (2.0, 1.0)]);
        assert_eq!(Curves::new("").metric("loss", &records), expected);
    }

    #[test]
    fn missing_metric_and_curves_are_named() {
        let records = [MetricsRecord {
            step: 1,
            metrics: vec![("loss".to_owned(), 2.0), ("accuracy".to_owned(), 0.5)],
        }];
        let error = Curves::new("").try_metric("los", &records).err();
        assert_eq!(
            error.map(|error| error.to_string()).as_deref(),
            Some(
                "cannot draw the metric `los`: no record has it; the records have `accuracy`, `loss`"
            )
        );
        let error = Curves::new("").try_metric("loss", &[]).err();
        assert_eq!(
            error.map(|error| error.to_string()).as_deref(),
            Some(
                "cannot draw the metric `loss`: no record has it; the records have no metrics, or there are no records"
            )
        );
        let path = std::env::temp_dir().join(format!("pytree-no-curves-{}", std::process::id()));
        let message = |diagrams: &[Curves]| {
            let error = save_curves(&path, diagrams).err();
            error.map_or_else(String::new, |error| error.to_string())
        };
        assert!(message(&[]).ends_with("there is no diagram; pass at least one with a curve"));
        let one = Curves::new("loss").curve("a", [(0.0, 1.0)]);
        assert!(
            message(&[one, Curves::new("rate")])
                .ends_with("the diagram `rate` has no curve; add one with `curve` or `metric`")
        );
        assert!(!path.exists());
    }
}
