//! Tokens of the text form, and how names and strings are spelt.

use std::borrow::Cow;

/// A stretch of the text, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Place {
    /// From the start of this one to the end of `last`.
    pub(crate) fn to(self, last: Self) -> Self {
        Self {
            start: self.start,
            end: last.end.max(self.start),
        }
    }
}

/// What a token is. Keywords are words: their place decides, so that they stay free as names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TokenKind {
    /// A name or a keyword.
    Word,
    /// A name in backticks.
    Quoted,
    /// Starts with a digit: a number with its suffix, or a duration.
    Number,
    /// A string in quotes, its escapes checked but not resolved.
    Text,
    /// An operator or a bracket.
    Symbol(&'static str),
    /// Nothing follows. Stands right behind the last token.
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) place: Place,
}

/// A character or a quotation that no token can be made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LexError {
    pub(crate) place: Place,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// Longer symbols before their own prefixes.
const SYMBOLS: &[&str] = &[
    "||", "^^", "&&", "==", "!=", "<=", ">=", "<<", ">>", "->", "~~", "|", "^", "&", "=", "!", "<",
    ">", "+", "-", "*", "/", "%", "~", "(", ")", "{", "}", "[", "]", ",", ":", ".", "@", "#",
];

/// All tokens of `text`, the last one being [`TokenKind::End`].
pub(crate) fn lex(text: &str) -> Result<Vec<Token>, LexError> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut last_end = 0;
    while let Some(&byte) = bytes.get(at) {
        let (kind, end) = match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at = text[at..].find('\n').map_or(text.len(), |n| at + n);
                continue;
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => (TokenKind::Word, word_end(bytes, at)),
            b'0'..=b'9' => (TokenKind::Number, number_end(bytes, at)),
            b'"' => (TokenKind::Text, text_end(text, at)?),
            b'`' => (TokenKind::Quoted, quoted_end(text, at)?),
            _ => match SYMBOLS.iter().find(|s| text[at..].starts_with(**s)) {
                Some(symbol) => (TokenKind::Symbol(symbol), at + symbol.len()),
                None => return Err(unknown_character(text, at)),
            },
        };
        tokens.push(Token {
            kind,
            place: Place { start: at, end },
        });
        at = end;
        last_end = end;
    }
    tokens.push(Token {
        kind: TokenKind::End,
        place: Place {
            start: last_end,
            end: last_end,
        },
    });
    Ok(tokens)
}

fn word_end(bytes: &[u8], start: usize) -> usize {
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    start + bytes[start..].iter().take_while(|b| is_word(b)).count()
}

