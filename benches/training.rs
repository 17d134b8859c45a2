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
    clippy::redundant_closure,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a benchmark is read as a script"
)]

mod support;
#[path = "support/training.rs"]
mod training;

use pytree::DType;
use pytree::device::Device;
use training::{Devices, LARGE, SMALL, number};

/// What runs the steps.
struct Target {
    place: Devices,
    /// The name in the lines.
    peer: &'static str,
    dtype: DType,
    /// Returns the most memory of the device in MB that was in use so far, if the device counts it.
    device_peak: Box<dyn Fn() -> Option<f64>>,
}

fn run(name: &str, target: &Target) {
    let mut advance = training::steps(name, target.dtype, &target.place)
        .unwrap_or_else(|| panic!("expected one of {SMALL:?} and {LARGE:?}, found `{name}`"));
    let (first, twentieth) = support::measure_steps(["C", name, target.peer], &mut advance, number);
    let report = |operation: &str, unit: &str, value: f64| {
        support::report(["C", name, operation, target.peer], unit, value, value);
    };
    if let Some(peak) = (target.device_peak)() {
        report("device_peak_mb", "MB", peak);
    }
    if !target.place.device().is_host() && SMALL.contains(&name) {
        let mut advance = training::steps(name, target.dtype, &Devices::One(Device::HOST)).unwrap();
        let host: Vec<f64> = (0..20).map(|_| number(&advance())).collect();
        for (step, found, expected) in [(1, first, host[0]), (20, twentieth, host[19])] {
            let difference = (found / expected - 1.0).abs();
            let operation = format!("loss_step{step}_differs_from_host_by");
            report(&operation, "of 1", difference);
        }
    }
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
            Some(devices) => Devices::Divided(Mesh::new(&client, [("data", devices)])),
            None => Devices::One(Device::from(&client)),
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
            place: Devices::One(Device::HOST),
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
