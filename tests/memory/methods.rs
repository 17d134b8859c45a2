//! The most memory that a method of tensors, a function of an activation, or a primitive allocates at a time: its results and a megabyte,
//! eager and compiled.
//!
//! The table has a case for each method whose name is in the sources, and for each primitive. A case that may need more has the reason
//! beside it.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use pytree::make_jaxpr;
use pytree::prelude::*;

use crate::cases::{self, Case, ROW};
use crate::counting::peak;

/// The bytes of an operand of f32 numbers, for composed elementwise functions, and of other operands. All
/// have as many elements as composed functions compile for.
const LARGE: usize = 64 << 20;
const OPERAND: usize = 8 << 20;

/// What a function may need beside its results: tiles or sums of two threads, which take a megabyte, and the recorded program.
const SLACK: usize = (1 << 20) + (1 << 17);

impl Case {
    fn bytes(&self, dtype: DType) -> usize {
        match dtype {
            DType::F32 if self.is_large => LARGE,
            _ => OPERAND,
        }
    }

    /// Returns the function as a jaxpr, or `None` if it does not accept the dtype of the operands.
    fn jaxpr(&self, x: &Tensor, y: &Tensor) -> Option<String> {
        let function = self.function.clone();
        let trace =
            || make_jaxpr(move |(x, y): (Tensor, Tensor)| function(&x, &y))((x.clone(), y.clone()));
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        let jaxpr = catch_unwind(AssertUnwindSafe(trace));
        std::panic::set_hook(hook);
        jaxpr.ok().map(|jaxpr| jaxpr.to_string())
    }

    /// Adds a line to `exceeding` if the function needs more than its results.
    fn check(&self, x: &Tensor, y: &Tensor, exceeding: &mut Vec<String>) {
        let dtype = x.dtype();
        let operand = x.len() * dtype.bytes();
        let function = self.function.clone();
        let compiled = jit(move |(x, y): (Tensor, Tensor)| function(&x, &y));
        let mut add = |how: &str, (results, most): (Vec<Tensor>, usize)| {
            let bytes = |result: &Tensor| result.len() * result.dtype().bytes();
            let beside = most.saturating_sub(results.iter().map(bytes).sum());
            let allowed = (self.beside)(dtype) * operand as f64;
            if beside as f64 > allowed + SLACK as f64 {
                let name = &self.name;
                let operands = beside as f64 / operand as f64;
                exceeding.push(format!(
                    "{name} of {dtype}, {how}: {operands:.3} operands beside the results"
                ));
            }
        };
        add("eager", peak(|| (self.function)(x, y)));
        add("compiled", peak(|| compiled((x.clone(), y.clone()))));
    }
}

/// Returns the lines of the blocks that begin with `impl Tensor {`, or of a file without blocks, that are not documentation.
fn code(source: &str) -> impl Iterator<Item = &str> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    source.lines().filter(|line| !line.trim().starts_with("//"))
}

/// Adds the names of the public methods in the sources of a folder, which are functions in `impl Tensor` and rows of tables.
fn add_names(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_names(&path, names);
            continue;
        }
        let source = std::fs::read_to_string(path).unwrap();
        let mut is_of_tensor = false;
        for line in code(&source) {
            if line.starts_with("impl") || line.starts_with('}') {
                is_of_tensor = line == "impl Tensor {";
            }
            let words: Vec<&str> = line
                .split([' ', '(', '<'])
                .filter(|it| !it.is_empty())
                .collect();
            let name = match words[..] {
                ["pub", "fn", name, ..] if is_of_tensor => Some(name.trim_start_matches("try_")),
                [name, twin, "=", ..] if twin.strip_prefix("try_") == Some(name) => Some(name),
                [name, "=", value, ..] if value.starts_with("Unary::") => Some(name),
                _ => None,
            };
            names.extend(name.filter(|name| !name.contains('$')).map(str::to_owned));
        }
    }
}

/// Adds the names of the public functions of a source.
fn add_functions(path: &Path, names: &mut BTreeSet<String>) {
    let source = std::fs::read_to_string(path).unwrap();
    let functions = code(&source).filter_map(|line| line.strip_prefix("pub fn "));
    let name = |line: &str| format!("nn {}", line.split(['(', '<']).next().unwrap());
    names.extend(functions.map(name));
}

fn methods_in_the_sources() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    add_names(&root("pytree-transform/src/operations"), &mut names);
    for file in ["activations", "normalizations", "gamma"] {
        add_functions(
            &root(&format!("pytree-nn/src/functions/{file}.rs")),
            &mut names,
        );
    }
    names
}

/// Adds the names that the primitives of a folder return.
fn add_primitives(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // Collectives are evaluated between processes only. `vmap` replaces them by other primitives.
        if path.to_str().unwrap().contains("collectives") {
            continue;
        }
        if path.is_dir() {
            add_primitives(&path, names);
            continue;
        }
        let source = std::fs::read_to_string(path).unwrap();
        for method in source.split("fn name(&self) -> &'static str {").skip(1) {
            let body = method.split("\n    }\n").next().unwrap();
            names.extend(body.split('"').skip(1).step_by(2).map(str::to_owned));
        }
        for declared in source.split("pytree_base::named! {").skip(1) {
            let variants = declared.split("fn operation_name;").next().unwrap().lines();
            let variants = variants.filter(|line| !line.trim_start().starts_with('#'));
            let names_of_variants =
                variants.filter_map(|line| line.split_once(" = \"")?.1.strip_suffix("\","));
            names.extend(names_of_variants.map(str::to_owned));
        }
    }
}

fn primitives_in_the_sources() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for folder in [
        "pytree-transform/src/primitives",
        "pytree-kernels/src/loops/elementwise",
    ] {
        add_primitives(&root(folder), &mut names);
    }
    names
}

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .join(path)
}

pub(crate) fn need_little_more_than_their_results() {
    let cases = cases::all();
    let mut methods = methods_in_the_sources();
    assert!(methods.len() >= 150, "{methods:?}");
    methods.retain(|name| {
        let has = |case: &Case| case.name == *name || case.name.starts_with(&format!("{name} "));
        !cases.iter().any(has)
    });
    assert!(methods.is_empty(), "no case has {methods:?}");
    let mut primitives = primitives_in_the_sources();
    assert!(primitives.len() >= 80, "{primitives:?}");
    let mut exceeding = Vec::new();
    let mut unused: BTreeSet<&str> = cases.iter().map(|case| &*case.name).collect();
    for (dtype, bytes) in [
        (DType::F32, LARGE),
        (DType::F32, OPERAND),
        (DType::BF16, OPERAND),
        (DType::I32, OPERAND),
        (DType::U32, OPERAND),
    ] {
        let operand = || Tensor::ones(dtype, [bytes / dtype.bytes() / ROW, ROW]);
        let (x, y) = (operand(), operand());
        for case in cases.iter().filter(|case| case.bytes(dtype) == bytes) {
            // Few functions accept only u32.
            if dtype == DType::U32 && !unused.contains(&*case.name) {
                continue;
            }
            let Some(jaxpr) = case.jaxpr(&x, &y) else {
                continue;
            };
            let holds = |name: &str, end| jaxpr.contains(&format!("= {name}{end}"));
            primitives.retain(|name| !holds(name, ' ') && !holds(name, '['));
            case.check(&x, &y, &mut exceeding);
            unused.remove(&*case.name);
        }
    }
    assert!(primitives.is_empty(), "no case has {primitives:?}");
    assert!(exceeding.is_empty(), "{}", exceeding.join("\n"));
    assert!(unused.is_empty(), "no dtype is accepted by {unused:?}");
}
