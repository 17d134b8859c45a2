//! Clients: a plugin with its devices.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::buffer::Buffer;
use crate::cache::{Cache, CacheStats, Entry};
use crate::device::Device;
use crate::element::{Element, ElementType};
use crate::error::{Failure, PjrtError};
use crate::executable::Executable;
use crate::options::{CompileOptions, OptionValue, Options};
use crate::parallel::ParallelExecutable;
use crate::places::Places;
use crate::plugin::Plugin;
use crate::sys::{ClientHandle, ExecutableHandle};

/// The environment variable that [`Client::from_env`] reads.
const VARIABLE: &str = "PYTREE_PJRT_PLUGIN";

/// A plugin with its devices. A client compiles programs and copies arrays to the devices.
///
/// A clone is another handle to the same client. Buffers and executables keep their client alive. A program accepts
/// only the buffers of its own client, even if two clients have the same plugin.
///
/// Several threads can call all methods at the same time.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    places: Arc<Places>,
}

struct Inner {
    handle: Arc<ClientHandle>,
    plugin: &'static Plugin,
    platform_name: String,
    platform_version: String,
    devices: Vec<Device>,
    cache: Option<Cache>,
    /// Locked while a program starts on several devices. If two programs with collectives started at the same time, one
    /// device might run the first program and another device the second, and each would wait for the other forever.
    starting: Mutex<()>,
}