fn digits_end(bytes: &[u8], start: usize) -> usize {
    start
        + bytes[start..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count()
}

/// Digits, a fraction, an exponent, then whatever letters and digits follow: a suffix or the rest of a duration.
fn number_end(bytes: &[u8], start: usize) -> usize {
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut at = digits_end(bytes, start);
    if bytes.get(at) == Some(&b'.') && is_digit(at + 1) {
        at = digits_end(bytes, at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        if is_digit(at + 1 + sign) {
            at = digits_end(bytes, at + 1 + sign);
        }
    }
    word_end(bytes, at)
}

fn text_end(text: &str, start: usize) -> Result<usize, LexError> {
    let fail = |from: usize, to: usize, message: &str, help: &str| LexError {
        place: Place {
            start: from,
            end: to,
        },
        message: message.to_owned(),
        help: Some(help.to_owned()),
    };
    let mut chars = text[start + 1..].char_indices();
    while let Some((offset, c)) = chars.next() {
        let at = start + 1 + offset;
        match c {
            '"' => return Ok(at + 1),
            '\n' => break,
            '\\' => {
                let Some((resolved, _)) = escape(&text[at..]) else {
                    let end = text[at + 1..]
                        .chars()
                        .next()
                        .map_or(at + 1, |c| at + 1 + c.len_utf8());
                    return Err(fail(
                        at,
                        end,
                        "unknown escape in a string",
                        r#"the escapes are \" \\ \n \t \r and \u{…} with the code in hexadecimal"#,
                    ));
                };
                // All but the backslash itself, in characters: escapes are ASCII.
                for _ in 1..resolved {
                    chars.next();
                }
            }
            _ => {}
        }
    }
    Err(fail(
        start,
        start + 1,
        "this string is not closed",
        "a string ends with `\"` on the line it starts on; write a line break as `\\n`",
    ))
}

fn quoted_end(text: &str, start: usize) -> Result<usize, LexError> {
    let mut at = start + 1;
    while let Some(offset) = text[at..].find('`') {
        at += offset + 1;
        if !text[at..].starts_with('`') {
            return Ok(at);
        }
        at += 1;
    }
    Err(LexError {
        place: Place {
            start,
            end: start + 1,
        },
        message: "this quoted name is not closed".to_owned(),
        help: Some("a name in backticks ends with a backtick; one inside it is doubled".to_owned()),
    })
}

fn unknown_character(text: &str, at: usize) -> LexError {
    let c = text[at..].chars().next().unwrap_or('\u{fffd}');
    let help = match c {
        '\'' | '“' | '”' | '‘' | '’' => Some("strings stand in `\"`"),
        'φ' | '∅' => Some("no value is written `null`"),
        ';' => Some("nothing separates definitions but white space"),
        '$' | '?' | '\\' => None,
        c if c.is_alphabetic() => Some("put a name with other letters than A to Z in backticks"),
        _ => None,
    };
    LexError {
        place: Place {
            start: at,
            end: at + c.len_utf8(),
        },
        message: if c.is_control() {
            format!("the character U+{:04X} has no meaning here", u32::from(c))
        } else {
            format!("the character `{c}` has no meaning here")
        },
        help: help.map(str::to_owned),
    }
}

/// The escape at the start of `text`: its length in bytes, and the character it stands for.
fn escape(text: &str) -> Option<(usize, char)> {
    let rest = text.strip_prefix('\\')?;
    let simple = |c| Some((2, c));
    match rest.chars().next()? {
        '"' => simple('"'),
        '\\' => simple('\\'),
        'n' => simple('\n'),
        't' => simple('\t'),
        'r' => simple('\r'),
        'u' => {
            let code = rest.strip_prefix("u{")?;
            let digits = code.find('}')?;
            let code = &code[..digits];
            if code.is_empty() || code.len() > 6 || !code.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            let value = u32::from_str_radix(code, 16).ok()?;
            Some(("\\u{}".len() + digits, char::from_u32(value)?))
        }
        _ => None,
    }
}

/// The value of a string token. The inverse of [`quote_text`].
pub(crate) fn unquote_text(token: &str) -> String {
    let mut rest = token
        .strip_prefix('"')
        .and_then(|t| t.strip_suffix('"'))
        .unwrap_or(token);
    let mut value = String::with_capacity(rest.len());
    while let Some(at) = rest.find('\\') {
        value.push_str(&rest[..at]);
        rest = &rest[at..];
        let (length, c) = escape(rest).unwrap_or((1, '\\'));
        value.push(c);
        rest = &rest[length..];
    }
    value.push_str(rest);
    value
}

/// A string as a token.
pub(crate) fn quote_text(value: &str) -> String {
    let mut token = String::with_capacity(value.len() + 2);
    token.push('"');
    for c in value.chars() {
        match c {
            '"' => token.push_str("\\\""),
            '\\' => token.push_str("\\\\"),
            '\n' => token.push_str("\\n"),
            '\t' => token.push_str("\\t"),
            '\r' => token.push_str("\\r"),
            c if c.is_control() => token.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => token.push(c),
        }
    }
    token.push('"');
    token
}

/// Whether `name` can stand without backticks.
pub(crate) fn is_word(name: &str) -> bool {
    !name.is_empty()
        && !name.as_bytes()[0].is_ascii_digit()
        && word_end(name.as_bytes(), 0) == name.len()
}

/// A name as a token: as it is, or in backticks.
pub(crate) fn quote_name(name: &str) -> Cow<'_, str> {
    if is_word(name) {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(format!("`{}`", name.replace('`', "``")))
    }
}

/// The name that a token of kind `Word` or `Quoted` stands for. The inverse of [`quote_name`].
pub(crate) fn unquote_name(token: &str) -> String {
    match token.strip_prefix('`').and_then(|t| t.strip_suffix('`')) {
        Some(quoted) => quoted.replace("``", "`"),
        None => token.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        let tokens = lex(text).expect("lexes");
        let (end, tokens) = tokens.split_last().expect("an end");
        assert_eq!(end.kind, TokenKind::End);
        tokens
            .iter()
            .map(|t| &text[t.place.start..t.place.end])
            .collect()
    }

    #[test]
    fn numbers_take_fraction_exponent_and_suffix_but_no_operator() {
        assert_eq!(
            texts("1 1.5f32 1e-7 2E+3 1h30m 5-3 1.x 1e 0..1"),
            [
                "1", "1.5f32", "1e-7", "2E+3", "1h30m", "5", "-", "3", "1", ".", "x", "1e", "0",
                ".", ".", "1"
            ]
        );
    }

    #[test]
    fn symbols_are_the_longest_that_fit_and_comments_are_dropped() {
        assert_eq!(
            texts("~~~x<=<<^^^ // rest\n->!="),
            ["~~", "~", "x", "<=", "<<", "^^", "^", "->", "!="]
        );
    }

    #[test]
    fn strings_and_names_survive_quoting() {
        for value in ["", "a b", "\"\\\n\t\r\u{0}\u{7f}", "\\u{41}", "é`"] {
            let token = quote_text(value);
            assert_eq!(texts(&token), [token.as_str()]);
            assert_eq!(unquote_text(&token), value);
        }
        for name in ["", "x", "a b", "`", "``a`", "1x", "é", "_"] {
            let token = quote_name(name).into_owned();
            assert_eq!(texts(&token), [token.as_str()]);
            assert_eq!(unquote_name(&token), name);
        }
        assert_eq!(unquote_text(r#""\u{e9}\u{1F600}""#), "é😀");
    }

    #[test]
    fn bad_quotations_are_reported_where_they_start() {
        let fail = |text: &str| {
            let error = lex(text).expect_err("fails");
            (error.place.start, error.message)
        };
        assert_eq!(fail("a \"b\nc\""), (2, "this string is not closed".into()));
        assert_eq!(fail("\"b\\"), (2, "unknown escape in a string".into()));
        assert_eq!(fail("\"\\q\""), (1, "unknown escape in a string".into()));
        assert_eq!(
            fail("\"\\u{d800}\""),
            (1, "unknown escape in a string".into())
        );
        assert_eq!(fail("a `b``"), (2, "this quoted name is not closed".into()));
        assert_eq!(
            fail("a $"),
            (2, "the character `$` has no meaning here".into())
        );
    }
}
