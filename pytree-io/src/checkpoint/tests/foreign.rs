//! Tests of files with the names and layouts of other libraries.

use super::*;
use pytree_core::Module;
use pytree_nn::{
    BatchNorm, Conv, ConvTranspose, Embed, LearnedPositions, MultiHeadAttention, TransformerBlock,
};

/// Returns a tensor whose elements are their positions.
pub(super) fn counted(shape: &[usize]) -> Tensor {
    Tensor::arange(DType::F32, shape.iter().product::<usize>()).reshape(shape)
}

pub(super) fn stored(scratch: &Scratch, tensors: &[(&str, Tensor)]) {
    // The names of a file are the key paths of a `NamedFile`. A checkpoint of a map would have names in brackets.
    let entries = tensors
        .iter()
        .map(|(name, tensor)| ((*name).to_owned(), tensor.clone()));
    let map: BTreeMap<String, Tensor> = entries.collect();
    let options = SaveOptions::new().names(WeightNames::dotted());
    save_with(&scratch.0, &map, &options).unwrap();
    let names: Vec<String> = inspect(&scratch.0)
        .unwrap()
        .into_iter()
        .map(|e| e.name)
        .collect();
    let mut expected: Vec<&str> = tensors.iter().map(|(name, _)| *name).collect();
    expected.sort_unstable();
    assert_eq!(names, expected);
}

pub(super) fn pytorch() -> LoadOptions<'static> {
    LoadOptions::new().names(WeightNames::pytorch())
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Net {
    conv: Conv,
    bn: BatchNorm,
    up: ConvTranspose,
    table: Embed,
    places: LearnedPositions,
    fc: Linear,
}

fn net(seed: u64) -> Net {
    let rngs = &mut Rngs::new(seed);
    Net {
        conv: Conv::new(3, 4, [2, 5], rngs),
        bn: BatchNorm::new(4, rngs),
        up: ConvTranspose::new(4, 2, [3], rngs),
        table: Embed::new(6, 2, rngs),
        places: LearnedPositions::new(5, 2, rngs),
        fc: Linear::new(2, 3, rngs),
    }
}

#[test]
fn layers_have_names_and_layouts_of_pytorch() {
    let scratch = Scratch::new("pytorch");
    stored(
        &scratch,
        &[
            ("conv.weight", counted(&[4, 3, 2, 5])),
            ("conv.bias", counted(&[4])),
            ("bn.weight", counted(&[4])),
            ("bn.bias", counted(&[4])),
            ("bn.running_mean", counted(&[4])),
            ("bn.running_var", counted(&[4])),
            ("bn.num_batches_tracked", Tensor::from(7_i64)),
            ("up.weight", counted(&[4, 2, 3])),
            ("up.bias", counted(&[2])),
            ("table.weight", counted(&[6, 2])),
            ("places.weight", counted(&[5, 2])),
            ("fc.weight", counted(&[3, 2])),
            ("fc.bias", counted(&[3])),
        ],
    );
    let (loaded, report) = load_with(&scratch.0, &net(0), &pytorch()).unwrap();
    assert_eq!(
        report.to_string(),
        "12 applied, 0 missing, 0 unused, 3 transposed, 1 ignored"
    );
    assert_eq!(report.transposed, ["conv.weight", "up.weight", "fc.weight"]);
    assert_eq!(report.ignored, ["bn.num_batches_tracked"]);
    assert_eq!(loaded.fc.weight, counted(&[3, 2]).t());
    assert_eq!(
        loaded.conv.weight,
        counted(&[4, 3, 2, 5]).transpose([2, 3, 1, 0])
    );
    assert_eq!(loaded.bn.variance, counted(&[4]));
    assert_eq!(loaded.table.embedding, counted(&[6, 2]));
    // The element at [in, out, k] is at [2 - k, in, out].
    let up = loaded.up.weight.convert(DType::I32).to_vec::<i32>();
    for (input, output, k) in [(0, 0, 0), (1, 0, 2), (3, 1, 1)] {
        let expected = (input * 2 + output) * 3 + k;
        assert_eq!(
            up[((2 - k) * 4 + input) * 2 + output],
            i32::try_from(expected).unwrap()
        );
    }
}

