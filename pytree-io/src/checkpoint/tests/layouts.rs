//! Tests of what files of other libraries leave open: layouts, sums, tied tensors, dtypes, epsilons.

use super::foreign::{counted, pytorch, stored};
use super::*;
use pytree_core::{Filter, Module, graph, partition};
use pytree_nn::{
    BatchNorm, Embed, LayerNorm, LstmCell, MissingGradients, NormOptions, PRelu, RmsNorm,
};
use pytree_transform::grad;

/// Writes a file as another library does: without metadata of this library. Each tensor has the numbers 0, 1, … as f32.
fn foreign(scratch: &Scratch, metadata: &str, tensors: &[(&str, &[usize])]) {
    let (mut entries, mut bytes) = (Vec::new(), Vec::new());
    for (name, shape) in tensors {
        let begin = bytes.len();
        for number in 0..shape.iter().product::<usize>() {
            bytes.extend((number as f32).to_le_bytes());
        }
        let end = bytes.len();
        entries.push(format!(
            r#""{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#
        ));
    }
    let header = format!("{{{metadata}{}}}", entries.join(","));
    let length = (header.len() as u64).to_le_bytes();
    fs::write(
        &scratch.0,
        [&length[..], header.as_bytes(), &bytes].concat(),
    )
    .unwrap();
}

/// The same name and fields as the layer of this library.
mod own {
    use super::*;

    #[derive(Module, Clone, Debug, PartialEq)]
    pub(super) struct Linear {
        #[param("T[in out]")]
        pub(super) weight: Tensor,
        #[param("T[out]")]
        pub(super) bias: Option<Tensor>,
    }
}

/// Two layers, of which only one tells the layout.
#[derive(Module, Clone, Debug)]
struct Pair {
    a: Linear,
    b: Linear,
}

#[test]
fn square_matrix_of_unknown_layout_is_refused() {
    let scratch = Scratch::new("square");
    let square = Linear::new(2, 2, &mut Rngs::new(0));
    let stored: [(&str, &[usize]); 2] = [("bias", &[2]), ("weight", &[2, 2])];
    let pt = r#""__metadata__":{"format":"pt"},"#;
    for (metadata, sign) in [
        ("", "the file does not say which library wrote it"),
        (pt, "the file has the metadata `format = pt`"),
    ] {
        foreign(&scratch, metadata, &stored);
        let text = load(&scratch.0, &square).unwrap_err().to_string();
        let expected = format!(
            "weight is f32[2,2] in the file, and {sign}, so it may be `[in, out]` or, as in PyTorch, `[out, in]`; load it with `LoadOptions::new().names(WeightNames::pytorch())`, or with `WeightNames::dotted()` if it is `[in, out]`"
        );
        assert!(text.ends_with(&expected), "{text}");
        let weight = |names| {
            let options = LoadOptions::new().names(names);
            let (loaded, _) = load_with(&scratch.0, &square, &options).unwrap();
            loaded.weight.to_vec::<f32>()
        };
        assert_eq!(weight(WeightNames::pytorch()), [0.0, 2.0, 1.0, 3.0]);
        assert_eq!(weight(WeightNames::dotted()), [0.0, 1.0, 2.0, 3.0]);
        // The type is of the user, who knows what its matrix is.
        let own = own::Linear {
            weight: Tensor::zeros(DType::F32, [2, 2]),
            bias: Some(Tensor::zeros(DType::F32, [2])),
        };
        assert_eq!(
            load(&scratch.0, &own).unwrap().weight.to_vec::<f32>(),
            [0.0, 1.0, 2.0, 3.0]
        );
    }
    // Another matrix of the file has the shape of this library, and not that of PyTorch.
    let pair = Pair {
        a: square.clone(),
        b: Linear::new(2, 3, &mut Rngs::new(1)),
    };
    let names = ["a.bias", "a.weight", "b.bias", "b.weight"];
    let shapes: [&[usize]; 4] = [&[2], &[2, 2], &[3], &[2, 3]];
    foreign(
        &scratch,
        "",
        &[0, 1, 2, 3].map(|at| (names[at], shapes[at])),
    );
    load(&scratch.0, &pair).unwrap();

    // This library notes what it wrote for others.
    let options = SaveOptions::new().names(WeightNames::pytorch());
    save_with(&scratch.0, &square, &options).unwrap();
    let text = load(&scratch.0, &square).unwrap_err().to_string();
    assert!(
        text.contains("and the file was saved with `WeightNames` in PyTorch's layout, so"),
        "{text}"
    );
    assert_eq!(
        load_with(&scratch.0, &square, &pytorch()).unwrap().0,
        square
    );
    save(&scratch.0, &square).unwrap();
    assert_eq!(load(&scratch.0, &square).unwrap(), square);
}

