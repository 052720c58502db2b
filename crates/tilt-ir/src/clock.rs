//! The clock of a temporal expression that does not write one.

use rustc_hash::FxHashSet as HashSet;

use crate::{
    expr::{Bounds, Expr},
    ids::{ExprId, StreamId},
    program::{Clock, Program, Source},
};

/// The clock that the body of stream `this` implies, or `None` where it must be written.
///
/// 1. Element reads give `on` their sources in order of appearance, or `at ~x` if the only source is `~x[t]`.
/// 2. With windows only, all over one stream and none of them `[event]`: `at` that stream.
/// 3. Otherwise there is none.
///
/// Maps of reductions and reads of `this` itself do not count. Ids that name nothing are passed over.
pub fn default_clock(program: &Program, body: ExprId, this: Option<StreamId>) -> Option<Clock> {
    let mut sources: Vec<Source> = Vec::new();
    let mut listed: HashSet<Source> = HashSet::default();
    let mut windowed: Vec<StreamId> = Vec::new();
    let mut by_event = false;

    let mut seen = HashSet::default();
    let mut pending = vec![body];
    while let Some(id) = pending.pop() {
        if !seen.insert(id) {
            continue;
        }
        let Some(node) = program.exprs.get(id) else {
            continue;
        };
        if node.expr.stream().is_some() && node.expr.stream() == this {
            continue;
        }
        if let Expr::Reduce { window, .. } = &node.expr {
            by_event |= window.bounds == Bounds::Event;
            if !windowed.contains(&window.stream) {
                windowed.push(window.stream);
            }
            continue;
        }
        let source = Source::of_element(&node.expr);
        if let Some(source) = source
            && listed.insert(source)
        {
            sources.push(source);
        }
        // Popped first operand first: order of appearance in the text.
        let first = pending.len();
        node.expr.for_each_operand(|operand| pending.push(operand));
        pending[first..].reverse();
    }

    match (sources.as_slice(), windowed.as_slice()) {
        ([Source::Value { stream, offset: 0 }], _) => Some(Clock::At(*stream)),
        ([], [stream]) if !by_event => Some(Clock::At(*stream)),
        ([], _) => None,
        _ => Some(Clock::OnChange(sources)),
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        parse::parse,
        program::{Clock, Program},
    };

    /// The clock derived for `~y`, whose body is `body`, as text; `none` where it must be written.
    fn derived(body: &str) -> String {
        let text = format!(
            "query q unit s {{ input ~a: f64 point input ~b: f64 point
               ~y[t every 7s]: f64 = {body} output ~y }}"
        );
        let program = parse(&text).unwrap_or_else(|e| panic!("{e}"));
        clock_of(&program).map_or_else(|| "none".to_owned(), |clock| program.clock_text(&clock))
    }

    fn clock_of(program: &Program) -> Option<Clock> {
        let body = program.streams[program.output]
            .as_temporal()
            .expect("a temporal")
            .body;
        super::default_clock(program, body, Some(program.output))
    }

    #[test]
    fn reads_of_one_stream_at_t_follow_that_stream() {
        assert_eq!(derived("~a[t] + ~a[t] * 2.0"), "at ~a");
        assert_eq!(derived("~a.prev(3)"), "at ~a");
        assert_eq!(derived("cast(cast(end(~a[t]), i64), f64)"), "at ~a");
    }

    #[test]
    fn other_element_reads_are_sources_in_order_of_appearance() {
        assert_eq!(derived("~b[t] - ~a[t] - ~b[t]"), "on ~b[t], ~a[t]");
        assert_eq!(derived("~a[t-5s]"), "on ~a[t-5s]");
        assert_eq!(derived("hold(~a[t])"), "on hold(~a[t])");
        assert_eq!(
            derived("if is_null(hold(~b[t+1s], 1m)) then ~a[t] else ~a.prev(1)"),
            "on hold(~b[t+1s], 1m), ~a[t]"
        );
        assert_eq!(
            derived("let v = ~b[t] in ~a[t] + v"),
            "on ~b[t], ~a[t]",
            "a let's value stands before its body"
        );
    }

    #[test]
    fn windows_add_nothing_to_element_reads() {
        assert_eq!(derived("~a[t] - reduce mean ~b[t-10s : t]"), "at ~a");
    }

    #[test]
    fn windows_alone_follow_their_one_stream() {
        assert_eq!(
            derived("reduce sum ~a[t-10s : t] - reduce sum ~a[#-3 : #]"),
            "at ~a"
        );
        assert_eq!(
            derived("reduce sum ~a[t-1s : t] - reduce sum ~b[t-1s : t]"),
            "none"
        );
    }

    #[test]
    fn the_window_of_an_event_does_not_say_which_event() {
        assert_eq!(derived("reduce sum ~a[event]"), "none");
        assert_eq!(
            derived("reduce sum ~a[event] + reduce sum ~a[t-1s : t]"),
            "none"
        );
        assert_eq!(derived("~b[t] + reduce sum ~a[event]"), "at ~b");
    }

    #[test]
    fn maps_do_not_count() {
        assert_eq!(
            derived("reduce sum ~a[t-1s : t] map (~a[t] * ~b[t])"),
            "at ~a"
        );
    }

    #[test]
    fn reads_of_the_stream_itself_do_not_count() {
        assert_eq!(derived("~a[t] + coalesce(~y.prev(1), 0.0)"), "at ~a");
        assert_eq!(
            derived("reduce sum ~a[t-1s : t] + reduce sum ~y[t-5s : t-1s]"),
            "at ~a"
        );
        assert_eq!(derived("~y.prev(1)"), "none");
    }

    #[test]
    fn reading_nothing_gives_no_clock() {
        assert_eq!(derived("1.0"), "none");
        assert_eq!(derived("cast(cast(t, i64), f64)"), "none");
    }
}
