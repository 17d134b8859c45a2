//! Records programs in StableHLO with their inputs and results, for `tools/check-stablehlo`, which runs them with XLA.
//!
//! Nothing is recorded unless the environment variable `PYTREE_STABLEHLO_OUT` names a folder. The root of each test
//! names the library in its module `library`, because the tests of two packages share this file.

use std::fmt::Write as _;
use std::fs::{File, create_dir_all};
use std::io::Write as _;
use std::path::Path;
use std::sync::{LazyLock, Mutex};

use crate::library::{DType, StableHlo, Tensor, bf16, f16, jit};

/// The file of this test, if programs are recorded.
static FILE: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| {
    let folder = std::env::var_os("PYTREE_STABLEHLO_OUT")?;
    create_dir_all(&folder).unwrap();
    let file = Path::new(&folder).join(concat!(env!("CARGO_CRATE_NAME"), ".jsonl"));
    Some(Mutex::new(File::create(file).unwrap()))
});

/// Returns whether programs are recorded.
pub fn is_recording() -> bool {
    FILE.is_some()
}

/// A function of tensors that returns the results of a program.
pub type Program = Box<dyn Fn(&[Tensor]) -> Vec<Tensor> + Send + Sync>;

/// Programs that are recorded together. One module computes the results of several programs, because compiling a module
/// costs more than its operations.
pub struct Group {
    size: usize,
    programs: Vec<(String, Vec<Tensor>, Program)>,
}

impl Group {
    /// Creates a group that records each `size` programs as one module.
    pub fn new(size: usize) -> Self {
        let programs = Vec::new();
        Self { size, programs }
    }

    /// Adds a program with its inputs.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        inputs: &[Tensor],
        program: impl Fn(&[Tensor]) -> Vec<Tensor> + Send + Sync + 'static,
    ) {
        if is_recording() {
            let program = Box::new(program);
            self.programs.push((name.into(), inputs.to_vec(), program));
            if self.programs.len() == self.size {
                self.finish();
            }
        }
    }

    fn finish(&mut self) {
        let programs = std::mem::take(&mut self.programs);
        let all: Vec<Tensor> = programs
            .iter()
            .flat_map(|(_, inputs, _)| inputs.clone())
            .collect();
        let mut names = Vec::new();
        for (name, inputs, program) in &programs {
            let count = program(inputs).len();
            names.extend((0..count).map(|place| format!("{name}, result {place}")));
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
        write(&names, &compiled.stablehlo(&all), &[all], &[results]);
    }
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