#[test]
fn struct_with_name_of_layer_is_no_layer() {
    let scratch = Scratch::new("own");
    let own = own::Linear {
        weight: counted(&[2, 3]),
        bias: Some(counted(&[3])),
    };
    let options = SaveOptions::new().names(WeightNames::pytorch());
    save_with(&scratch.0, &own, &options).unwrap();
    assert_eq!(inspect(&scratch.0).unwrap()[1].shape, [2, 3]);
    let (loaded, report) = load_with(&scratch.0, &own, &pytorch()).unwrap();
    assert_eq!((loaded, report.transposed.len()), (own, 0));
    // The layer of the library is recognised wherever it is.
    let layer = BTreeMap::from([("a", Linear::new(2, 3, &mut Rngs::new(0)))]);
    save_with(&scratch.0, &layer, &options).unwrap();
    assert_eq!(inspect(&scratch.0).unwrap()[1].shape, [3, 2]);
}

#[test]
fn biases_of_lstm_are_added_and_saved_as_one() {
    let scratch = Scratch::new("lstm");
    let cells = vec![LstmCell::new(2, 3, &mut Rngs::new(0))];
    let names = WeightNames::pytorch()
        .rename("lstm.weight_ih_l{k}", "[{k}].input")
        .rename("lstm.weight_hh_l{k}", "[{k}].recurrent")
        .sum(["lstm.bias_ih_l{k}", "lstm.bias_hh_l{k}"], "[{k}].bias");
    let shapes: [(&str, &[usize]); 4] = [
        ("lstm.bias_hh_l0", &[12]),
        ("lstm.bias_ih_l0", &[12]),
        ("lstm.weight_hh_l0", &[12, 3]),
        ("lstm.weight_ih_l0", &[12, 2]),
    ];
    foreign(&scratch, "", &shapes);
    let options = || LoadOptions::new().names(names.clone());
    let (loaded, report) = load_with(&scratch.0, &cells, &options()).unwrap();
    let doubled: Vec<f32> = (0_u8..12).map(|x| 2.0 * f32::from(x)).collect();
    assert_eq!(loaded[0].bias.to_vec::<f32>(), doubled);
    assert_eq!(loaded[0].input, counted(&[12, 2]).t());
    assert_eq!((report.applied.len(), report.unused.len()), (3, 0));
    // The names of `torch.nn.LSTMCell` need no rule.
    let options_of_cell = SaveOptions::new().names(WeightNames::pytorch());
    save_with(&scratch.0, &loaded[0], &options_of_cell).unwrap();
    let tensors = tensors(&scratch.0).unwrap();
    assert_eq!(tensors["bias_ih"], loaded[0].bias);
    assert_eq!(tensors["bias_hh"].to_vec::<f32>(), [0.0; 12]);
    assert_eq!(
        load_with(&scratch.0, &cells[0], &pytorch()).unwrap().0,
        loaded[0]
    );
    let sharded = scratch.0.with_extension("d");
    let error = save_sharded_with(sharded, &loaded[0], &options_of_cell).unwrap_err();
    assert!(matches!(error, CheckpointError::Layout { .. }), "{error}");
    // One bias is missing, or has another shape.
    foreign(&scratch, "", &shapes[1..]);
    let text = load_with(&scratch.0, &cells, &options().allow_missing())
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("[0].bias: expected f32[12], but the file has no `lstm.bias_hh_l0`"),
        "{text}"
    );
    let mut other = shapes;
    other[0].1 = &[6];
    foreign(&scratch, "", &other);
    let text = load_with(&scratch.0, &cells, &options())
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("[0].bias is f32[6] in the file as `lstm.bias_hh_l0`, expected"),
        "{text}"
    );
}

