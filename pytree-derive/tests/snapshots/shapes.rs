impl Linear {
    /// Applies the layer.
    ///
    /// **Shapes:** `x: T[... in]`, returns `T[... out]`
    #[track_caller]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        use ::pytree_core::__derive_0_1 as __core;
        static __SHAPES: [__core::axes::ShapePattern; 2usize] = [
            __core::axes::ShapePattern {
                element: __core::axes::ElementPattern::Named("T"),
                rest: ::core::option::Option::Some(__core::axes::Rest::Any),
                after: &[__core::axes::AxisPattern::Named("in")],
                ..__core::axes::ShapePattern::new("x", "T[... in]")
            },
            __core::axes::ShapePattern {
                element: __core::axes::ElementPattern::Named("T"),
                rest: ::core::option::Option::Some(__core::axes::Rest::Any),
                after: &[__core::axes::AxisPattern::Named("out")],
                ..__core::axes::ShapePattern::new("the result", "T[... out]")
            },
        ];
        {
            #[diagnostic::on_unimplemented(
                message = "`out` has no length: nothing binds it before the result; make it an axis of an argument, or of a field, such as `#[param(\"out\")]`, or a static field `#[r#static] out: usize`, or write `_`\n\n    T[... out]\n          ^^^",
                label = "this name has no length"
            )]
            trait KnownOut {}
            #[diagnostic::do_not_recommend]
            impl<
                __T: __core::axes::BindsAxis<7304564u128> + ?::core::marker::Sized,
            > KnownOut for __T {}
            fn known<__T: KnownOut + ?::core::marker::Sized>() {}
            known::<Self>();
        }
        let __bind = |__scope: &mut __core::axes::Scope| {
            use __core::axes::Arrays as _;
            __core::axes::NamedAxes::bind_axes(&*self, __scope);
            __scope.begin(__core::axes::Owner::Argument);
            __core::axes::Scope::value(__scope, &__SHAPES[0usize], &*x);
        };
        let mut __scope = __core::axes::Scope::new();
        let __running = match __scope
            .arguments(::core::any::type_name::<Self>, "forward", &__bind)
        {
            ::core::result::Result::Ok(__running) => __running,
            ::core::result::Result::Err(__error) => {
                return ::core::result::Result::Err(
                    __core::axes::HoldsShapeError::of(__error),
                );
            }
        };
        let __result = __core::axes::body(|| -> Result<Tensor, InputError> {
            Ok(x.clone())
        });
        let __compare = |__scope: &mut __core::axes::Scope| {
            use __core::axes::Arrays as _;
            if let ::core::result::Result::Ok(__value) = &__result {
                __value.__compare_axes(__scope, &__SHAPES[1usize]);
            }
        };
        (|| __scope.result(::core::any::type_name::<Self>, "forward", &__compare))()
            .map_err(__core::axes::HoldsShapeError::of)
            .and(__result)
    }
}
