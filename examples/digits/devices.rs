//! The devices that share the work of a step: the devices of a PJRT plugin, or the processes that `mpiexec` started.

use std::error::Error;

use pytree::device::Mesh;

use crate::options::{Options, Sharing};

/// The devices of a run.
#[derive(Default)]
pub(crate) struct Devices {
    /// The devices that share each batch. Without a mesh, the program runs on the host.
    pub(crate) mesh: Option<Mesh>,
    /// Whether another process prints and writes files.
    pub(crate) is_silent: bool,
}

impl Devices {
    /// Returns the devices that the options choose. Processes end when the result is dropped.
    pub(crate) fn of(options: &Options) -> Result<Self, Box<dyn Error>> {
        let devices = match options.sharing {
            Sharing::No => Self::default(),
            Sharing::Devices(count) => of_plugin(count)?,
            Sharing::Processes => processes()?,
        };
        let count = devices.mesh.as_ref().map_or(1, Mesh::devices);
        let batch = options.batch;
        if !batch.is_multiple_of(count) {
            let least = batch.div_ceil(count) * count;
            return Err(format!(
                "a batch of {batch} images cannot be divided among {count} devices; pass for instance --batch {least}"
            )
            .into());
        }
        Ok(devices)
    }
}

#[cfg(feature = "pjrt")]
fn of_plugin(count: usize) -> Result<Devices, Box<dyn Error>> {
    use pytree::pjrt::{Client, Options};

    let plugin = std::env::var("PYTREE_PJRT_PLUGIN")
        .map_err(|_| "--devices needs the path of a PJRT plugin in PYTREE_PJRT_PLUGIN")?;
    // Plugins for CPUs have as many devices as this option says. Other plugins do not know the option.
    let client = Client::load_with(
        &plugin,
        &Options::new().set("cpu_device_count", i64::try_from(count)?),
    )
    .or_else(|_| Client::load(&plugin))?;
    Ok(Devices {
        mesh: Some(Mesh::try_new(&client, [("data", count)])?),
        is_silent: false,
    })
}

#[cfg(not(feature = "pjrt"))]
fn of_plugin(_: usize) -> Result<Devices, Box<dyn Error>> {
    Err("--devices needs the feature pjrt: cargo run --release --features pjrt --example digits -- --devices 4".into())
}

#[cfg(feature = "mpi")]
fn processes() -> Result<Devices, Box<dyn Error>> {
    let processes = pytree::mpi::Processes::start()?;
    Ok(Devices {
        mesh: Some(Mesh::try_new(&processes, [("data", processes.size())])?),
        is_silent: processes.rank() > 0,
    })
}

#[cfg(not(feature = "mpi"))]
fn processes() -> Result<Devices, Box<dyn Error>> {
    Err(
        "--processes needs the feature mpi: cargo build --release --features mpi --example digits"
            .into(),
    )
}
