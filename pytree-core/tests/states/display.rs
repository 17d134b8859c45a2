use pytree_core::{Annotated, Filter, Module, Tree, partition, tree};

use crate::states::{Mlp, Tied, mlp, tied};

#[test]
fn absent_leaves_and_empty_values_are_omitted() {
    let params = partition::filter::<Mlp, f32>(&mlp(), &Filter::path_contains("bias"));
    assert_eq!(
        params.state().to_string(),
        "\
State({
  'blocks': {
    1: {
      'linear': {
        'bias': Param( # 1 (4 B)
          value=-2.0
        )
      }
    }
  }
})"
    );
    let nothing = partition::filter::<Mlp, f32>(&mlp(), &Filter::nothing());
    assert_eq!(nothing.state().to_string(), "State({})");
    assert_eq!(tree!([None, {}, ()]).state().to_string(), "State({})");
    assert_eq!(tree!(1.5).state().to_string(), "State(1.5)");
}

#[test]
fn shared_leaf_appears_once() {
    let part = partition::filter::<Tied, f32>(&tied(), &Filter::everything());
    let text = part.state().to_string();
    assert!(text.contains("'embed': Param("), "{text}");
    assert!(text.contains("'scale': Param("), "{text}");
    assert!(!text.contains("head"), "{text}");
}

#[test]
fn outermost_field_with_kind_is_variable() {
    #[derive(Module)]
    struct Averaged {
        #[state]
        average: Partly,
    }
    #[derive(pytree_core::Pytree)]
    struct Partly {
        weight: f64,
        rest: (i32, i64),
    }
    let averaged = Averaged {
        average: Partly {
            weight: 0.5,
            rest: (1, 2),
        },
    };
    assert_eq!(
        Tree::of(&averaged).state().to_string(),
        "\
State({
  'average': State( # 3 (20 B)
    value=Partly { weight: 0.5, rest: (1, 2) }
  )
})"
    );
}

#[test]
fn opaque_leaves_have_no_size() {
    #[derive(Module)]
    struct Named {
        #[state]
        label: Label,
    }
    #[derive(pytree_core::Leaf, Clone, Debug)]
    struct Label;
    assert_eq!(
        Tree::of(&Named { label: Label }).state().to_string(),
        "State({\n  'label': State(\n    value=Label\n  )\n})"
    );
}

#[test]
fn metadata_follows_value_of_variable() {
    #[derive(Module)]
    struct Layer {
        #[param]
        kernel: Option<Annotated<f32>>,
        #[param]
        parts: Vec<Annotated<f32>>,
    }
    let layer = Layer {
        kernel: Some(
            Annotated::new(1.0)
                .with("axes", ("in", "out"))
                .with("note", "x"),
        ),
        parts: vec![Annotated::new(2.0).with("hidden", true)],
    };
    assert_eq!(
        Tree::of(&layer).state().to_string(),
        "\
State({
  'kernel': Param( # 1 (4 B)
    value=1.0,
    axes=('in', 'out'),
    note='x'
  ),
  'parts': Param( # 1 (4 B)
    value=[2.0]
  )
})"
    );
}

#[test]
fn deep_tree_state_does_not_overflow_stack() {
    let mut tree = Tree::leaf(1_i32);
    for _ in 0..3_000 {
        tree = Tree::list(vec![tree]);
    }
    let text = tree.state().to_string();
    assert_eq!(text.lines().count(), 2 * 3_000 + 1);
    let pure = tree.to_pure_dict().unwrap();
    assert_eq!(pure.treedef().num_nodes(), 3_001);
}
