//! Bytes that hold shape upon shape: once the bound is reached they are refused, and so are honest ones with a new shape. What
//! the process knows or makes itself is as before. This uses up what a process reads, so that it is a process of its own.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test crate: a failed unwrap is a failed test, and says where"
)]

use pytree_core::{DynamicModule, FieldKind, Module, Tree, TreeBuilder, TreeDef, tree};

#[derive(Module, Clone, Debug, PartialEq)]
struct Known {
    #[param]
    weight: f64,
}

/// A list of 30,000 structs, each of a name of its own.
fn blob(salt: usize) -> Vec<u8> {
    let name = |number: usize| format!("s{salt:04}n{number:06}").into_bytes();
    let mut bytes = b"PYTD\x01\x02".to_vec();
    // 30,000 as a varint, and no static values.
    bytes.extend([0xb0, 0xea, 0x01, 0]);
    for number in 0..30_000 {
        let name = name(number);
        bytes.extend([11, 11, name.len() as u8]);
        bytes.extend(name);
        // No fields, no static fields; no children, no static values.
        bytes.extend([0, 0, 0, 0]);
    }
    bytes
}

#[test]
fn shapes_read_from_bytes_are_bounded() {
    let kept = tree!({"a": Point(x = 1.0, y = 2.0)}).treedef().to_bytes();
    let known = tree::structure(&Known { weight: 1.0 });
    let mut module: DynamicModule = DynamicModule::from_value(&Known { weight: 2.0 }).unwrap();
    module.registry();
    let outcomes: Vec<Result<TreeDef, _>> = (0..8)
        .map(|salt| TreeDef::from_bytes(&blob(salt)))
        .collect();
    assert_eq!(outcomes[0].as_ref().unwrap().num_nodes(), 30_001);
    let error = outcomes[7].as_ref().unwrap_err().to_string();
    assert!(
        error.starts_with("cannot build a struct: the shapes that were read from bytes take "),
        "{error}"
    );
    assert!(
        error.ends_with("or read the others in another process"),
        "{error}"
    );
    // What was read already is read again, and what the program made itself.
    assert_eq!(
        &TreeDef::from_bytes(&blob(0)).unwrap(),
        outcomes[0].as_ref().unwrap()
    );
    assert!(TreeDef::from_bytes(&kept).is_ok());
    assert_eq!(TreeDef::from_bytes(&known.to_bytes()).unwrap(), known);
    // And what it makes anew.
    assert_eq!(tree!(Fresh(x = 1)).to_string(), "Fresh(x=1)");
    module.register_param("bias", 1.0).unwrap();
    assert_eq!(module.registry()[1], ("bias", FieldKind::Param));
    let mut builder = TreeBuilder::new();
    builder.begin_named_tuple("Other", &["z"]).leaf(1).end();
    assert_eq!(builder.finish().unwrap().to_string(), "Other(z=1)");
    assert!(Tree::structure("Later", vec![("a", Tree::leaf(1))], vec![]).is_ok());
}

/// The memory of the process in kB; zero where it can't be asked for.
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.map_or(0, |line| {
        line.trim().trim_end_matches(" kB").parse().unwrap()
    })
}

#[test]
fn many_registrations_take_little() {
    let mut module: DynamicModule = DynamicModule::new("Wide").unwrap();
    let before = resident();
    for number in 0..3_000 {
        module.register_param(&format!("p{number}"), 1.0).unwrap();
    }
    assert_eq!(module.fields().count(), 3_000);
    // With a shape for each, it would be 700 MB.
    assert!(resident() - before < 100_000, "{} kB", resident() - before);
    assert_eq!(tree::structure(&module).num_leaves(), 3_000);
}