#[test]
fn long_matrix_is_transposed_in_blocks() {
    let scratch = Scratch::new("long");
    // The rows are two whole blocks and a part of one.
    let weight = counted(&[37, 21]);
    let tensors = [("weight", weight.clone()), ("bias", counted(&[37]))];
    stored(&scratch, &tensors);
    let template = Linear::new(21, 37, &mut Rngs::new(0));
    let (loaded, _) = load_with(&scratch.0, &template, &pytorch()).unwrap();
    assert_eq!(loaded.weight, weight.t());
}

#[test]
fn saving_is_the_inverse_of_loading() {
    let scratch = Scratch::new("inverse");
    for names in [
        WeightNames::pytorch(),
        WeightNames::flax().separator("/"),
        WeightNames::dotted(),
    ] {
        let saved = net(1);
        save_with(&scratch.0, &saved, &SaveOptions::new().names(names.clone())).unwrap();
        let options = LoadOptions::new().names(names);
        let (loaded, report) = load_with(&scratch.0, &net(2), &options).unwrap();
        assert_eq!(loaded, saved);
        assert_eq!((report.applied.len(), report.unused.len()), (12, 0));
    }
    save_with(
        &scratch.0,
        &net(1),
        &SaveOptions::new().names(WeightNames::flax()),
    )
    .unwrap();
    let names: Vec<String> = inspect(&scratch.0)
        .unwrap()
        .into_iter()
        .map(|e| e.name)
        .collect();
    assert!(names.contains(&"conv.kernel".to_owned()) && names.contains(&"bn.var".to_owned()));
}

