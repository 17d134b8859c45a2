//! Modules: functions, constants, and source lines.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::panic::Location;

use pytree_base::bug::{expect_some, pairs};
use pytree_core::TreeDef;
use pytree_kernels::base::dtype::AbstractArray;

use crate::base::error::TensorError;
use crate::tensor::device::MeshAxes;
use crate::tensor::handle::Tensor;
use crate::tensor::jaxpr::{Jaxpr, constant_array};
use crate::tensor::stablehlo::block::{Block, CurrentEquation, FunctionText, Value};
use crate::tensor::stablehlo::literals;
use crate::tensor::stablehlo::partitioning::Partitioning;
use crate::tensor::stablehlo::types::TensorType;

/// A program in StableHLO, the input language of XLA and other compilers.
/// [`Jaxpr::to_stablehlo`](crate::Jaxpr::to_stablehlo) returns such a program.
///
/// The module has one public function, `main`. The arguments of `main` are the inputs of the jaxpr, followed by the
/// [`constants`](Self::constants). All operations of the text are from the dialects `stablehlo` and `func`.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, jit};
/// let f = jit(|x: Tensor| x.sin() * 2.0);
/// let module = f.stablehlo(&Tensor::from([0.0_f32, 1.0]));
/// assert_eq!(module.inputs().len(), 1);
/// assert_eq!(module.outputs()[0].to_string(), "f32[2]");
/// assert!(module.constants().is_empty());
/// assert_eq!(
///     module.text_without_locations(),
///     r#"module @pytree {
///   func.func public @main(%0: tensor<2xf32>) -> (tensor<2xf32>) {
///     %1 = "stablehlo.sine"(%0) : (tensor<2xf32>) -> tensor<2xf32>
///     %2 = "stablehlo.constant"() {value = dense<2.0> : tensor<2xf32>} : () -> tensor<2xf32>
///     %3 = "stablehlo.multiply"(%1, %2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
///     "func.return"(%3) : (tensor<2xf32>) -> ()
///   }
/// }
/// "#
/// );
/// ```
#[derive(Clone)]
pub struct StableHlo {
    text: String,
    /// For each operation, the position in `text` after the operation, and the index of its source line in `lines`.
    marks: Vec<(usize, u32)>,
    lines: Vec<&'static Location<'static>>,
    inputs: Vec<AbstractArray>,
    constants: Vec<Tensor>,
    outputs: Vec<AbstractArray>,
    input_names: Vec<String>,
    output_names: Vec<String>,
    mesh: MeshAxes,
}

impl StableHlo {
    /// The oldest version of StableHLO that has all operations that this library writes. Later versions can also read
    /// the modules.
    pub const VERSION: &'static str = "1.9.0";

    /// Returns the text of the module. The location of each operation is the source line of its equation.
    pub fn text(&self) -> String {
        self.to_string()
    }

    /// Returns the text of the module without source lines. Two programs with the same operations have the same text,
    /// even if their source lines differ. So this text can be the key of a cache.
    pub fn text_without_locations(&self) -> &str {
        &self.text
    }

    /// Returns the text of the module without source lines, with the attribute `jax.buffer_donor = true` at each input.
    /// The attribute allows the compiler to place a result into the memory of the input. XLA's runtime decides for each
    /// run which inputs are donated. The constants do not have the attribute.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, jit};
    /// let module = jit(|x: Tensor| x + 1.0).stablehlo(&Tensor::from(2.0_f32));
    /// let main = "func.func public @main(%0: tensor<f32> {jax.buffer_donor = true}) -> (tensor<f32>)";
    /// assert!(module.text_with_donors().contains(main));
    /// ```
    pub fn text_with_donors(&self) -> String {
        const DONOR: &str = " {jax.buffer_donor = true}";
        const FIRST_DONOR: &str = " {jax.buffer_donor = true, ";
        let mut text = String::with_capacity(self.text.len() + self.inputs.len() * DONOR.len());
        let mut rest = &self.text[..];
        for input in &self.inputs {
            // The text begins with `main`. The first arguments of `main` are the inputs in their order.
            let declared = format!(": {}", TensorType(input));
            let end = rest.find(&declared).map(|at| at + declared.len());
            let (before, after) = rest.split_at(expect_some(end, "the type of each input"));
            text.push_str(before);
            // The type may be followed by other attributes.
            if let Some(others) = after.strip_prefix(" {") {
                text.push_str(FIRST_DONOR);
                rest = others;
            } else {
                text.push_str(DONOR);
                rest = after;
            }
        }
        text.push_str(rest);
        text
    }

