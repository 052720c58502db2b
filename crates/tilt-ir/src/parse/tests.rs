use super::parse;

mod limits;

/// A query with some inputs and `~a`, whose body is `body`.
fn query(body: &str) -> String {
    format!(
        "query q unit s {{
  input ~stock: f64 point
  input ~n: i32 point
  extern fn f(f64) -> f64
  ~a[t] = {body}
  output ~a
}}
"
    )
}

/// The message for a text.
fn refused(text: &str) -> String {
    match parse(text) {
        Ok(program) => panic!("accepted:\n{program}"),
        Err(error) => error.to_string(),
    }
}

/// The message for `~a[t] = body`.
fn refused_body(body: &str) -> String {
    refused(&query(body))
}

// ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_missing_expression() {
    assert_eq!(
        refused_body("~stock[t] + ]"),
        "error at 5:23: expected an expression, found `]`
  5 |   ~a[t] = ~stock[t] + ]
    |                       ^ expected an expression"
    );
}

#[test]
fn an_unknown_stream_suggests_the_nearest() {
    assert_eq!(
        refused_body("~stok[t]"),
        "error at 5:11: there is no stream ~stok; did you mean ~stock?
  5 |   ~a[t] = ~stok[t]
    |           ^^^^^ did you mean ~stock?"
    );
}

#[test]
fn a_stream_without_its_sigil() {
    assert_eq!(
        refused_body("stock + 1"),
        "error at 5:11: there is no variable `stock`; a stream is read as `~stock[t]`
  5 |   ~a[t] = stock + 1
    |           ^^^^^ a stream is read as `~stock[t]`"
    );
}

#[test]
fn a_stream_without_an_instant() {
    assert_eq!(
        refused_body("~stock + 1"),
        "error at 5:18: expected `[`, found `+`; a stream is read at an instant: `~stock[t]`
  5 |   ~a[t] = ~stock + 1
    |                  ^ a stream is read at an instant: `~stock[t]`"
    );
}

#[test]
fn a_field_before_the_instant() {
    assert_eq!(
        refused_body("~stock.price"),
        "error at 5:18: expected `prev`, found `price`; a field is read after the instant: `~x[t].name`
  5 |   ~a[t] = ~stock.price
    |                  ^^^^^ a field is read after the instant: `~x[t].name`"
    );
}

#[test]
fn an_unknown_function_suggests_the_nearest() {
    assert_eq!(
        refused_body("sqr(~stock[t])"),
        "error at 5:11: there is no function `sqr`; did you mean `sqrt`?
  5 |   ~a[t] = sqr(~stock[t])
    |           ^^^ did you mean `sqrt`?"
    );
}

#[test]
fn a_declared_function_without_its_sigil() {
    assert_eq!(
        refused_body("f(~stock[t])"),
        "error at 5:11: there is no function `f`; a declared function is called as `@f(…)`
  5 |   ~a[t] = f(~stock[t])
    |           ^ a declared function is called as `@f(…)`"
    );
}

#[test]
fn an_undeclared_function() {
    assert_eq!(
        refused_body("@g(1.0)"),
        "error at 5:12: there is no function `@g`
  5 |   ~a[t] = @g(1.0)
    |            ^"
    );
}

#[test]
fn an_argument_of_the_wrong_type() {
    assert_eq!(
        refused_body("@f(~n[t])"),
        "error at 5:14: argument 1 of `@f` is f64, not i32
  5 |   ~a[t] = @f(~n[t])
    |              ^^^^^"
    );
}

#[test]
fn too_many_arguments_of_a_declared_function() {
    assert_eq!(
        refused_body("@f(1.0, 2.0)"),
        "error at 5:11: `@f` takes 1 arguments, not 2
  5 |   ~a[t] = @f(1.0, 2.0)
    |           ^^^^^^^^^^^^"
    );
}

#[test]
fn too_few_arguments() {
    assert_eq!(
        refused_body("pow(~stock[t])"),
        "error at 5:11: `pow` takes 2 arguments, not 1
  5 |   ~a[t] = pow(~stock[t])
    |           ^^^"
    );
}

