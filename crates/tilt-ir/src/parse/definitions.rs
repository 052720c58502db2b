//! What a query is made of: functions, reducers, inputs and temporal expressions with their clocks.

use super::{Parsed, Parser, error::nearest};
use crate::{
    calendar::{Calendar, Closed},
    clock::default_clock,
    expr::{Bounds, Expr},
    ids::{ExprId, StreamId},
    lex::{Place, TokenKind, quote_name, unquote_text},
    print::type_text,
    program::{Clock, Function, Input, Lambda, Overlap, Reducer, Source, SpanRule},
    time::Unit,
    types::DType,
};

impl Parser<'_> {
    pub(super) fn function(&mut self) -> Parsed<()> {
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

    pub(super) fn reducer(&mut self) -> Parsed<()> {
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
        let merge = if self.at_word("merge") {
            Some(self.lambda("merge", &[state.clone(), state.clone()], Some(&state))?)
        } else {
            None
        };
        let deacc = if self.at_word("deacc") {
            Some(self.lambda("deacc", &event, Some(&state))?)
        } else {
            None
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
            if i > 0 && !self.eat_symbol(",") {
                let names = match params.len() {
                    2 => "two states",
                    _ => "a state, a value, its start and its end",
                };
                return Err(self.expected("`,`").help(format!("`{word}` takes {names}")));
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

    fn new_stream_name(&mut self) -> Parsed<(String, Place)> {
        let (name, place) = self.name("a stream's name")?;
        if self.streams.contains_key(&name) {
            let message = format!("there are two streams ~{}", quote_name(&name));
            return Err(self.error(place, message));
        }
        Ok((name, place))
    }

    pub(super) fn input(&mut self) -> Parsed<()> {
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

    pub(super) fn temporal(&mut self) -> Parsed<()> {
        self.expect_symbol("~")?;
        let (name, place) = self.new_stream_name()?;
        let open = self.expect_symbol("[")?;
        self.expect_word("t")?;
        let clock = if self.at_symbol("]") {
            None
        } else {
            Some(self.clock()?)
        };
        self.close("]", open)?;
        let dtype = if self.eat_symbol(":") {
            Some(self.dtype()?)
        } else {
            None
        };
        self.expect_symbol("=")?;

        // With its type given the stream exists while its body is read, so the body can read it.
        let this = dtype.as_ref().map(|dtype| {
            let placeholder = Clock::OnChange(Vec::new());
            let id = self
                .program
                .declare(name.clone(), placeholder, dtype.clone());
            self.heights.resize(self.program.exprs.len(), 1);
            self.streams.insert(name.clone(), id);
            id
        });
        let shown = format!("~{}", quote_name(&name));
        self.untyped = this.is_none().then(|| name.clone());
        let body = self.body_of(&shown, dtype.as_ref())?;
        self.untyped = None;

        let Some(clock) = clock.or_else(|| default_clock(&self.program, body, this)) else {
            let message = self.needs_clock(&shown, this, body);
            return Err(self.error(place, message).help(format!(
                "for example `{shown}[t every 10{}]` or `{shown}[t at ~x]`",
                self.unit_suffix()
            )));
        };
        if let Some(id) = this {
            self.program.redefine(id, clock, body);
        } else {
            let defined = self.program.define(name.clone(), clock, body);
            let id = defined.map_err(|error| self.error(place, error.to_string()))?;
            self.streams.insert(name, id);
        }
        Ok(())
    }

    fn needs_clock(&self, shown: &str, this: Option<StreamId>, body: ExprId) -> String {
        let (mut reads_itself, mut reads_others, mut by_event) = (false, false, false);
        self.program.walk(body, &mut |_, expr| {
            if let Some(stream) = expr.stream() {
                reads_itself |= this == Some(stream);
                reads_others |= this != Some(stream);
            }
            by_event |=
                matches!(expr, Expr::Reduce { window, .. } if window.bounds == Bounds::Event);
        });
        let why = match (reads_others, reads_itself) {
            (true, _) if by_event => "reads the window of an event, but does not say of which",
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
            let offset = if self.eat_word("offset") {
                self.duration()?
            } else {
                0
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
        if self.eat_word("calendar") {
            return Ok(Clock::Calendar(self.calendar()?));
        }
        if self.eat_word("sessions") {
            self.expect_symbol("~")?;
            let stream = self.stream()?.0;
            self.expect_word("gap")?;
            let gap = self.duration()?;
            let max = if self.eat_word("max") {
                Some(self.duration()?)
            } else {
                None
            };
            return Ok(Clock::Sessions { stream, gap, max });
        }
        let error = self.expected("`]` or a clock");
        Err(error.help(
            "a clock is `on ~x[t], …`, `at ~x`, `every 10s`, `calendar 1mo` or `sessions ~x gap 30m`",
        ))
    }

    fn calendar(&mut self) -> Parsed<Calendar> {
        let place = self.peek().place;
        if self.peek().kind != TokenKind::Number {
            return Err(self.expected("a length such as `1d` or `1mo`"));
        }
        self.bump();
        let parsed = Calendar::parse(self.text_at(place));
        let mut calendar = parsed.map_err(|error| self.error(place, error.to_string()))?;
        if self.eat_word("tz") {
            let place = self.peek().place;
            if self.peek().kind != TokenKind::Text {
                let error = self.expected("a time zone");
                return Err(error.help("for example `tz \"Europe/Paris\"`"));
            }
            self.bump();
            calendar.zone = Some(unquote_text(self.text_at(place)));
            if let Err(error) = calendar.cells(Unit::Second) {
                return Err(self.error(place, error.to_string()));
            }
        }
        if self.eat_word("offset") {
            calendar.offset = self.duration()?;
        }
        if self.eat_word("closed") {
            self.expect_word("left")?;
            calendar.closed = Closed::Left;
        }
        Ok(calendar)
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

    /// Whether the stream written at `place` is defined further on: as an input, or by `~name[…] =`.
    fn is_defined_later(&self, place: Place) -> bool {
        let name = self.text_at(place);
        let text = |i: usize| self.tokens.get(i).map_or("", |t| self.text_at(t.place));
        let calls = |i: usize| text(i) == "~" && text(i + 1) == &name[1..];
        (self.next..self.tokens.len()).any(|i| {
            let bracket = (i..self.tokens.len()).find(|j| text(*j) == "]");
            let after = bracket.map_or("", |bracket| text(bracket + 1));
            calls(i)
                && (i > 0 && text(i - 1) == "input"
                    || text(i + 2) == "[" && (after == "=" || after == ":"))
        })
    }

    /// The stream called by the next token; `~` has been read.
    pub(super) fn stream(&mut self) -> Parsed<(StreamId, Place)> {
        let sigil = self.last_place();
        let (name, place) = self.name("a stream's name")?;
        if let Some(id) = self.streams.get(&name) {
            return Ok((*id, place));
        }
        let place = sigil.to(place);
        let shown = format!("~{}", quote_name(&name));
        if self.untyped.as_ref() == Some(&name) {
            return Err(self
                .error(
                    place,
                    format!("{shown} reads itself, so its type must be written"),
                )
                .help(format!("write for example `{shown}[t]: f64 = …`")));
        }
        if self.is_defined_later(place) {
            return Err(self
                .error(place, format!("{shown} is defined later"))
                .help("move its definition up: streams are defined before they are read"));
        }
        let names = self.streams.keys().map(String::as_str);
        let guess = nearest(&name, sorted(names));
        Err(self
            .error(place, format!("there is no stream {shown}"))
            .maybe_help(guess.map(|g| format!("did you mean ~{}?", quote_name(g)))))
    }
}

/// In a fixed order, so that the same text gives the same message.
fn sorted<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}
