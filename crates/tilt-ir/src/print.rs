//! Programs as text. The inverse of [`parse`](crate::parse()).
//!
//! Expressions are printed with a work list instead of recursion, so that no program overflows the stack, and ids that
//! name nothing are printed as `<e17?>`, because the verifier quotes programs that are not well formed.

use std::{collections::HashSet, fmt};

use crate::{
    calendar::{Calendar, Closed},
    expr::{Agg, BinaryOp, Bounds, Edge, Expr, QuantileMethod, UnaryOp, Window},
    ids::{ExprId, Id, StreamId, VarId},
    lex::{quote_name, quote_text},
    names::{INFIX, QUANTILE_METHODS, RESERVED_WORDS, name_in},
    program::{
        Clock, Input, Lambda, Overlap, Program, Reducer, Source, SpanRule, Stream, Temporal,
    },
    time::format_duration,
    types::{DType, FloatWidth, Scalar},
};

/// Bytes after which an expression in a message is cut.
const EXPR_TEXT_LIMIT: usize = 400;
/// Bytes after which a stream in a message is cut.
const STREAM_TEXT_LIMIT: usize = 16_384;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer::new(self, usize::MAX);
        printer.program();
        f.write_str(&printer.out)
    }
}

impl Program {
    /// One expression on one line, for messages: cut with `…` where it gets long. Variables bound outside of it keep
    /// their names.
    pub fn expr_text(&self, id: ExprId) -> String {
        let mut printer = Printer::new(self, EXPR_TEXT_LIMIT);
        printer.expr(id);
        printer.out
    }

    /// The definition of a stream on one line, for messages: cut with `…` where it gets very long.
    pub fn stream_text(&self, id: StreamId) -> String {
        let mut printer = Printer::new(self, STREAM_TEXT_LIMIT);
        printer.stream(id);
        printer.out
    }

    /// A clock as it stands after `t`: `at ~x`, `on ~x[t], ~y[t-5s]`, `every 10s`, `sessions ~x gap 30m`.
    pub fn clock_text(&self, clock: &Clock) -> String {
        match clock {
            Clock::At(stream) => format!("at {}", self.stream_ref(*stream)),
            Clock::OnChange(sources) => {
                let sources: Vec<_> = sources.iter().map(|s| self.source_text(*s)).collect();
                format!("on {}", sources.join(", "))
            }
            Clock::Every { period, offset: 0 } => format!("every {}", self.duration_text(*period)),
            Clock::Every { period, offset } => format!(
                "every {} offset {}",
                self.duration_text(*period),
                self.duration_text(*offset)
            ),
            Clock::Calendar(calendar) => self.calendar_text(calendar),
            Clock::Sessions { stream, gap, max } => {
                let mut text = format!("sessions {}", self.stream_ref(*stream));
                text.push_str(&format!(" gap {}", self.duration_text(*gap)));
                if let Some(max) = max {
                    text.push_str(&format!(" max {}", self.duration_text(*max)));
                }
                text
            }
        }
    }

    fn calendar_text(&self, calendar: &Calendar) -> String {
        let mut text = format!("calendar {calendar}");
        if let Some(zone) = &calendar.zone {
            text.push_str(&format!(" tz {}", quote_text(zone)));
        }
        if calendar.offset != 0 {
            text.push_str(&format!(" offset {}", self.duration_text(calendar.offset)));
        }
        if calendar.closed == Closed::Left {
            text.push_str(" closed left");
        }
        text
    }

    fn source_text(&self, source: Source) -> String {
        match source {
            Source::Value { stream, offset } => self.element_text(stream, offset),
            Source::Hold {
                stream,
                offset,
                max_age,
            } => self.hold_text(stream, offset, max_age),
            Source::Window { stream, lo, hi } => self.window_text(Window {
                stream,
                bounds: Bounds::Time { lo: Some(lo), hi },
            }),
        }
    }

    fn stream_ref(&self, id: StreamId) -> String {
        match self.streams.get(id) {
            Some(stream) => format!("~{}", quote_name(stream.name())),
            None => format!("<{id:?}?>"),
        }
    }

