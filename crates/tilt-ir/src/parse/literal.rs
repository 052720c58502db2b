//! Numbers and `null` whose type comes from what they meet.

use super::{Parsed, Parser, error::ParseError, types::number_type};
use crate::{
    expr::Expr,
    ids::ExprId,
    lex::{Place, TokenKind},
    time::{Unit, parse_duration},
    types::{DType, FloatWidth, Scalar, round_to},
};

/// An expression that has been read, with where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand<'t> {
    pub(super) term: Term<'t>,
    pub(super) place: Place,
}

/// A node, or a literal that waits for its type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Term<'t> {
    Node(ExprId),
    Number(Number<'t>),
    Null,
}

/// A number without a suffix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number<'t> {
    pub(super) negative: bool,
    /// Digits with fraction and exponent, `nan` or `inf`.
    pub(super) digits: &'t str,
}

impl Number<'_> {
    fn is_float(self) -> bool {
        !self.digits.bytes().all(|b| b.is_ascii_digit())
    }

    fn default_type(self) -> DType {
        if self.is_float() {
            DType::F64
        } else {
            DType::I64
        }
    }

    fn signed(self) -> String {
        let sign = if self.negative { "-" } else { "" };
        format!("{sign}{}", self.digits)
    }

    /// The constant of type `dtype`, or why there is none.
    fn value(self, dtype: &DType) -> Result<Scalar, String> {
        let text = self.signed();
        let misfit = || format!("`{text}` does not fit into {dtype}");
        let scalar = match dtype {
            DType::Int(_) | DType::UInt(_) if self.is_float() => {
                return Err(format!(
                    "`{text}` is not an integer, so it cannot be {dtype}"
                ));
            }
            DType::Int(_) => Scalar::Int(text.parse().map_err(|_| misfit())?),
            DType::UInt(_) => Scalar::UInt(text.parse().map_err(|_| misfit())?),
            DType::Float(width) => Scalar::Float(self.float(*width, &text)?),
            _ => return Err(misfit()),
        };
        if scalar.fits(dtype) {
            Ok(scalar)
        } else {
            Err(misfit())
        }
    }

    fn float(self, width: FloatWidth, text: &str) -> Result<f64, String> {
        match self.digits {
            "nan" => return Ok(f64::NAN),
            "inf" if self.negative => return Ok(f64::NEG_INFINITY),
            "inf" => return Ok(f64::INFINITY),
            _ => {}
        }
        let malformed = |_| format!("`{text}` is not a number");
        let value = match width {
            // Straight to 32 bits: rounding twice could miss the nearest.
            FloatWidth::W32 => f64::from(text.parse::<f32>().map_err(malformed)?),
            width => round_to(width, text.parse::<f64>().map_err(malformed)?),
        };
        let bits = width.bits();
        if value.is_infinite() {
            return Err(format!(
                "`{text}` is too large for f{bits}; write `inf` for infinity"
            ));
        }
        if !self.is_float() && text.parse::<i128>().ok() != Some(value as i128) {
            return Err(format!(
                "`{text}` is not exact in f{bits}; write `{text}.0` for the nearest value"
            ));
        }
        Ok(value)
    }
}