fn fused() -> WeightNames {
    let parts = ["query", "key", "value"].map(|part| format!("attention.{part}"));
    WeightNames::pytorch()
        .split("qkv", parts)
        .rename("proj", "attention.out")
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Attending {
    attention: MultiHeadAttention,
}

fn attending(seed: u64) -> Attending {
    Attending {
        attention: MultiHeadAttention::new(6, 3, &mut Rngs::new(seed)),
    }
}

#[test]
fn fused_projection_is_divided() {
    let scratch = Scratch::new("fused");
    let tensors = [
        ("qkv.weight", counted(&[18, 6])),
        ("qkv.bias", counted(&[18])),
        ("proj.weight", counted(&[6, 6])),
        ("proj.bias", counted(&[6])),
    ];
    stored(&scratch, &tensors);
    let options = || LoadOptions::new().names(fused());
    let (loaded, report) = load_with(&scratch.0, &attending(0), &options()).unwrap();
    assert_eq!(
        report.to_string(),
        "8 applied, 0 missing, 0 unused, 4 transposed"
    );
    let attention = &loaded.attention;
    let rows = counted(&[18, 6]);
    for (projection, start) in [
        (&attention.query, 0),
        (&attention.key, 6),
        (&attention.value, 12),
    ] {
        let part = rows.index(pytree_transform::ix![start..start + 6]);
        assert_eq!(projection.weight, part.t().reshape([6, 3, 2]));
        let bias = counted(&[18]).index(pytree_transform::ix![start..start + 6]);
        assert_eq!(projection.bias, Some(bias.reshape([3, 2])));
    }
    assert_eq!(
        attention.out.weight,
        counted(&[6, 6]).t().reshape([3, 2, 6])
    );

    // Saved again, the file has the same tensors.
    save_with(&scratch.0, &loaded, &SaveOptions::new().names(fused())).unwrap();
    let again = crate::checkpoint::tensors(&scratch.0).unwrap();
    for (name, tensor) in tensors {
        assert_eq!(again[name], tensor, "{name}");
    }

    // In the layout of Flax and GPT-2, the parts are columns.
    let columns = [
        ("qkv.weight", counted(&[6, 18])),
        ("qkv.bias", counted(&[18])),
        ("proj.weight", counted(&[6, 6])),
        ("proj.bias", counted(&[6])),
    ];
    stored(&scratch, &columns);
    let names = fused().layout("attention", WeightLayout::OutputsLast);
    let options = LoadOptions::new().names(names.clone());
    let (loaded, report) = load_with(&scratch.0, &attending(0), &options).unwrap();
    assert_eq!(report.transposed.len(), 0);
    let key = counted(&[6, 18]).index(pytree_transform::ix![.., 6..12]);
    assert_eq!(loaded.attention.key.weight, key.reshape([6, 3, 2]));
    save_with(&scratch.0, &loaded, &SaveOptions::new().names(names)).unwrap();
    assert_eq!(
        crate::checkpoint::tensors(&scratch.0).unwrap()["qkv.weight"],
        counted(&[6, 18])
    );
}

#[test]
fn parts_that_cannot_be_joined_are_refused() {
    let scratch = Scratch::new("parts");
    let parts = ["query", "key"].map(|part| format!("attention.{part}"));
    let names = WeightNames::pytorch().split("qk", parts);
    let mut model = attending(0);
    model.attention.key.bias = None;
    let error = save_with(&scratch.0, &model, &SaveOptions::new().names(names)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot save attention.query.bias: the file has it as a part of `qk.bias`, but the parts [\"attention.query.bias\"] cannot be joined; \
         name all parts of `qk.bias` in `WeightNames::split`, with dtypes and shapes that fit each other"
    );
    assert!(!scratch.0.exists());
}

#[test]
fn floats_are_converted_only_if_allowed() {
    let scratch = Scratch::new("convert");
    let weight = Tensor::from([[1.5_f32, -0.25]]);
    for narrow in [DType::BF16, DType::F16, DType::F64] {
        stored(
            &scratch,
            &[
                ("weight", weight.convert(narrow)),
                ("bias", Tensor::from([0.5_f32])),
            ],
        );
        let template = Linear::new(2, 1, &mut Rngs::new(0));
        let error = load_with(&scratch.0, &template, &pytorch())
            .unwrap_err()
            .to_string();
        let expected = format!(
            "\n  weight is {narrow}[1,2] in the file, expected [in out] = f32[2,1], which in PyTorch's layout is f32[1,2]; \
             convert it with `LoadOptions::convert_floats`\n"
        );
        assert!(error.contains(&expected), "{error}");
        let (loaded, report) =
            load_with(&scratch.0, &template, &pytorch().convert_floats()).unwrap();
        assert_eq!(loaded.weight, weight.t());
        assert_eq!(
            report.to_string(),
            "2 applied, 0 missing, 0 unused, 1 converted, 1 transposed"
        );
        let converted = Converted {
            name: "weight".to_owned(),
            from: narrow.to_string(),
            to: pytree_core::ElementType::F32,
        };
        assert_eq!(report.converted, [converted]);
    }
    stored(
        &scratch,
        &[
            ("weight", Tensor::from([[1_i32, 2]])),
            ("bias", Tensor::from([0.5_f32])),
        ],
    );
    let template = Linear::new(2, 1, &mut Rngs::new(0));
    let error = load_with(&scratch.0, &template, &pytorch().convert_floats()).unwrap_err();
    assert!(
        error.to_string().contains("weight is i32[1,2] in the file"),
        "{error}"
    );
    // A narrower float is rounded once, to nearest.
    let numbers = Tensor::from([[
        1.0_f64 + 2.0_f64.powi(-8),
        1.0 + 2.0_f64.powi(-8) + 2.0_f64.powi(-40),
    ]]);
    stored(
        &scratch,
        &[("weight", numbers), ("bias", Tensor::from([0.5_f32]))],
    );
    let template = pytree_nn::convert_floats(&template, DType::BF16);
    let (loaded, _) = load_with(&scratch.0, &template, &pytorch().convert_floats()).unwrap();
    assert_eq!(
        loaded.weight.convert(DType::F32).to_vec::<f32>(),
        [1.0, 1.007_812_5]
    );
}

#[test]
fn every_difference_from_a_foreign_file_is_listed() {
    let scratch = Scratch::new("differences");
    stored(
        &scratch,
        &[
            ("h.0.attn.c_attn.weight", counted(&[4, 12])),
            ("h.0.attn.c_attn.bias", counted(&[13])),
            ("h.0.attn.c_proj.weight", counted(&[4, 4])),
            ("h.0.attn.c_proj.bais", counted(&[4])),
            ("h.0.mlp.c_fc.weight", counted(&[16, 4])),
            ("h.0.mlp.c_fc.bias", counted(&[16]).convert(DType::BF16)),
            ("h.0.mlp.c_proj.weight", counted(&[16, 5])),
            ("h.0.attn.mask", counted(&[2])),
        ],
    );
    let names = WeightNames::pytorch()
        .split(
            "h.{i}.attn.c_attn",
            ["query", "key", "value"].map(|part| format!("[{{i}}].attention.{part}")),
        )
        .rename("h.{i}.attn.c_proj", "[{i}].attention.out")
        .rename("h.{i}.mlp.c_fc", "[{i}].mlp.layers[0]")
        .rename("h.{i}.mlp.c_proj", "[{i}].mlp.layers[1]")
        .layout("[{i}]", WeightLayout::OutputsLast)
        .ignore("h.{i}.attn.mask");
    let template = vec![TransformerBlock::new(4, 2, &mut Rngs::new(0))];
    let before = format!("{template:?}");
    let options = LoadOptions::new().names(names).allow_missing();
    let error = load_with(&scratch.0, &template, &options).unwrap_err();
    assert_eq!(format!("{template:?}"), before);
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "  [0].attention_norm.scale: expected f32[4], but the file has no `0.attention_norm.weight`",
            "  [0].attention_norm.bias: expected f32[4], but the file has no `0.attention_norm.bias`",
            "  [0].attention.out.bias: expected f32[4], but the file has no `h.0.attn.c_proj.bias`; did you mean h.0.attn.c_proj.bais?",
            "  [0].mlp_norm.scale: expected f32[4], but the file has no `0.mlp_norm.weight`",
            "  [0].mlp_norm.bias: expected f32[4], but the file has no `0.mlp_norm.bias`",
            "  [0].mlp.layers[1].bias: expected f32[4], but the file has no `h.0.mlp.c_proj.bias`; did you mean h.0.attn.c_proj.bais?",
            "  h.0.attn.c_proj.bais: found f32[4], but the template has no leaf with this name; did you mean h.0.attn.c_proj.bias?",
            "  [0].attention.query.bias is f32[13] in the file as `h.0.attn.c_attn.bias`, expected [heads head_dim] = f32[2,2], which in PyTorch's layout is f32[12]",
            "  [0].attention.key.bias is f32[13] in the file as `h.0.attn.c_attn.bias`, expected [heads head_dim] = f32[2,2], which in PyTorch's layout is f32[12]",
            "  [0].attention.value.bias is f32[13] in the file as `h.0.attn.c_attn.bias`, expected [heads head_dim] = f32[2,2], which in PyTorch's layout is f32[12]",
            "  [0].mlp.layers[0].weight is f32[16,4] in the file as `h.0.mlp.c_fc.weight`, expected [in out] = f32[4,16]: in is 16 in the file and 4 in the model, out is 4 in the file and 16 in the model; \
               its transpose has this shape: load it with the names and layouts of its library, by `LoadOptions::names`, or set its layout with `WeightNames::layout`",
            "  [0].mlp.layers[0].bias is bf16[16] in the file as `h.0.mlp.c_fc.bias`, expected [out] = f32[16]; convert it with `LoadOptions::convert_floats`",
            "  [0].mlp.layers[1].weight is f32[16,5] in the file as `h.0.mlp.c_proj.weight`, expected [in out] = f32[16,4]: out is 5 in the file and 4 in the model",
            "load it into a model with the saved structure, rename leaves with `LoadOptions::rename_with`, keep the template's values of missing leaves with `allow_missing()`, ignore unused leaves of the file with `allow_unused()`, or single leaves with `WeightNames::ignore`, name the library that wrote the file with `LoadOptions::names`, or list the leaves of the file with `inspect`",
        ]
    );
}

