//! The device that part of a program has chosen by `with_device`.

use std::cell::Cell;

use super::handle::Device;
use crate::tensor::handle::Tensor;

thread_local! {
    /// Whether `CHOSEN` is a device other than the host. Every operation reads this flag.
    static IS_CHOSEN: Cell<bool> = const { Cell::new(false) };
}
pytree_core::per_thread! {
    static CHOSEN: Device = Device::HOST;
}

/// Calls a function with `device` as the chosen device. Compiled functions, operations and new tensors use the chosen
/// device if all their operands are on the host.
///
/// An operation on tensors of another device still runs on that device. The choice applies only to this thread. It ends
/// with the call, even if the function panics. Inside of the function, another `with_device` may choose another device
/// or [`Device::HOST`].
///
/// # Examples
/// ```
/// use pytree_transform::device::{Device, with_device};
/// use pytree_transform::{DType, Tensor};
/// let ones = with_device(Device::HOST, || Tensor::ones(DType::F32, [3]));
/// assert!(ones.device().is_host());
/// ```
#[doc(alias("jax.default_device", "torch.device"))]
pub fn with_device<R>(device: impl Into<Device>, function: impl FnOnce() -> R) -> R {
    let _chosen = within(&device.into());
    function()
}

/// Chooses a device until the returned guard is dropped.
#[must_use]
pub(crate) fn within(device: &Device) -> Chosen {
    Chosen::set(device.clone())
}

/// Chooses the host until the returned guard is dropped.
#[must_use]
pub(crate) fn on_host() -> Chosen {
    Chosen::set(Device::HOST)
}

/// Chooses the device of the first tensor that is on a device, until the returned guard is dropped. Returns `None` if
/// all tensors are on the host or are recorded. A rule calls this function, so that the tensors that it creates are on
/// the device of its operands and need no transfer.
#[must_use]
#[inline]
pub(crate) fn beside<'t>(tensors: impl IntoIterator<Item = &'t Tensor>) -> Option<Chosen> {
    let device = tensors.into_iter().find_map(Tensor::placed_on)?;
    Some(within(device))
}

/// Returns whether a device other than the host is chosen.
#[inline]
pub(crate) fn is_chosen() -> bool {
    IS_CHOSEN.get()
}

/// Returns the chosen device.
pub(crate) fn chosen() -> Device {
    CHOSEN.with_borrow(Clone::clone)
}

/// A guard that restores the previously chosen device.
#[derive(Debug)]
pub(crate) struct Chosen(Device);

impl Chosen {
    fn set(device: Device) -> Self {
        IS_CHOSEN.set(!device.is_host());
        Self(CHOSEN.replace(device))
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        IS_CHOSEN.set(!self.0.is_host());
        let before = std::mem::replace(&mut self.0, Device::HOST);
        // Dropping the device may run any code of its engine, so the thread-local variable is not borrowed here.
        let ended = CHOSEN.replace(before);
        drop(ended);
    }
}
