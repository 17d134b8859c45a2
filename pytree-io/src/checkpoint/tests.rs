//! Tests of round trips, mismatches, and files that are not checkpoints.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod damage;
mod folders;
mod foreign;
mod layouts;
mod names;

use super::*;
use pytree_core::PytreeOf;
use pytree_core::{Ref, Shared};
use pytree_nn::{Activation, Linear, Mlp, Optimizer, Rngs, Schedule, adam};
use pytree_transform::Tensor;
use pytree_transform::jit;
use pytree_transform::{DType, bf16, f16};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// A file that is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let unique = format!("pytree-io-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(unique).join("inside");
        fs::create_dir_all(&directory).unwrap();
        Self(directory.join("state.safetensors"))
    }
}
impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0.ancestors().nth(2).unwrap());
    }
}

fn mlp(widths: &[usize]) -> Mlp {
    Mlp::new(widths, Activation::Relu, &mut Rngs::new(0))
}

#[test]
fn name_of_metadata_is_refused_with_reason() {
    #[derive(pytree_core::Module, Clone, Debug)]
    struct Odd {
        #[param]
        __metadata__: Tensor,
    }
    let scratch = Scratch::new("reserved");
    let odd = Odd {
        __metadata__: Tensor::from([1.0_f32]),
    };
    let map = BTreeMap::from([("__metadata__", Tensor::from(1.0_f32))]);
    let dotted = SaveOptions::new().names(WeightNames::dotted());
    for error in [
        save(&scratch.0, &odd),
        save_sharded(scratch.0.with_extension("d"), &odd),
        save_with(&scratch.0, &map, &dotted),
        save_sharded_with(scratch.0.with_extension("d"), &map, &dotted),
    ] {
        let text = error.unwrap_err().to_string();
        assert!(text.starts_with("cannot save "), "{text}");
        assert!(text.contains("have their metadata under the name `__metadata__`, so no tensor can have it; rename"), "{text}");
    }
    // Beside others, the name is a key like any other.
    save(&scratch.0, &map).unwrap();
    assert_eq!(load(&scratch.0, &map).unwrap(), map);
}

/// Opening a pipe waits for a writer, so a thread with a limit of time calls each function that reads a file.
#[test]
#[cfg(unix)]
fn pipes_are_refused_and_never_waited_for() {
    use crate::data::{csv, idx, npy};
    use crate::training::MetricsLog;
    use std::sync::mpsc::channel;
    use std::time::Duration;
    let scratch = Scratch::new("pipes");
    let folder = scratch.0.parent().unwrap().join("folder");
    let index = folder.join("model.safetensors.index.json");
    fs::create_dir(&folder).unwrap();
    for pipe in [&scratch.0, &index] {
        let made = std::process::Command::new("mkfifo").arg(pipe).status();
        assert!(made.unwrap().success());
    }
    let (sender, receiver) = channel();
    let pipe = scratch.0.clone();
    std::thread::spawn(move || {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let model = Linear::new(2, 3, &mut Rngs::new(0));
        let calls: [&dyn Fn() -> String; 11] = [
            &|| text(&load(&pipe, &model).unwrap_err()),
            &|| text(&load(&folder, &model).unwrap_err()),
            &|| text(&inspect(&index).unwrap_err()),
            &|| text(&metadata(&pipe).unwrap_err()),
            &|| text(&save(&pipe, &model).unwrap_err()),
            &|| text(&npy::load(&pipe).unwrap_err()),
            &|| text(&idx::load(&pipe).unwrap_err()),
            &|| text(&csv::load::<f32>(&pipe).unwrap_err()),
            &|| text(&crate::export::load(&pipe).unwrap_err()),
            &|| text(&MetricsLog::read(&pipe).unwrap_err()),
            &|| text(&MetricsLog::create(&pipe).unwrap_err()),
        ];
        for call in calls {
            sender.send(call()).unwrap();
        }
    });
    for call in 0..11 {
        let text = receiver.recv_timeout(Duration::from_secs(20));
        let text = text.unwrap_or_else(|_| panic!("call {call} waits for a writer, or has failed"));
        assert!(
            text.contains("does not name a regular file, but a pipe"),
            "{text}"
        );
    }
}

