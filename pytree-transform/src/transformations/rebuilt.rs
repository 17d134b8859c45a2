//! Warns about source lines that build a new compiled function for every call.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The number of functions that one source line builds and traces before a warning is printed.
const MANY: usize = 32;

/// For each source line, the number of compiled functions that the line built and that were traced.
static BUILT: LazyLock<Mutex<HashMap<&'static Location<'static>, usize>>> =
    LazyLock::new(Mutex::default);

/// Counts the first trace of a function that this line built. Prints a warning on stderr when the count of the line
/// reaches [`MANY`].
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
    fn first_traces_of_built_functions_are_counted() {
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
    fn warning_names_line_and_fix() {
        let text = message(Location::caller());
        assert!(text.contains("rebuilt.rs:"), "{text}");
        assert!(
            text.contains("build it once, outside of the loop"),
            "{text}"
        );
    }
}
