#[allow(clippy::all, clippy::pedantic, clippy::nursery, reason = "generated code")]
#[allow(deprecated, unused_imports, unused_qualifications, reason = "generated code")]
const _: () = {
    use ::pytree_core::__derive_0_1 as __core;
    use __core::field::Fallback as _;
    const _: &[()] = {
        type __Probe = __core::field::Probe<Linear>;
        const __UNFIT: [::core::primitive::bool; 1usize] = [
            !(__core::field::Probe::<Linear>::IS_MODULE
                || __core::field::Probe::<Linear>::IS_PARAM
                || __core::field::Probe::<Linear>::IS_STATE
                || __core::field::Probe::<Linear>::IS_VALUE
                || __core::field::Probe::<Linear>::IS_HASHER),
        ];
        &[
            <Linear as __core::field::ArrayNeedsKind<
                { !__Probe::IS_MODULE && __Probe::IS_PARAM && __Probe::HOLDS_ARRAYS },
            >>::CHECK,
            <Linear as __core::field::NumberNeedsKind<
                { !__Probe::IS_MODULE && __Probe::IS_PARAM && !__Probe::HOLDS_ARRAYS },
            >>::CHECK,
            <Linear as __core::field::LeafNeedsKind<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && __Probe::IS_STATE
                        && __Probe::HOLDS_ARRAYS
                },
            >>::CHECK,
            <Linear as __core::field::IntegerNeedsKind<
                {
                    (!__Probe::IS_MODULE && !__Probe::IS_PARAM && __Probe::IS_STATE
                        && !__Probe::HOLDS_ARRAYS)
                        || (!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __Probe::IS_SIZE)
                },
            >>::CHECK,
            <Linear as __core::field::StaticNeedsKind<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __Probe::IS_VALUE && !__Probe::IS_SIZE
                },
            >>::CHECK,
            <Linear as __core::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[0usize]
                        && __core::field::Probe::<Linear>::IS_COUNTED
                },
            >>::CHECK,
            <Linear as __core::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[0usize]
                        && __core::field::Probe::<Linear>::IS_CELL
                },
            >>::CHECK,
            <Linear as __core::field::FieldMixesKinds<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[0usize]
                        && !(__core::field::Probe::<Linear>::IS_COUNTED
                            || __core::field::Probe::<Linear>::IS_CELL)
                        && (__core::field::Probe::<Linear>::IS_TUPLE
                            || __core::field::Probe::<Linear>::IS_PYTREE)
                },
            >>::CHECK,
            <Linear as __core::field::TypeNeedsDerive<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[0usize]
                        && !(__core::field::Probe::<Linear>::IS_COUNTED
                            || __core::field::Probe::<Linear>::IS_CELL
                            || __core::field::Probe::<Linear>::IS_TUPLE
                            || __core::field::Probe::<Linear>::IS_PYTREE)
                },
            >>::CHECK,
        ]
    };
    const _: &[()] = {
        type __Probe = __core::field::Probe<f32>;
        const __UNFIT: [::core::primitive::bool; 1usize] = [
            !(__core::field::Probe::<f32>::IS_MODULE
                || __core::field::Probe::<f32>::IS_PARAM
                || __core::field::Probe::<f32>::IS_STATE
                || __core::field::Probe::<f32>::IS_VALUE
                || __core::field::Probe::<f32>::IS_HASHER),
        ];
        &[
            <f32 as __core::field::ParamOfModule<
                { __Probe::IS_MODULE && !__Probe::IS_PARAM },
            >>::CHECK,
            <f32 as __core::field::ParamNotFloat<
                { !__Probe::IS_MODULE && !__Probe::IS_PARAM && __Probe::IS_STATE },
            >>::CHECK,
            <f32 as __core::field::ParamNotLeaf<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !(!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __UNFIT[0usize]
                            && __core::field::Probe::<f32>::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __UNFIT[0usize]
                            && __core::field::Probe::<f32>::IS_CELL)
                },
            >>::CHECK,
            <f32 as __core::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __UNFIT[0usize] && __core::field::Probe::<f32>::IS_COUNTED
                },
            >>::CHECK,
            <f32 as __core::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __UNFIT[0usize] && __core::field::Probe::<f32>::IS_CELL
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
    impl __core::field::NodeShapes for Layer {
        const SHAPES: &'static [__core::shape::NodeShape] = {
            enum __Definition {}
            &[
                __core::shape::NodeShape {
                    kind: __core::shape::NodeKind::Struct,
                    name: "Layer::Identity",
                    fields: &[],
                    statics: &[],
                    constants: &[],
                    identity: ::core::any::TypeId::of::<__Definition>,
                    type_name: ::core::any::type_name::<Self>,
                },
                __core::shape::NodeShape {
                    kind: __core::shape::NodeKind::TupleStruct,
                    name: "Layer::Linear",
                    fields: &[
                        __core::shape::Field {
                            name: "0",
                            kind: ::core::option::Option::Some(
                                __core::FieldKind::Module,
                            ),
                            axes: ::core::option::Option::None,
                        },
                    ],
                    statics: &[],
                    constants: &[],
                    identity: ::core::any::TypeId::of::<__Definition>,
                    type_name: ::core::any::type_name::<Self>,
                },
                __core::shape::NodeShape {
                    kind: __core::shape::NodeKind::Struct,
                    name: "Layer::Scale",
                    fields: &[
                        __core::shape::Field {
                            name: "factor",
                            kind: ::core::option::Option::Some(__core::FieldKind::Param),
                            axes: ::core::option::Option::None,
                        },
                    ],
                    statics: &["name"],
                    constants: &[],
                    identity: ::core::any::TypeId::of::<__Definition>,
                    type_name: ::core::any::type_name::<Self>,
                },
            ]
        };
    }
    #[automatically_derived]
    impl __core::Pytree for Layer {
        fn visit<'__a>(&'__a self, __visitor: &mut dyn __core::Visitor<'__a>) {
            match self {
                Self::Identity {} => {
                    if __visitor
                        .enter(
                            const {
                                &<Self as __core::field::NodeShapes>::SHAPES[0usize]
                            },
                            0usize,
                        ) == __core::Visit::Descend
                    {
                        __visitor.exit();
                    }
                }
                Self::Linear { 0: __field_0 } => {
                    if __visitor
                        .enter(
                            const {
                                &<Self as __core::field::NodeShapes>::SHAPES[1usize]
                            },
                            1usize,
                        ) == __core::Visit::Descend
                    {
                        __core::field::Probe::<Linear>::visit(__field_0, __visitor);
                        __visitor.exit();
                    }
                }
                Self::Scale { factor: __field_0, name: __field_1 } => {
                    if __visitor
                        .enter(
                            const {
                                &<Self as __core::field::NodeShapes>::SHAPES[2usize]
                            },
                            1usize,
                        ) == __core::Visit::Descend
                    {
                        __visitor
                            .aux(
                                __core::field::as_static([
                                    __core::field::Probe::<String>::by_value(__field_1),
                                    __core::field::Probe::<String>::by_debug(__field_1),
                                ]),
                            );
                        __core::field::Probe::<f32>::visit(__field_0, __visitor);
                        __visitor.exit();
                    }
                }
            }
        }
        fn unflatten(
            __source: &mut __core::Unflattener<'_>,
        ) -> ::core::result::Result<Self, __core::TreeError> {
            if __source
                .is_next(const { &<Self as __core::field::NodeShapes>::SHAPES[0usize] })
            {
                return {
                    __source
                        .enter_fixed(
                            const {
                                &<Self as __core::field::NodeShapes>::SHAPES[0usize]
                            },
                            0usize,
                        )?;
                    ::core::result::Result::Ok(
                        __core::Unflattener::exit(__source, Self::Identity {}),
                    )
                };
            }
            if __source
                .is_next(const { &<Self as __core::field::NodeShapes>::SHAPES[1usize] })
            {
                return {
                    __source
                        .enter_fixed(
                            const {
                                &<Self as __core::field::NodeShapes>::SHAPES[1usize]
                            },
                            1usize,
                        )?;
                    let __field_0 = __core::field::Probe::<Linear>::unflatten(__source)?;
                    ::core::result::Result::Ok(
                        __core::Unflattener::exit(
                            __source,
                            Self::Linear { 0: __field_0 },
                        ),
                    )
                };
            }
            if __source
                .is_next(const { &<Self as __core::field::NodeShapes>::SHAPES[2usize] })
            {
                return {
                    __source
                        .enter_fixed(
                            const {
                                &<Self as __core::field::NodeShapes>::SHAPES[2usize]
                            },
                            1usize,
                        )?;
                    let __field_1 = match __core::field::Probe::<
                        String,
                    >::unflatten_by_value(__source) {
                        ::core::option::Option::Some(__value) => __value?,
                        ::core::option::Option::None => {
                            __core::field::Probe::<String>::unflatten_static(__source)?
                        }
                    };
                    let __field_0 = __core::field::Probe::<f32>::unflatten(__source)?;
                    ::core::result::Result::Ok(
                        __core::Unflattener::exit(
                            __source,
                            Self::Scale {
                                factor: __field_0,
                                name: __field_1,
                            },
                        ),
                    )
                };
            }
            ::core::result::Result::Err(
                __core::Unflattener::wrong_node(
                    __source,
                    ::core::any::type_name::<Self>(),
                ),
            )
        }
    }
    #[automatically_derived]
    impl<__L: __core::Leaf + ::core::clone::Clone> __core::PytreeOf<__L> for Layer
    where
        for<'__a> Linear: __core::PytreeOf<__L>,
        for<'__a> f32: __core::PytreeOf<__L>,
    {
        #[inline]
        fn __is_plain() -> ::core::primitive::bool {
            true && <Linear as __core::PytreeOf<__L>>::__is_plain()
                && <f32 as __core::PytreeOf<__L>>::__is_plain()
        }
        #[inline]
        #[allow(unused_variables, reason = "an item may have no children")]
        fn each_leaf<'__a, __F: ::core::ops::FnMut(&'__a __L)>(
            &'__a self,
            __visit: &mut __F,
        ) {
            match self {
                Self::Identity {} => {}
                Self::Linear { 0: __field_0 } => {
                    <Linear as __core::PytreeOf<__L>>::each_leaf(__field_0, __visit);
                }
                Self::Scale { factor: __field_0, name: __field_1 } => {
                    <f32 as __core::PytreeOf<__L>>::each_leaf(__field_0, __visit);
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
                (Self::Identity {}, Self::Identity {}) => true,
                (Self::Linear { 0: __field_0 }, Self::Linear { 0: __field_0_other }) => {
                    true
                        && <Linear as __core::PytreeOf<
                            __L,
                        >>::each_pair(__field_0, __field_0_other, __visit)
                }
                (
                    Self::Scale { factor: __field_0, name: __field_1 },
                    Self::Scale { factor: __field_0_other, name: __field_1_other },
                ) => {
                    true
                        && <f32 as __core::PytreeOf<
                            __L,
                        >>::each_pair(__field_0, __field_0_other, __visit)
                        && __core::field::as_static([
                            __core::field::Probe::<String>::by_value(__field_1),
                            __core::field::Probe::<String>::by_debug(__field_1),
                        ])
                            == __core::field::as_static([
                                __core::field::Probe::<String>::by_value(__field_1_other),
                                __core::field::Probe::<String>::by_debug(__field_1_other),
                            ])
                }
                _ => false,
            }
        }
        #[inline]
        #[allow(unused_variables, reason = "an item may have no children")]
        fn map_leaves<__F: ::core::ops::FnMut(&__L) -> __L>(
            &self,
            __function: &mut __F,
        ) -> Self {
            match self {
                Self::Identity {} => Self::Identity {},
                Self::Linear { 0: __field_0 } => {
                    let __field_0 = <Linear as __core::PytreeOf<
                        __L,
                    >>::map_leaves(__field_0, __function);
                    Self::Linear { 0: __field_0 }
                }
                Self::Scale { factor: __field_0, name: __field_1 } => {
                    let __field_0 = <f32 as __core::PytreeOf<
                        __L,
                    >>::map_leaves(__field_0, __function);
                    let __field_1 = __core::field::Probe::<
                        String,
                    >::clone_static(__field_1);
                    Self::Scale {
                        factor: __field_0,
                        name: __field_1,
                    }
                }
            }
        }
    }
    #[automatically_derived]
    impl<__L: __core::Leaf + ::core::clone::Clone> __core::SelectPart<__L> for Layer
    where
        for<'__a> Linear: __core::PytreeOf<__L>,
        for<'__a> f32: __core::PytreeOf<__L>,
    {
        type Part = __core::Partition<Self, __L>;
        fn select_part(
            __tree: __core::Tree<__L>,
        ) -> ::core::result::Result<Self::Part, __core::TreeError> {
            __core::select_partition(__tree)
        }
    }
    #[automatically_derived]
    impl __core::axes::NamedAxes for Layer {
        fn bind_axes(&self, __scope: &mut __core::axes::Scope) {
            match self {
                Self::Identity { .. } => {}
                Self::Linear { .. } => {}
                Self::Scale { .. } => {}
            }
        }
    }
    #[automatically_derived]
    impl __core::field::ModuleField for Layer {}
    #[automatically_derived]
    impl __core::field::HoldsArrays for Layer {}
    #[automatically_derived]
    impl __core::Module for Layer {
        fn registry(&self) -> __core::Registry<'_> {
            match self {
                Self::Identity { .. } => __core::Registry::Borrowed(const { &[] }),
                Self::Linear { .. } => {
                    __core::Registry::Borrowed(const {
                        &[("0", __core::FieldKind::Module)]
                    })
                }
                Self::Scale { .. } => {
                    __core::Registry::Borrowed(const {
                        &[
                            ("factor", __core::FieldKind::Param),
                            ("name", __core::FieldKind::Static),
                        ]
                    })
                }
            }
        }
    }
    #[automatically_derived]
    impl __core::ModuleType for Layer {
        const REGISTRY: &'static [(
            &'static ::core::primitive::str,
            __core::FieldKind,
        )] = &[];
    }
};
