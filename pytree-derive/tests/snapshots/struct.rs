#[allow(clippy::all, clippy::pedantic, clippy::nursery, reason = "generated code")]
#[allow(
    deprecated,
    unused_imports,
    unused_qualifications,
    unused_variables,
    reason = "generated code"
)]
const _: () = {
    use ::pytree_core::__derive_0_1 as __core;
    use __core::field::{Fallback as _, StaticFallback as _};
    __core::check_field! {
        Module 2usize : 0usize Plain 0usize Vec < Linear > [ArrayNeedsKind
        NumberNeedsKind LeafNeedsKind IntegerNeedsKind StaticNeedsKind CountedNeedsShared
        CellNeedsRef FieldMixesKinds TypeNeedsDerive], 1usize Plain 0usize
        Linear[CountedNeedsShared CellNeedsRef FieldMixesKinds TypeNeedsDerive]
    }
    __core::check_field! {
        Param 2usize : 0usize Plain 0usize Array2 < f32 > [ParamOfModule ParamNotFloat
        ParamNotLeaf CountedNeedsShared CellNeedsRef], 1usize Plain 0usize
        f32[CountedNeedsShared CellNeedsRef]
    }
    __core::check_field! {
        State 1usize : 0usize Plain 0usize u32[StateOfModule StateOfSize StateNotLeaf
        CountedNeedsShared CellNeedsRef]
    }
    __core::check_field! {
        State 2usize : 0usize Plain 0usize Array1 < f32 > [StateOfModule StateOfSize
        StateNotLeaf CountedNeedsShared CellNeedsRef], 1usize Plain 0usize
        f32[CountedNeedsShared CellNeedsRef]
    }
    __core::check_field! {
        Static 1usize : 0usize Plain 0usize usize[StaticOfModule StaticOfArrays
        StaticNotComparable]
    }
    __core::check_field! {
        Static 1usize : 0usize Plain 0usize String[StaticOfModule StaticOfArrays
        StaticNotComparable]
    }
    #[automatically_derived]
    impl __core::field::NodeShapes for Model {
        const SHAPES: &'static [__core::shape::NodeShape] = {
            enum __Definition {}
            &[
                __core::shape::NodeShape {
                    kind: __core::shape::NodeKind::Struct,
                    name: "Model",
                    fields: &[
                        __core::shape::Field::new("layers", __core::FieldKind::Module),
                        __core::shape::Field::new("weight", __core::FieldKind::Param),
                        __core::shape::Field::new(
                            "steps",
                            __core::FieldKind::of::<__core::kind::State>(),
                        ),
                        __core::shape::Field::new(
                            "mean",
                            __core::FieldKind::of_state::<BatchStat>(),
                        ),
                    ],
                    statics: &["size", "name"],
                    constants: &[],
                    identity: ::core::any::TypeId::of::<__Definition>,
                    type_name: ::core::any::type_name::<Self>,
                },
            ]
        };
    }
    #[automatically_derived]
    impl __core::Pytree for Model {
        fn visit<'__a>(&'__a self, __visitor: &mut dyn __core::Visitor<'__a>) {
            if __visitor
                .enter(
                    const { &<Self as __core::field::NodeShapes>::SHAPES[0usize] },
                    4usize,
                ) == __core::Visit::Descend
            {
                __visitor
                    .aux(__core::field::Probe::<usize>::NEW.__as_static(&self.size));
                __visitor
                    .aux(__core::field::Probe::<String>::NEW.__as_static(&self.name));
                __core::field::Probe::<Vec<Linear>>::visit(&self.layers, __visitor);
                __core::field::Probe::<Array2<f32>>::visit(&self.weight, __visitor);
                __core::field::Probe::<u32>::visit(&self.steps, __visitor);
                __core::field::Probe::<Array1<f32>>::visit(&self.mean, __visitor);
                __visitor.exit();
            }
        }
        fn unflatten(
            __source: &mut __core::Unflattener<'_>,
        ) -> ::core::result::Result<Self, __core::TreeError> {
            __source
                .enter_fixed(
                    const { &<Self as __core::field::NodeShapes>::SHAPES[0usize] },
                    4usize,
                )?;
            let __built = Self {
                size: __core::field::Probe::<usize>::NEW.__read_static(__source)?,
                name: __core::field::Probe::<String>::NEW.__read_static(__source)?,
                layers: __core::field::Probe::<Vec<Linear>>::unflatten(__source)?,
                weight: __core::field::Probe::<Array2<f32>>::unflatten(__source)?,
                steps: __core::field::Probe::<u32>::unflatten(__source)?,
                mean: __core::field::Probe::<Array1<f32>>::unflatten(__source)?,
            };
            ::core::result::Result::Ok(__core::Unflattener::exit(__source, __built))
        }
    }
    #[automatically_derived]
    impl<__L: __core::Leaf + ::core::clone::Clone> __core::PytreeOf<__L> for Model
    where
        for<'__a> Vec<Linear>: __core::PytreeOf<__L>,
        for<'__a> Array2<f32>: __core::PytreeOf<__L>,
        for<'__a> u32: __core::PytreeOf<__L>,
        for<'__a> Array1<f32>: __core::PytreeOf<__L>,
    {
        #[inline]
        fn __is_plain() -> ::core::primitive::bool {
            true && <Vec<Linear> as __core::PytreeOf<__L>>::__is_plain()
                && <Array2<f32> as __core::PytreeOf<__L>>::__is_plain()
                && <u32 as __core::PytreeOf<__L>>::__is_plain()
                && <Array1<f32> as __core::PytreeOf<__L>>::__is_plain()
        }
        #[inline]
        fn each_leaf<'__a, __F: ::core::ops::FnMut(&'__a __L)>(
            &'__a self,
            __visit: &mut __F,
        ) {
            <Vec<Linear> as __core::PytreeOf<__L>>::each_leaf(&self.layers, __visit);
            <Array2<f32> as __core::PytreeOf<__L>>::each_leaf(&self.weight, __visit);
            <u32 as __core::PytreeOf<__L>>::each_leaf(&self.steps, __visit);
            <Array1<f32> as __core::PytreeOf<__L>>::each_leaf(&self.mean, __visit);
        }
        #[inline]
        fn each_pair<'__a, __F: ::core::ops::FnMut(&'__a __L, &'__a __L)>(
            &'__a self,
            __other: &'__a Self,
            __visit: &mut __F,
        ) -> ::core::primitive::bool {
            true
                && <Vec<
                    Linear,
                > as __core::PytreeOf<
                    __L,
                >>::each_pair(&self.layers, &__other.layers, __visit)
                && <Array2<
                    f32,
                > as __core::PytreeOf<
                    __L,
                >>::each_pair(&self.weight, &__other.weight, __visit)
                && <u32 as __core::PytreeOf<
                    __L,
                >>::each_pair(&self.steps, &__other.steps, __visit)
                && <Array1<
                    f32,
                > as __core::PytreeOf<
                    __L,
                >>::each_pair(&self.mean, &__other.mean, __visit)
                && __core::field::Probe::<usize>::NEW.__as_static(&self.size)
                    == __core::field::Probe::<usize>::NEW.__as_static(&__other.size)
                && __core::field::Probe::<String>::NEW.__as_static(&self.name)
                    == __core::field::Probe::<String>::NEW.__as_static(&__other.name)
        }
        #[inline]
        fn map_leaves<__F: ::core::ops::FnMut(&__L) -> __L>(
            &self,
            __function: &mut __F,
        ) -> Self {
            Self {
                layers: <Vec<
                    Linear,
                > as __core::PytreeOf<__L>>::map_leaves(&self.layers, __function),
                weight: <Array2<
                    f32,
                > as __core::PytreeOf<__L>>::map_leaves(&self.weight, __function),
                steps: <u32 as __core::PytreeOf<
                    __L,
                >>::map_leaves(&self.steps, __function),
                mean: <Array1<
                    f32,
                > as __core::PytreeOf<__L>>::map_leaves(&self.mean, __function),
                size: __core::field::Probe::<usize>::clone_static(&self.size),
                name: __core::field::Probe::<String>::clone_static(&self.name),
            }
        }
    }
    #[automatically_derived]
    impl<__L: __core::Leaf + ::core::clone::Clone> __core::SelectPart<__L> for Model
    where
        for<'__a> Vec<Linear>: __core::PytreeOf<__L>,
        for<'__a> Array2<f32>: __core::PytreeOf<__L>,
        for<'__a> u32: __core::PytreeOf<__L>,
        for<'__a> Array1<f32>: __core::PytreeOf<__L>,
    {
        type Part = __core::Partition<Self, __L>;
        fn select_part(
            __tree: __core::Tree<__L>,
        ) -> ::core::result::Result<Self::Part, __core::TreeError> {
            __core::select_partition(__tree)
        }
    }
    #[automatically_derived]
    impl __core::axes::NamedAxes for Model {
        fn bind_axes(&self, __scope: &mut __core::axes::Scope) {
            __core::axes::Scope::number(__scope, "size", *&self.size);
        }
    }
    #[automatically_derived]
    impl __core::axes::BindsAxis<1936292453u128> for Model {}
    #[automatically_derived]
    impl __core::field::ModuleField for Model {}
    #[automatically_derived]
    impl __core::field::HoldsArrays for Model {}
    #[automatically_derived]
    impl __core::Module for Model {
        fn registry(&self) -> __core::Registry<'_> {
            __core::Registry::Borrowed(<Self as __core::ModuleType>::REGISTRY)
        }
    }
    #[automatically_derived]
    impl __core::ModuleType for Model {
        const REGISTRY: &'static [(
            &'static ::core::primitive::str,
            __core::FieldKind,
        )] = &[
            ("layers", __core::FieldKind::Module),
            ("weight", __core::FieldKind::Param),
            ("steps", __core::FieldKind::of::<__core::kind::State>()),
            ("mean", __core::FieldKind::of::<BatchStat>()),
            ("size", __core::FieldKind::Static),
            ("name", __core::FieldKind::Static),
        ];
    }
};
