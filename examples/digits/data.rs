//! Reads the digits from the CSV file in the repository.

use std::path::Path;

use pytree::prelude::*;

/// The number of images.
pub(crate) const IMAGES: usize = 1797;
/// The number of training images. The other images are test images.
pub(crate) const TRAINING: usize = 1437;
/// The number of pixels of an image.
pub(crate) const PIXELS: usize = 64;

/// Images with pixels from 0 to 1, and the digit that each image shows.
pub(crate) struct Digits {
    pixels: Vec<f32>,
    digits: Vec<i32>,
}

impl Digits {
    /// Reads the file. Each line has 64 pixels from 0 to 16, and then the digit.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read the digits from {}: {error}", path.display()))?;
        Self::parse(&text)
            .map_err(|problem| format!("cannot read the digits from {}: {problem}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (mut pixels, mut digits) = (Vec::new(), Vec::new());
        for (line, row) in text.lines().enumerate() {
            let values = row
                .split(',')
                .enumerate()
                .map(|(column, value)| {
                    let in_range = |value: &u8| *value <= if column < PIXELS { 16 } else { 9 };
                    value
                        .trim()
                        .parse::<u8>()
                        .ok()
                        .filter(in_range)
                        .ok_or_else(|| {
                            let expected = if column < PIXELS {
                                "a pixel from 0 to 16"
                            } else {
                                "a digit from 0 to 9"
                            };
                            format!(
                                "line {}, column {}: expected {expected}, found `{value}`",
                                line + 1,
                                column + 1
                            )
                        })
                })
                .collect::<Result<Vec<u8>, String>>()?;
            if values.len() != PIXELS + 1 {
                let found = values.len();
                return Err(format!(
                    "line {}: expected {} columns (64 pixels and the digit), found {found}",
                    line + 1,
                    PIXELS + 1
                ));
            }
            pixels.extend(
                values[..PIXELS]
                    .iter()
                    .map(|&pixel| f32::from(pixel) / 16.0),
            );
            digits.push(i32::from(values[PIXELS]));
        }
        if digits.len() != IMAGES {
            return Err(format!("expected {IMAGES} lines, found {}", digits.len()));
        }
        Ok(Self { pixels, digits })
    }

    /// Returns the images and digits at some positions, as tensors of `[count, 64]` and `[count]`.
    pub(crate) fn batch(&self, positions: &[usize]) -> (Tensor, Tensor) {
        let pixels: Vec<f32> = positions
            .iter()
            .flat_map(|&at| &self.pixels[at * PIXELS..(at + 1) * PIXELS])
            .copied()
            .collect();
        let digits: Vec<i32> = positions.iter().map(|&at| self.digits[at]).collect();
        (
            Tensor::new([positions.len(), PIXELS], pixels),
            Tensor::from(digits),
        )
    }
}

/// Returns the digits of the repository in random order, divided into training data and test data: images `[count, 64]` and
/// digits `[count]`.
#[allow(
    dead_code,
    reason = "not every program that shares this file divides the digits by a key"
)]
pub(crate) fn load(key: &Key) -> Result<[(Tensor, Tensor); 2], String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/digits.csv");
    let (images, digits) = Digits::read(&file)?.batch(&(0..IMAGES).collect::<Vec<_>>());
    let order = key.permutation(IMAGES);
    let rows = [order.index(ix![..TRAINING]), order.index(ix![TRAINING..])];
    Ok(rows.map(|rows| (images.take(&rows, 0), digits.take(&rows, 0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_row_is_error_with_its_line() {
        let row = vec!["3"; 64].join(",");
        let short = format!("{row},1\n{row}\n");
        assert_eq!(
            Digits::parse(&short).err().unwrap(),
            "line 2: expected 65 columns (64 pixels and the digit), found 64"
        );
        let wrong = format!("{row},x\n");
        assert_eq!(
            Digits::parse(&wrong).err().unwrap(),
            "line 1, column 65: expected a digit from 0 to 9, found `x`"
        );
    }
}
