//! Folders that were damaged, that are incomplete, or that another program wrote wrongly, are refused with the file and the
//! path of the tensor, and never with a panic.

use std::fs;
use std::path::Path;

use pytree::device::device_put;
use pytree::prelude::*;

use crate::shards::{Scratch, assert_same_bits, mesh};

fn state() -> Linear {
    Linear::new(4, 6, &mut Rngs::new(0))
}

/// Saves a layer whose weight has four parts.
fn saved(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    let mesh = mesh([("i", 2), ("j", 2)]);
    let mut model = state();
    model.weight = device_put(&model.weight, mesh.divided(("i", "j")));
    checkpoint::save_sharded(&scratch, &model).unwrap();
    scratch
}

fn shard(scratch: &Scratch) -> std::path::PathBuf {
    let files = scratch.files();
    let name = files
        .iter()
        .find(|name| name.ends_with("-of-00001.safetensors"));
    scratch.0.join(name.unwrap())
}

fn error(scratch: &Scratch) -> String {
    let error = checkpoint::load(scratch, &state()).unwrap_err().to_string();
    assert!(checkpoint::inspect(scratch).is_err());
    error
}

fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

#[test]
fn flipped_bits_are_refused() {
    let scratch = saved("flipped");
    let (model, index) = (state(), scratch.index());
    for path in [shard(&scratch), index] {
        let whole = fs::read(&path).unwrap();
        for position in 0..whole.len() {
            for change in [1 << (position % 8), 0xff] {
                let mut damaged = whole.clone();
                damaged[position] ^= change;
                fs::write(&path, damaged).unwrap();
                let loaded = checkpoint::load(&scratch, &model);
                assert!(loaded.is_err(), "{path:?}: byte {position} with {change}");
            }
        }
        // A longer text with the same meaning.
        fs::write(&path, [&whole[..], b" "].concat()).unwrap();
        assert!(checkpoint::load(&scratch, &model).is_err());
        fs::write(&path, &whole).unwrap();
    }
    assert_same_bits(&checkpoint::load(&scratch, &model).unwrap(), &model);
}

