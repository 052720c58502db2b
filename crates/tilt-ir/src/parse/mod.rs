//! Text to programs. The inverse of the printer; the grammar is in `docs/ir.md`.
//!
//! One pass over the tokens builds and type-checks the program. No text overflows the stack: nesting in the text is
//! limited by [`MAX_NESTING`], chains (`a + b + …`, `let … in let …`, `else if …`) are loops, and the height of the
//! trees they build is limited by [`MAX_HEIGHT`] for the sake of everything that walks them.

mod error;
mod expr;
mod literal;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub use error::ParseError;
use error::nearest;

use crate::{
    clock::default_clock,
    ids::{ExprId, StreamId, VarId},
    lex::{Place, Token, TokenKind, lex, quote_name, unquote_name},
    names::{NUMBER_TYPES, RESERVED_WORDS},
    print::type_text,
    program::{Clock, Function, Input, Lambda, Overlap, Program, Reducer, Source, SpanRule},
    time::{DurationError, Unit, parse_duration},
    types::{DType, Field},
};

/// How deep brackets, branches and types may be nested in the text.
const MAX_NESTING: u32 = 128;
/// How high an expression tree may be.
const MAX_HEIGHT: u32 = 512;
/// How many fields the type of a record that an expression builds may have in all. Records of records grow
/// exponentially with the text.
const MAX_RECORD_SIZE: usize = 4096;

/// Boxed because results of a recursive descent are best small.
type Parsed<T> = Result<T, Box<ParseError>>;

