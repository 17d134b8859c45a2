//! Draws the learning curves and the confusion matrix as one picture.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The results of one epoch.
pub(crate) struct Epoch {
    pub(crate) loss: f32,
    pub(crate) training_accuracy: f32,
    pub(crate) test_accuracy: f32,
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Writes an SVG: loss and accuracies by epoch on the left, the confusion matrix on the right.
pub(crate) fn write(path: &Path, epochs: &[Epoch], confusion: &[Vec<usize>]) -> Outcome {
    let mut text = String::new();
    draw(&mut text, epochs, confusion)?;
    pytree::files::write(path, text.as_bytes())?;
    Ok(())
}

fn draw(text: &mut String, epochs: &[Epoch], confusion: &[Vec<usize>]) -> Outcome {
    let root = SVGBackend::with_string(text, (1200, 480)).into_drawing_area();
    root.fill(&WHITE)?;
    let areas = root.split_evenly((1, 3));
    curve(
        &areas[0],
        "training loss",
        epochs,
        &[("loss", BLUE, |epoch| epoch.loss)],
    )?;
    curve(
        &areas[1],
        "accuracy",
        epochs,
        &[
            ("training", BLUE, |epoch| epoch.training_accuracy),
            ("test", RED, |epoch| epoch.test_accuracy),
        ],
    )?;
    matrix(&areas[2], confusion)?;
    root.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Series = (&'static str, RGBColor, fn(&Epoch) -> f32);

fn curve(area: &Area<'_>, title: &str, epochs: &[Epoch], series: &[Series]) -> Outcome {
    let values = || {
        series
            .iter()
            .flat_map(|(_, _, value)| epochs.iter().map(value))
    };
    let low = values().fold(f32::INFINITY, f32::min);
    let high = values().fold(f32::NEG_INFINITY, f32::max);
    let margin = ((high - low) * 0.05).max(1e-3);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(45)
        .build_cartesian_2d(1..epochs.len().max(2), low - margin..high + margin)?;
    chart
        .configure_mesh()
        .x_desc("epoch")
        .light_line_style(WHITE)
        .draw()?;
    for (name, colour, value) in series {
        let colour = *colour;
        chart
            .draw_series(LineSeries::new(
                epochs
                    .iter()
                    .enumerate()
                    .map(|(at, epoch)| (at + 1, value(epoch))),
                colour,
            ))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 15, y)], colour));
    }
    if series.len() > 1 {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .border_style(BLACK)
            .draw()?;
    }
    Ok(())
}

fn matrix(area: &Area<'_>, confusion: &[Vec<usize>]) -> Outcome {
    let classes = confusion.len();
    if classes < 2 {
        return Ok(());
    }
    let largest = confusion
        .iter()
        .flatten()
        .copied()
        .max()
        .unwrap_or(1)
        .max(1) as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(
            "test digits (rows) as predicted (columns)",
            ("sans-serif", 16),
        )
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(30)
        .build_cartesian_2d(
            (0..classes - 1).into_segmented(),
            (0..classes - 1).into_segmented(),
        )?;
    chart
        .configure_mesh()
        .disable_mesh()
        .x_labels(classes)
        .y_labels(classes)
        .y_label_formatter(&|line| match line {
            SegmentValue::Exact(line) | SegmentValue::CenterOf(line) => {
                (classes - 1).saturating_sub(*line).to_string()
            }
            SegmentValue::Last => String::new(),
        })
        .draw()?;
    for (digit, row) in confusion.iter().enumerate() {
        // Places the row of digit 0 at the top.
        let line = classes - 1 - digit;
        for (predicted, &count) in row.iter().enumerate() {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "from 0 to 200"
            )]
            let shade = 255 - (count as f64 / largest * 200.0) as u8;
            let colour = if digit == predicted {
                RGBColor(shade, 255, shade)
            } else {
                RGBColor(255, shade, shade)
            };
            let corner = |column, line| (SegmentValue::Exact(column), SegmentValue::Exact(line));
            chart.draw_series([Rectangle::new(
                [corner(predicted, line), corner(predicted + 1, line + 1)],
                colour.filled(),
            )])?;
            if count > 0 {
                let middle = (
                    SegmentValue::CenterOf(predicted),
                    SegmentValue::CenterOf(line),
                );
                let style = ("sans-serif", 12)
                    .into_text_style(area)
                    .pos(Pos::new(HPos::Center, VPos::Center));
                chart.draw_series([Text::new(count.to_string(), middle, style)])?;
            }
        }
    }
    Ok(())
}
