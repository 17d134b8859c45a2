//! The errors of this crate.

/// An error of MPI.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// MPI was already started in this process.
    #[error(
        "cannot start MPI: it was already started in this process; start one `Processes` and pass it to all functions that need it"
    )]
    AlreadyStarted,
    /// The MPI library does not support programs with threads.
    #[error(
        "cannot start MPI: the MPI library does not support programs with several threads; use a library with MPI_THREAD_FUNNELED"
    )]
    NoThreads,
}

impl std::fmt::Debug for MpiError {
    /// Writes the message, because `unwrap` and a `main` that returns the error print the debug form.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
