#[allow(clippy::all, clippy::pedantic, clippy::nursery, reason = "generated code")]
#[allow(deprecated, unused_imports, unused_qualifications, reason = "generated code")]
const _: () = {
    use ::pytree_core::__derive_0_1::field::Fallback as _;
    const _: &[()] = {
        type __Probe = ::pytree_core::__derive_0_1::field::Probe<f64>;
        &[
            <f64 as ::pytree_core::__derive_0_1::field::StaticOfModule<
                {
                    !__Probe::IS_VALUE && __Probe::IS_MODULE
                        && (::pytree_core::__derive_0_1::field::Probe::<
                            f64,
                        >::HOLDS_ARRAYS)
                },
            >>::CHECK,
            <f64 as ::pytree_core::__derive_0_1::field::StaticOfArrays<
                {
                    !__Probe::IS_VALUE && !__Probe::IS_MODULE
                        && (::pytree_core::__derive_0_1::field::Probe::<
                            f64,
                        >::HOLDS_ARRAYS)
                },
            >>::CHECK,
            <f64 as ::pytree_core::__derive_0_1::field::StaticNotComparable<
                {
                    !__Probe::IS_VALUE
                        && !(::pytree_core::__derive_0_1::field::Probe::<
                            f64,
                        >::HOLDS_ARRAYS) && !__Probe::IS_DEBUG
                },
            >>::CHECK,
        ]
    };
    const _: () = {
        fn __is<__T: ::pytree_core::__derive_0_1::field::ModuleField>() {}
        fn __check<M: Module, T, const N: usize>()
        where
            T: Clone,
            M: 'static,
            T: 'static,
            M: ::pytree_core::__derive_0_1::field::ModuleField,
            [T; N]: ::pytree_core::__derive_0_1::field::ParamField,
        {
            __is::<Vec<Node<M, T, N>>>();
        }
    };
    #[automatically_derived]
    impl<M: Module, T, const N: usize> ::pytree_core::__derive_0_1::field::NodeShapes
    for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: ::pytree_core::__derive_0_1::field::ModuleField,
        [T; N]: ::pytree_core::__derive_0_1::field::ParamField,
    {
        const SHAPES: &'static [::pytree_core::__derive_0_1::shape::NodeShape] = {
            enum __Definition {}
            &[
                ::pytree_core::__derive_0_1::shape::NodeShape {
                    kind: ::pytree_core::__derive_0_1::shape::NodeKind::Struct,
                    name: "Node",
                    fields: &[
                        ::pytree_core::__derive_0_1::shape::Field {
                            name: "inner",
                            kind: ::core::option::Option::Some(
                                ::pytree_core::__derive_0_1::FieldKind::Module,
                            ),
                            axes: ::core::option::Option::None,
                        },
                        ::pytree_core::__derive_0_1::shape::Field {
                            name: "values",
                            kind: ::core::option::Option::Some(
                                ::pytree_core::__derive_0_1::FieldKind::Param,
                            ),
                            axes: ::core::option::Option::None,
                        },
                        ::pytree_core::__derive_0_1::shape::Field {
                            name: "children",
                            kind: ::core::option::Option::Some(
                                ::pytree_core::__derive_0_1::FieldKind::Module,
                            ),
                            axes: ::core::option::Option::None,
                        },
                    ],
                    statics: &["limit"],
                    constants: &[("N", N as i128)],
                    identity: ::core::any::TypeId::of::<__Definition>,
                    type_name: ::core::any::type_name::<Self>,
                },
            ]
        };
    }
    #[automatically_derived]
    impl<M: Module, T, const N: usize> ::pytree_core::__derive_0_1::Pytree
    for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: ::pytree_core::__derive_0_1::field::ModuleField,
        [T; N]: ::pytree_core::__derive_0_1::field::ParamField,
    {
        fn visit<'__a>(
            &'__a self,
            __visitor: &mut dyn ::pytree_core::__derive_0_1::Visitor<'__a>,
        ) {
            match self {
                Self {
                    inner: __field_0,
                    values: __field_1,
                    limit: __field_2,
                    children: __field_3,
                } => {
                    if __visitor
                        .enter(
                            const {
                                &<Self as ::pytree_core::__derive_0_1::field::NodeShapes>::SHAPES[0usize]
                            },
                            3usize,
                        ) == ::pytree_core::__derive_0_1::Visit::Descend
                    {
                        __visitor
                            .aux(
                                ::pytree_core::__derive_0_1::field::as_static([
                                    ::pytree_core::__derive_0_1::field::Probe::<
                                        f64,
                                    >::by_value(__field_2),
                                    ::pytree_core::__derive_0_1::field::Probe::<
                                        f64,
                                    >::by_debug(__field_2),
                                ]),
                            );
                        <M as ::pytree_core::__derive_0_1::Pytree>::visit(
                            __field_0,
                            __visitor,
                        );
                        <[T; N] as ::pytree_core::__derive_0_1::Pytree>::visit(
                            __field_1,
                            __visitor,
                        );
                        <Vec<
                            Node<M, T, N>,
                        > as ::pytree_core::__derive_0_1::Pytree>::visit(
                            __field_3,
                            __visitor,
                        );
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
                    3usize,
                )?;
            let __field_2 = match ::pytree_core::__derive_0_1::field::Probe::<
                f64,
            >::unflatten_by_value(__source) {
                ::core::option::Option::Some(__value) => __value?,
                ::core::option::Option::None => {
                    ::pytree_core::__derive_0_1::field::Probe::<
                        f64,
                    >::unflatten_static(__source)?
                }
            };
            let __field_0 = <M as ::pytree_core::__derive_0_1::Pytree>::unflatten(
                __source,
            )?;
            let __field_1 = <[T; N] as ::pytree_core::__derive_0_1::Pytree>::unflatten(
                __source,
            )?;
            let __field_3 = <Vec<
                Node<M, T, N>,
            > as ::pytree_core::__derive_0_1::Pytree>::unflatten(__source)?;
            ::core::result::Result::Ok(
                ::pytree_core::__derive_0_1::Unflattener::exit(
                    __source,
                    Self {
                        inner: __field_0,
                        values: __field_1,
                        limit: __field_2,
                        children: __field_3,
                    },
                ),
            )
        }
    }
    #[automatically_derived]
    impl<
        __L: ::pytree_core::__derive_0_1::Leaf + ::core::clone::Clone,
        M: Module,
        T,
        const N: usize,
    > ::pytree_core::__derive_0_1::PytreeOf<__L> for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: ::pytree_core::__derive_0_1::field::ModuleField,
        [T; N]: ::pytree_core::__derive_0_1::field::ParamField,
        M: ::pytree_core::__derive_0_1::PytreeOf<__L>,
        [T; N]: ::pytree_core::__derive_0_1::PytreeOf<__L>,
    {}
    #[automatically_derived]
    impl<
        __L: ::pytree_core::__derive_0_1::Leaf + ::core::clone::Clone,
        M: Module,
        T,
        const N: usize,
    > ::pytree_core::__derive_0_1::SelectPart<__L> for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: ::pytree_core::__derive_0_1::field::ModuleField,
        [T; N]: ::pytree_core::__derive_0_1::field::ParamField,
        M: ::pytree_core::__derive_0_1::PytreeOf<__L>,
        [T; N]: ::pytree_core::__derive_0_1::PytreeOf<__L>,
    {
        type Part = ::pytree_core::__derive_0_1::Partition<Self, __L>;
        fn select_part(
            __tree: ::pytree_core::__derive_0_1::Tree<__L>,
        ) -> ::core::result::Result<Self::Part, ::pytree_core::__derive_0_1::TreeError> {
            ::pytree_core::__derive_0_1::select_partition(__tree)
        }
    }
    #[automatically_derived]
    impl<M: Module, T, const N: usize> ::pytree_core::__derive_0_1::axes::NamedAxes
    for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: ::pytree_core::__derive_0_1::field::ModuleField,
        [T; N]: ::pytree_core::__derive_0_1::field::ParamField,
    {
        fn bind_axes(&self, __scope: &mut ::pytree_core::__derive_0_1::axes::Scope) {
            ::pytree_core::__derive_0_1::axes::Scope::number(__scope, "N", N);
            match self {
                Self { .. } => {}
            }
        }
    }
    #[automatically_derived]
    impl<
        M: Module,
        T,
        const N: usize,
    > ::pytree_core::__derive_0_1::axes::BindsAxis<78u128> for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: ::pytree_core::__derive_0_1::field::ModuleField,
        [T; N]: ::pytree_core::__derive_0_1::field::ParamField,
    {}
    #[automatically_derived]
    impl<M: Module, T, const N: usize> ::pytree_core::__derive_0_1::field::ModuleField
    for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: ::pytree_core::__derive_0_1::field::ModuleField,
        [T; N]: ::pytree_core::__derive_0_1::field::ParamField,
    {}
    #[automatically_derived]
    impl<M: Module, T, const N: usize> ::pytree_core::__derive_0_1::field::HoldsArrays
    for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: ::pytree_core::__derive_0_1::field::ModuleField,
        [T; N]: ::pytree_core::__derive_0_1::field::ParamField,
    {}
    #[automatically_derived]
    impl<M: Module, T, const N: usize> ::pytree_core::__derive_0_1::Module
    for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: ::pytree_core::__derive_0_1::field::ModuleField,
        [T; N]: ::pytree_core::__derive_0_1::field::ParamField,
    {
        fn registry(&self) -> ::pytree_core::__derive_0_1::Registry<'_> {
            ::pytree_core::__derive_0_1::Registry::Borrowed(
                <Self as ::pytree_core::__derive_0_1::ModuleType>::REGISTRY,
            )
        }
    }
    #[automatically_derived]
    impl<M: Module, T, const N: usize> ::pytree_core::__derive_0_1::ModuleType
    for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: ::pytree_core::__derive_0_1::field::ModuleField,
        [T; N]: ::pytree_core::__derive_0_1::field::ParamField,
    {
        const REGISTRY: &'static [(
            &'static str,
            ::pytree_core::__derive_0_1::FieldKind,
        )] = &[
            ("inner", ::pytree_core::__derive_0_1::FieldKind::Module),
            ("values", ::pytree_core::__derive_0_1::FieldKind::Param),
            ("limit", ::pytree_core::__derive_0_1::FieldKind::Static),
            ("children", ::pytree_core::__derive_0_1::FieldKind::Module),
        ];
    }
};
