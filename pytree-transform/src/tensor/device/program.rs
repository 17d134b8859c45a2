//! A jaxpr that is compiled for a device.
//!
//! The engine gets only what must be computed. An output that is an input or a constant of the jaxpr is returned
//! without a copy. An input that no equation reads is not transferred. A program does not contain the elements of a
//! captured tensor that is large or already on the device. Such a tensor is transferred once and becomes an operand of
//! each run. It does not matter whether the function itself or the body of a loop has captured the tensor.

use std::collections::HashMap;
use std::sync::Arc;

use pytree_base::bug::{expect_some, pairs};
use pytree_kernels::base::dtype::AbstractArray;

use super::array::DeviceArray;
use super::constants::with_lifted_constants;
use super::current::on_host;
use super::engine::{Buffer, Executable, Input};
use super::handle::Attached;
use super::mesh::{Layout, MeshAxes, ParallelFunction, Sharding};
use crate::base::device_error::DeviceError;
use crate::base::error::TensorError;
use crate::tensor::handle::Tensor;
use crate::tensor::jaxpr::{INPUTS, Jaxpr, OPERAND, RESULTS, Variable};

/// The maximum number of elements of a constant that is part of the compiled program.
const MOST_ELEMENTS: usize = 16;

/// A compiled jaxpr.
#[derive(Debug)]
pub(crate) struct Program {
    /// The name of the function or operation, for messages.
    name: Arc<str>,
    /// The number of operands that a run takes.
    arity: usize,
    /// The compiled equations. `None` if the jaxpr has no equations.
    executable: Option<Arc<dyn Executable>>,
    /// The positions of the operands that the equations read.
    read: Vec<usize>,
    /// Whether the equations read all operands and compute all outputs, each in the same order as in the function's
    /// signature.
    is_plain: bool,
    /// The captured tensors that the equations read.
    captured: Vec<Arc<DeviceArray>>,
    /// The results of the equations.
    results: Vec<AbstractArray>,
    /// The axes of the device, if it is a mesh.
    mesh: Option<MeshAxes>,
    /// The shardings of the results of the equations. Empty if all devices hold all elements.
    divided: Vec<Sharding>,
    /// The shape of the part that one device of a mesh holds of each operand that the equations read, and of each captured
    /// tensor, if the engine reports it.
    parts: Option<Vec<Vec<usize>>>,
    outputs: Vec<Output>,
    /// The sharding of each operand, if the device is a mesh and each of its devices runs the program on its own parts.
    shardings: Option<Vec<Sharding>>,
}

/// The source of an output of a program.
#[derive(Debug)]
enum Output {
    Operand(usize),
    Captured(Arc<DeviceArray>),
    Result(usize),
}

impl Program {
    /// Compiles a jaxpr for a device. The constants of the jaxpr must be on the host or on this device. `layout` holds the
    /// shardings that the operands of each run have.
    pub(crate) fn compile(
        device: &Arc<Attached>,
        name: &str,
        mut jaxpr: Jaxpr,
        layout: &Layout,
    ) -> Result<Self, TensorError> {
        let arity = jaxpr.inputs.len();
        let (outputs, computed) = outputs(device, &jaxpr)?;
        jaxpr.outputs = computed;
        let mut jaxpr = with_lifted_constants(jaxpr.without_dead_code(), is_operand);
        let read = keep_read_inputs(&mut jaxpr);
        let captured = captured_as_inputs(device, &mut jaxpr)?;
        let (mut divided, mut parts) = (Vec::new(), None);
        let executable = if jaxpr.equations.is_empty() {
            None
        } else if let Some(mesh) = device.mesh()
            && device.divides_programs()
            && is_partitioned(&jaxpr, layout, &captured)
        {
            let operands = read.iter().map(|&at| layout.sharding(at, mesh));
            let captured = captured
                .iter()
                .filter_map(|array| array.sharding().cloned());
            let inputs: Vec<Sharding> = operands.chain(captured).collect();
            let partitioned = device.compile_partitioned(name, &jaxpr, mesh, &inputs)?;
            (divided, parts) = (partitioned.outputs, partitioned.parts);
            Some(partitioned.executable)
        } else {
            Some(device.compile(name, &jaxpr)?)
        };
        let in_order = |(position, output): (usize, &Output)| match output {
            Output::Result(result) => *result == position,
            Output::Operand(_) | Output::Captured(_) => false,
        };
        Ok(Self {
            is_plain: executable.is_some()
                && read.iter().copied().eq(0..arity)
                && outputs.iter().enumerate().all(in_order),
            name: name.into(),
            arity,
            executable,
            read,
            captured,
            results: jaxpr.output_infos().cloned().collect(),
            mesh: device.mesh().cloned(),
            divided,
            parts,
            outputs,
            shardings: None,
        })
    }

