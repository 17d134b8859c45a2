//! Singular values of matrices that are hard for an iteration take no longer than those of random matrices.

use cpu_time::ThreadTime;
use pytree::linalg::svd;
use pytree::prelude::*;

const SIZE: usize = if cfg!(debug_assertions) { 60 } else { 300 };

fn noise(row: usize, column: usize) -> f64 {
    let mixed = (12.9898 * (row as f64 + 1.0) + 78.233 * (column as f64 + 1.0)).sin() * 43_758.547;
    2.0 * (mixed - mixed.floor()) - 1.0
}

#[rustfmt::skip]
const HARD: [(&str, fn(usize, usize) -> f64); 5] = [
    ("graded", |i, j| noise(i, j) * (-0.7 * i as f64).exp()),
    ("Vandermonde", |i, j| noise(i, 0).powi(j as i32)),
    ("Kahan", |i, j| 0.932_f64.powi(i as i32) * if i == j { 1.0 } else if i < j { -0.362 } else { 0.0 }),
    ("Hilbert", |i, j| 1.0 / (i + j + 1) as f64),
    ("Läuchli", |i, j| if i == 0 { 1.0 } else if i == j + 1 { 1e-9 } else { 0.0 }),
];

/// Returns the median time that this thread runs.
fn time(element: fn(usize, usize) -> f64) -> f64 {
    let elements: Vec<f64> = (0..SIZE * SIZE)
        .map(|at| element(at / SIZE, at % SIZE))
        .collect();
    let matrix = Tensor::new([SIZE, SIZE], elements);
    let mut times: Vec<f64> = (0..9)
        .map(|_| {
            let start = ThreadTime::now();
            drop(svd(&matrix));
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The median of a few runs of each, in turn, so that other programs on the machine matter little.
#[test]
fn hard_singular_values_take_at_most_twice_as_long() {
    for (name, element) in HARD {
        let ratio = || time(element) / time(noise);
        let ratios = [ratio(), ratio(), ratio()];
        let least = ratios.into_iter().fold(f64::INFINITY, f64::min);
        println!("{name}: {least:.2} times as long as a random matrix");
        assert!(least <= 2.0, "{name}: {ratios:?}");
    }
}
