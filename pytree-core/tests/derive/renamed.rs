//! `crate = path`: the crate under another name.

mod inner {
    pub(crate) use pytree_core as renamed;
}

use inner::renamed::{Collection, Leaf, Module, Pytree, Static, module_object};

use crate::derive::rebuilt;

#[derive(Module, Clone, Debug, PartialEq)]
#[module(crate = crate::derive::renamed::inner::renamed)]
struct Scale {
    #[param]
    factor: f32,
    #[r#static]
    name: String,
}

#[derive(Pytree, Clone, Debug, PartialEq)]
#[pytree(crate = inner::renamed)]
struct Pair(Scale, f32);

#[derive(Static, Clone)]
#[pytree(crate = inner::renamed)]
struct Setting(f32);

#[derive(Leaf, Clone, Debug)]
#[pytree(crate = inner::renamed)]
struct Key(u8);

#[derive(Collection)]
#[pytree(crate = inner::renamed)]
struct Average;

#[module_object(crate = inner::renamed)]
trait Layer {
    fn forward(&self) -> f32;
}
impl Layer for Scale {
    fn forward(&self) -> f32 {
        self.factor
    }
}

#[test]
fn crate_attribute_locates_renamed_crate() {
    let pair = Pair(
        Scale {
            factor: 1.0,
            name: "s".to_owned(),
        },
        2.0,
    );
    assert_eq!(rebuilt(&pair), pair);
    let boxed: Box<dyn Layer> = Box::new(pair.0);
    assert!((rebuilt(&boxed).forward() - 1.0).abs() < 1e-6);
    assert_eq!(rebuilt(&Key(3)).0, 3);
    assert_eq!(<Average as Collection>::NAME, "Average");
    let setting = Setting(0.5);
    assert!(inner::renamed::StaticValue::static_eq(
        &setting,
        &Setting(0.5)
    ));
}
