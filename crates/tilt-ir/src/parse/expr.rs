//! Scalar expressions.
//!
//! A *hint* is the type that the context asks for. Only literals that have no type of their own look at it, and it may
//! be wrong: the type check decides.

use super::{
    MAX_HEIGHT, MAX_NESTING, MAX_RECORD_SIZE, Parsed, Parser,
    error::{ParseError, nearest},
    literal::{Operand, Term},
};
use crate::{
    expr::{Agg, BinaryOp, Bounds, Edge, Expr, Ratio, UnaryOp, Window},
    ids::{ExprId, Id, StreamId},
    lex::{Place, TokenKind, quote_name, unquote_text},
    names::{BINARY_FUNCTIONS, INFIX, PLAIN_AGGS, QUANTILE_METHODS, RESERVED_WORDS, UNARY_FUNCTIONS},
    types::{DType, Scalar},
    typing::TypeError,
};

/// Functions that are no operators.
const OTHER_FUNCTIONS: &[&str] = &[
    "clip", "is_null", "coalesce", "cast", "hold", "start", "end", "ts", "dur",
];
/// Reductions that may have parameters.
const OTHER_AGGS: &[&str] = &["var", "std", "skew", "kurtosis", "quantile", "top_k", "ewm"];

/// An infix operator that waits for its right operand.
#[derive(Clone, Copy)]
struct Infix {
    op: BinaryOp,
    strength: u8,
    place: Place,
}

/// One end of a window.
#[derive(Clone, Copy)]
enum Bound {
    Beginning,
    Time(i64),
    Ordinal(i64),
}