#[test]
fn every_dtype_survives_a_round_trip() {
    let scratch = Scratch::new("types");
    let state = vec![
        Tensor::from([true, false]),
        Tensor::from([i32::MIN, -1, 7]),
        Tensor::from([[i64::MAX]]),
        Tensor::from([u32::MAX, 0]),
        Tensor::from([f32::from_bits(0x7FC0_1234), -0.0, f32::INFINITY, 1e-45]),
        Tensor::from([f64::from_bits(0x7FF8_0000_0000_1234), -0.0]),
        Tensor::from(1.5_f32),
        Tensor::zeros(DType::F32, [0, 3]),
        Tensor::from([i8::MIN, 7]),
        Tensor::from([i16::MIN, 7]),
        Tensor::from([u8::MAX, 7]),
        Tensor::from([u16::MAX, 7]),
        Tensor::from([bf16::MIN_POSITIVE_SUBNORMAL, bf16::NEG_INFINITY]),
        Tensor::from([[f16::MIN_POSITIVE_SUBNORMAL], [f16::NEG_ZERO]]),
    ];
    save(&scratch.0, &state).unwrap();
    let found = load(
        &scratch.0,
        &state.iter().map(Tensor::zeros_like).collect::<Vec<_>>(),
    )
    .unwrap();
    assert_eq!(found[..4], state[..4]);
    assert_eq!(found[6..], state[6..]);
    let bits = |tensor: &Tensor| {
        tensor
            .to_vec::<f32>()
            .iter()
            .map(|x| x.to_bits())
            .collect::<Vec<_>>()
    };
    assert_eq!(bits(&found[4]), bits(&state[4]));
    let bits = |tensor: &Tensor| {
        tensor
            .to_vec::<f64>()
            .iter()
            .map(|x| x.to_bits())
            .collect::<Vec<_>>()
    };
    assert_eq!(bits(&found[5]), bits(&state[5]));
}

#[test]
fn checkpoint_holds_model_optimizer_and_rngs() {
    let scratch = Scratch::new("whole");
    let model = mlp(&[2, 3, 1]);
    let optimizer = Optimizer::new(&model, adam(1e-3));
    let mut rngs = Rngs::with([("params", 1)]);
    let _ = rngs.params();
    let state = (model, optimizer, rngs);
    save(&scratch.0, &state).unwrap();
    let (model, optimizer, rngs) = load(&scratch.0, &state).unwrap();
    assert_eq!(model, state.0);
    assert_eq!(format!("{optimizer:?}"), format!("{:?}", state.1));
    assert_eq!(rngs, state.2);
    let names: Vec<String> = inspect(&scratch.0)
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    for name in [
        "[0].layers[0].weight",
        "[1].step",
        "[1].transformation.steps[0].mean.layers[1].bias",
        "[2].streams['params'].count",
    ] {
        assert!(
            names.iter().any(|found| found == name),
            "{name} is not in {names:?}"
        );
    }
}

#[test]
fn kinds_are_kept_for_inspection() {
    let scratch = Scratch::new("kinds");
    save(
        &scratch.0,
        &(mlp(&[2, 1]), Rngs::new(0), Tensor::from(1.0_f32)),
    )
    .unwrap();
    let entries = inspect(&scratch.0).unwrap();
    let kinds: Vec<_> = entries
        .iter()
        .map(|entry| (entry.name.as_str(), entry.kind.as_deref()))
        .collect();
    assert_eq!(
        kinds,
        [
            ("[0].layers[0].bias", Some("Param")),
            ("[0].layers[0].weight", Some("Param")),
            ("[1].streams['default'].count", Some("RngState")),
            ("[1].streams['default'].key", Some("RngState")),
            ("[2]", None),
        ]
    );
    assert_eq!(entries[3].dtype, "u32");
    assert_eq!(entries[3].shape, [2]);
}

