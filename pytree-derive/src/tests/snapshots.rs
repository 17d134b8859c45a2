//! Snapshot tests, which compare a few expansions with files. Set the environment variable `UPDATE_SNAPSHOTS` to
//! overwrite the files.

use std::path::Path;

use super::{derive, function_with_shapes};

fn check(name: &str, expanded: proc_macro2::TokenStream) {
    let file = syn::parse2(expanded).unwrap();
    let expanded = prettyplease::unparse(&file);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshots/{name}.rs"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &expanded).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expanded == expected.replace("\r\n", "\n"),
        "the expansion is not that of {}; look at the difference after `UPDATE_SNAPSHOTS=1 cargo test -p pytree-derive`:\n{expanded}",
        path.display()
    );
}

#[test]
fn a_struct_with_fields_of_every_kind() {
    let item = "struct Model {
        layers: Vec<Linear>,
        #[param] weight: Array2<f32>,
        #[state] steps: u32,
        #[state(BatchStat)] mean: Array1<f32>,
        #[r#static] size: usize,
        #[module(static)] name: String,
    }";
    check("struct", derive("Module", item));
}

#[test]
fn a_method_with_shapes() {
    let method = function_with_shapes(
        r#"x = "T[... in]", return = "T[... out]""#,
        "/// Applies the layer.
            pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> { Ok(x.clone()) }",
    );
    check("shapes", quote::quote!(impl Linear { #method }));
}