impl<'t> Parser<'t> {
    pub(super) fn expr(&mut self, hint: Option<&DType>) -> Parsed<Operand<'t>> {
        self.nest()?;
        let operand = if self.at_word("let") {
            self.lets(hint)
        } else if self.at_word("if") {
            self.branches(hint)
        } else {
            self.infix(hint)
        };
        self.nesting -= 1;
        operand
    }

    /// Adds a node; a type error is reported at `place`.
    pub(super) fn add(&mut self, expr: Expr, place: Place) -> Parsed<ExprId> {
        let mut below = 0;
        expr.for_each_operand(|operand| below = below.max(self.heights[operand.index()]));
        if below >= MAX_HEIGHT {
            return Err(self
                .error(place, format!("this expression is more than {MAX_HEIGHT} levels high"))
                .help("define parts of it as streams of their own"));
        }
        match self.program.add(expr) {
            Ok(id) => {
                self.heights.push(below + 1);
                Ok(id)
            }
            Err(error) => Err(self.error(place, error.to_string())),
        }
    }

    fn add_operand(&mut self, expr: Expr, place: Place) -> Parsed<Operand<'t>> {
        let id = self.add(expr, place)?;
        Ok(Operand {
            term: Term::Node(id),
            place,
        })
    }

    /// `let a = … in let b = … in body`.
    fn lets(&mut self, hint: Option<&DType>) -> Parsed<Operand<'t>> {
        let start = self.peek().place;
        let outer = self.scope.len();
        let mut bound = Vec::new();
        while self.eat_word("let") {
            let (name, _) = self.variable()?;
            self.expect_symbol("=")?;
            let value = self.expr(None)?;
            let id = self.settle(value, None)?;
            self.expect_word("in")?;
            let var = self
                .program
                .var(name.clone(), self.program.dtype(id).clone());
            self.scope.push((name, var));
            bound.push((var, id));
        }
        let body = self.expr(hint)?;
        let mut id = self.settle(body, hint)?;
        self.scope.truncate(outer);
        let place = start.to(body.place);
        for (var, value) in bound.into_iter().rev() {
            let body = id;
            id = self.add(Expr::Let { var, value, body }, place)?;
        }
        Ok(Operand {
            term: Term::Node(id),
            place,
        })
    }

    /// `if a then x else if b then y else z`.
    fn branches(&mut self, hint: Option<&DType>) -> Parsed<Operand<'t>> {
        let start = self.peek().place;
        let mut conditions = Vec::new();
        let mut values: Vec<Operand<'t>> = Vec::new();
        while self.eat_word("if") {
            let cond = self.expr(Some(&DType::Bool))?;
            let id = self.settle(cond, Some(&DType::Bool))?;
            conditions.push((id, cond.place));
            self.expect_word("then")?;
            let known = self.known_type(&values);
            values.push(self.expr(known.as_ref().or(hint))?);
            self.expect_word("else")?;
        }
        let known = self.known_type(&values);
        values.push(self.expr(known.as_ref().or(hint))?);
        let ids = self.settle_alike(&values, hint)?;
        let last = ids.len() - 1;
        let mut otherwise = ids[last];
        let place = start.to(values[last].place);
        for (i, (cond, cond_place)) in conditions.into_iter().enumerate().rev() {
            let expr = Expr::When {
                cond,
                then: ids[i],
                otherwise,
            };
            let at = match self.program.dtype(cond) {
                DType::Bool => values[i + 1].place,
                _ => cond_place,
            };
            otherwise = self.add(expr, at)?;
        }
        Ok(Operand {
            term: Term::Node(otherwise),
            place,
        })
    }

    /// Operators by strength, with a list instead of recursion: the waiting operators have rising strengths.
    fn infix(&mut self, hint: Option<&DType>) -> Parsed<Operand<'t>> {
        let first = self.unary(hint)?;
        let Some(mut next) = self.peek_infix()? else {
            return Ok(first);
        };
        let mut operands = vec![first];
        let mut waiting: Vec<Infix> = Vec::new();
        loop {
            self.bump();
            waiting.push(next);
            let known = self.nearest_type(&operands);
            operands.push(self.unary(known.as_ref().or(hint))?);
            let follows = self.peek_infix()?;
            let strength = follows.map_or(0, |infix| infix.strength);
            while let Some(top) = waiting.last().copied()
                && top.strength >= strength
            {
                if let Some(follows) = follows
                    && top.op.is_comparison()
                    && follows.op.is_comparison()
                {
                    return Err(self
                        .error(follows.place, "comparisons do not chain")
                        .help("write `a < b && b < c`, or put parentheses around the first"));
                }
                waiting.pop();
                self.combine(top, &mut operands, hint)?;
            }
            match follows {
                Some(follows) => next = follows,
                None => return Ok(operands[0]),
            }
        }
    }

    /// Replaces the last two operands by `infix` applied to them.
    fn combine(
        &mut self,
        infix: Infix,
        operands: &mut Vec<Operand<'t>>,
        hint: Option<&DType>,
    ) -> Parsed<()> {
        let pair = operands.split_off(operands.len() - 2);
        let known = self.nearest_type(operands);
        let hint = match infix.op.is_comparison() {
            true => None,
            false => known.as_ref().or(hint),
        };
        let ids = self.settle_alike(&pair, hint)?;
        let id = self.add(Expr::Binary(infix.op, ids[0], ids[1]), infix.place)?;
        operands.push(Operand {
            term: Term::Node(id),
            place: pair[0].place.to(pair[1].place),
        });
        Ok(())
    }

    /// The type of the operand next to the left that has one.
    fn nearest_type(&self, operands: &[Operand<'t>]) -> Option<DType> {
        operands.iter().rev().find_map(|operand| match operand.term {
            Term::Node(id) => Some(self.program.dtype(id).clone()),
            _ => None,
        })
    }

    fn peek_infix(&self) -> Parsed<Option<Infix>> {
        let token = self.peek();
        let TokenKind::Symbol(symbol) = token.kind else {
            return Ok(None);
        };
        if symbol == "=" {
            return Err(self
                .error(token.place, "`=` cannot follow an expression")
                .help("equality is written `==`"));
        }
        Ok(INFIX
            .iter()
            .find(|row| row.0 == symbol)
            .map(|row| Infix {
                op: row.1,
                strength: row.2,
                place: token.place,
            }))
    }

    fn unary(&mut self, hint: Option<&DType>) -> Parsed<Operand<'t>> {
        let mut prefixes = Vec::new();
        let mut operand = loop {
            let TokenKind::Symbol(symbol @ ("-" | "!" | "~~")) = self.peek().kind else {
                break self.postfix(hint)?;
            };
            let place = self.bump().place;
            // A minus before a number belongs to the number.
            if symbol == "-" {
                if self.peek().kind == TokenKind::Number {
                    break self.number(true)?;
                }
                if let Some(special) = self.special_float(true) {
                    break special?;
                }
            }
            let op = match symbol {
                "-" => UnaryOp::Neg,
                "!" => UnaryOp::Not,
                _ => UnaryOp::BitNot,
            };
            prefixes.push((op, place));
        };
        for (op, place) in prefixes.into_iter().rev() {
            let id = self.settle(operand, hint)?;
            let id = self.add(Expr::Unary(op, id), place)?;
            operand = Operand {
                term: Term::Node(id),
                place: place.to(operand.place),
            };
        }
        Ok(operand)
    }

    fn postfix(&mut self, hint: Option<&DType>) -> Parsed<Operand<'t>> {
        let mut operand = self.primary(hint)?;
        while self.eat_symbol(".") {
            let (name, place) = self.name("a field's name")?;
            let id = self.settle(operand, None)?;
            operand = Operand {
                term: Term::Node(self.field(id, name, place)?),
                place: operand.place.to(place),
            };
        }
        Ok(operand)
    }

    fn field(&mut self, record: ExprId, name: String, place: Place) -> Parsed<ExprId> {
        if let DType::Record(fields) = self.program.dtype(record)
            && fields.iter().all(|f| f.name != name)
        {
            let guess = nearest(&name, fields.iter().map(|f| f.name.as_str()));
            let help = guess.map(|g| format!("did you mean `{}`?", quote_name(g)));
            let found = self.program.dtype(record).clone();
            let error = TypeError::Field { name, found };
            return Err(self.error(place, error.to_string()).maybe_help(help));
        }
        self.add(Expr::Field(record, name), place)
    }

    fn primary(&mut self, hint: Option<&DType>) -> Parsed<Operand<'t>> {
        let token = self.peek();
        match token.kind {
            TokenKind::Number => self.number(false),
            TokenKind::Word => self.word(hint),
            TokenKind::Text => {
                self.bump();
                let value = Scalar::Str(unquote_text(self.text_at(token.place)));
                self.add_operand(Expr::Const(value, DType::Utf8), token.place)
            }
            TokenKind::Symbol("(") => {
                self.bump();
                let inner = self.expr(hint)?;
                let close = self.close(")", token.place)?;
                Ok(Operand {
                    place: token.place.to(close),
                    ..inner
                })
            }
            TokenKind::Symbol("{") => self.record(hint),
            TokenKind::Symbol("~") => self.read(),
            TokenKind::Symbol("@") => self.external_call(),
            TokenKind::Quoted | TokenKind::Symbol(_) | TokenKind::End => {
                Err(self.expected("an expression"))
            }
        }
    }

    fn record(&mut self, hint: Option<&DType>) -> Parsed<Operand<'t>> {
        let open = self.expect_symbol("{")?;
        let mut fields: Vec<(String, ExprId)> = Vec::new();
        let mut size = 0;
        while !self.at_symbol("}") {
            let (name, place) = self.name("a field's name")?;
            if fields.iter().any(|(used, _)| *used == name) {
                let error = TypeError::DuplicateField(name);
                return Err(self.error(place, error.to_string()));
            }
            self.expect_symbol(":")?;
            let dtype = hint.and_then(|hint| hint.field(&name));
            let value = self.expr(dtype)?;
            let id = self.settle(value, dtype)?;
            let (fields_below, depth) = extent(self.program.dtype(id));
            size += fields_below + 1;
            if size > MAX_RECORD_SIZE || depth >= MAX_NESTING {
                let message = format!(
                    "this record has more than {MAX_RECORD_SIZE} fields in all, or more than {MAX_NESTING} levels"
                );
                return Err(self.error(place, message));
            }
            fields.push((name, id));
            if !self.eat_symbol(",") {
                break;
            }
        }
        let close = self.close("}", open)?;
        self.add_operand(Expr::Record(fields), open.to(close))
    }

    /// `~x[t-5s]`, `~x.prev(1)`.
    fn read(&mut self) -> Parsed<Operand<'t>> {
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
            .help(format!("reduce it: `reduce sum ~{}[…]`", self.text_at(name)))
    }

    fn prev(&mut self, stream: StreamId, start: Place) -> Parsed<Operand<'t>> {
        if !self.at_word("prev") {
            let error = self.expected("`prev`");
            return Err(error.help("a field is read after the instant: `~x[t].name`"));
        }
        self.bump();
        let open = self.expect_symbol("(")?;
        let n = self.count("how many events back")?;
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
        let max_age = match self.eat_symbol(",") {
            true => Some(self.duration()?),
            false => None,
        };
        self.close(")", open)?;
        Ok((stream, offset, max_age))
    }

    fn external_call(&mut self) -> Parsed<Operand<'t>> {
        let start = self.expect_symbol("@")?;
        let (name, place) = self.name("a function's name")?;
        let declared = self.program.functions.iter().find(|(_, f)| f.name == name);
        let Some((func, function)) = declared else {
            let names = self.program.functions.iter().map(|(_, f)| f.name.as_str());
            let help = match self.program.reducers.iter().any(|(_, r)| r.name == name) {
                true => Some(format!("it is a reduction: `reduce @{name} ~x[…]`")),
                false => nearest(&name, names).map(|g| format!("did you mean `@{g}`?")),
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

    /// A literal, variable, reduction or function call.
    fn word(&mut self, hint: Option<&DType>) -> Parsed<Operand<'t>> {
        if let Some(special) = self.special_float(false) {
            return special;
        }
        let place = self.peek().place;
        let word = self.peek_text();
        match word {
            "t" => {
                self.bump();
                self.add_operand(Expr::Time, place)
            }
            "true" | "false" => {
                self.bump();
                let value = Scalar::Bool(word == "true");
                self.add_operand(Expr::Const(value, DType::Bool), place)
            }
            "null" => self.null(),
            "reduce" => self.reduction(),
            "let" | "if" => Err(self
                .expected("an operand")
                .help(format!("put parentheses around the `{word}`"))),
            word if RESERVED_WORDS.contains(&word) => Err(self.expected("an expression")),
            _ if self.peek_at(1).kind == TokenKind::Symbol("(") => self.function_call(hint),
            _ => self.variable_use(),
        }
    }

    fn variable_use(&mut self) -> Parsed<Operand<'t>> {
        let place = self.peek().place;
        let word = self.peek_text();
        let bound = self.scope.iter().rev().find(|(name, _)| name == word);
        if let Some((_, var)) = bound {
            let var = *var;
            self.bump();
            return self.add_operand(Expr::Var(var), place);
        }
        let is_stream = self.streams.contains_key(word);
        let help = match word {
            _ if is_stream => Some(format!("a stream is read as `~{word}[t]`")),
            word if is_function(word) => Some(format!("it is a function: `{word}(…)`")),
            word if is_agg(word) => Some(format!("it is a reduction: `reduce {word} ~x[…]`")),
            word => nearest(word, self.scope.iter().map(|(name, _)| name.as_str()))
                .map(|g| format!("did you mean `{g}`?")),
        };
        // The start of the next definition, not a misspelt variable.
        if ["output", "input", "extern", "reducer"].contains(&word) && help.is_none() {
            return Err(self.expected("an expression"));
        }
        let message = format!("there is no variable `{word}`");
        Err(self.error(place, message).maybe_help(help))
    }

    fn null(&mut self) -> Parsed<Operand<'t>> {
        let place = self.bump().place;
        if !self.at_symbol("(") {
            return Ok(Operand {
                term: Term::Null,
                place,
            });
        }
        let open = self.bump().place;
        let dtype = self.dtype()?;
        let close = self.close(")", open)?;
        self.add_operand(Expr::Null(dtype), place.to(close))
    }

    /// A function that is part of the language; its name is next.
    fn function_call(&mut self, hint: Option<&DType>) -> Parsed<Operand<'t>> {
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
    fn args(
        &mut self,
        name: &str,
        count: usize,
        hint: Option<&DType>,
    ) -> Parsed<Vec<ExprId>> {
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
            let message = format!("`{name}` takes {count} argument{plural}, not {}", args.len());
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

    // ── Reductions ──────────────────────────────────────────────────────────────────────────────────────────────────

    fn reduction(&mut self) -> Parsed<Operand<'t>> {
        let start = self.expect_word("reduce")?;
        let agg_place = self.peek().place;
        let agg = self.agg()?;
        let window = self.window()?;
        let map = match self.eat_word("map") {
            true => {
                let open = self.expect_symbol("(")?;
                let input = match agg {
                    Agg::Custom(id) => Some(self.program.reducers[id].input.clone()),
                    _ => None,
                };
                let value = self.expr(input.as_ref())?;
                let id = self.settle(value, input.as_ref())?;
                self.close(")", open)?;
                Some(id)
            }
            false => None,
        };
        let place = start.to(self.last_place());
        let id = self.add(Expr::Reduce { agg, window, map }, agg_place)?;
        Ok(Operand {
            term: Term::Node(id),
            place,
        })
    }

    fn agg(&mut self) -> Parsed<Agg> {
        if self.eat_symbol("@") {
            let (name, place) = self.name("a reducer's name")?;
            let declared = self.program.reducers.iter().find(|(_, r)| r.name == name);
            if let Some((id, _)) = declared {
                return Ok(Agg::Custom(id));
            }
            let names = self.program.reducers.iter().map(|(_, r)| r.name.as_str());
            let guess = nearest(&name, names).map(|g| format!("did you mean `@{g}`?"));
            let message = format!("there is no reducer `@{name}`");
            return Err(self.error(place, message).maybe_help(guess));
        }
        let token = self.peek();
        if token.kind != TokenKind::Word {
            let error = self.expected("a reduction");
            return Err(error.help("for example `sum`, `mean`, `last` or `@name`"));
        }
        let word = self.peek_text();
        self.bump();
        if let Some((_, agg)) = PLAIN_AGGS.iter().find(|row| row.0 == word) {
            return Ok(*agg);
        }
        if !OTHER_AGGS.contains(&word) {
            return Err(self.unknown_agg(word, token.place));
        }
        let open = match self.at_symbol("(") {
            true => Some(self.bump().place),
            false => None,
        };
        let agg = match (word, open) {
            ("var", None) => Agg::Var { ddof: 1 },
            ("std", None) => Agg::Std { ddof: 1 },
            ("skew", None) => Agg::Skew { bias: true },
            ("kurtosis", None) => Agg::Kurtosis {
                fisher: true,
                bias: true,
            },
            (word, None) => {
                let example = match word {
                    "top_k" => "top_k(3)",
                    "ewm" => "ewm(0.5)",
                    _ => "quantile(0.9)",
                };
                let error = self.expected("`(`");
                return Err(error.help(format!("`{word}` needs a parameter: `{example}`")));
            }
            (word, Some(_)) => self.agg_with_parameters(word)?,
        };
        if let Some(open) = open {
            self.close(")", open)?;
        }
        Ok(agg)
    }

    fn agg_with_parameters(&mut self, word: &str) -> Parsed<Agg> {
        let bias = &[("biased", true), ("unbiased", false)];
        Ok(match word {
            "var" => Agg::Var {
                ddof: self.count("the degrees of freedom")?,
            },
            "std" => Agg::Std {
                ddof: self.count("the degrees of freedom")?,
            },
            "skew" => Agg::Skew {
                bias: self.choice("a kind of skew", bias)?,
            },
            "kurtosis" => {
                let kinds = &[("fisher", true), ("pearson", false)];
                let fisher = self.choice("a kind of kurtosis", kinds)?;
                self.expect_symbol(",")?;
                Agg::Kurtosis {
                    fisher,
                    bias: self.choice("a kind of kurtosis", bias)?,
                }
            }
            "top_k" => Agg::TopK {
                k: self.count("how many values")?,
            },
            "ewm" => Agg::Ewm {
                alpha: self.ratio()?,
            },
            _ => {
                let q = self.ratio()?;
                let method = match self.eat_symbol(",") {
                    true => self.choice("a method", QUANTILE_METHODS)?,
                    false => QUANTILE_METHODS[0].1,
                };
                Agg::Quantile { q, method }
            }
        })
    }

    fn unknown_agg(&self, word: &str, place: Place) -> Box<ParseError> {
        let names = PLAIN_AGGS.iter().map(|row| row.0);
        let declared = self.program.reducers.iter().any(|(_, r)| r.name == word);
        let help = match word {
            _ if declared => Some(format!("a declared reducer is used as `reduce @{word}`")),
            "count" => Some("did you mean `len`?".to_owned()),
            "avg" | "average" => Some("did you mean `mean`?".to_owned()),
            word => nearest(word, names.chain(OTHER_AGGS.iter().copied()))
                .map(|g| format!("did you mean `{g}`?")),
        };
        self.error(place, format!("there is no reduction `{word}`"))
            .maybe_help(help)
    }

    fn window(&mut self) -> Parsed<Window> {
        if !self.at_symbol("~") {
            return Err(self
                .expected("a window")
                .help("a window is `~x[t-10s : t]` or `~x[#-3 : #]`"));
        }
        self.bump();
        let (stream, name) = self.stream()?;
        let open = self.expect_symbol("[")?;
        let lo = self.bound()?;
        if self.at_symbol("]") && !matches!(lo, Bound::Beginning) {
            let name = self.text_at(name);
            return Err(self
                .expected("`:`")
                .help(format!("a window has two ends: `~{name}[t-10s : t]`")));
        }
        self.expect_symbol(":")?;
        let second = self.peek().place;
        let hi = self.bound()?;
        let bounds = match (lo, hi) {
            (Bound::Beginning, Bound::Time(hi)) => Bounds::Time { lo: None, hi },
            (Bound::Time(lo), Bound::Time(hi)) => Bounds::Time { lo: Some(lo), hi },
            (Bound::Beginning, Bound::Ordinal(hi)) => Bounds::Ordinal { lo: None, hi },
            (Bound::Ordinal(lo), Bound::Ordinal(hi)) => Bounds::Ordinal { lo: Some(lo), hi },
            (_, Bound::Beginning) => {
                return Err(self.error(second, "only the first end of a window can be `-inf`"));
            }
            (Bound::Time(_), Bound::Ordinal(_)) | (Bound::Ordinal(_), Bound::Time(_)) => {
                return Err(self
                    .error(second, "the ends of a window must be of one kind")
                    .help("both count time (`t-10s : t`) or both count events (`#-3 : #`)"));
            }
        };
        self.close("]", open)?;
        Ok(Window { stream, bounds })
    }

    fn bound(&mut self) -> Parsed<Bound> {
        if self.eat_symbol("#") {
            return match self.at_symbol("+") || self.at_symbol("-") {
                true => Ok(Bound::Ordinal(self.integer("a number of events")?)),
                false => Ok(Bound::Ordinal(0)),
            };
        }
        if self.at_symbol("-") {
            self.bump();
            self.expect_word("inf")?;
            return Ok(Bound::Beginning);
        }
        Ok(Bound::Time(self.instant()?))
    }

    // ── Plain numbers ───────────────────────────────────────────────────────────────────────────────────────────────

    /// An integer with or without a sign.
    fn integer(&mut self, what: &str) -> Parsed<i64> {
        let first = self.peek().place;
        let negative = self.at_symbol("-");
        if negative || self.at_symbol("+") {
            self.bump();
        }
        if self.peek().kind != TokenKind::Number {
            return Err(self.expected(what));
        }
        let token = self.bump();
        let digits = self.text_at(token.place);
        let text = if negative {
            format!("-{digits}")
        } else {
            digits.to_owned()
        };
        text.parse().map_err(|_| {
            let place = first.to(token.place);
            self.error(place, format!("`{text}` is not an integer of 64 bits"))
        })
    }

    /// A small natural number.
    fn count(&mut self, what: &str) -> Parsed<u32> {
        if self.peek().kind != TokenKind::Number {
            return Err(self.expected(what));
        }
        let place = self.bump().place;
        let text = self.text_at(place);
        text.parse()
            .map_err(|_| self.error(place, format!("`{text}` is not an integer of 32 bits")))
    }

    /// A float parameter of a reduction.
    fn ratio(&mut self) -> Parsed<Ratio> {
        let negative = self.eat_symbol("-");
        let operand = if self.peek().kind == TokenKind::Number {
            self.number(negative)?
        } else {
            match self.special_float(negative) {
                Some(special) => special?,
                None => return Err(self.expected("a number")),
            }
        };
        let id = self.settle(operand, Some(&DType::F64))?;
        match self.program.expr(id) {
            Expr::Const(Scalar::Float(value), DType::Float(_)) => Ok(Ratio::new(*value)),
            _ => Err(self.error(operand.place, "this parameter is a float")),
        }
    }
}

fn is_function(word: &str) -> bool {
    UNARY_FUNCTIONS.iter().any(|row| row.0 == word)
        || BINARY_FUNCTIONS.iter().any(|row| row.0 == word)
        || OTHER_FUNCTIONS.contains(&word)
}

fn is_agg(word: &str) -> bool {
    PLAIN_AGGS.iter().any(|row| row.0 == word) || OTHER_AGGS.contains(&word)
}

/// How many fields a type has in all, and how deep it is nested.
fn extent(dtype: &DType) -> (usize, u32) {
    match dtype {
        DType::Record(fields) => fields.iter().fold((0, 1), |(size, depth), field| {
            let (below, levels) = extent(&field.dtype);
            (size + below + 1, depth.max(levels + 1))
        }),
        DType::List(item) => {
            let (size, depth) = extent(item);
            (size, depth + 1)
        }
        _ => (0, 1),
    }
}
