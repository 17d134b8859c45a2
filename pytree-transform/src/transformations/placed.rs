//! Where a compiled function runs: on the host, or on a device with its own program.

use std::sync::Arc;

use pytree_kernels::base::array::Array;

use crate::base::error::TensorError;
use crate::passes::optimize;
use crate::tensor::device::{
    Device, Layout, Mixed, Program, chosen, described, of_tensors, on_host,
};
use crate::tensor::{Tensor, checks};
use crate::transformations::cache::{Entry, Release};
use crate::transformations::function::Origin;

/// Where a call runs.
pub(crate) enum Place {
    /// The executor of the host runs the call. All leaves are on the host.
    Host,
    Device(Placed),
}

/// A program for a device. While results are checked, there is no program: the call runs on the host and transfers the
/// results to the device.
pub(crate) struct Placed {
    device: Device,
    program: Option<Arc<Program>>,
}

impl Place {
    /// Returns the place where the program of a cache entry runs. The place is `set` if it is a device, otherwise the
    /// device of the leaves and captured tensors, otherwise the chosen device. Compiles the program if necessary.
    ///
    /// # Errors
    /// Returns [`TensorError::Devices`] if two of these devices differ. Also returns the errors of the compiler.
    pub(crate) fn of(
        origin: Origin,
        set: Option<&Device>,
        entry: &Entry,
        leaves: &[Tensor],
    ) -> Result<Self, TensorError> {
        let Some(device) = only_device(set, entry, leaves) else {
            return Err(several_devices(&name_of(origin, entry), set, entry, leaves));
        };
        let Some(attached) = device.attached() else {
            return Ok(Self::Host);
        };
        if checks::active() {
            let program = None;
            return Ok(Self::Device(Placed { device, program }));
        }
        let layout = Layout::of(leaves);
        let program = entry.programs.get_or_compile(&device, &layout, || {
            let name = name_of(origin, entry);
            let jaxpr = optimize(entry.body.jaxpr.clone());
            Program::compile(attached, &name, jaxpr, &layout)
        })?;
        let program = Some(program);
        Ok(Self::Device(Placed { device, program }))
    }
}

impl Placed {
    /// Returns the program, or `None` while results are checked.
    pub(crate) fn program(&self) -> Option<&Program> {
        self.program.as_deref()
    }

    /// Runs the program on leaves that are on the host or on the device. The caller that lends the leaves passes `release`.
    pub(crate) fn run(
        &self,
        entry: &Entry,
        leaves: Vec<Tensor>,
        release: Option<Release<'_>>,
    ) -> Result<Vec<Tensor>, TensorError> {
        if let (Some(attached), Some(program)) = (self.device.attached(), &self.program) {
            return program.run(attached, leaves, release);
        }
        let arrays: Vec<Arc<Array>> = leaves
            .iter()
            .map(|leaf| leaf.value().cloned())
            .collect::<Result<_, _>>()?;
        let _host = on_host();
        let results = entry.run(arrays, None).into_iter().map(Tensor::from_shared);
        results.map(|result| self.device.put(&result)).collect()
    }
}

/// Returns the device of a call, or `None` if the leaves, the captured tensors and the user's choice differ. Every call
/// runs this function, so this function does not build an error message.
fn only_device(set: Option<&Device>, entry: &Entry, leaves: &[Tensor]) -> Option<Device> {
    let given = of_tensors(leaves).ok()?;
    let mut found = set.into_iter().chain(given).chain(&entry.devices);
    match found.next() {
        None => Some(chosen()),
        Some(device) => found.all(|other| other == device).then(|| device.clone()),
    }
}

/// Returns the error of a call whose leaves, captured tensors and chosen device differ.
#[cold]
fn several_devices(
    name: &str,
    set: Option<&Device>,
    entry: &Entry,
    leaves: &[Tensor],
) -> TensorError {
    let place = |position: usize| {
        let path = &entry.signature.treedef.leaf_paths()[position];
        format!("{} at {}", described(&leaves[position]), path.or_root())
    };
    let operation = match set {
        Some(device) => format!("call `{name}` on {device} with"),
        None => format!("call `{name}` with"),
    };
    let given = match of_tensors(leaves) {
        Ok(given) => given,
        Err(Mixed(first, other)) => {
            return TensorError::devices(operation, [place(first), place(other)]);
        }
    };
    let at = || leaves.iter().position(|leaf| leaf.device_array().is_some());
    let given = given.map(|device| (device, at().map(place).unwrap_or_default()));
    let captured = |device| (device, format!("a captured tensor on {device}"));
    let mut found = given.into_iter().chain(entry.devices.iter().map(captured));
    let Some((device, text)) = found.next() else {
        return TensorError::devices(operation, []);
    };
    if set.is_some_and(|set| set != device) {
        return TensorError::devices(operation, [text]);
    }
    let other = found.find(|(other, _)| *other != device);
    let texts = std::iter::once(text).chain(other.map(|(_, other)| other));
    TensorError::devices(operation, texts.collect::<Vec<_>>())
}

/// Returns the name of a compiled function for messages: its own name or, for a closure, the line that compiled it.
fn name_of(origin: Origin, entry: &Entry) -> String {
    match entry.body.label.as_str() {
        "<closure>" | "" => origin.to_string(),
        label => label.to_owned(),
    }
}
