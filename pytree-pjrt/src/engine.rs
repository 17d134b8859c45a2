//! Tensors on the devices of a client. Each device has an engine, which compiles recorded functions for the device.

use std::fmt::{self, Write as _};
use std::sync::{Arc, OnceLock};

use pytree_transform::device::{self, DeviceError, Engine, Input};
use pytree_transform::{Jaxpr, StableHlo, Tensor, TensorError};

use crate::buffer::Buffer;
use crate::client::Client;
use crate::convert::{Bytes, bytes, device_error, tensor};
use crate::element::ArrayInfo;
use crate::error::PjrtError;
use crate::executable::Executable;
use crate::options::CompileOptions;

/// A tensor of at least this size, in bytes, lends its memory to a transfer. Smaller tensors are copied.
const SHARED: usize = 1 << 16;

/// If a run would copy inputs of at least this size, in bytes, a second program that needs no copies is compiled.
const COPIED: usize = 1 << 16;

impl Client {
    /// Returns a device of the client as a place for tensors and compiled functions. Calls with the same index return
    /// the same place. `device::Device::from(&client)` returns the place of the first device.
    ///
    /// # Errors
    /// Returns an error if the device does not exist.
    ///
    /// # Examples
    /// ```no_run
    /// use pytree_pjrt::Client;
    /// use pytree_transform::{DType, Tensor, device::with_device};
    ///
    /// let client = Client::from_env()?;
    /// let x = with_device(&client, || Tensor::ones(DType::F32, [3]));
    /// let y = with_device(client.place(1)?, || Tensor::ones(DType::F32, [3]));
    /// assert_ne!(x.device(), y.device());
    /// # Ok::<(), pytree_pjrt::PjrtError>(())
    /// ```
    pub fn place(&self, index: usize) -> Result<device::Device, PjrtError> {
        self.device(index, "return the place of a device")?;
        Ok(self.place_of(index))
    }

    fn place_of(&self, index: usize) -> device::Device {
        let places = self.places();
        let place = places.devices[index].get_or_init(|| {
            device::Device::new(PjrtEngine {
                client: self.without_places(),
                number: places.number,
                index,
            })
        });
        place.clone()
    }
}

impl From<&Client> for device::Device {
    /// Returns the first device of the client as a place for tensors.
    fn from(client: &Client) -> Self {
        client.place_of(0)
    }
}

/// A device of a client that runs recorded functions.
#[derive(Clone)]
struct PjrtEngine {
    client: Client,
    /// The number of the client, which is part of the engine's name.
    number: usize,
    index: usize,
}

impl PjrtEngine {
    fn compile_text(&self, text: &str) -> Result<Executable, DeviceError> {
        let options = compile_options(&self.client).device(self.index);
        self.client.compile(text, &options).map_err(device_error)
    }
}

/// Returns the options with which all programs of tensors are compiled.
pub(crate) fn compile_options(client: &Client) -> CompileOptions {
    // By default, XLA may leave out the rounding to half precision between two operations, as it does on GPUs.
    let options = CompileOptions::new().set("xla_allow_excess_precision", false);
    if client.platform_name() != "cpu" {
        return options;
    }
    // By default, the maximum of a number and NaN is the number on CPUs. On other platforms, the maximum is NaN.
    options.set("xla_cpu_enable_fast_min_max", false)
}

impl fmt::Debug for PjrtEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl Engine for PjrtEngine {
    /// Returns the platform, the number and the kind of the device, for instance `cuda:0 (NVIDIA H200)`. The name also
    /// contains the number of the client, except for the first client of a process.
    fn name(&self) -> String {
        let (platform, device) = (
            self.client.platform_name(),
            &self.client.devices()[self.index],
        );
        let mut name = format!("{platform}:{}", device.id());
        if !device.kind().eq_ignore_ascii_case(platform) {
            let _ = write!(name, " ({})", device.kind());
        }
        if self.number > 1 {
            let _ = write!(name, " of client {}", self.number);
        }
        name
    }

    fn compile(&self, jaxpr: &Jaxpr) -> Result<Arc<dyn device::Executable>, DeviceError> {
        let module = jaxpr.try_to_stablehlo().map_err(not_lowered)?;
        if let [(name, _), ..] = module.replica_axes()[..] {
            let what = format!("a collective over the axis `{name}` outside of `vmap`");
            return Err(DeviceError::unsupported(
                what,
                "call the function in a `vmap` with this axis",
            ));
        }
        let constants = module.constants().iter();
        let constants = constants
            .map(|constant| self.transfer(constant))
            .collect::<Result<_, _>>()?;
        // A donor is an input whose memory the program may use for a result. If a run does not donate the donor, the
        // run copies it. For a single operation, this copy costs as much as the operation, so the program has no
        // donors.
        let reuses = jaxpr.equations().len() > 1;
        let text = if reuses {
            module.text_with_donors()
        } else {
            module.text_without_locations().to_owned()
        };
        let executable = self.compile_text(&text)?;
        Ok(Arc::new(Program::new(self, &module, executable, constants)))
    }

    fn put(&self, tensor: &Tensor) -> Result<Box<dyn device::Buffer>, DeviceError> {
        Ok(Box::new(self.transfer(tensor)?))
    }
}

