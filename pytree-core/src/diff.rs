//! Differences of two values: structure, and leaf by leaf.