    /// Compiles a jaxpr for a mesh. Each device runs the jaxpr on its own parts of the operands. The constants of the
    /// jaxpr are transferred to the mesh.
    pub(crate) fn compile_parallel(
        device: &Arc<Attached>,
        name: &str,
        jaxpr: Jaxpr,
        mesh: &MeshAxes,
        shardings: (Vec<Sharding>, &[Sharding]),
    ) -> Result<Self, TensorError> {
        let (operands, outputs) = shardings;
        let arity = jaxpr.inputs.len();
        let mut jaxpr = with_lifted_constants(jaxpr.without_dead_code(), is_operand);
        let read = keep_read_inputs(&mut jaxpr);
        for (_, tensor) in &mut jaxpr.constants {
            let is_elsewhere = *tensor.try_device()? != device.device();
            if tensor.device_array().is_some() && is_elsewhere {
                *tensor = Tensor::from_shared(Arc::clone(tensor.value()?));
            }
        }
        let captured = captured_as_inputs(device, &mut jaxpr)?;
        let mut inputs: Vec<Sharding> = read.iter().map(|&at| operands[at].clone()).collect();
        inputs.extend(captured.iter().map(|_| Sharding::replicated(mesh)));
        let function = ParallelFunction {
            jaxpr: &jaxpr,
            inputs: &inputs,
            outputs,
        };
        let executable = device.compile_parallel(name, &function)?;
        let returned = pairs(jaxpr.outputs(), outputs, RESULTS);
        Ok(Self {
            name: name.into(),
            arity,
            executable: Some(executable),
            read,
            is_plain: false,
            captured,
            results: returned
                .map(|(part, sharding)| sharding.whole_of(part))
                .collect(),
            mesh: Some(mesh.clone()),
            divided: outputs.to_vec(),
            parts: None,
            outputs: (0..outputs.len()).map(Output::Result).collect(),
            shardings: Some(operands),
        })
    }

    /// Runs the program. Transfers operands that are on the host. The program may reuse the memory of an operand that
    /// has no other handle. A caller that lends the operands holds one more handle of each, and drops it when `release` is called, with
    /// the tensors that take the places of the operands if the run then fails.
    pub(crate) fn run(
        &self,
        device: &Arc<Attached>,
        operands: Vec<Tensor>,
        release: Option<&mut dyn FnMut(Vec<Tensor>)>,
    ) -> Result<Vec<Tensor>, TensorError> {
        debug_assert_eq!(operands.len(), self.arity, "{INPUTS}");
        let lent: Vec<Tensor> = match release {
            None => Vec::new(),
            Some(_) => operands.clone(),
        };
        // The operands are transferred before they are released.
        let release = || {
            if let Some(release) = release {
                release(lent.into_iter().map(|it| self.left_of(it)).collect());
            }
        };
        if let (true, Some(executable)) = (self.is_plain, &self.executable) {
            let arrays = operands.into_iter().map(|it| device.array_of(it));
            let arrays = arrays.collect::<Result<_, _>>()?;
            release();
            let results = self.execute(device, &**executable, arrays)?.into_iter();
            return Ok(results.map(Tensor::on_device).collect());
        }
        let mut arrays = self.placed(device, operands)?;
        let forwarded: Vec<Option<Arc<DeviceArray>>> = self
            .outputs
            .iter()
            .map(|output| match output {
                Output::Operand(position) => arrays[*position].clone(),
                Output::Captured(array) => Some(Arc::clone(array)),
                Output::Result(_) => None,
            })
            .collect();
        let operands = self
            .read
            .iter()
            .map(|&position| expect_some(arrays[position].take(), OPERAND));
        release();
        let results = match &self.executable {
            Some(executable) => self.execute(device, &**executable, operands.collect())?,
            None => Vec::new(),
        };
        let output = |(output, forwarded): (&Output, Option<Arc<DeviceArray>>)| match output {
            Output::Result(position) => Arc::clone(&results[*position]),
            Output::Operand(_) | Output::Captured(_) => expect_some(forwarded, OPERAND),
        };
        let outputs = pairs(&self.outputs, forwarded, "a place for each output");
        Ok(outputs.map(output).map(Tensor::on_device).collect())
    }

    /// Returns what is left of a lent operand if the run fails: the operand itself, unless its buffer is donated. Such a buffer has three
    /// handles: those of this operand, of the caller, and of the run.
    fn left_of(&self, operand: Tensor) -> Tensor {
        match operand.device_array() {
            Some(array) if Arc::strong_count(array) == 3 => {
                Tensor::on_device(Arc::new(array.donated_to(&self.name)))
            }
            _ => operand,
        }
    }

