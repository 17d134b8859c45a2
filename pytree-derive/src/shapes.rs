//! `#[shapes]` and `shaped!`: functions and closures whose arguments and results have named axes.
//!
//! The generated code first compares the fields, and then the arguments. After the body, the code compares the result.
//! If a shape does not match, the same comparisons run again with a scope that records each shape for the message.
//!
//! The function becomes `#[track_caller]`, so that a panic about an argument has the line of the caller. The body runs
//! in a closure, which is not `#[track_caller]`. So a panic of an operation in the body has the line of the operation.
//! In a closure, `return` and `?` end only the body, so the result is still compared.
//!
//! If the user wrote `#[track_caller]`, a panic in the body must also have the line of the caller. In this case, the
//! body is a block and not a closure, unless the body may return early; see `body`.

mod arguments;
mod body;
mod names;

use std::cell::RefCell;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Attribute, ExprClosure, FnArg, Ident, Meta, Pat, ReceiverKind, ReturnType, Token, Type};

use self::arguments::{Arguments, Shapes};
use self::body::{may_return, statements};
use self::names::Called;
use crate::errors::Errors;
use crate::function::Function;
use crate::paths::{Entry, Root};

/// Expands `#[shapes]`.
pub(crate) fn attribute(arguments: TokenStream, item: TokenStream, entry: Entry) -> TokenStream {
    let parsed = Function::parse.parse2(item.clone()).map_err(|_| {
        let message = "`#[shapes]` belongs on a function or method with a body; for a closure write `shaped!(x = \"batch\", |x: &Tensor| …)`";
        syn::Error::new(Span::call_site(), message)
    });
    let expanded = parsed.and_then(|function| {
        let arguments = Arguments::parse.parse2(arguments)?;
        of_function(&arguments, &function, entry)
    });
    // Keep the function, so that its callers cause no further errors.
    expanded.unwrap_or_else(|error| {
        let error = error.to_compile_error();
        quote!(#error #item)
    })
}

fn of_function(
    arguments: &Arguments,
    function: &Function,
    entry: Entry,
) -> syn::Result<TokenStream> {
    let Function {
        attributes,
        visibility,
        signature,
        body,
    } = function;
    for (is_there, word, fix) in [
        (signature.constness.is_some(), "const", "remove `const`"),
        (
            signature.asyncness.is_some(),
            "async",
            "move the computation to a function that is not async, write `#[shapes]` on it, and call it here",
        ),
    ] {
        if is_there {
            let message = format!("`#[shapes]` cannot check {word} functions: {fix}");
            return Err(syn::Error::new_spanned(signature, message));
        }
    }
    if body.is_empty() || body.to_string() == ";" {
        let message = "`#[shapes]` needs a function with a body: write it on the implementation";
        return Err(syn::Error::new_spanned(signature, message));
    }
    let mut parameters = Vec::new();
    let mut receiver = None;
    for input in &signature.inputs {
        match input {
            FnArg::Receiver(found) => {
                let is_value = matches!(found.kind, ReceiverKind::Value);
                receiver = Some(if is_value {
                    quote!(&self)
                } else {
                    quote!(&*self)
                });
            }
            FnArg::Typed(typed) => bound_names(&typed.pat, Some(&typed.ty), &mut parameters),
        }
    }
    let name = signature.ident.unraw().to_string();
    let is_tracked = attributes.iter().any(is_tracking);
    let called = Called {
        path: Root::new(entry, arguments.renamed.as_ref()),
        root: Root::alias(),
        table: RefCell::default(),
        name: name.strip_prefix("try_").unwrap_or(&name).to_owned(),
        span: signature.ident.span().resolved_at(Span::call_site()),
        parameters,
        receiver,
        output: &signature.output,
        is_tracked,
        is_closure: false,
    };
    let checked = called.checked(arguments, body)?;
    let documented = documented(attributes, arguments);
    let tracked = (!is_tracked).then(|| quote!(#[track_caller]));
    Ok(quote! {
        #documented
        #tracked
        #visibility #signature {
            #checked
        }
    })
}

/// Returns whether an attribute makes the function `#[track_caller]`.
fn is_tracking(attribute: &Attribute) -> bool {
    let last = attribute.path().segments.last();
    last.is_some_and(|name| name.ident == "track_caller" || name.ident == "panicking_twin")
}

/// Returns the attributes with a line of documentation that shows the shapes, below the first paragraph.
fn documented(attributes: &[Attribute], arguments: &Arguments) -> TokenStream {
    let mut shapes: Vec<String> = arguments
        .inputs
        .iter()
        .map(|(name, shapes)| format!("`{name}: {}`", shapes.displayed()))
        .collect();
    if let Some((_, output)) = &arguments.output {
        shapes.push(format!("returns `{}`", output.displayed()));
    }
    let text = format!(" **Shapes:** {}", shapes.join(", "));
    let is_doc = |attribute: &&Attribute| attribute.path().is_ident("doc");
    let is_blank = |attribute: &&Attribute| match &attribute.meta {
        Meta::NameValue(meta) => meta.value.to_token_stream().to_string() == "\"\"",
        _ => false,
    };
    let docs = || attributes.iter().filter(is_doc);
    let blank = docs().position(|attribute| is_blank(&attribute));
    let place = blank.unwrap_or_else(|| docs().count());
    let (before, after): (Vec<_>, Vec<_>) = docs().enumerate().partition(|(at, _)| *at < place);
    let before = before.into_iter().map(|(_, attribute)| attribute);
    let after = after.into_iter().map(|(_, attribute)| attribute);
    let others = attributes.iter().filter(|attribute| !is_doc(attribute));
    quote! {
        #(#before)*
        #[doc = ""]
        #[doc = #text]
        #(#after)*
        #(#others)*
    }
}

/// Expands `shaped!(x = "…", return = "…", |x| body)`.
pub(crate) fn closure(input: TokenStream, entry: Entry) -> TokenStream {
    let parse = |input: ParseStream<'_>| {
        let mut arguments = Arguments::default();
        while !(input.peek(Token![|]) || input.peek(Token![||]) || input.peek(Token![move])) {
            if input.is_empty() {
                let message = "expected a closure after the shapes: write `shaped!(x = \"batch\", |x: &Tensor| …)`";
                return Err(input.error(message));
            }
            arguments.parse_one(input)?;
            input.parse::<Token![,]>()?;
        }
        let closure: ExprClosure = input.parse()?;
        input.parse::<Option<Token![,]>>()?;
        Ok((arguments, closure))
    };
    parse
        .parse2(input)
        .and_then(|(arguments, closure)| of_closure(&arguments, closure, entry))
        .unwrap_or_else(|error| error.to_compile_error())
}

fn of_closure(
    arguments: &Arguments,
    mut closure: ExprClosure,
    entry: Entry,
) -> syn::Result<TokenStream> {
    let mut parameters = Vec::new();
    for input in &closure.inputs {
        match input {
            Pat::Type(typed) => bound_names(&typed.pat, Some(&typed.ty), &mut parameters),
            pattern => bound_names(pattern, None, &mut parameters),
        }
    }
    let called = Called {
        path: Root::new(entry, arguments.renamed.as_ref()),
        root: Root::alias(),
        table: RefCell::default(),
        name: "the closure".to_owned(),
        span: closure.inputs_begin.span().resolved_at(Span::call_site()),
        parameters,
        receiver: None,
        output: &closure.output,
        is_tracked: false,
        is_closure: true,
    };
    let checked = called.checked(arguments, &closure.body.to_token_stream())?;
    *closure.body = syn::parse2(quote!({ #checked }))?;
    Ok(closure.to_token_stream())
}

/// Adds the names that a pattern binds, each with its type where the type is written.
fn bound_names(pattern: &Pat, ty: Option<&Type>, names: &mut Vec<(Ident, Option<Type>)>) {
    match pattern {
        Pat::Ident(pattern) => names.push((pattern.ident.clone(), ty.cloned())),
        Pat::Tuple(tuple) => {
            let types: Vec<Option<&Type>> = match ty {
                Some(Type::Tuple(types)) => types.elems.iter().map(Some).collect(),
                _ => vec![None; tuple.elems.len()],
            };
            let types = types.into_iter().chain(std::iter::repeat(None));
            for (element, ty) in tuple.elems.iter().zip(types) {
                bound_names(element, ty, names);
            }
        }
        Pat::TupleStruct(pattern) => {
            pattern
                .elems
                .iter()
                .for_each(|element| bound_names(element, None, names));
        }
        Pat::Struct(pattern) => {
            pattern
                .fields
                .iter()
                .for_each(|field| bound_names(&field.pat, None, names));
        }
        Pat::Reference(reference) => bound_names(&reference.pat, None, names),
        Pat::Paren(inner) => bound_names(&inner.pat, ty, names),
        Pat::Type(typed) => bound_names(&typed.pat, Some(&typed.ty), names),
        _ => {}
    }
}

impl Called<'_> {
    /// Generates the body with the comparisons before and after it.
    fn checked(&self, arguments: &Arguments, body: &TokenStream) -> syn::Result<TokenStream> {
        let mut errors = Errors::default();
        for (name, shapes) in &arguments.inputs {
            self.check_parameter(name, &mut errors);
            let ty = self.parameters.iter().find(|(known, _)| known == name);
            let ty = ty.and_then(|(_, ty)| ty.as_ref());
            check_tuple(shapes, ty, name.span(), &format!("`{name}`"), &mut errors);
        }
        if let (Some((span, shapes)), ReturnType::Type(_, ty)) = (&arguments.output, self.output) {
            check_tuple(shapes, Some(ty), *span, "the result", &mut errors);
        }
        if let (Some((span, _)), ReturnType::Default, false) =
            (&arguments.output, self.output, self.is_closure)
        {
            let message = "the function returns nothing: remove `return = …`";
            errors.add(syn::Error::new(*span, message));
        }
        let bounds = self.check_names(arguments, &mut errors);
        errors.into_result()?;
        Ok(self.code(arguments, body, &bounds))
    }

    /// Generates the body with the comparisons, of which `bounds` checks the names.
    fn code(&self, arguments: &Arguments, body: &TokenStream, bounds: &TokenStream) -> TokenStream {
        let root = &self.root;
        let fields = self
            .receiver
            .as_ref()
            .map(|receiver| quote!(#root::axes::NamedAxes::bind_axes(#receiver, __scope);));
        let numbers = self.numbers(arguments).map(|name| {
            let text = name.unraw().to_string();
            quote!(#root::axes::Scope::number(__scope, #text, #name);)
        });
        let inputs = arguments.inputs.iter().map(|(name, shapes)| {
            let ty = self.parameters.iter().find(|(known, _)| known == name);
            let ty = ty.and_then(|(_, ty)| ty.as_ref());
            self.compare(
                shapes,
                &name.unraw().to_string(),
                &name.to_token_stream(),
                ty,
            )
        });
        let (name, import) = (&self.name, self.path.imported());
        let of = self.receiver.as_ref();
        let of = of.map_or_else(|| quote!(()), |_| quote!(Self));
        let module = quote!(::core::any::type_name::<#of>);
        let is_result = self.returns_result();
        let refuse = if is_result {
            quote!(return ::core::result::Result::Err(#root::axes::HoldsShapeError::of(__error)))
        } else {
            quote!(#root::axes::refuse(&__error))
        };
        let inputs: TokenStream = inputs.collect();
        let compare = arguments.output.as_ref().map(|(_, shapes)| {
            self.compare(
                shapes,
                "the result",
                &quote!(__result),
                self.written_output(),
            )
        });
        let table = self.table.borrow();
        let count = table.len();
        let table = (count > 0)
            .then(|| quote!(static __SHAPES: [#root::axes::ShapePattern; #count] = [#(#table),*];));
        let checks = quote! {
            #import
            #table
            #bounds
            let __bind = |__scope: &mut #root::axes::Scope| {
                use #root::axes::Arrays as _;
                #fields
                __scope.begin(#root::axes::Owner::Argument);
                #(#numbers)*
                #inputs
            };
            let mut __scope = #root::axes::Scope::new();
            let __running = match __scope.arguments(#module, #name, &__bind) {
                ::core::result::Result::Ok(__running) => __running,
                ::core::result::Result::Err(__error) => #refuse,
            };
        };
        let Some(compare) = compare else {
            let value = self.unchecked_value(body);
            return quote!(#checks #value);
        };
        let annotation = self.output_type().filter(|_| self.is_block(body));
        let annotation = annotation.map(|ty| quote!(: #ty));
        let value = self.value(body);
        // A wrong result is a mistake of the function, so its place is the line of the function and not that of the caller.
        let compared = quote_spanned!(self.span=> __scope.result(#module, #name, &__compare));
        let end = if is_result {
            quote!((|| #compared)().map_err(#root::axes::HoldsShapeError::of).and(__result))
        } else {
            let refuse = quote_spanned!(self.span=> #root::axes::refuse(&__error));
            quote! {
                (|| if let ::core::result::Result::Err(__error) = #compared { #refuse })();
                __result
            }
        };
        quote! {
            #checks
            let __result #annotation = #value;
            let __compare = |__scope: &mut #root::axes::Scope| {
                use #root::axes::Arrays as _;
                #compare
            };
            #end
        }
    }

    /// Generates an expression for the value of a body. In this expression, `return` and `?` do not leave the function.
    fn value(&self, body: &TokenStream) -> TokenStream {
        if self.is_block(body) {
            return body.clone();
        }
        let root = &self.root;
        let output = self.output_type().map(|ty| quote!(-> #ty));
        let inner = statements(body);
        quote!(#root::axes::body(|| #output { #inner }))
    }

    /// Returns whether a compared body is a block and not a closure.
    fn is_block(&self, body: &TokenStream) -> bool {
        self.is_tracked && !may_return(body.clone())
    }

    /// Returns the type of the result. Returns `None` for a type that a closure cannot declare as its output, such as
    /// `impl Trait`.
    fn output_type(&self) -> Option<&Type> {
        let is_opaque = |ty: &Type| ty.to_token_stream().to_string().contains("impl ");
        self.written_output().filter(|ty| !is_opaque(ty))
    }

    /// Generates the end of a function whose result is not compared: the value of the body.
    fn unchecked_value(&self, body: &TokenStream) -> TokenStream {
        if self.is_tracked || self.is_closure {
            // A block inside of a block would be reported as needless.
            return statements(body);
        }
        self.value(body)
    }

    /// Generates the comparison of a value with its shapes. For an `Option` or a `Result`, compares the content if it
    /// exists.
    fn compare(
        &self,
        shapes: &Shapes,
        label: &str,
        value: &TokenStream,
        ty: Option<&Type>,
    ) -> TokenStream {
        let Some(ty) = ty else {
            return shapes.compare(&self.root, &self.table, label, value, None);
        };
        let inner = match without_references(ty) {
            Type::Path(path) => path.path.segments.last(),
            _ => None,
        };
        let pattern = match inner {
            Some(last) if last.ident == "Option" => quote!(::core::option::Option::Some(__value)),
            Some(last) if last.ident == "Result" => quote!(::core::result::Result::Ok(__value)),
            _ => {
                return shapes.compare(&self.root, &self.table, label, value, Some(references(ty)));
            }
        };
        let compare = shapes.compare(&self.root, &self.table, label, &quote!(__value), None);
        let reference = if matches!(ty, Type::Reference(_)) {
            quote!(*#value)
        } else {
            value.clone()
        };
        quote! {
            if let #pattern = &#reference {
                #compare
            }
        }
    }

    /// Returns whether the function returns a `Result`. Its error then holds a wrong shape, and any other function panics.
    fn returns_result(&self) -> bool {
        let last = match self.written_output() {
            Some(Type::Path(path)) => path.path.segments.last(),
            _ => None,
        };
        last.is_some_and(|last| last.ident == "Result")
    }

    /// Returns the type of the result, if it is written.
    fn written_output(&self) -> Option<&Type> {
        match self.output {
            ReturnType::Type(_, ty) => Some(ty),
            ReturnType::Default => None,
        }
    }
}

/// Returns the number of references around a type.
fn references(ty: &Type) -> usize {
    match ty {
        Type::Reference(reference) => 1 + references(&reference.elem),
        Type::Paren(inner) => references(&inner.elem),
        Type::Group(inner) => references(&inner.elem),
        _ => 0,
    }
}

/// Reports a tuple of shapes whose length differs from the length of the tuple type. Ignores a type that is not written
/// as a tuple, such as an alias.
fn check_tuple(shapes: &Shapes, ty: Option<&Type>, span: Span, place: &str, errors: &mut Errors) {
    let (Shapes::Tuple(shapes), Some(Type::Tuple(types))) = (shapes, ty.map(without_references))
    else {
        return;
    };
    let (described, found) = (shapes.len(), types.elems.len());
    if described != found {
        let message = format!(
            "{place} is a tuple of {found} elements, but {described} are described; write `_` for an element that is not checked"
        );
        return errors.add(syn::Error::new(span, message));
    }
    for (shapes, ty) in shapes.iter().zip(&types.elems) {
        check_tuple(shapes, Some(ty), span, place, errors);
    }
}

fn without_references(ty: &Type) -> &Type {
    match ty {
        Type::Reference(reference) => without_references(&reference.elem),
        Type::Paren(inner) => without_references(&inner.elem),
        Type::Group(inner) => without_references(&inner.elem),
        _ => ty,
    }
}
