//! Starts a test again in several processes.

use std::process::{Command, Output};

/// The variable that tells a started program which test to run.
const TEST: &str = "PYTREE_MPI_TEST";

/// Returns whether `mpiexec` started this process for a test.
pub(crate) fn is_started(test: &str) -> bool {
    std::env::var(TEST).is_ok_and(|started| started == test)
}

/// Returns the command that starts a test again with `mpiexec`, with `count` processes and one thread in each of them.
pub(crate) fn command(count: usize, test: &str) -> Command {
    let mut command = Command::new("mpiexec");
    command
        .args(["-n", &count.to_string(), "--oversubscribe"])
        .args(["--allow-run-as-root", "--tag-output"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(TEST, test)
        .env("PYTREE_NUM_THREADS", "1");
    command
}

/// Returns the printed lines of a run, for messages.
pub(crate) fn printed(output: &Output) -> String {
    let (printed, errors) = (&output.stdout, &output.stderr);
    [printed, errors]
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .join("\n")
}
