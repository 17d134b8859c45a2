//! Draws the confusion matrix as a picture.

use std::fmt::Write as _;

/// The side of a field and the margin around the matrix, in pixels.
const FIELD: usize = 36;
const MARGIN: usize = 50;

/// Returns an SVG of the counts: rows are the digits, columns the predictions.
pub(crate) fn confusion(counts: &[Vec<usize>]) -> String {
    let largest = counts.iter().flatten().copied().max().unwrap_or(0).max(1);
    let side = 2 * MARGIN + FIELD * counts.len();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{side}\" height=\"{side}\" font-family=\"sans-serif\" font-size=\"12\" text-anchor=\"middle\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut text = |x: usize, y: usize, content: &str| {
        let _ = writeln!(svg, r#"<text x="{x}" y="{y}">{content}</text>"#);
    };
    text(side / 2, 20, "test digits (rows) as predicted (columns)");
    for digit in 0..counts.len() {
        let middle = MARGIN + FIELD * digit + FIELD / 2;
        text(middle, MARGIN - 8, &digit.to_string());
        text(MARGIN - 12, middle + 4, &digit.to_string());
    }
    for (digit, row) in counts.iter().enumerate() {
        for (predicted, &count) in row.iter().enumerate() {
            let (x, y) = (MARGIN + FIELD * predicted, MARGIN + FIELD * digit);
            let colour = if digit == predicted {
                "#009e73"
            } else {
                "#d55e00"
            };
            let shade = count as f64 / largest as f64;
            let _ = writeln!(
                svg,
                r##"<rect x="{x}" y="{y}" width="{FIELD}" height="{FIELD}" fill="{colour}" fill-opacity="{shade:.2}" stroke="#cccccc"/>"##
            );
            if count > 0 {
                let (x, y) = (x + FIELD / 2, y + FIELD / 2 + 4);
                let _ = writeln!(svg, r#"<text x="{x}" y="{y}">{count}</text>"#);
            }
        }
    }
    svg.push_str("</svg>\n");
    svg
}
