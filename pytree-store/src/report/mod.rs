//! What is reported of a save or a load: errors, differences and what was loaded.

pub(crate) mod error;
pub(crate) mod guess;
pub(crate) mod load_report;
pub(crate) mod mismatch;
