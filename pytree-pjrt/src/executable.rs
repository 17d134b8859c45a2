//! Compiled programs.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::device::Device;
use crate::element::{ArrayInfo, ElementType};
use crate::error::{ErrorCode, Failure, PjrtError};
use crate::options::OptionValue;
use crate::signature::Signature;
use crate::stats::CompiledMemory;
use crate::sys::ExecutableHandle;

/// A compiled program on a device. A clone is another handle to the same program. Several threads can run a program at
/// the same time.
#[derive(Clone)]
pub struct Executable {
    inner: Arc<Inner>,
}

struct Inner {
    handle: ExecutableHandle,
    name: Arc<str>,
    device: Device,
    /// The parameters. `None` if the plugin does not return the compiled program. In this case, only the plugin checks
    /// inputs.
    signature: Option<Signature>,
    outputs: Vec<Arc<ArrayInfo>>,
    /// The positions of the inputs whose memory the program uses unless a run forbids it.
    donatable: Vec<i64>,
}

impl Executable {
    pub(crate) fn new(handle: ExecutableHandle, devices: &[Device]) -> Result<Self, PjrtError> {
        let doing = |failure| PjrtError::plugin("read the properties of a program", failure);
        let name: Arc<str> = handle.name().map_err(doing)?.into();
        let own = handle.devices().map_err(doing)?;
        let device = match &own[..] {
            [only] => devices.iter().find(|device| device.handle() == only),
            _ => None,
        };
        let device = device.ok_or_else(|| {
            doing(Failure::unimplemented(
                "PJRT_LoadedExecutable_AddressableDevices",
                format!(
                    "the program runs on {} devices of this process, not on one",
                    own.len()
                ),
            ))
        })?;
        let outputs = output_types(&handle, &name)?;
        let program = handle.optimized_program().ok();
        let signature = program.and_then(|(format, bytes)| Signature::decode(&format, &bytes));
        let donatable = signature
            .iter()
            .flat_map(|signature| positions(&signature.donatable));
        let donatable = donatable.collect();
        let device = device.clone();
        let inner = Inner {
            handle,
            name,
            device,
            signature,
            outputs,
            donatable,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    pub(crate) fn handle(&self) -> &ExecutableHandle {
        &self.inner.handle
    }

    /// Returns the name of the module.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the device that runs the program.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// Returns the type of each parameter, or `None` if the plugin does not return the compiled program.
    pub fn parameters(&self) -> Option<&[ArrayInfo]> {
        self.inner
            .signature
            .as_ref()
            .map(|signature| &signature.parameters[..])
    }

    /// Returns the type of each result.
    pub fn results(&self) -> impl ExactSizeIterator<Item = &ArrayInfo> {
        self.inner.outputs.iter().map(AsRef::as_ref)
    }

    /// Runs the program. Returns the results without waiting, so the device may not have computed them yet.
    ///
    /// `donated` lists the positions of the inputs whose memory the program may use for its results. If the run starts,
    /// these buffers are donated, and every later use of them is an error. A donated buffer that the program does not
    /// use is freed.
    ///
    /// # Errors
    /// Returns an error if:
    /// - the inputs differ from the parameters
    /// - an input was donated before
    /// - a donated buffer is passed twice
    ///
    /// Returns an error if the run does not start. An error of the run itself may be returned by the first read of a
    /// result. If the program has no results, the call waits for the run and returns its error.
    ///
    /// # Examples
    /// ```no_run
    /// use pytree_pjrt::{Client, CompileOptions};
    ///
    /// let client = Client::from_env()?;
    /// let program = "module @double {
    ///     func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    ///         %y = stablehlo.add %x, %x : tensor<2xf32>
    ///         return %y : tensor<2xf32>
    ///     }
    /// }";
    /// let double = client.compile(program, &CompileOptions::new())?;
    /// let x = client.put(&[1.0_f32, 2.0], &[2])?;
    /// let results = double.run(&[&x], &[])?;
    /// assert_eq!(results[0].to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), pytree_pjrt::PjrtError>(())
    /// ```
    pub fn run<B: Borrow<Buffer>>(
        &self,
        inputs: &[B],
        donated: &[usize],
    ) -> Result<Vec<Buffer>, PjrtError> {
        self.check(inputs)?;
        self.check_donated(inputs, donated)?;
        let not_donated = self.not_donated(inputs.len(), donated);
        let started = self.start(inputs, &not_donated);
        let results = started.map_err(|failure| self.failed(inputs, donated, failure))?;
        for &position in donated {
            inputs[position].borrow().donate(&self.inner.name);
        }
        Ok(results)
    }

    /// Starts to run the program on inputs that are already checked. `not_donated` lists the positions of the inputs
    /// whose memory the program must not use.
    pub(crate) fn start<B: Borrow<Buffer>>(
        &self,
        inputs: &[B],
        not_donated: &[i64],
    ) -> Result<Vec<Buffer>, Failure> {
        let inner = &*self.inner;
        let handles = inputs.iter().map(|input| input.borrow().handle());
        let results = inner
            .handle
            .execute(handles, not_donated, inner.outputs.len())?;
        let results = results
            .into_iter()
            .zip(&inner.outputs)
            .map(|(handle, array)| {
                let maker = Some(Arc::clone(&inner.name));
                Buffer::new(handle, Arc::clone(array), inner.device.clone(), maker)
            });
        Ok(results.collect())
    }

    /// Returns for each parameter whether the program stores a result in the memory of the parameter if the parameter
    /// is donated. Returns `None` if the plugin does not return the compiled program.
    pub(crate) fn reused(&self) -> Option<&[bool]> {
        let signature = self.inner.signature.as_ref();
        signature.map(|signature| &signature.aliased[..])
    }

    /// Returns the memory that the program uses, or `None` if the plugin does not report it.
    pub fn memory(&self) -> Option<CompiledMemory> {
        self.inner.handle.memory().ok()
    }

    /// Returns the compiler's estimates by name, such as `flops` and `bytes accessed`. The names differ between
    /// plugins. Some plugins return no estimates.
    pub fn cost(&self) -> Vec<(String, OptionValue)> {
        self.inner.handle.cost().unwrap_or_default()
    }

    /// Returns the compiled program as bytes. [`Client::deserialize`](crate::Client::deserialize) loads these bytes
    /// without compiling.
    ///
    /// # Errors
    /// Returns an error if the plugin cannot serialize this program.
    pub fn serialize(&self) -> Result<Vec<u8>, PjrtError> {
        let bytes = self.inner.handle.serialize();
        bytes.map_err(|failure| PjrtError::plugin(format!("serialize `{}`", self.name()), failure))
    }

    /// Checks inputs against the parameters. This check is necessary because the plugin for CPUs checks only sizes in
    /// bytes.
    fn check<B: Borrow<Buffer>>(&self, inputs: &[B]) -> Result<(), PjrtError> {
        let executable = || self.name().to_owned();
        if let Some(signature) = &self.inner.signature {
            let (expected, found) = (signature.parameters.len(), inputs.len());
            if expected != found {
                return Err(PjrtError::InputCount {
                    executable: executable(),
                    expected,
                    found,
                });
            }
            for (index, (input, expected)) in inputs.iter().zip(&signature.parameters).enumerate() {
                let found = input.borrow().array_info();
                if found != expected {
                    return Err(PjrtError::InputType {
                        executable: executable(),
                        index,
                        expected: expected.clone(),
                        found: found.clone(),
                    });
                }
            }
        }
        for (index, input) in inputs.iter().enumerate() {
            let input = input.borrow();
            if input.device() != self.device() {
                return Err(self.wrong_device(index, input.device()));
            }
            if input.is_donated() {
                input.check(&format!("run `{}` with input {index}", self.name()))?;
            }
        }
        Ok(())
    }

    fn wrong_device(&self, index: usize, found: &Device) -> PjrtError {
        let same_client = Arc::ptr_eq(found.handle().client(), self.device().handle().client());
        let other = if same_client {
            ""
        } else {
            " of another client"
        };
        PjrtError::InputDevice {
            executable: self.name().to_owned(),
            index,
            expected: self.device().to_string(),
            found: format!("{found}{other}"),
        }
    }

    /// Checks that each donated input exists and is passed only once.
    fn check_donated<B: Borrow<Buffer>>(
        &self,
        inputs: &[B],
        donated: &[usize],
    ) -> Result<(), PjrtError> {
        let error = |index, problem, fix| PjrtError::Donation {
            executable: self.name().to_owned(),
            index,
            problem,
            fix,
        };
        for (at, &index) in donated.iter().enumerate() {
            let Some(input) = inputs.get(index) else {
                let problem = format!("expected the position of one of {} inputs", inputs.len());
                return Err(error(index, problem, "correct the position"));
            };
            if donated[..at].contains(&index) {
                let problem = "expected each position once, found it twice".to_owned();
                return Err(error(index, problem, "remove one of them"));
            }
            let same = |other: &B| std::ptr::eq(other.borrow(), input.borrow());
            let others = inputs
                .iter()
                .enumerate()
                .filter(|&(other, _)| other != index);
            if let Some((other, _)) = others.into_iter().find(|(_, buffer)| same(buffer)) {
                let problem = format!(
                    "expected a buffer that is passed once, found it also as input {other}"
                );
                return Err(error(index, problem, "pass a copy, or do not donate it"));
            }
        }
        Ok(())
    }

    /// Returns the positions of inputs whose memory the program must not use.
    fn not_donated(&self, inputs: usize, donated: &[usize]) -> Cow<'_, [i64]> {
        let keep = |position: &i64| {
            usize::try_from(*position).is_ok_and(|position| !donated.contains(&position))
        };
        match &self.inner.signature {
            Some(_) if donated.is_empty() => Cow::Borrowed(&self.inner.donatable),
            Some(_) => self.inner.donatable.iter().copied().filter(keep).collect(),
            None => (0_i64..).take(inputs).filter(keep).collect(),
        }
    }

    /// Returns the error for a run that did not start.
    ///
    /// Another thread may have donated an input after the check. In this case the plugin reports an invalid input.
    fn failed<B: Borrow<Buffer>>(
        &self,
        inputs: &[B],
        donated: &[usize],
        failure: Failure,
    ) -> PjrtError {
        let name = &self.inner.name;
        let mut taken = None;
        for (index, input) in inputs.iter().enumerate() {
            let input = input.borrow();
            if input.handle().is_deleted().unwrap_or(false) {
                if donated.contains(&index) {
                    input.donate(name);
                }
                taken = taken.or(Some((index, input)));
            }
        }
        match taken {
            Some((index, input)) if failure.code == ErrorCode::InvalidArgument => {
                let doing = format!("run `{name}` with input {index}");
                input
                    .check(&doing)
                    .err()
                    .unwrap_or_else(|| input.was_donated(&doing, name))
            }
            _ => PjrtError::execute(name, failure),
        }
    }
}

/// Returns the type of each result of a program.
pub(crate) fn output_types(
    handle: &ExecutableHandle,
    name: &str,
) -> Result<Vec<Arc<ArrayInfo>>, PjrtError> {
    let outputs = handle.outputs();
    let outputs = outputs
        .map_err(|failure| PjrtError::plugin("read the properties of a program", failure))?
        .into_iter();
    let outputs = outputs.map(|(raw, dims)| {
        let unknown = || PjrtError::UnknownType {
            executable: name.to_owned(),
            found: raw,
        };
        let element = ElementType::from_pjrt(raw).ok_or_else(unknown)?;
        let length = |length| usize::try_from(length).unwrap_or_default();
        let dims: Vec<usize> = dims.into_iter().map(length).collect();
        Ok(Arc::new(ArrayInfo {
            element,
            shape: dims,
        }))
    });
    outputs.collect()
}

/// Returns the positions of the flags that are true.
fn positions(flags: &[bool]) -> impl Iterator<Item = i64> {
    (0_i64..)
        .zip(flags)
        .filter(|&(_, &flag)| flag)
        .map(|(position, _)| position)
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let results: Vec<String> = self.results().map(ToString::to_string).collect();
        write!(f, "Executable(`{}` on {}", self.name(), self.device())?;
        if let Some(parameters) = self.parameters() {
            let parameters: Vec<String> = parameters.iter().map(ToString::to_string).collect();
            write!(f, ": ({})", parameters.join(", "))?;
        }
        write!(f, " -> ({}))", results.join(", "))
    }
}
