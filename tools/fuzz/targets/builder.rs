//! Calls of a builder of trees, in any order.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pytree::TreeBuilder;
use pytree::TreeDef;
use pytree::prelude::*;
use pytree_fuzz::call;

fuzz_target!(
    init: pytree_fuzz::await_panics(),
    |calls: Vec<(u8, String)>| {
        let mut builder = TreeBuilder::new();
        for (number, name) in &calls {
            match number % 12 {
                0 => builder.begin_list(),
                1 => builder.begin_tuple(),
                2 => builder.begin_dict(),
                3 => builder.begin_ordered_dict(),
                4 | 5 => builder.end(),
                6 => builder.none(),
                7 => builder.key(name.clone()),
                8 => builder.key(i64::from(*number)),
                9 => {
                    call(file!(), || {
                        builder.begin_named_tuple(name, &["x", name]);
                    });
                    continue;
                }
                _ => builder.leaf(1),
            };
        }
        if let Ok(tree) = builder.finish() {
            let tree: Tree<i32> = tree;
            let read = TreeDef::from_bytes(&tree.treedef().to_bytes());
            assert_eq!(read.as_ref().ok(), Some(tree.treedef()));
            let _ = tree.to_string();
        }
    }
);