    fn duration_text(&self, ticks: i64) -> String {
        format_duration(ticks, self.unit)
    }

    /// `t`, `t-10s`, `t+5s`.
    fn instant_text(&self, offset: i64) -> String {
        match offset {
            0 => "t".to_owned(),
            ..0 => format!("t{}", self.duration_text(offset)),
            1.. => format!("t+{}", self.duration_text(offset)),
        }
    }

    fn element_text(&self, stream: StreamId, offset: i64) -> String {
        format!("{}[{}]", self.stream_ref(stream), self.instant_text(offset))
    }

    fn hold_text(&self, stream: StreamId, offset: i64, max_age: Option<i64>) -> String {
        let element = self.element_text(stream, offset);
        match max_age {
            Some(age) => format!("hold({element}, {})", self.duration_text(age)),
            None => format!("hold({element})"),
        }
    }

    fn window_text(&self, window: Window) -> String {
        let (lo, hi) = match window.bounds {
            Bounds::Time { lo, hi } => (lo.map(|lo| self.instant_text(lo)), self.instant_text(hi)),
            Bounds::Ordinal { lo, hi } => (lo.map(ordinal_text), ordinal_text(hi)),
            Bounds::Event => return format!("{}[event]", self.stream_ref(window.stream)),
        };
        let lo = lo.as_deref().unwrap_or("-inf");
        format!("{}[{lo} : {hi}]", self.stream_ref(window.stream))
    }

    fn agg_text(&self, agg: Agg) -> String {
        let bias = |bias| if bias { "biased" } else { "unbiased" };
        let word = agg.name();
        match agg {
            Agg::Var { ddof } | Agg::Std { ddof } if ddof != 1 => format!("{word}({ddof})"),
            Agg::Skew { bias: false } => format!("{word}(unbiased)"),
            Agg::Kurtosis { fisher, bias: b } if !(fisher && b) => {
                let kind = if fisher { "fisher" } else { "pearson" };
                format!("{word}({kind}, {})", bias(b))
            }
            Agg::Quantile { q, method } => {
                let level = float_text(q.get());
                match method {
                    QuantileMethod::Linear => format!("{word}({level})"),
                    method => {
                        let method = name_in(QUANTILE_METHODS, &method).unwrap_or("linear");
                        format!("{word}({level}, {method})")
                    }
                }
            }
            Agg::TopK { k } => format!("{word}({k})"),
            Agg::Ewm { alpha } => format!("{word}({})", float_text(alpha.get())),
            Agg::Custom(id) => match self.reducers.get(id) {
                Some(reducer) => format!("@{}", quote_name(&reducer.name)),
                None => format!("<{id:?}?>"),
            },
            _ => word.to_owned(),
        }
    }

    /// Whether any node under `body`, maps included, reads `stream`.
    fn reads(&self, body: ExprId, stream: StreamId) -> bool {
        let mut seen = HashSet::new();
        let mut pending = vec![body];
        while let Some(id) = pending.pop() {
            if !seen.insert(id) {
                continue;
            }
            if let Some(node) = self.exprs.get(id) {
                if node.expr.stream() == Some(stream) {
                    return true;
                }
                node.expr.for_each_operand(|operand| pending.push(operand));
            }
        }
        false
    }
}

/// `#`, `#-3`, `#+1`.
fn ordinal_text(offset: i64) -> String {
    if offset == 0 {
        "#".to_owned()
    } else {
        format!("#{offset:+}")
    }
}

/// The shortest text that reads back to the same bits. It is never the text of an integer.
fn float_text(value: f64) -> String {
    if value.is_nan() {
        "nan".to_owned()
    } else {
        format!("{value:?}")
    }
}

