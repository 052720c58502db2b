//! Events for the inputs of a program.

use std::sync::Arc;

use tilt::{
    interp::{Event, Inputs, Value},
    ir::{DType, Input, OPEN, Overlap, Program, SpanRule},
};

use super::Choices;

/// Random data for the inputs of a program. `base` is where time starts.
pub(crate) fn inputs(choices: &mut Choices, program: &Program, base: i64) -> Inputs {
    let mut inputs = Inputs::new();
    for (_, input) in program.inputs() {
        let events = events(choices, input, base);
        inputs.insert(input.name.clone(), events);
    }
    inputs
}

/// The same with `rows` rows each, more than choices could be made for.
pub(crate) fn long_inputs(
    choices: &mut Choices,
    program: &Program,
    base: i64,
    rows: usize,
) -> Inputs {
    let long = |(_, input): (_, &Input)| {
        let many = many_choices(choices, 6 * rows);
        let events = some_events(&mut Choices::new(&many), input, base, rows);
        (input.name.clone(), events)
    };
    program.inputs().map(long).collect()
}

fn events(choices: &mut Choices, input: &Input, base: i64) -> Vec<Event> {
    // Mostly some, rarely none.
    let count = [5, 3, 8, 11, 1, 9, 6, 0, 4, 7, 2, 10, 60][choices.below(13)];
    if count < 60 {
        return some_events(choices, input, base, count);
    }
    // Long enough for windows of several groups of eight.
    let many = many_choices(choices, 400);
    let mut many = Choices::new(&many);
    let count = 12 + many.below(49);
    some_events(&mut many, input, base, count)
}

/// As many choices as wanted, of two.
fn many_choices(choices: &mut Choices, count: usize) -> Vec<u16> {
    let mut state = (choices.below(1 << 16) as u64) << 16 | choices.below(1 << 16) as u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as u16
    };
    (0..count).map(|_| next()).collect()
}

/// What an input is without.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// Some values are φ.
    Values,
    /// Nothing.
    Nothing,
    /// Some samples of a periodic input are not there.
    Samples,
}

fn some_events(choices: &mut Choices, input: &Input, base: i64, count: usize) -> Vec<Event> {
    let missing = *choices.pick(&[
        Missing::Values,
        Missing::Nothing,
        Missing::Values,
        Missing::Samples,
    ]);
    let period = input.period.or_else(|| {
        // Equal distances that nobody declared.
        let period = *choices.pick(&[None, None, Some(5), Some(1), Some(2), Some(7)]);
        let least = match input.span {
            SpanRule::Fixed(d) if input.overlap == Overlap::Disjoint => d,
            _ => 1,
        };
        period.map(|period: i64| period.max(least))
    });
    let mut events = match period {
        Some(period) => samples(choices, input, base, count, period, missing),
        None => at_random(choices, input, base, count, missing),
    };
    if input.span == SpanRule::UntilNext {
        for i in 0..events.len() {
            events[i].end = events.get(i + 1).map_or(OPEN, |next| next.start);
        }
    }
    events
}

/// Events at equal distances, or at multiples of one.
fn samples(
    choices: &mut Choices,
    input: &Input,
    base: i64,
    count: usize,
    period: i64,
    missing: Missing,
) -> Vec<Event> {
    let length = match input.span {
        SpanRule::Point | SpanRule::UntilNext => 1,
        SpanRule::Fixed(d) => d,
        SpanRule::Interval => *choices.pick(&[1, period, (period / 2).max(1)]),
    };
    let mut end = base + choices.below(6) as i64;
    let mut events = Vec::new();
    for _ in 0..count {
        end += period;
        if missing == Missing::Samples && choices.one_in(5) {
            end += period * choices.below(4) as i64;
        }
        // A row without a value in the place of a record, whose fields may be missing otherwise.
        let is_row = missing != Missing::Values || !choices.one_in(8);
        let value = if is_row {
            value(choices, &input.dtype, missing == Missing::Values)
        } else {
            Value::Null
        };
        events.push(Event {
            start: end - length,
            end,
            value,
        });
    }
    events
}

fn at_random(
    choices: &mut Choices,
    input: &Input,
    base: i64,
    count: usize,
    missing: Missing,
) -> Vec<Event> {
    let bag = input.overlap != Overlap::Disjoint;
    let mut events: Vec<Event> = Vec::new();
    let mut last = base;
    for _ in 0..count {
        let gap = *choices.pick(&[1i64, 2, 0, 5, 1, 10, 33]);
        let length = match input.span {
            SpanRule::Point | SpanRule::UntilNext => 1,
            SpanRule::Fixed(d) => d,
            SpanRule::Interval => *choices.pick(&[1, 3, 7, 20]),
        };
        // Disjoint events follow each other; those of a bag may overlap but are ordered by end.
        let end = if bag {
            last + gap
        } else {
            last + gap + length - i64::from(gap > 0 && length == 1)
        };
        let end = if !bag && end - length < last {
            last + length
        } else {
            end
        };
        events.push(Event {
            start: end - length,
            end,
            value: value(choices, &input.dtype, missing != Missing::Nothing),
        });
        last = end;
    }
    events
}

/// A value, or φ if that is `nullable`.
fn value(choices: &mut Choices, dtype: &DType, nullable: bool) -> Value {
    if nullable && dtype.is_scalar() && choices.one_in(8) {
        return Value::Null;
    }
    match dtype {
        DType::Bool => Value::Bool(choices.below(2) == 0),
        DType::Int(width) => {
            let max = i64::MAX >> (64 - width.bits());
            Value::Int(*choices.pick(&[1, 0, 2, -3, 7, 100, -128, max]))
        }
        DType::Timestamp(_) | DType::Duration(_) => {
            Value::Int(*choices.pick(&[0, 5, -3, 86_400, 1_700_000_000]))
        }
        DType::UInt(width) => {
            let max = u64::MAX >> (64 - width.bits());
            Value::UInt(*choices.pick(&[1, 0, 2, 7, 200, max]))
        }
        DType::Float(width) => {
            let v = *choices.pick(&[
                1.0,
                2.0,
                0.1,
                -3.25,
                0.0,
                -0.0,
                3.7,
                1e3,
                1e-3,
                -0.7,
                f64::NAN,
                f64::INFINITY,
                1e300,
            ]);
            Value::Float(tilt::ir::round_to(*width, v))
        }
        DType::Utf8 => Value::Str(Arc::from(*choices.pick(&["a", "b", "", "é", "abc"]))),
        DType::Record(fields) => Value::record(
            fields
                .iter()
                .map(|f| value(choices, &f.dtype, nullable))
                .collect::<Vec<_>>(),
        ),
        DType::List(_) => Value::Null,
    }
}
