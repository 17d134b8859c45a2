//! Runs programs on a device, and records them in StableHLO with their inputs and results, for `tools/check_stablehlo.py`,
//! which runs them with XLA.
//!
//! Nothing is recorded unless the environment variable `PYTREE_STABLEHLO_OUT` names a folder, and `device.rs` says when
//! programs run on a device.

use std::fmt::Write as _;
use std::fs::{File, create_dir_all};
use std::io::Write as _;
use std::path::Path;
use std::sync::{LazyLock, Mutex};

use super::library::{DType, StableHlo, Tensor, bf16, device, f16, jit};

/// The file of this test, if programs are recorded.
static FILE: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| {
    let folder = std::env::var_os("PYTREE_STABLEHLO_OUT")?;
    create_dir_all(&folder).unwrap();
    let file = Path::new(&folder).join(concat!(env!("CARGO_PKG_NAME"), ".jsonl"));
    Some(Mutex::new(File::create(file).unwrap()))
});

/// Returns whether programs are recorded.
pub fn is_recording() -> bool {
    FILE.is_some()
}

/// Returns whether programs are recorded or run on a device.
fn is_used() -> bool {
    is_recording() || device().is_some()
}

/// A function of tensors that returns the results of a program.
pub type Program = Box<dyn Fn(&[Tensor]) -> Vec<Tensor> + Send + Sync>;

/// Programs that are recorded together. One module computes the results of several programs, because compiling a module
/// costs more than its operations.
pub struct Group {
    size: usize,
    programs: Vec<(String, Vec<Tensor>, Program)>,
    /// The results of each program, if they are known.
    expected: Vec<Option<Vec<Tensor>>>,
}

impl Group {
    /// Creates a group that records each `size` programs as one module.
    pub fn new(size: usize) -> Self {
        Self {
            size,
            programs: Vec::new(),
            expected: Vec::new(),
        }
    }

    /// Adds a program with its inputs. The results of a device are compared with those of the host.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        inputs: &[Tensor],
        program: impl Fn(&[Tensor]) -> Vec<Tensor> + Send + Sync + 'static,
    ) {
        self.push(name.into(), inputs, None, program);
    }

    /// Adds a program with its inputs and its known results, with which the results of a device are compared.
    #[allow(
        dead_code,
        reason = "not every test that shares this file has known results"
    )]
    pub fn add_known(
        &mut self,
        name: impl Into<String>,
        inputs: &[Tensor],
        expected: Vec<Tensor>,
        program: impl Fn(&[Tensor]) -> Vec<Tensor> + Send + Sync + 'static,
    ) {
        self.push(name.into(), inputs, Some(expected), program);
    }

    fn push(
        &mut self,
        name: String,
        inputs: &[Tensor],
        expected: Option<Vec<Tensor>>,
        program: impl Fn(&[Tensor]) -> Vec<Tensor> + Send + Sync + 'static,
    ) {
        if is_used() {
            let program = Box::new(program);
            self.programs.push((name, inputs.to_vec(), program));
            self.expected.push(expected);
            if self.programs.len() == self.size {
                self.finish();
            }
        }
    }

    fn finish(&mut self) {
        let programs = std::mem::take(&mut self.programs);
        let known = std::mem::take(&mut self.expected);
        let all: Vec<Tensor> = programs
            .iter()
            .flat_map(|(_, inputs, _)| inputs.clone())
            .collect();
        let (mut names, mut expected) = (Vec::new(), Vec::new());
        for ((name, inputs, program), known) in programs.iter().zip(known) {
            let count = program(inputs).len();
            names.extend((0..count).map(|place| format!("{name}, result {place}")));
            match known {
                Some(known) => {
                    assert_eq!(known.len(), count, "{name}");
                    expected.extend(known.into_iter().map(Some));
                }
                None => expected.extend(vec![None; count]),
            }
        }
        let compiled = jit(move |all: Vec<Tensor>| {
            let mut rest = &all[..];
            let mut results = Vec::new();
            for (_, inputs, program) in &programs {
                let (own, others) = rest.split_at(inputs.len());
                results.extend(program(own));
                rest = others;
            }
            results
        });
        let results = compiled(all.clone());
        if let Some(device) = device() {
            let found = compiled.clone().on(&device)(all.clone());
            let expected = expected.into_iter().zip(&results);
            let expected = expected.map(|(known, host)| known.unwrap_or_else(|| host.clone()));
            assert_same(&names, &found, &expected.collect::<Vec<_>>());
        }
        if is_recording() {
            write(&names, &compiled.stablehlo(&all), &[all], &[results]);
        }
    }
}

