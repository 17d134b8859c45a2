//! Timing shared by the benchmarks.

use std::time::Instant;

/// Median time of a call in nanoseconds, of the functions in turn: each round samples every one once, so
/// that noise of the machine falls on all alike.
pub fn medians(functions: &mut [(&str, Box<dyn FnMut() + '_>)]) -> Vec<f64> {
    const ROUNDS: usize = 41;
    const SAMPLE: f64 = 4e-3;
    let counts: Vec<u64> = functions
        .iter_mut()
        .map(|(_, function)| {
            let start = Instant::now();
            let mut count = 0_u64;
            while start.elapsed().as_secs_f64() < SAMPLE || count < 3 {
                function();
                count += 1;
            }
            ((SAMPLE / (start.elapsed().as_secs_f64() / count as f64)) as u64).max(1)
        })
        .collect();
    let mut samples = vec![Vec::with_capacity(ROUNDS); functions.len()];
    for _ in 0..ROUNDS {
        for (position, (_, function)) in functions.iter_mut().enumerate() {
            let start = Instant::now();
            (0..counts[position]).for_each(|_| function());
            samples[position].push(start.elapsed().as_secs_f64() * 1e9 / counts[position] as f64);
        }
    }
    samples
        .into_iter()
        .map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
        .collect()
}