    /// Returns the dtypes and shapes of the first arguments of `main`: the inputs of the jaxpr.
    pub fn inputs(&self) -> &[AbstractArray] {
        &self.inputs
    }

    /// Returns the last arguments of `main`: the constants of the jaxpr that are too long for the text. A constant is
    /// too long if it has more than 1024 elements that are not all equal.
    pub fn constants(&self) -> &[Tensor] {
        &self.constants
    }

    /// Returns the dtypes and shapes of the results of `main`.
    pub fn outputs(&self) -> &[AbstractArray] {
        &self.outputs
    }

    /// Returns the name of each of the [`inputs`](Self::inputs). The name is the key path of the leaf in the argument
    /// of the compiled function, for instance `[0].layers[0].weight`. If the argument is a tensor, the name is `value`.
    /// Without a structure, the names are `[0]`, `[1]` and so on.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, jit};
    /// let divide = jit(|(x, y): (Tensor, Tensor)| x / y);
    /// let module = divide.stablehlo(&(Tensor::from(1.0_f32), Tensor::from(2.0_f32)));
    /// assert_eq!(module.input_names(), ["[0]", "[1]"]);
    /// assert_eq!(module.output_names(), ["value"]);
    /// ```
    pub fn input_names(&self) -> &[String] {
        &self.input_names
    }

    /// Returns the name of each of the [`outputs`](Self::outputs). The name is the key path of the leaf in the result,
    /// as for [`input_names`](Self::input_names). If the function writes to references, the names are those of a tuple
    /// of the result and the written values.
    pub fn output_names(&self) -> &[String] {
        &self.output_names
    }

    /// Gives the inputs and outputs the names of the leaves of an argument and a result. If there are more inputs than
    /// leaves of the argument, the last inputs are captured tensors.
    pub(crate) fn with_names_of(mut self, argument: &TreeDef, result: &TreeDef) -> Self {
        rename(&mut self.input_names, argument);
        rename(&mut self.output_names, result);
        self
    }

    /// Returns the module with its [`constants`](Self::constants) in the text, as hexadecimal digits. With the
    /// constants, the text is complete: `main` has no arguments except the [`inputs`](Self::inputs).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor, jit};
    /// let table = Tensor::arange(DType::F32, 2000);
    /// let module = jit(move |x: Tensor| x * &table).stablehlo(&Tensor::from(1.0_f32));
    /// assert_eq!(module.constants().len(), 1);
    /// let complete = module.with_inlined_constants();
    /// assert!(complete.constants().is_empty());
    /// assert!(complete.text().contains(r#"dense<"0x000000000000803F"#));
    /// ```
    #[must_use]
    pub fn with_inlined_constants(&self) -> Self {
        let mut module = self.clone();
        if self.constants.is_empty() {
            return module;
        }
        // `main` is the first function of the module, and its last parameters are the constants.
        let start = expect_some(self.text.find(MAIN), MAIN) + MAIN.len();
        let end = start + expect_some(self.text[start..].find(')'), "the end of parameters");
        let body = end + expect_some(self.text[end..].find("{\n"), "a body of main") + "{\n".len();
        let parameters: Vec<&str> = self.text[start..end].split(", ").collect();
        let (inputs, constants) = parameters.split_at(self.inputs.len());
        let mut text = self.text[..start].to_owned();
        text.push_str(&inputs.join(", "));
        text.push_str(&self.text[end..body]);
        for (parameter, tensor) in pairs(constants, &self.constants, "constants of a module") {
            let (name, tensor_type) = expect_some(parameter.split_once(": "), "a parameter");
            let value = literals::dense(constant_array(tensor));
            let _ = writeln!(
                text,
                "    {name} = \"stablehlo.constant\"() {{value = {value}}} : () -> {tensor_type}"
            );
        }
        let moved = text.len();
        text.push_str(&self.text[body..]);
        for (end, _) in &mut module.marks {
            *end = *end - body + moved;
        }
        module.text = text;
        module.constants.clear();
        module
    }

    /// Returns the name and the length of each named axis of the jaxpr's collectives. One replica must run for each
    /// combination of positions on these axes. Between neighbouring replicas, the position on the last axis changes
    /// fastest.
    pub fn replica_axes(&self) -> Vec<(&str, usize)> {
        let axes = self.mesh.axes().iter();
        axes.map(|(name, length)| (&**name, *length)).collect()
    }
}

