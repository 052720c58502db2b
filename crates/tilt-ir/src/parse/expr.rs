//! Scalar expressions.
//!
//! A *hint* is the type that the context asks for. Only literals that have no type of their own look at it, and it may
//! be wrong: the type check decides.

use super::{
    MAX_HEIGHT, MAX_NESTING, MAX_RECORD_SIZE, Parsed, Parser,
    call::is_function,
    error::nearest,
    literal::{Operand, Term},
    reduction::is_agg,
};
use crate::{
    expr::{BinaryOp, Expr, UnaryOp},
    ids::{ExprId, Id},
    lex::{Place, TokenKind, quote_name, unquote_text},
    names::{INFIX, RESERVED_WORDS},
    types::{DType, Scalar},
    typing::TypeError,
};

/// An infix operator that waits for its right operand.
#[derive(Clone, Copy)]
struct Infix {
    op: BinaryOp,
    strength: u8,
    place: Place,
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
                .error(
                    place,
                    format!("this expression is more than {MAX_HEIGHT} levels high"),
                )
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

    pub(super) fn add_operand(&mut self, expr: Expr, place: Place) -> Parsed<Operand<'t>> {
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
        let hint = if infix.op.is_comparison() {
            None
        } else {
            known.as_ref().or(hint)
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
        operands
            .iter()
            .rev()
            .find_map(|operand| match operand.term {
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
        Ok(INFIX.iter().find(|row| row.0 == symbol).map(|row| Infix {
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