#[test]
fn shared_leaf_is_stored_once() {
    let scratch = Scratch::new("shared");
    let shared = Shared::new(Linear::new(2, 2, &mut Rngs::new(0)));
    let tied = (shared.clone(), shared);
    save(&scratch.0, &tied).unwrap();
    assert_eq!(inspect(&scratch.0).unwrap().len(), 2);
    let (first, second) = load(&scratch.0, &tied).unwrap();
    assert!(first.same(&second));
    assert_eq!(*first, *tied.0);
}

#[test]
fn all_mismatches_are_reported_at_once() {
    let scratch = Scratch::new("mismatch");
    let (a, b) = (Tensor::from([1.0_f32]), Tensor::from([[1.0_f32, 2.0]]));
    let named = |entries: &[(&str, &Tensor)]| {
        entries
            .iter()
            .map(|(name, tensor)| ((*name).to_owned(), (*tensor).clone()))
            .collect::<BTreeMap<_, _>>()
    };
    save(
        &scratch.0,
        &named(&[("weight", &a), ("wieght2", &a), ("shape", &a), ("type", &a)]),
    )
    .unwrap();
    let template = named(&[
        ("weight", &a),
        ("weight2", &b),
        ("shape", &b),
        ("type", &a.convert(DType::F64)),
    ]);
    let error = load(&scratch.0, &template).unwrap_err();
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "  ['weight2']: expected f32[1,2], but the file has no leaf with this name; did you mean ['wieght2']?",
            "  ['wieght2']: found f32[1], but the template has no leaf with this name; did you mean ['weight2']?",
            "  ['shape'] is f32[1] in the file, expected f32[1,2]",
            "  ['type'] is f32[1] in the file, expected f64[1]; convert it with `LoadOptions::convert_floats`",
            "load it into a model with the saved structure, rename leaves with `LoadOptions::rename_with`, keep the template's values of missing leaves with `allow_missing()`, ignore unused leaves of the file with `allow_unused()`, or single leaves with `WeightNames::ignore`, name the library that wrote the file with `LoadOptions::names`, or list the leaves of the file with `inspect`",
        ]
    );
    assert!(text.starts_with("cannot load the checkpoint"), "{text}");
}

#[test]
fn other_kind_of_schedule_is_named() {
    let scratch = Scratch::new("schedule");
    let model = mlp(&[2, 1]);
    let saved = Optimizer::new(&model, adam(1e-3));
    save(&scratch.0, &saved).unwrap();
    let template = Optimizer::new(&model, adam(Schedule::linear(1e-3, 0.0, 10)));
    let error = load(&scratch.0, &template).unwrap_err().to_string();
    assert!(
        error.contains("the file has another kind of schedule at `"),
        "{error}"
    );
    assert!(
        error.contains("make the optimizer with the kind that was saved"),
        "{error}"
    );
    let wider = Optimizer::new(&mlp(&[3, 1]), adam(1e-3));
    let error = load(&scratch.0, &wider).unwrap_err().to_string();
    assert!(!error.contains("kind of schedule"), "{error}");
}

