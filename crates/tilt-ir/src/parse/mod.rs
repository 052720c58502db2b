//! Text to programs. The inverse of the printer; the grammar is in `docs/ir.md`.
//!
//! One pass over the tokens builds and type-checks the program. No text overflows the stack: nesting in the text is
//! limited by [`MAX_NESTING`], chains (`a + b + …`, `let … in let …`, `else if …`) are loops, and the height of the
//! trees they build is limited by [`MAX_HEIGHT`] for the sake of everything that walks them.

#![allow(
    clippy::unnecessary_box_returns,
    reason = "errors are boxed, so that the results of a recursive descent are small"
)]

mod call;
mod definitions;
mod error;
mod expr;
mod literal;
mod reduction;
#[cfg(test)]
mod tests;
mod tokens;
mod types;

use std::collections::HashMap;

pub use error::ParseError;

use crate::{
    ids::{StreamId, VarId},
    lex::{Token, TokenKind, lex},
    program::Program,
    time::Unit,
};

/// How deep brackets, branches and types may be nested in the text.
const MAX_NESTING: u32 = 128;
/// How high an expression tree may be.
const MAX_HEIGHT: u32 = crate::verify::MAX_DEPTH as u32;
/// How many fields the type of a record that an expression builds may have in all. Records of records grow
/// exponentially with the text.
const MAX_RECORD_SIZE: usize = 4096;

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
/// assert_eq!((error.line, error.column), (4, 26));
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
        let tokens =
            lex(text).map_err(|e| ParseError::new(text, e.place, e.message).maybe_help(e.help))?;
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
}