/// The beginning of the function `main`.
const MAIN: &str = "func.func public @main(";

/// Returns the names `[0]`, `[1]` and so on, for leaves without a structure.
fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("[{number}]")).collect()
}

/// Replaces names by the key paths of the leaves of a tree. If there are more names than leaves, the last names become
/// names of captured tensors.
fn rename(names: &mut [String], treedef: &TreeDef) {
    let paths = treedef.leaf_paths();
    let leaves = paths.len();
    for (name, path) in names.iter_mut().zip(&paths) {
        *name = if path.keys().is_empty() {
            "value".to_owned()
        } else {
            path.to_string()
        };
    }
    for (number, name) in names.iter_mut().skip(leaves).enumerate() {
        *name = format!("captured[{number}]");
    }
}

impl fmt::Display for StableHlo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = 0;
        for &(end, line) in &self.marks {
            f.write_str(&self.text[written..end])?;
            write!(f, " loc(#line{line})")?;
            written = end;
        }
        f.write_str(&self.text[written..])?;
        for (number, line) in self.lines.iter().enumerate() {
            let (file, line, column) = (line.file().escape_default(), line.line(), line.column());
            writeln!(f, "#line{number} = loc(\"{file}\":{line}:{column})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for StableHlo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Identifies a function of a module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum FunctionKey {
    /// The function of a recorded body, identified by the address of its jaxpr.
    Body(usize),
    /// A function of the library, identified by its name and the dtypes and shapes of its operands.
    Shared(&'static str, Vec<AbstractArray>),
}

/// The information that a call of a function needs.
#[derive(Debug)]
pub(super) struct FunctionHead {
    pub(super) name: String,
    pub(super) results: Vec<AbstractArray>,
    /// The constants of the module that the function takes, after the function's other arguments.
    pub(super) constants: Vec<(usize, AbstractArray)>,
}

/// A module while it is written.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// The named axes of the replicas.
    pub(super) mesh: MeshAxes,
    /// How the compiler divides the module among devices. `None` means that one device computes everything.
    pub(super) partitioning: Option<Partitioning>,
    /// The position in `heads` of each function that other functions call.
    pub(super) functions: HashMap<FunctionKey, usize>,
    heads: Vec<FunctionHead>,
    texts: Vec<FunctionText>,
    /// The jaxprs that lowering rules recorded. They are kept, so the addresses of their bodies, which identify functions, are
    /// not used again.
    pub(super) recorded: Vec<Jaxpr>,
    constants: Vec<Tensor>,
    constant_positions: HashMap<usize, usize>,
    lines: Vec<&'static Location<'static>>,
    line_numbers: HashMap<&'static Location<'static>, u32>,
}

impl Module {
    pub(super) fn new(mesh: MeshAxes, partitioning: Option<Partitioning>) -> Self {
        Self {
            mesh,
            partitioning,
            ..Self::default()
        }
    }

    pub(super) fn head(&self, function: usize) -> &FunctionHead {
        &self.heads[function]
    }

    pub(super) fn line_number(&mut self, line: &'static Location<'static>) -> u32 {
        let lines = &mut self.lines;
        *self.line_numbers.entry(line).or_insert_with(|| {
            lines.push(line);
            u32::try_from(lines.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// Returns the position of a constant among the constants of the module. Adds the constant if the module does not
    /// have it.
    pub(super) fn constant(&mut self, tensor: &Tensor) -> usize {
        let constants = &mut self.constants;
        // The list keeps the tensors alive, so an address is never reused.
        *self
            .constant_positions
            .entry(tensor.handle())
            .or_insert_with(|| {
                constants.push(tensor.clone());
                constants.len() - 1
            })
    }

    /// Writes a private function and returns its position.
    pub(super) fn define<'a>(
        &mut self,
        key: FunctionKey,
        name: &str,
        arguments: impl Iterator<Item = &'a AbstractArray>,
        equation: CurrentEquation,
        write: impl FnOnce(&mut Block<'_>, &[Value]) -> Result<Vec<Value>, TensorError>,
    ) -> Result<usize, TensorError> {
        let (text, head) = self.write_function("private", name, arguments, equation, write)?;
        self.texts.push(text);
        self.heads.push(head);
        let position = self.heads.len() - 1;
        self.functions.insert(key, position);
        Ok(position)
    }

    fn write_function<'a>(
        &mut self,
        visibility: &str,
        name: &str,
        arguments: impl Iterator<Item = &'a AbstractArray>,
        equation: CurrentEquation,
        write: impl FnOnce(&mut Block<'_>, &[Value]) -> Result<Vec<Value>, TensorError>,
    ) -> Result<(FunctionText, FunctionHead), TensorError> {
        let mut block = Block::new(self, equation);
        let arguments: Vec<Value> = arguments.map(|info| block.value(info.clone())).collect();
        let results = write(&mut block, &arguments)?;
        block.leave("func.return", &results);
        let (body, constants) = block.finish();
        let all = arguments
            .iter()
            .chain(constants.iter().map(|(_, value)| value));
        let all: Vec<Value> = all.cloned().collect();
        // The head is written last, because all constants are known only after the body is written.
        let partitioning = match visibility {
            "public" => self.partitioning.clone(),
            _ => None,
        };
        let mut head = Block::new(self, equation);
        match &partitioning {
            Some(own) => head.declare_with(&all, |at, info| own.of_input(at, info)),
            None => head.declare(&all),
        }
        let (parameters, _) = head.finish();
        let name = self.function_name(visibility, name);
        let results: Vec<AbstractArray> = results.into_iter().map(|value| value.info).collect();
        let mut text = format!("  func.func {visibility} @{name}({}) -> (", parameters.text);
        for (position, result) in results.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            let _ = write!(text, "{comma}{}", TensorType(result));
            if let Some(own) = &partitioning {
                text.push_str(&own.of_output(position, result));
            }
        }
        text.push_str(") {\n");
        let moved = text.len();
        text.push_str(&body.text);
        text.push_str("  }\n");
        let marks = body.marks.iter().map(|&(end, line)| (end + moved, line));
        let function = FunctionText {
            marks: marks.collect(),
            text,
        };
        let constants = constants.into_iter();
        let head = FunctionHead {
            name,
            results,
            constants: constants.map(|(at, value)| (at, value.info)).collect(),
        };
        Ok((function, head))
    }

    /// Returns a name that no other function of the module has.
    fn function_name(&self, visibility: &str, name: &str) -> String {
        if visibility == "public" {
            return name.to_owned();
        }
        let allowed = |letter: char| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '_'
            }
        };
        let name: String = name.chars().map(allowed).collect();
        let name = name.trim_matches('_');
        format!(
            "{}_{}",
            if name.is_empty() { "function" } else { name },
            self.heads.len()
        )
    }

    /// Writes the function `main` and returns the finished module. `write` maps the arguments of `main` to its results.
    pub(super) fn finish(
        mut self,
        inputs: Vec<AbstractArray>,
        equation: CurrentEquation,
        write: impl FnOnce(&mut Block<'_>, &[Value]) -> Result<Vec<Value>, TensorError>,
    ) -> Result<StableHlo, TensorError> {
        let (main, head) = self.write_function("public", "main", inputs.iter(), equation, write)?;
        let mut text = "module @pytree".to_owned();
        let replicas = self.mesh.replicas();
        if replicas > 1 {
            let _ = write!(
                text,
                " attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = {replicas} : i32}}"
            );
        }
        let partitioning = self.partitioning.as_ref().map(Partitioning::head);
        let (attributes, mesh) = partitioning.unwrap_or_default();
        if !attributes.is_empty() {
            let _ = write!(text, " attributes {{{attributes}}}");
        }
        text.push_str(" {\n");
        text.push_str(&mesh);
        let mut marks = Vec::new();
        for function in std::iter::once(main).chain(self.texts) {
            let moved = text.len();
            text.push_str(&function.text);
            marks.extend(
                function
                    .marks
                    .iter()
                    .map(|&(end, line)| (end + moved, line)),
            );
        }
        text.push_str("}\n");
        // The calls in `main` pass all constants that any function needs. So `main` has each constant once, in the
        // order of the first uses in `main`.
        let constants = head.constants.iter();
        let constants = constants.map(|&(at, _)| self.constants[at].clone());
        Ok(StableHlo {
            text,
            marks,
            lines: self.lines,
            constants: constants.collect(),
            input_names: numbered(inputs.len()),
            output_names: numbered(head.results.len()),
            inputs,
            outputs: head.results,
            mesh: self.mesh,
        })
    }
}
