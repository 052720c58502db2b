//! Intervals of every span rule, hand-checked, and under slicing.

use arrow_buffer::ScalarBuffer;
use tilt_data::{Spans, Stamps, Timeline};
use tilt_ir::{OPEN, Span, SpanRule};

use crate::support::{Rng, events, interval_stream, stream};

fn spans(pairs: &[(i64, i64)]) -> Vec<Span> {
    pairs.iter().map(|(s, e)| Span::new(*s, *e)).collect()
}

fn all(timeline: &Timeline) -> Vec<Span> {
    (0..timeline.len()).map(|i| timeline.event(i)).collect()
}

#[test]
fn each_rule_gives_the_intervals_of_semantics_2() {
    let times = [1, 4, 4, 9];
    assert_eq!(
        events(&stream(&times, SpanRule::Point)),
        spans(&[(0, 1), (3, 4), (3, 4), (8, 9)])
    );
    assert_eq!(
        events(&stream(&times, SpanRule::Fixed(3))),
        spans(&[(-2, 1), (1, 4), (1, 4), (6, 9)])
    );
    let held = stream(&times, SpanRule::UntilNext);
    assert_eq!(events(&held), spans(&[(0, 3), (3, 3), (3, 8), (8, OPEN)]));
    assert_eq!(held.superseded(), 1);
    assert_eq!(held.positions().collect::<Vec<_>>(), [0, 2, 3]);
    assert_eq!(
        events(&interval_stream(&[(0, 4), (2, 9)])),
        spans(&[(0, 4), (2, 9)])
    );
    let contiguous = Timeline::explicit(
        ScalarBuffer::from(vec![3, 5, 10]),
        Spans::Contiguous { first_start: -1 },
    );
    assert_eq!(all(&contiguous), spans(&[(-1, 3), (3, 5), (5, 10)]));
    let regular = Timeline::regular(-10, 5, 3, Spans::UntilNext { next: 7 });
    assert_eq!(all(&regular), spans(&[(-11, -6), (-6, -1), (-1, 6)]));
}

#[test]
fn a_slice_has_the_events_of_the_whole_at_its_edges_too() {
    let mut rng = Rng(1);
    for round in 0..300 {
        let len = rng.range(0, 9) as usize;
        let mut t = -20;
        let times: Vec<i64> = (0..len)
            .map(|_| {
                t += rng.range(0, 4);
                t
            })
            .collect();
        let starts = times.iter().map(|e| e - rng.range(1, 9)).collect();
        let stamps: ScalarBuffer<i64> = times.into();
        let whole = match round % 7 {
            0 => Timeline::explicit(stamps, Spans::Fixed(3)),
            1 => Timeline::explicit(stamps, Spans::Contiguous { first_start: -30 }),
            2 => Timeline::explicit(stamps, Spans::UntilNext { next: OPEN }),
            3 => Timeline::explicit(stamps, Spans::UntilNext { next: t + 2 }),
            4 => Timeline::intervals(starts, stamps),
            5 => Timeline::regular(-7, 3, len, Spans::Fixed(2)),
            _ => Timeline::regular(-7, 3, len, Spans::UntilNext { next: OPEN }),
        };
        let offset = rng.range(0, len as i64) as usize;
        let count = rng.range(0, (len - offset) as i64) as usize;
        let slice = whole.slice(offset, count);
        assert_eq!(all(&slice), all(&whole)[offset..offset + count]);
        let inner = slice.slice(count / 2, count - count / 2);
        assert_eq!(all(&inner), all(&slice)[count / 2..]);
        assert_eq!(
            slice.ends().to_vec(),
            all(&slice).iter().map(|s| s.end).collect::<Vec<_>>()
        );
        assert_eq!(
            slice.starts().to_vec(),
            all(&slice).iter().map(|s| s.start).collect::<Vec<_>>()
        );
        assert_eq!(
            slice.superseded(),
            all(&slice).iter().filter(|s| s.end <= s.start).count()
        );
        for at in (-40..40).chain([i64::MIN, i64::MAX]) {
            let ended = all(&slice).iter().filter(|s| s.end <= at).count();
            assert_eq!(slice.ends_until(at), ended);
            let last = all(&slice).iter().rposition(|s| s.start < at);
            assert_eq!(slice.starts_before(at), last.map_or(0, |i| i + 1));
        }
    }
}

#[test]
fn the_hull_spans_all_events_and_counts_an_open_one_with_its_first_instant() {
    assert_eq!(stream(&[], SpanRule::Point).hull(), None);
    assert_eq!(
        stream(&[7], SpanRule::UntilNext).hull(),
        Some(Span::new(6, 7))
    );
    assert_eq!(
        stream(&[1, 7], SpanRule::UntilNext).hull(),
        Some(Span::new(0, 7))
    );
    assert_eq!(
        stream(&[1, 7], SpanRule::Fixed(5)).hull(),
        Some(Span::new(-4, 7))
    );
    let nested = interval_stream(&[(5, 8), (-3, 9), (6, 20)]);
    assert_eq!(nested.hull(), Some(Span::new(-3, 20)));
    let masked = nested.masked(&vec![true, false, false].into()).unwrap();
    assert_eq!(masked.hull(), Some(Span::new(5, 8)), "only events count");
    let none = nested.masked(&vec![false; 3].into()).unwrap();
    assert_eq!(none.hull(), None);
    let open = Timeline::intervals(vec![0, 3].into(), vec![2, OPEN].into());
    assert_eq!(open.hull(), Some(Span::new(0, 4)));
}

#[test]
fn closing_ends_open_events_and_leaves_others() {
    let held = stream(&[1, 7], SpanRule::UntilNext).close(9);
    assert_eq!(events(&held), spans(&[(0, 6), (6, 9)]));
    assert_eq!(events(&held.close(50)), events(&held), "known ends stay");
    let early = stream(&[1, 7], SpanRule::UntilNext).close(3);
    assert_eq!(events(&early), spans(&[(0, 6), (6, 6)]));
    assert_eq!(early.positions().collect::<Vec<_>>(), [0]);
    let open = Timeline::intervals(vec![0, 3, 4].into(), vec![2, OPEN, OPEN].into());
    assert_eq!(all(&open.close(10)), spans(&[(0, 2), (3, 10), (4, 10)]));
    let points = stream(&[1, 7], SpanRule::Point);
    assert_eq!(events(&points.close(3)), events(&points));
}

#[test]
fn regular_times_store_nothing_even_far_from_zero() {
    let now = 1_700_000_000_000_000_000;
    let times: Vec<i64> = (0..1000).map(|i| now + i * 1_000_000).collect();
    let buffer = stream(&times, SpanRule::Point);
    assert!(matches!(
        buffer.timeline().stamps(),
        Stamps::Regular { t0, period: 1_000_000, len: 1000 } if *t0 == now
    ));
    assert_eq!(buffer.event(999), Span::new(times[999] - 1, times[999]));
    assert_eq!(buffer.slice(10, 5).event(0).end, times[10]);
}