    /// Returns for each operand the shape of the part that one device of a mesh holds in the compiled program. The entry is
    /// `None` if the equations do not read the operand, or the engine does not report it.
    pub(crate) fn parts(&self) -> Vec<Option<Vec<usize>>> {
        let mut parts = vec![None; self.arity];
        for (&position, part) in self.read.iter().zip(self.parts.iter().flatten()) {
            parts[position] = Some(part.clone());
        }
        parts
    }

    /// Returns the sharding that an operand has while the program runs, or `None` if the device is not a mesh.
    pub(crate) fn input_sharding(&self, position: usize, operand: &Tensor) -> Option<Sharding> {
        if let Some(shardings) = &self.shardings {
            return shardings.get(position).cloned();
        }
        let whole = || self.mesh.as_ref().map(Sharding::replicated);
        operand.sharding().cloned().or_else(whole)
    }

    /// Returns the sharding of an output, or `None` if the device is not a mesh.
    pub(crate) fn output_sharding(&self, position: usize, operands: &[Tensor]) -> Option<Sharding> {
        match self.outputs.get(position)? {
            Output::Operand(operand) => self.input_sharding(*operand, operands.get(*operand)?),
            Output::Captured(array) => array.sharding().cloned(),
            Output::Result(result) => {
                let whole = || self.mesh.as_ref().map(Sharding::replicated);
                self.divided.get(*result).cloned().or_else(whole)
            }
        }
    }

    /// Returns the operands that the program reads or returns, as arrays on the device.
    fn placed(
        &self,
        device: &Arc<Attached>,
        operands: Vec<Tensor>,
    ) -> Result<Vec<Option<Arc<DeviceArray>>>, TensorError> {
        let mut needed = vec![false; self.arity];
        for &position in &self.read {
            needed[position] = true;
        }
        for output in &self.outputs {
            if let Output::Operand(position) = output {
                needed[*position] = true;
            }
        }
        let array = |(position, operand): (usize, Tensor)| match &self.shardings {
            None => device.array_of(operand),
            Some(shardings) => device.sharded_array_of(operand, &shardings[position]),
        };
        let placed =
            |(operand, needed): ((usize, Tensor), bool)| needed.then(|| array(operand)).transpose();
        let operands = operands.into_iter().enumerate();
        operands.zip(needed).map(placed).collect()
    }

    /// Runs the equations on the operands that they read.
    fn execute(
        &self,
        device: &Arc<Attached>,
        executable: &dyn Executable,
        operands: Vec<Arc<DeviceArray>>,
    ) -> Result<Vec<Arc<DeviceArray>>, TensorError> {
        operands.iter().try_for_each(|array| array.check_kept())?;
        let count = operands.len();
        // A list without memory, because many calls donate nothing.
        let mut owned: Vec<Box<dyn Buffer>> = Vec::new();
        // The arrays that have other handles. `None` means that the buffer of the array is donated. The list reuses the
        // memory of `operands`.
        let kept = operands.into_iter().map(|array| {
            let kept = DeviceArray::into_buffer(array);
            kept.map_or_else(Some, |buffer| {
                if owned.is_empty() {
                    owned.reserve(count);
                }
                owned.push(buffer);
                None
            })
        });
        let kept: Vec<Option<Arc<DeviceArray>>> = kept.collect();
        let mut owned = owned.into_iter();
        let mut inputs: Vec<Input<'_>> = Vec::with_capacity(kept.len() + self.captured.len());
        inputs.extend(kept.iter().map(|array| match array {
            None => Input::Owned(expect_some(owned.next(), OPERAND)),
            Some(array) => Input::Borrowed(array.buffer()),
        }));
        let captured = self.captured.iter();
        inputs.extend(captured.map(|array| Input::Borrowed(array.buffer())));
        let of_device = |error| {
            let operation = format!("run `{}`", self.name);
            TensorError::of_device(operation, &device.device(), error)
        };
        let buffers = {
            let _host = on_host();
            executable.run(inputs).map_err(of_device)?
        };
        if buffers.len() != self.results.len() {
            let (found, expected) = (buffers.len(), self.results.len());
            return Err(of_device(DeviceError::failed(format!(
                "its engine returned {found} buffers for {expected} outputs; this is a mistake in the engine"
            ))));
        }
        let results = self.results.iter().zip(buffers);
        let array = |(info, buffer): (&AbstractArray, _)| {
            DeviceArray::new(device.device(), info.clone(), buffer, &self.name)
        };
        Ok(results.map(array).map(Arc::new).collect())
    }
}

