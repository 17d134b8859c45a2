#[allow(clippy::all, clippy::pedantic, clippy::nursery, reason = "generated code")]
#[allow(deprecated, unused_imports, unused_qualifications, reason = "generated code")]
const _: () = {
    use ::pytree_core::__derive_0_1::field::Fallback as _;
    const _: &[()] = {
        type __Probe = ::pytree_core::__derive_0_1::field::Probe<Linear>;
        const __UNFIT: [bool; 1usize] = [
            !(::pytree_core::__derive_0_1::field::Probe::<Linear>::IS_MODULE
                || ::pytree_core::__derive_0_1::field::Probe::<Linear>::IS_PARAM
                || ::pytree_core::__derive_0_1::field::Probe::<Linear>::IS_STATE
                || ::pytree_core::__derive_0_1::field::Probe::<Linear>::IS_VALUE
                || ::pytree_core::__derive_0_1::field::Probe::<Linear>::IS_HASHER),
        ];
        &[
            <Linear as ::pytree_core::__derive_0_1::field::ArrayNeedsKind<
                { !__Probe::IS_MODULE && __Probe::IS_PARAM && __Probe::HOLDS_ARRAYS },
            >>::CHECK,
            <Linear as ::pytree_core::__derive_0_1::field::NumberNeedsKind<
                { !__Probe::IS_MODULE && __Probe::IS_PARAM && !__Probe::HOLDS_ARRAYS },
            >>::CHECK,
            <Linear as ::pytree_core::__derive_0_1::field::LeafNeedsKind<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && __Probe::IS_STATE
                        && __Probe::HOLDS_ARRAYS
                },
            >>::CHECK,
            <Linear as ::pytree_core::__derive_0_1::field::IntegerNeedsKind<
                {
                    (!__Probe::IS_MODULE && !__Probe::IS_PARAM && __Probe::IS_STATE
                        && !__Probe::HOLDS_ARRAYS)
                        || (!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __Probe::IS_SIZE)
                },
            >>::CHECK,
            <Linear as ::pytree_core::__derive_0_1::field::StaticNeedsKind<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __Probe::IS_VALUE && !__Probe::IS_SIZE
                },
            >>::CHECK,
            <Linear as ::pytree_core::__derive_0_1::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[0usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<
                            Linear,
                        >::IS_COUNTED
                },
            >>::CHECK,
            <Linear as ::pytree_core::__derive_0_1::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[0usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<Linear>::IS_CELL
                },
            >>::CHECK,
            <Linear as ::pytree_core::__derive_0_1::field::FieldMixesKinds<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[0usize]
                        && !(::pytree_core::__derive_0_1::field::Probe::<
                            Linear,
                        >::IS_COUNTED
                            || ::pytree_core::__derive_0_1::field::Probe::<
                                Linear,
                            >::IS_CELL)
                        && (::pytree_core::__derive_0_1::field::Probe::<Linear>::IS_TUPLE
                            || ::pytree_core::__derive_0_1::field::Probe::<
                                Linear,
                            >::IS_PYTREE)
                },
            >>::CHECK,
            <Linear as ::pytree_core::__derive_0_1::field::TypeNeedsDerive<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[0usize]
                        && !(::pytree_core::__derive_0_1::field::Probe::<
                            Linear,
                        >::IS_COUNTED
                            || ::pytree_core::__derive_0_1::field::Probe::<
                                Linear,
                            >::IS_CELL
                            || ::pytree_core::__derive_0_1::field::Probe::<
                                Linear,
                            >::IS_TUPLE
                            || ::pytree_core::__derive_0_1::field::Probe::<
                                Linear,
                            >::IS_PYTREE)
                },
            >>::CHECK,
        ]
    };
    const _: &[()] = {
        type __Probe = ::pytree_core::__derive_0_1::field::Probe<f32>;
        const __UNFIT: [bool; 1usize] = [
            !(::pytree_core::__derive_0_1::field::Probe::<f32>::IS_MODULE
                || ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_PARAM
                || ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_STATE
                || ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_VALUE
                || ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_HASHER),
        ];
        &[
            <f32 as ::pytree_core::__derive_0_1::field::ParamOfModule<
                { __Probe::IS_MODULE && !__Probe::IS_PARAM },
            >>::CHECK,
            <f32 as ::pytree_core::__derive_0_1::field::ParamNotFloat<
                { !__Probe::IS_MODULE && !__Probe::IS_PARAM && __Probe::IS_STATE },
            >>::CHECK,
            <f32 as ::pytree_core::__derive_0_1::field::ParamNotLeaf<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !(!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __UNFIT[0usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<
                                f32,
                            >::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __UNFIT[0usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_CELL)
                },
            >>::CHECK,
            <f32 as ::pytree_core::__derive_0_1::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __UNFIT[0usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_COUNTED
                },
            >>::CHECK,
            <f32 as ::pytree_core::__derive_0_1::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __UNFIT[0usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_CELL
                },
            >>::CHECK,
        ]
    };
    const _: &[()] = {
        type __Probe = ::pytree_core::__derive_0_1::field::Probe<String>;
        &[
            <String as ::pytree_core::__derive_0_1::field::StaticOfModule<
                {
                    !__Probe::IS_VALUE && __Probe::IS_MODULE
                        && (::pytree_core::__derive_0_1::field::Probe::<
                            String,
                        >::HOLDS_ARRAYS)
                },
            >>::CHECK,
            <String as ::pytree_core::__derive_0_1::field::StaticOfArrays<
                {
                    !__Probe::IS_VALUE && !__Probe::IS_MODULE
                        && (::pytree_core::__derive_0_1::field::Probe::<
                            String,
                        >::HOLDS_ARRAYS)
                },
            >>::CHECK,
            <String as ::pytree_core::__derive_0_1::field::StaticNotComparable<
                {
                    !__Probe::IS_VALUE
                        && !(::pytree_core::__derive_0_1::field::Probe::<
                            String,
                        >::HOLDS_ARRAYS) && !__Probe::IS_DEBUG
                },
            >>::CHECK,
        ]
    };
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::field::NodeShapes for Layer {
        const SHAPES: &'static [::pytree_core::__derive_0_1::shape::NodeShape] = {
            enum __Definition {}
            &[
                ::pytree_core::__derive_0_1::shape::NodeShape {
                    kind: ::pytree_core::__derive_0_1::shape::NodeKind::Struct,
                    name: "Layer::Identity",
                    fields: &[],
                    statics: &[],
                    constants: &[],
                    identity: ::core::any::TypeId::of::<__Definition>,
                    type_name: ::core::any::type_name::<Self>,
                },
                ::pytree_core::__derive_0_1::shape::NodeShape {
                    kind: ::pytree_core::__derive_0_1::shape::NodeKind::TupleStruct,
                    name: "Layer::Linear",
                    fields: &[
                        ::pytree_core::__derive_0_1::shape::Field {
                            name: "0",
                            kind: ::core::option::Option::Some(
                                ::pytree_core::__derive_0_1::FieldKind::Module,
                            ),
                            axes: ::core::option::Option::None,
                        },
                    ],
                    statics: &[],
                    constants: &[],
                    identity: ::core::any::TypeId::of::<__Definition>,
                    type_name: ::core::any::type_name::<Self>,
                },
                ::pytree_core::__derive_0_1::shape::NodeShape {
                    kind: ::pytree_core::__derive_0_1::shape::NodeKind::Struct,
                    name: "Layer::Scale",
                    fields: &[
                        ::pytree_core::__derive_0_1::shape::Field {
                            name: "factor",
                            kind: ::core::option::Option::Some(
                                ::pytree_core::__derive_0_1::FieldKind::Param,
                            ),
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
    impl ::pytree_core::__derive_0_1::Pytree for Layer {
        fn visit<'__a>(
            &'__a self,
            __visitor: &mut dyn ::pytree_core::__derive_0_1::Visitor<'__a>,
        ) {
            match self {
                Self::Identity {} => {
                    if __visitor
                        .enter(
                            const {
                                &<Self as ::pytree_core::__derive_0_1::field::NodeShapes>::SHAPES[0usize]
                            },
                            0usize,
                        ) == ::pytree_core::__derive_0_1::Visit::Descend
                    {
                        __visitor.exit();
                    }
                }
                Self::Linear { 0: __field_0 } => {
                    if __visitor
                        .enter(
                            const {
                                &<Self as ::pytree_core::__derive_0_1::field::NodeShapes>::SHAPES[1usize]
                            },
                            1usize,
                        ) == ::pytree_core::__derive_0_1::Visit::Descend
                    {
                        ::pytree_core::__derive_0_1::field::Probe::<
                            Linear,
                        >::visit(__field_0, __visitor);
                        __visitor.exit();
                    }
                }
                Self::Scale { factor: __field_0, name: __field_1 } => {
                    if __visitor
                        .enter(
                            const {
                                &<Self as ::pytree_core::__derive_0_1::field::NodeShapes>::SHAPES[2usize]
                            },
                            1usize,
                        ) == ::pytree_core::__derive_0_1::Visit::Descend
                    {
                        __visitor
                            .aux(
                                ::pytree_core::__derive_0_1::field::as_static([
                                    ::pytree_core::__derive_0_1::field::Probe::<
                                        String,
                                    >::by_value(__field_1),
                                    ::pytree_core::__derive_0_1::field::Probe::<
                                        String,
                                    >::by_debug(__field_1),
                                ]),
                            );
                        ::pytree_core::__derive_0_1::field::Probe::<
                            f32,
                        >::visit(__field_0, __visitor);
                        __visitor.exit();
                    }
                }
            }
        }
        fn unflatten(
            __source: &mut ::pytree_core::__derive_0_1::Unflattener<'_>,
        ) -> ::core::result::Result<Self, ::pytree_core::__derive_0_1::TreeError> {
            if __source
                .is_next(const {
                    &<Self as ::pytree_core::__derive_0_1::field::NodeShapes>::SHAPES[0usize]
                })
            {
                return {
                    __source
                        .enter_fixed(
                            const {
                                &<Self as ::pytree_core::__derive_0_1::field::NodeShapes>::SHAPES[0usize]
                            },
                            0usize,
                        )?;
                    ::core::result::Result::Ok(
                        ::pytree_core::__derive_0_1::Unflattener::exit(
                            __source,
                            Self::Identity {},
                        ),
                    )
                };
            }
            if __source
                .is_next(const {
                    &<Self as ::pytree_core::__derive_0_1::field::NodeShapes>::SHAPES[1usize]
                })
            {
                return {
                    __source
                        .enter_fixed(
                            const {
                                &<Self as ::pytree_core::__derive_0_1::field::NodeShapes>::SHAPES[1usize]
                            },
                            1usize,
                        )?;
                    let __field_0 = ::pytree_core::__derive_0_1::field::Probe::<
                        Linear,
                    >::unflatten(__source)?;
                    ::core::result::Result::Ok(
                        ::pytree_core::__derive_0_1::Unflattener::exit(
                            __source,
                            Self::Linear { 0: __field_0 },
                        ),
                    )
                };
            }
            if __source
                .is_next(const {
                    &<Self as ::pytree_core::__derive_0_1::field::NodeShapes>::SHAPES[2usize]
                })
            {
                return {
                    __source
                        .enter_fixed(
                            const {
                                &<Self as ::pytree_core::__derive_0_1::field::NodeShapes>::SHAPES[2usize]
                            },
                            1usize,
                        )?;
                    let __field_1 = match ::pytree_core::__derive_0_1::field::Probe::<
                        String,
                    >::unflatten_by_value(__source) {
                        ::core::option::Option::Some(__value) => __value?,
                        ::core::option::Option::None => {
                            ::pytree_core::__derive_0_1::field::Probe::<
                                String,
                            >::unflatten_static(__source)?
                        }
                    };
                    let __field_0 = ::pytree_core::__derive_0_1::field::Probe::<
                        f32,
                    >::unflatten(__source)?;
                    ::core::result::Result::Ok(
                        ::pytree_core::__derive_0_1::Unflattener::exit(
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
                ::pytree_core::__derive_0_1::Unflattener::wrong_node(
                    __source,
                    ::core::any::type_name::<Self>(),
                ),
            )
        }
    }
    #[automatically_derived]
    impl<
        __L: ::pytree_core::__derive_0_1::Leaf + ::core::clone::Clone,
    > ::pytree_core::__derive_0_1::PytreeOf<__L> for Layer
    where
        for<'__a> Linear: ::pytree_core::__derive_0_1::PytreeOf<__L>,
        for<'__a> f32: ::pytree_core::__derive_0_1::PytreeOf<__L>,
    {
        #[inline]
        fn __is_plain() -> bool {
            true && <Linear as ::pytree_core::__derive_0_1::PytreeOf<__L>>::__is_plain()
                && <f32 as ::pytree_core::__derive_0_1::PytreeOf<__L>>::__is_plain()
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
                    <Linear as ::pytree_core::__derive_0_1::PytreeOf<
                        __L,
                    >>::each_leaf(__field_0, __visit);
                }
                Self::Scale { factor: __field_0, name: __field_1 } => {
                    <f32 as ::pytree_core::__derive_0_1::PytreeOf<
                        __L,
                    >>::each_leaf(__field_0, __visit);
                }
            }
        }
        #[inline]
        #[allow(unused_variables, reason = "an item may have no children")]
        fn each_pair<'__a, __F: ::core::ops::FnMut(&'__a __L, &'__a __L)>(
            &'__a self,
            __other: &'__a Self,
            __visit: &mut __F,
        ) -> bool {
            match (self, __other) {
                (Self::Identity {}, Self::Identity {}) => true,
                (Self::Linear { 0: __field_0 }, Self::Linear { 0: __field_0_other }) => {
                    true
                        && <Linear as ::pytree_core::__derive_0_1::PytreeOf<
                            __L,
                        >>::each_pair(__field_0, __field_0_other, __visit)
                }
                (
                    Self::Scale { factor: __field_0, name: __field_1 },
                    Self::Scale { factor: __field_0_other, name: __field_1_other },
                ) => {
                    true
                        && <f32 as ::pytree_core::__derive_0_1::PytreeOf<
                            __L,
                        >>::each_pair(__field_0, __field_0_other, __visit)
                        && ::pytree_core::__derive_0_1::field::as_static([
                            ::pytree_core::__derive_0_1::field::Probe::<
                                String,
                            >::by_value(__field_1),
                            ::pytree_core::__derive_0_1::field::Probe::<
                                String,
                            >::by_debug(__field_1),
                        ])
                            == ::pytree_core::__derive_0_1::field::as_static([
                                ::pytree_core::__derive_0_1::field::Probe::<
                                    String,
                                >::by_value(__field_1_other),
                                ::pytree_core::__derive_0_1::field::Probe::<
                                    String,
                                >::by_debug(__field_1_other),
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
                    let __field_0 = <Linear as ::pytree_core::__derive_0_1::PytreeOf<
                        __L,
                    >>::map_leaves(__field_0, __function);
                    Self::Linear { 0: __field_0 }
                }
                Self::Scale { factor: __field_0, name: __field_1 } => {
                    let __field_0 = <f32 as ::pytree_core::__derive_0_1::PytreeOf<
                        __L,
                    >>::map_leaves(__field_0, __function);
                    let __field_1 = ::pytree_core::__derive_0_1::field::Probe::<
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
    impl<
        __L: ::pytree_core::__derive_0_1::Leaf + ::core::clone::Clone,
    > ::pytree_core::__derive_0_1::SelectPart<__L> for Layer
    where
        for<'__a> Linear: ::pytree_core::__derive_0_1::PytreeOf<__L>,
        for<'__a> f32: ::pytree_core::__derive_0_1::PytreeOf<__L>,
    {
        type Part = ::pytree_core::__derive_0_1::Partition<Self, __L>;
        fn select_part(
            __tree: ::pytree_core::__derive_0_1::Tree<__L>,
        ) -> ::core::result::Result<Self::Part, ::pytree_core::__derive_0_1::TreeError> {
            ::pytree_core::__derive_0_1::select_partition(__tree)
        }
    }
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::axes::NamedAxes for Layer {
        fn bind_axes(&self, __scope: &mut ::pytree_core::__derive_0_1::axes::Scope) {
            match self {
                Self::Identity { .. } => {}
                Self::Linear { .. } => {}
                Self::Scale { .. } => {}
            }
        }
    }
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::field::ModuleField for Layer {}
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::field::HoldsArrays for Layer {}
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::Module for Layer {
        fn registry(&self) -> ::pytree_core::__derive_0_1::Registry<'_> {
            match self {
                Self::Identity { .. } => {
                    ::pytree_core::__derive_0_1::Registry::Borrowed(const { &[] })
                }
                Self::Linear { .. } => {
                    ::pytree_core::__derive_0_1::Registry::Borrowed(const {
                        &[("0", ::pytree_core::__derive_0_1::FieldKind::Module)]
                    })
                }
                Self::Scale { .. } => {
                    ::pytree_core::__derive_0_1::Registry::Borrowed(const {
                        &[
                            ("factor", ::pytree_core::__derive_0_1::FieldKind::Param),
                            ("name", ::pytree_core::__derive_0_1::FieldKind::Static),
                        ]
                    })
                }
            }
        }
    }
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::ModuleType for Layer {
        const REGISTRY: &'static [(
            &'static str,
            ::pytree_core::__derive_0_1::FieldKind,
        )] = &[];
    }
};
