//! Text to loops. The inverse of the printer; the grammar is in `docs/lir.md`.
//!
//! One pass builds the loop. Types of results are those that the operands give; whether the operands fit is the verifier's
//! question.

use tilt_ir::{Arena, Id};

use super::{
    Access, AccessId, By, Function, Imm, Inst, LANES, Lanes, Loop, Node, Param, ParamId, Sink,
    Slot, Store, Ty, ValueId,
    print::{BINARIES, COMBINES, COMPARES, TYPES, UNARIES, WAYS, Words, unquote_name},
    verify::result_type,
};

/// Why a text is not a loop.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("error at {line}:{column}: {message}")]
pub struct ParseError {
    /// Line of the offending token, from 1.
    pub line: usize,
    /// Column of the offending token in characters, from 1.
    pub column: usize,
    /// What is wrong, or what was expected and what was found.
    pub message: String,
}

type Parsed<T> = Result<T, ParseError>;

/// Reads one loop.
///
/// # Errors
/// When the text does not follow the grammar, a name or value is not defined before its use, or is defined twice.
///
/// ```
/// let text = "loop double lanes 8 {
///   access x: f64 row
///   %0 = load x
///   %1 = add %0, %0
///   store %1
/// }
/// ";
/// let l = tilt_codegen::lir::parse(text)?;
/// assert_eq!(l.to_string(), text);
///
/// let error = tilt_codegen::lir::parse(&text.replace("load x", "load y")).unwrap_err();
/// assert_eq!(error.to_string(), "error at 3:13: no access is named `y`");
/// # Ok::<(), tilt_codegen::lir::ParseError>(())
/// ```
pub fn parse(text: &str) -> Result<Loop, ParseError> {
    let parser = Parser {
        text,
        at: skip_blank(text, 0),
        l: Loop {
            name: String::new(),
            lanes: Lanes::Eight,
            accesses: Arena::default(),
            params: Arena::default(),
            values: Arena::default(),
            sink: Sink::Store {
                columns: Vec::new(),
                streaming: false,
            },
        },
    };
    parser.parse()
}

struct Parser<'t> {
    text: &'t str,
    /// Where the next token starts.
    at: usize,
    /// The loop as far as it is read.
    l: Loop,
}

