//! Timing, and the lines of results, shared by the benchmarks.
//!
//! A result is a line with a JSON object. The programs of the peers print such lines too, and `benches/compare` reads them.

#![allow(dead_code, reason = "each benchmark uses some of it")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Prints a result. `median` and `min` are those of the samples; for a single value, both are the value.
pub fn report(names: [&str; 4], unit: &str, median: f64, min: f64) {
    let [section, workload, operation, peer] = names;
    println!(
        "{{\"section\":\"{section}\",\"workload\":\"{workload}\",\"op\":\"{operation}\",\"peer\":\"{peer}\",\"unit\":\"{unit}\",\"median\":{median},\"min\":{min}}}"
    );
}

/// Returns the number of samples of an operation: that in the variable `BENCH_SAMPLES`, or `default`.
pub fn samples(default: usize) -> usize {
    let set = std::env::var("BENCH_SAMPLES").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(default)
}

type Function<'a> = Box<dyn FnMut() + 'a>;

/// Median time of a call in nanoseconds, of the functions in turn: each round samples every one once, so
/// that noise of the machine falls on all alike.
pub fn medians(functions: &mut [(&str, Function<'_>)]) -> Vec<f64> {
    const SAMPLE: f64 = 4e-3;
    let rounds = samples(41);
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
    let mut samples = vec![Vec::with_capacity(rounds); functions.len()];
    for _ in 0..rounds {
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

/// Measures a training run, each step of which returns its loss, and reports the losses, the times and the memory.
/// Returns the losses of steps 1 and 20.
///
/// `advance` starts a step, and `number` waits for its loss.
pub fn measure_steps<L>(
    [section, workload, peer]: [&str; 3],
    mut advance: impl FnMut() -> L,
    number: impl Fn(&L) -> f64,
) -> (f64, f64) {
    let report = |operation: &str, unit: &str, median: f64, min: f64| {
        report([section, workload, operation, peer], unit, median, min);
    };
    let start = Instant::now();
    let first = number(&advance());
    let first_step = start.elapsed().as_secs_f64() * 1e3;
    let twentieth = (1..20).map(|_| advance()).last();
    let twentieth = number(&twentieth.unwrap());
    report("loss_step1", "", first, first);
    report("loss_step20", "", twentieth, twentieth);
    report("first_step_ms", "ms", first_step, first_step);
    let start = Instant::now();
    let mut warm = 0;
    while start.elapsed().as_secs_f64() < 0.3 || warm < 3 {
        number(&advance());
        warm += 1;
    }
    let inner = ((0.05 / (start.elapsed().as_secs_f64() / f64::from(warm))) as usize).max(1);
    let count = samples(20);
    let processor = processor_time();
    let mut times: Vec<f64> = (0..count)
        .map(|_| {
            let start = Instant::now();
            // The last step depends on all others, so its loss is read when all of them have run.
            let last = (0..inner).map(|_| advance()).last();
            number(&last.unwrap());
            start.elapsed().as_secs_f64() * 1e6 / inner as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    report("us_per_step", "us", times[times.len() / 2], times[0]);
    let processor = (processor_time() - processor) * 1e6 / (count * inner) as f64;
    report("processor_us_per_step", "us", processor, processor);
    let peak = peak_memory();
    report("peak_mb", "MB", peak, peak);
    (first, twentieth)
}

/// Measures at most so many calls of a program whose calls take long, and reports the first and the fifth result, the times and
/// the memory.
///
/// `advance` starts a call, and `number` waits for its result, which is `None` if no other program computes the same.
pub fn measure_calls<R>(
    [section, workload, peer]: [&str; 3],
    most: usize,
    mut advance: impl FnMut() -> R,
    number: impl Fn(&R) -> Option<f64>,
) {
    let report = |operation: &str, unit: &str, median: f64, min: f64| {
        report([section, workload, operation, peer], unit, median, min);
    };
    let result = |operation: &str, value: Option<f64>| {
        if let Some(value) = value {
            report(operation, "", value, value);
        }
    };
    let start = Instant::now();
    let first = number(&advance());
    let first_step = start.elapsed().as_secs_f64() * 1e3;
    result("result_step1", first);
    report("first_step_ms", "ms", first_step, first_step);
    number(&advance());
    let start = Instant::now();
    let fifth = (0..3).map(|_| advance()).last();
    result("result_step5", number(&fifth.unwrap()));
    let each = start.elapsed().as_secs_f64() / 3.0;
    let count = samples(if each < 0.5 { 10 } else { 3 });
    let inner = ((0.1 / each) as usize).min((most - 5) / count).max(1);
    let sample = |_| {
        let start = Instant::now();
        let last = (0..inner).map(|_| advance()).last();
        number(&last.unwrap());
        start.elapsed().as_secs_f64() * 1e6 / inner as f64
    };
    let mut times: Vec<f64> = (0..count).map(sample).collect();
    times.sort_by(f64::total_cmp);
    report("us_per_step", "us", times[count / 2], times[0]);
    let peak = peak_memory();
    report("peak_mb", "MB", peak, peak);
}

/// Returns sentences of 32 tokens for MiniLM.
pub fn sentences(count: u32) -> Vec<Vec<u32>> {
    let token = |row: u32, place: u32| 1000 + (row * 977 + place * 131) % 28000;
    (0..count)
        .map(|row| (0..32).map(|place| token(row, place)).collect())
        .collect()
}

/// Reports the milliseconds since the start of the process, which `benches/compare` writes to the variable `BENCH_START` as seconds
/// since 1970, and the number that the process has computed.
pub fn report_cold_start([section, workload, peer]: [&str; 3], result: f64) {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = since_1970.map_or(f64::NAN, |time| time.as_secs_f64());
    let started = std::env::var("BENCH_START").ok();
    let started = started.and_then(|text| text.parse::<f64>().ok());
    let elapsed = (now - started.expect("BENCH_START=$(date +%s.%N)")) * 1e3;
    let report = |operation: &str, unit: &str, value: f64| {
        report([section, workload, operation, peer], unit, value, value);
    };
    report("cold_start_ms", "ms", elapsed);
    report("result_step1", "", result);
    report("peak_mb", "MB", peak_memory());
}

/// The seconds for which all threads of the process have computed, where the system tells it. Other programs on the machine change
/// this time less than the time of a clock.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    // The fields 14 and 15 of the line, in hundredths of a second.
    let ticks = after_name.split_whitespace().skip(11).take(2);
    let ticks: f64 = ticks.filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// The most memory the process has held, in MB, where the system tells it.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}
