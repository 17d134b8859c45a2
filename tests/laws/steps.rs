//! The steps of random programs, as data.
//!
//! A step names the values it takes by a `Pick`, which chooses among those that exist when its turn comes.

use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index as Pick, select};

/// One operation of a program.
#[derive(Clone, Debug)]
pub enum Step {
    Unary(Unary, Pick),
    Binary(Binary, Pick, Pick),
    WithNumber(Binary, Pick, f64),
    Choose(Condition, Pick, Pick),
    Indicate(Condition),
    Convert(Detour, Pick),
    Reduce(Reduction, Pick, Pick),
    Multiply(Pick, Pick),
    Reorder(Reordering, Pick),
    Part(ElementsAlong, Pick, Pick),
    Join(Pick, Pick, Pick),
    Fill(Filling, Pick),
}

/// A function element by element.
#[derive(Clone, Copy, Debug)]
pub enum Unary {
    Neg,
    Exp,
    Sin,
    Cos,
    Tanh,
    Sigmoid,
    Square,
    Cube,
    // With poles, or not defined everywhere.
    Log,
    Sqrt,
    ErfInv,
    Reciprocal,
    // With kinks.
    Abs,
    Sign,
    Relu,
    Clip,
    // Around a value.
    Compiled,
    Watched,
}

/// A function of two tensors element by element.
#[derive(Clone, Copy, Debug)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Maximum,
    Minimum,
}

/// A comparison, perhaps joined to another one, perhaps negated.
#[derive(Clone, Debug)]
pub struct Condition {
    pub first: (Comparison, Pick, Pick),
    pub second: Option<(Logic, Comparison, Pick, Pick)>,
    pub negated: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Clone, Copy, Debug)]
pub enum Logic {
    And,
    Or,
    Xor,
}

/// Another element type to go through.
#[derive(Clone, Copy, Debug)]
pub enum Detour {
    OtherFloat,
    I32,
    I64,
    U32,
    Bool,
    IntegerArithmetic,
}

/// What becomes of one axis.
#[derive(Clone, Copy, Debug)]
pub enum Reduction {
    Sum,
    SumKeep,
    Mean,
    Variance,
    Max,
    MaxKeep,
    ArgMax,
}

/// The same elements along other axes, perhaps repeated.
#[derive(Clone, Copy, Debug)]
pub enum Reordering {
    Transpose,
    Flatten,
    ExpandFirst,
    ExpandLast,
    MoveAxis,
    Repeat,
}

/// Some of the elements along an axis, or some more.
#[derive(Clone, Copy, Debug)]
pub enum ElementsAlong {
    Backwards,
    EverySecond,
    AllButTheFirst,
    Last,
    Take,
    Padded,
}

/// An operation with a tensor made of nothing.
#[derive(Clone, Copy, Debug)]
pub enum Filling {
    Zeros,
    Half,
    Positions,
}

fn unaries() -> impl Strategy<Value = Unary> {
    use Unary::*;
    let smooth = [Neg, Exp, Sin, Cos, Tanh, Sigmoid, Square, Cube];
    let others = [Log, Sqrt, ErfInv, Reciprocal, Abs, Sign, Relu, Clip];
    let around = [Compiled, Watched];
    select([&smooth[..], &others, &around].concat())
}

fn binaries() -> impl Strategy<Value = Binary> {
    use Binary::*;
    select(vec![Add, Sub, Mul, Div, Maximum, Minimum])
}

fn comparisons() -> impl Strategy<Value = Comparison> {
    use Comparison::*;
    select(vec![
        Equal,
        NotEqual,
        Less,
        LessEqual,
        Greater,
        GreaterEqual,
    ])
}

fn detours() -> impl Strategy<Value = Detour> {
    use Detour::*;
    select(vec![OtherFloat, I32, I64, U32, Bool, IntegerArithmetic])
}

fn reductions() -> impl Strategy<Value = Reduction> {
    use Reduction::*;
    select(vec![Sum, SumKeep, Mean, Variance, Max, MaxKeep, ArgMax])
}

fn reorderings() -> impl Strategy<Value = Reordering> {
    use Reordering::*;
    select(vec![
        Transpose,
        Flatten,
        ExpandFirst,
        ExpandLast,
        MoveAxis,
        Repeat,
    ])
}

fn parts() -> impl Strategy<Value = ElementsAlong> {
    use ElementsAlong::*;
    select(vec![
        Backwards,
        EverySecond,
        AllButTheFirst,
        Last,
        Take,
        Padded,
    ])
}

fn fillings() -> impl Strategy<Value = Filling> {
    use Filling::*;
    select(vec![Zeros, Half, Positions])
}

fn numbers() -> impl Strategy<Value = f64> {
    select(vec![0.0, 0.5, -1.25, 3.0])
}

fn picks() -> impl Strategy<Value = Pick> {
    any::<Pick>()
}

fn conditions() -> impl Strategy<Value = Condition> {
    let first = (comparisons(), picks(), picks());
    let logic = select(vec![Logic::And, Logic::Or, Logic::Xor]);
    let second = option::of((logic, comparisons(), picks(), picks()));
    let make = |(first, second, negated)| Condition {
        first,
        second,
        negated,
    };
    (first, second, any::<bool>()).prop_map(make)
}

/// Random steps: element by element most of the time, since that is what is fused.
pub fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (unaries(), picks()).prop_map(|(unary, of)| Step::Unary(unary, of)),
        7 => (binaries(), picks(), picks()).prop_map(|(binary, x, y)| Step::Binary(binary, x, y)),
        3 => (binaries(), picks(), numbers()).prop_map(|(binary, x, y)| Step::WithNumber(binary, x, y)),
        3 => (conditions(), picks(), picks()).prop_map(|(condition, x, y)| Step::Choose(condition, x, y)),
        2 => conditions().prop_map(Step::Indicate),
        2 => (detours(), picks()).prop_map(|(detour, of)| Step::Convert(detour, of)),
        2 => (reductions(), picks(), picks()).prop_map(|(reduction, of, axis)| Step::Reduce(reduction, of, axis)),
        1 => (picks(), picks()).prop_map(|(x, y)| Step::Multiply(x, y)),
        2 => (reorderings(), picks()).prop_map(|(reordering, of)| Step::Reorder(reordering, of)),
        1 => (parts(), picks(), picks()).prop_map(|(part, of, axis)| Step::Part(part, of, axis)),
        1 => (picks(), picks(), picks()).prop_map(|(x, y, axis)| Step::Join(x, y, axis)),
        1 => (fillings(), picks()).prop_map(|(filling, of)| Step::Fill(filling, of)),
    ]
}