#[test]
fn cuts_are_refused() {
    let scratch = saved("cut");
    for path in [shard(&scratch), scratch.index()] {
        let whole = fs::read(&path).unwrap();
        // The last byte of the index is the end of the line.
        for length in (0..whole.len() - 1).step_by(5) {
            fs::write(&path, &whole[..length]).unwrap();
            let error = checkpoint::load(&scratch, &state())
                .unwrap_err()
                .to_string();
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(error.contains(name), "{error}");
        }
        fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn missing_and_other_files_are_named() {
    let scratch = saved("missing");
    let path = shard(&scratch);
    let whole = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert_contains(
        &error(&scratch),
        &[
            "cannot read bias of the checkpoint `",
            name,
            "`: the file with this tensor is missing; copy all files of the folder again",
        ],
    );
    // The file of another save, with other numbers.
    checkpoint::save_sharded(&scratch, &Linear::new(4, 6, &mut Rngs::new(1))).unwrap();
    let other = shard(&scratch);
    assert_ne!(other, path);
    fs::write(&other, whole).unwrap();
    assert_contains(
        &error(&scratch),
        &["expected", other.file_name().unwrap().to_str().unwrap()],
    );
    // No index: a save that has not ended.
    fs::remove_file(scratch.index()).unwrap();
    assert_contains(
        &error(&scratch),
        &["model.safetensors.index.json`: No such file"],
    );
}

/// A number that was changed is named with its part.
#[test]
fn changed_number_is_named() {
    let scratch = saved("changed");
    let path = shard(&scratch);
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    assert_contains(
        &error(&scratch),
        &[
            "cannot read weight[2:4,3:6] of the checkpoint `",
            &name,
            "`: expected numbers with the checksum ",
            " in block 0, found ",
        ],
    );
}

/// Writes a file with one-byte parts of `x`, and an index without checksums.
fn written(scratch: &Scratch, parts: &[(&str, &str)]) {
    let _ = fs::create_dir(scratch);
    let mut tensors = Vec::new();
    let (mut places, mut map) = (Vec::new(), Vec::new());
    let mut end = 0;
    for (name, place) in parts {
        let lengths: Vec<usize> = name[2..name.len() - 1]
            .split(',')
            .map(|range| {
                let (start, end) = range.split_once(':').unwrap();
                end.parse::<usize>().unwrap() - start.parse::<usize>().unwrap()
            })
            .collect();
        let bytes: usize = lengths.iter().product();
        tensors.push(format!(
            "\"{name}\":{{\"dtype\":\"U8\",\"shape\":{lengths:?},\"data_offsets\":[{end},{}]}}",
            end + bytes
        ));
        places.push(format!("\\\"{name}\\\":{}", place.replace('"', "\\\"")));
        map.push(format!("\"{name}\":\"a.safetensors\""));
        end += bytes;
    }
    let header = format!(
        "{{\"__metadata__\":{{\"pytree.parts\":\"{{{}}}\"}},{}}}",
        places.join(","),
        tensors.join(",")
    );
    let bytes = [
        &(header.len() as u64).to_le_bytes()[..],
        header.as_bytes(),
        &vec![7; end],
    ]
    .concat();
    fs::write(scratch.0.join("a.safetensors"), bytes).unwrap();
    index(scratch, &map.join(","));
}

fn index(scratch: &Scratch, map: &str) {
    fs::write(scratch.index(), format!("{{\"weight_map\":{{{map}}}}}")).unwrap();
}

fn place(shape: &str, begin: &str) -> String {
    format!("{{\"tensor\":\"x\",\"shape\":{shape},\"begin\":{begin}}}")
}

fn refused(scratch: &Scratch) -> String {
    let template =
        std::collections::BTreeMap::from([("x".to_owned(), Tensor::zeros(DType::U8, [4, 4]))]);
    let error = checkpoint::load(scratch, &template)
        .unwrap_err()
        .to_string();
    assert_eq!(checkpoint::tensors(scratch).unwrap_err().to_string(), error);
    error
}

#[test]
fn gaps_and_overlaps_are_named() {
    let scratch = Scratch::new("geometry");
    let at = |begin: &str| place("[4,4]", begin);
    let left = at("[0,0]");
    written(
        &scratch,
        &[("x[0:4,0:2]", &left), ("x[0:4,2:4]", &at("[0,2]"))],
    );
    assert_eq!(
        checkpoint::tensors(&scratch).unwrap()["x"].to_vec::<u8>(),
        [7; 16]
    );
    written(&scratch, &[("x[0:4,0:2]", &left)]);
    assert_contains(
        &refused(&scratch),
        &[
            "cannot read x[0:4,0:2] of the checkpoint `",
            "a.safetensors`: no file has the positions 2..4 of axis 1 after this part",
        ],
    );
    written(&scratch, &[("x[0:4,2:4]", &at("[0,2]"))]);
    assert_contains(
        &refused(&scratch),
        &[
            "cannot read x of the checkpoint `",
            "no file has the positions 0..2 of axis 1",
        ],
    );
    written(
        &scratch,
        &[("x[0:4,0:3]", &left), ("x[0:4,2:4]", &at("[0,2]"))],
    );
    assert_contains(
        &refused(&scratch),
        &["it overlaps another part, which begins at position 2 of axis 1"],
    );
    written(
        &scratch,
        &[
            ("x[0:2,0:2]", &left),
            ("x[2:4,2:4]", &at("[2,2]")),
            ("x[0:2,2:4]", &at("[0,2]")),
        ],
    );
    assert_contains(&refused(&scratch), &["no file has its part [2:4,0:2]"]);
}

#[test]
fn wrong_places_are_named() {
    let scratch = Scratch::new("places");
    for (name, shape, begin, expected) in [
        (
            "x[0:4,0:2]",
            "[4,4]",
            "[0,3]",
            "is not inside of its tensor [4, 4]",
        ),
        (
            "x[0:4,0:2]",
            "[4,4]",
            "[0,18446744073709551615]",
            "is not inside of its tensor",
        ),
        ("x[0:4,0:2]", "[4]", "[0]", "is not inside of its tensor"),
        (
            "x[0:4,0:2]",
            "[4611686018427387904,16]",
            "[0,0]",
            "is not inside of its tensor",
        ),
        (
            "x[0:4,0:2]",
            "[4,4]",
            "[0,1]",
            "its name is not that of its place",
        ),
        (
            "x[0:4,0:2]",
            "[4,-4]",
            "[0,1]",
            "the metadata `pytree.parts` of the file is invalid",
        ),
        (
            "x[0:4,0:2]",
            "[4,4]",
            "7",
            "the metadata `pytree.parts` of the file is invalid",
        ),
        (
            "x[0:1,0:1]",
            "[1099511627776,1048576]",
            "[0,0]",
            "no file has the positions 1..1099511627776 of axis 0 after this part",
        ),
    ] {
        written(&scratch, &[(name, &place(shape, begin))]);
        assert_contains(
            &refused(&scratch),
            &[
                &format!("cannot read {name} of the checkpoint `"),
                "a.safetensors`: ",
                expected,
            ],
        );
    }
    written(
        &scratch,
        &[
            ("x[0:4,0:2]", &place("[4,4]", "[0,0]")),
            ("x[0:4,2:4]", &place("[4,8]", "[0,2]")),
        ],
    );
    assert_contains(
        &refused(&scratch),
        &[
            "cannot read x[0:4,2:4]",
            "but another part belongs to a tensor U8 [4, 4]",
        ],
    );
}

#[test]
fn wrong_indices_are_named() {
    let scratch = Scratch::new("indices");
    written(&scratch, &[("x[0:4,0:2]", &place("[4,4]", "[0,0]"))]);
    index(
        &scratch,
        "\"x[0:4,0:2]\":\"a.safetensors\",\"y\":\"a.safetensors\"",
    );
    assert_contains(
        &refused(&scratch),
        &[
            "cannot read y of",
            "the index says that this file has it, but the file has not",
        ],
    );
    for file in [
        "\"../a.safetensors\"",
        "\"/a.safetensors\"",
        "\"\"",
        "7",
        "null",
        "\"..\"",
    ] {
        index(&scratch, &format!("\"x\":{file}"));
        assert_contains(
            &refused(&scratch),
            &["index.json`: `weight_map` has for x the value ", file],
        );
    }
    for (text, expected) in [
        ("", "it is not a JSON text"),
        ("[1]", "it has no object `weight_map`"),
        ("{\"weight_map\":[]}", "it has no object `weight_map`"),
        (
            "{\"metadata\":{\"pytree.version\":\"99\"},\"weight_map\":{}}",
            "found version 99",
        ),
        (
            "{\"metadata\":{\"pytree.version\":\"2\"},\"weight_map\":{}}",
            "expected content with the checksum none",
        ),
        (
            "{\"metadata\":{\"pytree.files\":\"a\\n\"},\"weight_map\":{}}",
            "`pytree.files` has the line \"a\"",
        ),
        (&"[".repeat(100_000), "it is not a JSON text"),
    ] {
        fs::write(scratch.index(), text).unwrap();
        assert_contains(
            &refused(&scratch),
            &["model.safetensors.index.json`", expected],
        );
    }
    // A checkpoint without tensors.
    fs::write(scratch.index(), "{\"weight_map\":{}}").unwrap();
    assert!(checkpoint::tensors(&scratch).unwrap().is_empty());
    assert!(
        checkpoint::load(
            Path::new("/nonexistent/model.safetensors.index.json"),
            &state()
        )
        .is_err()
    );
}