/// A type as the parser reads it: with names quoted where they must be.
pub(crate) fn type_text(dtype: &DType) -> String {
    match dtype {
        DType::Record(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|f| format!("{}: {}", quote_name(&f.name), type_text(&f.dtype)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        DType::List(item) => format!("list({})", type_text(item)),
        dtype => dtype.to_string(),
    }
}

fn const_text(scalar: &Scalar, dtype: &DType) -> String {
    let number = |text: String, bare: &DType| {
        if dtype == bare {
            text
        } else {
            format!("{text}{dtype}")
        }
    };
    match (scalar, dtype) {
        (scalar, dtype) if !scalar.fits(dtype) => format!("<{scalar:?}: {dtype}?>"),
        (Scalar::Bool(value), _) => value.to_string(),
        (Scalar::Str(value), _) => quote_text(value),
        (Scalar::Int(value), DType::Timestamp(unit)) => format!("ts({value}, {unit})"),
        (Scalar::Int(value), DType::Duration(unit)) => format!("dur({value}, {unit})"),
        (Scalar::Int(value), _) => number(value.to_string(), &DType::I64),
        (Scalar::UInt(value), _) => number(value.to_string(), &DType::I64),
        (Scalar::Float(value), DType::Float(FloatWidth::W32)) if value.is_finite() => {
            number(format!("{:?}", *value as f32), &DType::F64)
        }
        (Scalar::Float(value), _) => number(float_text(*value), &DType::F64),
    }
}

// Binding strengths beyond those of the infix operators, which are 1 to 10.
const LOOSEST: u8 = 0;
const PREFIX: u8 = 11;
const PRIMARY: u8 = 12;
/// Asks for parentheses around anything.
const ENCLOSED: u8 = 13;

fn infix(op: BinaryOp) -> Option<(&'static str, u8)> {
    INFIX
        .iter()
        .find(|row| row.1 == op)
        .map(|row| (row.0, row.2))
}

fn strength(expr: &Expr) -> u8 {
    match expr {
        Expr::Let { .. } | Expr::When { .. } => LOOSEST,
        Expr::Binary(op, ..) => infix(*op).map_or(PRIMARY, |row| row.1),
        Expr::Unary(UnaryOp::Neg | UnaryOp::Not | UnaryOp::BitNot, _) => PREFIX,
        Expr::Const(Scalar::Int(value), DType::Int(_)) if *value < 0 => PREFIX,
        Expr::Const(Scalar::Float(value), _) if value.is_sign_negative() => PREFIX,
        _ => PRIMARY,
    }
}

fn is_number_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Const(_, dtype) if dtype.is_number())
}

/// What is still to be printed.
enum Piece {
    Text(String),
    Operand {
        id: ExprId,
        /// Anything that binds less than this gets parentheses.
        least: u8,
        /// Whether a φ here takes its type from its neighbour.
        bare_null: bool,
    },
    Bind(VarId, String),
    Unbind,
    /// The end of a node's text: it may occur again from here on.
    Leave(ExprId),
}

impl Piece {
    fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    fn operand(id: ExprId, least: u8) -> Self {
        Self::Operand {
            id,
            least,
            bare_null: false,
        }
    }
}

struct Printer<'p> {
    program: &'p Program,
    out: String,
    limit: usize,
    /// Variables in scope with the names they are printed under, all different.
    scope: Vec<(VarId, String)>,
    /// The names in `scope`.
    used: HashSet<String>,
}

impl<'p> Printer<'p> {
    fn new(program: &'p Program, limit: usize) -> Self {
        Self {
            program,
            out: String::new(),
            limit,
            scope: Vec::new(),
            used: HashSet::new(),
        }
    }

    fn program(&mut self) {
        let program = self.program;
        self.out.push_str(&format!(
            "query {} unit {} {{\n",
            quote_name(&program.name),
            program.unit
        ));
        for (_, function) in program.functions.iter() {
            let params: Vec<_> = function.params.iter().map(type_text).collect();
            self.out.push_str(&format!(
                "  extern fn {}({}) -> {}\n",
                quote_name(&function.name),
                params.join(", "),
                type_text(&function.result)
            ));
        }
        for (_, reducer) in program.reducers.iter() {
            self.reducer(reducer);
        }
        let declared = !(program.functions.is_empty() && program.reducers.is_empty());
        let mut in_declarations = declared.then_some(true);
        for (id, stream) in program.streams.iter() {
            let is_input = stream.as_input().is_some();
            if in_declarations.is_some_and(|was| was != is_input) {
                self.out.push('\n');
            }
            in_declarations = Some(is_input);
            self.out.push_str("  ");
            self.stream(id);
            self.out.push('\n');
        }
        if in_declarations.is_some() {
            self.out.push('\n');
        }
        let output = program.stream_ref(program.output);
        self.out.push_str(&format!("  output {output}\n}}\n"));
    }

