//! The training steps C1 to C4 of the peers' benchmarks: `cargo bench --bench training [-- C1]`.
//!
//! Prints one JSON object a line, as the peers do: microseconds a step, the time of the first step, and
//! the losses at steps 1 and 20, which all peers agree on, and the peak memory of the process so far.
//!
//! The cases `mlp4096` and `transformer1024` are for accelerators, and run only if they are named. `--bf16` and `--f64`
//! convert parameters and inputs. `--pjrt` runs on the first device of the plugin in `PYTREE_PJRT_PLUGIN` and needs `--features pjrt`; it also
//! prints how much the losses of the cases for CPUs differ from those of the host. With `--devices 2`, two devices of the plugin divide
//! each batch; for a plugin for CPUs, `cpu_device_count` is set.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a benchmark is read as a script"
)]

#[path = "support/training.rs"]
mod training;

use std::time::Instant;

use pytree::DType;
use pytree::device::Device;
use training::{LARGE, Place, SMALL, number};

/// What runs the steps.
struct Target {
    place: Place,
    /// The name in the lines.
    peer: &'static str,
    dtype: DType,
    /// Returns the most memory of the device in MB that was in use so far, if the device counts it.
    device_peak: Box<dyn Fn() -> Option<f64>>,
}

fn run(name: &str, target: &Target) {
    let mut advance = training::steps(name, target.dtype, &target.place)
        .unwrap_or_else(|| panic!("expected one of {SMALL:?} and {LARGE:?}, found `{name}`"));
    let report = |operation: &str, unit: &str, median: f64, min: f64| {
        println!(
            "{{\"section\":\"C\",\"workload\":\"{name}\",\"op\":\"{operation}\",\"peer\":\"{}\",\"unit\":\"{unit}\",\"median\":{median},\"min\":{min}}}",
            target.peer
        );
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
    let processor = processor_time();
    let mut times: Vec<f64> = (0..20)
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
    let processor = (processor_time() - processor) * 1e6 / (20 * inner) as f64;
    report("processor_us_per_step", "us", processor, processor);
    let peak = peak_memory();
    report("peak_mb", "MB", peak, peak);
    if let Some(peak) = (target.device_peak)() {
        report("device_peak_mb", "MB", peak, peak);
    }
    if !target.place.device().is_host() && SMALL.contains(&name) {
        let mut advance = training::steps(name, target.dtype, &Place::One(Device::HOST)).unwrap();
        let host: Vec<f64> = (0..20).map(|_| number(&advance())).collect();
        for (step, found, expected) in [(1, first, host[0]), (20, twentieth, host[19])] {
            let difference = (found / expected - 1.0).abs();
            let operation = format!("loss_step{step}_differs_from_host_by");
            report(&operation, "of 1", difference, difference);
        }
    }
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

#[cfg(feature = "pjrt")]
fn of_plugin(dtype: DType, devices: Option<usize>) -> Target {
    use pytree::device::Mesh;
    use pytree::pjrt::{Client, Options};

    let mut client = Client::from_env().unwrap();
    if let Some(devices) = devices.filter(|_| client.platform_name() == "cpu") {
        let options = Options::new().set("cpu_device_count", devices as i64);
        client = Client::from_env_with(&options).unwrap();
    }
    Target {
        place: match devices {
            Some(devices) => Place::Divided(Mesh::new(&client, [("data", devices)])),
            None => Place::One(Device::from(&client)),
        },
        peer: "pytree-pjrt",
        dtype,
        device_peak: Box::new(move || {
            let peak = client.devices()[0].memory()?.peak?;
            Some(peak as f64 / 1048576.0)
        }),
    }
}

#[cfg(not(feature = "pjrt"))]
fn of_plugin(_: DType, _: Option<usize>) -> Target {
    panic!("`--pjrt` and `--devices` need `cargo bench --features pjrt`")
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    let dtype = match (has("--bf16"), has("--f64")) {
        (true, _) => DType::BF16,
        (false, true) => DType::F64,
        (false, false) => DType::F32,
    };
    let option = arguments.iter().position(|it| it == "--devices");
    let devices = option.map(|at| arguments.remove(at + 1).parse().unwrap());
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    let target = if has("--pjrt") || devices.is_some() {
        of_plugin(dtype, devices)
    } else {
        Target {
            place: Place::One(Device::HOST),
            peer: "pytree",
            dtype,
            device_peak: Box::new(|| None),
        }
    };
    let named = arguments
        .iter()
        .filter(|argument| !argument.starts_with("--"));
    let mut names: Vec<&str> = named.map(String::as_str).collect();
    if names.is_empty() {
        names = SMALL.to_vec();
    }
    for name in names {
        run(name, &target);
    }
}
