#[allow(clippy::all, clippy::pedantic, clippy::nursery, reason = "generated code")]
#[allow(deprecated, unused_imports, unused_qualifications, reason = "generated code")]
const _: () = {
    use ::pytree_core::__derive_0_1::field::Fallback as _;
    const _: &[()] = {
        type __Probe = ::pytree_core::__derive_0_1::field::Probe<Vec<Linear>>;
        const __UNFIT: [bool; 2usize] = [
            !(::pytree_core::__derive_0_1::field::Probe::<Vec<Linear>>::IS_MODULE
                || ::pytree_core::__derive_0_1::field::Probe::<Vec<Linear>>::IS_PARAM
                || ::pytree_core::__derive_0_1::field::Probe::<Vec<Linear>>::IS_STATE
                || ::pytree_core::__derive_0_1::field::Probe::<Vec<Linear>>::IS_VALUE
                || ::pytree_core::__derive_0_1::field::Probe::<Vec<Linear>>::IS_HASHER),
            !(::pytree_core::__derive_0_1::field::Probe::<Linear>::IS_MODULE
                || ::pytree_core::__derive_0_1::field::Probe::<Linear>::IS_PARAM
                || ::pytree_core::__derive_0_1::field::Probe::<Linear>::IS_STATE
                || ::pytree_core::__derive_0_1::field::Probe::<Linear>::IS_VALUE
                || ::pytree_core::__derive_0_1::field::Probe::<Linear>::IS_HASHER),
        ];
        &[
            <Vec<
                Linear,
            > as ::pytree_core::__derive_0_1::field::ArrayNeedsKind<
                { !__Probe::IS_MODULE && __Probe::IS_PARAM && __Probe::HOLDS_ARRAYS },
            >>::CHECK,
            <Vec<
                Linear,
            > as ::pytree_core::__derive_0_1::field::NumberNeedsKind<
                { !__Probe::IS_MODULE && __Probe::IS_PARAM && !__Probe::HOLDS_ARRAYS },
            >>::CHECK,
            <Vec<
                Linear,
            > as ::pytree_core::__derive_0_1::field::LeafNeedsKind<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && __Probe::IS_STATE
                        && __Probe::HOLDS_ARRAYS
                },
            >>::CHECK,
            <Vec<
                Linear,
            > as ::pytree_core::__derive_0_1::field::IntegerNeedsKind<
                {
                    (!__Probe::IS_MODULE && !__Probe::IS_PARAM && __Probe::IS_STATE
                        && !__Probe::HOLDS_ARRAYS)
                        || (!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __Probe::IS_SIZE)
                },
            >>::CHECK,
            <Vec<
                Linear,
            > as ::pytree_core::__derive_0_1::field::StaticNeedsKind<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __Probe::IS_VALUE && !__Probe::IS_SIZE
                },
            >>::CHECK,
            <Vec<
                Linear,
            > as ::pytree_core::__derive_0_1::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[0usize] && !__UNFIT[1usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<
                            Vec<Linear>,
                        >::IS_COUNTED
                },
            >>::CHECK,
            <Vec<
                Linear,
            > as ::pytree_core::__derive_0_1::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[0usize] && !__UNFIT[1usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<
                            Vec<Linear>,
                        >::IS_CELL
                },
            >>::CHECK,
            <Linear as ::pytree_core::__derive_0_1::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[1usize] && __UNFIT[0usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<
                            Linear,
                        >::IS_COUNTED
                },
            >>::CHECK,
            <Linear as ::pytree_core::__derive_0_1::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[1usize] && __UNFIT[0usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<Linear>::IS_CELL
                },
            >>::CHECK,
            <Vec<
                Linear,
            > as ::pytree_core::__derive_0_1::field::FieldMixesKinds<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[0usize] && !__UNFIT[1usize]
                        && !(::pytree_core::__derive_0_1::field::Probe::<
                            Vec<Linear>,
                        >::IS_COUNTED
                            || ::pytree_core::__derive_0_1::field::Probe::<
                                Vec<Linear>,
                            >::IS_CELL)
                        && (::pytree_core::__derive_0_1::field::Probe::<
                            Vec<Linear>,
                        >::IS_TUPLE
                            || ::pytree_core::__derive_0_1::field::Probe::<
                                Vec<Linear>,
                            >::IS_PYTREE)
                },
            >>::CHECK,
            <Vec<
                Linear,
            > as ::pytree_core::__derive_0_1::field::TypeNeedsDerive<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[0usize] && !__UNFIT[1usize]
                        && !(::pytree_core::__derive_0_1::field::Probe::<
                            Vec<Linear>,
                        >::IS_COUNTED
                            || ::pytree_core::__derive_0_1::field::Probe::<
                                Vec<Linear>,
                            >::IS_CELL
                            || ::pytree_core::__derive_0_1::field::Probe::<
                                Vec<Linear>,
                            >::IS_TUPLE
                            || ::pytree_core::__derive_0_1::field::Probe::<
                                Vec<Linear>,
                            >::IS_PYTREE)
                },
            >>::CHECK,
            <Linear as ::pytree_core::__derive_0_1::field::FieldMixesKinds<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !__Probe::IS_VALUE && __UNFIT[1usize] && __UNFIT[0usize]
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
                        && !__Probe::IS_VALUE && __UNFIT[1usize] && __UNFIT[0usize]
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
        type __Probe = ::pytree_core::__derive_0_1::field::Probe<Array2<f32>>;
        const __UNFIT: [bool; 2usize] = [
            !(::pytree_core::__derive_0_1::field::Probe::<Array2<f32>>::IS_MODULE
                || ::pytree_core::__derive_0_1::field::Probe::<Array2<f32>>::IS_PARAM
                || ::pytree_core::__derive_0_1::field::Probe::<Array2<f32>>::IS_STATE
                || ::pytree_core::__derive_0_1::field::Probe::<Array2<f32>>::IS_VALUE
                || ::pytree_core::__derive_0_1::field::Probe::<Array2<f32>>::IS_HASHER),
            !(::pytree_core::__derive_0_1::field::Probe::<f32>::IS_MODULE
                || ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_PARAM
                || ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_STATE
                || ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_VALUE
                || ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_HASHER),
        ];
        &[
            <Array2<
                f32,
            > as ::pytree_core::__derive_0_1::field::ParamOfModule<
                { __Probe::IS_MODULE && !__Probe::IS_PARAM },
            >>::CHECK,
            <Array2<
                f32,
            > as ::pytree_core::__derive_0_1::field::ParamNotFloat<
                { !__Probe::IS_MODULE && !__Probe::IS_PARAM && __Probe::IS_STATE },
            >>::CHECK,
            <Array2<
                f32,
            > as ::pytree_core::__derive_0_1::field::ParamNotLeaf<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && !(!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __UNFIT[0usize] && !__UNFIT[1usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<
                                Array2<f32>,
                            >::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __UNFIT[0usize] && !__UNFIT[1usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<
                                Array2<f32>,
                            >::IS_CELL)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __UNFIT[1usize] && __UNFIT[0usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<
                                f32,
                            >::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_PARAM
                            && !__Probe::IS_STATE && __UNFIT[1usize] && __UNFIT[0usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_CELL)
                },
            >>::CHECK,
            <Array2<
                f32,
            > as ::pytree_core::__derive_0_1::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __UNFIT[0usize] && !__UNFIT[1usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<
                            Array2<f32>,
                        >::IS_COUNTED
                },
            >>::CHECK,
            <Array2<
                f32,
            > as ::pytree_core::__derive_0_1::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __UNFIT[0usize] && !__UNFIT[1usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<
                            Array2<f32>,
                        >::IS_CELL
                },
            >>::CHECK,
            <f32 as ::pytree_core::__derive_0_1::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __UNFIT[1usize] && __UNFIT[0usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_COUNTED
                },
            >>::CHECK,
            <f32 as ::pytree_core::__derive_0_1::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_PARAM && !__Probe::IS_STATE
                        && __UNFIT[1usize] && __UNFIT[0usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_CELL
                },
            >>::CHECK,
        ]
    };
    const _: &[()] = {
        type __Probe = ::pytree_core::__derive_0_1::field::Probe<u32>;
        const __UNFIT: [bool; 1usize] = [
            !(::pytree_core::__derive_0_1::field::Probe::<u32>::IS_MODULE
                || ::pytree_core::__derive_0_1::field::Probe::<u32>::IS_PARAM
                || ::pytree_core::__derive_0_1::field::Probe::<u32>::IS_STATE
                || ::pytree_core::__derive_0_1::field::Probe::<u32>::IS_VALUE
                || ::pytree_core::__derive_0_1::field::Probe::<u32>::IS_HASHER),
        ];
        &[
            <u32 as ::pytree_core::__derive_0_1::field::StateOfModule<
                { __Probe::IS_MODULE && !__Probe::IS_STATE },
            >>::CHECK,
            <u32 as ::pytree_core::__derive_0_1::field::StateOfSize<
                { !__Probe::IS_MODULE && !__Probe::IS_STATE && __Probe::IS_SIZE },
            >>::CHECK,
            <u32 as ::pytree_core::__derive_0_1::field::StateNotLeaf<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[0usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<
                                u32,
                            >::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[0usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<u32>::IS_CELL)
                },
            >>::CHECK,
            <u32 as ::pytree_core::__derive_0_1::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[0usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<u32>::IS_COUNTED
                },
            >>::CHECK,
            <u32 as ::pytree_core::__derive_0_1::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[0usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<u32>::IS_CELL
                },
            >>::CHECK,
        ]
    };
    const _: &[()] = {
        type __Probe = ::pytree_core::__derive_0_1::field::Probe<Array1<f32>>;
        const __UNFIT: [bool; 2usize] = [
            !(::pytree_core::__derive_0_1::field::Probe::<Array1<f32>>::IS_MODULE
                || ::pytree_core::__derive_0_1::field::Probe::<Array1<f32>>::IS_PARAM
                || ::pytree_core::__derive_0_1::field::Probe::<Array1<f32>>::IS_STATE
                || ::pytree_core::__derive_0_1::field::Probe::<Array1<f32>>::IS_VALUE
                || ::pytree_core::__derive_0_1::field::Probe::<Array1<f32>>::IS_HASHER),
            !(::pytree_core::__derive_0_1::field::Probe::<f32>::IS_MODULE
                || ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_PARAM
                || ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_STATE
                || ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_VALUE
                || ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_HASHER),
        ];
        &[
            <Array1<
                f32,
            > as ::pytree_core::__derive_0_1::field::StateOfModule<
                { __Probe::IS_MODULE && !__Probe::IS_STATE },
            >>::CHECK,
            <Array1<
                f32,
            > as ::pytree_core::__derive_0_1::field::StateOfSize<
                { !__Probe::IS_MODULE && !__Probe::IS_STATE && __Probe::IS_SIZE },
            >>::CHECK,
            <Array1<
                f32,
            > as ::pytree_core::__derive_0_1::field::StateNotLeaf<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[0usize] && !__UNFIT[1usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<
                                Array1<f32>,
                            >::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[0usize] && !__UNFIT[1usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<
                                Array1<f32>,
                            >::IS_CELL)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[1usize] && __UNFIT[0usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<
                                f32,
                            >::IS_COUNTED)
                        && !(!__Probe::IS_MODULE && !__Probe::IS_STATE
                            && !__Probe::IS_SIZE && __UNFIT[1usize] && __UNFIT[0usize]
                            && ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_CELL)
                },
            >>::CHECK,
            <Array1<
                f32,
            > as ::pytree_core::__derive_0_1::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[0usize] && !__UNFIT[1usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<
                            Array1<f32>,
                        >::IS_COUNTED
                },
            >>::CHECK,
            <Array1<
                f32,
            > as ::pytree_core::__derive_0_1::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[0usize] && !__UNFIT[1usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<
                            Array1<f32>,
                        >::IS_CELL
                },
            >>::CHECK,
            <f32 as ::pytree_core::__derive_0_1::field::CountedNeedsShared<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[1usize] && __UNFIT[0usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_COUNTED
                },
            >>::CHECK,
            <f32 as ::pytree_core::__derive_0_1::field::CellNeedsRef<
                {
                    !__Probe::IS_MODULE && !__Probe::IS_STATE && !__Probe::IS_SIZE
                        && __UNFIT[1usize] && __UNFIT[0usize]
                        && ::pytree_core::__derive_0_1::field::Probe::<f32>::IS_CELL
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
    impl ::pytree_core::__derive_0_1::field::NodeShapes for Model {
        const SHAPES: &'static [::pytree_core::__derive_0_1::shape::NodeShape] = {
            enum __Definition {}
            &[
                ::pytree_core::__derive_0_1::shape::NodeShape {
                    kind: ::pytree_core::__derive_0_1::shape::NodeKind::Struct,
                    name: "Model",
                    fields: &[
                        ::pytree_core::__derive_0_1::shape::Field {
                            name: "layers",
                            kind: ::core::option::Option::Some(
                                ::pytree_core::__derive_0_1::FieldKind::Module,
                            ),
                            axes: ::core::option::Option::None,
                        },
                        ::pytree_core::__derive_0_1::shape::Field {
                            name: "weight",
                            kind: ::core::option::Option::Some(
                                ::pytree_core::__derive_0_1::FieldKind::Param,
                            ),
                            axes: ::core::option::Option::None,
                        },
                        ::pytree_core::__derive_0_1::shape::Field {
                            name: "steps",
                            kind: ::core::option::Option::Some(
                                ::pytree_core::__derive_0_1::FieldKind::of::<
                                    ::pytree_core::__derive_0_1::kind::State,
                                >(),
                            ),
                            axes: ::core::option::Option::None,
                        },
                        ::pytree_core::__derive_0_1::shape::Field {
                            name: "mean",
                            kind: ::core::option::Option::Some(
                                ::pytree_core::__derive_0_1::FieldKind::of_state::<
                                    BatchStat,
                                >(),
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
    impl ::pytree_core::__derive_0_1::Pytree for Model {
        fn visit<'__a>(
            &'__a self,
            __visitor: &mut dyn ::pytree_core::__derive_0_1::Visitor<'__a>,
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
                    if __visitor
                        .enter(
                            const {
                                &<Self as ::pytree_core::__derive_0_1::field::NodeShapes>::SHAPES[0usize]
                            },
                            4usize,
                        ) == ::pytree_core::__derive_0_1::Visit::Descend
                    {
                        __visitor
                            .aux(
                                ::pytree_core::__derive_0_1::field::as_static([
                                    ::pytree_core::__derive_0_1::field::Probe::<
                                        usize,
                                    >::by_value(__field_4),
                                    ::pytree_core::__derive_0_1::field::Probe::<
                                        usize,
                                    >::by_debug(__field_4),
                                ]),
                            );
                        __visitor
                            .aux(
                                ::pytree_core::__derive_0_1::field::as_static([
                                    ::pytree_core::__derive_0_1::field::Probe::<
                                        String,
                                    >::by_value(__field_5),
                                    ::pytree_core::__derive_0_1::field::Probe::<
                                        String,
                                    >::by_debug(__field_5),
                                ]),
                            );
                        ::pytree_core::__derive_0_1::field::Probe::<
                            Vec<Linear>,
                        >::visit(__field_0, __visitor);
                        ::pytree_core::__derive_0_1::field::Probe::<
                            Array2<f32>,
                        >::visit(__field_1, __visitor);
                        ::pytree_core::__derive_0_1::field::Probe::<
                            u32,
                        >::visit(__field_2, __visitor);
                        ::pytree_core::__derive_0_1::field::Probe::<
                            Array1<f32>,
                        >::visit(__field_3, __visitor);
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
                    4usize,
                )?;
            let __field_4 = match ::pytree_core::__derive_0_1::field::Probe::<
                usize,
            >::unflatten_by_value(__source) {
                ::core::option::Option::Some(__value) => __value?,
                ::core::option::Option::None => {
                    ::pytree_core::__derive_0_1::field::Probe::<
                        usize,
                    >::unflatten_static(__source)?
                }
            };
            let __field_5 = match ::pytree_core::__derive_0_1::field::Probe::<
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
                Vec<Linear>,
            >::unflatten(__source)?;
            let __field_1 = ::pytree_core::__derive_0_1::field::Probe::<
                Array2<f32>,
            >::unflatten(__source)?;
            let __field_2 = ::pytree_core::__derive_0_1::field::Probe::<
                u32,
            >::unflatten(__source)?;
            let __field_3 = ::pytree_core::__derive_0_1::field::Probe::<
                Array1<f32>,
            >::unflatten(__source)?;
            ::core::result::Result::Ok(
                ::pytree_core::__derive_0_1::Unflattener::exit(
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
    impl<
        __L: ::pytree_core::__derive_0_1::Leaf + ::core::clone::Clone,
    > ::pytree_core::__derive_0_1::PytreeOf<__L> for Model
    where
        for<'__a> Vec<Linear>: ::pytree_core::__derive_0_1::PytreeOf<__L>,
        for<'__a> Array2<f32>: ::pytree_core::__derive_0_1::PytreeOf<__L>,
        for<'__a> u32: ::pytree_core::__derive_0_1::PytreeOf<__L>,
        for<'__a> Array1<f32>: ::pytree_core::__derive_0_1::PytreeOf<__L>,
    {
        #[inline]
        fn __is_plain() -> bool {
            true
                && <Vec<
                    Linear,
                > as ::pytree_core::__derive_0_1::PytreeOf<__L>>::__is_plain()
                && <Array2<
                    f32,
                > as ::pytree_core::__derive_0_1::PytreeOf<__L>>::__is_plain()
                && <u32 as ::pytree_core::__derive_0_1::PytreeOf<__L>>::__is_plain()
                && <Array1<
                    f32,
                > as ::pytree_core::__derive_0_1::PytreeOf<__L>>::__is_plain()
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
                    > as ::pytree_core::__derive_0_1::PytreeOf<
                        __L,
                    >>::each_leaf(__field_0, __visit);
                    <Array2<
                        f32,
                    > as ::pytree_core::__derive_0_1::PytreeOf<
                        __L,
                    >>::each_leaf(__field_1, __visit);
                    <u32 as ::pytree_core::__derive_0_1::PytreeOf<
                        __L,
                    >>::each_leaf(__field_2, __visit);
                    <Array1<
                        f32,
                    > as ::pytree_core::__derive_0_1::PytreeOf<
                        __L,
                    >>::each_leaf(__field_3, __visit);
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
                        > as ::pytree_core::__derive_0_1::PytreeOf<
                            __L,
                        >>::each_pair(__field_0, __field_0_other, __visit)
                        && <Array2<
                            f32,
                        > as ::pytree_core::__derive_0_1::PytreeOf<
                            __L,
                        >>::each_pair(__field_1, __field_1_other, __visit)
                        && <u32 as ::pytree_core::__derive_0_1::PytreeOf<
                            __L,
                        >>::each_pair(__field_2, __field_2_other, __visit)
                        && <Array1<
                            f32,
                        > as ::pytree_core::__derive_0_1::PytreeOf<
                            __L,
                        >>::each_pair(__field_3, __field_3_other, __visit)
                        && ::pytree_core::__derive_0_1::field::as_static([
                            ::pytree_core::__derive_0_1::field::Probe::<
                                usize,
                            >::by_value(__field_4),
                            ::pytree_core::__derive_0_1::field::Probe::<
                                usize,
                            >::by_debug(__field_4),
                        ])
                            == ::pytree_core::__derive_0_1::field::as_static([
                                ::pytree_core::__derive_0_1::field::Probe::<
                                    usize,
                                >::by_value(__field_4_other),
                                ::pytree_core::__derive_0_1::field::Probe::<
                                    usize,
                                >::by_debug(__field_4_other),
                            ])
                        && ::pytree_core::__derive_0_1::field::as_static([
                            ::pytree_core::__derive_0_1::field::Probe::<
                                String,
                            >::by_value(__field_5),
                            ::pytree_core::__derive_0_1::field::Probe::<
                                String,
                            >::by_debug(__field_5),
                        ])
                            == ::pytree_core::__derive_0_1::field::as_static([
                                ::pytree_core::__derive_0_1::field::Probe::<
                                    String,
                                >::by_value(__field_5_other),
                                ::pytree_core::__derive_0_1::field::Probe::<
                                    String,
                                >::by_debug(__field_5_other),
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
                    > as ::pytree_core::__derive_0_1::PytreeOf<
                        __L,
                    >>::map_leaves(__field_0, __function);
                    let __field_1 = <Array2<
                        f32,
                    > as ::pytree_core::__derive_0_1::PytreeOf<
                        __L,
                    >>::map_leaves(__field_1, __function);
                    let __field_2 = <u32 as ::pytree_core::__derive_0_1::PytreeOf<
                        __L,
                    >>::map_leaves(__field_2, __function);
                    let __field_3 = <Array1<
                        f32,
                    > as ::pytree_core::__derive_0_1::PytreeOf<
                        __L,
                    >>::map_leaves(__field_3, __function);
                    let __field_4 = ::pytree_core::__derive_0_1::field::Probe::<
                        usize,
                    >::clone_static(__field_4);
                    let __field_5 = ::pytree_core::__derive_0_1::field::Probe::<
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
    impl<
        __L: ::pytree_core::__derive_0_1::Leaf + ::core::clone::Clone,
    > ::pytree_core::__derive_0_1::SelectPart<__L> for Model
    where
        for<'__a> Vec<Linear>: ::pytree_core::__derive_0_1::PytreeOf<__L>,
        for<'__a> Array2<f32>: ::pytree_core::__derive_0_1::PytreeOf<__L>,
        for<'__a> u32: ::pytree_core::__derive_0_1::PytreeOf<__L>,
        for<'__a> Array1<f32>: ::pytree_core::__derive_0_1::PytreeOf<__L>,
    {
        type Part = ::pytree_core::__derive_0_1::Partition<Self, __L>;
        fn select_part(
            __tree: ::pytree_core::__derive_0_1::Tree<__L>,
        ) -> ::core::result::Result<Self::Part, ::pytree_core::__derive_0_1::TreeError> {
            ::pytree_core::__derive_0_1::select_partition(__tree)
        }
    }
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::axes::NamedAxes for Model {
        fn bind_axes(&self, __scope: &mut ::pytree_core::__derive_0_1::axes::Scope) {
            match self {
                Self { size: __field_4, .. } => {
                    ::pytree_core::__derive_0_1::axes::Scope::number(
                        __scope,
                        "size",
                        *__field_4,
                    );
                }
            }
        }
    }
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::axes::BindsAxis<1936292453u128> for Model {}
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::field::ModuleField for Model {}
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::field::HoldsArrays for Model {}
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::Module for Model {
        fn registry(&self) -> ::pytree_core::__derive_0_1::Registry<'_> {
            ::pytree_core::__derive_0_1::Registry::Borrowed(
                <Self as ::pytree_core::__derive_0_1::ModuleType>::REGISTRY,
            )
        }
    }
    #[automatically_derived]
    impl ::pytree_core::__derive_0_1::ModuleType for Model {
        const REGISTRY: &'static [(
            &'static str,
            ::pytree_core::__derive_0_1::FieldKind,
        )] = &[
            ("layers", ::pytree_core::__derive_0_1::FieldKind::Module),
            ("weight", ::pytree_core::__derive_0_1::FieldKind::Param),
            (
                "steps",
                ::pytree_core::__derive_0_1::FieldKind::of::<
                    ::pytree_core::__derive_0_1::kind::State,
                >(),
            ),
            ("mean", ::pytree_core::__derive_0_1::FieldKind::of::<BatchStat>()),
            ("size", ::pytree_core::__derive_0_1::FieldKind::Static),
            ("name", ::pytree_core::__derive_0_1::FieldKind::Static),
        ];
    }
};
