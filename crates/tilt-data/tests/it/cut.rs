//! Cuts against the definition of a halo.

use std::{collections::BTreeSet, sync::Arc};

use arrow_array::{Array, BooleanArray, Int64Array, cast::AsArray, types::Int64Type};
use tilt_data::{Column, Counted, SnapshotBuffer, Spans, Timeline};
use tilt_ir::{OPEN, Reach, Span, SpanRule, Unit};

use crate::support::{Rng, events, interval_stream, stream};

fn ticks(ticks: i64) -> Reach {
    Reach::Bounded { ticks, events: 0 }
}

fn counted(events: u64) -> Reach {
    Reach::Bounded { ticks: 0, events }
}

fn parts(reach: Reach) -> (i64, usize) {
    match reach {
        Reach::Bounded { ticks, events } => (ticks, events as usize),
        Reach::Unbounded => (i64::MAX, 0),
    }
}

/// The distance from `from` to `to` less the largest gaps, with every end between them as a place to cut.
fn cost(ends: &[i64], from: i64, to: i64, events: usize) -> i64 {
    let (low, high) = (from.min(to), from.max(to));
    let mut stops: Vec<i64> = ends
        .iter()
        .copied()
        .filter(|e| low < *e && *e < high)
        .collect();
    stops.extend([low, high]);
    stops.sort_unstable();
    let mut gaps: Vec<i64> = stops.windows(2).map(|w| w[1] - w[0]).collect();
    gaps.sort_unstable_by_key(|g| -g);
    gaps.iter().skip(events).sum()
}

fn expected(buffer: &SnapshotBuffer, span: Span, back: Reach, ahead: Reach) -> Vec<usize> {
    let ((back, skipped), (ahead, counted)) = (parts(back), parts(ahead));
    let ends: Vec<i64> = buffer.positions().map(|i| buffer.event(i).end).collect();
    let from = if counted == 0 {
        span.end
    } else {
        ends.iter()
            .copied()
            .find(|e| *e >= span.end)
            .unwrap_or(1000)
    };
    let limit = (from..=from.saturating_add(300))
        .rev()
        .find(|p| cost(&ends, from, *p, counted) <= ahead)
        .unwrap();
    buffer
        .positions()
        .filter(|i| {
            let Span { start, end } = buffer.event(*i);
            let past = end > span.start || cost(&ends, span.start + 1, end, skipped) <= back;
            past && start < limit
        })
        .collect()
}

#[test]
fn a_cut_is_the_filter_by_its_definition() {
    let mut rng = Rng(7);
    for round in 0..3000 {
        let len = rng.range(0, 9) as usize;
        let mut t = rng.range(-30, 0);
        let times: Vec<i64> = (0..len)
            .map(|_| {
                t += if rng.chance(20) {
                    rng.range(0, 30)
                } else {
                    rng.range(1, 4)
                };
                t
            })
            .collect();
        let mut free = -100;
        let mut disjoint = Vec::new();
        for end in &times {
            if free < *end {
                disjoint.push((rng.range(free.max(end - 9), end - 1), *end));
                free = *end;
            }
        }
        let mut whole = match round % 5 {
            0 => stream(&times, SpanRule::Point),
            1 => stream(&times, SpanRule::Fixed(rng.range(1, 5))),
            2 => stream(&times, SpanRule::UntilNext),
            3 => stream(&times, SpanRule::UntilNext).close(t + 3),
            _ => interval_stream(&disjoint),
        };
        if rng.chance(50) {
            let keep: BooleanArray = (0..whole.len()).map(|_| Some(rng.chance(70))).collect();
            whole = whole.masked(&keep).unwrap();
        }
        let start = rng.range(-40, 60);
        let span = Span::new(start, start + rng.range(1, 20));
        let mut reach = || {
            let ticks = if rng.chance(30) { 0 } else { rng.range(0, 25) };
            Reach::Bounded {
                ticks,
                events: rng.range(0, 3) as u64,
            }
        };
        let (back, ahead) = (reach(), reach());
        let rows = whole.cut_rows(span, back, ahead);
        let inside: Vec<usize> = whole.positions().filter(|i| rows.contains(i)).collect();
        assert_eq!(
            inside,
            expected(&whole, span, back, ahead),
            "{span} {back:?} {ahead:?} of {:?}",
            whole
                .positions()
                .map(|i| whole.event(i).to_string())
                .collect::<Vec<_>>()
        );
        let cut = whole.cut(span, back, ahead);
        assert_eq!(events(&cut), events(&whole)[rows]);
    }
}