    fn reducer(&mut self, reducer: &Reducer) {
        self.out.push_str(&format!(
            "  reducer {}({}) {{\n    state {}\n    init = ",
            quote_name(&reducer.name),
            type_text(&reducer.input),
            type_text(&reducer.state)
        ));
        self.expr(reducer.init);
        self.out.push('\n');
        self.lambda("acc", &reducer.acc);
        if let Some(merge) = &reducer.merge {
            self.lambda("merge", merge);
        }
        if let Some(deacc) = &reducer.deacc {
            self.lambda("deacc", deacc);
        }
        self.lambda("result", &reducer.result);
        self.out.push_str("  }\n");
    }

    fn lambda(&mut self, word: &str, lambda: &Lambda) {
        let outer = self.scope.len();
        for var in &lambda.params {
            let name = self.fresh_name(*var);
            self.bind(*var, name);
        }
        let params: Vec<_> = self.scope[outer..].iter().map(|s| s.1.as_str()).collect();
        self.out
            .push_str(&format!("    {word}({}) = ", params.join(", ")));
        self.expr(lambda.body);
        self.out.push('\n');
        self.unbind_to(outer);
    }

    fn stream(&mut self, id: StreamId) {
        match self.program.streams.get(id) {
            Some(Stream::Input(input)) => self.input(input),
            Some(Stream::Temporal(temporal)) => self.temporal(id, temporal),
            None => self.out.push_str(&self.program.stream_ref(id)),
        }
    }

    fn input(&mut self, input: &Input) {
        let program = self.program;
        let span = match input.span {
            SpanRule::Point => "point".to_owned(),
            SpanRule::Fixed(length) => format!("fixed {}", program.duration_text(length)),
            SpanRule::UntilNext => "until_next".to_owned(),
            SpanRule::Interval => "interval".to_owned(),
        };
        self.out.push_str(&format!(
            "input ~{}: {} {span}",
            quote_name(&input.name),
            type_text(&input.dtype)
        ));
        if input.unit != program.unit {
            self.out.push_str(&format!(" unit {}", input.unit));
        }
        if let Some(period) = input.period {
            self.out
                .push_str(&format!(" period {}", program.duration_text(period)));
        }
        if let Some(key) = &input.key {
            self.out.push_str(&format!(" key {}", quote_name(key)));
        }
        match input.overlap {
            Overlap::Disjoint => {}
            Overlap::Bag => self.out.push_str(" overlap bag"),
            Overlap::First => self.out.push_str(" overlap first"),
            Overlap::Last => self.out.push_str(" overlap last"),
        }
    }

    fn temporal(&mut self, id: StreamId, temporal: &Temporal) {
        let program = self.program;
        self.out
            .push_str(&format!("~{}[t", quote_name(&temporal.name)));
        let derived = crate::clock::default_clock(program, temporal.body, Some(id));
        if derived.as_ref() != Some(&temporal.clock) {
            self.out.push(' ');
            self.out.push_str(&program.clock_text(&temporal.clock));
        }
        self.out.push(']');
        if program.reads(temporal.body, id) {
            self.out
                .push_str(&format!(": {}", type_text(&temporal.dtype)));
        }
        self.out.push_str(" = ");
        self.expr(temporal.body);
    }

