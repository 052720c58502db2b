//! Reductions and their windows.

use super::{
    Parsed, Parser,
    error::{ParseError, nearest},
    literal::{Operand, Term},
};
use crate::{
    expr::{Agg, Bounds, Expr, Ratio, Window},
    ids::ExprId,
    lex::{Place, TokenKind},
    names::{PLAIN_AGGS, QUANTILE_METHODS},
    types::{DType, Scalar},
};

/// Reductions that may have parameters.
const OTHER_AGGS: &[&str] = &["var", "std", "skew", "kurtosis", "quantile", "top_k", "ewm"];

/// One end of a window.
#[derive(Clone, Copy)]
enum Bound {
    Beginning,
    Time(i64),
    Ordinal(i64),
}

impl<'t> Parser<'t> {
    pub(super) fn reduction(&mut self) -> Parsed<Operand<'t>> {
        let start = self.expect_word("reduce")?;
        let agg_place = self.peek().place;
        let agg = self.agg()?;
        let window = self.window()?;
        let map = if self.eat_word("map") {
            Some(self.map(agg)?)
        } else {
            None
        };
        let place = start.to(self.last_place());
        let id = self.add(Expr::Reduce { agg, window, map }, agg_place)?;
        Ok(Operand {
            term: Term::Node(id),
            place,
        })
    }

    /// `(e)` after `map`: what each event contributes.
    fn map(&mut self, agg: Agg) -> Parsed<ExprId> {
        let input = match agg {
            Agg::Custom(id) => Some(self.program.reducers[id].input.clone()),
            _ => None,
        };
        let open = self.expect_symbol("(")?;
        let value = self.expr(input.as_ref())?;
        let id = self.settle(value, input.as_ref())?;
        self.close(")", open)?;
        Ok(id)
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
        let open = if self.at_symbol("(") {
            Some(self.bump().place)
        } else {
            None
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
                k: self.count("a number of values")?,
            },
            "ewm" => Agg::Ewm {
                alpha: self.ratio()?,
            },
            _ => {
                let q = self.ratio()?;
                let method = if self.eat_symbol(",") {
                    self.choice("a method", QUANTILE_METHODS)?
                } else {
                    QUANTILE_METHODS[0].1
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
                .help("a window is `~x[t-10s : t]`, `~x[#-3 : #]` or `~x[event]`"));
        }
        self.bump();
        let (stream, name) = self.stream()?;
        let open = self.expect_symbol("[")?;
        if self.eat_word("event") {
            self.close("]", open)?;
            let bounds = Bounds::Event;
            return Ok(Window { stream, bounds });
        }
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
            return if self.at_symbol("+") || self.at_symbol("-") {
                Ok(Bound::Ordinal(self.integer("a number of events")?))
            } else {
                Ok(Bound::Ordinal(0))
            };
        }
        if self.at_symbol("-") {
            self.bump();
            self.expect_word("inf")?;
            return Ok(Bound::Beginning);
        }
        Ok(Bound::Time(self.instant()?))
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

/// Whether `word` is a reduction of the language.
pub(super) fn is_agg(word: &str) -> bool {
    PLAIN_AGGS.iter().any(|row| row.0 == word) || OTHER_AGGS.contains(&word)
}
