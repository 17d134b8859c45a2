//! The program of `docs/devices.md` that needs a plugin: it compiles with the feature `pjrt`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/devices.md");

/// The program with all that the page leaves out. A test checks that it contains the page's lines.
#[cfg(feature = "pjrt")]
mod program {
    #![allow(dead_code, reason = "only a user with a plugin can run it")]

    use std::error::Error;

    use pytree::device::{device_put, with_device};
    use pytree::prelude::*;

    type State = (Mlp, Optimizer<Mlp>);

    fn train_step(
        (model, optimizer, x, _): (Mlp, Optimizer<Mlp>, Tensor, Tensor),
    ) -> (State, Tensor) {
        let loss = model.forward(&x).mean();
        ((model, optimizer), loss)
    }

    fn train(model: Mlp, _: (Tensor, Tensor)) -> Mlp {
        model
    }

    fn page(
        (model, optimizer): State,
        x: Tensor,
        y: Tensor,
        data: (Tensor, Tensor),
    ) -> Result<State, Box<dyn Error>> {
        let client = pytree::pjrt::Client::load(std::env::var("PYTREE_PJRT_PLUGIN")?)?;

        // One function runs on the device.
        let step = jit(train_step).on(&client);
        let ((model, optimizer), loss) = step((model, optimizer, x, y));
        println!("{}", loss.item::<f32>());

        // A whole program runs on the device.
        let model = with_device(&client, || train(model, data));

        // Some tensors are on the device, and what is computed from them is computed there.
        let model = device_put(&model, &client);
        Ok((model, optimizer))
    }
}

#[test]
fn program_with_a_plugin_is_the_compiled_one() {
    let page = fs::read_to_string(PAGE).unwrap();
    let (_, rest) = page.split_once("```rust,ignore\n").unwrap();
    let (program, rest) = rest.split_once("```\n").unwrap();
    assert!(
        !rest.contains("rust,ignore"),
        "another program is not compiled"
    );
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.trim().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    };
    let (program, compiled) = (lines(program), lines(include_str!("devices_page.rs")));
    assert!(program.len() > 5, "{program:?}");
    assert!(
        compiled.windows(program.len()).any(|part| part == program),
        "change the program in `tests/devices_page.rs`, too: {program:#?}"
    );
}
