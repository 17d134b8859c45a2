//! What the tests with a plugin share.

#![allow(dead_code, reason = "each test program uses some of these functions")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pytree_pjrt::{Buffer, Client, CompileOptions, Executable, Options};

/// Returns the plugin that tests use: `PYTREE_PJRT_PLUGIN`, else the one that `tools/fetch pjrt-plugin` downloads. If there is
/// none, prints that the test is skipped.
pub(crate) fn plugin() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("PYTREE_PJRT_PLUGIN") {
        return Some(path.into());
    }
    let fetched = "../target/pjrt/lammps-jax-pjrt-cpu-0.11.2/pjrt_c_api_cpu_plugin.so";
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join(fetched);
    if fetched.is_file() {
        return Some(fetched);
    }
    skipped("no PJRT plugin; run `tools/fetch pjrt-plugin`, or set PYTREE_PJRT_PLUGIN");
    None
}

/// Prints that the current test is skipped, and why.
pub(crate) fn skipped(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    // The test harness captures `eprintln`, but not this.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

/// Returns the client of all tests of a program, or prints that the test is skipped. It has two devices if they are CPUs.
pub(crate) fn client() -> Option<&'static Client> {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    let path = plugin()?;
    Some(CLIENT.get_or_init(|| {
        let options = Options::new().set("cpu_device_count", 2);
        // Plugins of other platforms refuse the option.
        Client::load_with(&path, &options)
            .or_else(|_| Client::load(&path))
            .unwrap()
    }))
}

/// Compiles a program for the first device.
pub(crate) fn compile(client: &Client, program: &str) -> Executable {
    client.compile(program, &CompileOptions::new()).unwrap()
}

/// Runs a program without donations, and returns its only result.
pub(crate) fn run(program: &Executable, inputs: &[&Buffer]) -> Buffer {
    let mut results = program.run(inputs, &[]).unwrap();
    assert_eq!(results.len(), 1);
    results.remove(0)
}

/// Adds two vectors of 4 numbers. The first input may be donated.
pub(crate) const ADD: &str = "module @add {
  func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<4xf32>) -> tensor<4xf32> {
    %z = stablehlo.add %x, %y : tensor<4xf32>
    return %z : tensor<4xf32>
  }
}";
