//! The other derives: static values, leaves of the user, plain containers.

use pytree_core::kind::State;
use pytree_core::{Collection, Leaf, Module, Pytree, Static, tree};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Hashed(String);

#[derive(Clone, PartialEq, Debug)]
struct Compared(f32);

#[derive(Static, Clone)]
struct Setting {
    rate: f32,
    hashed: Option<Hashed>,
    compared: Vec<Compared>,
    function: fn(f32) -> f32,
}

#[derive(Leaf, Clone, Debug)]
enum Key {
    Seed(u32),
    Words { words: [u32; 4] },
}

#[derive(Pytree)]
struct Batch {
    input: Vec<f32>,
    key: Key,
    #[r#static]
    size: usize,
    #[pytree(static)]
    setting: Setting,
}

#[derive(Module)]
struct Model {
    #[state]
    key: Key,
    #[r#static]
    setting: Setting,
}

#[test]
fn other_derives_work_beside_module() {
    let setting = || Setting {
        rate: 0.5,
        hashed: None,
        compared: vec![Compared(1.0)],
        function: f32::abs,
    };
    let batch = Batch {
        input: vec![1.0],
        key: Key::Words { words: [0; 4] },
        size: 1,
        setting: setting(),
    };
    let model = Model {
        key: Key::Seed(1),
        setting: setting(),
    };
    assert_eq!(tree::any_leaves(&batch).len(), 2);
    assert_eq!(tree::any_leaves(&model).len(), 1);
    assert_eq!(<State as Collection>::NAME, "State");
}
