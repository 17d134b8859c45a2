//! Notices functions that are compiled anew for every call.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::{LazyLock, Mutex, PoisonError};

/// How many functions a line may build and trace before it is told.
const MANY: usize = 32;

/// How many compiled functions each line built that were traced.
static BUILT: LazyLock<Mutex<HashMap<&'static Location<'static>, usize>>> =
    LazyLock::new(Mutex::default);

/// Notes that a function built at this line was traced for the first time. Says on stderr if many were, once a
/// line.
pub(crate) fn traced_first(line: &'static Location<'static>) {
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let count = built.entry(line).or_insert(0);
    *count += 1;
    if *count == MANY {
        eprintln!("{}", message(line));
    }
}

fn message(line: &Location<'_>) -> String {
    format!(
        "warning: `jit` at {line} has built {MANY} functions, and each was traced anew; build it once, outside of the loop or as a field of a struct, and call it often"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::dtype::DType;
    use crate::tensor::Tensor;
    use crate::transformations::jit::jit;

    fn count(line: u32) -> usize {
        let built = BUILT.lock().unwrap();
        let of_line = built
            .iter()
            .find(|(place, _)| place.file() == file!() && place.line() == line);
        of_line.map_or(0, |(_, count)| *count)
    }

    #[test]
    fn a_line_is_counted_for_each_function_it_builds_and_traces() {
        let x = Tensor::from(1.0_f32);
        let mut line = 0;
        for _ in 0..MANY + 3 {
            let f = jit(|x: Tensor| x + 1.0);
            line = line!() - 1;
            f(x.clone());
            f(x.clone());
        }
        assert_eq!(count(line), MANY + 3);
        let f = jit(|x: Tensor| x + 1.0);
        let line = line!() - 1;
        assert_eq!(count(line), 0, "it was not traced");
        for length in 0..MANY {
            f(Tensor::ones(DType::F32, [length]));
        }
        assert_eq!(count(line), 1, "it was built once");
    }

    #[test]
    fn the_warning_names_the_line_and_the_mend() {
        let text = message(Location::caller());
        assert!(text.contains("rebuilt.rs:"), "{text}");
        assert!(
            text.contains("build it once, outside of the loop"),
            "{text}"
        );
    }
}
