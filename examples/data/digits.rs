//! Reads the digits for the examples of other libraries.

/// Returns 1,437 training images and 360 test images: the 64 pixels of each image, from 0 to 1, and the digit that it shows.
pub(crate) fn read() -> [(Vec<[f32; 64]>, Vec<u32>); 2] {
    [(0, 1437), (1437, 360)].map(|(from, count)| {
        let lines = include_str!("digits.csv").lines();
        let image = |line: &str| {
            let numbers = line.split(',').map(|it| it.parse().expect("a number"));
            let numbers: Vec<u8> = numbers.collect();
            let pixels = std::array::from_fn(|at| f32::from(numbers[at]) / 16.0);
            (pixels, u32::from(numbers[64]))
        };
        lines.skip(from).take(count).map(image).unzip()
    })
}

/// Returns the part of the images whose digit has the largest of the ten logits.
pub(crate) fn accuracy(logits: impl IntoIterator<Item = f32>, digits: &[u32]) -> f32 {
    let logits: Vec<f32> = logits.into_iter().collect();
    let rows = logits.chunks(10).zip(digits);
    let hits = rows.filter(|(row, digit)| row.iter().all(|it| *it <= row[**digit as usize]));
    hits.count() as f32 / digits.len() as f32
}
