#[allow(clippy::all, clippy::pedantic, clippy::nursery, reason = "generated code")]
#[allow(deprecated, unused_imports, unused_qualifications, reason = "generated code")]
const _: () = {
    use ::pytree_core::__derive_0_1 as __core;
    use __core::field::Fallback as _;
    const _: &[()] = {
        type __Probe = __core::field::Probe<Tensor>;
        const __UNFIT: [::core::primitive::bool; 1usize] = [
            !(__core::field::Probe::<Tensor>::IS_MODULE
                || __core::field::Probe::<Tensor>::IS_PARAM
                || __core::field::Probe::<Tensor>::IS_STATE
                || __core::field::Probe::<Tensor>::IS_VALUE
                || __core::field::Probe::<Tensor>::IS_HASHER),
        ];
        &[
            <Tensor as __core::field::ParamOfModule<
                { __Probe::IS_MODULE && !__Probe::IS_PARAM },
            >>::CHECK,
            <Tensor as __core::field::ParamNotFloat<
                { !__Probe::IS_MODULE && !__Probe::IS_PARAM && __Probe::IS_STATE },
            >>::CHECK,
            <Tensor as __core::field::ParamNotLeaf<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !(!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __UNFIT[0usize]
                            && __core::field::Probe::<Tensor>::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __UNFIT[0usize]
                            && __core::field::Probe::<Tensor>::IS_CELL)
                },
            >>::CHECK,
            <Tensor as __core::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __UNFIT[0usize] && __core::field::Probe::<Tensor>::IS_COUNTED
                },
            >>::CHECK,
            <Tensor as __core::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __UNFIT[0usize] && __core::field::Probe::<Tensor>::IS_CELL
                },
            >>::CHECK,
        ]
    };
    const _: &[()] = {
        type __Probe = __core::field::Probe<Option<Tensor>>;
        const __UNFIT: [::core::primitive::bool; 2usize] = [
            !(__core::field::Probe::<Option<Tensor>>::IS_MODULE
                || __core::field::Probe::<Option<Tensor>>::IS_PARAM
                || __core::field::Probe::<Option<Tensor>>::IS_STATE
                || __core::field::Probe::<Option<Tensor>>::IS_VALUE
                || __core::field::Probe::<Option<Tensor>>::IS_HASHER),
            !(__core::field::Probe::<Tensor>::IS_MODULE
                || __core::field::Probe::<Tensor>::IS_PARAM
                || __core::field::Probe::<Tensor>::IS_STATE
                || __core::field::Probe::<Tensor>::IS_VALUE
                || __core::field::Probe::<Tensor>::IS_HASHER),
        ];
        &[
            <Option<
                Tensor,
            > as __core::field::StateOfModule<
                { __Probe::IS_MODULE && !__Probe::IS_STATE },
            >>::CHECK,
            <Option<
                Tensor,
            > as __core::field::StateOfSize<
                { !__Probe::IS_MODULE && !__Probe::IS_STATE && __Probe::IS_SIZE },
            >>::CHECK,
            <Option<
                Tensor,
            > as __core::field::StateNotLeaf<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[0usize] && !__UNFIT[1usize]
                            && __core::field::Probe::<Option<Tensor>>::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[0usize] && !__UNFIT[1usize]
                            && __core::field::Probe::<Option<Tensor>>::IS_CELL)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[1usize] && __UNFIT[0usize]
                            && __core::field::Probe::<Tensor>::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[1usize] && __UNFIT[0usize]
                            && __core::field::Probe::<Tensor>::IS_CELL)
                },
            >>::CHECK,
            <Option<
                Tensor,
            > as __core::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[0usize] && !__UNFIT[1usize]
                        && __core::field::Probe::<Option<Tensor>>::IS_COUNTED
                },
            >>::CHECK,
            <Option<
                Tensor,
            > as __core::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[0usize] && !__UNFIT[1usize]
                        && __core::field::Probe::<Option<Tensor>>::IS_CELL
                },
            >>::CHECK,
            <Tensor as __core::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[1usize] && __UNFIT[0usize]
                        && __core::field::Probe::<Tensor>::IS_COUNTED
                },
            >>::CHECK,
            <Tensor as __core::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[1usize] && __UNFIT[0usize]
                        && __core::field::Probe::<Tensor>::IS_CELL
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
    #[automatically_derived]
    impl __core::field::NodeShapes for Attention {
        const SHAPES: &'static [__core::shape::NodeShape] = {
            enum __Definition {}
            &[
                __core::shape::NodeShape {
                    kind: __core::shape::NodeKind::Struct,
                    name: "Attention",
                    fields: &[
                        __core::shape::Field {
                            name: "query",
                            kind: ::core::option::Option::Some(__core::FieldKind::Param),
                            axes: ::core::option::Option::Some(
                                &__core::axes::ShapePattern {
                                    label: "query",
                                    text: "T[in heads*head_dim]",
                                    element: __core::axes::ElementPattern::Named("T"),
                                    before: &[
                                        __core::axes::AxisPattern::Named("in"),
                                        __core::axes::AxisPattern::Computed(
                                            &__core::axes::Expression {
                                                text: "heads*head_dim",
                                                steps: &[
                                                    __core::axes::Step::Name("heads"),
                                                    __core::axes::Step::Name("head_dim"),
                                                    __core::axes::Step::Apply(__core::axes::Operator::Multiply),
                                                ],
                                            },
                                        ),
                                    ],
                                    rest: ::core::option::Option::None,
                                    after: &[],
                                    roles: ::core::option::Option::Some(
                                        __core::axes::Roles::Listed(
                                            &[
                                                __core::axes::AxisRole::Input,
                                                __core::axes::AxisRole::Output,
                                            ],
                                        ),
                                    ),
                                },
                            ),
                        },
                        __core::shape::Field {
                            name: "keys",
                            kind: ::core::option::Option::Some(
                                __core::FieldKind::of_state::<Cache>(),
                            ),
                            axes: ::core::option::Option::Some(
                                &__core::axes::ShapePattern {
                                    label: "keys",
                                    text: "*batch head_dim",
                                    element: __core::axes::ElementPattern::Any,
                                    before: &[],
                                    rest: ::core::option::Option::Some(
                                        __core::axes::Rest::Named("batch"),
                                    ),
                                    after: &[__core::axes::AxisPattern::Named("head_dim")],
                                    roles: ::core::option::Option::None,
                                },
                            ),
                        },
                    ],
                    statics: &["heads"],
                    constants: &[],
                    identity: ::core::any::TypeId::of::<__Definition>,
                    type_name: ::core::any::type_name::<Self>,
                },
            ]
        };
    }
    #[automatically_derived]
    impl __core::Pytree for Attention {
        fn visit<'__a>(&'__a self, __visitor: &mut dyn __core::Visitor<'__a>) {
            match self {
                Self { query: __field_0, keys: __field_1, heads: __field_2 } => {
                    if __visitor
                        .enter(
                            const {
                                &<Self as __core::field::NodeShapes>::SHAPES[0usize]
                            },
                            2usize,
                        ) == __core::Visit::Descend
                    {
                        __visitor
                            .aux(
                                __core::field::as_static([
                                    __core::field::Probe::<usize>::by_value(__field_2),
                                    __core::field::Probe::<usize>::by_debug(__field_2),
                                ]),
                            );
                        __core::field::Probe::<Tensor>::visit(__field_0, __visitor);
                        __core::field::Probe::<
                            Option<Tensor>,
                        >::visit(__field_1, __visitor);
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
                    2usize,
                )?;
            let __field_2 = match __core::field::Probe::<
                usize,
            >::unflatten_by_value(__source) {
                ::core::option::Option::Some(__value) => __value?,
                ::core::option::Option::None => {
                    __core::field::Probe::<usize>::unflatten_static(__source)?
                }
            };
            let __field_0 = __core::field::Probe::<Tensor>::unflatten(__source)?;
            let __field_1 = __core::field::Probe::<Option<Tensor>>::unflatten(__source)?;
            ::core::result::Result::Ok(
                __core::Unflattener::exit(
                    __source,
                    Self {
                        query: __field_0,
                        keys: __field_1,
                        heads: __field_2,
                    },
                ),
            )
        }
    }
    #[automatically_derived]
    impl<__L: __core::Leaf + ::core::clone::Clone> __core::PytreeOf<__L> for Attention
    where
        for<'__a> Tensor: __core::PytreeOf<__L>,
        for<'__a> Option<Tensor>: __core::PytreeOf<__L>,
    {
        #[inline]
        fn __is_plain() -> ::core::primitive::bool {
            true && <Tensor as __core::PytreeOf<__L>>::__is_plain()
                && <Option<Tensor> as __core::PytreeOf<__L>>::__is_plain()
        }
        #[inline]
        #[allow(unused_variables, reason = "an item may have no children")]
        fn each_leaf<'__a, __F: ::core::ops::FnMut(&'__a __L)>(
            &'__a self,
            __visit: &mut __F,
        ) {
            match self {
                Self { query: __field_0, keys: __field_1, heads: __field_2 } => {
                    <Tensor as __core::PytreeOf<__L>>::each_leaf(__field_0, __visit);
                    <Option<
                        Tensor,
                    > as __core::PytreeOf<__L>>::each_leaf(__field_1, __visit);
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
                    Self { query: __field_0, keys: __field_1, heads: __field_2 },
                    Self {
                        query: __field_0_other,
                        keys: __field_1_other,
                        heads: __field_2_other,
                    },
                ) => {
                    true
                        && <Tensor as __core::PytreeOf<
                            __L,
                        >>::each_pair(__field_0, __field_0_other, __visit)
                        && <Option<
                            Tensor,
                        > as __core::PytreeOf<
                            __L,
                        >>::each_pair(__field_1, __field_1_other, __visit)
                        && __core::field::as_static([
                            __core::field::Probe::<usize>::by_value(__field_2),
                            __core::field::Probe::<usize>::by_debug(__field_2),
                        ])
                            == __core::field::as_static([
                                __core::field::Probe::<usize>::by_value(__field_2_other),
                                __core::field::Probe::<usize>::by_debug(__field_2_other),
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
                Self { query: __field_0, keys: __field_1, heads: __field_2 } => {
                    let __field_0 = <Tensor as __core::PytreeOf<
                        __L,
                    >>::map_leaves(__field_0, __function);
                    let __field_1 = <Option<
                        Tensor,
                    > as __core::PytreeOf<__L>>::map_leaves(__field_1, __function);
                    let __field_2 = __core::field::Probe::<
                        usize,
                    >::clone_static(__field_2);
                    Self {
                        query: __field_0,
                        keys: __field_1,
                        heads: __field_2,
                    }
                }
            }
        }
    }
    #[automatically_derived]
    impl<__L: __core::Leaf + ::core::clone::Clone> __core::SelectPart<__L> for Attention
    where
        for<'__a> Tensor: __core::PytreeOf<__L>,
        for<'__a> Option<Tensor>: __core::PytreeOf<__L>,
    {
        type Part = __core::Partition<Self, __L>;
        fn select_part(
            __tree: __core::Tree<__L>,
        ) -> ::core::result::Result<Self::Part, __core::TreeError> {
            __core::select_partition(__tree)
        }
    }
    /// The named axes of the fields:
    ///
    /// - `query`: `T[in heads*head_dim]`, roles `input, output`
    /// - `keys`: `[*batch head_dim]`
    #[automatically_derived]
    impl __core::axes::NamedAxes for Attention {
        fn bind_axes(&self, __scope: &mut __core::axes::Scope) {
            match self {
                Self { query: __field_0, keys: __field_1, heads: __field_2, .. } => {
                    __core::axes::Scope::number(__scope, "heads", *__field_2);
                    __core::axes::Scope::value(
                        __scope,
                        const {
                            <Self as __core::field::NodeShapes>::SHAPES[0usize]
                                .axes_of(0usize)
                        },
                        __field_0,
                    );
                    __core::axes::Scope::value(
                        __scope,
                        const {
                            <Self as __core::field::NodeShapes>::SHAPES[0usize]
                                .axes_of(1usize)
                        },
                        __field_1,
                    );
                }
            }
        }
    }
    #[automatically_derived]
    impl __core::axes::BindsAxis<46602030179176u128> for Attention {}
    #[automatically_derived]
    impl __core::axes::BindsAxis<5528413u128> for Attention {}
    #[automatically_derived]
    impl __core::axes::BindsAxis<7522525836317321581u128> for Attention {}
    #[automatically_derived]
    impl __core::axes::BindsAxis<448377480307u128> for Attention {}
    #[automatically_derived]
    impl __core::axes::BindsAxis<26990u128> for Attention {}
    #[automatically_derived]
    impl __core::field::ModuleField for Attention {}
    #[automatically_derived]
    impl __core::field::HoldsArrays for Attention {}
    #[automatically_derived]
    impl __core::Module for Attention {
        fn registry(&self) -> __core::Registry<'_> {
            __core::Registry::Borrowed(<Self as __core::ModuleType>::REGISTRY)
        }
    }
    #[automatically_derived]
    impl __core::ModuleType for Attention {
        const REGISTRY: &'static [(
            &'static ::core::primitive::str,
            __core::FieldKind,
        )] = &[
            ("query", __core::FieldKind::Param),
            ("keys", __core::FieldKind::of::<Cache>()),
            ("heads", __core::FieldKind::Static),
        ];
    }
};
