#[allow(clippy::all, clippy::pedantic, clippy::nursery, reason = "generated code")]
#[allow(deprecated, unused_imports, unused_qualifications, reason = "generated code")]
const _: () = {
    use ::pytree_core::__derive_0_1::field::Fallback as _;
    const _: &[()] = {
        type __Probe = ::pytree_core::__derive_0_1::field::Probe<Tensor>;
        const __UNFIT: [bool; 1usize] = [
            !(::pytree_core::__derive_0_1::field::Probe::<Tensor>::IS_MODULE
                || ::pytree_core::__derive_0_1::field::Probe::<Tensor>::IS_PARAM
                || ::pytree_core::__derive_0_1::field::Probe::<Tensor>::IS_STATE
                || ::pytree_core::__derive_0_1::field::Probe::<Tensor>::IS_VALUE
                || ::pytree_core::__derive_0_1::field::Probe::<Tensor>::IS_HASHER),
        ];
        &[
            <Tensor as ::pytree_core::__derive_0_1::field::ParamOfModule<
                { __Probe::IS_MODULE && !__Probe::IS_PARAM },
            >>::CHECK,
            <Tensor as ::pytree_core::__derive_0_1::field::ParamNotFloat<
                { !__Probe::IS_MODULE && !__Probe::IS_PARAM && __Probe::IS_STATE },
            >>::CHECK,
            <Tensor as ::pytree_core::__derive_0_1::field::ParamNotLeaf<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !(!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __UNFIT[0usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<
                                Tensor,
                            >::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __UNFIT[0usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<
                                Tensor,
                            >::IS_CELL)
                },
            >>::CHECK,
            <Tensor as ::pytree_core::__derive_0_1::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __UNFIT[0usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<
                            Tensor,
                        >::IS_COUNTED
                },
            >>::CHECK,
            <Tensor as ::pytree_core::__derive_0_1::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __UNFIT[0usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<Tensor>::IS_CELL
                },
            >>::CHECK,
        ]
    };
    const _: &[()] = {
        type __Probe = ::pytree_core::__derive_0_1::field::Probe<Option<Tensor>>;
        const __UNFIT: [bool; 2usize] = [
            !(::pytree_core::__derive_0_1::field::Probe::<Option<Tensor>>::IS_MODULE
                || ::pytree_core::__derive_0_1::field::Probe::<Option<Tensor>>::IS_PARAM
                || ::pytree_core::__derive_0_1::field::Probe::<Option<Tensor>>::IS_STATE
                || ::pytree_core::__derive_0_1::field::Probe::<Option<Tensor>>::IS_VALUE
                || ::pytree_core::__derive_0_1::field::Probe::<
                    Option<Tensor>,
                >::IS_HASHER),
            !(::pytree_core::__derive_0_1::field::Probe::<Tensor>::IS_MODULE
                || ::pytree_core::__derive_0_1::field::Probe::<Tensor>::IS_PARAM
                || ::pytree_core::__derive_0_1::field::Probe::<Tensor>::IS_STATE
                || ::pytree_core::__derive_0_1::field::Probe::<Tensor>::IS_VALUE
                || ::pytree_core::__derive_0_1::field::Probe::<Tensor>::IS_HASHER),
        ];
        &[
            <Option<
                Tensor,
            > as ::pytree_core::__derive_0_1::field::StateOfModule<
                { __Probe::IS_MODULE && !__Probe::IS_STATE },
            >>::CHECK,
            <Option<
                Tensor,
            > as ::pytree_core::__derive_0_1::field::StateOfSize<
                { !__Probe::IS_MODULE && !__Probe::IS_STATE && __Probe::IS_SIZE },
            >>::CHECK,
            <Option<
                Tensor,
            > as ::pytree_core::__derive_0_1::field::StateNotLeaf<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[0usize] && !__UNFIT[1usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<
                                Option<Tensor>,
                            >::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[0usize] && !__UNFIT[1usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<
                                Option<Tensor>,
                            >::IS_CELL)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[1usize] && __UNFIT[0usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<
                                Tensor,
                            >::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[1usize] && __UNFIT[0usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<
                                Tensor,
                            >::IS_CELL)
                },
            >>::CHECK,
            <Option<
                Tensor,
            > as ::pytree_core::__derive_0_1::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[0usize] && !__UNFIT[1usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<
                            Option<Tensor>,
                        >::IS_COUNTED
                },
            >>::CHECK,
            <Option<
                Tensor,
            > as ::pytree_core::__derive_0_1::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[0usize] && !__UNFIT[1usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<
                            Option<Tensor>,
                        >::IS_CELL
                },
            >>::CHECK,
            <Tensor as ::pytree_core::__derive_0_1::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[1usize] && __UNFIT[0usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<
                            Tensor,
                        >::IS_COUNTED
                },
            >>::CHECK,
            <Tensor as ::pytree_core::__derive_0_1::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[1usize] && __UNFIT[0usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<Tensor>::IS_CELL
                },
            >>::CHECK,
        ]
    };
    const _: &[()] = {
        type __Probe = ::pytree_core::__derive_0_1::field::Probe<usize>;
        &[
            <usize as ::pytree_core::__derive_0_1::field::StaticOfModule<
                {
                    !__Probe::IS_VALUE && __Probe::IS_MODULE
                        && (::pytree_core::__derive_0_1::field::Probe::<
                            usize,
                        >::HOLDS_ARRAYS)
                },
            >>::CHECK,
            <usize as ::pytree_core::__derive_0_1::field::StaticOfArrays<
                {
                    !__Probe::IS_VALUE && !__Probe::IS_MODULE
                        && (::pytree_core::__derive_0_1::field::Probe::<
                            usize,
                        >::HOLDS_ARRAYS)
                },
            >>::CHECK,
            <usize as ::pytree_core::__derive_0_1::field::StaticNotComparable<
                {
                    !__Probe::IS_VALUE
                        && !(::pytree_core::__derive_0_1::field::Probe::<
                            usize,
                        >::HOLDS_ARRAYS) && !__Probe::IS_DEBUG
                },
            >>::CHECK,
        ]
    };
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::field::NodeShapes for Attention {
        const SHAPES: &'static [::pytree_core::__derive_0_1::shape::NodeShape] = {
            enum __Definition {}
            &[
                ::pytree_core::__derive_0_1::shape::NodeShape {
                    kind: ::pytree_core::__derive_0_1::shape::NodeKind::Struct,
                    name: "Attention",
                    fields: &[
                        ::pytree_core::__derive_0_1::shape::Field {
                            name: "query",
                            kind: ::core::option::Option::Some(
                                ::pytree_core::__derive_0_1::FieldKind::Param,
                            ),
                            axes: ::core::option::Option::Some(
                                &::pytree_core::__derive_0_1::axes::ShapePattern {
                                    label: "query",
                                    text: "T[in heads*head_dim]",
                                    element: ::pytree_core::__derive_0_1::axes::ElementPattern::Named(
                                        "T",
                                    ),
                                    before: &[
                                        ::pytree_core::__derive_0_1::axes::AxisPattern::Named("in"),
                                        ::pytree_core::__derive_0_1::axes::AxisPattern::Computed(
                                            &::pytree_core::__derive_0_1::axes::Expression {
                                                text: "heads*head_dim",
                                                steps: &[
                                                    ::pytree_core::__derive_0_1::axes::Step::Name("heads"),
                                                    ::pytree_core::__derive_0_1::axes::Step::Name("head_dim"),
                                                    ::pytree_core::__derive_0_1::axes::Step::Apply(
                                                        ::pytree_core::__derive_0_1::axes::Operator::Multiply,
                                                    ),
                                                ],
                                            },
                                        ),
                                    ],
                                    rest: ::core::option::Option::None,
                                    after: &[],
                                    roles: ::core::option::Option::Some(
                                        ::pytree_core::__derive_0_1::axes::Roles::Listed(
                                            &[
                                                ::pytree_core::__derive_0_1::axes::AxisRole::Input,
                                                ::pytree_core::__derive_0_1::axes::AxisRole::Output,
                                            ],
                                        ),
                                    ),
                                },
                            ),
                        },
                        ::pytree_core::__derive_0_1::shape::Field {
                            name: "keys",
                            kind: ::core::option::Option::Some(
                                ::pytree_core::__derive_0_1::FieldKind::of_state::<Cache>(),
                            ),
                            axes: ::core::option::Option::Some(
                                &::pytree_core::__derive_0_1::axes::ShapePattern {
                                    label: "keys",
                                    text: "*batch head_dim",
                                    element: ::pytree_core::__derive_0_1::axes::ElementPattern::Any,
                                    before: &[],
                                    rest: ::core::option::Option::Some(
                                        ::pytree_core::__derive_0_1::axes::Rest::Named("batch"),
                                    ),
                                    after: &[
                                        ::pytree_core::__derive_0_1::axes::AxisPattern::Named(
                                            "head_dim",
                                        ),
                                    ],
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
    impl ::pytree_core::__derive_0_1::Pytree for Attention {
        fn visit<'__a>(
            &'__a self,
            __visitor: &mut dyn ::pytree_core::__derive_0_1::Visitor<'__a>,
        ) {
            match self {
                Self { query: __field_0, keys: __field_1, heads: __field_2 } => {
                    if __visitor
                        .enter(
                            const {
                                &<Self as ::pytree_core::__derive_0_1::field::NodeShapes>::SHAPES[0usize]
                            },
                            2usize,
                        ) == ::pytree_core::__derive_0_1::Visit::Descend
                    {
                        __visitor
                            .aux(
                                ::pytree_core::__derive_0_1::field::as_static([
                                    ::pytree_core::__derive_0_1::field::Probe::<
                                        usize,
                                    >::by_value(__field_2),
                                    ::pytree_core::__derive_0_1::field::Probe::<
                                        usize,
                                    >::by_debug(__field_2),
                                ]),
                            );
                        ::pytree_core::__derive_0_1::field::Probe::<
                            Tensor,
                        >::visit(__field_0, __visitor);
                        ::pytree_core::__derive_0_1::field::Probe::<
                            Option<Tensor>,
                        >::visit(__field_1, __visitor);
                        __visitor.exit();
                    }
                }
            }
        }
        fn unflatten(
            __source: &mut ::pytree_core::__derive_0_1::Unflattener<'_>,
        ) -> ::core::result::Result<Self, ::pytree_core::__derive_0_1::TreeError> {
            __source
                .enter_fixed(
                    const {
                        &<Self as ::pytree_core::__derive_0_1::field::NodeShapes>::SHAPES[0usize]
                    },
                    2usize,
                )?;
            let __field_2 = match ::pytree_core::__derive_0_1::field::Probe::<
                usize,
            >::unflatten_by_value(__source) {
                ::core::option::Option::Some(__value) => __value?,
                ::core::option::Option::None => {
                    ::pytree_core::__derive_0_1::field::Probe::<
                        usize,
                    >::unflatten_static(__source)?
                }
            };
            let __field_0 = ::pytree_core::__derive_0_1::field::Probe::<
                Tensor,
            >::unflatten(__source)?;
            let __field_1 = ::pytree_core::__derive_0_1::field::Probe::<
                Option<Tensor>,
            >::unflatten(__source)?;
            ::core::result::Result::Ok(
                ::pytree_core::__derive_0_1::Unflattener::exit(
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
    impl<
        __L: ::pytree_core::__derive_0_1::Leaf + ::core::clone::Clone,
    > ::pytree_core::__derive_0_1::PytreeOf<__L> for Attention
    where
        for<'__a> Tensor: ::pytree_core::__derive_0_1::PytreeOf<__L>,
        for<'__a> Option<Tensor>: ::pytree_core::__derive_0_1::PytreeOf<__L>,
    {
        #[inline]
        fn __is_plain() -> bool {
            true && <Tensor as ::pytree_core::__derive_0_1::PytreeOf<__L>>::__is_plain()
                && <Option<
                    Tensor,
                > as ::pytree_core::__derive_0_1::PytreeOf<__L>>::__is_plain()
        }
        #[inline]
        #[allow(unused_variables, reason = "an item may have no children")]
        fn each_leaf<'__a, __F: ::core::ops::FnMut(&'__a __L)>(
            &'__a self,
            __visit: &mut __F,
        ) {
            match self {
                Self { query: __field_0, keys: __field_1, heads: __field_2 } => {
                    <Tensor as ::pytree_core::__derive_0_1::PytreeOf<
                        __L,
                    >>::each_leaf(__field_0, __visit);
                    <Option<
                        Tensor,
                    > as ::pytree_core::__derive_0_1::PytreeOf<
                        __L,
                    >>::each_leaf(__field_1, __visit);
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
                (
                    Self { query: __field_0, keys: __field_1, heads: __field_2 },
                    Self {
                        query: __field_0_other,
                        keys: __field_1_other,
                        heads: __field_2_other,
                    },
                ) => {
                    true
                        && <Tensor as ::pytree_core::__derive_0_1::PytreeOf<
                            __L,
                        >>::each_pair(__field_0, __field_0_other, __visit)
                        && <Option<
                            Tensor,
                        > as ::pytree_core::__derive_0_1::PytreeOf<
                            __L,
                        >>::each_pair(__field_1, __field_1_other, __visit)
                        && ::pytree_core::__derive_0_1::field::as_static([
                            ::pytree_core::__derive_0_1::field::Probe::<
                                usize,
                            >::by_value(__field_2),
                            ::pytree_core::__derive_0_1::field::Probe::<
                                usize,
                            >::by_debug(__field_2),
                        ])
                            == ::pytree_core::__derive_0_1::field::as_static([
                                ::pytree_core::__derive_0_1::field::Probe::<
                                    usize,
                                >::by_value(__field_2_other),
                                ::pytree_core::__derive_0_1::field::Probe::<
                                    usize,
                                >::by_debug(__field_2_other),
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
                    let __field_0 = <Tensor as ::pytree_core::__derive_0_1::PytreeOf<
                        __L,
                    >>::map_leaves(__field_0, __function);
                    let __field_1 = <Option<
                        Tensor,
                    > as ::pytree_core::__derive_0_1::PytreeOf<
                        __L,
                    >>::map_leaves(__field_1, __function);
                    let __field_2 = ::pytree_core::__derive_0_1::field::Probe::<
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
    impl<
        __L: ::pytree_core::__derive_0_1::Leaf + ::core::clone::Clone,
    > ::pytree_core::__derive_0_1::SelectPart<__L> for Attention
    where
        for<'__a> Tensor: ::pytree_core::__derive_0_1::PytreeOf<__L>,
        for<'__a> Option<Tensor>: ::pytree_core::__derive_0_1::PytreeOf<__L>,
    {
        type Part = ::pytree_core::__derive_0_1::Partition<Self, __L>;
        fn select_part(
            __tree: ::pytree_core::__derive_0_1::Tree<__L>,
        ) -> ::core::result::Result<Self::Part, ::pytree_core::__derive_0_1::TreeError> {
            ::pytree_core::__derive_0_1::select_partition(__tree)
        }
    }
    /// The named axes of the fields:
    ///
    /// - `query`: `T[in heads*head_dim]`, roles `input, output`
    /// - `keys`: `[*batch head_dim]`
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::axes::NamedAxes for Attention {
        fn bind_axes(&self, __scope: &mut ::pytree_core::__derive_0_1::axes::Scope) {
            match self {
                Self { query: __field_0, keys: __field_1, heads: __field_2, .. } => {
                    ::pytree_core::__derive_0_1::axes::Scope::number(
                        __scope,
                        "heads",
                        *__field_2,
                    );
                    ::pytree_core::__derive_0_1::axes::Scope::value(
                        __scope,
                        const {
                            <Self as ::pytree_core::__derive_0_1::field::NodeShapes>::SHAPES[0usize]
                                .axes_of(0usize)
                        },
                        __field_0,
                    );
                    ::pytree_core::__derive_0_1::axes::Scope::value(
                        __scope,
                        const {
                            <Self as ::pytree_core::__derive_0_1::field::NodeShapes>::SHAPES[0usize]
                                .axes_of(1usize)
                        },
                        __field_1,
                    );
                }
            }
        }
    }
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::axes::BindsAxis<46602030179176u128> for Attention {}
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::axes::BindsAxis<5528413u128> for Attention {}
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::axes::BindsAxis<7522525836317321581u128>
    for Attention {}
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::axes::BindsAxis<448377480307u128> for Attention {}
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::axes::BindsAxis<26990u128> for Attention {}
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::field::ModuleField for Attention {}
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::field::HoldsArrays for Attention {}
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::Module for Attention {
        fn registry(&self) -> ::pytree_core::__derive_0_1::Registry<'_> {
            ::pytree_core::__derive_0_1::Registry::Borrowed(
                <Self as ::pytree_core::__derive_0_1::ModuleType>::REGISTRY,
            )
        }
    }
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::ModuleType for Attention {
        const REGISTRY: &'static [(
            &'static str,
            ::pytree_core::__derive_0_1::FieldKind,
        )] = &[
            ("query", ::pytree_core::__derive_0_1::FieldKind::Param),
            ("keys", ::pytree_core::__derive_0_1::FieldKind::of::<Cache>()),
            ("heads", ::pytree_core::__derive_0_1::FieldKind::Static),
        ];
    }
};