#[test]
fn renamed_part_is_loaded_with_report() {
    let scratch = Scratch::new("rename");
    let trained = mlp(&[2, 3, 1]);
    save(&scratch.0, &BTreeMap::from([("old", trained.clone())])).unwrap();
    let fresh = Mlp::new(&[2, 3, 1], Activation::Relu, &mut Rngs::new(9));
    let unwrapped = || LoadOptions::new().rename_with(|name| name.replacen("['old'].", "", 1));
    let (loaded, report) = load_with(&scratch.0, &fresh, &unwrapped()).unwrap();
    assert_eq!(loaded, trained);
    assert_eq!(
        report.to_string(),
        "4 applied, 0 missing, 0 unused",
        "{report:?}"
    );

    // Only the first layer of the file fits the template. The second layer is renamed, so its leaves are unused.
    let first_only = || {
        unwrapped().rename_with(|name| match name.strip_prefix("layers[1]") {
            Some(rest) => format!("removed{rest}"),
            None => name.to_owned(),
        })
    };
    let deeper = Mlp::new(&[2, 3, 5], Activation::Relu, &mut Rngs::new(9));
    let error = load_with(&scratch.0, &deeper, &first_only().allow_missing()).unwrap_err();
    assert!(error.to_string().contains("removed.bias"), "{error}");
    let error = load_with(&scratch.0, &deeper, &first_only().allow_unused()).unwrap_err();
    assert!(error.to_string().contains("layers[1].bias"), "{error}");
    let both = first_only().allow_missing().allow_unused();
    let (loaded, report) = load_with(&scratch.0, &deeper, &both).unwrap();
    assert_eq!(loaded.layers[0], trained.layers[0]);
    assert_eq!(loaded.layers[1], deeper.layers[1]);
    assert_eq!(report.applied, ["layers[0].weight", "layers[0].bias"]);
    assert_eq!((report.missing.len(), report.unused.len()), (2, 2));

    // No option allows a leaf of another shape, or two leaves with the same name.
    let all = || unwrapped().allow_missing().allow_unused();
    let error = load_with(&scratch.0, &deeper, &all()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("layers[1].weight is f32[3,1] in the file as `['old'].layers[1].weight`, expected [in out] = f32[3,5]: out is 1 in the file and 5 in the model"),
        "{error}"
    );
    let merged = all().rename_with(|name| name.replace("layers[1]", "layers[0]"));
    let error = load_with(&scratch.0, &fresh, &merged).unwrap_err();
    assert!(
        error.to_string().contains(
            "layers[0].bias: ['old'].layers[0].bias and ['old'].layers[1].bias are both renamed to this name"
        ),
        "{error}"
    );
}

#[test]
fn file_cut_off_anywhere_is_error() {
    let scratch = Scratch::new("truncated");
    let model = mlp(&[2, 3]);
    save(&scratch.0, &model).unwrap();
    let whole = fs::read(&scratch.0).unwrap();
    for length in 0..whole.len() {
        fs::write(&scratch.0, &whole[..length]).unwrap();
        let error = load(&scratch.0, &model).unwrap_err();
        let named = error.to_string().contains("state.safetensors");
        assert!(named, "{error}");
        if length > 9 {
            assert!(
                matches!(error, CheckpointError::Length { found, .. } if found == length),
                "{error:?}"
            );
        }
    }
    fs::write(&scratch.0, &whole[..whole.len() - 1]).unwrap();
    let error = load(&scratch.0, &model).unwrap_err().to_string();
    assert!(
        error.contains(&format!(
            "expected {} bytes, found {}",
            whole.len(),
            whole.len() - 1
        )),
        "{error}"
    );
}

#[test]
fn bytes_are_those_of_the_file() {
    let scratch = Scratch::new("bytes");
    let model = mlp(&[3, 4, 2]);
    let options = SaveOptions::new().metadata("steps", "7");
    save_with(&scratch.0, &model, &options).unwrap();
    let bytes = to_bytes_with(&model, &options).unwrap();
    assert_eq!(bytes, fs::read(&scratch.0).unwrap());

    let build = |rngs: &mut Rngs| Mlp::new(&[3, 4, 2], Activation::Relu, rngs);
    let whole = Bytes(&bytes);
    assert_eq!(load(whole, &build(&mut Rngs::new(1))).unwrap(), model);
    assert_eq!(load_as(whole, &LoadOptions::new(), build).unwrap().0, model);
    assert_eq!(inspect(whole).unwrap(), inspect(&scratch.0).unwrap());
    assert_eq!(tensors(whole).unwrap(), tensors(&scratch.0).unwrap());
    assert_eq!(metadata(whole).unwrap()["steps"], "7");
    assert!(nested_tensors(whole, ".").is_ok());
    for length in 0..bytes.len() {
        assert!(load(Bytes(&bytes[..length]), &model).is_err(), "{length}");
    }
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let error = load(Bytes(&damaged), &model).unwrap_err();
    assert!(matches!(error, CheckpointError::Checksum { .. }), "{error}");
    assert!(
        error.to_string().contains("`the bytes in memory`"),
        "{error}"
    );
}

