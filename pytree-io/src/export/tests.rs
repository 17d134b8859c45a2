use std::path::PathBuf;

use pytree_transform::{DType, Tensor, jit, jit_mut, make_jaxpr};

use super::{ExportError, Exported, load, save};
use pytree_nn::{Activation, Mlp, Rngs};

/// A file that is removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("pytree-export-{name}-{}.mlir", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    /// Loads a file with the given content.
    fn load(&self, content: impl AsRef<[u8]>) -> Result<Exported, ExportError> {
        std::fs::write(&self.0, content).unwrap();
        load(&self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn displayed(arrays: &[super::NamedArray]) -> Vec<String> {
    arrays.iter().map(ToString::to_string).collect()
}

#[test]
fn export_names_leaves_of_models() {
    let file = Scratch::new("names");
    let model = Mlp::new(&[2, 3, 1], Activation::Tanh, &mut Rngs::new(0));
    let forward = jit(|(model, x): (Mlp, Tensor)| model.forward(&x));
    let module = forward.stablehlo(&(model, Tensor::zeros(DType::F32, [4, 2])));
    save(&file.0, &module).unwrap();
    let exported = load(&file.0).unwrap();
    assert_eq!(
        displayed(exported.inputs()),
        [
            "[0].layers[0].weight: f32[2,3]",
            "[0].layers[0].bias: f32[3]",
            "[0].layers[1].weight: f32[3,1]",
            "[0].layers[1].bias: f32[1]",
            "[1]: f32[4,2]",
        ]
    );
    assert_eq!(displayed(exported.outputs()), ["value: f32[4,1]"]);
    assert_eq!(exported.version(), "1.9.0");
    assert_eq!(exported.text(), module.text_without_locations());
}

#[test]
fn export_names_written_arguments_and_jaxprs() {
    let file = Scratch::new("written");
    let add = jit_mut(|(sum, x): (&mut Tensor, Tensor)| {
        *sum = &*sum + &x;
        x * 2.0
    });
    let (mut sum, x) = (Tensor::from([1.0_f32, 2.0]), Tensor::from(3.0_f32));
    save(&file.0, &add.stablehlo((&mut sum, x.clone()))).unwrap();
    let exported = load(&file.0).unwrap();
    assert_eq!(displayed(exported.inputs()), ["[0]: f32[2]", "[1]: f32[]"]);
    assert_eq!(exported.outputs().len(), 2);
    let jaxpr = make_jaxpr(|x: Tensor| x.sin())(x);
    save(&file.0, &jaxpr.to_stablehlo()).unwrap();
    assert_eq!(displayed(load(&file.0).unwrap().inputs()), ["[0]: f32[]"]);
}

#[test]
fn export_holds_long_constants() {
    let file = Scratch::new("constants");
    let numbers = Tensor::arange(DType::F32, 1025);
    let flags = Tensor::from((0..1025).map(|number| number > 7).collect::<Vec<bool>>());
    let inner = {
        let numbers = numbers.clone();
        jit(move |x: Tensor| &numbers * x)
    };
    let f = jit(move |x: Tensor| (inner(x.clone()) + inner(x), flags.clone()));
    let module = f.stablehlo(&Tensor::from(1.0_f32));
    assert_eq!(module.constants().len(), 2);
    save(&file.0, &module).unwrap();
    let exported = load(&file.0).unwrap();
    assert_eq!(displayed(exported.inputs()), ["value: f32[]"]);
    let text = exported.text();
    let head = "@main(%0: tensor<f32>) -> (tensor<1025xf32>, tensor<1025xi1>) {\n    %";
    assert!(text.contains(head), "{}", &text[..300]);
    assert!(text.contains(r#" = "stablehlo.constant"() {value = dense<"0x000000000000803F"#));
    assert!(text.contains("dense<[false, false"));
    let complete = module.with_inlined_constants();
    let lines = complete.text();
    let add = lines.lines().find(|line| line.contains("stablehlo.add"));
    assert!(add.is_some_and(|line| line.contains(" loc(#line")));
}

#[test]
fn malformed_exports_are_errors() {
    let file = Scratch::new("malformed");
    let first = "// pytree-export 1\n";
    let good = r#"// {"stablehlo":"1.9.0","inputs":[{"name":"x","dtype":"f32","shape":[2]}],"outputs":[]}"#;
    let main = "\nmodule { func.func @main() }";
    assert!(file.load(format!("{first}{good}{main}")).is_ok());
    let cases: [(String, &str); 13] = [
        (
            String::new(),
            "line 1: expected `// pytree-export 1`, found ``; give",
        ),
        ("// pytree-export x\n".to_owned(), "line 1: expected"),
        (
            "// pytree-export 2\n".to_owned(),
            "up to version 1, found version 2; load it with a later",
        ),
        (
            first.to_owned(),
            "line 2: expected `// ` and a JSON object, found ``; the file",
        ),
        (
            format!("{first}// {{"),
            "line 2: expected `// ` and a JSON object, found `{`: EOF",
        ),
        (
            format!("{first}// []"),
            "line 2: expected `// ` and a JSON object, found `[]`",
        ),
        (
            format!("{first}// {{}}"),
            "line 2: expected a string as `stablehlo`, found no such field",
        ),
        (
            format!("{first}{good}"),
            "line 3: expected a module with the function `@main`, found the end",
        ),
        (format!("{first}{good}\nmodule {{}}"), "found `module {}`"),
        (
            format!("{first}{}{main}", good.replace("f32", "c64")),
            "f64 as `inputs[0].dtype`, found `c64`; convert",
        ),
        (
            format!("{first}{}{main}", good.replace("[2]", "[-2]")),
            "a list of lengths as `inputs[0].shape`, found `[-2]`",
        ),
        (
            format!("{first}{}{main}", good.replace("\"x\"", "7")),
            "a string as `inputs[0].name`, found `7`",
        ),
        (
            format!(
                "{first}{}{main}",
                good.replace("\"outputs\":[]", "\"outputs\":[3]")
            ),
            "an object as `outputs[0]`, found `3`",
        ),
    ];
    for (content, expected) in cases {
        let message = file.load(&content).unwrap_err().to_string();
        assert!(message.contains(expected), "{content}: {message}");
        assert!(message.contains(&file.0.display().to_string()));
    }
    let message = file
        .load(b"// pytree-export 1\n\xFF")
        .unwrap_err()
        .to_string();
    assert!(message.contains("line 2: expected text"), "{message}");
    drop(file);
    let message = load("/no/such/file.mlir").unwrap_err().to_string();
    assert!(message.starts_with("cannot read the exported program `/no/such/file.mlir`: "));
}