#[test]
fn prefix_of_a_foreign_file_is_recognised() {
    let scratch = Scratch::new("foreign-prefix");
    let saved = net(1);
    let wrapped = BTreeMap::from([("module", saved.clone())]);
    save_with(
        &scratch.0,
        &wrapped,
        &SaveOptions::new().names(WeightNames::pytorch()),
    )
    .unwrap();
    let error = load_with(&scratch.0, &net(2), &pytorch())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("all 12 names that only the file has begin with `module.`, but the names in the template do not: load the checkpoint by `load_with` with `LoadOptions::new().rename_with(|name| name.strip_prefix(\"module.\").unwrap_or(name).to_owned())`"),
        "{error}"
    );
    let options = pytorch().rename_with(|name| name.replacen("module.", "", 1));
    assert_eq!(load_with(&scratch.0, &net(2), &options).unwrap().0, saved);
}

#[test]
#[should_panic(
    expected = "cannot rename weights: `h.{i}` and `blocks` have different placeholders: use each of them in both"
)]
fn different_placeholders_are_refused() {
    let _ = WeightNames::pytorch().rename("h.{i}", "blocks");
}

#[test]
#[should_panic(
    expected = "`b[{i+1}]` computes a number in a placeholder, which only the name in the file may do: change `h.{i}` instead"
)]
fn computed_name_in_the_model_is_refused() {
    let _ = WeightNames::pytorch().rename("h.{i}", "b[{i+1}]");
}