impl Client {
    /// Loads a plugin and creates a client with the plugin's default options.
    ///
    /// The plugin is loaded once in a process, and stays loaded until the process ends. A plugin is trusted code,
    /// because loading a plugin runs its initializers.
    ///
    /// # Errors
    /// Returns an error if the file is not a plugin that this crate can use, or if the plugin finds no device.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, PjrtError> {
        Self::load_with(path, &Options::new())
    }

    /// Loads a plugin and creates a client with options.
    ///
    /// # Errors
    /// Returns the errors of [`load`](Self::load). Also returns an error if the plugin refuses an option.
    pub fn load_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, PjrtError> {
        let plugin = Plugin::load(path.as_ref())?;
        let handle = ClientHandle::create(&plugin.api, &options.values)
            .map_err(|failure| refused(plugin.path.clone(), options, failure))?;
        let doing = |failure| PjrtError::plugin("read the properties of the devices", failure);
        let devices = handle.devices().map_err(doing)?;
        let devices = devices.into_iter().enumerate();
        let devices = devices.map(|(index, handle)| Device::new(index, handle));
        let devices = devices
            .collect::<Result<Vec<Device>, Failure>>()
            .map_err(doing)?;
        if devices.is_empty() {
            return Err(PjrtError::NoDevice {
                path: plugin.path.clone(),
                message: "the client has no devices".to_owned(),
            });
        }
        let places = Arc::new(Places::new(devices.len()));
        let inner = Inner {
            platform_name: handle.platform_name().map_err(doing)?,
            platform_version: handle.platform_version().map_err(doing)?,
            handle,
            plugin,
            devices,
            cache: options.cache_dir.clone().map(Cache::new),
            starting: Mutex::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
            places,
        })
    }

    /// Loads the plugin whose path is in the environment variable `PYTREE_PJRT_PLUGIN`.
    ///
    /// # Errors
    /// Returns the errors of [`load`](Self::load). Also returns an error if the variable is not set.
    pub fn from_env() -> Result<Self, PjrtError> {
        Self::from_env_with(&Options::new())
    }

    /// Loads the plugin whose path is in the environment variable `PYTREE_PJRT_PLUGIN`, with options.
    ///
    /// # Errors
    /// Returns the errors of [`load_with`](Self::load_with). Also returns an error if the variable is not set.
    pub fn from_env_with(options: &Options) -> Result<Self, PjrtError> {
        let found = match std::env::var_os(VARIABLE) {
            Some(path) if !path.is_empty() => return Self::load_with(PathBuf::from(path), options),
            Some(_) => "an empty text",
            None => "no such variable",
        };
        Err(PjrtError::NoPlugin {
            variable: VARIABLE,
            found: found.to_owned(),
        })
    }

    /// Returns the name of the platform, such as `cpu` or `cuda`.
    pub fn platform_name(&self) -> &str {
        &self.inner.platform_name
    }

    /// Returns the version of the platform as the plugin writes it.
    pub fn platform_version(&self) -> &str {
        &self.inner.platform_version
    }

    /// Returns the version of the plugin's PJRT interface: the major and the minor version.
    pub fn api_version(&self) -> (i32, i32) {
        self.inner.plugin.api.version
    }

    /// Returns the properties that the plugin reports, such as `xla_version` and `stablehlo_current_version`. The names
    /// of the properties differ between plugins.
    pub fn attributes(&self) -> Vec<(String, OptionValue)> {
        self.inner.plugin.api.attributes().unwrap_or_default()
    }

    /// Returns the path from which the process first loaded the plugin.
    pub fn plugin_path(&self) -> &Path {
        &self.inner.plugin.path
    }

    /// Returns the devices that this process can use. The list is never empty.
    pub fn devices(&self) -> &[Device] {
        &self.inner.devices
    }

    /// Returns the numbers of hits and misses of the cache, or `None` if the client has no cache.
    pub fn cache_stats(&self) -> Option<CacheStats> {
        self.inner.cache.as_ref().map(Cache::stats)
    }

    /// Copies elements to the first device; see [`Device::put`].
    ///
    /// # Errors
    /// Returns the errors of [`Device::put`].
    pub fn put<T: Element>(&self, elements: &[T], dims: &[usize]) -> Result<Buffer, PjrtError> {
        self.devices()[0].put(elements, dims)
    }

    /// Copies bytes to the first device; see [`Device::put_bytes`].
    ///
    /// # Errors
    /// Returns the errors of [`Device::put_bytes`].
    pub fn put_bytes(
        &self,
        element: ElementType,
        dims: &[usize],
        bytes: &[u8],
    ) -> Result<Buffer, PjrtError> {
        self.devices()[0].put_bytes(element, dims, bytes)
    }

    /// Compiles a program for one device. If the client has a cache, first looks for the program there.
    ///
    /// The text is a StableHLO module in the syntax of MLIR. The program is the function `main` of the module. If a
    /// parameter of `main` has the attribute `tf.aliasing_output = i : i32`, its buffer can be donated to result `i`.
    ///
    /// # Errors
    /// Returns an error if the device does not exist. Returns the compiler's message if the program is malformed or the
    /// device cannot run it.
    pub fn compile(
        &self,
        program: &str,
        options: &CompileOptions,
    ) -> Result<Executable, PjrtError> {
        let device = self.device(options.device, "compile a program")?;
        let encoded = options.encode(&[&[device.id()]], None);
        let make = |handle| Executable::new(handle, self.devices());
        self.compile_as(program, &encoded, make, Executable::handle)
    }

    /// Compiles a program that the first `replicas` devices run together. If the client has a cache, first looks for the
    /// program there. The device of `options` is ignored.
    pub(crate) fn compile_parallel(
        &self,
        program: &str,
        options: &CompileOptions,
        replicas: usize,
    ) -> Result<ParallelExecutable, PjrtError> {
        self.device(replicas.saturating_sub(1), "compile a program")?;
        let devices = &self.devices()[..replicas];
        let ids: Vec<[i32; 1]> = devices.iter().map(|device| [device.id()]).collect();
        let rows: Vec<&[i32]> = ids.iter().map(|row| &row[..]).collect();
        let encoded = options.encode(&rows, None);
        let make = |handle| ParallelExecutable::new(handle, devices.to_vec(), self.waits());
        self.compile_as(program, &encoded, make, ParallelExecutable::handle)
    }

    /// Returns whether the start of a program on several devices waits for the end of the run.
    ///
    /// The devices of a CPU share the threads of the plugin. If one of them ran ahead, it could fill all threads with
    /// programs that wait for the other devices, which would then wait for a thread forever.
    fn waits(&self) -> bool {
        self.platform_name() == "cpu"
    }

    /// Compiles a program that XLA divides among the first `partitions` devices. For each result, `open_results` says
    /// whether XLA chooses how the result is divided. If the client has a cache, first looks for the program there. The
    /// device of `options` is ignored.
    pub(crate) fn compile_partitioned(
        &self,
        program: &str,
        options: &CompileOptions,
        partitions: usize,
        open_results: &[bool],
    ) -> Result<ParallelExecutable, PjrtError> {
        self.device(partitions.saturating_sub(1), "compile a program")?;
        let devices = &self.devices()[..partitions];
        let ids: Vec<i32> = devices.iter().map(Device::id).collect();
        let encoded = options.encode(&[&ids], Some(open_results));
        let make = |handle| ParallelExecutable::new(handle, devices.to_vec(), self.waits());
        self.compile_as(program, &encoded, make, ParallelExecutable::handle)
    }

    /// Loads a program from the cache or compiles it. `make` creates the executable from a compiled program.
    fn compile_as<T>(
        &self,
        program: &str,
        options: &[u8],
        make: impl Fn(ExecutableHandle) -> Result<T, PjrtError>,
        handle: impl FnOnce(&T) -> &ExecutableHandle,
    ) -> Result<T, PjrtError> {
        let cache = self.inner.cache.as_ref();
        let entry = cache.map(|cache| self.entry(cache, program, options));
        let load = |bytes: &[u8]| {
            let loaded = self.deserialized(bytes).and_then(&make);
            loaded.map_err(|error| error.to_string())
        };
        if let Some(executable) = entry.as_ref().and_then(|entry| entry.load(load)) {
            return Ok(executable);
        }
        let compiled = self.inner.handle.compile(program, options);
        let compiled =
            compiled.map_err(
                |failure| match PjrtError::plugin("compile a program", failure) {
                    PjrtError::Plugin { code, message, .. } => PjrtError::Compile {
                        program: name(program),
                        code,
                        message,
                    },
                    other => other,
                },
            )?;
        let executable = make(compiled)?;
        if let Some(entry) = entry {
            let bytes = handle(&executable).serialize();
            let doing = || format!("serialize `{}`", name(program));
            entry.store(bytes.map_err(|failure| PjrtError::plugin(doing(), failure)));
        }
        Ok(executable)
    }

    /// Loads a program that [`Executable::serialize`] wrote.
    ///
    /// The bytes must be trusted, because a plugin may crash on bytes that it did not write. The bytes are valid only
    /// for the same version of the same plugin, on the same kind of processor and devices.
    ///
    /// # Errors
    /// Returns an error if the plugin refuses the bytes.
    pub fn deserialize(&self, bytes: &[u8]) -> Result<Executable, PjrtError> {
        Executable::new(self.deserialized(bytes)?, self.devices())
    }

    fn deserialized(&self, bytes: &[u8]) -> Result<ExecutableHandle, PjrtError> {
        let refused = |failure: Failure| PjrtError::Deserialize {
            found: bytes.len(),
            message: failure.message,
        };
        self.inner.handle.deserialize(bytes).map_err(refused)
    }

    /// Waits until no other thread starts a program on several devices.
    pub(crate) fn starting(&self) -> MutexGuard<'_, ()> {
        let starting = self.inner.starting.lock();
        starting.unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Returns a handle to the same client without the places of tensors. The engines of the places hold this handle.
    /// With the places in the handle, a place would hold itself and would never be freed.
    pub(crate) fn without_places(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            places: Arc::new(Places::new(0)),
        }
    }

    pub(crate) fn device(&self, index: usize, doing: &'static str) -> Result<&Device, PjrtError> {
        let count = self.devices().len();
        self.devices().get(index).ok_or(PjrtError::DeviceIndex {
            doing,
            index,
            count,
        })
    }

    /// Returns the entry of a program in the cache.
    fn entry<'a>(&self, cache: &'a Cache, program: &str, options: &[u8]) -> Entry<'a> {
        let kinds: Vec<&str> = self.devices().iter().map(Device::kind).collect();
        let plugin = format!(
            "{} {} {:?} {:?} {} {kinds:?}",
            self.platform_name(),
            self.platform_version(),
            self.api_version(),
            self.attributes(),
            self.inner.plugin.build,
        );
        cache.entry(program, options, &plugin)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.api_version();
        let (platform, devices) = (self.platform_name(), self.devices());
        write!(
            f,
            "Client({platform} with {devices:?}, PJRT {major}.{minor} of {:?})",
            self.plugin_path()
        )
    }
}

