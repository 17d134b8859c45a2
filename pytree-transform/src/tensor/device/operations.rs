//! Single operations on a device. An operation is compiled once for its parameters and the shapes of its operands.
//!
//! The bodies of a loop are recorded in each call. Two loops are the same operation if their bodies have the same
//! equations. The tensors that the bodies have captured are operands of the program, so the same program runs with
//! other captured tensors.

use std::hash::{BuildHasher, Hash};
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::DefaultHashBuilder;
use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::dtype::AbstractArray;
use smallvec::SmallVec;

use super::constants::{Constants, as_inputs, with_lifted_constants};
use super::slot::Slot;
use super::structure::{ByStructure, Structure};
use super::{Layout, Program, chosen, of_tensors};
use crate::base::error::TensorError;
use crate::tensor::jaxpr::{Builder, Jaxpr};
use crate::tensor::primitive::{Outputs, Primitive};
use crate::tensor::{Tensor, checks};

/// The maximum number of compiled operations of a device. The least recently used operation is evicted first.
const MOST_OPERATIONS: usize = 4096;

/// The compiled operations of a device.
#[derive(Debug, Default)]
pub(super) struct Operations(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The operations by the hash of their keys.
    by_hash: hashbrown::HashTable<Operation>,
    hasher: DefaultHashBuilder,
    /// The number of lookups so far.
    clock: u64,
}

#[derive(Debug)]
struct Operation {
    hash: u64,
    structure: Structure,
    operands: SmallVec<[AbstractArray; 2]>,
    layout: Layout,
    positions: SmallVec<[usize; 4]>,
    slot: Arc<Slot>,
    used: u64,
}

impl Operations {
    /// Returns the slot for the program of an operation. The last operands are the tensors that the bodies of the
    /// primitive have captured. For each constant of the bodies, `positions` has the index of its tensor among these
    /// operands.
    fn of(
        &self,
        primitive: &dyn Primitive,
        (operands, layout): (&[&Tensor], &Layout),
        positions: &[usize],
    ) -> Arc<Slot> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.clock += 1;
        let now = known.clock;
        let infos: SmallVec<[&AbstractArray; 4]> = operands.iter().map(|it| it.info()).collect();
        let hash = {
            let key = Key(ByStructure(primitive), &infos, layout, positions);
            known.hasher.hash_one(key)
        };
        let is_same = |operation: &Operation| {
            operation.operands.iter().eq(infos.iter().copied())
                && operation.layout == *layout
                && *operation.positions == *positions
                && operation.structure.is_of(primitive)
        };
        if let Some(operation) = known.by_hash.find_mut(hash, is_same) {
            operation.used = now;
            return Arc::clone(&operation.slot);
        }
        let removed = known.remove_oldest();
        let slot = Arc::default();
        let operation = Operation {
            hash,
            structure: Structure::of(primitive),
            operands: infos.into_iter().cloned().collect(),
            layout: layout.clone(),
            positions: positions.into(),
            slot: Arc::clone(&slot),
            used: now,
        };
        known.by_hash.insert_unique(hash, operation, |it| it.hash);
        drop(known);
        // Dropping a program runs code of the engine, so release the lock first.
        drop(removed);
        slot
    }
}

/// The key of an operation: the parameters, the equations of the bodies, the shapes and dtypes of the operands, their
/// shardings, and for each constant in the bodies its operand.
#[derive(Hash)]
struct Key<'a>(
    ByStructure<'a>,
    &'a [&'a AbstractArray],
    &'a Layout,
    &'a [usize],
);

impl Known {
    /// Removes the least recently used operation if the cache is full.
    fn remove_oldest(&mut self) -> Option<Operation> {
        if self.by_hash.len() < MOST_OPERATIONS {
            return None;
        }
        let oldest = self.by_hash.iter().min_by_key(|operation| operation.used)?;
        let (hash, used) = (oldest.hash, oldest.used);
        let found = self.by_hash.find_entry(hash, |it| it.used == used).ok()?;
        Some(found.remove().0)
    }
}

/// Evaluates a primitive on the device of its operands. If all operands are on the host, evaluates it on the chosen
/// device.
#[cold]
pub(crate) fn evaluate(
    primitive: &dyn Primitive,
    operands: &[&Tensor],
    results: &Outputs<AbstractArray>,
    line: &'static Location<'static>,
) -> Result<Outputs<Tensor>, TensorError> {
    let constants = Constants::of(primitive);
    let all = operands.iter().chain(&constants.tensors).copied();
    let all: SmallVec<[&Tensor; 4]> = all.collect();
    let device = match of_tensors(all.iter().copied()) {
        Ok(Some(device)) => device.clone(),
        Ok(None) => chosen(),
        Err(mixed) => return Err(mixed.error(primitive.name(), &all)),
    };
    let Some(attached) = device.attached() else {
        return on_host_arrays(primitive, operands, line);
    };
    // A callback of the user runs on the host.
    let is_callback = primitive.has_effect() && primitive.bodies().is_empty();
    if checks::active() || is_callback {
        let results = on_host_arrays(primitive, operands, line)?.into_iter();
        return results.map(|result| device.put(&result)).collect();
    }
    let operations = &attached.operations;
    let layout = Layout::of(all.iter().copied());
    let slot = operations.of(primitive, (&all, &layout), &constants.positions);
    let program = slot.get_or_compile(|| {
        let mut jaxpr = alone(primitive, operands, results, line);
        if !constants.tensors.is_empty() {
            jaxpr = with_lifted_constants(jaxpr, |_| true);
            as_inputs(&mut jaxpr, &constants.tensors);
        }
        Program::compile(attached, primitive.name(), jaxpr, &layout)
    })?;
    let operands = all.into_iter().cloned().collect();
    Ok(program.run(attached, operands, None)?.into())
}

/// Evaluates a primitive on the host. Transfers operands that are on a device.
fn on_host_arrays(
    primitive: &dyn Primitive,
    operands: &[&Tensor],
    line: &'static Location<'static>,
) -> Result<Outputs<Tensor>, TensorError> {
    let operands: Operands = operands
        .iter()
        .map(|operand| operand.value().cloned())
        .collect::<Result<_, _>>()?;
    let _host = super::on_host();
    let results: Outputs<Array> = if checks::active() {
        checks::evaluate(primitive, operands, line, None)?
    } else {
        primitive.evaluate(operands)
    };
    Ok(results.into_iter().map(Tensor::from_array).collect())
}

/// Returns the jaxpr of one equation.
fn alone(
    primitive: &dyn Primitive,
    operands: &[&Tensor],
    results: &Outputs<AbstractArray>,
    line: &'static Location<'static>,
) -> Jaxpr {
    let mut builder = Builder::default();
    let operands = operands.iter();
    let inputs = operands
        .map(|it| builder.input(it.info().clone()))
        .collect();
    let outputs = builder.equation(primitive.to_shared(), inputs, results, line);
    let (jaxpr, _) = builder.finish(outputs.to_vec());
    jaxpr
}
