//! The roles of axes: which parameters are matrices, and what is reported if a field does not declare them.

use ndarray::{Array1, Array2, Array3};
use pytree_core::axes::{AxisRole, StaticFields};
use pytree_core::{
    DynamicModule, Filter, Freeze, Module, Pytree, Shared, TreeDef, graph, partition,
};

#[derive(Module, Clone, Debug)]
struct Query {
    #[param("in heads head_dim", roles(input, output_head, output))]
    weight: Array3<f32>,
    #[param("heads head_dim", roles(output_head, output))]
    bias: Array2<f32>,
}

#[derive(Module, Clone, Debug)]
struct Model {
    #[param("items features", roles(item, output))]
    table: Array2<f32>,
    query: Query,
    #[param("features", roles(feature))]
    scale: Array1<f32>,
    #[param]
    temperature: f32,
}

fn query() -> Query {
    Query {
        weight: Array3::zeros((5, 2, 3)),
        bias: Array2::zeros((2, 3)),
    }
}

fn model() -> Model {
    Model {
        table: Array2::zeros((7, 5)),
        query: query(),
        scale: Array1::zeros(5),
        temperature: 1.0,
    }
}

fn selected<M: Pytree>(model: &M, filter: &Filter) -> Result<Vec<String>, String> {
    let (leaves, treedef) = graph::flatten_any(model);
    let chosen = filter.choose(&treedef, &leaves);
    let chosen = chosen.map_err(|error| error.to_string())?;
    let places = treedef.leaf_paths().into_iter().zip(chosen);
    let places = places.filter(|(_, is_chosen)| *is_chosen);
    Ok(places.map(|(path, _)| path.to_string()).collect())
}

#[test]
fn matrices_are_chosen_by_roles_and_not_by_rank() {
    let model = model();
    assert_eq!(
        selected(&model, &Filter::matrices()).unwrap(),
        ["query.weight"]
    );
    assert_eq!(
        selected(&model, &(Filter::param() & !Filter::matrices())).unwrap(),
        ["table", "query.bias", "scale", "temperature"]
    );
    // A value without modules has no parameters, so it needs no roles.
    let lone = partition::filter::<_, Array2<f32>>(&model.table, &Filter::matrices());
    assert!(lone.is_empty());
}

#[test]
fn shared_matrix_is_chosen_at_its_first_place() {
    #[derive(Module, Clone, Debug)]
    struct Pair {
        first: Shared<Query>,
        second: Shared<Query>,
    }
    let first = Shared::new(query());
    let pair = Pair {
        second: first.clone(),
        first,
    };
    assert_eq!(
        selected(&pair, &Filter::matrices()).unwrap(),
        ["first.weight"]
    );
}

#[derive(Module, Clone, Debug)]
struct Undeclared {
    #[param("in out")]
    weight: Array2<f32>,
    #[param]
    kernel: Array3<f32>,
    #[param]
    bias: Array1<f32>,
    #[state]
    mean: Array2<f32>,
}

fn undeclared() -> Undeclared {
    Undeclared {
        weight: Array2::zeros((3, 2)),
        kernel: Array3::zeros((3, 2, 2)),
        bias: Array1::zeros(2),
        mean: Array2::zeros((1, 2)),
    }
}

#[test]
fn undeclared_roles_are_reported_with_the_field() {
    let text = selected(&undeclared(), &Filter::matrices()).unwrap_err();
    assert_eq!(
        text,
        "cannot distinguish the inputs from the outputs of 2 places:\
         \n  weight: f32[3,2]: the field `weight` of `Undeclared` declares no roles; write `#[param(\"in out\", roles(input, output))]` above the field\
         \n  kernel: f32[3,2,2]: the field `kernel` of `Undeclared` declares no roles; write `#[param(\"in heads head_dim\", roles(input, output_head, output))]` above the field; \
         declare one role for each axis: `input`, `output`, `input_head`, `output_head`, `kernel`, `item`, `batch`, or `feature` for an axis whose features are scaled or shifted one by one"
    );
}

#[test]
fn roles_are_needed_only_where_the_filter_depends_on_them() {
    let other = Filter::path("bias") | (Filter::matrices() & Filter::path("mean"));
    assert_eq!(selected(&undeclared(), &other).unwrap(), ["bias"]);
    let either = Filter::path("weight") | Filter::matrices();
    let text = selected(&undeclared(), &either).unwrap_err();
    assert!(text.contains("of kernel: f32[3,2,2]"), "{text}");
    let text = selected(&(undeclared(), undeclared()), &Filter::matrices()).unwrap_err();
    assert!(text.contains("[1].weight"), "{text}");
}