#[test]
fn a_cut_of_a_bag_has_all_that_matters() {
    let mut rng = Rng(8);
    for _ in 0..500 {
        let mut spans: Vec<(i64, i64)> = (0..rng.range(0, 9))
            .map(|_| {
                let end = rng.range(-20, 40);
                (end - rng.range(1, 30), end)
            })
            .collect();
        spans.sort_by_key(|s| s.1);
        let whole = interval_stream(&spans);
        let start = rng.range(-30, 50);
        let span = Span::new(start, start + rng.range(1, 20));
        let reach = Reach::Bounded {
            ticks: rng.range(0, 9),
            events: rng.range(0, 2) as u64,
        };
        let rows = whole.cut_rows(span, reach, reach);
        assert!(
            expected(&whole, span, reach, reach)
                .iter()
                .all(|i| rows.contains(i))
        );
        assert!(rows.is_empty() || whole.event(rows.end - 1).start < span.end + 100);
    }
}

#[test]
fn counting_back_reaches_the_event_that_counts() {
    let points = stream(&[0, 100, 200, 1000], SpanRule::Point);
    let ends = |span: Span, back, ahead| -> Vec<i64> {
        events(&points.cut(span, back, ahead))
            .iter()
            .map(|e| e.end)
            .collect()
    };
    let part = Span::new(150, 200);
    assert_eq!(ends(part, Reach::NONE, Reach::NONE), [200]);
    // What `prev(1)` and `hold` read at 151: the event at 100.
    assert_eq!(ends(part, counted(1), Reach::NONE), [100, 200]);
    assert_eq!(ends(part, counted(2), Reach::NONE), [0, 100, 200]);
    assert_eq!(ends(part, ticks(50), Reach::NONE), [200]);
    assert_eq!(ends(part, ticks(51), Reach::NONE), [100, 200]);
    // The largest gap is free, whichever comes first: 51 to walk, 100 to skip.
    assert_eq!(
        ends(
            part,
            Reach::Bounded {
                ticks: 51,
                events: 1
            },
            Reach::NONE
        ),
        [0, 100, 200]
    );
    assert_eq!(ends(part, Reach::NONE, counted(1)), [200, 1000]);
    assert_eq!(ends(part, Reach::Unbounded, Reach::Unbounded).len(), 4);
    let sessions = interval_stream(&[(0, 100), (100, 200), (250, 300)]);
    let ahead = sessions.cut(Span::new(0, 50), Reach::NONE, counted(1));
    assert_eq!(
        ahead.len(),
        2,
        "one event after the current one, which lasts beyond the part"
    );
}

#[test]
fn an_open_event_is_in_every_cut_after_its_start() {
    let held = stream(&[1, 5], SpanRule::UntilNext);
    let cut = held.cut(Span::new(1_000_000, 2_000_000), Reach::NONE, Reach::NONE);
    assert_eq!(events(&cut), [Span::new(4, OPEN)]);
    let first = held.cut(Span::new(0, 3), Reach::NONE, Reach::NONE);
    assert_eq!(events(&first), [Span::new(0, 4)]);
}

#[test]
fn what_keys_count_is_what_cuts_of_their_streams_keep() {
    let mut rng = Rng(9);
    for _ in 0..500 {
        let mut t = 0;
        let times: Vec<i64> = (0..rng.range(0, 40))
            .map(|_| {
                t += rng.range(0, 4);
                t
            })
            .collect();
        let keys: Int64Array = times.iter().map(|_| rng.range(0, 5)).collect();
        let rows: Int64Array = (0..times.len() as i64).collect();
        let columns = vec![
            Column::new("key", Arc::new(keys)),
            Column::new("row", Arc::new(rows)),
        ];
        let timeline = Timeline::explicit(times.into(), Spans::Fixed(1));
        let keep: BooleanArray = (0..timeline.len()).map(|_| Some(rng.chance(80))).collect();
        let whole = SnapshotBuffer::record(timeline, columns, None, Unit::Tick).unwrap();
        let whole = whole.masked(&keep).unwrap();
        let from = rng.range(-3, 80);
        let reach = Reach::Bounded {
            ticks: rng.range(0, 12),
            events: rng.range(0, 3) as u64,
        };
        let kept = whole
            .rows_back_by_key("key", from, reach, Counted::Events)
            .unwrap();
        assert!(kept.is_sorted());
        let events = |rows: &mut dyn Iterator<Item = usize>| -> BTreeSet<usize> {
            rows.filter(|row| whole.is_event(*row)).collect()
        };
        let mut expected = BTreeSet::new();
        for (_, of_key) in whole.split_by_key("key").unwrap() {
            let cut = of_key.cut(Span::new(from, i64::MAX), reach, Reach::Unbounded);
            let numbers = cut.column("row").unwrap().array();
            let numbers = numbers.as_primitive::<Int64Type>().values().iter();
            expected.extend(events(&mut numbers.map(|row| *row as usize)));
        }
        assert_eq!(events(&mut kept.into_iter()), expected, "{from} {reach:?}");
    }
    let points = stream(&[1, 2], SpanRule::Point);
    assert!(
        points
            .rows_back_by_key("key", 0, counted(1), Counted::Events)
            .is_err()
    );
}