    fn expr(&mut self, root: ExprId) {
        let outer = self.scope.len();
        // Nodes whose text contains the current one; only an ill-formed program meets one of them again.
        let mut open: HashSet<ExprId> = HashSet::new();
        let mut pending = vec![Piece::operand(root, LOOSEST)];
        while let Some(piece) = pending.pop() {
            match piece {
                Piece::Text(text) => self.out.push_str(&text),
                Piece::Bind(var, name) => self.bind(var, name),
                Piece::Unbind => self.unbind_to(self.scope.len().saturating_sub(1)),
                Piece::Leave(id) => {
                    open.remove(&id);
                }
                Piece::Operand {
                    id,
                    least,
                    bare_null,
                } => match self.program.exprs.get(id) {
                    None => self.out.push_str(&format!("<{id:?}?>")),
                    Some(_) if !open.insert(id) => {
                        self.out.push_str(&format!("<{id:?} again>"));
                    }
                    Some(node) => {
                        pending.push(Piece::Leave(id));
                        let enclosed = strength(&node.expr) < least;
                        if enclosed {
                            pending.push(Piece::text(")"));
                        }
                        let mut pieces = match &node.expr {
                            Expr::Null(_) if bare_null => vec![Piece::text("null")],
                            expr => self.pieces(expr),
                        };
                        pieces.reverse();
                        pending.append(&mut pieces);
                        if enclosed {
                            pending.push(Piece::text("("));
                        }
                    }
                },
            }
            if self.out.len() > self.limit {
                let end = (0..=self.limit)
                    .rev()
                    .find(|i| self.out.is_char_boundary(*i));
                self.out.truncate(end.unwrap_or(0));
                self.out.push('…');
                break;
            }
        }
        self.unbind_to(outer);
    }

