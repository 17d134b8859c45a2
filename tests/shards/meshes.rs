//! A checkpoint that one mesh writes loads on other meshes and on the host, bit for bit.

use pytree::checkpoint::{LoadOptions, SaveOptions, WeightNames};
use pytree::device::{Device, Mesh, PartitionSpec, device_put};
use pytree::prelude::*;

use crate::shards::mesh::Held;
use crate::shards::{Scratch, assert_same_bits, divided, mesh, run, spec};

#[test]
fn square_mesh_loads_on_other_meshes_and_the_host() {
    let scratch = Scratch::new("meshes");
    let saved = run(0);
    let square = mesh([("data", 2), ("model", 2)]);
    checkpoint::save_sharded(&scratch, &divided(&saved, &square)).unwrap();
    let template = run(7);
    for axes in [[2, 2], [1, 4], [4, 1], [1, 1], [3, 2]] {
        let mesh = mesh([("data", axes[0]), ("model", axes[1])]);
        let template = divided(&template, &mesh);
        let loaded = checkpoint::load(&scratch, &template).unwrap();
        for (leaf, expected) in graph::leaves::<Tensor, _>(&loaded)
            .into_iter()
            .zip(graph::leaves::<Tensor, _>(&saved))
        {
            assert_eq!(leaf.device(), mesh.device());
            assert_eq!(leaf.sharding().unwrap().spec(), spec(expected, &mesh));
        }
        assert_same_bits(&loaded, &saved);
    }
    let loaded = checkpoint::load(&scratch, &template).unwrap();
    assert!(loaded.0.layers[0].weight.device().is_host());
    assert_same_bits(&loaded, &saved);
    // What the host has, and what other meshes have, loads on a square mesh.
    for other in [saved.clone(), divided(&saved, &mesh([("data", 4)]))] {
        checkpoint::save_sharded(&scratch, &other).unwrap();
        let loaded = checkpoint::load(&scratch, &divided(&template, &square)).unwrap();
        assert_same_bits(&loaded, &saved);
    }
}

/// A tensor of many blocks, whose rows and columns are divided in all ways.
#[test]
fn parts_of_many_blocks_are_assembled() {
    let scratch = Scratch::new("blocks");
    let x = Rngs::new(0).normal(DType::F32, [600, 360]);
    let specs: [PartitionSpec; 5] = [
        ().into(),
        "i".into(),
        (None, "i").into(),
        ("j", "i").into(),
        (None, ("i", "j")).into(),
    ];
    let axes = [[2, 3], [3, 2], [1, 6], [6, 1]].map(|[i, j]| mesh([("i", i), ("j", j)]));
    for (number, from) in specs.iter().enumerate() {
        let own = &axes[number % 4];
        let state = device_put(&x, own.divided(from));
        checkpoint::save_sharded(&scratch, &state).unwrap();
        for mesh in &axes {
            for to in &specs {
                let template = device_put(&x, mesh.divided(to));
                let template = template.try_refilled(|index| {
                    let lengths: Vec<usize> = index.iter().map(|range| range.len()).collect();
                    Ok::<_, pytree::TensorError>(Tensor::zeros(DType::F32, lengths))
                });
                let loaded = checkpoint::load(&scratch, &template.unwrap()).unwrap();
                assert_same_bits(&loaded, &x);
            }
        }
    }
}

/// Every part is written once: the files have as many numbers as the tensors.
#[test]
fn each_part_is_written_once() {
    let scratch = Scratch::new("once");
    let mesh = mesh([("data", 2), ("model", 3)]);
    let x = Rngs::new(0).normal(DType::F32, [12, 6]);
    let state = (
        device_put(&x, mesh.divided((None, "model"))),
        device_put(&x, mesh.divided(())),
        x.clone(),
        device_put(
            &Tensor::zeros(DType::F32, [0, 6]),
            mesh.divided(("data", "model")),
        ),
    );
    checkpoint::save_sharded(&scratch, &state).unwrap();
    let file = scratch
        .files()
        .into_iter()
        .find(|name| name.contains("of-00001"))
        .unwrap();
    let stored = checkpoint::tensors(scratch.0.join(file)).unwrap();
    let names: Vec<&str> = stored.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "[0][0:12,0:2]",
            "[0][0:12,2:4]",
            "[0][0:12,4:6]",
            "[1]",
            "[2]",
            "[3][0:0,0:2]",
            "[3][0:0,2:4]",
            "[3][0:0,4:6]"
        ]
    );
    assert_eq!(stored["[0][0:12,2:4]"], x.index(pytree::ix![.., 2..4]));
    assert_same_bits(
        &checkpoint::load(&scratch, &state).unwrap(),
        &(x.clone(), x.clone(), x, state.3.to_host()),
    );
}