impl Parser<'_> {
    fn parse(mut self) -> Parsed<Loop> {
        self.expect("loop")?;
        self.l.name = self.name("a name for the loop")?;
        self.expect("lanes")?;
        self.l.lanes = self.lanes()?;
        self.expect("{")?;
        while self.declaration()? {}
        while self.peek().starts_with('%') {
            self.value()?;
        }
        self.l.sink = self.sink()?;
        self.expect("}")?;
        match self.peek() {
            "" => Ok(self.l),
            _ => Err(self.expected("nothing after the loop")),
        }
    }

    fn lanes(&mut self) -> Parsed<Lanes> {
        if self.eat("1") {
            Ok(Lanes::One)
        } else if self.eat(&LANES.to_string()) {
            Ok(Lanes::Eight)
        } else {
            Err(self.expected("`1` or `8`"))
        }
    }

    /// Reads an access or a parameter, if one comes next.
    fn declaration(&mut self) -> Parsed<bool> {
        if self.eat("access") {
            self.access()?;
        } else if self.eat("param") {
            self.param()?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn access(&mut self) -> Parsed<()> {
        let start = self.at;
        let name = self.name("a name for the access")?;
        if self.find_access(&name).is_some() {
            return Err(self.error(start, format!("the access `{name}` is declared twice")));
        }
        let ty = self.ty()?;
        let by = if self.eat("back") {
            By::Back(self.count("how many rows back")?)
        } else {
            self.choice("how the column is read", WAYS)?
        };
        let nullable = self.eat("nullable");
        self.l.accesses.push(Access {
            name,
            ty,
            by,
            nullable,
        });
        Ok(())
    }

    fn param(&mut self) -> Parsed<()> {
        let start = self.at;
        let name = self.name("a name for the parameter")?;
        if self.find_param(&name).is_some() {
            return Err(self.error(start, format!("the parameter `{name}` is declared twice")));
        }
        let ty = self.ty()?;
        self.l.params.push(Param { name, ty });
        Ok(())
    }

    /// `%3 = INST`.
    fn value(&mut self) -> Parsed<()> {
        let id = format!("%{}", self.l.values.len());
        if !self.eat(&id) {
            return Err(self.expected(&format!("`{id}`: values are numbered in order")));
        }
        self.expect("=")?;
        let (inst, stated) = self.inst()?;
        // An instruction whose type is not stated has one that follows from its operands.
        let ty = stated.or_else(|| result_type(&self.l, &inst));
        let ty = ty.ok_or_else(|| self.expected("a type"))?;
        self.l.values.push(Node { inst, ty });
        Ok(())
    }

    /// An instruction, with the type of its result where the text states it.
    fn inst(&mut self) -> Parsed<(Inst, Option<Ty>)> {
        let word = self.peek();
        let untyped = |inst| Ok((inst, None));
        if let Some(op) = self.eat_one_of(UNARIES) {
            return untyped(Inst::Unary(op, self.operand()?));
        }
        if let Some(op) = self.eat_one_of(BINARIES) {
            let [a, b] = self.operands()?;
            return untyped(Inst::Binary(op, a, b));
        }
        if let Some(op) = self.eat_one_of(COMPARES) {
            let [a, b] = self.operands()?;
            return untyped(Inst::Compare(op, a, b));
        }
        let start = self.at;
        self.bump();
        match word {
            "const" => untyped(Inst::Const(self.imm()?)),
            "param" => untyped(Inst::Param(self.param_use()?)),
            "row" => untyped(Inst::Row),
            "load" => untyped(Inst::Load(self.access_use()?)),
            "valid" => untyped(Inst::Valid(self.access_use()?)),
            "lookup" => untyped(self.lookup()?),
            "select" => {
                let [condition, a, b] = self.operands()?;
                untyped(Inst::Select(condition, a, b))
            }
            "convert" => Ok((Inst::Convert(self.operand()?), Some(self.ty()?))),
            "bits_of" => Ok((Inst::Bits(self.operand()?), Some(self.ty()?))),
            "call" => untyped(self.call()?),
            _ => {
                self.at = start;
                Err(self.expected("an instruction"))
            }
        }
    }

    fn lookup(&mut self) -> Parsed<Inst> {
        let access = self.access_use()?;
        self.expect("[")?;
        let index = self.operand()?;
        self.expect("]")?;
        Ok(Inst::Lookup(access, index))
    }

    /// `tilt_pow(%1: f64, %2: f64): f64`.
    fn call(&mut self) -> Parsed<Inst> {
        let name = self.name("a function's name")?;
        let mut operands = Vec::new();
        let mut params = Vec::new();
        self.expect("(")?;
        while !self.eat(")") {
            if !operands.is_empty() {
                self.expect(",")?;
            }
            operands.push(self.operand()?);
            params.push(self.ty()?);
        }
        let result = self.ty()?;
        let function = Function {
            name,
            params,
            result,
        };
        Ok(Inst::Call(function, operands))
    }

    fn sink(&mut self) -> Parsed<Sink> {
        let streaming = self.eat("streaming");
        if self.eat("store") {
            let columns = self.list(Self::store)?;
            Ok(Sink::Store { columns, streaming })
        } else if streaming {
            Err(self.expected("`store`"))
        } else if self.eat("scan") {
            let (slots, backward) = self.slots()?;
            Ok(Sink::Scan { slots, backward })
        } else if self.eat("fold") {
            let (slots, backward) = self.slots()?;
            Ok(Sink::Fold { slots, backward })
        } else if self.eat("panes") {
            let every = self.count("the rows of a pane")?;
            let slots = self.list(Self::slot)?;
            Ok(Sink::Panes { slots, every })
        } else if self.eat("slide") {
            let span = self.count("how many rows are combined")?;
            let running = self.eat("running");
            let slots = self.list(Self::slot)?;
            Ok(Sink::Slide {
                slots,
                span,
                running,
            })
        } else if self.eat("comb") {
            let slots = self.list(Self::slot)?;
            Ok(Sink::Comb { slots })
        } else {
            Err(self.expected("a value or `store`, `scan`, `fold`, `panes`, `slide` or `comb`"))
        }
    }

    fn store(&mut self) -> Parsed<Store> {
        let value = self.operand()?;
        let valid = if self.eat("if") {
            Some(self.operand()?)
        } else {
            None
        };
        Ok(Store { value, valid })
    }

    fn slots(&mut self) -> Parsed<(Vec<Slot>, bool)> {
        let backward = self.eat("backward");
        let slots = self.list(Self::slot)?;
        Ok((slots, backward))
    }

    fn slot(&mut self) -> Parsed<Slot> {
        let op = self.choice("how to combine", COMBINES)?;
        let value = self.operand()?;
        Ok(Slot { op, value })
    }

    /// A number of rows.
    fn count(&mut self, what: &str) -> Parsed<u32> {
        let rows = self.peek().parse();
        let rows = rows.map_err(|_| self.expected(what))?;
        self.bump();
        Ok(rows)
    }

    /// One item or several with commas between.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `N` operands with commas between.
    fn operands<const N: usize>(&mut self) -> Parsed<[ValueId; N]> {
        let mut operands = [ValueId::new(0); N];
        for (k, operand) in operands.iter_mut().enumerate() {
            if k > 0 {
                self.expect(",")?;
            }
            *operand = self.operand()?;
        }
        Ok(operands)
    }

    /// A value that is defined already.
    fn operand(&mut self) -> Parsed<ValueId> {
        let token = self.peek();
        let Some(number) = token.strip_prefix('%') else {
            return Err(self.expected("a value such as `%0`"));
        };
        match number.parse() {
            Ok(index) if index < self.l.values.len() => {
                self.bump();
                Ok(ValueId::new(index))
            }
            _ => Err(self.error(
                self.at,
                format!("the value `{token}` is not defined before this"),
            )),
        }
    }

    fn access_use(&mut self) -> Parsed<AccessId> {
        let start = self.at;
        let name = self.name("an access")?;
        self.find_access(&name)
            .ok_or_else(|| self.error(start, format!("no access is named `{name}`")))
    }

    fn param_use(&mut self) -> Parsed<ParamId> {
        let start = self.at;
        let name = self.name("a parameter")?;
        self.find_param(&name)
            .ok_or_else(|| self.error(start, format!("no parameter is named `{name}`")))
    }

    fn find_access(&self, name: &str) -> Option<AccessId> {
        let mut accesses = self.l.accesses.iter();
        accesses.find(|(_, a)| a.name == name).map(|(id, _)| id)
    }

    fn find_param(&self, name: &str) -> Option<ParamId> {
        let mut params = self.l.params.iter();
        params.find(|(_, p)| p.name == name).map(|(id, _)| id)
    }

    /// `: f64`.
    fn ty(&mut self) -> Parsed<Ty> {
        self.expect(":")?;
        self.choice("a type", TYPES)
    }

    /// A number or bits with their type.
    fn imm(&mut self) -> Parsed<Imm> {
        let start = self.at;
        let is_bits = self.eat("bits");
        let sign = if !is_bits && self.eat("-") { "-" } else { "" };
        let token = self.bump();
        let ty = self.ty()?;
        let imm = if is_bits {
            bits(token).map(|bits| Imm { ty, bits })
        } else {
            number(&format!("{sign}{token}"), ty)
        };
        imm.ok_or_else(|| self.error(start, format!("expected a constant of type {ty}")))
    }
}

/// `0x7ff8000000000000`.
fn bits(token: &str) -> Option<u64> {
    u64::from_str_radix(token.strip_prefix("0x")?, 16).ok()
}

/// The constant that `text` is in type `ty`, unless it is none or out of range.
fn number(text: &str, ty: Ty) -> Option<Imm> {
    match ty {
        Ty::Bool => Some(Imm::bool(text.parse().ok()?)),
        Ty::F32 => float(text, ty, f64::from(text.parse::<f32>().ok()?)),
        Ty::F64 => float(text, ty, text.parse().ok()?),
        _ => {
            let value: i128 = text.parse().ok()?;
            let imm = Imm::int(ty, value as i64);
            (imm.integer() == value).then_some(imm)
        }
    }
}

/// Numbers that overflow are refused, and so are Rust's other words for floats: `nan`, `infinity`.
fn float(text: &str, ty: Ty, value: f64) -> Option<Imm> {
    let in_digits = text.ends_with(|c: char| c.is_ascii_digit());
    let as_meant = if in_digits {
        value.is_finite()
    } else {
        matches!(text, "inf" | "-inf")
    };
    as_meant.then(|| Imm::float(ty, value))
}

/// Reading tokens, and saying what was expected instead.
impl<'t> Parser<'t> {
    /// The next token; empty at the end of the text.
    fn peek(&self) -> &'t str {
        &self.text[self.at..token_end(self.text, self.at)]
    }

    fn bump(&mut self) -> &'t str {
        let token = self.peek();
        self.at = skip_blank(self.text, self.at + token.len());
        token
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        if found {
            self.bump();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Parsed<()> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(self.expected(&format!("`{token}`")))
        }
    }

    /// A name, quoted or not. Keywords are names here.
    fn name(&mut self, what: &str) -> Parsed<String> {
        let name = unquote_name(self.peek()).ok_or_else(|| self.expected(what))?;
        self.bump();
        Ok(name)
    }

    fn eat_one_of<T: Copy>(&mut self, words: &Words<T>) -> Option<T> {
        let token = self.peek();
        let (_, meaning) = words.iter().find(|(word, _)| *word == token)?;
        self.bump();
        Some(*meaning)
    }

    fn choice<T: Copy>(&mut self, what: &str, words: &Words<T>) -> Parsed<T> {
        self.eat_one_of(words).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            self.expected(&format!("{what} ({})", words.join(", ")))
        })
    }

    /// The next token is not what it should be.
    fn expected(&self, what: &str) -> ParseError {
        let found = match self.peek() {
            "" => "the end of the text".to_owned(),
            token => format!("`{token}`"),
        };
        self.error(self.at, format!("expected {what}, found {found}"))
    }

    fn error(&self, at: usize, message: String) -> ParseError {
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |n| n + 1);
        ParseError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
        }
    }
}

