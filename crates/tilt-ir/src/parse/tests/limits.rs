//! Texts that are too deep, too long or damaged.

use super::query;
use crate::{lex::lex, parse::parse};

/// Ways to nest an expression in an expression of the same type.
const NESTS: &[(&str, &str)] = &[
    ("(", ")"),
    ("-(", ")"),
    ("1.0 - (", ")"),
    ("1.0 + 2.0 * (", ")"),
    ("abs(", ")"),
    ("pow(1.0, ", ")"),
    ("clip(", ", 0.0, 1.0)"),
    ("coalesce(", ", 0.0)"),
    ("@f(", ")"),
    ("{a: ", "}.a"),
    ("if true then ", " else 0.0"),
    ("if is_null(", ") then 1.0 else 0.0"),
    ("let v = ", " in v"),
    ("cast(", ", f64)"),
    ("reduce sum ~stock[t-1s : t] map (", ")"),
    (
        "0.0 + (let v = 1.0 in if v > 0.0 || false then -abs(",
        ") else v)",
    ),
];

fn nested(levels: usize, (open, close): (&str, &str)) -> String {
    query(&format!(
        "{}~stock[t]{}",
        open.repeat(levels),
        close.repeat(levels)
    ))
}

#[test]
fn nesting_is_safe_up_to_the_limit_and_refused_beyond_it() {
    for nest in NESTS {
        // Some of these take up to four levels each.
        for levels in [31, 63, 127, 128, 5_000] {
            match parse(&nested(levels, *nest)) {
                Ok(program) => {
                    let text = program.to_string();
                    let again = parse(&text).unwrap_or_else(|e| panic!("{e}"));
                    assert_eq!(again.to_string(), text);
                }
                Err(error) => {
                    assert_eq!(error.message, "nested deeper than 128 levels");
                    assert!(levels > 31, "{nest:?}");
                }
            }
        }
        assert!(parse(&nested(5_000, *nest)).is_err());
    }
}

#[test]
fn what_is_not_too_high_for_the_parser_is_not_too_deep_for_the_verifier() {
    let highest = (200..300)
        .map_while(|count| parse(&query(&format!("~stock[t]{}", " + 1.0".repeat(count)))).ok())
        .last()
        .expect("200 terms are not too many");
    assert_eq!(crate::verify(&highest), Ok(()));
}

#[test]
fn long_chains_are_refused_without_recursion() {
    let chain = |first: &str, link: &str, count: usize, last: &str| {
        parse(&query(&format!("{first}{}{last}", link.repeat(count))))
    };
    let chains = [
        ("~stock[t]", " + 1.0", ""),
        ("~stock[t]", " - 1.0 * 2.0", ""),
        ("", "- ", "~stock[t]"),
        ("", "let v = 1.0 in ", "~stock[t] + v"),
        ("", "if true then 1.0 else ", "~stock[t]"),
    ];
    for (first, link, last) in chains {
        let program = chain(first, link, 120, last).unwrap_or_else(|e| panic!("{e}"));
        let text = program.to_string();
        assert_eq!(parse(&text).map(|p| p.to_string()).as_ref(), Ok(&text));
        let error = chain(first, link, 20_000, last).expect_err("too high");
        assert_eq!(
            error.message,
            "this expression is more than 256 levels high"
        );
    }
    assert!(chain("~stock[t]", ".a", 20_000, "").is_err());
}

#[test]
fn types_may_not_grow_exponentially_or_nest_without_end() {
    let doubled = "let v = {a: v, b: v} in ".repeat(100);
    let error = parse(&query(&format!("let v = {{}} in {doubled}~stock[t]"))).expect_err("large");
    assert!(
        error
            .message
            .starts_with("this record has more than 4096 fields")
    );

    let mut streams = "~stock[t]\n  ~s0[t] = {a: ~stock[t]}".to_owned();
    for i in 0..200 {
        streams.push_str(&format!("\n  ~s{}[t] = {{a: ~s{i}[t]}}", i + 1));
    }
    let error = parse(&query(&streams)).expect_err("deep");
    assert!(error.message.contains("more than 128 levels"));

    let lists = format!("null({}f64{})", "list(".repeat(5_000), ")".repeat(5_000));
    let error = parse(&query(&lists)).expect_err("deep");
    assert_eq!(error.message, "nested deeper than 128 levels");
}

/// Damaged programs are refused or mean something; what means something prints and reads back.
#[test]
fn no_text_makes_the_parser_panic() {
    let seeds = [
        query("let a = reduce quantile(0.5, lower) ~stock[t-10s : t] map (~stock[t] * -1e-3) in if a > 0 then {x: a, y: \"é\\u{41}\"}.x else null"),
        query("coalesce(hold(~stock[t-5s], 1m), ~stock.prev(2)) + @f(cast(~n[t] << 3 & ~~1, f64)) - clip(1, nan, -inf)"),
        "query `a``b` unit tick { reducer r({a: f64}) { state {n: u8} init = {n: 0} acc(s, v, a, b) = {n: s.n + 1} merge(a, b) = a result(s) = s.n }
           input ~x: {a: f64} fixed 5 period 5 key a overlap bag ~y[t every 10 offset -3]: u8 = coalesce(reduce @r ~x[#-3 : #], ~y.prev(1)) output ~y }".to_owned(),
    ];
    for seed in &seeds {
        parse(seed).unwrap_or_else(|e| panic!("{e}"));
    }
    let pieces = [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "~",
        "~~",
        "-",
        "if ",
        " then ",
        "else ",
        "let ",
        "null",
        "t",
        "#",
        ":",
        "=",
        "==",
        "<",
        "1",
        "9223372036854775808",
        "1e999",
        ".5",
        "10s",
        "\"",
        "`",
        "\\",
        "é",
        "inf",
        "nanf16",
        "reduce ",
        "@",
        ",",
        ".",
        "//",
        "\n",
        "\0",
    ];
    // A fixed linear congruential generator: the same texts in every run.
    let mut state = 1_u64;
    let mut below = move |n: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let mut accepted = 0;
    for round in 0..5_000 {
        let mut text = seeds[round % seeds.len()].clone();
        for _ in 0..=below(2) {
            let tokens = lex(&seeds[round % seeds.len()]).expect("seeds are whole");
            let token = |i: usize| tokens[i].place.start..tokens[i].place.end;
            let other = token(below(tokens.len()));
            let other = seeds[round % seeds.len()][other].to_owned();
            let Some((start, end)) = lex(&text).ok().map(|tokens| {
                let place = tokens[below(tokens.len())].place;
                (place.start, place.end)
            }) else {
                break;
            };
            match below(6) {
                0 => text.replace_range(start..end, ""),
                1 => text.insert_str(start, pieces[below(pieces.len())]),
                2 => text.replace_range(start..end, pieces[below(pieces.len())]),
                3 => text.insert_str(start, &format!("{other} ")),
                _ => text.replace_range(start..end, &other),
            }
        }
        match parse(&text) {
            Ok(program) => {
                accepted += 1;
                let printed = program.to_string();
                let again = parse(&printed).unwrap_or_else(|e| panic!("{text}\n{printed}\n{e}"));
                assert_eq!(again.to_string(), printed, "{text}");
            }
            Err(error) => assert!(error.to_string().lines().count() >= 3, "{error}"),
        }
    }
    assert!(accepted > 100, "{accepted}");
}
