//! Modules whose parameters can be frozen.
