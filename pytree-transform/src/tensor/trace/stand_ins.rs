//! Stand-ins for traced tensors that a function captured and that its rule uses later.
//!
//! A rule runs when a recorded function is differentiated. The transformation of a tensor that the rule captured may
//! have finished by then. The function captured the same tensor, so the tensor is an operand of the recorded call. While
//! the rule runs, this operand stands in for it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use crate::base::dtype::AbstractArray;
use crate::tensor::Tensor;

thread_local! {
    static STAND_INS: RefCell<Vec<StandIns>> = const { RefCell::new(Vec::new()) };
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// The tensors that a rule captured, by handle, with their stand-ins.
type StandIns = HashMap<usize, (Tensor, Tensor)>;

/// The tensors that a function captured.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    infos: Vec<AbstractArray>,
    /// The tensors with their positions among the captured ones. A tensor that was itself a stand-in has the positions of
    /// all tensors that it stood for. The tensors are kept alive, so that no handle is used again.
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

    /// Runs `function` with a stand-in for each captured tensor.
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

/// While this guard lives, its stand-ins are used.
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

/// Returns whether any tensor has a stand-in.
pub(super) fn are_used() -> bool {
    COUNT.get() > 0
}

pub(super) fn has_stand_in(tensor: &Tensor) -> bool {
    stand_in(tensor).is_some()
}

/// Returns the stand-in of a tensor. That of the rule that runs now has precedence.
fn stand_in(tensor: &Tensor) -> Option<Tensor> {
    tensor.tracer()?;
    let handle = tensor.handle();
    STAND_INS.with_borrow(|all| {
        let mut all = all.iter().rev();
        all.find_map(|stand_ins| stand_ins.get(&handle).map(|(_, stand_in)| stand_in.clone()))
    })
}

/// Returns the tensors, with stand-ins for those that have one.
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

/// Returns the tensors that this tensor stands in for.
fn replaced_by(tensor: &Tensor) -> Vec<Tensor> {
    STAND_INS.with_borrow(|all| {
        let all = all.iter().flat_map(HashMap::values);
        all.filter(|(_, stand_in)| stand_in.same_handle(tensor))
            .map(|(replaced, _)| replaced.clone())
            .collect()
    })
}