    /// The text of a node with its operands left to print.
    fn pieces(&self, expr: &Expr) -> Vec<Piece> {
        let program = self.program;
        match expr {
            Expr::Const(scalar, dtype) => vec![Piece::Text(const_text(scalar, dtype))],
            Expr::Null(dtype) => vec![Piece::Text(format!("null({})", type_text(dtype)))],
            Expr::Time => vec![Piece::text("t")],
            Expr::At { stream, offset } => {
                vec![Piece::Text(program.element_text(*stream, *offset))]
            }
            Expr::Hold {
                stream,
                offset,
                max_age,
            } => vec![Piece::Text(program.hold_text(*stream, *offset, *max_age))],
            Expr::Prev { stream, n } => {
                vec![Piece::Text(format!(
                    "{}.prev({n})",
                    program.stream_ref(*stream)
                ))]
            }
            Expr::Edge {
                stream,
                offset,
                edge,
            } => {
                let word = match edge {
                    Edge::Start => "start",
                    Edge::End => "end",
                };
                let element = program.element_text(*stream, *offset);
                vec![Piece::Text(format!("{word}({element})"))]
            }
            Expr::Reduce { agg, window, map } => {
                let mut text = format!(
                    "reduce {} {}",
                    program.agg_text(*agg),
                    program.window_text(*window)
                );
                match map {
                    None => vec![Piece::Text(text)],
                    Some(map) => {
                        text.push_str(" map (");
                        vec![
                            Piece::Text(text),
                            Piece::operand(*map, LOOSEST),
                            Piece::text(")"),
                        ]
                    }
                }
            }
            Expr::Var(var) => vec![Piece::Text(self.var_text(*var))],
            Expr::Let { var, value, body } => {
                let name = self.fresh_name(*var);
                vec![
                    Piece::Text(format!("let {name} = ")),
                    Piece::operand(*value, LOOSEST),
                    Piece::text(" in "),
                    Piece::Bind(*var, name),
                    Piece::operand(*body, LOOSEST),
                    Piece::Unbind,
                ]
            }
            Expr::Unary(op @ (UnaryOp::Neg | UnaryOp::Not | UnaryOp::BitNot), a) => {
                // A minus before a number belongs to the number.
                let literal = program
                    .exprs
                    .get(*a)
                    .is_some_and(|node| is_number_literal(&node.expr));
                let least = match op {
                    UnaryOp::Neg if literal => ENCLOSED,
                    _ => PREFIX,
                };
                vec![Piece::text(op.symbol()), Piece::operand(*a, least)]
            }
            Expr::Unary(op, a) => call(op.symbol(), &[*a]),
            Expr::Binary(op, a, b) => match infix(*op) {
                None => call(op.symbol(), &[*a, *b]),
                Some((symbol, strength)) => {
                    let chains = !op.is_comparison();
                    vec![
                        Piece::operand(*a, strength + u8::from(!chains)),
                        Piece::Text(format!(" {symbol} ")),
                        Piece::operand(*b, strength + 1),
                    ]
                }
            },
            Expr::Clip { value, lo, hi } => call("clip", &[*value, *lo, *hi]),
            Expr::When {
                cond,
                then,
                otherwise,
            } => vec![
                Piece::text("if "),
                Piece::operand(*cond, LOOSEST),
                Piece::text(" then "),
                self.branch(*then, *otherwise),
                Piece::text(" else "),
                self.branch(*otherwise, *then),
            ],
            Expr::IsNull(a) => call("is_null", &[*a]),
            Expr::Coalesce(a, b) => vec![
                Piece::text("coalesce("),
                self.branch(*a, *b),
                Piece::text(", "),
                self.branch(*b, *a),
                Piece::text(")"),
            ],
            Expr::Record(fields) => {
                let mut pieces = vec![Piece::text("{")];
                for (i, (name, value)) in fields.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    pieces.push(Piece::Text(format!("{comma}{}: ", quote_name(name))));
                    pieces.push(Piece::operand(*value, LOOSEST));
                }
                pieces.push(Piece::text("}"));
                pieces
            }
            Expr::Field(record, name) => vec![
                Piece::operand(*record, PRIMARY),
                Piece::Text(format!(".{}", quote_name(name))),
            ],
            Expr::Cast(a, dtype) => vec![
                Piece::text("cast("),
                Piece::operand(*a, LOOSEST),
                Piece::Text(format!(", {})", type_text(dtype))),
            ],
            Expr::Call { func, args } => match program.functions.get(*func) {
                Some(function) => call(&format!("@{}", quote_name(&function.name)), args),
                None => call(&format!("<{func:?}?>"), args),
            },
        }
    }

    /// A value whose type `other` has too: φ needs no type unless both are φ.
    fn branch(&self, id: ExprId, other: ExprId) -> Piece {
        let other = self.program.exprs.get(other);
        Piece::Operand {
            id,
            least: LOOSEST,
            bare_null: other.is_some_and(|node| !matches!(node.expr, Expr::Null(_))),
        }
    }

    fn var_text(&self, var: VarId) -> String {
        let bound = self.scope.iter().rev().find(|(id, _)| *id == var);
        match (bound, self.program.vars.get(var)) {
            (Some((_, name)), _) => name.clone(),
            (None, Some(var)) => word_from(&var.name),
            (None, None) => format!("<{var:?}?>"),
        }
    }

    fn bind(&mut self, var: VarId, name: String) {
        self.used.insert(name.clone());
        self.scope.push((var, name));
    }

    fn unbind_to(&mut self, outer: usize) {
        for (_, name) in self.scope.drain(outer..) {
            self.used.remove(&name);
        }
    }

    /// A name for `var` that is a word of its own and hides no other variable.
    fn fresh_name(&self, var: VarId) -> String {
        let stem = match self.program.vars.get(var) {
            Some(var) => word_from(&var.name),
            None => format!("unknown{}", var.index()),
        };
        let is_free = |name: &str| !RESERVED_WORDS.contains(&name) && !self.used.contains(name);
        let numbered = (1usize..).map(|i| format!("{stem}_{i}"));
        std::iter::once(stem.clone())
            .chain(numbered)
            .find(|name| is_free(name))
            .expect("some number is free")
    }
}

/// `name` with everything that a word cannot hold replaced.
fn word_from(name: &str) -> String {
    let mut word: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) {
        word.insert(0, '_');
    }
    word
}

fn call(name: &str, args: &[ExprId]) -> Vec<Piece> {
    let mut pieces = vec![Piece::Text(format!("{name}("))];
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            pieces.push(Piece::text(", "));
        }
        pieces.push(Piece::operand(*arg, LOOSEST));
    }
    pieces.push(Piece::text(")"));
    pieces
}

#[cfg(test)]
mod tests;