/// Compares results of a device with known results.
pub fn assert_same(names: &[String], found: &[Tensor], expected: &[Tensor]) {
    assert_eq!(found.len(), names.len());
    assert_eq!(expected.len(), names.len());
    let results = names.iter().zip(found).zip(expected);
    let problems: Vec<String> = results
        .filter_map(|((name, found), expected)| difference(name, found, expected))
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Returns how a result of a device differs from the known one: by more than 1e-5 for f32, and 1e-10 for f64, of the known
/// number or of 1, whichever is greater. Half-precision floats are equal numbers, except that a device may give 0 for a
/// subnormal number, and that the sign of a NaN and of 0 may differ.
fn difference(name: &str, found: &Tensor, expected: &Tensor) -> Option<String> {
    if found.info() != expected.info() {
        return Some(format!(
            "{name}: {} instead of {}",
            found.info(),
            expected.info()
        ));
    }
    let tolerance = match expected.dtype() {
        DType::F32 => 1e-5,
        DType::F64 => 1e-10,
        DType::BF16 | DType::F16 => f64::from(f32::MIN_POSITIVE),
        _ => return (found != expected).then(|| format!("{name}: {found} instead of {expected}")),
    };
    let numbers = |tensor: &Tensor| tensor.to_host().convert(DType::F64).to_vec::<f64>();
    let pairs = numbers(found).into_iter().zip(numbers(expected));
    let wrong = pairs.enumerate().find(|(_, (found, expected))| {
        let same = found == expected
            || found.is_nan() && expected.is_nan()
            || (found - expected).abs() <= tolerance * expected.abs().max(1.0);
        !same
    });
    wrong.map(|(at, (found, expected))| {
        format!("{name}, element {at}: {found:e} instead of {expected:e}")
    })
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.programs.is_empty() && !std::thread::panicking() {
            self.finish();
        }
    }
}

/// Records a program, with the inputs and results of each replica.
#[allow(
    dead_code,
    reason = "one of the tests that share this file has no replicas"
)]
pub fn record_replicas(
    name: &str,
    module: &StableHlo,
    inputs: &[Vec<Tensor>],
    results: &[Vec<Tensor>],
) {
    let names = (0..results[0].len()).map(|place| format!("{name}, result {place}"));
    write(&names.collect::<Vec<_>>(), module, inputs, results);
}

fn write(names: &[String], module: &StableHlo, inputs: &[Vec<Tensor>], results: &[Vec<Tensor>]) {
    let Some(file) = &*FILE else {
        return;
    };
    let replicas = |all: &[Vec<Tensor>], constants: &[Tensor]| -> String {
        let of_replica = |values: &Vec<Tensor>| {
            let values: Vec<String> = values.iter().chain(constants).map(array).collect();
            format!("[{}]", values.join(","))
        };
        let all: Vec<String> = all.iter().map(of_replica).collect();
        format!("[{}]", all.join(","))
    };
    let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    let line = format!(
        "{{\"names\":[{}],\"text\":{},\"inputs\":{},\"results\":{}}}\n",
        names.join(","),
        quoted(&module.text()),
        replicas(inputs, module.constants()),
        replicas(results, &[])
    );
    file.lock().unwrap().write_all(line.as_bytes()).unwrap();
}

fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('\n', "\\n").replace('\t', "\\t"))
}

/// Returns the dtype, the shape and the bytes of a tensor as text.
fn array(tensor: &Tensor) -> String {
    macro_rules! bytes {
        ($element:ty) => {
            (tensor.to_vec::<$element>().into_iter())
                .flat_map(<$element>::to_le_bytes)
                .collect()
        };
    }
    let bytes: Vec<u8> = match tensor.dtype() {
        DType::Bool => tensor.to_vec::<bool>().into_iter().map(u8::from).collect(),
        DType::I8 => bytes!(i8),
        DType::I16 => bytes!(i16),
        DType::I32 => bytes!(i32),
        DType::I64 => bytes!(i64),
        DType::U8 => bytes!(u8),
        DType::U16 => bytes!(u16),
        DType::U32 => bytes!(u32),
        DType::BF16 => bytes!(bf16),
        DType::F16 => bytes!(f16),
        DType::F32 => bytes!(f32),
        DType::F64 => bytes!(f64),
        other => panic!("no bytes of {other}"),
    };
    let mut text = format!("[\"{}\",{:?},\"", tensor.dtype(), tensor.shape());
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text + "\"]"
}
