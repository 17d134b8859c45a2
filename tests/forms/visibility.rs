//! Items and fields may be of any visibility, in any place; private types stay private.

use pytree_core::{Module, tree};

mod inner {
    use pytree_core::{Module, Pytree};

    #[derive(Module)]
    struct Hidden {
        #[param]
        factor: f32,
    }

    #[derive(Pytree)]
    pub struct Pair(pub f32, pub(crate) f32);

    #[derive(Module)]
    pub struct Shown {
        hidden: Hidden,
        #[param]
        pub(super) pair: Pair,
        #[r#static]
        pub(in crate::forms::visibility::inner) name: String,
    }

    impl Shown {
        pub fn new() -> Self {
            Self {
                hidden: Hidden { factor: 1.0 },
                pair: Pair(1.0, 2.0),
                name: String::new(),
            }
        }
    }
}

#[test]
fn visibility_is_free() {
    #[derive(Module)]
    struct Local {
        shown: inner::Shown,
    }
    let local = Local {
        shown: inner::Shown::new(),
    };
    assert_eq!(tree::leaves::<f32, _>(&local).len(), 3);
}
