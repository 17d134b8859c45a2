//! Random calls of a tree builder, in any order.

use pytree::prelude::*;
use pytree::{TreeBuilder, TreeDef};

use crate::{call, fuzz};

#[test]
fn calls_build_a_tree_or_are_refused() {
    fuzz("calls_build_a_tree_or_are_refused", |random| {
        let names = ["a", "b", "", "é", "a b", "0"];
        let mut builder = TreeBuilder::new();
        // Half of the calls go together, but for an accident, or no tree would ever be whole.
        let fits = random.one_in(2);
        let mut open = 0_usize;
        if fits {
            builder.begin_list();
            open += 1;
        }
        for _ in 0..random.below(60) {
            let name = *random.pick(&names);
            let accident = !fits || random.one_in(200);
            match random.below(if accident { 17 } else { 7 }) {
                0 => {
                    builder.begin_list();
                    open += 1;
                }
                1 => {
                    builder.begin_tuple();
                    open += 1;
                }
                2 if open > 1 || accident => {
                    builder.end();
                    open = open.saturating_sub(1);
                }
                3 => {
                    builder.begin_dict().key(random.edge()).leaf(1).end();
                }
                4 => {
                    builder.none();
                }
                5 => {
                    builder.begin_named_tuple("Point", &["x", "y"]).leaf(1);
                    // One in fifty has a child too few.
                    if !random.one_in(50) {
                        builder.leaf(2);
                    }
                    builder.end();
                }
                7 | 8 => {
                    builder.begin_ordered_dict().key(name).none();
                }
                9 | 10 => {
                    call(file!(), || {
                        builder.begin_named_tuple(name, &["x", name]);
                    });
                }
                11 | 12 => {
                    builder.key(name);
                }
                13 => {
                    builder.key((random.edge(), random.one_in(2)));
                }
                _ => {
                    builder.leaf(2);
                }
            }
        }
        for _ in 0..open {
            builder.end();
        }
        match call(file!(), || builder.finish()) {
            Some(Ok(tree)) => {
                let tree: Tree<i32> = tree;
                let read = TreeDef::from_bytes(&tree.treedef().to_bytes()).unwrap();
                assert_eq!(read, *tree.treedef());
                assert_eq!(tree.leaves().len(), read.num_leaves());
            }
            Some(Err(error)) => assert!(!error.to_string().is_empty()),
            None => panic!("`finish` returns its errors"),
        }
    });
}
