//! Stand-ins for captured tensors. While the custom rule of a function runs, stand-ins replace the traced tensors that
//! the function captured.
//!
//! A rule runs when a recorded function is differentiated. At that time, the transformation of a tensor that the rule
//! captured may already have finished. The function captured the same tensor, so the recorded call has an operand for
//! the tensor. While the rule runs, this operand is the stand-in of the captured tensor.

use std::cell::Cell;
use std::collections::HashMap;

use pytree_kernels::base::dtype::AbstractArray;

use crate::tensor::handle::Tensor;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}
pytree_core::per_thread! {
    static STAND_INS: Vec<StandIns> = Vec::new();
}

/// Maps the handle of each tensor that a rule captured to the tensor and its stand-in.
type StandIns = HashMap<usize, (Tensor, Tensor)>;

/// The tensors that a function captured.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    infos: Vec<AbstractArray>,
    /// Each captured tensor with its position. If a captured tensor was itself a stand-in, the tensors that it replaced
    /// are also listed, with the same position. The list keeps the tensors alive, so no handle is reused.
    positions: Vec<(Tensor, usize)>,
}

impl Captured {
    pub(crate) fn new(tensors: &[Tensor]) -> Self {
        let infos = tensors.iter().map(|tensor| tensor.info().clone()).collect();
        let mut positions = Vec::with_capacity(tensors.len());
        for (position, tensor) in tensors.iter().enumerate() {
            positions.push((tensor.clone(), position));
            let replaced = replaced_by(tensor).into_iter();
            positions.extend(replaced.map(|replaced| (replaced, position)));
        }
        Self { infos, positions }
    }

    pub(crate) fn infos(&self) -> &[AbstractArray] {
        &self.infos
    }

    /// Runs `function` with each captured tensor replaced by the tensor at the same position of `stand_ins`.
    pub(crate) fn replaced<R>(&self, stand_ins: &[Tensor], function: impl FnOnce() -> R) -> R {
        if self.positions.is_empty() {
            return function();
        }
        let by_handle = self.positions.iter().map(|(tensor, position)| {
            (
                tensor.handle(),
                (tensor.clone(), stand_ins[*position].clone()),
            )
        });
        let _guard = Guard::new(by_handle.collect());
        function()
    }
}

/// A guard that registers stand-ins. The stand-ins replace captured tensors until the guard is dropped.
struct Guard;

impl Guard {
    fn new(stand_ins: StandIns) -> Self {
        STAND_INS.with_borrow_mut(|all| all.push(stand_ins));
        COUNT.set(COUNT.get() + 1);
        Self
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        COUNT.set(COUNT.get() - 1);
        let stand_ins = STAND_INS.with_borrow_mut(Vec::pop);
        drop(stand_ins);
    }
}

/// Returns whether any tensor currently has a stand-in.
pub(super) fn are_used() -> bool {
    COUNT.get() > 0
}

pub(super) fn has_stand_in(tensor: &Tensor) -> bool {
    stand_in(tensor).is_some()
}

/// Returns the stand-in of a tensor, or `None` if the tensor has no stand-in. If rules are nested, returns the stand-in
/// of the innermost rule.
fn stand_in(tensor: &Tensor) -> Option<Tensor> {
    tensor.tracer()?;
    let handle = tensor.handle();
    STAND_INS.with_borrow(|all| {
        let mut all = all.iter().rev();
        all.find_map(|stand_ins| stand_ins.get(&handle).map(|(_, stand_in)| stand_in.clone()))
    })
}

/// Replaces each tensor that has a stand-in by its stand-in.
pub(crate) fn standing_in(mut tensors: Vec<Tensor>) -> Vec<Tensor> {
    if are_used() {
        for tensor in &mut tensors {
            if let Some(stand_in) = stand_in(tensor) {
                *tensor = stand_in;
            }
        }
    }
    tensors
}

/// Returns the tensors whose stand-in is currently `tensor`.
fn replaced_by(tensor: &Tensor) -> Vec<Tensor> {
    STAND_INS.with_borrow(|all| {
        let all = all.iter().flat_map(HashMap::values);
        all.filter(|(_, stand_in)| stand_in.same(tensor))
            .map(|(replaced, _)| replaced.clone())
            .collect()
    })
}
