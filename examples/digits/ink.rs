//! Shows digits in the terminal.

use pytree::prelude::*;

/// Formats images of 8 × 8 pixels from 0 to 1 (`[count, 64]`) as text, side by side.
pub(crate) fn picture(images: &Tensor) -> String {
    const INKS: [&str; 5] = ["  ", "..", "::", "**", "##"];
    let pixels = images.to_vec::<f32>();
    let ink = |pixel: &f32| {
        let lighter = [0.125, 0.375, 0.625, 0.875]
            .iter()
            .filter(|&level| level < pixel);
        INKS[lighter.count()]
    };
    let line = |row: usize| {
        let rows = pixels.chunks(8).skip(row).step_by(8);
        let rows: Vec<String> = rows.map(|row| row.iter().map(ink).collect()).collect();
        rows.join("  ").trim_end().to_owned() + "\n"
    };
    (0..8).map(line).collect()
}
