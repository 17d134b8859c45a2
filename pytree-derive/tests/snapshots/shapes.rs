impl Linear {
    /// Applies the layer.
    ///
    /// **Shapes:** `x: T[... in]`, returns `T[... out]`
    #[track_caller]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        {
            #[diagnostic::on_unimplemented(
                message = "`out` has no length: nothing binds it before the result; make it an axis of an argument, or of a field, such as `#[param(\"out\")]`, or a static field `#[r#static] out: usize`, or write `_`\n\n    T[... out]\n          ^^^",
                label = "this name has no length"
            )]
            trait KnownOut {}
            #[diagnostic::do_not_recommend]
            impl<
                __T: ::pytree_core::__derive_0_1::axes::BindsAxis<7304564u128>
                    + ?::core::marker::Sized,
            > KnownOut for __T {}
            fn known<__T: KnownOut + ?::core::marker::Sized>() {}
            known::<Self>();
        }
        let __bind = |__scope: &mut ::pytree_core::__derive_0_1::axes::Scope| {
            use ::pytree_core::__derive_0_1::axes::Arrays as _;
            ::pytree_core::__derive_0_1::axes::NamedAxes::bind_axes(&*self, __scope);
            ::pytree_core::__derive_0_1::axes::Scope::begin(
                __scope,
                ::pytree_core::__derive_0_1::axes::Owner::Argument,
            );
            ::pytree_core::__derive_0_1::axes::Scope::value(
                __scope,
                const {
                    &::pytree_core::__derive_0_1::axes::ShapePattern {
                        label: "x",
                        text: "T[... in]",
                        element: ::pytree_core::__derive_0_1::axes::ElementPattern::Named(
                            "T",
                        ),
                        before: &[],
                        rest: ::core::option::Option::Some(
                            ::pytree_core::__derive_0_1::axes::Rest::Any,
                        ),
                        after: &[
                            ::pytree_core::__derive_0_1::axes::AxisPattern::Named("in"),
                        ],
                        roles: ::core::option::Option::None,
                    }
                },
                &*x,
            );
        };
        let mut __scope = ::pytree_core::__derive_0_1::axes::Scope::new();
        __bind(&mut __scope);
        if !::pytree_core::__derive_0_1::axes::Scope::matches(&mut __scope) {
            let __error = ::pytree_core::__derive_0_1::axes::Scope::error_of_arguments::<
                Self,
            >("forward", &__bind);
            return ::core::result::Result::Err(
                ::pytree_core::__derive_0_1::axes::HoldsShapeError::of(__error),
            );
        }
        let __running = ::pytree_core::__derive_0_1::axes::Running::enter::<
            Self,
        >("forward", &__scope);
        let __result: Result<Tensor, InputError> = ::pytree_core::__derive_0_1::axes::body(|| -> Result<
            Tensor,
            InputError,
        > { Ok(x.clone()) });
        if ::pytree_core::__derive_0_1::axes::CHECKS_RESULTS {
            let __compare = |__scope: &mut ::pytree_core::__derive_0_1::axes::Scope| {
                use ::pytree_core::__derive_0_1::axes::Arrays as _;
                if let ::core::result::Result::Ok(__value) = &__result {
                    __value
                        .__compare_axes(
                            __scope,
                            const {
                                &::pytree_core::__derive_0_1::axes::ShapePattern {
                                    label: "the result",
                                    text: "T[... out]",
                                    element: ::pytree_core::__derive_0_1::axes::ElementPattern::Named(
                                        "T",
                                    ),
                                    before: &[],
                                    rest: ::core::option::Option::Some(
                                        ::pytree_core::__derive_0_1::axes::Rest::Any,
                                    ),
                                    after: &[
                                        ::pytree_core::__derive_0_1::axes::AxisPattern::Named("out"),
                                    ],
                                    roles: ::core::option::Option::None,
                                }
                            },
                        );
                }
            };
            if !::pytree_core::__derive_0_1::axes::Scope::result(
                &mut __scope,
                &__compare,
            ) {
                let __error = ::pytree_core::__derive_0_1::axes::Scope::error_of_result::<
                    Self,
                >(
                    &mut __scope,
                    "forward",
                    ::core::concat!(::core::file!(), ":", ::core::line!()),
                    &__compare,
                );
                return ::core::result::Result::Err(
                    ::pytree_core::__derive_0_1::axes::HoldsShapeError::of(__error),
                );
            }
        }
        __result
    }
}