impl<'t> Parser<'t> {
    /// A number token, read as a value.
    pub(super) fn number(&mut self, negative: bool) -> Parsed<Operand<'t>> {
        let first = if negative {
            self.last_place()
        } else {
            self.peek().place
        };
        let token = self.bump();
        let text = self.text_at(token.place);
        let place = first.to(token.place);
        let (digits, suffix) = split_suffix(text);
        let number = Number { negative, digits };
        if suffix.is_empty() {
            return Ok(Operand {
                term: Term::Number(number),
                place,
            });
        }
        let Some(dtype) = number_type(suffix) else {
            return Err(self.bad_suffix(text, suffix, place));
        };
        self.constant(number, &dtype, place)
    }

    /// `nan`, `inf`, `nanf32` …, if the next word is one.
    pub(super) fn special_float(&mut self, negative: bool) -> Option<Parsed<Operand<'t>>> {
        let text = self.peek_text();
        let (digits, suffix) = text.split_at_checked(3)?;
        if !["nan", "inf"].contains(&digits) || !["", "f16", "f32", "f64"].contains(&suffix) {
            return None;
        }
        let first = if negative {
            self.last_place()
        } else {
            self.peek().place
        };
        let place = first.to(self.bump().place);
        let number = Number { negative, digits };
        Some(match number_type(suffix) {
            Some(dtype) => self.constant(number, &dtype, place),
            None => Ok(Operand {
                term: Term::Number(number),
                place,
            }),
        })
    }

    fn constant(&mut self, number: Number<'t>, dtype: &DType, place: Place) -> Parsed<Operand<'t>> {
        let scalar = match number.value(dtype) {
            Ok(scalar) => scalar,
            Err(message) => return Err(self.error(place, message)),
        };
        let id = self.add(Expr::Const(scalar, dtype.clone()), place)?;
        Ok(Operand {
            term: Term::Node(id),
            place,
        })
    }

    fn bad_suffix(&self, text: &str, suffix: &str, place: Place) -> Box<ParseError> {
        let unit = match self.program.unit {
            Unit::Tick => Unit::Nano,
            unit => unit,
        };
        match parse_duration(text, unit) {
            Ok(ticks) => self
                .error(place, format!("`{text}` is a duration, not a number"))
                .help(format!("as a value it is `dur({ticks}, {unit})`")),
            Err(_) => self
                .error(place, format!("a number cannot end in `{suffix}`"))
                .help("suffixes are the number types, i8 to f64"),
        }
    }

    /// An integer with or without a sign.
    pub(super) fn integer(&mut self, what: &str) -> Parsed<i64> {
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
    pub(super) fn count(&mut self, what: &str) -> Parsed<u32> {
        if self.peek().kind != TokenKind::Number {
            return Err(self.expected(what));
        }
        let place = self.bump().place;
        let text = self.text_at(place);
        text.parse()
            .map_err(|_| self.error(place, format!("`{text}` is not an integer of 32 bits")))
    }

    /// The node of an operand; a literal without a type of its own takes `dtype` where it can.
    pub(super) fn settle(&mut self, operand: Operand<'t>, dtype: Option<&DType>) -> Parsed<ExprId> {
        match operand.term {
            Term::Node(id) => Ok(id),
            Term::Number(number) => {
                let fits = |d: &&DType| d.is_float() || (d.is_integer() && !number.is_float());
                let dtype = dtype.filter(fits).cloned();
                let dtype = dtype.unwrap_or_else(|| number.default_type());
                match self.constant(number, &dtype, operand.place)?.term {
                    Term::Node(id) => Ok(id),
                    _ => unreachable!("a constant is a node"),
                }
            }
            Term::Null => match dtype {
                Some(dtype) => self.add(Expr::Null(dtype.clone()), operand.place),
                None => Err(self
                    .error(operand.place, "nothing here gives this `null` a type")
                    .help("write for example `null(f64)`")),
            },
        }
    }

    /// The nodes of operands that should have one type: that of the first that has one, or else `hint`.
    pub(super) fn settle_alike(
        &mut self,
        operands: &[Operand<'t>],
        hint: Option<&DType>,
    ) -> Parsed<Vec<ExprId>> {
        // The operand that gives the others their type.
        let rank = |operand: &Operand<'t>| match operand.term {
            Term::Node(_) => 0,
            Term::Number(number) if number.is_float() => 1,
            Term::Number(_) => 2,
            Term::Null => 3,
        };
        let lead = (0..operands.len()).min_by_key(|i| rank(&operands[*i]));
        let lead = lead.filter(|i| rank(&operands[*i]) < 3);
        let settled = match lead {
            Some(lead) => Some(self.settle(operands[lead], hint)?),
            None => None,
        };
        let dtype = settled.map(|id| self.program.dtype(id).clone());
        let dtype = dtype.as_ref().or(hint);
        let mut ids = Vec::with_capacity(operands.len());
        for (i, operand) in operands.iter().enumerate() {
            ids.push(match settled {
                Some(id) if lead == Some(i) => id,
                _ => self.settle(*operand, dtype)?,
            });
        }
        Ok(ids)
    }

    /// The type of the first operand that has one.
    pub(super) fn known_type(&self, operands: &[Operand<'t>]) -> Option<DType> {
        operands.iter().find_map(|operand| match operand.term {
            Term::Node(id) => Some(self.program.dtype(id).clone()),
            _ => None,
        })
    }
}

/// A number token as digits and what follows them.
fn split_suffix(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        from + bytes[from..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count()
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits((end + 1 + sign).min(bytes.len()));
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    text.split_at(end)
}