/// Returns the error of a plugin that could not create a client.
fn refused(path: PathBuf, options: &Options, failure: Failure) -> PjrtError {
    let Failure { code, message, .. } = failure;
    if message.to_lowercase().contains("no visible") {
        return PjrtError::NoDevice { path, message };
    }
    let options: Vec<String> = options
        .values
        .iter()
        .map(|(name, value)| format!("`{name}`: {value:?}"))
        .collect();
    let options = if options.is_empty() {
        "of the plugin's defaults".to_owned()
    } else {
        options.join(", ")
    };
    PjrtError::Client {
        path,
        options,
        code,
        message,
    }
}

/// Returns the name of a module. If the module has no name, returns the beginning of its text.
fn name(program: &str) -> String {
    let ends = |c: char| !(c.is_alphanumeric() || "_.$-".contains(c));
    let named = program
        .split_once("module @")
        .map(|(_, rest)| rest.split(ends).next());
    match named {
        Some(Some(name)) if !name.is_empty() => name.to_owned(),
        _ => program
            .trim_start()
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(60)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_variable_says_how_to_set_it() {
        // No test of this file sets the variable, because the tests run at the same time.
        if std::env::var_os(VARIABLE).is_none() {
            let error = Client::from_env().unwrap_err().to_string();
            assert!(
                error.contains("`PYTREE_PJRT_PLUGIN`, found no such variable"),
                "{error}"
            );
        }
    }

    #[test]
    fn devices_that_are_not_visible_are_missing() {
        let failure = Failure {
            function: "PJRT_Client_Create",
            code: crate::ErrorCode::NotFound,
            message: "No visible GPU devices.".to_owned(),
        };
        let error = refused("plugin.so".into(), &Options::new(), failure);
        assert!(matches!(error, PjrtError::NoDevice { .. }));
        assert!(
            error.to_string().contains("No visible GPU devices."),
            "{error}"
        );
    }

    #[test]
    fn programs_are_named_by_module() {
        assert_eq!(name("module @jit_f attributes {}"), "jit_f");
        assert_eq!(name("\n  nonsense\nmore"), "nonsense");
        assert_eq!(name(""), "");
    }
}
