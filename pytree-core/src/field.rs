//! What a field may be: the kinds, enforced by trait dispatch on the field's type.
