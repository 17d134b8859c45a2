#[allow(clippy::all, clippy::pedantic, clippy::nursery, reason = "generated code")]
#[allow(deprecated, unused_imports, unused_qualifications, reason = "generated code")]
const _: () = {
    use ::pytree_core::__derive_0_1 as __core;
    use __core::field::Fallback as _;
    const _: &[()] = {
        type __Probe = __core::field::Probe<f64>;
        &[
            <f64 as __core::field::StaticOfModule<
                {
                    !__Probe::IS_VALUE && __Probe::IS_MODULE
                        && (__core::field::Probe::<f64>::HOLDS_ARRAYS)
                },
            >>::CHECK,
            <f64 as __core::field::StaticOfArrays<
                {
                    !__Probe::IS_VALUE && !__Probe::IS_MODULE
                        && (__core::field::Probe::<f64>::HOLDS_ARRAYS)
                },
            >>::CHECK,
            <f64 as __core::field::StaticNotComparable<
                {
                    !__Probe::IS_VALUE && !(__core::field::Probe::<f64>::HOLDS_ARRAYS)
                        && !__Probe::IS_DEBUG
                },
            >>::CHECK,
        ]
    };
    const _: () = {
        fn __is<__T: __core::field::ModuleField>() {}
        fn __check<M: Module, T, const N: usize>()
        where
            T: Clone,
            M: 'static,
            T: 'static,
            M: __core::field::ModuleField,
            [T; N]: __core::field::ParamField,
        {
            __is::<Vec<Node<M, T, N>>>();
        }
    };
    #[automatically_derived]
    impl<M: Module, T, const N: usize> __core::field::NodeShapes for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: __core::field::ModuleField,
        [T; N]: __core::field::ParamField,
    {
        const SHAPES: &'static [__core::shape::NodeShape] = {
            enum __Definition {}
            &[
                __core::shape::NodeShape {
                    kind: __core::shape::NodeKind::Struct,
                    name: "Node",
                    fields: &[
                        __core::shape::Field {
                            name: "inner",
                            kind: ::core::option::Option::Some(
                                __core::FieldKind::Module,
                            ),
                            axes: ::core::option::Option::None,
                        },
                        __core::shape::Field {
                            name: "values",
                            kind: ::core::option::Option::Some(__core::FieldKind::Param),
                            axes: ::core::option::Option::None,
                        },
                        __core::shape::Field {
                            name: "children",
                            kind: ::core::option::Option::Some(
                                __core::FieldKind::Module,
                            ),
                            axes: ::core::option::Option::None,
                        },
                    ],
                    statics: &["limit"],
                    constants: &[("N", N as ::core::primitive::i128)],
                    identity: ::core::any::TypeId::of::<__Definition>,
                    type_name: ::core::any::type_name::<Self>,
                },
            ]
        };
    }
    #[automatically_derived]
    impl<M: Module, T, const N: usize> __core::Pytree for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: __core::field::ModuleField,
        [T; N]: __core::field::ParamField,
    {
        fn visit<'__a>(&'__a self, __visitor: &mut dyn __core::Visitor<'__a>) {
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
                                &<Self as __core::field::NodeShapes>::SHAPES[0usize]
                            },
                            3usize,
                        ) == __core::Visit::Descend
                    {
                        __visitor
                            .aux(
                                __core::field::as_static([
                                    __core::field::Probe::<f64>::by_value(__field_2),
                                    __core::field::Probe::<f64>::by_debug(__field_2),
                                ]),
                            );
                        <M as __core::Pytree>::visit(__field_0, __visitor);
                        <[T; N] as __core::Pytree>::visit(__field_1, __visitor);
                        <Vec<
                            Node<M, T, N>,
                        > as __core::Pytree>::visit(__field_3, __visitor);
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
                    3usize,
                )?;
            let __field_2 = match __core::field::Probe::<
                f64,
            >::unflatten_by_value(__source) {
                ::core::option::Option::Some(__value) => __value?,
                ::core::option::Option::None => {
                    __core::field::Probe::<f64>::unflatten_static(__source)?
                }
            };
            let __field_0 = <M as __core::Pytree>::unflatten(__source)?;
            let __field_1 = <[T; N] as __core::Pytree>::unflatten(__source)?;
            let __field_3 = <Vec<Node<M, T, N>> as __core::Pytree>::unflatten(__source)?;
            ::core::result::Result::Ok(
                __core::Unflattener::exit(
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
        __L: __core::Leaf + ::core::clone::Clone,
        M: Module,
        T,
        const N: usize,
    > __core::PytreeOf<__L> for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: __core::field::ModuleField,
        [T; N]: __core::field::ParamField,
        M: __core::PytreeOf<__L>,
        [T; N]: __core::PytreeOf<__L>,
    {}
    #[automatically_derived]
    impl<
        __L: __core::Leaf + ::core::clone::Clone,
        M: Module,
        T,
        const N: usize,
    > __core::SelectPart<__L> for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: __core::field::ModuleField,
        [T; N]: __core::field::ParamField,
        M: __core::PytreeOf<__L>,
        [T; N]: __core::PytreeOf<__L>,
    {
        type Part = __core::Partition<Self, __L>;
        fn select_part(
            __tree: __core::Tree<__L>,
        ) -> ::core::result::Result<Self::Part, __core::TreeError> {
            __core::select_partition(__tree)
        }
    }
    #[automatically_derived]
    impl<M: Module, T, const N: usize> __core::axes::NamedAxes for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: __core::field::ModuleField,
        [T; N]: __core::field::ParamField,
    {
        fn bind_axes(&self, __scope: &mut __core::axes::Scope) {
            __core::axes::Scope::number(__scope, "N", N);
            match self {
                Self { .. } => {}
            }
        }
    }
    #[automatically_derived]
    impl<M: Module, T, const N: usize> __core::axes::BindsAxis<78u128> for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: __core::field::ModuleField,
        [T; N]: __core::field::ParamField,
    {}
    #[automatically_derived]
    impl<M: Module, T, const N: usize> __core::field::ModuleField for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: __core::field::ModuleField,
        [T; N]: __core::field::ParamField,
    {}
    #[automatically_derived]
    impl<M: Module, T, const N: usize> __core::field::HoldsArrays for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: __core::field::ModuleField,
        [T; N]: __core::field::ParamField,
    {}
    #[automatically_derived]
    impl<M: Module, T, const N: usize> __core::Module for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: __core::field::ModuleField,
        [T; N]: __core::field::ParamField,
    {
        fn registry(&self) -> __core::Registry<'_> {
            __core::Registry::Borrowed(<Self as __core::ModuleType>::REGISTRY)
        }
    }
    #[automatically_derived]
    impl<M: Module, T, const N: usize> __core::ModuleType for Node<M, T, N>
    where
        T: Clone,
        M: 'static,
        T: 'static,
        M: __core::field::ModuleField,
        [T; N]: __core::field::ParamField,
    {
        const REGISTRY: &'static [(
            &'static ::core::primitive::str,
            __core::FieldKind,
        )] = &[
            ("inner", __core::FieldKind::Module),
            ("values", __core::FieldKind::Param),
            ("limit", __core::FieldKind::Static),
            ("children", __core::FieldKind::Module),
        ];
    }
};