impl PjrtEngine {
    fn transfer(&self, tensor: &Tensor) -> Result<Buffer, DeviceError> {
        transfer(tensor, &self.client.devices()[self.index])
    }
}

/// Begins to transfer a tensor from the host to a device.
pub(crate) fn transfer(
    tensor: &Tensor,
    device: &crate::device::Device,
) -> Result<Buffer, DeviceError> {
    let (element, bytes) = bytes(tensor)?;
    let dims = tensor.shape();
    let put = if bytes.len() < SHARED {
        device.put_bytes(element, dims, bytes)
    } else {
        device.put_shared(element, dims, Bytes::of(tensor))
    };
    put.map_err(device_error)
}

/// Converts the error for a function that StableHLO cannot express to the error of a device.
pub(crate) fn not_lowered(error: TensorError) -> DeviceError {
    match error {
        TensorError::Lowering {
            operation,
            line,
            fix,
            problem,
            ..
        } => {
            let what = format!("the operation `{operation}` at {line}: {problem}");
            DeviceError::unsupported(what, fix)
        }
        other => DeviceError::failed(other.to_string()),
    }
}

/// A recorded function that is compiled for a device.
///
/// Which inputs a run may overwrite is known only when the run starts. But the compiler decides where the results are
/// stored. So all inputs are compiled as donors (`jax.buffer_donor`), and XLA stores results in the memory of inputs of
/// the same size. If a run does not donate such an input, the runtime copies the input first.
///
/// If a run donates none of these inputs, and the copies would be large, the run uses a second program without donors.
/// The second program is compiled when it is first needed.
#[derive(Debug)]
struct Program {
    engine: PjrtEngine,
    executable: Executable,
    /// The large constants, which are the last arguments.
    constants: Vec<Buffer>,
    without_donors: Option<WithoutDonors>,
}

/// The program without donors.
#[derive(Debug)]
struct WithoutDonors {
    text: String,
    /// The size in bytes of each input whose memory the program with donors uses for a result. The size is 0 for all
    /// other inputs.
    reused: Vec<usize>,
    executable: OnceLock<Executable>,
}

impl Program {
    fn new(
        engine: &PjrtEngine,
        module: &StableHlo,
        executable: Executable,
        constants: Vec<Buffer>,
    ) -> Self {
        let types = executable.parameters().unwrap_or_default().iter();
        let flags = executable.reused().unwrap_or_default();
        let size = |(array, is_reused): (&ArrayInfo, &bool)| match is_reused {
            true => array.bytes(),
            false => 0,
        };
        let reused: Vec<usize> = types.zip(flags).map(size).collect();
        let is_large = reused
            .iter()
            .fold(0, |sum: usize, size| sum.saturating_add(*size))
            >= COPIED;
        let without_donors = is_large.then(|| WithoutDonors {
            text: module.text_without_locations().to_owned(),
            reused,
            executable: OnceLock::new(),
        });
        Self {
            engine: engine.clone(),
            executable,
            constants,
            without_donors,
        }
    }

    /// Returns the program for a run with these inputs.
    fn for_inputs(&self, inputs: &[Input<'_>]) -> Result<&Executable, DeviceError> {
        let Some(other) = &self.without_donors else {
            return Ok(&self.executable);
        };
        let mut copied = 0;
        for (input, &size) in inputs.iter().zip(&other.reused) {
            match input {
                Input::Owned(_) if size > 0 => return Ok(&self.executable),
                Input::Owned(_) => {}
                Input::Borrowed(_) => copied += size,
            }
        }
        if copied < COPIED {
            return Ok(&self.executable);
        }
        if let Some(executable) = other.executable.get() {
            return Ok(executable);
        }
        // Two threads may compile the program at the same time. The first result is stored.
        let compiled = self.engine.compile_text(&other.text)?;
        Ok(other.executable.get_or_init(|| compiled))
    }
}

impl device::Executable for Program {
    fn run(&self, inputs: Vec<Input<'_>>) -> Result<Vec<Box<dyn device::Buffer>>, DeviceError> {
        let executable = self.for_inputs(&inputs)?;
        let mut buffers: Vec<&Buffer> = Vec::with_capacity(inputs.len() + self.constants.len());
        let mut kept: Vec<i64> = Vec::new();
        for (input, position) in inputs.iter().zip(0_i64..) {
            let buffer = input.downcast_ref::<Buffer>();
            buffers.push(buffer.ok_or_else(|| DeviceError::failed("a buffer of another engine"))?);
            if !input.is_owned() {
                kept.push(position);
            }
        }
        buffers.extend(&self.constants);
        let results = executable
            .start(&buffers, &kept)
            .map_err(|failure| device_error(PjrtError::execute(executable.name(), failure)))?;
        let boxed = |result| Box::new(result) as Box<dyn device::Buffer>;
        Ok(results.into_iter().map(boxed).collect())
    }
}

impl device::Buffer for Buffer {
    fn read(&self) -> Result<Tensor, DeviceError> {
        tensor(self)
    }

    fn wait(&self) -> Result<(), DeviceError> {
        Self::wait(self).map_err(device_error)
    }
}
