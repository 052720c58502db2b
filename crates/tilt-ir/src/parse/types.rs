//! Types, units, instants and durations.

use super::{
    Parsed, Parser,
    error::{ParseError, nearest},
};
use crate::{
    lex::{Place, TokenKind},
    names::NUMBER_TYPES,
    time::{DurationError, Unit, parse_duration},
    types::{DType, Field},
};

impl Parser<'_> {
    pub(super) fn dtype(&mut self) -> Parsed<DType> {
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

    pub(super) fn unit(&mut self) -> Parsed<Unit> {
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
    pub(super) fn instant(&mut self) -> Parsed<i64> {
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
    pub(super) fn duration(&mut self) -> Parsed<i64> {
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
    pub(super) fn unit_suffix(&self) -> String {
        match self.program.unit {
            Unit::Tick => String::new(),
            unit => unit.to_string(),
        }
    }
}

/// The number type or suffix `word`.
pub(super) fn number_type(word: &str) -> Option<DType> {
    NUMBER_TYPES
        .iter()
        .find(|row| row.0 == word)
        .map(|row| row.1.clone())
}
