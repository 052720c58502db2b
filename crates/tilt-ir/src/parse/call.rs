//! Reads of streams and calls of functions.

use super::{
    Parsed, Parser,
    error::{ParseError, nearest},
    literal::{Operand, Term},
    reduction::is_agg,
};
use crate::{
    expr::{Edge, Expr, UnaryOp},
    ids::{ExprId, StreamId},
    lex::Place,
    names::{BINARY_FUNCTIONS, UNARY_FUNCTIONS},
    types::{DType, Scalar},
};

/// Functions that are no operators.
const OTHER_FUNCTIONS: &[&str] = &[
    "clip", "is_null", "coalesce", "cast", "hold", "start", "end", "ts", "dur",
];

impl<'t> Parser<'t> {
    /// `~x[t-5s]`, `~x.prev(1)`.
    pub(super) fn read(&mut self) -> Parsed<Operand<'t>> {
        let start = self.expect_symbol("~")?;
        let (stream, name_place) = self.stream()?;
        if self.eat_symbol(".") {
            return self.prev(stream, start);
        }
        if !self.at_symbol("[") {
            let name = self.text_at(name_place);
            return Err(self
                .expected("`[`")
                .help(format!("a stream is read at an instant: `~{name}[t]`")));
        }
        let open = self.bump().place;
        if self.at_symbol("#") || self.at_symbol("-") {
            return Err(self.unreduced_window(name_place));
        }
        let offset = self.instant()?;
        if self.at_symbol(":") {
            return Err(self.unreduced_window(name_place));
        }
        let close = self.close("]", open)?;
        self.add_operand(Expr::At { stream, offset }, start.to(close))
    }

    fn unreduced_window(&self, name: Place) -> Box<ParseError> {
        self.error(self.peek().place, "a window is not a value")
            .help(format!(
                "reduce it: `reduce sum ~{}[…]`",
                self.text_at(name)
            ))
    }

    fn prev(&mut self, stream: StreamId, start: Place) -> Parsed<Operand<'t>> {
        if !self.at_word("prev") {
            let error = self.expected("`prev`");
            return Err(error.help("a field is read after the instant: `~x[t].name`"));
        }
        self.bump();
        let open = self.expect_symbol("(")?;
        let n = self.count("a number of events")?;
        let close = self.close(")", open)?;
        self.add_operand(Expr::Prev { stream, n }, start.to(close))
    }

    /// `~x[t+d]` inside `hold`, `start` or `end`.
    fn element(&mut self) -> Parsed<(StreamId, i64)> {
        if !self.at_symbol("~") {
            return Err(self
                .expected("a read of a stream")
                .help("this takes `~x[t]`, not any expression"));
        }
        self.bump();
        let stream = self.stream()?.0;
        let open = self.expect_symbol("[")?;
        let offset = self.instant()?;
        self.close("]", open)?;
        Ok((stream, offset))
    }

    /// `hold(~x[t+d], max_age)`.
    pub(super) fn held(&mut self) -> Parsed<(StreamId, i64, Option<i64>)> {
        self.expect_word("hold")?;
        let open = self.expect_symbol("(")?;
        let (stream, offset) = self.element()?;
        let max_age = if self.eat_symbol(",") {
            Some(self.duration()?)
        } else {
            None
        };
        self.close(")", open)?;
        Ok((stream, offset, max_age))
    }

    pub(super) fn external_call(&mut self) -> Parsed<Operand<'t>> {
        let start = self.expect_symbol("@")?;
        let (name, place) = self.name("a function's name")?;
        let declared = self.program.functions.iter().find(|(_, f)| f.name == name);
        let Some((func, function)) = declared else {
            let names = self.program.functions.iter().map(|(_, f)| f.name.as_str());
            let help = if self.program.reducers.iter().any(|(_, r)| r.name == name) {
                Some(format!("it is a reduction: `reduce @{name} ~x[…]`"))
            } else {
                nearest(&name, names).map(|g| format!("did you mean `@{g}`?"))
            };
            let message = format!("there is no function `@{name}`");
            return Err(self.error(place, message).maybe_help(help));
        };
        let params = function.params.clone();
        let open = self.expect_symbol("(")?;
        let mut args = Vec::new();
        while !self.at_symbol(")") {
            let dtype = params.get(args.len());
            let arg = self.expr(dtype)?;
            let id = self.settle(arg, dtype)?;
            if let Some(dtype) = dtype
                && self.program.dtype(id) != dtype
            {
                let message = format!(
                    "argument {} of `@{name}` is {dtype}, not {}",
                    args.len() + 1,
                    self.program.dtype(id)
                );
                return Err(self.error(arg.place, message));
            }
            args.push(id);
            if !self.eat_symbol(",") {
                break;
            }
        }
        let close = self.close(")", open)?;
        self.add_operand(Expr::Call { func, args }, start.to(close))
    }

    /// A function that is part of the language; its name is next.
    pub(super) fn function_call(&mut self, hint: Option<&DType>) -> Parsed<Operand<'t>> {
        let start = self.peek().place;
        let word = self.peek_text();
        if word == "hold" {
            let (stream, offset, max_age) = self.held()?;
            let place = start.to(self.last_place());
            return self.add_operand(
                Expr::Hold {
                    stream,
                    offset,
                    max_age,
                },
                place,
            );
        }
        let unary = UNARY_FUNCTIONS.iter().find(|row| row.0 == word);
        let binary = BINARY_FUNCTIONS.iter().find(|row| row.0 == word);
        if unary.is_none() && binary.is_none() && !OTHER_FUNCTIONS.contains(&word) {
            return Err(self.unknown_function(word, start));
        }
        self.bump();
        let expr = match (word, unary, binary) {
            (_, Some((_, op)), _) => {
                let keeps_type = !matches!(
                    op,
                    UnaryOp::IsNan | UnaryOp::IsFinite | UnaryOp::IsInfinite | UnaryOp::Part(_)
                );
                let args = self.args(word, 1, hint.filter(|_| keeps_type))?;
                Expr::Unary(*op, args[0])
            }
            (_, _, Some((_, op))) => {
                let args = self.args(word, 2, hint)?;
                Expr::Binary(*op, args[0], args[1])
            }
            ("coalesce", ..) => {
                let args = self.args(word, 2, hint)?;
                Expr::Coalesce(args[0], args[1])
            }
            ("clip", ..) => {
                let args = self.args(word, 3, hint)?;
                Expr::Clip {
                    value: args[0],
                    lo: args[1],
                    hi: args[2],
                }
            }
            ("is_null", ..) => Expr::IsNull(self.args(word, 1, None)?[0]),
            ("cast", ..) => {
                let open = self.expect_symbol("(")?;
                let value = self.expr(None)?;
                let value = self.settle(value, None)?;
                self.expect_symbol(",")?;
                let dtype = self.dtype()?;
                self.close(")", open)?;
                Expr::Cast(value, dtype)
            }
            ("start" | "end", ..) => {
                let open = self.expect_symbol("(")?;
                let (stream, offset) = self.element()?;
                self.close(")", open)?;
                let edge = match word {
                    "start" => Edge::Start,
                    _ => Edge::End,
                };
                Expr::Edge {
                    stream,
                    offset,
                    edge,
                }
            }
            _ => {
                let open = self.expect_symbol("(")?;
                let ticks = self.integer("a number of ticks")?;
                self.expect_symbol(",")?;
                let unit = self.unit()?;
                self.close(")", open)?;
                let dtype = match word {
                    "ts" => DType::Timestamp(unit),
                    _ => DType::Duration(unit),
                };
                Expr::Const(Scalar::Int(ticks), dtype)
            }
        };
        let place = start.to(self.last_place());
        let id = self.add(expr, start)?;
        Ok(Operand {
            term: Term::Node(id),
            place,
        })
    }

    /// Exactly `count` arguments of one type.
    fn args(&mut self, name: &str, count: usize, hint: Option<&DType>) -> Parsed<Vec<ExprId>> {
        let start = self.last_place();
        let open = self.expect_symbol("(")?;
        let mut args: Vec<Operand<'t>> = Vec::new();
        while !self.at_symbol(")") {
            let known = self.known_type(&args);
            args.push(self.expr(known.as_ref().or(hint))?);
            if !self.eat_symbol(",") {
                break;
            }
        }
        self.close(")", open)?;
        if args.len() != count {
            let plural = if count == 1 { "" } else { "s" };
            let message = format!(
                "`{name}` takes {count} argument{plural}, not {}",
                args.len()
            );
            return Err(self.error(start, message));
        }
        self.settle_alike(&args, hint)
    }

    fn unknown_function(&self, word: &str, place: Place) -> Box<ParseError> {
        let unary = UNARY_FUNCTIONS.iter().map(|row| row.0);
        let binary = BINARY_FUNCTIONS.iter().map(|row| row.0);
        let others = OTHER_FUNCTIONS.iter().copied();
        let declared = self.program.functions.iter().any(|(_, f)| f.name == word);
        let help = if declared {
            Some(format!("a declared function is called as `@{word}(…)`"))
        } else if is_agg(word) {
            Some(format!("it is a reduction: `reduce {word} ~x[…]`"))
        } else {
            nearest(word, unary.chain(binary).chain(others)).map(|g| format!("did you mean `{g}`?"))
        };
        self.error(place, format!("there is no function `{word}`"))
            .maybe_help(help)
    }
}

/// Whether `word` is a function of the language.
pub(super) fn is_function(word: &str) -> bool {
    UNARY_FUNCTIONS.iter().any(|row| row.0 == word)
        || BINARY_FUNCTIONS.iter().any(|row| row.0 == word)
        || OTHER_FUNCTIONS.contains(&word)
}
