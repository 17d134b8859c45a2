//! Functions that return a `Result` return what a walk cannot pass as an error, and do not panic.

use std::path::{Path, PathBuf};
use std::process::Command;

use pytree_core::{Module, edit, graph, nodes, tree};

use super::errors::{self, Wrong, deep};

fn panics<T>(run: impl FnOnce() -> T) -> String {
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
        .err()
        .unwrap();
    *payload.downcast::<String>().unwrap()
}

#[test]
fn obstacles_are_errors() {
    errors::all();
}

/// Compiles `abort.rs`, which runs the same checks, with `panic = "abort"`. Cargo compiles no test in this way, so the
/// compiler is called with the library that this test uses: the newest one, as a library that Cargo left unchanged has
/// the same sources.
#[test]
fn obstacles_are_errors_in_a_program_that_aborts() {
    let folder = std::env::current_exe().unwrap();
    let folder = folder.parent().unwrap();
    let libraries = std::fs::read_dir(folder).unwrap().flatten().filter(|file| {
        let name = file.file_name().into_string().unwrap_or_default();
        name.starts_with("libpytree_core-") && name.ends_with(".rlib")
    });
    let built = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).unwrap();
    let library = libraries.map(|file| file.path()).max_by_key(built).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let source = root.join(file!()).with_file_name("abort.rs");
    let program = folder.join(format!("pytree-abort-{}", std::process::id()));
    let mut compiler = Command::new("rustc");
    compiler.args(["--edition", "2024", "-C", "panic=abort", "-L"]);
    compiler.arg(format!("dependency={}", folder.display()));
    compiler.arg("--extern");
    compiler.arg(format!("pytree_core={}", library.display()));
    let compiled = compiler.arg(source).arg("-o").arg(&program).output();
    let compiled = compiled.unwrap();
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let output = Command::new(&program).output();
    std::fs::remove_file(program).unwrap();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.stdout, b"all errors were returned\n");
}

#[test]
fn panic_has_the_message_of_the_error() {
    let node = deep();
    assert_eq!(
        panics(|| nodes::copy(&node)),
        nodes::try_copy(&node).err().unwrap().to_string()
    );
    let model = (1.0_f32, 2_i32);
    assert_eq!(
        panics(|| edit::apply(model, |_: &mut String| ())),
        edit::try_apply(model, |_: &mut String| ())
            .unwrap_err()
            .to_string()
    );
    assert_eq!(
        panics(|| nodes::copy(&Wrong(1.0))),
        nodes::try_copy(&Wrong(1.0)).err().unwrap().to_string()
    );
    let layers = errors::doubles();
    assert_eq!(
        panics(|| graph::flatten::<f32, _>(&layers)),
        graph::try_flatten::<f32, _>(&layers)
            .unwrap_err()
            .to_string()
    );
}

#[test]
fn panic_of_users_code_is_not_an_error() {
    #[derive(Module, Clone, Debug)]
    struct Layer {
        #[param]
        weight: f32,
    }
    let layers = vec![Layer { weight: 1.0 }];
    let node = deep();
    let run = || {
        edit::try_apply(layers.clone(), |_: &mut f32| {
            drop(tree::leaves::<f32, _>(&node))
        })
    };
    assert!(panics(run).starts_with("typed values are nested deeper than 256 nodes"));
    let run = || {
        tree::map2(&layers, &layers, |_: &f32, _: &f32| {
            f32::from(tree::leaves::<f32, _>(&node).len() as u8)
        })
    };
    assert!(panics(run).starts_with("typed values are nested deeper than 256 nodes"));
}