#[test]
fn a_reduction_called_like_a_function() {
    assert_eq!(
        refused_body("sum(~stock[t])"),
        "error at 5:11: there is no function `sum`; it is a reduction: `reduce sum ~x[…]`
  5 |   ~a[t] = sum(~stock[t])
    |           ^^^ it is a reduction: `reduce sum ~x[…]`"
    );
}

#[test]
fn an_unknown_reduction_suggests_the_nearest() {
    assert_eq!(
        refused_body("reduce summ ~stock[t-1s : t]"),
        "error at 5:18: there is no reduction `summ`; did you mean `sum`?
  5 |   ~a[t] = reduce summ ~stock[t-1s : t]
    |                  ^^^^ did you mean `sum`?"
    );
}

#[test]
fn a_reduction_known_under_another_name() {
    assert_eq!(
        refused_body("reduce count ~stock[t-1s : t]"),
        "error at 5:18: there is no reduction `count`; did you mean `len`?
  5 |   ~a[t] = reduce count ~stock[t-1s : t]
    |                  ^^^^^ did you mean `len`?"
    );
}

#[test]
fn an_undeclared_reducer() {
    assert_eq!(
        refused_body("reduce @sum ~stock[t-1s : t]"),
        "error at 5:19: there is no reducer `@sum`
  5 |   ~a[t] = reduce @sum ~stock[t-1s : t]
    |                   ^^^"
    );
}

#[test]
fn a_reduction_without_its_parameter() {
    assert_eq!(
        refused_body("reduce quantile ~stock[t-1s : t]"),
        "error at 5:27: expected `(`, found `~`; `quantile` needs a parameter: `quantile(0.9)`
  5 |   ~a[t] = reduce quantile ~stock[t-1s : t]
    |                           ^ `quantile` needs a parameter: `quantile(0.9)`"
    );
}

#[test]
fn an_unknown_quantile_method() {
    assert_eq!(
        refused_body("reduce quantile(0.5, lowest) ~stock[t-1s : t]"),
        "error at 5:32: expected a method, found `lowest`; one of `linear`, `lower`, `higher`, `nearest`, `midpoint`
  5 |   ~a[t] = reduce quantile(0.5, lowest) ~stock[t-1s : t]
    |                                ^^^^^^ one of `linear`, `lower`, `higher`, `nearest`, `midpoint`"
    );
}

#[test]
fn a_reduction_without_a_window() {
    assert_eq!(
        refused_body("reduce sum ~stock[t]"),
        "error at 5:30: expected `:`, found `]`; a window has two ends: `~stock[t-10s : t]`
  5 |   ~a[t] = reduce sum ~stock[t]
    |                              ^ a window has two ends: `~stock[t-10s : t]`"
    );
}

#[test]
fn a_window_outside_of_a_reduction() {
    assert_eq!(
        refused_body("~stock[t-10s : t]"),
        "error at 5:24: a window is not a value; reduce it: `reduce sum ~stock[…]`
  5 |   ~a[t] = ~stock[t-10s : t]
    |                        ^ reduce it: `reduce sum ~stock[…]`"
    );
}

