//! The command line.

use std::path::PathBuf;

use crate::data::TRAINING;

/// The text that `--help` prints.
pub(crate) const HELP: &str = "\
Trains an MLP on 1,437 handwritten digits and tests it on 360 others.

Usage: cargo run --release --example digits -- [options]

  --seed N        seed of split, initial weights and shuffling (default: 0)
  --epochs N      passes over the training set (default: 30)
  --out FOLDER    the folder of pictures, metrics and checkpoint (default: target/digits)
  --resume        continue the run of the checkpoint in the folder
  --stop-after N  end like a killed process after N steps, with status 3
  --batch N       images in a batch (default: 64)
  --save-every N  steps between two checkpoints (default: 50)
  --devices N     divide each batch among N devices of the PJRT plugin PYTREE_PJRT_PLUGIN (feature pjrt)
  --processes     divide each batch among the processes that mpiexec started (feature mpi)
  --workload-d    data order, weights and batches of the peers' benchmark; ignores --seed
  --quiet         print only the last line, write no files
  --help          print this
";

/// The options of a run.
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) epochs: usize,
    pub(crate) out: PathBuf,
    pub(crate) workload_d: bool,
    pub(crate) quiet: bool,
    pub(crate) resume: bool,
    pub(crate) stop_after: Option<usize>,
    pub(crate) batch: usize,
    pub(crate) save_every: usize,
    pub(crate) sharing: Sharing,
}

/// Which devices share each batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// The host computes alone.
    No,
    /// A number of devices of a PJRT plugin.
    Devices(usize),
    /// The processes that `mpiexec` started.
    Processes,
}

impl Options {
    /// Parses the command line. Returns `None` if it contains `--help`.
    pub(crate) fn parse(
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Option<Self>, String> {
        let mut options = Self {
            seed: 0,
            epochs: 30,
            out: PathBuf::from("target/digits"),
            workload_d: false,
            quiet: false,
            resume: false,
            stop_after: None,
            batch: 64,
            // Not a multiple of the steps of an epoch, so that most checkpoints are in the middle of one.
            save_every: 50,
            sharing: Sharing::No,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .ok_or_else(|| format!("{argument} needs a value"))
            };
            match argument.as_str() {
                "--help" | "-h" => return Ok(None),
                "--seed" => options.seed = number(&argument, &value()?)?,
                "--epochs" => options.epochs = number(&argument, &value()?)?,
                "--out" => options.out = PathBuf::from(value()?),
                "--workload-d" => options.workload_d = true,
                "--quiet" => options.quiet = true,
                "--resume" => options.resume = true,
                "--batch" => options.batch = number(&argument, &value()?)?,
                "--save-every" => options.save_every = number(&argument, &value()?)?,
                "--devices" => options.sharing = Sharing::Devices(number(&argument, &value()?)?),
                "--processes" => options.sharing = Sharing::Processes,
                "--stop-after" => options.stop_after = Some(number(&argument, &value()?)?),
                other => return Err(format!("unknown option {other}; --help lists them")),
            }
        }
        if options.epochs == 0 || options.save_every == 0 {
            return Err("--epochs and --save-every must be at least 1".to_owned());
        }
        if !(1..=TRAINING).contains(&options.batch) {
            return Err(format!("--batch must be between 1 and {TRAINING}"));
        }
        if options.resume && options.quiet {
            return Err(
                "--resume needs the checkpoint that a run with --quiet does not write".to_owned(),
            );
        }
        Ok(Some(options))
    }
}

fn number<T: std::str::FromStr>(option: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{option} takes a whole number, found `{text}`"))
}
