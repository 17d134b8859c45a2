#[allow(clippy::all, clippy::pedantic, clippy::nursery, reason = "generated code")]
#[allow(deprecated, unused_imports, unused_qualifications, reason = "generated code")]
const _: () = {
    use ::pytree_core::__derive_0_1 as __core;
    use __core::field::Fallback as _;
    const _: &[()] = {
        type __Probe = __core::field::Probe<Vec<Linear>>;
        const __UNFIT: [::core::primitive::bool; 2usize] = [
            !(__core::field::Probe::<Vec<Linear>>::IS_MODULE
                || __core::field::Probe::<Vec<Linear>>::IS_PARAM
                || __core::field::Probe::<Vec<Linear>>::IS_STATE
                || __core::field::Probe::<Vec<Linear>>::IS_VALUE
                || __core::field::Probe::<Vec<Linear>>::IS_HASHER),
            !(__core::field::Probe::<Linear>::IS_MODULE
                || __core::field::Probe::<Linear>::IS_PARAM
                || __core::field::Probe::<Linear>::IS_STATE
                || __core::field::Probe::<Linear>::IS_VALUE
                || __core::field::Probe::<Linear>::IS_HASHER),
        ];
        &[
            <Vec<
                Linear,
            > as __core::field::ArrayNeedsKind<
                { !__Probe::IS_MODULE && __Probe::IS_PARAM && __Probe::HOLDS_ARRAYS },
            >>::CHECK,
            <Vec<
                Linear,
            > as __core::field::NumberNeedsKind<
                { !__Probe::IS_MODULE && __Probe::IS_PARAM && !__Probe::HOLDS_ARRAYS },
            >>::CHECK,
            <Vec<
                Linear,
            > as __core::field::LeafNeedsKind<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && __Probe::IS_STATE
                        && __Probe::HOLDS_ARRAYS
                },
            >>::CHECK,
            <Vec<
                Linear,
            > as __core::field::IntegerNeedsKind<
                {
                    (!__Probe::IS_MODULE && !__Probe::IS_PARAM && __Probe::IS_STATE
                        && !__Probe::HOLDS_ARRAYS)
                        || (!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __Probe::IS_SIZE)
                },
            >>::CHECK,
            <Vec<
                Linear,
            > as __core::field::StaticNeedsKind<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __Probe::IS_VALUE && !__Probe::IS_SIZE
                },
            >>::CHECK,
            <Vec<
                Linear,
            > as __core::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[0usize] && !__UNFIT[1usize]
                        && __core::field::Probe::<Vec<Linear>>::IS_COUNTED
                },
            >>::CHECK,
            <Vec<
                Linear,
            > as __core::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[0usize] && !__UNFIT[1usize]
                        && __core::field::Probe::<Vec<Linear>>::IS_CELL
                },
            >>::CHECK,
            <Linear as __core::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[1usize] && __UNFIT[0usize]
                        && __core::field::Probe::<Linear>::IS_COUNTED
                },
            >>::CHECK,
            <Linear as __core::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[1usize] && __UNFIT[0usize]
                        && __core::field::Probe::<Linear>::IS_CELL
                },
            >>::CHECK,
            <Vec<
                Linear,
            > as __core::field::FieldMixesKinds<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[0usize] && !__UNFIT[1usize]
                        && !(__core::field::Probe::<Vec<Linear>>::IS_COUNTED
                            || __core::field::Probe::<Vec<Linear>>::IS_CELL)
                        && (__core::field::Probe::<Vec<Linear>>::IS_TUPLE
                            || __core::field::Probe::<Vec<Linear>>::IS_PYTREE)
                },
            >>::CHECK,
            <Vec<
                Linear,
            > as __core::field::TypeNeedsDerive<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[0usize] && !__UNFIT[1usize]
                        && !(__core::field::Probe::<Vec<Linear>>::IS_COUNTED
                            || __core::field::Probe::<Vec<Linear>>::IS_CELL
                            || __core::field::Probe::<Vec<Linear>>::IS_TUPLE
                            || __core::field::Probe::<Vec<Linear>>::IS_PYTREE)
                },
            >>::CHECK,
            <Linear as __core::field::FieldMixesKinds<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[1usize] && __UNFIT[0usize]
                        && !(__core::field::Probe::<Linear>::IS_COUNTED
                            || __core::field::Probe::<Linear>::IS_CELL)
                        && (__core::field::Probe::<Linear>::IS_TUPLE
                            || __core::field::Probe::<Linear>::IS_PYTREE)
                },
            >>::CHECK,
            <Linear as __core::field::TypeNeedsDerive<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[1usize] && __UNFIT[0usize]
                        && !(__core::field::Probe::<Linear>::IS_COUNTED
                            || __core::field::Probe::<Linear>::IS_CELL
                            || __core::field::Probe::<Linear>::IS_TUPLE
                            || __core::field::Probe::<Linear>::IS_PYTREE)
                },
            >>::CHECK,
        ]
    };
    const _: &[()] = {
        type __Probe = __core::field::Probe<Array2<f32>>;
        const __UNFIT: [::core::primitive::bool; 2usize] = [
            !(__core::field::Probe::<Array2<f32>>::IS_MODULE
                || __core::field::Probe::<Array2<f32>>::IS_PARAM
                || __core::field::Probe::<Array2<f32>>::IS_STATE
                || __core::field::Probe::<Array2<f32>>::IS_VALUE
                || __core::field::Probe::<Array2<f32>>::IS_HASHER),
            !(__core::field::Probe::<f32>::IS_MODULE
                || __core::field::Probe::<f32>::IS_PARAM
                || __core::field::Probe::<f32>::IS_STATE
                || __core::field::Probe::<f32>::IS_VALUE
                || __core::field::Probe::<f32>::IS_HASHER),
        ];
        &[
            <Array2<
                f32,
            > as __core::field::ParamOfModule<
                { __Probe::IS_MODULE && !__Probe::IS_PARAM },
            >>::CHECK,
            <Array2<
                f32,
            > as __core::field::ParamNotFloat<
                { !__Probe::IS_MODULE && !__Probe::IS_PARAM && __Probe::IS_STATE },
            >>::CHECK,
            <Array2<
                f32,
            > as __core::field::ParamNotLeaf<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !(!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __UNFIT[0usize] && !__UNFIT[1usize]
                            && __core::field::Probe::<Array2<f32>>::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __UNFIT[0usize] && !__UNFIT[1usize]
                            && __core::field::Probe::<Array2<f32>>::IS_CELL)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __UNFIT[1usize] && __UNFIT[0usize]
                            && __core::field::Probe::<f32>::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __UNFIT[1usize] && __UNFIT[0usize]
                            && __core::field::Probe::<f32>::IS_CELL)
                },
            >>::CHECK,
            <Array2<
                f32,
            > as __core::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __UNFIT[0usize] && !__UNFIT[1usize]
                        && __core::field::Probe::<Array2<f32>>::IS_COUNTED
                },
            >>::CHECK,
            <Array2<
                f32,
            > as __core::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __UNFIT[0usize] && !__UNFIT[1usize]
                        && __core::field::Probe::<Array2<f32>>::IS_CELL
                },
            >>::CHECK,
            <f32 as __core::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __UNFIT[1usize] && __UNFIT[0usize]
                        && __core::field::Probe::<f32>::IS_COUNTED
                },
            >>::CHECK,
            <f32 as __core::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __UNFIT[1usize] && __UNFIT[0usize]
                        && __core::field::Probe::<f32>::IS_CELL
                },
            >>::CHECK,
        ]
    };
    const _: &[()] = {
        type __Probe = __core::field::Probe<u32>;
        const __UNFIT: [::core::primitive::bool; 1usize] = [
            !(__core::field::Probe::<u32>::IS_MODULE
                || __core::field::Probe::<u32>::IS_PARAM
                || __core::field::Probe::<u32>::IS_STATE
                || __core::field::Probe::<u32>::IS_VALUE
                || __core::field::Probe::<u32>::IS_HASHER),
        ];
        &[
            <u32 as __core::field::StateOfModule<
                { __Probe::IS_MODULE && !__Probe::IS_STATE },
            >>::CHECK,
            <u32 as __core::field::StateOfSize<
                { !__Probe::IS_MODULE && !__Probe::IS_STATE && __Probe::IS_SIZE },
            >>::CHECK,
            <u32 as __core::field::StateNotLeaf<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[0usize]
                            && __core::field::Probe::<u32>::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[0usize]
                            && __core::field::Probe::<u32>::IS_CELL)
                },
            >>::CHECK,
            <u32 as __core::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[0usize] && __core::field::Probe::<u32>::IS_COUNTED
                },
            >>::CHECK,
            <u32 as __core::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[0usize] && __core::field::Probe::<u32>::IS_CELL
                },
            >>::CHECK,
        ]
    };
    const _: &[()] = {
        type __Probe = __core::field::Probe<Array1<f32>>;
        const __UNFIT: [::core::primitive::bool; 2usize] = [
            !(__core::field::Probe::<Array1<f32>>::IS_MODULE
                || __core::field::Probe::<Array1<f32>>::IS_PARAM
                || __core::field::Probe::<Array1<f32>>::IS_STATE
                || __core::field::Probe::<Array1<f32>>::IS_VALUE
                || __core::field::Probe::<Array1<f32>>::IS_HASHER),
            !(__core::field::Probe::<f32>::IS_MODULE
                || __core::field::Probe::<f32>::IS_PARAM
                || __core::field::Probe::<f32>::IS_STATE
                || __core::field::Probe::<f32>::IS_VALUE
                || __core::field::Probe::<f32>::IS_HASHER),
        ];
        &[
            <Array1<
                f32,
            > as __core::field::StateOfModule<
                { __Probe::IS_MODULE && !__Probe::IS_STATE },
            >>::CHECK,
            <Array1<
                f32,
            > as __core::field::StateOfSize<
                { !__Probe::IS_MODULE && !__Probe::IS_STATE && __Probe::IS_SIZE },
            >>::CHECK,
            <Array1<
                f32,
            > as __core::field::StateNotLeaf<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[0usize] && !__UNFIT[1usize]
                            && __core::field::Probe::<Array1<f32>>::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[0usize] && !__UNFIT[1usize]
                            && __core::field::Probe::<Array1<f32>>::IS_CELL)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[1usize] && __UNFIT[0usize]
                            && __core::field::Probe::<f32>::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[1usize] && __UNFIT[0usize]
                            && __core::field::Probe::<f32>::IS_CELL)
                },
            >>::CHECK,
            <Array1<
                f32,
            > as __core::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[0usize] && !__UNFIT[1usize]
                        && __core::field::Probe::<Array1<f32>>::IS_COUNTED
                },
            >>::CHECK,
            <Array1<
                f32,
            > as __core::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[0usize] && !__UNFIT[1usize]
                        && __core::field::Probe::<Array1<f32>>::IS_CELL
                },
            >>::CHECK,
            <f32 as __core::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[1usize] && __UNFIT[0usize]
                        && __core::field::Probe::<f32>::IS_COUNTED
                },
            >>::CHECK,
            <f32 as __core::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[1usize] && __UNFIT[0usize]
                        && __core::field::Probe::<f32>::IS_CELL
                },
            >>::CHECK,
        ]
    };
    const _: &[()] = {
        type __Probe = __core::field::Probe<usize>;
        &[
            <usize as __core::field::StaticOfModule<
                {
                    !__Probe::IS_VALUE && __Probe::IS_MODULE
                        && (__core::field::Probe::<usize>::HOLDS_ARRAYS)
                },
            >>::CHECK,
            <usize as __core::field::StaticOfArrays<
                {
                    !__Probe::IS_VALUE && !__Probe::IS_MODULE
                        && (__core::field::Probe::<usize>::HOLDS_ARRAYS)
                },
            >>::CHECK,
            <usize as __core::field::StaticNotComparable<
                {
                    !__Probe::IS_VALUE && !(__core::field::Probe::<usize>::HOLDS_ARRAYS)
                        && !__Probe::IS_DEBUG
                },
            >>::CHECK,
        ]
    };
    const _: &[()] = {
        type __Probe = __core::field::Probe<String>;
        &[
            <String as __core::field::StaticOfModule<
                {
                    !__Probe::IS_VALUE && __Probe::IS_MODULE
                        && (__core::field::Probe::<String>::HOLDS_ARRAYS)
                },
            >>::CHECK,
            <String as __core::field::StaticOfArrays<
                {
                    !__Probe::IS_VALUE && !__Probe::IS_MODULE
                        && (__core::field::Probe::<String>::HOLDS_ARRAYS)
                },
            >>::CHECK,
            <String as __core::field::StaticNotComparable<
                {
                    !__Probe::IS_VALUE && !(__core::field::Probe::<String>::HOLDS_ARRAYS)
                        && !__Probe::IS_DEBUG
                },
            >>::CHECK,
        ]
    };
    #[automatically_derived]
    impl __core::field::NodeShapes for Model {
        const SHAPES: &'static [__core::shape::NodeShape] = {
            enum __Definition {}
            &[
                __core::shape::NodeShape {
                    kind: __core::shape::NodeKind::Struct,
                    name: "Model",
                    fields: &[
                        __core::shape::Field {
                            name: "layers",
                            kind: ::core::option::Option::Some(
                                __core::FieldKind::Module,
                            ),
                            axes: ::core::option::Option::None,
                        },
                        __core::shape::Field {
                            name: "weight",
                            kind: ::core::option::Option::Some(__core::FieldKind::Param),
                            axes: ::core::option::Option::None,
                        },
                        __core::shape::Field {
                            name: "steps",
                            kind: ::core::option::Option::Some(
                                __core::FieldKind::of::<__core::kind::State>(),
                            ),
                            axes: ::core::option::Option::None,
                        },
                        __core::shape::Field {
                            name: "mean",
                            kind: ::core::option::Option::Some(
                                __core::FieldKind::of_state::<BatchStat>(),
                            ),
                            axes: ::core::option::Option::None,
                        },
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
            match self {
                Self {
                    layers: __field_0,
                    weight: __field_1,
                    steps: __field_2,
                    mean: __field_3,
                    size: __field_4,
                    name: __field_5,
                } => {
                    if __visitor
                        .enter(
                            const {
                                &<Self as __core::field::NodeShapes>::SHAPES[0usize]
                            },
                            4usize,
                        ) == __core::Visit::Descend
                    {
                        __visitor
                            .aux(
                                __core::field::as_static([
                                    __core::field::Probe::<usize>::by_value(__field_4),
                                    __core::field::Probe::<usize>::by_debug(__field_4),
                                ]),
                            );
                        __visitor
                            .aux(
                                __core::field::as_static([
                                    __core::field::Probe::<String>::by_value(__field_5),
                                    __core::field::Probe::<String>::by_debug(__field_5),
                                ]),
                            );
                        __core::field::Probe::<Vec<Linear>>::visit(__field_0, __visitor);
                        __core::field::Probe::<Array2<f32>>::visit(__field_1, __visitor);
                        __core::field::Probe::<u32>::visit(__field_2, __visitor);
                        __core::field::Probe::<Array1<f32>>::visit(__field_3, __visitor);
                        __visitor.exit();
                    }
                }
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
            let __field_4 = match __core::field::Probe::<
                usize,
            >::unflatten_by_value(__source) {
                ::core::option::Option::Some(__value) => __value?,
                ::core::option::Option::None => {
                    __core::field::Probe::<usize>::unflatten_static(__source)?
                }
            };
            let __field_5 = match __core::field::Probe::<
                String,
            >::unflatten_by_value(__source) {
                ::core::option::Option::Some(__value) => __value?,
                ::core::option::Option::None => {
                    __core::field::Probe::<String>::unflatten_static(__source)?
                }
            };
            let __field_0 = __core::field::Probe::<Vec<Linear>>::unflatten(__source)?;
            let __field_1 = __core::field::Probe::<Array2<f32>>::unflatten(__source)?;
            let __field_2 = __core::field::Probe::<u32>::unflatten(__source)?;
            let __field_3 = __core::field::Probe::<Array1<f32>>::unflatten(__source)?;
            ::core::result::Result::Ok(
                __core::Unflattener::exit(
                    __source,
                    Self {
                        layers: __field_0,
                        weight: __field_1,
                        steps: __field_2,
                        mean: __field_3,
                        size: __field_4,
                        name: __field_5,
                    },
                ),
            )
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
        #[allow(unused_variables, reason = "an item may have no children")]
        fn each_leaf<'__a, __F: ::core::ops::FnMut(&'__a __L)>(
            &'__a self,
            __visit: &mut __F,
        ) {
            match self {
                Self {
                    layers: __field_0,
                    weight: __field_1,
                    steps: __field_2,
                    mean: __field_3,
                    size: __field_4,
                    name: __field_5,
                } => {
                    <Vec<
                        Linear,
                    > as __core::PytreeOf<__L>>::each_leaf(__field_0, __visit);
                    <Array2<
                        f32,
                    > as __core::PytreeOf<__L>>::each_leaf(__field_1, __visit);
                    <u32 as __core::PytreeOf<__L>>::each_leaf(__field_2, __visit);
                    <Array1<
                        f32,
                    > as __core::PytreeOf<__L>>::each_leaf(__field_3, __visit);
                }
            }
        }
        #[inline]
        #[allow(unused_variables, reason = "an item may have no children")]
        fn each_pair<'__a, __F: ::core::ops::FnMut(&'__a __L, &'__a __L)>(
            &'__a self,
            __other: &'__a Self,
            __visit: &mut __F,
        ) -> ::core::primitive::bool {
            match (self, __other) {
                (
                    Self {
                        layers: __field_0,
                        weight: __field_1,
                        steps: __field_2,
                        mean: __field_3,
                        size: __field_4,
                        name: __field_5,
                    },
                    Self {
                        layers: __field_0_other,
                        weight: __field_1_other,
                        steps: __field_2_other,
                        mean: __field_3_other,
                        size: __field_4_other,
                        name: __field_5_other,
                    },
                ) => {
                    true
                        && <Vec<
                            Linear,
                        > as __core::PytreeOf<
                            __L,
                        >>::each_pair(__field_0, __field_0_other, __visit)
                        && <Array2<
                            f32,
                        > as __core::PytreeOf<
                            __L,
                        >>::each_pair(__field_1, __field_1_other, __visit)
                        && <u32 as __core::PytreeOf<
                            __L,
                        >>::each_pair(__field_2, __field_2_other, __visit)
                        && <Array1<
                            f32,
                        > as __core::PytreeOf<
                            __L,
                        >>::each_pair(__field_3, __field_3_other, __visit)
                        && __core::field::as_static([
                            __core::field::Probe::<usize>::by_value(__field_4),
                            __core::field::Probe::<usize>::by_debug(__field_4),
                        ])
                            == __core::field::as_static([
                                __core::field::Probe::<usize>::by_value(__field_4_other),
                                __core::field::Probe::<usize>::by_debug(__field_4_other),
                            ])
                        && __core::field::as_static([
                            __core::field::Probe::<String>::by_value(__field_5),
                            __core::field::Probe::<String>::by_debug(__field_5),
                        ])
                            == __core::field::as_static([
                                __core::field::Probe::<String>::by_value(__field_5_other),
                                __core::field::Probe::<String>::by_debug(__field_5_other),
                            ])
                }
            }
        }
        #[inline]
        #[allow(unused_variables, reason = "an item may have no children")]
        fn map_leaves<__F: ::core::ops::FnMut(&__L) -> __L>(
            &self,
            __function: &mut __F,
        ) -> Self {
            match self {
                Self {
                    layers: __field_0,
                    weight: __field_1,
                    steps: __field_2,
                    mean: __field_3,
                    size: __field_4,
                    name: __field_5,
                } => {
                    let __field_0 = <Vec<
                        Linear,
                    > as __core::PytreeOf<__L>>::map_leaves(__field_0, __function);
                    let __field_1 = <Array2<
                        f32,
                    > as __core::PytreeOf<__L>>::map_leaves(__field_1, __function);
                    let __field_2 = <u32 as __core::PytreeOf<
                        __L,
                    >>::map_leaves(__field_2, __function);
                    let __field_3 = <Array1<
                        f32,
                    > as __core::PytreeOf<__L>>::map_leaves(__field_3, __function);
                    let __field_4 = __core::field::Probe::<
                        usize,
                    >::clone_static(__field_4);
                    let __field_5 = __core::field::Probe::<
                        String,
                    >::clone_static(__field_5);
                    Self {
                        layers: __field_0,
                        weight: __field_1,
                        steps: __field_2,
                        mean: __field_3,
                        size: __field_4,
                        name: __field_5,
                    }
                }
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
            match self {
                Self { size: __field_4, .. } => {
                    __core::axes::Scope::number(__scope, "size", *__field_4);
                }
            }
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