#[test]
fn tensors_without_template_are_nested() {
    let scratch = Scratch::new("nested");
    stored(
        &scratch,
        &[
            ("a.b", counted(&[2])),
            ("a-x", counted(&[1])),
            ("a.c.d", counted(&[3])),
            ("e", counted(&[4])),
        ],
    );
    let tree = nested_tensors(&scratch.0, ".").unwrap();
    let shapes = tree.map(Tensor::len);
    assert_eq!(
        shapes.to_string(),
        "{'a': {'b': 2, 'c': {'d': 3}}, 'a-x': 1, 'e': 4}"
    );
    stored(
        &scratch,
        &[
            ("a", counted(&[2])),
            ("a-x", counted(&[1])),
            ("a.b.c", counted(&[3])),
        ],
    );
    let error = nested_tensors(&scratch.0, ".").unwrap_err().to_string();
    assert!(
        error.contains("`a` is a tensor, and `a.b.c` is below it"),
        "{error}"
    );
}

#[test]
fn metadata_of_the_user_is_kept() {
    let scratch = Scratch::new("user-metadata");
    let model = mlp(&[2, 3]);
    let options = SaveOptions::new()
        .metadata("author", "\"A\"\n\u{1}é")
        .metadata("format", "pt");
    save_with(&scratch.0, &model, &options).unwrap();
    let found = metadata(&scratch.0).unwrap();
    let expected = BTreeMap::from([("author", "\"A\"\n\u{1}é"), ("format", "pt")]);
    assert!(
        found
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .eq(expected)
    );
    assert_eq!(load(&scratch.0, &model).unwrap(), model);
    let error = save_with(
        &scratch.0,
        &model,
        &SaveOptions::new().metadata("pytree.x", ""),
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`pytree.x`: keys that begin with `pytree.`"),
        "{error}"
    );
    assert_eq!(load(&scratch.0, &model).unwrap(), model);
}

