//! Tests of files that were changed after they were written, of files of other versions, and of files of other
//! programs.

use super::*;

/// Saves a model, and returns the bytes of the checkpoint.
fn saved(scratch: &Scratch, model: &Mlp) -> Vec<u8> {
    save(&scratch.0, model).unwrap();
    fs::read(&scratch.0).unwrap()
}

/// Returns the bytes of a file, with one text in its header replaced.
fn replaced(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
    let length = usize::try_from(u64::from_le_bytes(*bytes.first_chunk().unwrap())).unwrap();
    let header = std::str::from_utf8(&bytes[8..8 + length]).unwrap();
    assert!(header.contains(old), "{old} is not in {header}");
    let header = header.replacen(old, new, 1);
    [
        &(header.len() as u64).to_le_bytes()[..],
        header.as_bytes(),
        &bytes[8 + length..],
    ]
    .concat()
}

#[test]
fn every_flipped_bit_is_refused() {
    let scratch = Scratch::new("flipped");
    let model = mlp(&[2, 3]);
    let whole = saved(&scratch, &model);
    let mut refused = 0;
    for position in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[position] ^= 1 << bit;
            fs::write(&scratch.0, damaged).unwrap();
            // If the changed bit turns a space at the end of the header into another white-space character, the content
            // stays the same.
            match load(&scratch.0, &model) {
                Ok(loaded) => assert_eq!(loaded, model, "bit {bit} of byte {position}"),
                Err(_) => refused += 1,
            }
            let entries = inspect(&scratch.0).ok();
            let kinds =
                entries.map(|entries| entries.into_iter().map(|entry| entry.kind).collect());
            assert!(kinds.is_none_or(
                |kinds: Vec<_>| kinds == [Some("Param".to_owned()), Some("Param".to_owned())]
            ));
        }
    }
    assert!(
        refused + 64 > 8 * whole.len(),
        "{refused} of {} bits",
        8 * whole.len()
    );
}

#[test]
fn changed_number_fails_the_checksum() {
    let scratch = Scratch::new("checksum");
    let model = mlp(&[2, 3]);
    let mut damaged = saved(&scratch, &model);
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    fs::write(&scratch.0, &damaged).unwrap();
    let error = load(&scratch.0, &model).unwrap_err();
    assert!(matches!(error, CheckpointError::Checksum { .. }), "{error}");
    let text = error.to_string();
    for part in [
        "state.safetensors`: expected content with the checksum ",
        ", found ",
        "; the file was changed or damaged after it was saved: copy it again, or load an earlier checkpoint",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn files_without_version_load() {
    let scratch = Scratch::new("first");
    let tensor = Tensor::from([1.0_f32, 2.0]);
    for metadata in ["", r#""__metadata__":{"format":"pt"},"#] {
        let header =
            format!(r#"{{{metadata}"value":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}}}"#);
        let length = (header.len() as u64).to_le_bytes();
        let whole = [&length[..], header.as_bytes(), tensor.bytes()].concat();
        fs::write(&scratch.0, whole).unwrap();
        assert_eq!(load(&scratch.0, &tensor).unwrap(), tensor);
    }
}

#[test]
fn later_version_is_refused_by_number() {
    let scratch = Scratch::new("later");
    let model = mlp(&[2, 3]);
    let whole = saved(&scratch, &model);
    let later = replaced(
        &whole,
        "\"pytree.version\":\"2\"",
        "\"pytree.version\":\"3\"",
    );
    fs::write(&scratch.0, later).unwrap();
    let text = load(&scratch.0, &model).unwrap_err().to_string();
    assert!(
        text.contains(
            "expected a format up to version 2, found version 3; load it with a later version"
        ),
        "{text}"
    );
    assert!(matches!(
        inspect(&scratch.0),
        Err(CheckpointError::Version { newest: 2, .. })
    ));
    for other in ["0", "1", "x", "", "-1"] {
        let other = format!("\"pytree.version\":\"{other}\"");
        fs::write(
            &scratch.0,
            replaced(&whole, "\"pytree.version\":\"2\"", &other),
        )
        .unwrap();
        let error = load(&scratch.0, &model).unwrap_err();
        assert!(matches!(error, CheckpointError::Checksum { .. }), "{error}");
    }
}

#[test]
fn missing_checksum_of_ours_is_refused() {
    let scratch = Scratch::new("missing");
    let model = mlp(&[2, 3]);
    let whole = saved(&scratch, &model);
    fs::write(
        &scratch.0,
        replaced(&whole, "pytree.checksum", "python.checksum"),
    )
    .unwrap();
    let error = load(&scratch.0, &model).unwrap_err();
    assert!(
        matches!(&error, CheckpointError::Checksum { expected, .. } if expected == "none"),
        "{error}"
    );
    // Another program may read the file and write it again with metadata of its own.
    let added = replaced(
        &whole,
        "{\"__metadata__\":{",
        "{\"__metadata__\":{\"format\":\"pt\",",
    );
    fs::write(&scratch.0, added).unwrap();
    assert_eq!(load(&scratch.0, &model).unwrap(), model);
}

#[test]
fn equal_leaves_are_equal_bytes() {
    let scratch = Scratch::new("equal");
    let names = ["\"quoted\"", "\\", "\u{1}\n\t", "é漢🦀", ""];
    let leaves: BTreeMap<&str, Tensor> = names
        .iter()
        .map(|name| (*name, Tensor::from(1_i64)))
        .collect();
    save(&scratch.0, &leaves).unwrap();
    let first = fs::read(&scratch.0).unwrap();
    save(&scratch.0, &leaves).unwrap();
    assert_eq!(fs::read(&scratch.0).unwrap(), first);
    assert_eq!(load(&scratch.0, &leaves).unwrap(), leaves);
    // The data begin at a multiple of eight bytes, because other programs expect this.
    assert_eq!(u64::from_le_bytes(*first.first_chunk().unwrap()) % 8, 0);
}
