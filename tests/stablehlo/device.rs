//! The device on which the recorded programs run: that of a PJRT plugin, if the environment variable `PYTREE_GOLDENS_ON`
//! is `pjrt`. The feature `pjrt` is needed, and `PYTREE_PJRT_PLUGIN` has the path of the plugin.

use std::sync::LazyLock;

use pytree::device::Device;

static DEVICE: LazyLock<Option<Device>> =
    LazyLock::new(|| match std::env::var("PYTREE_GOLDENS_ON").as_deref() {
        Err(_) | Ok("host") => None,
        Ok("pjrt") => Some(of_plugin()),
        Ok(other) => panic!("PYTREE_GOLDENS_ON is `pjrt` or `host`, not `{other}`"),
    });

#[cfg(feature = "pjrt")]
fn of_plugin() -> Device {
    Device::from(&pytree::pjrt::Client::from_env().unwrap())
}

#[cfg(not(feature = "pjrt"))]
fn of_plugin() -> Device {
    panic!("build these tests with `--features pjrt`")
}

/// Returns the device, or `None` if programs run on the host only.
pub fn device() -> Option<Device> {
    DEVICE.clone()
}

/// Returns whether the device gives 0 instead of NaN for gradients of an extremum that is NaN.
///
/// Releases of XLA from 2025 take `x * convert(p)` for `select(p, x, 0)`, also if `x` is infinite. Jitted functions of JAX have
/// the same results there.
pub fn loses_nan(name: &str) -> bool {
    device().is_some() && ["max", "min"].contains(&name)
}