/// Functions without a template read a folder like a file.
#[test]
fn folder_is_read_without_a_template() {
    let scratch = Scratch::new("inspect");
    let (model, ..) = run(0);
    let mesh = mesh([("data", 2), ("model", 2)]);
    let options = SaveOptions::new().metadata("steps", "3");
    checkpoint::save_sharded_with(&scratch, &divided(&model, &mesh), &options).unwrap();
    let entries = checkpoint::inspect(&scratch).unwrap();
    let weight = &entries[1];
    assert_eq!(
        (&*weight.name, &weight.shape[..]),
        ("layers[0].weight", &[8, 12][..])
    );
    assert_eq!(weight.kind.as_deref(), Some("Param"));
    assert_eq!(weight.axes.as_ref().unwrap(), &["in", "out"]);
    assert_eq!(checkpoint::metadata(&scratch).unwrap()["steps"], "3");
    // The path of the index is that of the checkpoint, too.
    let tensors = checkpoint::tensors(scratch.index()).unwrap();
    assert_same_bits(&tensors["layers[1].weight"], &model.layers[1].weight);
}

/// Differences are reported with the whole shapes, and options apply as for files.
#[test]
fn mismatches_and_options_are_those_of_files() {
    let scratch = Scratch::new("mismatches");
    let (model, ..) = run(0);
    let mesh = mesh([("data", 2), ("model", 2)]);
    checkpoint::save_sharded(&scratch, &divided(&model, &mesh)).unwrap();
    let other = Mlp::new(&[8, 16, 4], Activation::Tanh, &mut Rngs::new(1));
    let error = checkpoint::load(&scratch, &divided(&other, &mesh))
        .unwrap_err()
        .to_string();
    for part in [
        "model.safetensors.index.json`",
        "layers[0].weight is f32[8,12] in the file, expected [in out] = f32[8,16]: out is 12 in the file and 16 in the model",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let longer = Mlp::new(&[8, 12, 4, 4], Activation::Tanh, &mut Rngs::new(1));
    let options = LoadOptions::new().allow_missing();
    let (loaded, report) =
        checkpoint::load_with(&scratch, &divided(&longer, &mesh), &options).unwrap();
    assert_eq!(
        report.to_string().lines().next(),
        Some("4 applied, 2 missing, 0 unused:")
    );
    assert_same_bits(&loaded.layers[0].weight, &model.layers[0].weight);
    assert_same_bits(&loaded.layers[2].weight, &longer.layers[2].weight);
    assert_eq!(loaded.layers[2].weight.device(), mesh.device());
    // Floats are converted part by part.
    let half = graph::map(&divided(&model, &mesh), |x: &Tensor| {
        x.to_host().convert(DType::BF16).put_like(x)
    });
    let (loaded, report) =
        checkpoint::load_with(&scratch, &half, &LoadOptions::new().convert_floats()).unwrap();
    assert_eq!(report.converted.len(), 4);
    let expected = model.layers[0]
        .weight
        .convert(DType::BF16)
        .convert(DType::F32);
    assert_same_bits(
        &loaded.layers[0].weight.to_host().convert(DType::F32),
        &expected,
    );
}

/// Names without other layouts are written by shards. A transposed tensor is read as a whole, and then divided.
#[test]
fn names_of_other_libraries() {
    let scratch = Scratch::new("names");
    let (model, ..) = run(0);
    let mesh = mesh([("data", 2), ("model", 2)]);
    let on_mesh = divided(&model, &mesh);
    let dotted = SaveOptions::new().names(WeightNames::dotted());
    checkpoint::save_sharded_with(&scratch, &on_mesh, &dotted).unwrap();
    let options = LoadOptions::new().names(WeightNames::dotted());
    let (loaded, _) = checkpoint::load_with(&scratch, &on_mesh, &options).unwrap();
    assert_same_bits(&loaded, &model);
    let pytorch = SaveOptions::new().names(WeightNames::pytorch());
    let error = checkpoint::save_sharded_with(&scratch, &on_mesh, &pytorch);
    assert!(
        error
            .unwrap_err()
            .to_string()
            .starts_with("cannot save layers[0].weight by shards: ")
    );
    // Hugging Face has an index with whole tensors. Here PyTorch's layout, in two files.
    std::fs::remove_dir_all(&scratch).unwrap();
    std::fs::create_dir(&scratch).unwrap();
    for (number, layer) in model.layers.iter().enumerate() {
        let state = std::collections::BTreeMap::from([
            ("weight", layer.weight.transpose([1, 0])),
            ("bias", layer.bias.clone().unwrap()),
        ]);
        let file = scratch
            .0
            .join(format!("model-0000{}-of-00002.safetensors", number + 1));
        let names = WeightNames::dotted();
        let prefixed = state
            .into_iter()
            .map(|(name, tensor)| (format!("layers.{number}.{name}"), tensor));
        let state: std::collections::BTreeMap<String, Tensor> = prefixed.collect();
        checkpoint::save_with(file, &state, &SaveOptions::new().names(names)).unwrap();
    }
    let map: Vec<String> = (0..2)
        .flat_map(|number| {
            ["weight", "bias"].map(|name| {
                format!(
                    "\"layers.{number}.{name}\": \"model-0000{}-of-00002.safetensors\"",
                    number + 1
                )
            })
        })
        .collect();
    let text = format!(
        "{{\"metadata\": {{\"total_size\": 592}}, \"weight_map\": {{{}}}}}",
        map.join(", ")
    );
    std::fs::write(scratch.index(), text).unwrap();
    let options = LoadOptions::new().names(WeightNames::pytorch());
    let (loaded, report) = checkpoint::load_with(&scratch, &on_mesh, &options).unwrap();
    assert_eq!(report.transposed.len(), 2);
    assert_same_bits(&loaded, &model);
    assert_eq!(
        loaded.layers[0].weight.sharding(),
        on_mesh.layers[0].weight.sharding()
    );
}

/// A single file also loads to where the template has its tensors.
#[test]
fn single_file_loads_on_a_mesh() {
    let scratch = Scratch::new("single");
    std::fs::create_dir(&scratch).unwrap();
    let (model, ..) = run(0);
    let mesh = mesh([("data", 2), ("model", 2)]);
    let path = scratch.0.join("model.safetensors");
    checkpoint::save(&path, &divided(&model, &mesh)).unwrap();
    let loaded = checkpoint::load(&path, &divided(&run(1).0, &mesh)).unwrap();
    assert_eq!(
        loaded.layers[0].weight.sharding().unwrap().spec(),
        ("data", "model").into()
    );
    assert_same_bits(&device_put(&loaded, Device::HOST), &model);
}

/// The parts of this process may have gaps between them. Then its data is no block of the tensor.
#[test]
fn parts_with_gaps_are_made_one_by_one() {
    let own = Mesh::new(&Held(0..2), [("data", 2), ("model", 2)]);
    let x = Tensor::from([0.0_f32, 1.0, 2.0, 3.0]);
    let spec = PartitionSpec::from([["model", "data"]]);
    let error = own.try_tensor_from_process_data(&x, &spec).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot use f32[4] as the part of this process on mesh of arrays: the parts [0, 2] of this process on axis 0 along `model` × `data` have gaps; give the parts one by one, with `tensor_from_callback`"
    );
    let made = own.tensor_from_callback(x.info(), spec, |index| x.index([index[0].clone().into()]));
    let parts: Vec<f32> = made
        .shards()
        .iter()
        .map(|part| part.read().item())
        .collect();
    assert_eq!(parts, [0.0, 2.0]);
}