#[test]
fn slope_of_prelu_is_a_list_of_one() {
    let scratch = Scratch::new("prelu");
    foreign(&scratch, "", &[("0.weight", &[1])]);
    let model = vec![PRelu::new(0.25)];
    let (loaded, _) = load_with(&scratch.0, &model, &pytorch()).unwrap();
    assert_eq!(loaded, [PRelu::new(0.0)]);
    save_with(
        &scratch.0,
        &model,
        &SaveOptions::new().names(WeightNames::pytorch()),
    )
    .unwrap();
    assert_eq!(
        tensors(&scratch.0).unwrap()["0.weight"],
        Tensor::from([0.25_f32])
    );
    assert_eq!(load_with(&scratch.0, &loaded, &pytorch()).unwrap().0, model);
}

#[test]
fn tied_tensors_are_read_from_either() {
    let scratch = Scratch::new("tied");
    let tied = || {
        let names = WeightNames::pytorch()
            .rename("wte", "['tokens']")
            .rename("lm_head", "['head']")
            .tied("wte", "lm_head");
        LoadOptions::new().names(names)
    };
    let table = || Embed::new(3, 2, &mut Rngs::new(0));
    let one = BTreeMap::from([("tokens", table())]);
    let two = BTreeMap::from([("tokens", table()), ("head", table())]);
    let (wte, head): ((&str, &[usize]), _) =
        (("wte.weight", &[3, 2]), ("lm_head.weight", &[3, 2][..]));
    for stored in [&[wte][..], &[head], &[wte, head]] {
        foreign(&scratch, "", stored);
        let (loaded, report) = load_with(&scratch.0, &one, &tied()).unwrap();
        assert_eq!(loaded["tokens"].embedding, counted(&[3, 2]));
        let both = ["wte.weight".to_owned(), "lm_head.weight".to_owned()];
        assert_eq!(
            report.tied,
            if stored.len() == 2 {
                vec![both]
            } else {
                vec![]
            }
        );
        assert_eq!(report.unused.len(), 0);
        let (loaded, _) = load_with(&scratch.0, &two, &tied()).unwrap();
        for name in ["tokens", "head"] {
            assert_eq!(loaded[name].embedding, counted(&[3, 2]));
        }
    }
    for shape in [&[4, 2][..], &[2, 3]] {
        foreign(&scratch, "", &[wte, ("lm_head.weight", shape)]);
        let text = load_with(&scratch.0, &one, &tied())
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("`wte.weight` and `lm_head.weight` differ, although `WeightNames::tied`"),
            "{text}"
        );
    }
    let different = [
        ("lm_head.weight", counted(&[3, 2]) + 1.0),
        ("wte.weight", counted(&[3, 2])),
    ];
    stored(&scratch, &different);
    let text = load_with(&scratch.0, &one, &tied())
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("`wte.weight` and `lm_head.weight` differ"),
        "{text}"
    );
    // Also a table that the file has once is two leaves if two rules name it.
    let names = WeightNames::pytorch()
        .rename("wte", "['tokens']")
        .rename("wte", "['head']");
    foreign(&scratch, "", &[wte]);
    let (loaded, _) = load_with(&scratch.0, &two, &LoadOptions::new().names(names)).unwrap();
    assert_eq!(loaded["head"].embedding, counted(&[3, 2]));
}

#[test]
fn other_epsilons_are_reported() {
    let scratch = Scratch::new("epsilons");
    let rngs = &mut Rngs::new(0);
    let model = (
        LayerNorm::new(2, rngs),
        BatchNorm::new(2, rngs),
        vec![RmsNorm::new(2, rngs)],
    );
    let of = |names: WeightNames| {
        save_with(&scratch.0, &model, &SaveOptions::new().names(names.clone())).unwrap();
        let options = LoadOptions::new().names(names);
        load_with(&scratch.0, &model, &options).unwrap().1
    };
    let report = of(WeightNames::pytorch());
    let found: Vec<(&str, f64, f64)> = report
        .epsilons
        .iter()
        .map(|other| (&*other.name, other.found, other.default))
        .collect();
    // The defaults of `torch.nn.LayerNorm` and `torch.nn.RMSNorm`.
    assert_eq!(
        found,
        [
            ("[0].epsilon", 1e-6, 1e-5),
            ("[2][0].epsilon", 1e-6, f64::from(f32::EPSILON))
        ]
    );
    let text = report.to_string();
    assert!(
        text.contains(
            ":\n  [0].epsilon is 1e-6, and 1e-5 by default in the library that wrote the file\n"
        ),
        "{text}"
    );
    // An epsilon that is neither default was chosen for the model.
    let chosen = |rngs: &mut Rngs| {
        let norm = NormOptions {
            epsilon: Some(1e-12),
            ..NormOptions::default()
        };
        let norms = || vec![RmsNorm::with_options(2, norm, &mut Rngs::new(0))];
        (
            LayerNorm::with_options(2, norm, rngs),
            BatchNorm::new(2, rngs),
            norms(),
        )
    };
    let options = LoadOptions::new().names(WeightNames::pytorch());
    assert_eq!(
        load_as(&scratch.0, &options, chosen).unwrap().1.epsilons,
        []
    );
    assert_eq!(of(WeightNames::flax()).epsilons, []);
    assert_eq!(of(WeightNames::dotted()).epsilons, []);
}