/// Rows that have no value in some column do not count, and those among them that a column has a value in are kept as far as it may be looked back to.
#[test]
fn rows_that_are_not_complete_do_not_count() {
    let mut rng = Rng(11);
    for _ in 0..2000 {
        let mut t = 0;
        let times = (0..rng.range(0, 30)).map(|_| {
            t += rng.range(0, 4);
            t
        });
        let times: Vec<i64> = times.collect();
        let key: Int64Array = times.iter().map(|_| rng.chance(80).then_some(1)).collect();
        let mut column = || -> Int64Array {
            let values = times.iter().map(|t| rng.chance(70).then_some(*t));
            values.collect()
        };
        let (a, b) = (column(), column());
        let reach = Reach::Bounded {
            ticks: rng.range(0, 8),
            events: rng.range(1, 4) as u64,
        };
        let from = rng.range(-2, 60);
        let timeline = Timeline::explicit(times.clone().into(), Spans::Fixed(1));
        let columns = vec![
            Column::new("a", Arc::new(a.clone())),
            Column::new("b", Arc::new(b.clone())),
        ];
        let both = SnapshotBuffer::record(timeline.clone(), columns, None, Unit::Tick).unwrap();
        let first = both.row_back(from, reach, Counted::CompleteRows);
        // What is kept holds what the events of each column look back to.
        for values in [&a, &b] {
            let value = Column::new("v", Arc::new(values.clone()));
            let alone = SnapshotBuffer::scalar(timeline.clone(), value, Unit::Tick).unwrap();
            let needed = alone.row_back(from, reach, Counted::Events);
            let events = (needed..alone.len()).find(|row| alone.is_event(*row));
            assert!(first <= events.unwrap_or(usize::MAX), "{from} {reach:?}");
        }
        // Nor more than the complete rows alone look back to, but for others next to them.
        let complete = |row: &usize| a.is_valid(*row) && b.is_valid(*row);
        let counted_before = (0..first).rev().filter(complete).count();
        let alone: Int64Array = (0..times.len())
            .map(|row| complete(&row).then_some(0))
            .collect();
        let alone = Column::new("v", Arc::new(alone));
        let alone = SnapshotBuffer::scalar(timeline.clone(), alone, Unit::Tick).unwrap();
        let needed = alone.row_back(from, reach, Counted::Events);
        let dropped = (0..needed).filter(complete).count();
        assert_eq!(counted_before, dropped, "{from} {reach:?}");

        // The same of one key, whose own values do not count.
        let columns = vec![
            Column::new("k", Arc::new(key.clone())),
            Column::new("a", Arc::new(a.clone())),
        ];
        let keyed = SnapshotBuffer::record(timeline.clone(), columns, None, Unit::Tick).unwrap();
        let kept = keyed.rows_back_by_key("k", from, reach, Counted::CompleteRows);
        let kept: BTreeSet<usize> = kept.unwrap().into_iter().collect();
        for of_key in [Some(1), None] {
            let rows: Vec<usize> = (0..times.len())
                .filter(|row| key.is_valid(*row) == of_key.is_some())
                .collect();
            let part = keyed.gather(&rows).unwrap();
            let part_a = part.column("a").unwrap().array().clone();
            let value = Column::new("v", part_a);
            let alone = SnapshotBuffer::scalar(part.timeline().clone(), value, Unit::Tick).unwrap();
            let needed = alone.row_back(from, reach, Counted::Events);
            let events = (needed..alone.len()).filter(|row| alone.is_event(*row));
            assert!(events.map(|row| rows[row]).all(|row| kept.contains(&row)));
        }
    }
}
