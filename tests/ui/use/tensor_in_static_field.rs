//! A static field has a type that is static: no array is assigned to it later.

use pytree::prelude::*;

#[derive(Module)]
struct Named {
    #[r#static]
    name: String,
}

fn main() {
    let mut named = Named {
        name: "mattjj".to_owned(),
    };
    named.name = Tensor::from(123);
}
