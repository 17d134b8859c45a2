//! Tests that names without a match are reported in a short time, even if the names are many or long.

use std::time::{Duration, Instant};

use super::*;

/// The time limit of a report. A debug build needs about a hundredth of this time. If the edits between all pairs of
/// names were computed, a report would take a minute.
const SOON: Duration = Duration::from_secs(5);

fn named(names: impl Iterator<Item = String>) -> BTreeMap<String, Tensor> {
    names.map(|name| (name, Tensor::from(1.0_f32))).collect()
}

fn refused(name: &str, stored: &impl PytreeOf<Tensor>, template: &impl PytreeOf<Tensor>) -> String {
    let scratch = Scratch::new(name);
    save(&scratch.0, stored).unwrap();
    let start = Instant::now();
    let text = load(&scratch.0, template).err().unwrap().to_string();
    let needed = start.elapsed();
    assert!(needed < SOON, "{needed:?} for {} bytes of text", text.len());
    text
}

#[test]
fn wrong_prefix_is_recognised_soon() {
    let layers = |prefix: &str| {
        let prefix = prefix.to_owned();
        named((0..1_000).map(move |at| format!("{prefix}blocks/{at}/attention/projection/weight")))
    };
    let text = refused("prefix", &layers(""), &vec![layers("")]);
    assert!(
        text.contains(
            " all 1000 names that only the file has do not begin with `[0]`, but the names in the template do: \
             load the checkpoint by `load_with` with `LoadOptions::new().rename_with(|name| \"[0]\".to_owned() + name)`\n"
        ),
        "{text}"
    );
    let text = refused("keys", &layers("model/"), &layers("network/"));
    assert!(text.contains("; did you mean ['"), "{text}");
    let scratch = Scratch::new("rename-prefix");
    save(&scratch.0, &layers("")).unwrap();
    let options = LoadOptions::new().rename_with(|name| "[0]".to_owned() + name);
    assert!(load_with(&scratch.0, &vec![layers("")], &options).is_ok());
}

#[test]
fn names_without_likeness_are_refused_soon() {
    let text = |seed: usize, length: usize| -> String {
        let letter =
            |at: usize| char::from(b'a' + u8::try_from((at * seed + at / 7) % 26).unwrap());
        (0..length).map(letter).collect()
    };
    // The file has five megabytes of names. The template has a thousand names of the same length.
    let hostile = named((0..10_000).map(|at| format!("{at}{}", text(2 * at + 1, 480))));
    let template = named((0..1_000).map(|at| format!("{}{at}", text(2 * at + 3, 480))));
    let message = refused("hostile", &hostile, &template);
    assert!(message.contains("and 10980 more"), "{message}");
    // The file and the template have a few names of a megabyte each.
    let hostile = named((0..5).map(|at| text(2 * at + 1, 1_000_000)));
    let template = named((0..5).map(|at| text(2 * at + 3, 1_000_000)));
    let message = refused("huge", &hostile, &template);
    assert!(message.len() < 10_000, "{} bytes", message.len());
}