#[test]
fn wrapper_without_roles_names_its_own_field() {
    #[derive(Pytree, Clone, Debug)]
    struct Pair {
        #[pytree("in out", roles(input, output))]
        up: Array2<f32>,
        down: Array2<f32>,
    }
    #[derive(Module, Clone, Debug)]
    struct Adapter {
        #[param]
        pair: Pair,
    }
    let adapter = Adapter {
        pair: Pair {
            up: Array2::zeros((3, 2)),
            down: Array2::zeros((2, 3)),
        },
    };
    let text = selected(&adapter, &Filter::matrices()).unwrap_err();
    assert!(
        text.contains("pair.down: f32[2,3]: the field `down` of `Pair`"),
        "{text}"
    );
    let up = Filter::matrices() & !Filter::path_contains("down");
    assert_eq!(selected(&adapter, &up).unwrap(), ["pair.up"]);
}

#[test]
fn leading_axes_of_stacked_models_are_batch_axes() {
    let structure = graph::structure(&query());
    let roles = structure.leaf_roles();
    assert_eq!(
        roles[0].for_rank(4).unwrap(),
        [
            AxisRole::Batch,
            AxisRole::Input,
            AxisRole::OutputHead,
            AxisRole::Output
        ]
    );
    assert_eq!(roles[0].for_rank(2), None);
    let flat = Array2::<f32>::zeros((5, 6));
    assert_eq!(
        roles[0].of_leaf(&flat).unwrap_err().to_string(),
        "cannot distinguish the inputs from the outputs of weight: f32[5,6], but the field `weight` of `Query` declares the roles \
         input, output_head, output of at least 3 axes; declare one role for each axis: `input`, `output`, `input_head`, `output_head`, \
         `kernel`, `item`, `batch`, or `feature` for an axis whose features are scaled or shifted one by one"
    );
}

#[derive(Module, Clone, Debug)]
struct Windows {
    #[param("*kernel in out", roles(kernel, input, output))]
    weight: Array3<f32>,
    #[param("...", roles = Self::computed)]
    mixed: Array3<f32>,
    #[r#static]
    summed: usize,
}

impl Windows {
    fn computed(fields: &StaticFields<'_>, rank: usize) -> Option<Vec<AxisRole>> {
        let mut roles = vec![AxisRole::Input; fields.get("summed")?];
        roles.resize(rank, AxisRole::Output);
        Some(roles)
    }
}

#[test]
fn roles_of_many_axes_and_computed_roles_fit_the_rank() {
    use AxisRole::{Input, Kernel, Output};
    let windows = Windows {
        weight: Array3::zeros((3, 1, 2)),
        mixed: Array3::zeros((2, 2, 2)),
        summed: 2,
    };
    let structure = graph::structure(&windows);
    let roles = structure.leaf_roles();
    assert_eq!(roles[0].for_rank(2).unwrap(), [Input, Output]);
    assert_eq!(
        roles[0].for_rank(4).unwrap(),
        [Kernel, Kernel, Input, Output]
    );
    assert_eq!(roles[1].for_rank(3).unwrap(), [Input, Input, Output]);
}

#[test]
fn changed_kinds_keep_the_roles() {
    let expected = [AxisRole::Input, AxisRole::OutputHead, AxisRole::Output];
    let frozen = Freeze::frozen(query());
    let structure = graph::structure(&frozen);
    assert_eq!(structure.leaf_roles()[0].for_rank(3).unwrap(), expected);
    assert!(selected(&frozen, &Filter::matrices()).is_err());

    // The shapes of a dynamic module are created at run time.
    let mut dynamic: DynamicModule = DynamicModule::new("Wrapper").unwrap();
    dynamic.register_module("query", query()).unwrap();
    dynamic.freeze();
    let structure = graph::structure(&dynamic);
    assert!(structure.nodes().any(|node| node.shape().is_dynamic()));
    assert_eq!(structure.leaf_roles()[0].for_rank(3).unwrap(), expected);
}

/// The same type without roles.
mod without {
    use super::*;

    #[derive(Module, Clone, Debug)]
    pub(super) struct Query {
        #[param("in heads head_dim")]
        pub(super) weight: Array3<f32>,
        #[param("heads head_dim")]
        pub(super) bias: Array2<f32>,
    }
}

#[test]
fn roles_are_not_part_of_the_structure() {
    let with = graph::structure(&query());
    let without = graph::structure(&without::Query {
        weight: Array3::zeros((5, 2, 3)),
        bias: Array2::zeros((2, 3)),
    });
    assert_eq!(with, without);
    assert_eq!(with.content_hash(), without.content_hash());
    assert_eq!(with.to_bytes(), without.to_bytes());
    assert_eq!(TreeDef::from_bytes(&with.to_bytes()).unwrap(), with);
}