impl Attached {
    fn compile(
        self: &Arc<Self>,
        name: &str,
        jaxpr: &Jaxpr,
    ) -> Result<Arc<dyn Executable>, TensorError> {
        pytree_base::span!(DEBUG, "compile", function = name);
        let _host = on_host();
        let compiled = self.engine.compile(jaxpr);
        compiled.map_err(|error| self.not_compiled(name, error))
    }

    pub(super) fn not_compiled(self: &Arc<Self>, name: &str, error: DeviceError) -> TensorError {
        TensorError::of_device(format!("compile `{name}`"), &self.device(), error)
    }
}

/// Returns whether the compiler divides the work of a jaxpr among the devices of a mesh, because an operand or a captured
/// tensor is divided, or because an equation says how its result is divided. Otherwise all devices compute the same.
fn is_partitioned(jaxpr: &Jaxpr, layout: &Layout, captured: &[Arc<DeviceArray>]) -> bool {
    let is_divided =
        |array: &Arc<DeviceArray>| array.sharding().is_some_and(|own| !own.is_replicated());
    !layout.is_whole() || captured.iter().any(is_divided) || has_constraint(jaxpr)
}

fn has_constraint(jaxpr: &Jaxpr) -> bool {
    jaxpr.equations.iter().any(|equation| {
        let bodies = equation.primitive.bodies();
        equation.primitive.is_sharding_constraint()
            || bodies.into_iter().any(|(_, body)| has_constraint(body))
    })
}

/// Returns the sources of all outputs. Also returns the variables of the outputs that equations compute, each once.
fn outputs(
    device: &Arc<Attached>,
    jaxpr: &Jaxpr,
) -> Result<(Vec<Output>, Vec<Variable>), TensorError> {
    let positions = jaxpr.input_positions();
    let constants = jaxpr.constants_by_variable();
    let mut computed: Vec<Variable> = Vec::new();
    let mut outputs = Vec::with_capacity(jaxpr.outputs.len());
    for &variable in &jaxpr.outputs {
        outputs.push(
            match (positions[variable.index()], constants[variable.index()]) {
                (Some(position), _) => Output::Operand(position),
                (None, Some(tensor)) => Output::Captured(device.array_of(tensor.clone())?),
                (None, None) => {
                    let known = computed.iter().position(|known| *known == variable);
                    Output::Result(known.unwrap_or_else(|| {
                        computed.push(variable);
                        computed.len() - 1
                    }))
                }
            },
        );
    }
    Ok((outputs, computed))
}

/// Removes the inputs that no equation reads and that are no outputs. Returns the positions of the remaining inputs.
fn keep_read_inputs(jaxpr: &mut Jaxpr) -> Vec<usize> {
    let mut is_read = vec![false; jaxpr.variables.len()];
    let operands = jaxpr.equations.iter().flat_map(|equation| &equation.inputs);
    for input in operands.chain(&jaxpr.outputs) {
        is_read[input.index()] = true;
    }
    let read: Vec<usize> = (0..jaxpr.inputs.len())
        .filter(|&position| is_read[jaxpr.inputs[position].index()])
        .collect();
    jaxpr.inputs.retain(|input| is_read[input.index()]);
    read
}

/// Turns the constants that are large or on the device into inputs, which follow the other inputs. Returns their
/// arrays.
fn captured_as_inputs(
    device: &Arc<Attached>,
    jaxpr: &mut Jaxpr,
) -> Result<Vec<Arc<DeviceArray>>, TensorError> {
    let mut captured = Vec::new();
    let mut kept = Vec::new();
    // A tensor with two variables is transferred once. The map keeps the tensors alive, so two tensors never have the
    // same address.
    let mut arrays: HashMap<usize, (Tensor, Arc<DeviceArray>)> = HashMap::new();
    for (variable, tensor) in std::mem::take(&mut jaxpr.constants) {
        if !is_operand(&tensor) {
            kept.push((variable, tensor));
            continue;
        }
        jaxpr.inputs.push(variable);
        let array = match arrays.get(&tensor.handle()) {
            Some((_, array)) => Arc::clone(array),
            None => device.array_of(tensor.clone())?,
        };
        captured.push(Arc::clone(&array));
        arrays.insert(tensor.handle(), (tensor, array));
    }
    jaxpr.constants = kept;
    Ok(captured)
}

/// Returns whether a constant is an operand of the program. Other constants are parts of the program.
fn is_operand(tensor: &Tensor) -> bool {
    tensor.device_array().is_some() || tensor.len() > MOST_ELEMENTS
}