#[test]
fn rules_that_match_nothing_are_listed() {
    let scratch = Scratch::new("rules");
    stored(
        &scratch,
        &[("fc.weight", counted(&[3, 2])), ("fc.bias", counted(&[3]))],
    );
    let template = BTreeMap::from([("head", Linear::new(2, 3, &mut Rngs::new(0)))]);
    // The arguments are in the wrong order.
    let swapped = WeightNames::pytorch().rename("['head']", "fc");
    let error = load_with(&scratch.0, &template, &LoadOptions::new().names(swapped)).unwrap_err();
    let expected = "\n  the template has no leaf at `fc`, to which `WeightNames` give the path `['head']` in the file\n";
    assert!(error.to_string().contains(expected), "{error}");
    let names = WeightNames::pytorch()
        .rename("fc", "['head']")
        .split("qkv.{i}", ["q[{i}]", "k[{i}]"]);
    let options = LoadOptions::new().names(names);
    let (_, report) = load_with(&scratch.0, &template, &options).unwrap();
    assert_eq!(
        report.to_string(),
        "2 applied, 0 missing, 0 unused, 1 transposed:\n  \
         the template has no leaf at `q[{i}]`, `k[{i}]`, to which `WeightNames` give the path `qkv.{i}` in the file"
    );
}

#[test]
fn file_of_pytorch_is_recognised() {
    let scratch = Scratch::new("recognised");
    let template = Linear::new(2, 3, &mut Rngs::new(0));
    let refused = |options: &LoadOptions<'_>| {
        load_with(&scratch.0, &template, options)
            .unwrap_err()
            .to_string()
    };
    let hint = |sign: &str| {
        format!(
            ":\n  the file has {sign}, as files of PyTorch have: load it with `LoadOptions::new().names(WeightNames::pytorch())`\n"
        )
    };
    // Without metadata, as `safetensors.torch.save_file` writes it by default.
    let foreign = |name: &str| {
        let header = format!(r#"{{"{name}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}}"#);
        let length = u64::try_from(header.len()).unwrap().to_le_bytes();
        let bytes = [&length[..], header.as_bytes(), &[0; 4]].concat();
        fs::write(&scratch.0, bytes).unwrap();
    };
    foreign("bn1.running_mean");
    let text = refused(&LoadOptions::new());
    assert!(
        text.contains(&hint("the tensor `bn1.running_mean`")),
        "{text}"
    );
    assert!(!refused(&pytorch()).contains("as files of PyTorch have"));
    foreign("features.0.weight");
    let text = refused(&LoadOptions::new());
    assert!(
        text.contains(&hint("the tensor `features.0.weight`")),
        "{text}"
    );
    for name in ["a.weight", "layers.0.kernel"] {
        foreign(name);
        assert!(!refused(&LoadOptions::new()).contains("as files of PyTorch have"));
    }
    let dotted = SaveOptions::new().names(WeightNames::dotted());
    save_with(&scratch.0, &mlp(&[2, 3]), &dotted).unwrap();
    assert!(!refused(&LoadOptions::new()).contains("as files of PyTorch have"));
    // A field of a model may have such a name.
    stored(&scratch, &[("bn1.running_mean", Tensor::from([1.0_f32]))]);
    assert!(!refused(&LoadOptions::new()).contains("as files of PyTorch have"));
    let model = BTreeMap::from([("fc", template.clone())]);
    let options = SaveOptions::new()
        .names(WeightNames::pytorch())
        .metadata("format", "pt");
    save_with(&scratch.0, &model, &options).unwrap();
    let text = refused(&LoadOptions::new());
    assert!(
        text.contains("the file has the metadata `format = pt`, as files of PyTorch have"),
        "{text}"
    );
}