#[test]
fn a_window_of_mixed_ends() {
    assert_eq!(
        refused_body("reduce sum ~stock[#-3 : t]"),
        "error at 5:35: the ends of a window must be of one kind; both count time (`t-10s : t`) or both count events (`#-3 : #`)
  5 |   ~a[t] = reduce sum ~stock[#-3 : t]
    |                                   ^ both count time (`t-10s : t`) or both count events (`#-3 : #`)"
    );
}

#[test]
fn a_window_that_ends_before_time() {
    assert_eq!(
        refused_body("reduce sum ~stock[t : -inf]"),
        "error at 5:33: only the first end of a window can be `-inf`
  5 |   ~a[t] = reduce sum ~stock[t : -inf]
    |                                 ^"
    );
}

#[test]
fn a_duration_without_a_unit() {
    assert_eq!(
        refused_body("~stock[t-10]"),
        "error at 5:19: the duration `10` has no unit; write for example `10s`; bare integers are for queries with `unit tick`
  5 |   ~a[t] = ~stock[t-10]
    |                   ^^^ write for example `10s`; bare integers are for queries with `unit tick`"
    );
}

#[test]
fn a_duration_finer_than_the_unit() {
    assert_eq!(
        refused_body("~stock[t-1ms]"),
        "error at 5:19: `-1ms` is not a whole number of s; give the query a finer unit
  5 |   ~a[t] = ~stock[t-1ms]
    |                   ^^^^"
    );
}

#[test]
fn a_duration_of_the_calendar() {
    assert_eq!(
        refused_body("~stock[t-1mo]"),
        "error at 5:19: `-1mo` has a calendar unit (mo, q, y), whose length varies; use it with calendar windows only
  5 |   ~a[t] = ~stock[t-1mo]
    |                   ^^^^"
    );
}

#[test]
fn a_duration_in_a_query_of_ticks() {
    assert_eq!(
        refused("query q unit tick { input ~x: f64 point ~y[t] = ~x[t-10s] output ~y }"),
        "error at 1:53: `-10s` is in seconds, but the query counts plain ticks; write a bare integer
  1 | query q unit tick { input ~x: f64 point ~y[t] = ~x[t-10s] output ~y }
    |                                                     ^^^^"
    );
}

#[test]
fn a_duration_as_a_value() {
    assert_eq!(
        refused_body("~stock[t] + 10s"),
        "error at 5:23: `10s` is a duration, not a number; as a value it is `dur(10, s)`
  5 |   ~a[t] = ~stock[t] + 10s
    |                       ^^^ as a value it is `dur(10, s)`"
    );
}

#[test]
fn comparisons_that_chain() {
    assert_eq!(
        refused_body("~stock[t] < 1.0 < 2.0"),
        "error at 5:27: comparisons do not chain; write `a < b && b < c`, or put parentheses around the first
  5 |   ~a[t] = ~stock[t] < 1.0 < 2.0
    |                           ^ write `a < b && b < c`, or put parentheses around the first"
    );
}

#[test]
fn equality_with_one_sign() {
    assert_eq!(
        refused_body("if ~stock[t] = 1.0 then 1.0 else 2.0"),
        "error at 5:24: `=` cannot follow an expression; equality is written `==`
  5 |   ~a[t] = if ~stock[t] = 1.0 then 1.0 else 2.0
    |                        ^ equality is written `==`"
    );
}

#[test]
fn an_unclosed_parenthesis() {
    assert_eq!(
        refused_body("(~stock[t] + 1.0"),
        "error at 6:3: expected `)`, found `output`; the `(` at 5:11 is not closed
  6 |   output ~a
    |   ^^^^^^ the `(` at 5:11 is not closed"
    );
}

#[test]
fn an_unclosed_query() {
    assert_eq!(
        refused("query q unit s { input ~x: f64 point output ~x"),
        "error at 1:47: expected `}`, found the end of the text; the `{` at 1:16 is not closed
  1 | query q unit s { input ~x: f64 point output ~x
    |                                               ^ the `{` at 1:16 is not closed"
    );
}

#[test]
fn an_unclosed_string() {
    assert_eq!(
        refused_body(r#""abc"#),
        r#"error at 5:11: this string is not closed; a string ends with `"` on the line it starts on; write a line break as `\n`
  5 |   ~a[t] = "abc
    |           ^ a string ends with `"` on the line it starts on; write a line break as `\n`"#
    );
}

#[test]
fn an_unclosed_name() {
    assert_eq!(
        refused_body("~`stock[t]"),
        "error at 5:12: this quoted name is not closed; a name in backticks ends with a backtick; one inside it is doubled
  5 |   ~a[t] = ~`stock[t]
    |            ^ a name in backticks ends with a backtick; one inside it is doubled"
    );
}

#[test]
fn an_unknown_escape() {
    assert_eq!(
        refused_body(r#""ab\qc""#),
        r#"error at 5:14: unknown escape in a string; the escapes are \" \\ \n \t \r and \u{…} with the code in hexadecimal
  5 |   ~a[t] = "ab\qc"
    |              ^^ the escapes are \" \\ \n \t \r and \u{…} with the code in hexadecimal"#
    );
}

#[test]
fn a_foreign_character() {
    assert_eq!(
        refused_body("~stock[t] + $"),
        "error at 5:23: the character `$` has no meaning here
  5 |   ~a[t] = ~stock[t] + $
    |                       ^"
    );
}

#[test]
fn a_foreign_quotation_mark() {
    assert_eq!(
        refused_body("'a'"),
        r#"error at 5:11: the character `'` has no meaning here; strings stand in `"`
  5 |   ~a[t] = 'a'
    |           ^ strings stand in `"`"#
    );
}

#[test]
fn the_sign_for_no_value() {
    assert_eq!(
        refused_body("φ"),
        "error at 5:11: the character `φ` has no meaning here; no value is written `null`
  5 |   ~a[t] = φ
    |           ^ no value is written `null`"
    );
}

#[test]
fn no_clock_for_windows_over_several_streams() {
    assert_eq!(
        refused_body("reduce mean ~n[t-1s : t] + reduce sum ~stock[t-1s : t]"),
        "error at 5:4: ~a reads only windows, over several streams, so its clock must be written; for example `~a[t every 10s]` or `~a[t at ~x]`
  5 |   ~a[t] = reduce mean ~n[t-1s : t] + reduce sum ~stock[t-1s : t]
    |    ^ for example `~a[t every 10s]` or `~a[t at ~x]`"
    );
}

#[test]
fn no_clock_where_nothing_is_read() {
    assert_eq!(
        refused_body("1.0"),
        "error at 5:4: ~a reads no stream, so its clock must be written; for example `~a[t every 10s]` or `~a[t at ~x]`
  5 |   ~a[t] = 1.0
    |    ^ for example `~a[t every 10s]` or `~a[t at ~x]`"
    );
}

#[test]
fn no_clock_where_only_itself_is_read() {
    assert_eq!(
        refused_body("~stock[t]
  ~c[t]: f64 = ~c.prev(1)"),
        "error at 6:4: ~c reads only itself, so its clock must be written; for example `~c[t every 10s]` or `~c[t at ~x]`
  6 |   ~c[t]: f64 = ~c.prev(1)
    |    ^ for example `~c[t every 10s]` or `~c[t at ~x]`"
    );
}

#[test]
fn a_null_without_a_type() {
    assert_eq!(
        refused_body("null"),
        "error at 5:11: nothing here gives this `null` a type; write for example `null(f64)`
  5 |   ~a[t] = null
    |           ^^^^ write for example `null(f64)`"
    );
}

#[test]
fn branches_that_are_all_null() {
    assert_eq!(
        refused_body("if ~stock[t] > 0.0 then null else null"),
        "error at 5:35: nothing here gives this `null` a type; write for example `null(f64)`
  5 |   ~a[t] = if ~stock[t] > 0.0 then null else null
    |                                   ^^^^ write for example `null(f64)`"
    );
}

#[test]
fn a_recurrence_without_a_type() {
    assert_eq!(
        refused_body("~a.prev(1) + ~stock[t]"),
        "error at 5:11: ~a reads itself, so its type must be written; write for example `~a[t]: f64 = …`
  5 |   ~a[t] = ~a.prev(1) + ~stock[t]
    |           ^^ write for example `~a[t]: f64 = …`"
    );
}

#[test]
fn operands_of_two_types() {
    assert_eq!(
        refused_body("~stock[t] + ~n[t]"),
        "error at 5:21: `+` needs two values of one type, not f64 and i32; cast one of them
  5 |   ~a[t] = ~stock[t] + ~n[t]
    |                     ^"
    );
}

#[test]
fn an_operand_of_a_wrong_type() {
    assert_eq!(
        refused_body("sqrt(~n[t])"),
        "error at 5:11: `sqrt` takes floats, not i32
  5 |   ~a[t] = sqrt(~n[t])
    |           ^^^^"
    );
}

#[test]
fn a_condition_that_is_no_bool() {
    assert_eq!(
        refused_body("if ~stock[t] then 1.0 else 2.0"),
        "error at 5:14: `if` takes a bool condition, not f64
  5 |   ~a[t] = if ~stock[t] then 1.0 else 2.0
    |              ^^^^^^^^^"
    );
}

#[test]
fn branches_of_two_types() {
    assert_eq!(
        refused_body(r#"if true then 1.0 else "a""#),
        r#"error at 5:33: `if` needs two values of one type, not f64 and utf8; cast one of them
  5 |   ~a[t] = if true then 1.0 else "a"
    |                                 ^^^"#
    );
}

#[test]
fn a_cast_without_a_meaning() {
    assert_eq!(
        refused_body(r#"cast("a", f64)"#),
        r#"error at 5:11: utf8 cannot be cast to f64
  5 |   ~a[t] = cast("a", f64)
    |           ^^^^"#
    );
}

#[test]
fn a_field_of_no_record() {
    assert_eq!(
        refused_body("~stock[t].price"),
        "error at 5:21: there is no field `price` in f64
  5 |   ~a[t] = ~stock[t].price
    |                     ^^^^^"
    );
}

#[test]
fn an_unknown_field_suggests_the_nearest() {
    assert_eq!(
        refused_body("{price: ~stock[t]}.prise"),
        "error at 5:30: there is no field `prise` in {price: f64}; did you mean `price`?
  5 |   ~a[t] = {price: ~stock[t]}.prise
    |                              ^^^^^ did you mean `price`?"
    );
}

#[test]
fn a_field_given_twice() {
    assert_eq!(
        refused_body("{a: 1, a: ~stock[t]}"),
        "error at 5:18: the record has two fields `a`
  5 |   ~a[t] = {a: 1, a: ~stock[t]}
    |                  ^"
    );
}

#[test]
fn a_number_too_large_for_its_suffix() {
    assert_eq!(
        refused_body("300i8 + 1i8"),
        "error at 5:11: `300` does not fit into i8
  5 |   ~a[t] = 300i8 + 1i8
    |           ^^^^^"
    );
}

#[test]
fn a_number_too_large_for_its_neighbour() {
    assert_eq!(
        refused_body("~n[t] + 3000000000"),
        "error at 5:19: `3000000000` does not fit into i32
  5 |   ~a[t] = ~n[t] + 3000000000
    |                   ^^^^^^^^^^"
    );
}

#[test]
fn a_number_too_large_alone() {
    assert_eq!(
        refused_body("9223372036854775808"),
        "error at 5:11: `9223372036854775808` does not fit into i64
  5 |   ~a[t] = 9223372036854775808
    |           ^^^^^^^^^^^^^^^^^^^"
    );
}

#[test]
fn a_float_too_large() {
    assert_eq!(
        refused_body("1e400"),
        "error at 5:11: `1e400` is too large for f64; write `inf` for infinity
  5 |   ~a[t] = 1e400
    |           ^^^^^"
    );
}

#[test]
fn an_integer_that_no_float_holds() {
    assert_eq!(
        refused_body("~stock[t] + 9007199254740993"),
        "error at 5:23: `9007199254740993` is not exact in f64; write `9007199254740993.0` for the nearest value
  5 |   ~a[t] = ~stock[t] + 9007199254740993
    |                       ^^^^^^^^^^^^^^^^"
    );
}

#[test]
fn a_fraction_with_the_suffix_of_an_integer() {
    assert_eq!(
        refused_body("1.5i32"),
        "error at 5:11: `1.5` is not an integer, so it cannot be i32
  5 |   ~a[t] = 1.5i32
    |           ^^^^^^"
    );
}

#[test]
fn an_unknown_suffix() {
    assert_eq!(
        refused_body("1x"),
        "error at 5:11: a number cannot end in `x`; suffixes are the number types, i8 to f64
  5 |   ~a[t] = 1x
    |           ^^ suffixes are the number types, i8 to f64"
    );
}

#[test]
fn an_unknown_type_suggests_another() {
    assert_eq!(
        refused_body("cast(~stock[t], float)"),
        "error at 5:27: there is no type `float`; did you mean `f64`?
  5 |   ~a[t] = cast(~stock[t], float)
    |                           ^^^^^ did you mean `f64`?"
    );
}

#[test]
fn an_if_as_an_operand() {
    assert_eq!(
        refused_body("1 + if true then 1 else 2"),
        "error at 5:15: expected an operand, found `if`; put parentheses around the `if`
  5 |   ~a[t] = 1 + if true then 1 else 2
    |               ^^ put parentheses around the `if`"
    );
}

#[test]
fn a_variable_called_like_a_keyword() {
    assert_eq!(
        refused_body("let t = 1.0 in ~stock[t]"),
        "error at 5:15: expected a variable's name, found `t`; `t` has a meaning of its own
  5 |   ~a[t] = let t = 1.0 in ~stock[t]
    |               ^ `t` has a meaning of its own"
    );
}

#[test]
fn an_unknown_variable_suggests_the_nearest() {
    assert_eq!(
        refused_body("let price = ~stock[t] in prise"),
        "error at 5:36: there is no variable `prise`; did you mean `price`?
  5 |   ~a[t] = let price = ~stock[t] in prise
    |                                    ^^^^^ did you mean `price`?"
    );
}

#[test]
fn a_hold_of_no_stream() {
    assert_eq!(
        refused_body("hold(1.0)"),
        "error at 5:16: expected a read of a stream, found `1.0`; this takes `~x[t]`, not any expression
  5 |   ~a[t] = hold(1.0)
    |                ^^^ this takes `~x[t]`, not any expression"
    );
}

#[test]
fn a_negative_count() {
    assert_eq!(
        refused_body("~stock.prev(-1)"),
        "error at 5:23: expected a number of events, found `-`
  5 |   ~a[t] = ~stock.prev(-1)
    |                       ^ expected a number of events"
    );
}

#[test]
fn a_count_too_large() {
    assert_eq!(
        refused_body("~stock.prev(4294967296)"),
        "error at 5:23: `4294967296` is not an integer of 32 bits
  5 |   ~a[t] = ~stock.prev(4294967296)
    |                       ^^^^^^^^^^"
    );
}

#[test]
fn a_stream_defined_twice() {
    assert_eq!(
        refused_body(
            "~stock[t]
  ~a[t] = 1.0"
        ),
        "error at 6:4: there are two streams ~a
  6 |   ~a[t] = 1.0
    |    ^"
    );
}

#[test]
fn an_unknown_clock() {
    assert_eq!(
        refused_body("~stock[t]
  ~c[t sometimes] = 1.0"),
        "error at 6:8: expected `]` or a clock, found `sometimes`; a clock is `on ~x[t], …`, `at ~x`, `every 10s`, `calendar 1mo` or `sessions ~x gap 30m`
  6 |   ~c[t sometimes] = 1.0
    |        ^^^^^^^^^ a clock is `on ~x[t], …`, `at ~x`, `every 10s`, `calendar 1mo` or `sessions ~x gap 30m`"
    );
}

#[test]
fn a_source_that_is_no_stream() {
    assert_eq!(
        refused_body("~stock[t]
  ~c[t on 1] = 1.0"),
        "error at 6:11: expected a source of the clock, found `1`; a source is `~x[t]`, `hold(~x[t])` or `~x[t-10s : t]`
  6 |   ~c[t on 1] = 1.0
    |           ^ a source is `~x[t]`, `hold(~x[t])` or `~x[t-10s : t]`"
    );
}

#[test]
fn a_clock_without_a_duration() {
    assert_eq!(
        refused_body(
            "~stock[t]
  ~c[t every s] = 1.0"
        ),
        "error at 6:14: expected a duration like `10s`, found `s`
  6 |   ~c[t every s] = 1.0
    |              ^ expected a duration like `10s`"
    );
}

#[test]
fn a_body_that_is_not_of_the_declared_type() {
    assert_eq!(
        refused_body(
            "~stock[t]
  ~c[t]: i64 = ~stock[t]"
        ),
        "error at 6:16: `~c` must be i64, not f64
  6 |   ~c[t]: i64 = ~stock[t]
    |                ^^^^^^^^^"
    );
}

#[test]
fn something_that_is_no_definition() {
    assert_eq!(
        refused_body("~stock[t]
  oops"),
        "error at 6:3: expected a definition or `output`, found `oops`; definitions start with `input ~`, `extern fn`, `reducer` or `~`; the query ends with `output ~x }`
  6 |   oops
    |   ^^^^ definitions start with `input ~`, `extern fn`, `reducer` or `~`; the query ends with `output ~x }`"
    );
}

#[test]
fn an_unknown_span_rule() {
    assert_eq!(
        refused_body("~stock[t]
  input ~z: f64 points"),
        "error at 6:17: expected a span rule, found `points`; one of `point`, `until_next`, `interval`, `fixed`
  6 |   input ~z: f64 points
    |                 ^^^^^^ one of `point`, `until_next`, `interval`, `fixed`"
    );
}

#[test]
fn an_option_given_twice() {
    assert_eq!(
        refused_body(
            "~stock[t]
  input ~z: f64 point key a key b"
        ),
        "error at 6:29: `key` is given twice for this input
  6 |   input ~z: f64 point key a key b
    |                             ^^^"
    );
}

#[test]
fn an_unknown_overlap_rule() {
    assert_eq!(
        refused_body(
            "~stock[t]
  input ~z: f64 point overlap all"
        ),
        "error at 6:31: expected an overlap rule, found `all`; one of `bag`, `first`, `last`
  6 |   input ~z: f64 point overlap all
    |                               ^^^ one of `bag`, `first`, `last`"
    );
}

#[test]
fn a_record_type_with_a_field_twice() {
    assert_eq!(
        refused_body(
            "~stock[t]
  input ~z: {a: f64, a: i64} point"
        ),
        "error at 6:22: the record has two fields `a`
  6 |   input ~z: {a: f64, a: i64} point
    |                      ^"
    );
}

#[test]
fn a_function_declared_twice() {
    assert_eq!(
        refused_body(
            "~stock[t]
  extern fn f() -> f64"
        ),
        "error at 6:13: there are two functions `@f`
  6 |   extern fn f() -> f64
    |             ^"
    );
}

#[test]
fn a_reducer_whose_init_is_no_state() {
    assert_eq!(
        refused_body(
            "~stock[t]
  reducer r(f64) { state {n: i64} init = {n: 0.0} acc(s, v, a, b) = s result(s) = s.n }"
        ),
        "error at 6:42: `init` must be {n: i64}, not {n: f64}
  6 |   reducer r(f64) { state {n: i64} init = {n: 0.0} acc(s, v, a, b) = s result(s) = s.n }
    |                                          ^^^^^^^^"
    );
}

#[test]
fn a_parameter_named_twice() {
    assert_eq!(
        refused_body(
            "~stock[t]
  reducer r(f64) { state {n: i64} init = {n: 0} acc(s, s, a, b) = s result(s) = s.n }"
        ),
        "error at 6:56: there are two parameters `s`
  6 |   reducer r(f64) { state {n: i64} init = {n: 0} acc(s, s, a, b) = s result(s) = s.n }
    |                                                        ^"
    );
}

#[test]
fn a_reducer_with_too_few_parameters() {
    assert_eq!(
        refused_body("~stock[t]
  reducer r(f64) { state {n: i64} init = {n: 0} acc(s, v) = s result(s) = s.n }"),
        "error at 6:57: expected `,`, found `)`; `acc` takes a state, a value, its start and its end
  6 |   reducer r(f64) { state {n: i64} init = {n: 0} acc(s, v) = s result(s) = s.n }
    |                                                         ^ `acc` takes a state, a value, its start and its end"
    );
}

#[test]
fn a_query_without_output() {
    assert_eq!(
        refused("query q unit s { input ~x: f64 point }"),
        "error at 1:38: expected a definition or `output`, found `}`; name the query's result before the `}`: `output ~x`
  1 | query q unit s { input ~x: f64 point }
    |                                      ^ name the query's result before the `}`: `output ~x`"
    );
}

#[test]
fn an_unknown_unit() {
    assert_eq!(
        refused("query q unit m { }"),
        "error at 1:14: expected a unit, found `m`; units are `tick`, `s`, `ms`, `us` and `ns`
  1 | query q unit m { }
    |              ^ units are `tick`, `s`, `ms`, `us` and `ns`"
    );
}

#[test]
fn text_after_the_query() {
    assert_eq!(
        refused("query q unit s { input ~x: f64 point output ~x } more"),
        "error at 1:50: expected nothing after the query, found `more`
  1 | query q unit s { input ~x: f64 point output ~x } more
    |                                                  ^^^^ expected nothing after the query"
    );
}

#[test]
fn text_that_stops_in_an_expression() {
    assert_eq!(
        refused("query q unit s { input ~x: f64 point ~y[t] = ~x[t] +"),
        "error at 1:53: expected an expression, found the end of the text
  1 | query q unit s { input ~x: f64 point ~y[t] = ~x[t] +
    |                                                     ^ expected an expression"
    );
}