/// Reads a program. Types are checked, at the place of the expression; everything else that makes a program valid is
/// checked by the verifier.
///
/// # Errors
/// When the text does not follow the grammar, a name is not defined before its use or twice, an expression's operands
/// do not fit, or a clock or type is left out that must be written.
///
/// ```
/// let text = "query trend unit s {
///   input ~stock: f64 point
///
///   ~mean[t] = reduce mean ~stock[t-10s : t]
///
///   output ~mean
/// }
/// ";
/// let program = tilt_ir::parse(text)?;
/// assert_eq!(program.to_string(), text);
///
/// let error = tilt_ir::parse(&text.replace("mean ~stock", "mean ~stok")).unwrap_err();
/// assert_eq!((error.line, error.column), (4, 25));
/// assert_eq!(error.help.as_deref(), Some("did you mean ~stock?"));
/// # Ok::<(), tilt_ir::ParseError>(())
/// ```
pub fn parse(text: &str) -> Result<Program, ParseError> {
    Parser::new(text)
        .and_then(Parser::query)
        .map_err(|error| *error)
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    /// The token to be read next.
    next: usize,
    program: Program,
    streams: HashMap<String, StreamId>,
    /// The temporal expression whose body is being read without a type, so that it cannot read itself.
    untyped: Option<String>,
    /// Variables in scope, the innermost last.
    scope: Vec<(String, VarId)>,
    nesting: u32,
    /// Height of the tree under each node.
    heights: Vec<u32>,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Parsed<Self> {
        let tokens = lex(text)
            .map_err(|e| ParseError::new(text, e.place, e.message).maybe_help(e.help))?;
        Ok(Self {
            text,
            tokens,
            next: 0,
            program: Program::new("", Unit::Tick),
            streams: HashMap::new(),
            untyped: None,
            scope: Vec::new(),
            nesting: 0,
            heights: Vec::new(),
        })
    }

    fn query(mut self) -> Parsed<Program> {
        self.expect_word("query")?;
        self.program.name = self.name("a name for the query")?.0;
        self.expect_word("unit")?;
        self.program.unit = self.unit()?;
        let open = self.expect_symbol("{")?;
        while !self.at_word("output") {
            self.item()?;
        }
        self.expect_word("output")?;
        self.expect_symbol("~")?;
        self.program.output = self.stream()?.0;
        self.close("}", open)?;
        match self.peek().kind {
            TokenKind::End => Ok(self.program),
            _ => Err(self.expected("nothing after the query")),
        }
    }

    fn item(&mut self) -> Parsed<()> {
        match self.peek().kind {
            TokenKind::Symbol("~") => self.temporal(),
            TokenKind::Word => match self.peek_text() {
                "input" => self.input(),
                "extern" => self.function(),
                "reducer" => self.reducer(),
                _ => Err(self.expected_item()),
            },
            _ => Err(self.expected_item()),
        }
    }

    fn expected_item(&self) -> Box<ParseError> {
        let error = self.expected("a definition or `output`");
        match self.peek().kind {
            TokenKind::Symbol("}") => {
                error.help("name the query's result before the `}`: `output ~x`")
            }
            TokenKind::End => error,
            _ => error.help(
                "definitions start with `input ~`, `extern fn`, `reducer` or `~`; the query ends with `output ~x }`",
            ),
        }
    }

    // ── Declarations ────────────────────────────────────────────────────────────────────────────────────────────────

    fn function(&mut self) -> Parsed<()> {
        self.expect_word("extern")?;
        self.expect_word("fn")?;
        let (name, place) = self.name("a function's name")?;
        if self.program.functions.iter().any(|(_, f)| f.name == name) {
            return Err(self.error(place, format!("there are two functions `@{name}`")));
        }
        let open = self.expect_symbol("(")?;
        let mut params = Vec::new();
        if !self.at_symbol(")") {
            params.push(self.dtype()?);
            while self.eat_symbol(",") {
                params.push(self.dtype()?);
            }
        }
        self.close(")", open)?;
        self.expect_symbol("->")?;
        let result = self.dtype()?;
        self.program.functions.push(Function {
            name,
            params,
            result,
        });
        Ok(())
    }

    fn reducer(&mut self) -> Parsed<()> {
        self.expect_word("reducer")?;
        let (name, place) = self.name("a reducer's name")?;
        if self.program.reducers.iter().any(|(_, r)| r.name == name) {
            return Err(self.error(place, format!("there are two reducers `@{name}`")));
        }
        let open = self.expect_symbol("(")?;
        let input = self.dtype()?;
        self.close(")", open)?;
        let open = self.expect_symbol("{")?;
        self.expect_word("state")?;
        let state = self.dtype()?;
        self.expect_word("init")?;
        self.expect_symbol("=")?;
        let init = self.body_of("init", Some(&state))?;
        let instant = DType::Timestamp(self.program.unit);
        let event = [state.clone(), input.clone(), instant.clone(), instant];
        let acc = self.lambda("acc", &event, Some(&state))?;
        let merge = match self.at_word("merge") {
            true => Some(self.lambda("merge", &[state.clone(), state.clone()], Some(&state))?),
            false => None,
        };
        let deacc = match self.at_word("deacc") {
            true => Some(self.lambda("deacc", &event, Some(&state))?),
            false => None,
        };
        let result = self.lambda("result", std::slice::from_ref(&state), None)?;
        self.close("}", open)?;
        self.program.reducers.push(Reducer {
            name,
            input,
            state,
            init,
            acc,
            merge,
            deacc,
            result,
        });
        Ok(())
    }

    fn lambda(&mut self, word: &str, params: &[DType], result: Option<&DType>) -> Parsed<Lambda> {
        self.expect_word(word)?;
        let open = self.expect_symbol("(")?;
        let mut vars = Vec::with_capacity(params.len());
        for (i, dtype) in params.iter().enumerate() {
            if i > 0 {
                self.expect_symbol(",")?;
            }
            let (name, place) = self.variable()?;
            if self.scope.iter().any(|(used, _)| *used == name) {
                return Err(self.error(place, format!("there are two parameters `{name}`")));
            }
            let var = self.program.var(name.clone(), dtype.clone());
            self.scope.push((name, var));
            vars.push(var);
        }
        self.close(")", open)?;
        self.expect_symbol("=")?;
        let body = self.body_of(word, result)?;
        self.scope.clear();
        Ok(Lambda { params: vars, body })
    }

    /// A whole expression that must have the type `dtype` if one is given.
    fn body_of(&mut self, what: &str, dtype: Option<&DType>) -> Parsed<ExprId> {
        let operand = self.expr(dtype)?;
        let body = self.settle(operand, dtype)?;
        match dtype {
            Some(dtype) if self.program.dtype(body) != dtype => {
                let message = format!(
                    "`{what}` must be {}, not {}",
                    type_text(dtype),
                    type_text(self.program.dtype(body))
                );
                Err(self.error(operand.place, message))
            }
            _ => Ok(body),
        }
    }

    // ── Streams ─────────────────────────────────────────────────────────────────────────────────────────────────────

    fn new_stream_name(&mut self) -> Parsed<(String, Place)> {
        let (name, place) = self.name("a stream's name")?;
        if self.streams.contains_key(&name) {
            let message = format!("there are two streams ~{}", quote_name(&name));
            return Err(self.error(place, message));
        }
        Ok((name, place))
    }

    fn input(&mut self) -> Parsed<()> {
        self.expect_word("input")?;
        self.expect_symbol("~")?;
        let (name, _) = self.new_stream_name()?;
        self.expect_symbol(":")?;
        let dtype = self.dtype()?;
        let mut input = Input {
            name: name.clone(),
            dtype,
            unit: self.program.unit,
            span: self.span_rule()?,
            period: None,
            key: None,
            overlap: Overlap::Disjoint,
        };
        let mut given: Vec<&str> = Vec::new();
        while self.peek().kind == TokenKind::Word {
            let option = self.peek_text();
            if !["unit", "period", "key", "overlap"].contains(&option) {
                break;
            }
            if given.contains(&option) {
                return Err(self.error(
                    self.peek().place,
                    format!("`{option}` is given twice for this input"),
                ));
            }
            given.push(option);
            self.bump();
            match option {
                "unit" => input.unit = self.unit()?,
                "period" => input.period = Some(self.duration()?),
                "key" => input.key = Some(self.name("a field's name")?.0),
                _ => {
                    input.overlap = self.choice(
                        "an overlap rule",
                        &[
                            ("bag", Overlap::Bag),
                            ("first", Overlap::First),
                            ("last", Overlap::Last),
                        ],
                    )?;
                }
            }
        }
        let id = self.program.input(input);
        self.streams.insert(name, id);
        Ok(())
    }

    fn span_rule(&mut self) -> Parsed<SpanRule> {
        if self.eat_word("fixed") {
            return Ok(SpanRule::Fixed(self.duration()?));
        }
        self.choice(
            "a span rule",
            &[
                ("point", SpanRule::Point),
                ("until_next", SpanRule::UntilNext),
                ("interval", SpanRule::Interval),
                ("fixed", SpanRule::Fixed(1)),
            ],
        )
    }

    fn temporal(&mut self) -> Parsed<()> {
        self.expect_symbol("~")?;
        let (name, place) = self.new_stream_name()?;
        let open = self.expect_symbol("[")?;
        self.expect_word("t")?;
        let clock = match self.at_symbol("]") {
            true => None,
            false => Some(self.clock()?),
        };
        self.close("]", open)?;
        let dtype = match self.eat_symbol(":") {
            true => Some(self.dtype()?),
            false => None,
        };
        self.expect_symbol("=")?;

        let this = match &dtype {
            Some(dtype) => {
                let placeholder = Clock::OnChange(Vec::new());
                let id = self
                    .program
                    .declare(name.clone(), placeholder, dtype.clone());
                self.heights.resize(self.program.exprs.len(), 1);
                self.streams.insert(name.clone(), id);
                Some(id)
            }
            None => {
                self.untyped = Some(name.clone());
                None
            }
        };
        let shown = format!("~{}", quote_name(&name));
        let body = self.body_of(&shown, dtype.as_ref())?;
        self.untyped = None;
        let clock = match clock.or_else(|| default_clock(&self.program, body, this)) {
            Some(clock) => clock,
            None => {
                let message = self.needs_clock(&shown, this, body);
                return Err(self.error(place, message).help(format!(
                    "for example `{shown}[t every 10{}]` or `{shown}[t at ~x]`",
                    self.unit_suffix()
                )));
            }
        };
        match this {
            Some(id) => self.program.redefine(id, clock, body),
            None => {
                let id = match self.program.define(name.clone(), clock, body) {
                    Ok(id) => id,
                    Err(error) => return Err(self.error(place, error.to_string())),
                };
                self.streams.insert(name, id);
            }
        }
        Ok(())
    }

    fn needs_clock(&self, shown: &str, this: Option<StreamId>, body: ExprId) -> String {
        let (mut reads_itself, mut reads_others) = (false, false);
        self.program.walk(body, &mut |_, expr| {
            if let Some(stream) = expr.stream() {
                reads_itself |= this == Some(stream);
                reads_others |= this != Some(stream);
            }
        });
        let why = match (reads_others, reads_itself) {
            (true, _) => "reads only windows, over several streams",
            (false, true) => "reads only itself",
            (false, false) => "reads no stream",
        };
        format!("{shown} {why}, so its clock must be written")
    }

    fn clock(&mut self) -> Parsed<Clock> {
        if self.eat_word("at") {
            self.expect_symbol("~")?;
            return Ok(Clock::At(self.stream()?.0));
        }
        if self.eat_word("every") {
            let period = self.duration()?;
            let offset = match self.eat_word("offset") {
                true => self.duration()?,
                false => 0,
            };
            return Ok(Clock::Every { period, offset });
        }
        if self.eat_word("on") {
            let mut sources = vec![self.source()?];
            while self.eat_symbol(",") {
                sources.push(self.source()?);
            }
            return Ok(Clock::OnChange(sources));
        }
        let error = self.expected("`]` or a clock");
        Err(error.help("a clock is `on ~x[t], …`, `at ~x` or `every 10s`"))
    }

    fn source(&mut self) -> Parsed<Source> {
        if self.at_word("hold") {
            let (stream, offset, max_age) = self.held()?;
            return Ok(Source::Hold {
                stream,
                offset,
                max_age,
            });
        }
        if !self.at_symbol("~") {
            let error = self.expected("a source of the clock");
            return Err(error.help("a source is `~x[t]`, `hold(~x[t])` or `~x[t-10s : t]`"));
        }
        self.bump();
        let stream = self.stream()?.0;
        let open = self.expect_symbol("[")?;
        let first = self.instant()?;
        let source = if self.eat_symbol(":") {
            let hi = self.instant()?;
            Source::Window {
                stream,
                lo: first,
                hi,
            }
        } else {
            Source::Value {
                stream,
                offset: first,
            }
        };
        self.close("]", open)?;
        Ok(source)
    }

    /// The stream called by the next token; `~` has been read.
    fn stream(&mut self) -> Parsed<(StreamId, Place)> {
        let (name, place) = self.name("a stream's name")?;
        if let Some(id) = self.streams.get(&name) {
            return Ok((*id, place));
        }
        let shown = format!("~{}", quote_name(&name));
        if self.untyped.as_ref() == Some(&name) {
            return Err(self
                .error(place, format!("{shown} reads itself, so its type must be written"))
                .help(format!("write for example `{shown}[t]: f64 = …`")));
        }
        let names = self.streams.keys().map(String::as_str);
        let guess = nearest(&name, sorted(names));
        Err(self
            .error(place, format!("there is no stream {shown}"))
            .maybe_help(guess.map(|g| format!("did you mean ~{}?", quote_name(g)))))
    }

    // ── Types, units and durations ──────────────────────────────────────────────────────────────────────────────────

    fn dtype(&mut self) -> Parsed<DType> {
        self.nest()?;
        let dtype = if self.at_symbol("{") {
            self.record_type()
        } else {
            self.named_type()
        };
        self.nesting -= 1;
        dtype
    }

    fn record_type(&mut self) -> Parsed<DType> {
        let open = self.expect_symbol("{")?;
        let mut fields: Vec<Field> = Vec::new();
        while !self.at_symbol("}") {
            if !fields.is_empty() {
                self.expect_symbol(",")?;
            }
            let (name, place) = self.name("a field's name")?;
            if fields.iter().any(|f| f.name == name) {
                return Err(self.error(place, format!("the record has two fields `{name}`")));
            }
            self.expect_symbol(":")?;
            let dtype = self.dtype()?;
            fields.push(Field { name, dtype });
            if !self.at_symbol(",") {
                break;
            }
        }
        self.close("}", open)?;
        Ok(DType::Record(fields))
    }

    fn named_type(&mut self) -> Parsed<DType> {
        let token = self.peek();
        if token.kind != TokenKind::Word {
            return Err(self.expected("a type"));
        }
        let word = self.peek_text();
        self.bump();
        Ok(match word {
            "bool" => DType::Bool,
            "utf8" => DType::Utf8,
            "timestamp" | "duration" => {
                let open = self.expect_symbol("(")?;
                let unit = self.unit()?;
                self.close(")", open)?;
                match word {
                    "timestamp" => DType::Timestamp(unit),
                    _ => DType::Duration(unit),
                }
            }
            "list" => {
                let open = self.expect_symbol("(")?;
                let item = self.dtype()?;
                self.close(")", open)?;
                DType::List(Box::new(item))
            }
            word => match number_type(word) {
                Some(dtype) => dtype,
                None => return Err(self.unknown_type(word, token.place)),
            },
        })
    }

    fn unknown_type(&self, word: &str, place: Place) -> Box<ParseError> {
        let guess = match word {
            "float" | "double" | "Float64" => Some("f64"),
            "int" | "integer" | "long" | "Int64" => Some("i64"),
            "str" | "string" | "text" | "String" => Some("utf8"),
            "boolean" => Some("bool"),
            "datetime" => Some("timestamp"),
            "timedelta" => Some("duration"),
            word => {
                let others = ["bool", "utf8", "timestamp", "duration", "list"];
                nearest(word, NUMBER_TYPES.iter().map(|row| row.0).chain(others))
            }
        };
        self.error(place, format!("there is no type `{word}`"))
            .maybe_help(guess.map(|g| format!("did you mean `{g}`?")))
    }

    fn unit(&mut self) -> Parsed<Unit> {
        let unit = match self.peek().kind {
            TokenKind::Word => Unit::parse(self.peek_text()),
            _ => None,
        };
        match unit {
            Some(unit) => {
                self.bump();
                Ok(unit)
            }
            None => Err(self
                .expected("a unit")
                .help("units are `tick`, `s`, `ms`, `us` and `ns`")),
        }
    }

    /// `t`, `t-10s`, `t+5s`: the ticks added to `t`.
    fn instant(&mut self) -> Parsed<i64> {
        if !self.eat_word("t") {
            return Err(self.expected("an instant like `t` or `t-10s`"));
        }
        if self.at_symbol("+") || self.at_symbol("-") {
            self.duration()
        } else {
            Ok(0)
        }
    }

    /// A length of time in ticks, with or without a sign.
    fn duration(&mut self) -> Parsed<i64> {
        let first = self.peek().place;
        let sign = match self.peek().kind {
            TokenKind::Symbol(sign @ ("+" | "-")) => {
                self.bump();
                sign
            }
            _ => "",
        };
        if self.peek().kind != TokenKind::Number {
            return Err(self.expected(&format!("a duration like `10{}`", self.unit_suffix())));
        }
        let digits = self.peek_text();
        let place = first.to(self.peek().place);
        self.bump();
        parse_duration(&format!("{sign}{digits}"), self.program.unit).map_err(|error| {
            let unit = self.program.unit;
            let is_bare = digits.bytes().all(|b| b.is_ascii_digit());
            match error {
                DurationError::Syntax(_) if is_bare => self
                    .error(place, format!("the duration `{digits}` has no unit"))
                    .help(format!(
                        "write for example `{digits}{unit}`; bare integers are for queries with `unit tick`"
                    )),
                error => self.error(place, error.to_string()),
            }
        })
    }

    /// What follows the number in a duration of the query's own unit.
    fn unit_suffix(&self) -> String {
        match self.program.unit {
            Unit::Tick => String::new(),
            unit => unit.to_string(),
        }
    }

    // ── Tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────

    fn peek(&self) -> Token {
        self.peek_at(0)
    }

    /// The token `ahead` of the next one. The last token repeats for ever.
    fn peek_at(&self, ahead: usize) -> Token {
        self.tokens[(self.next + ahead).min(self.tokens.len() - 1)]
    }

    fn text_at(&self, place: Place) -> &'t str {
        &self.text[place.start..place.end]
    }

    fn peek_text(&self) -> &'t str {
        self.text_at(self.peek().place)
    }

    fn bump(&mut self) -> Token {
        let token = self.peek();
        self.next += 1;
        token
    }

    /// The token read last.
    fn last_place(&self) -> Place {
        self.tokens[self.next.saturating_sub(1).min(self.tokens.len() - 1)].place
    }

    fn at_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek().kind, TokenKind::Symbol(s) if s == symbol)
    }

    fn at_word(&self, word: &str) -> bool {
        self.peek().kind == TokenKind::Word && self.peek_text() == word
    }

    fn eat_symbol(&mut self, symbol: &str) -> bool {
        let found = self.at_symbol(symbol);
        self.next += usize::from(found);
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        self.next += usize::from(found);
        found
    }

    fn expect_symbol(&mut self, symbol: &str) -> Parsed<Place> {
        match self.at_symbol(symbol) {
            true => Ok(self.bump().place),
            false => Err(self.expected(&format!("`{symbol}`"))),
        }
    }

    fn expect_word(&mut self, word: &str) -> Parsed<Place> {
        match self.at_word(word) {
            true => Ok(self.bump().place),
            false => Err(self.expected(&format!("`{word}`"))),
        }
    }

    /// The bracket that closes the one at `open`.
    fn close(&mut self, symbol: &str, open: Place) -> Parsed<Place> {
        if self.at_symbol(symbol) {
            return Ok(self.bump().place);
        }
        let error = self.expected(&format!("`{symbol}`"));
        let opened = ParseError::new(self.text, open, String::new());
        // On one line the reader sees the opening bracket.
        match error.line == opened.line && self.peek().kind != TokenKind::End {
            true => Err(error),
            false => Err(error.help(format!(
                "the `{}` at {}:{} is not closed",
                self.text_at(open),
                opened.line,
                opened.column
            ))),
        }
    }

    /// A name, quoted or not. Keywords are names here.
    fn name(&mut self, what: &str) -> Parsed<(String, Place)> {
        match self.peek().kind {
            TokenKind::Word | TokenKind::Quoted => {
                let place = self.bump().place;
                Ok((unquote_name(self.text_at(place)), place))
            }
            _ => Err(self.expected(what)),
        }
    }

    /// A name for a new variable.
    fn variable(&mut self) -> Parsed<(String, Place)> {
        let word = self.peek_text();
        if self.peek().kind != TokenKind::Word {
            return Err(self.expected("a variable's name"));
        }
        if RESERVED_WORDS.contains(&word) {
            return Err(self
                .expected("a variable's name")
                .help(format!("`{word}` has a meaning of its own")));
        }
        Ok((word.to_owned(), self.bump().place))
    }

    /// One of several words.
    fn choice<T: Copy>(&mut self, what: &str, words: &[(&'static str, T)]) -> Parsed<T> {
        let found = words.iter().find(|(word, _)| self.at_word(word));
        match found {
            Some((_, value)) => {
                self.bump();
                Ok(*value)
            }
            None => {
                let words: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
                Err(self
                    .expected(what)
                    .help(format!("one of {}", words.join(", "))))
            }
        }
    }

    /// Goes one level deeper into the text's nesting. Nothing needs undoing after an error, which ends the parse.
    fn nest(&mut self) -> Parsed<()> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(self.error(
                self.peek().place,
                format!("nested deeper than {MAX_NESTING} levels"),
            ));
        }
        Ok(())
    }

    fn error(&self, place: Place, message: impl Into<String>) -> Box<ParseError> {
        ParseError::new(self.text, place, message.into())
    }

    /// The next token is not what it should be.
    fn expected(&self, what: &str) -> Box<ParseError> {
        const SHOWN: usize = 40;
        let token = self.peek();
        let found = match token.kind {
            TokenKind::End => "the end of the text".to_owned(),
            _ => {
                let text = self.text_at(token.place);
                match text.char_indices().nth(SHOWN) {
                    Some((cut, _)) => format!("`{}…`", &text[..cut]),
                    None => format!("`{text}`"),
                }
            }
        };
        self.error(token.place, format!("expected {what}"))
            .found(found)
    }
}

fn number_type(word: &str) -> Option<DType> {
    NUMBER_TYPES
        .iter()
        .find(|row| row.0 == word)
        .map(|row| row.1.clone())
}

/// In a fixed order, so that the same text gives the same message.
fn sorted<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}
