//! The programs of `docs/devices.md` that need a plugin or MPI: they compile with the features `pjrt` and `mpi`.

#![allow(
    clippy::unwrap_used,
    clippy::items_after_statements,
    clippy::type_complexity,
    reason = "a test fails by panicking, and programs are written as on the page"
)]

use std::fs;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/devices.md");

/// The programs with all that the page leaves out. A test checks that they contain the page's lines.
#[cfg(feature = "pjrt")]
mod programs {
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

    type Stepped = ((Mlp, Optimizer<Mlp>), Tensor);

    fn several_devices(
        plugin: &str,
        (model, optimizer): State,
        (x, y): (Tensor, Tensor),
    ) -> Result<Stepped, Box<dyn Error>> {
        use pytree::collectives::pmean;
        use pytree::device::Mesh;
        use pytree::pjrt::{Client, Options};
        use pytree::spmd;

        let client = Client::load_with(plugin, &Options::new().set("cpu_device_count", 4))?;
        let mesh = Mesh::new(&client, [("data", 4)]);

        let step = spmd(
            |(mut model, mut optimizer, x, y): (Mlp, Optimizer<Mlp>, Tensor, Tensor)| {
                let (loss, gradient) =
                    value_and_grad(|model: &Mlp| mse(&model.forward(&x), &y))(&model);
                let (loss, gradient) = pmean(&(loss, gradient), "data");
                optimizer.update(&mut model, &gradient);
                ((model, optimizer), loss)
            },
        );
        // Axis 0 of `x` and `y` is divided. The model and the optimizer are on all devices.
        let step = step.over(&mesh).in_axes("data", (None, None, 0, 0));
        let ((model, optimizer), loss) = step((model, optimizer, x, y));
        Ok(((model, optimizer), loss))
    }

    type Divided = (
        pytree::nn::TransformerBlock,
        Optimizer<pytree::nn::TransformerBlock>,
    );

    fn divided_model(
        client: &pytree::pjrt::Client,
        mut rngs: Rngs,
        step: fn(
            (
                pytree::nn::TransformerBlock,
                Optimizer<pytree::nn::TransformerBlock>,
                Tensor,
                Tensor,
            ),
        ) -> Divided,
        batches: Vec<(Tensor, Tensor)>,
    ) -> Divided {
        let client = client.clone();
        // The page begins here.
        use pytree::device::{Mesh, ShardingRules, device_put, visualize_sharding};
        use pytree::nn::TransformerBlock;

        let mesh = Mesh::new(&client, [("data", 2), ("model", 2)]);
        let rules = ShardingRules::new()
            .axis("heads", "model")
            .axis_where(Filter::path("mlp.layers[0]"), "out", "model")
            .axis_where(Filter::path("mlp.layers[1]"), "in", "model");

        let mut model = device_put(
            &TransformerBlock::causal(16, 4, &mut rngs),
            mesh.divided(rules),
        );
        let mut optimizer = Optimizer::new(&model, adam(1e-3)); // The moments are divided like the parameters.
        let step = jit(step).on(&mesh);
        for (x, y) in batches {
            let (x, y) = device_put(&(x, y), mesh.divided("data"));
            (model, optimizer) = step((model, optimizer, x, y));
        }
        println!("{}", visualize_sharding(&model.attention.query.weight));
        (model, optimizer)
    }
}

/// The program for processes, with all that the page leaves out.
#[cfg(feature = "mpi")]
mod processes {
    #![allow(
        dead_code,
        reason = "only programs that `mpiexec` starts use processes"
    )]

    use pytree::device::Mesh;
    use pytree::prelude::*;
    use pytree::spmd;

    fn program(
        step: fn((Tensor, Tensor, Tensor, Tensor)) -> Tensor,
    ) -> Result<Tensor, Box<dyn std::error::Error>> {
        use pytree::mpi::Processes;

        let processes = Processes::start()?;
        let mesh = Mesh::new(&processes, [("data", processes.size())]);
        let step = spmd(step).over(&mesh).in_axes("data", (None, None, 0, 0));
        let number = || Tensor::from([1.0]);
        Ok(step((number(), number(), number(), number())))
    }
}

#[test]
fn programs_with_devices_are_the_compiled_ones() {
    let page = fs::read_to_string(PAGE).unwrap();
    // The page breaks lines in other places than the formatter, which also adds a comma before a parenthesis.
    let joined = |text: &str| -> String {
        let joined: String = text.split_whitespace().collect();
        joined.replace(",)", ")")
    };
    let compiled = joined(include_str!("devices_page.rs"));
    let programs = page.split("```rust,ignore\n").skip(1);
    let programs = programs.map(|rest| rest.split_once("```").unwrap().0);
    let programs: Vec<&str> = programs.collect();
    assert_eq!(programs.len(), 4, "{programs:#?}");
    for program in programs {
        assert!(
            compiled.contains(&joined(program)),
            "change the program in `tests/devices_page.rs`, too:\n{program}"
        );
    }
}