/// The first byte from `at` on that is neither white space nor part of a comment.
fn skip_blank(text: &str, mut at: usize) -> usize {
    loop {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start().len();
        let comment = if rest[blank..].starts_with("//") {
            rest[blank..].find('\n').unwrap_or(rest.len() - blank)
        } else {
            0
        };
        if blank + comment == 0 {
            return at;
        }
        at += blank + comment;
    }
}

/// Where the token that starts at `at` ends: a word, a number, a value, a name in backticks, or any other character.
fn token_end(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let Some(first) = rest.chars().next() else {
        return at;
    };
    let length = match first {
        '`' => quoted_length(rest),
        '0'..='9' => number_length(rest),
        '%' => 1 + rest[1..].find(|c| !is_word(c)).unwrap_or(rest.len() - 1),
        c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
        c => c.len_utf8(),
    };
    at + length
}

/// Up to the backtick that is not doubled; a name that is not closed is its first backtick, which is no name.
fn quoted_length(rest: &str) -> usize {
    let mut at = 1;
    while let Some(offset) = rest[at..].find('`') {
        at += offset + 1;
        if !rest[at..].starts_with('`') {
            return at;
        }
        at += 1;
    }
    1
}

/// Letters, digits and dots, and a sign behind the `e` of a decimal exponent.
fn number_length(rest: &str) -> usize {
    let is_hexadecimal = rest.starts_with("0x");
    let mut before = ' ';
    for (at, c) in rest.char_indices() {
        let signs_exponent = matches!((before, c), ('e' | 'E', '+' | '-')) && !is_hexadecimal;
        if !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.') || signs_exponent) {
            return at;
        }
        before = c;
    }
    rest.len()
}