#[test]
fn unknown_dtype_blocks_no_other_tensor() {
    let scratch = Scratch::new("dtypes");
    for (dtype, bytes) in [
        ("F8_E4M3", 2),
        ("U64", 16),
        ("F8_E5M2", 2),
        ("C64", 16),
        ("F4", 1),
    ] {
        let header = format!(
            r#"{{"a":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}},"b":{{"dtype":"{dtype}","shape":[2],"data_offsets":[4,{}]}}}}"#,
            4 + bytes
        );
        let length = (header.len() as u64).to_le_bytes();
        let numbers = vec![0; 4 + bytes];
        fs::write(
            &scratch.0,
            [&length[..], header.as_bytes(), &numbers].concat(),
        )
        .unwrap();
        let text = tensors(&scratch.0).unwrap_err().to_string();
        let lower = dtype.to_lowercase();
        assert!(
            text.contains(&format!(
                "no dtypes {lower} of `b`; read the other tensors with `tensors_where`"
            )),
            "{text}"
        );
        let known = tensors_where(&scratch.0, Entry::is_readable).unwrap();
        assert_eq!(
            known,
            BTreeMap::from([("a".to_owned(), Tensor::from([0.0_f32]))])
        );
        let all = inspect(&scratch.0).unwrap();
        assert_eq!((all.len(), &*all[1].dtype), (2, &*lower));
    }
}

/// A part of a model and the state of an optimizer are compared with their templates like a whole model.
#[test]
fn parts_of_another_width_or_dtype_are_refused() {
    let scratch = Scratch::new("parts");
    let part = |width: usize, dtype: DType| {
        let model = graph::map(&mlp(&[2, width, 1]), |leaf: &Tensor| leaf.convert(dtype));
        let state = Optimizer::new(&model, adam(0.1));
        let weights = partition::filter::<_, Tensor>(&model, &Filter::path_contains("weight"));
        (model, state, weights)
    };
    let (model, state, weights) = part(4, DType::F32);
    for (width, dtype) in [(8, DType::F32), (4, DType::BF16), (8, DType::BF16)] {
        let (other, other_state, other_weights) = part(width, dtype);
        save(&scratch.0, &other_weights).unwrap();
        let error = load(&scratch.0, &weights).unwrap_err();
        assert!(matches!(error, CheckpointError::Mismatch { .. }), "{error}");
        let converted = LoadOptions::new().convert_floats();
        assert_eq!(
            load_with(&scratch.0, &weights, &converted).is_ok(),
            width == 4
        );
        save(&scratch.0, &other_state).unwrap();
        if width != 4 {
            let error = load_with(&scratch.0, &state, &converted).err().unwrap();
            assert!(matches!(error, CheckpointError::Mismatch { .. }), "{error}");
            // A state of another width that came another way is refused by the update.
            let mut changed = model.clone();
            let gradient =
                grad(|model: &Mlp| model.layers[0].weight.sum() + model.layers[1].weight.sum())(
                    &other,
                );
            let mut other = other;
            let refused = state
                .clone()
                .with_missing_gradients(MissingGradients::Zero)
                .try_update(&mut other, &gradient);
            assert!(refused.is_err());
            let gradient =
                grad(|model: &Mlp| model.layers[0].weight.sum() + model.layers[1].weight.sum())(
                    &model,
                );
            let refused = other_state
                .with_missing_gradients(MissingGradients::Zero)
                .try_update(&mut changed, &gradient);
            assert!(refused.is_err());
            assert_eq!(changed, model);
        }
    }
}
