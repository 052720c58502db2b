//! The parser takes any text: it never panics, and what it accepts is printed and read back as the same program.
//!
//! Text that a fuzzer makes from nothing is hardly ever a query, so most inputs are edits of a random one.

#![no_main]

#[path = "../bytes.rs"]
mod bytes;
#[path = "../../tests/it/generate/mod.rs"]
#[allow(dead_code, unused_imports)]
mod generate;

use generate::{Choices, Scope};
use libfuzzer_sys::fuzz_target;
use tilt::ir;

/// What edits put into a query besides single characters.
const TOKENS: &[&str] = &[
    "query",
    "unit",
    "tick",
    "s",
    "ns",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "~",
    "~x0",
    "~s0",
    "t",
    "#",
    ":",
    ",",
    "=",
    "input",
    "output",
    "f64",
    "i64",
    "bool",
    "utf8",
    "timestamp(s)",
    "list(f64)",
    "{a: f64}",
    "point",
    "fixed 3",
    "until_next",
    "interval",
    "period 5",
    "key a",
    "overlap bag",
    "on ",
    "at ",
    "every 5",
    "calendar 1mo",
    "tz \"Europe/Paris\"",
    "closed left",
    "sessions ~x gap 5",
    "max 9",
    "[event]",
    "offset -1",
    "hold(",
    ".prev(1)",
    "start(",
    "end(",
    "reduce sum ",
    "reduce quantile(0.5, linear) ",
    "reduce @weighted ",
    " map (",
    "[t-5 : t]",
    "[#-1 : #]",
    "[-inf : t]",
    "let v = ",
    " in ",
    "if ",
    " then ",
    " else ",
    "null",
    "null(f64)",
    "true",
    "nan",
    "-inf",
    "1",
    "-1",
    "1.5f32",
    "9223372036854775808",
    "1e999",
    "1h30m",
    "\"\\u{e9}\"",
    "`odd ``name`",
    "// ",
    "\n",
    "extern fn f(f64) -> f64",
    "reducer r(f64) {",
    "state",
    "init",
    "acc",
    "result",
    "coalesce(",
    "is_null(",
    "cast(",
    "clip(",
    "ts(1, s)",
    "dur(1, ms)",
    "~~",
    "!",
    "&&",
    "||",
    "^^",
    "<<",
    "==",
    ".a",
    "@half(",
];

fuzz_target!(|data: &[u8]| {
    let Some((mode, rest)) = data.split_first() else {
        return;
    };
    let text = match mode % 4 {
        0 => String::from_utf8_lossy(rest).into_owned(),
        _ => edited(rest),
    };
    let Ok(program) = ir::parse(&text) else {
        return;
    };
    let printed = program.to_string();
    let again = match ir::parse(&printed) {
        Ok(again) => again.to_string(),
        Err(error) => panic!("printed\n{printed}\nwhich is not read back:\n{error}"),
    };
    assert_eq!(again, printed, "printing and parsing do not come to rest");
    if let Err(error) = ir::verify(&program) {
        let _ = error.to_string();
    }
});

/// A random query with some of its characters replaced.
fn edited(data: &[u8]) -> String {
    let (of_program, edits) = data.split_at(data.len() / 3 * 2);
    let choices = bytes::choices(of_program);
    let program = generate::program(&mut Choices::new(&choices), Scope { instants: true });
    let mut text: Vec<char> = program.to_string().chars().collect();
    for edit in edits.chunks_exact(4) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % (text.len() + 1);
        let until = (at + usize::from(edit[2] % 8)).min(text.len());
        let new: Vec<char> = match usize::from(edit[3]) {
            code if code < 128 => TOKENS[code % TOKENS.len()].chars().collect(),
            code => vec![char::from((code - 128) as u8)],
        };
        text.splice(at..until, new);
    }
    text.into_iter().collect()
}
