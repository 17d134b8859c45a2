//! `#[panicking_twin]`: generates a function that panics from a function that returns an error.
//!
//! The documentation is written once, for the panicking function, which most callers use. The documentation of
//! the other function is generated: it names the panicking function and the errors. Both functions are `#[track_caller]`,
//! so that a panic and the place of an operation in a recorded function are the user's line.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, ExprLit, FnArg, GenericArgument, Ident, Lit, Meta, Pat, PathArguments,
    ReturnType, Signature, Token, Type, parse_quote,
};

use crate::function::Function;

syn::custom_keyword!(composed);

/// The arguments of the attribute: the name of the panicking function, whether the function is composed of others that
/// may panic for want of memory, and the variants of the error.
struct Arguments {
    name: Ident,
    is_composed: bool,
    variants: Punctuated<Ident, Token![|]>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse()?;
        let mut is_composed = false;
        let mut variants = Punctuated::new();
        while input.parse::<Option<Token![,]>>()?.is_some() {
            if input.parse::<Option<composed>>()?.is_some() {
                is_composed = true;
            } else {
                variants = Punctuated::parse_separated_nonempty(input)?;
            }
        }
        Ok(Self {
            name,
            is_composed,
            variants,
        })
    }
}

/// Expands `#[panicking_twin]`.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let arguments = Arguments::parse.parse2(arguments);
    arguments
        .and_then(|arguments| both(&arguments, Function::parse.parse2(item)?))
        .unwrap_or_else(|error| error.to_compile_error())
}

