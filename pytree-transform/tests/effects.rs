//! Effects happen where, and as often as, the program of one example has them.

mod laws;
mod once;
mod reached;