/// Clippy warns about functions with an error type of 128 bytes or more. A path has 24 bytes, and 32 on Windows.
#[test]
fn errors_are_small() {
    assert!(size_of::<CheckpointError>() <= 72 + size_of::<PathBuf>());
    assert!(size_of::<pytree_core::TreeError>() <= 96);
}

/// `numpy.savez` and `numpy.savez_compressed` wrote the files.
#[test]
fn archives_of_numpy_are_loaded() {
    for name in ["stored.npz", "compressed.npz"] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/formats");
        let path = path.join(name);
        let template = BTreeMap::from([
            ("count", Tensor::from(0_i64)),
            ("encoder/kernel", Tensor::zeros(DType::F32, [2, 50])),
        ]);
        let options = LoadOptions::new().names(WeightNames::dotted());
        let found = load_with(&path, &template, &options);
        #[cfg(feature = "npz")]
        {
            let arrays = crate::data::npz::load(&path).unwrap();
            let (found, _) = found.unwrap();
            assert_eq!(found["count"], arrays["count"]);
            assert_eq!(found["encoder/kernel"], arrays["encoder/kernel"]);
            assert_eq!(tensors(&path).unwrap(), arrays);
            assert_eq!(inspect(&path).unwrap()[1].shape, [2, 50]);
        }
        #[cfg(not(feature = "npz"))]
        {
            let text = found.unwrap_err().to_string();
            assert!(
                text.contains("found an `.npz` file of NumPy; it is loaded with the feature `npz`"),
                "{text}"
            );
        }
        let bytes = fs::read(&path).unwrap();
        let text = tensors(Bytes(&bytes)).unwrap_err().to_string();
        assert!(text.contains("found an `.npz` file of NumPy"), "{text}");
    }
}

