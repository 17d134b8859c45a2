//! Key paths from texts, and trees asked by them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pytree::KeyPath;
use pytree::prelude::*;

fuzz_target!(|text: &str| {
    let tree = tree!({"weight": [1, 2, (3, None)], "a b": {"c": 4}, "it's": 5});
    let found = tree.get(text).is_ok();
    let Ok(path) = text.parse::<KeyPath>() else {
        assert!(!found, "{text:?} is no path and finds a leaf");
        return;
    };
    let shown = path.to_string();
    assert_eq!(shown.parse::<KeyPath>().ok(), Some(path), "{shown:?}");
});
