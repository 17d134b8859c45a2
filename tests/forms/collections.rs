//! A state names its collection: a collection of the crate or of the user, by a path or under another name.

use pytree_core::kind::{BatchStat as Statistic, Cache};
use pytree_core::{Collection, CollectionId, FieldKind, Module, ModuleType};

mod inner {
    #[derive(pytree_core::Collection, Debug)]
    pub struct Average;
}

#[derive(Collection)]
struct Seen;

#[derive(Module)]
struct Model {
    #[state]
    plain: f32,
    #[state(Statistic)]
    statistic: f32,
    #[state(Cache)]
    cache: Vec<f32>,
    #[state(pytree_core::kind::RngState)]
    random: u64,
    #[state(inner::Average)]
    average: f32,
    #[state(Seen)]
    seen: u32,
}

#[test]
fn states_name_their_collections() {
    let collection = CollectionId::of::<inner::Average>();
    assert_eq!(
        Model::REGISTRY[4],
        ("average", FieldKind::State(collection))
    );
    assert_eq!(<Seen as Collection>::NAME, "Seen");
}