/// Generates both the fallible and the panicking function.
fn both(arguments: &Arguments, function: Function) -> syn::Result<TokenStream> {
    let Function {
        attributes,
        visibility,
        signature,
        body,
    } = function;
    let (value, error) = value_and_error(&signature)?;
    let (scope, call) = call(&signature)?;
    let mut documentation = Documentation::default();
    let (mut of_twin, mut of_both) = (vec![], vec![]);
    for attribute in attributes {
        match text(&attribute) {
            Some(line) => documentation.push(line),
            None if is_must_use(&attribute) || is_alias(&attribute) => of_twin.push(attribute),
            // Both functions get it in any case.
            None if attribute.path().is_ident("track_caller") => {}
            None => of_both.push(attribute),
        }
    }

    // A method that returns a value of its own type changes nothing, so a call without its value does nothing.
    let is_of_own_type = matches!(value, Type::Path(path) if path.path.is_ident("Self"));
    if is_of_own_type && !of_twin.iter().any(is_must_use) {
        of_twin.push(parse_quote!(#[must_use]));
    }
    let link = |name: &Ident| match scope {
        "" => format!("[`{name}`](fn@{name})"),
        _ => format!("[`{name}`]({scope}{name})"),
    };
    let twin_link = link(&arguments.name);
    let of_twin_documented = documentation
        .of_twin(&link(&signature.ident))
        .ok_or_else(|| {
            let message = "document when the generated function panics: write a section `# Panics` or `# Errors`";
            syn::Error::new_spanned(&signature.ident, message)
        })?;
    let of_function_documented = documentation.of_function(&twin_link, &error, arguments);
    let mut twin = Signature {
        ident: arguments.name.clone(),
        output: parse_quote!(-> #value),
        ..signature.clone()
    };
    for input in &mut twin.inputs {
        if let FnArg::Typed(typed) = input
            && let Pat::Ident(pattern) = &mut *typed.pat
        {
            pattern.mutability = None;
        }
    }
    // Generated documentation gets the span of the function's name, so that tools find its source.
    let twin_name = arguments.name.to_string();
    let body = if arguments.is_composed {
        quote!({ TensorError::composed(#twin_name, move || #body) })
    } else {
        body
    };
    let panic = if error == "TensorError" {
        quote!(error.raise())
    } else {
        quote!(::core::panic!("{error}"))
    };
    let attributes =
        |lines: &[String]| quote_spanned!(signature.ident.span()=> #(#[doc = #lines])*);
    let of_twin_documented = attributes(&of_twin_documented);
    let of_function_documented = attributes(&of_function_documented);
    Ok(quote! {
        #of_twin_documented
        #(#of_both)*
        #(#of_twin)*
        #[track_caller]
        #visibility #twin {
            match #call {
                ::core::result::Result::Ok(value) => value,
                ::core::result::Result::Err(error) => #panic,
            }
        }

        #of_function_documented
        #(#of_both)*
        #[track_caller]
        #visibility #signature #body
    })
}

/// The lines of the doc comment. The section `# Errors` is for the fallible function; all other lines are for the
/// panicking function.
#[derive(Default)]
struct Documentation {
    before_panics: Vec<String>,
    panics: Vec<String>,
    after_panics: Vec<String>,
    errors: Vec<String>,
    section: Section,
    is_code: bool,
}

#[derive(Default)]
enum Section {
    #[default]
    First,
    Panics,
    Errors,
    Last,
}

impl Documentation {
    fn push(&mut self, line: String) {
        let trimmed = line.trim();
        self.is_code ^= trimmed.starts_with("```");
        // In an example, a line that begins with `# ` is hidden code.
        if trimmed.starts_with("# ") && !self.is_code {
            self.section = match trimmed {
                "# Panics" => Section::Panics,
                "# Errors" => return self.section = Section::Errors,
                _ if self.panics.is_empty() => Section::First,
                _ => Section::Last,
            };
        }
        match self.section {
            Section::First => &mut self.before_panics,
            Section::Panics => &mut self.panics,
            Section::Errors => &mut self.errors,
            Section::Last => &mut self.after_panics,
        }
        .push(line);
    }

    /// Returns the documentation of the panicking function, or `None` if the doc comment has neither of the sections
    /// `# Panics` and `# Errors`.
    fn of_twin(&self, link: &str) -> Option<Vec<String>> {
        let mut panics = self.panics.clone();
        let end = panics.iter().rposition(|line| !line.trim().is_empty());
        match end {
            Some(end) => panics.insert(end + 1, format!(" See {link} for a fallible version.")),
            None if self.errors.is_empty() => return None,
            None => {
                let when = format!(" Where {link} returns an error.");
                panics = vec![" # Panics".to_owned(), when];
            }
        }
        Some([&self.before_panics[..], &panics, &self.after_panics].concat())
    }

    /// Returns the documentation of the fallible function. The section `# Errors` is copied from the doc comment. If
    /// the doc comment has no such section, a section is generated. The generated section lists the error variants in
    /// the attribute. If the attribute has no variants, the section names the error type.
    fn of_function(&self, twin: &str, error: &str, arguments: &Arguments) -> Vec<String> {
        let first = format!(" Returns an error where {twin} panics.");
        let mut lines = vec![first, String::new(), " # Errors".to_owned()];
        if !self.errors.is_empty() {
            lines.extend_from_slice(&self.errors);
            return lines;
        }
        let variants = arguments.variants.iter();
        let variants: Vec<String> = variants
            .map(|name| format!("[`{error}::{name}`]"))
            .collect();
        lines.push(match variants.split_last() {
            None => format!(" [`{error}`] where {twin} panics."),
            Some((only, [])) => format!(" {only}."),
            Some((last, others)) => format!(" {} or {last}.", others.join(", ")),
        });
        lines
    }
}

fn is_must_use(attribute: &Attribute) -> bool {
    attribute.path().is_ident("must_use")
}

/// Returns whether an attribute is `#[doc(alias = "…")]`, by which the search of rustdoc finds an item. The search shall
/// show only the function that most callers use.
fn is_alias(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else {
        return false;
    };
    let first = list.tokens.clone().into_iter().next();
    list.path.is_ident("doc") && first.is_some_and(|token| token.to_string() == "alias")
}

/// Returns the line of documentation in a `doc` attribute, or `None` for any other attribute.
fn text(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(doc) = &attribute.meta else {
        return None;
    };
    let mut value = &doc.value;
    // If a macro generated the attribute, the text may be inside a group.
    while let Expr::Group(group) = value {
        value = &group.expr;
    }
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) if doc.path.is_ident("doc") => Some(text.value()),
        _ => None,
    }
}

/// Returns the value type and the name of the error type of the returned `Result`.
fn value_and_error(signature: &Signature) -> syn::Result<(&Type, String)> {
    let arguments = match &signature.output {
        ReturnType::Type(_, output) => match &**output {
            Type::Path(path) => path.path.segments.last().map(|last| &last.arguments),
            _ => None,
        },
        ReturnType::Default => None,
    };
    if let Some(PathArguments::AngleBracketed(arguments)) = arguments {
        let mut types = arguments.args.iter();
        if let (Some(GenericArgument::Type(value)), Some(GenericArgument::Type(error))) =
            (types.next(), types.next())
        {
            return Ok((value, error.to_token_stream().to_string()));
        }
    }
    let message = "`#[panicking_twin]` applies only to a function that returns a `Result<T, E>`";
    Err(syn::Error::new_spanned(signature, message))
}

/// Returns the path prefix of the fallible function, and the code that calls this function with the arguments of the
/// panicking function.
fn call(signature: &Signature) -> syn::Result<(&'static str, TokenStream)> {
    let name = &signature.ident;
    let mut receiver = None;
    let mut arguments = Vec::new();
    for input in &signature.inputs {
        match input {
            FnArg::Receiver(found) => receiver = Some(&found.self_token),
            FnArg::Typed(typed) => match &*typed.pat {
                Pat::Ident(pattern) => arguments.push(&pattern.ident),
                other => {
                    let message =
                        "give the argument a name, because the generated function passes it on";
                    return Err(syn::Error::new_spanned(other, message));
                }
            },
        }
    }
    if let Some(receiver) = receiver {
        return Ok(("Self::", quote!(#receiver.#name(#(#arguments),*))));
    }
    let text = signature.to_token_stream().to_string();
    let is_associated = text
        .split(|c: char| !c.is_alphanumeric())
        .any(|word| word == "Self");
    Ok(if is_associated {
        ("Self::", quote!(Self::#name(#(#arguments),*)))
    } else {
        ("", quote!(#name(#(#arguments),*)))
    })
}
