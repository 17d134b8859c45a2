//! A scan of a model for bugs.
