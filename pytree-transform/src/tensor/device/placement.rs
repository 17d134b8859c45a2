//! Chooses the device on which an operation runs.

use super::current::is_chosen;
use super::handle::Device;
use crate::base::error::{TensorError, name_of};
use crate::tensor::handle::Tensor;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::primitive::Primitive;

/// Returns whether an operation on these tensors may run on a device other than the host. If the result is false, all
/// operands and all tensors that the bodies have captured are on the host, and no device is chosen.
#[inline]
pub(crate) fn uses_device(primitive: &dyn Primitive, operands: &[&Tensor]) -> bool {
    is_chosen()
        || operands
            .iter()
            .any(|operand| operand.device_array().is_some())
        || bodies_use_device(primitive)
}

/// Returns whether the bodies of a primitive have captured a tensor of a device.
fn bodies_use_device(primitive: &dyn Primitive) -> bool {
    let is_on_device = |body: &Jaxpr| {
        body.constants().any(|it| it.device_array().is_some())
            || body
                .equations
                .iter()
                .any(|equation| bodies_use_device(&*equation.primitive))
    };
    primitive
        .bodies()
        .iter()
        .any(|(_, body)| is_on_device(body))
}

/// The positions of two tensors that are on different devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mixed(pub(crate) usize, pub(crate) usize);

/// Returns the device of tensors that are not traced, or `None` if all of them are on the host.
pub(crate) fn of_tensors<'t>(
    tensors: impl IntoIterator<Item = &'t Tensor>,
) -> Result<Option<&'t Device>, Mixed> {
    let mut found: Option<(usize, &Device)> = None;
    for (position, tensor) in tensors.into_iter().enumerate() {
        let Some(array) = tensor.device_array() else {
            continue;
        };
        match found {
            None => found = Some((position, &array.device)),
            Some((_, device)) if *device == array.device => {}
            Some((first, _)) => return Err(Mixed(first, position)),
        }
    }
    Ok(found.map(|(_, device)| device))
}

/// Returns the devices of the tensors that a recorded function and its nested functions captured. Each device occurs
/// once.
pub(crate) fn of_jaxpr(jaxpr: &Jaxpr) -> Vec<Device> {
    let mut found = Vec::new();
    add_devices(jaxpr, &mut found);
    found
}

fn add_devices(jaxpr: &Jaxpr, found: &mut Vec<Device>) {
    for tensor in jaxpr.constants() {
        if let Some(array) = tensor.device_array()
            && !found.contains(&array.device)
        {
            found.push(array.device.clone());
        }
    }
    for equation in &jaxpr.equations {
        for (_, body) in equation.primitive.bodies() {
            add_devices(body, found);
        }
    }
}

/// Returns a tensor and its device as text for messages, for instance `f32[3] on host`.
pub(crate) fn described(tensor: &Tensor) -> String {
    let device = tensor.try_device().unwrap_or(&Device::HOST);
    format!("{} on {device}", tensor.info())
}

impl Mixed {
    /// Returns the error for an operation on these tensors.
    pub(crate) fn error(self, operation: &'static str, operands: &[&Tensor]) -> TensorError {
        let mut found = [self.0, self.1].map(|position| described(operands[position]));
        let [first, second] = [self.0, self.1].map(|position| operands[position].try_device());
        if let (Ok(first), Ok(second)) = (first, second)
            && first.name() == second.name()
        {
            found[1].push_str(", another device of this name");
        }
        TensorError::devices(name_of(operation), found)
    }
}