#[test]
fn other_format_is_refused() {
    let scratch = Scratch::new("other");
    fs::write(
        &scratch.0,
        b"PK\x03\x04\x00\x00\x08\x08\x00\x00archive/data.pkl",
    )
    .unwrap();
    let error = load(&scratch.0, &mlp(&[2, 3])).unwrap_err().to_string();
    assert!(
        error.contains("expected a safetensors file, found a ZIP archive, such as a `.pth` or `.pt` file of `torch.save`, or an `.npz` file of NumPy; convert it in Python: `safetensors.torch.save_file("),
        "{error}"
    );
    let mut tar = vec![0; 512];
    tar[257..262].copy_from_slice(b"ustar");
    for (bytes, expected) in [
        (&b""[..], "found an empty file; copy"),
        (
            b"<!DOCTYPE html><html>",
            "found a text such as a web page; download the file itself; an address of Hugging Face has `/resolve/`",
        ),
        (b"\n  <html>", "found a text such as a web page"),
        (b"{\"error\":\"Unauthorized\"}", "found a text in JSON"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "found a pointer of Git LFS, and not the file that it stands for; fetch the file with `git lfs pull`",
        ),
        (
            b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.",
            "found a pickle of Python, such as an old `.pth` file",
        ),
        (b"\x89HDF\r\n\x1a\n\0\0\0\0", "found an HDF5 file"),
        (
            b"\x93NUMPY\x01\0v\0{'descr'",
            "found a `.npy` file of NumPy; read it with `data::npy::load`",
        ),
        (b"GGUF\x03\0\0\0\x23\x01", "found a GGUF file"),
        (
            b"\x1f\x8b\x08\0\0\0\0\0\0\x03",
            "found a file that gzip has packed; unpack",
        ),
        (
            b"\x81\xa6params\x82",
            "found a MessagePack file, such as Flax writes",
        ),
        (
            b"\x28\xb5\x2f\xfd\x24\x01\x01\0\0",
            "found a file that zstd has packed",
        ),
        (&tar, "found a TAR archive"),
    ] {
        fs::write(&scratch.0, bytes).unwrap();
        let error = load(&scratch.0, &mlp(&[2, 3])).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    fs::write(&scratch.0, "this is a text, and not a checkpoint").unwrap();
    let error = load(&scratch.0, &mlp(&[2, 3])).unwrap_err().to_string();
    assert!(error.contains("it is not a safetensors file"), "{error}");
    let error = load(scratch.0.with_file_name("nowhere"), &mlp(&[2, 3])).unwrap_err();
    assert!(
        matches!(
            error,
            CheckpointError::Io {
                operation: "read",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn model_is_loaded_from_model_and_optimizer_as_suggested() {
    let scratch = Scratch::new("model-and-optimizer");
    let model = mlp(&[2, 3, 1]);
    let optimizer = Optimizer::new(&model, adam(0.1));
    save(&scratch.0, &(model.clone(), optimizer)).unwrap();
    let other = Mlp::new(&[2, 3, 1], Activation::Relu, &mut Rngs::new(9));
    let error = load(&scratch.0, &other).unwrap_err().to_string();
    assert!(
        error.contains("`LoadOptions::new().rename_with(|name| name.strip_prefix(\"[0].\").unwrap_or(name).to_owned()).allow_unused()`"),
        "{error}"
    );
    let options = LoadOptions::new()
        .rename_with(|name| name.strip_prefix("[0].").unwrap_or(name).to_owned())
        .allow_unused();
    let (loaded, report) = load_with(&scratch.0, &other, &options).unwrap();
    assert_eq!(loaded, model);
    // The names of the other leaves are those of the file.
    assert!(
        report
            .unused
            .iter()
            .all(|leaf| leaf.to_string().starts_with("[1].")),
        "{report:?}"
    );
    assert!(!report.unused.is_empty());
}

/// Without a template, a file is loaded as with one: the value, the report, and the error.
#[test]
fn file_is_loaded_as_what_a_function_builds() {
    let scratch = Scratch::new("load-as");
    let saved = mlp(&[2, 3, 1]);
    let tied = Tensor::from([1.0_f32, 2.0]);
    save(&scratch.0, &(saved.clone(), Ref::new(tied.clone()))).unwrap();
    let build = |rngs: &mut Rngs| {
        let model = Mlp::new(&[2, 3, 1], Activation::Relu, rngs);
        (model, Ref::new(Tensor::zeros(DType::F32, [2])))
    };
    let template = build(&mut Rngs::new(0));
    let none = LoadOptions::new();
    let (loaded, report) = load_as(&scratch.0, &none, build).unwrap();
    let expected = load_with(&scratch.0, &template, &none).unwrap();
    assert_eq!(loaded.0, saved);
    assert_eq!(loaded.1.get(), tied);
    assert_eq!(report.to_string(), expected.1.to_string());
    // The reference is not bound to the trace in which the shapes were found.
    loaded.1.set(Tensor::zeros(DType::F32, [2]));

    // The leaves that the file has not are those of the function.
    let more = |rngs: &mut Rngs| (build(rngs), rngs.normal(DType::F32, [1]));
    let text = |error: CheckpointError| error.to_string();
    let template = more(&mut Rngs::new(0));
    assert_eq!(
        load_as(&scratch.0, &none, more).map_err(text).unwrap_err(),
        load_with(&scratch.0, &template, &none)
            .map_err(text)
            .unwrap_err(),
    );
    let unwrapped = || {
        LoadOptions::new()
            .allow_missing()
            .rename_with(|name| format!("[0]{name}"))
    };
    let (loaded, report) = load_as(&scratch.0, &unwrapped(), more).unwrap();
    assert_eq!((loaded.0.0, loaded.1), (saved, template.1));
    assert_eq!(report.missing.len(), 1);
}

#[test]
fn states_of_adam_are_not_suggested_for_momentum() {
    let scratch = Scratch::new("other-optimizer");
    let model = mlp(&[2, 3, 1]);
    save(&scratch.0, &Optimizer::new(&model, adam(0.1))).unwrap();
    let momentum = pytree_nn::sgd_momentum(0.1, 0.9, pytree_nn::Momentum::Classical);
    let template = Optimizer::new(&model, momentum);
    let error = load(&scratch.0, &template).unwrap_err().to_string();
    assert!(error.contains("steps[0].sums"), "{error}");
    assert!(!error.contains("LoadOptions::new().rename"), "{error}");
    assert!(!error.contains("did you mean"), "{error}");
}

#[test]
fn loaded_learning_rate_replaces_that_of_code() {
    let scratch = Scratch::new("loaded-rate");
    let model = mlp(&[2, 1]);
    save(&scratch.0, &Optimizer::new(&model, adam(0.5))).unwrap();
    let loaded = load(&scratch.0, &Optimizer::new(&model, adam(0.25))).unwrap();
    let rate = loaded.learning_rate().map(|rate| rate.item::<f32>());
    assert_eq!(rate, Some(0.5));
}

#[test]
fn saving_leaves_no_other_file_behind() {
    let scratch = Scratch::new("atomic");
    let directory = scratch.0.parent().unwrap();
    save(&scratch.0, &mlp(&[2, 3])).unwrap();
    save(&scratch.0, &mlp(&[4, 1])).unwrap();
    assert_eq!(fs::read_dir(directory).unwrap().count(), 1);
    let into_a_directory = save(directory, &mlp(&[2, 3])).unwrap_err();
    assert!(
        matches!(
            into_a_directory,
            CheckpointError::Io {
                operation: "write",
                ..
            }
        ),
        "{into_a_directory}"
    );
    assert_eq!(fs::read_dir(directory).unwrap().count(), 1);
    let beside = fs::read_dir(directory.parent().unwrap()).unwrap();
    assert_eq!(beside.count(), 1);
}

#[test]
fn a_single_tensor_has_a_name_too() {
    let scratch = Scratch::new("single");
    let tensor = Tensor::from([1.0_f32, 2.0]);
    save(&scratch.0, &tensor).unwrap();
    assert_eq!(inspect(&scratch.0).unwrap()[0].name, "value");
    assert_eq!(load(&scratch.0, &tensor).unwrap(), tensor);
}

#[test]
fn a_traced_leaf_cannot_be_saved() {
    let scratch = Scratch::new("traced");
    let path = scratch.0.clone();
    let compiled = jit(move |x: Tensor| {
        let error = save(&path, &vec![x.clone()]).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot save [0]: cannot read the value of a traced f32[1]"),
            "{error}"
        );
        x
    });
    let _ = compiled(Tensor::from([1.0_f32]));
    assert!(!scratch.0.exists());
}

#[test]
fn a_file_has_the_names_of_the_axes() {
    let scratch = Scratch::new("axes");
    let model = Mlp::new(&[2, 3, 1], Activation::Relu, &mut Rngs::new(0));
    let state = (model, Tensor::from([1.0_f32]));
    save(&scratch.0, &state).unwrap();
    let entries = inspect(&scratch.0).unwrap();
    let axes_of = |name: &str| {
        let entry = entries.iter().find(|entry| entry.name == name).unwrap();
        entry.axes.as_ref().map(|axes| axes.join(" "))
    };
    assert_eq!(axes_of("[0].layers[0].weight").as_deref(), Some("in out"));
    assert_eq!(axes_of("[0].layers[1].bias").as_deref(), Some("out"));
    assert_eq!(axes_of("[1]"), None);
}

#[test]
fn all_lengths_that_differ_are_named() {
    let scratch = Scratch::new("lengths");
    let model = |widths: &[usize]| Mlp::new(widths, Activation::Relu, &mut Rngs::new(0));
    save(&scratch.0, &model(&[64, 128, 10])).unwrap();
    let message = load(&scratch.0, &model(&[32, 100, 10]))
        .unwrap_err()
        .to_string();
    for line in [
        "\n  layers[0].weight is f32[64,128] in the file, expected [in out] = f32[32,100]: in is 64 in the file and 32 in the model, out is 128 in the file and 100 in the model",
        "\n  layers[0].bias is f32[128] in the file, expected [out] = f32[100]: out is 128 in the file and 100 in the model",
        "\n  layers[1].weight is f32[128,10] in the file, expected [in out] = f32[100,10]: in is 128 in the file and 100 in the model\n",
    ] {
        assert!(message.contains(line), "{message}");
    }
}
