//! What is wrong with a text, and where.

use std::fmt;

use crate::lex::Place;

/// Characters of a source line that an error shows.
const SHOWN_WIDTH: usize = 100;

/// Why a text is not a program. The [`Display`](fmt::Display) form shows the place:
///
/// ```text
/// error at 4:19: expected an expression, found `]`
///   4 |   ~a[t] = ~x[t] + ]
///     |                   ^ expected an expression
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// Line of the offending token, from 1.
    pub line: usize,
    /// Column of the offending token in characters, from 1.
    pub column: usize,
    /// What is wrong, or what was expected.
    pub message: String,
    /// The token that stands where something else was expected.
    pub found: Option<String>,
    /// What to do about it.
    pub help: Option<String>,
    /// The source line with the token marked.
    pub snippet: String,
}

impl ParseError {
    /// An error about the stretch `place` of `text`.
    pub(crate) fn new(text: &str, place: Place, message: String) -> Box<Self> {
        let before = &text[..place.start];
        let line_start = before.rfind('\n').map_or(0, |n| n + 1);
        let line = before.matches('\n').count() + 1;
        let column = text[line_start..place.start].chars().count() + 1;
        let line_end = text[place.start..]
            .find('\n')
            .map_or(text.len(), |n| place.start + n);
        let width = text[place.start..place.end.min(line_end).max(place.start)]
            .chars()
            .count();
        Box::new(Self {
            line,
            column,
            message,
            found: None,
            help: None,
            snippet: snippet(text[line_start..line_end].trim_end(), line, column, width),
        })
    }

    pub(crate) fn found(mut self: Box<Self>, found: impl Into<String>) -> Box<Self> {
        self.found = Some(found.into());
        self
    }

    pub(crate) fn help(mut self: Box<Self>, help: impl Into<String>) -> Box<Self> {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn maybe_help(self: Box<Self>, help: Option<String>) -> Box<Self> {
        match help {
            Some(help) => self.help(help),
            None => self,
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "error at {}:{}: {}",
            self.line, self.column, self.message
        )?;
        if let Some(found) = &self.found {
            write!(f, ", found {found}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "; {help}")?;
        }
        write!(f, "\n{}", self.snippet)?;
        match (&self.help, &self.found) {
            (Some(help), _) => write!(f, " {help}"),
            (None, Some(_)) => write!(f, " {}", self.message),
            (None, None) => Ok(()),
        }
    }
}

impl std::error::Error for ParseError {}

/// The line with `width` characters from `column` on marked below it. Long lines are cut around the mark.
fn snippet(line: &str, number: usize, column: usize, width: usize) -> String {
    let skipped = if column > SHOWN_WIDTH {
        column - SHOWN_WIDTH / 2
    } else {
        0
    };
    let mut shown: String = line
        .chars()
        .skip(skipped)
        .take(SHOWN_WIDTH)
        .map(|c| if c.is_control() && c != '\t' { ' ' } else { c })
        .collect();
    if line.chars().count() > skipped + SHOWN_WIDTH {
        shown.push('…');
    }
    let left = if skipped > 0 { "…" } else { "" };
    let mark_at = column - 1 - skipped;
    // Tabs stay tabs, so that the mark stands under its token however wide they are shown.
    let indent: String = shown
        .chars()
        .chain(std::iter::repeat(' '))
        .take(mark_at)
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect();
    let mark = "^".repeat(width.clamp(1, SHOWN_WIDTH.saturating_sub(mark_at).max(1)));
    let gutter = " ".repeat(number.to_string().len());
    let pad = if skipped > 0 { " " } else { "" };
    format!("  {number} | {left}{shown}\n  {gutter} | {pad}{indent}{mark}")
}

/// The candidate that `word` is most likely a misspelling of.
pub(crate) fn nearest<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    const LONGEST: usize = 64;
    let word: Vec<char> = word.to_lowercase().chars().take(LONGEST + 1).collect();
    let most = (word.len() / 3).max(1);
    candidates
        .into_iter()
        .filter(|c| word.len() <= LONGEST && c.len() <= LONGEST && c.len() > 1)
        .map(|c| {
            (
                edits(&word, &c.to_lowercase().chars().collect::<Vec<_>>()),
                c,
            )
        })
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

/// Letters to insert, drop, replace or swap with their neighbour to get from one word to the other.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before_last[j - 2] + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings_find_their_word() {
        assert_eq!(nearest("stok", ["stock", "price"]), Some("stock"));
        assert_eq!(nearest("maen", ["mean", "median"]), Some("mean"));
        assert_eq!(nearest("volume", ["stock", "price"]), None);
    }

    #[test]
    fn long_lines_are_cut_around_the_mark() {
        let line = format!("{}!{}", "a".repeat(500), "b".repeat(500));
        let place = Place {
            start: 500,
            end: 501,
        };
        let error = ParseError::new(&line, place, "no".to_owned());
        let lines: Vec<&str> = error.snippet.lines().collect();
        let column = |line: &str, c| line.chars().position(|x| x == c);
        assert_eq!(column(lines[0], '!'), column(lines[1], '^'));
        assert!(lines[0].chars().count() < 120);
    }
}
