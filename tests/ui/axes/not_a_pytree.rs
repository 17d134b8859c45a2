//! An argument that has no shape.

use pytree::prelude::*;
use pytree::shapes;

struct Settings;

#[shapes(settings = "n")]
fn apply(settings: &Settings) {}

fn main() {}
