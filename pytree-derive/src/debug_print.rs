//! `debug_print!`: prints tensors when their values are known.
//!
//! A procedural macro reads the format string, because a placeholder such as `{x}` names a variable: the variable is an
//! operand of the callback, and must not be captured by the closure, which outlives it.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Ident, LitStr, Token, bracketed};

/// An operand: the name of its placeholder, if it has one, and the expression of the tensor.
struct Operand {
    name: Option<Ident>,
    tensor: Expr,
}

/// Expands `[root] "format", operands`, where `root` is the path of the crate of tensors.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    match parse.parse2(input) {
        Ok((root, format, operands)) => print(&root, &format, &operands),
        Err(error) => error.to_compile_error(),
    }
}

fn parse(input: ParseStream<'_>) -> syn::Result<(TokenStream, LitStr, Vec<Operand>)> {
    let root;
    bracketed!(root in input);
    let root: TokenStream = root.parse()?;
    let format: LitStr = input.parse()?;
    let mut operands = Vec::new();
    while !input.is_empty() {
        input.parse::<Token![,]>()?;
        if input.is_empty() {
            break;
        }
        let is_named = input.peek(Ident) && input.peek2(Token![=]) && !input.peek2(Token![==]);
        let name = if is_named {
            let name = input.parse()?;
            input.parse::<Token![=]>()?;
            Some(name)
        } else {
            None
        };
        let tensor = input.parse()?;
        operands.push(Operand { name, tensor });
    }
    for name in captured(&format.value()) {
        let is_given = operands
            .iter()
            .any(|operand| operand.name.as_ref().is_some_and(|given| *given == name));
        if !is_given && let Ok(mut ident) = syn::parse_str::<Ident>(&name) {
            ident.set_span(format.span());
            operands.push(Operand {
                name: Some(ident.clone()),
                tensor: syn::parse_quote!(#ident),
            });
        }
    }
    Ok((root, format, operands))
}

/// Returns the names in the placeholders of a format string, each once. `{{` is a brace and no placeholder.
fn captured(format: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let text = format.replace("{{", "").replace("}}", "");
    for placeholder in text.split('{').skip(1) {
        let inside = placeholder.split('}').next().unwrap_or_default();
        let name = inside.split(':').next().unwrap_or_default().trim();
        let is_name = name.starts_with(|first: char| first.is_alphabetic() || first == '_');
        if is_name && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

fn print(root: &TokenStream, format: &LitStr, operands: &[Operand]) -> TokenStream {
    let values = Ident::new("values", Span::mixed_site());
    let tensors = operands.iter().map(|operand| &operand.tensor);
    let arguments = operands.iter().map(|operand| {
        let name = operand.name.iter();
        quote!(#(#name =)* #root::__macros_0_1::next_operand(&mut #values))
    });
    let take = (!operands.is_empty()).then(|| quote!(let mut #values = #values.iter();));
    quote! {
        #root::debug_callback(
            &[#(#root::__macros_0_1::operand(&#tensors)),*],
            |#values: &[#root::Tensor]| {
                #take
                #root::__macros_0_1::print_line(::std::format_args!(#format #(, #arguments)*));
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::captured;

    #[test]
    fn names_of_placeholders_are_found() {
        assert_eq!(captured("x = {x}, {y:?} {} {0} {{z}} {x:>8}"), ["x", "y"]);
        assert!(captured("no operands, {{}}").is_empty());
    }
}
