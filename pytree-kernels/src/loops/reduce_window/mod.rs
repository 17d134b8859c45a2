//! Reductions of sliding windows: sums, extrema, and the derivatives of extrema.

mod evaluation;
mod extrema;
mod geometry;
mod scatter;
mod windows;

pub use self::evaluation::sums;
pub use self::extrema::{extrema, gather};
pub use self::geometry::Window;
pub use self::scatter::scatter;
