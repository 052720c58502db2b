//! Reading tokens, and saying what was expected instead.

use super::{MAX_NESTING, Parsed, Parser, error::ParseError};
use crate::{
    lex::{Place, Token, TokenKind, unquote_name},
    names::RESERVED_WORDS,
};

impl<'t> Parser<'t> {
    pub(super) fn peek(&self) -> Token {
        self.peek_at(0)
    }

    /// The token `ahead` of the next one. The last token repeats for ever.
    pub(super) fn peek_at(&self, ahead: usize) -> Token {
        self.tokens[(self.next + ahead).min(self.tokens.len() - 1)]
    }

    pub(super) fn text_at(&self, place: Place) -> &'t str {
        &self.text[place.start..place.end]
    }

    pub(super) fn peek_text(&self) -> &'t str {
        self.text_at(self.peek().place)
    }

    pub(super) fn bump(&mut self) -> Token {
        let token = self.peek();
        self.next += 1;
        token
    }

    /// The token read last.
    pub(super) fn last_place(&self) -> Place {
        self.tokens[self.next.saturating_sub(1).min(self.tokens.len() - 1)].place
    }

    pub(super) fn at_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek().kind, TokenKind::Symbol(s) if s == symbol)
    }

    pub(super) fn at_word(&self, word: &str) -> bool {
        self.peek().kind == TokenKind::Word && self.peek_text() == word
    }

    pub(super) fn eat_symbol(&mut self, symbol: &str) -> bool {
        let found = self.at_symbol(symbol);
        self.next += usize::from(found);
        found
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        self.next += usize::from(found);
        found
    }

    pub(super) fn expect_symbol(&mut self, symbol: &str) -> Parsed<Place> {
        if self.at_symbol(symbol) {
            Ok(self.bump().place)
        } else {
            Err(self.expected(&format!("`{symbol}`")))
        }
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Parsed<Place> {
        if self.at_word(word) {
            Ok(self.bump().place)
        } else {
            Err(self.expected(&format!("`{word}`")))
        }
    }

    /// The bracket that closes the one at `open`.
    pub(super) fn close(&mut self, symbol: &str, open: Place) -> Parsed<Place> {
        if self.at_symbol(symbol) {
            return Ok(self.bump().place);
        }
        let error = self.expected(&format!("`{symbol}`"));
        let opened = ParseError::new(self.text, open, String::new());
        // On one line the reader sees the opening bracket.
        if error.line == opened.line && self.peek().kind != TokenKind::End {
            return Err(error);
        }
        Err(error.help(format!(
            "the `{}` at {}:{} is not closed",
            self.text_at(open),
            opened.line,
            opened.column
        )))
    }

    /// A name, quoted or not. Keywords are names here.
    pub(super) fn name(&mut self, what: &str) -> Parsed<(String, Place)> {
        match self.peek().kind {
            TokenKind::Word | TokenKind::Quoted => {
                let place = self.bump().place;
                Ok((unquote_name(self.text_at(place)), place))
            }
            _ => Err(self.expected(what)),
        }
    }

    /// A name for a new variable.
    pub(super) fn variable(&mut self) -> Parsed<(String, Place)> {
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
    pub(super) fn choice<T: Copy>(&mut self, what: &str, words: &[(&'static str, T)]) -> Parsed<T> {
        if let Some((_, value)) = words.iter().find(|(word, _)| self.at_word(word)) {
            self.bump();
            return Ok(*value);
        }
        let words: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        Err(self
            .expected(what)
            .help(format!("one of {}", words.join(", "))))
    }

    /// Goes one level deeper into the text's nesting. Nothing needs undoing after an error, which ends the parse.
    pub(super) fn nest(&mut self) -> Parsed<()> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(self.error(
                self.peek().place,
                format!("nested deeper than {MAX_NESTING} levels"),
            ));
        }
        Ok(())
    }

    pub(super) fn error(&self, place: Place, message: impl Into<String>) -> Box<ParseError> {
        ParseError::new(self.text, place, message.into())
    }

    /// The next token is not what it should be.
    pub(super) fn expected(&self, what: &str) -> Box<ParseError> {
        const SHOWN: usize = 40;
        let token = self.peek();
        let text = self.text_at(token.place);
        let found = match text.char_indices().nth(SHOWN) {
            _ if token.kind == TokenKind::End => "the end of the text".to_owned(),
            Some((cut, _)) => format!("`{}…`", &text[..cut]),
            None => format!("`{text}`"),
        };
        self.error(token.place, format!("expected {what}"))
            .found(found)
    }
}
