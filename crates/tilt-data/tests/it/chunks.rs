//! Concatenation.

use arrow_array::BooleanArray;
use tilt_data::{Layout, SnapshotBuffer, Spans, Stamps, Timeline};
use tilt_ir::{OPEN, Reach, Span, SpanRule, Unit};

use crate::support::{Rng, events, interval_stream, ints, stream};

#[test]
fn slices_put_together_are_the_whole() {
    let mut rng = Rng(6);
    for round in 0..300 {
        let len = rng.range(1, 12) as usize;
        let mut t = -5;
        let regular = rng.chance(30);
        let times: Vec<i64> = (0..len)
            .map(|_| {
                t += if regular { 2 } else { rng.range(0, 3) };
                t
            })
            .collect();
        let spans: Vec<(i64, i64)> = times.iter().map(|e| (e - rng.range(1, 4), *e)).collect();
        let whole = match round % 4 {
            0 => stream(&times, SpanRule::Point),
            1 => stream(&times, SpanRule::Fixed(2)),
            2 => stream(&times, SpanRule::UntilNext),
            _ => interval_stream(&spans),
        };
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < len {
            let count = rng.range(0, (len - at) as i64) as usize;
            pieces.push(whole.slice(at, count));
            at += count;
        }
        // What is known of pieces does not tell all of the whole.
        let bags = pieces
            .iter()
            .filter(|piece| rng.chance(80) && piece.is_bag());
        assert!(bags.count() == 0 || whole.is_bag());
        let again = SnapshotBuffer::concat(&pieces).unwrap();
        assert_eq!(again.is_bag(), whole.is_bag());
        assert_eq!(events(&again), events(&whole));
        assert_eq!(again.timeline().period(), whole.timeline().period());
        assert_eq!(
            again.to_record_batch(Layout::AsGiven).unwrap(),
            whole.to_record_batch(Layout::AsGiven).unwrap()
        );
    }
}

#[test]
fn cuts_of_a_disjoint_stream_by_ends_put_together_are_the_whole() {
    let whole = stream(&[1, 3, 4, 9, 20], SpanRule::Point);
    let parts: Vec<SnapshotBuffer> = [(i64::MIN, 3), (3, 10), (10, 15), (15, 30)]
        .map(|(a, b)| whole.cut(Span::new(a, b), Reach::NONE, Reach::NONE))
        .to_vec();
    assert_eq!(
        parts.iter().map(SnapshotBuffer::len).collect::<Vec<_>>(),
        [2, 2, 0, 1]
    );
    assert_eq!(
        events(&SnapshotBuffer::concat(&parts).unwrap()),
        events(&whole)
    );
}

#[test]
fn an_open_chunk_lasts_to_the_next_ones_first_stamp_and_a_closed_one_does_not() {
    let (a, b) = (
        stream(&[1, 5], SpanRule::UntilNext),
        stream(&[9, 9], SpanRule::UntilNext),
    );
    let whole = SnapshotBuffer::concat(&[a.clone(), b.clone()]).unwrap();
    assert_eq!(
        events(&whole),
        events(&stream(&[1, 5, 9, 9], SpanRule::UntilNext))
    );
    let closed = SnapshotBuffer::concat(&[a.close(6), b]).unwrap();
    assert_eq!(
        events(&closed),
        [
            Span::new(0, 4),
            Span::new(4, 6),
            Span::new(8, 8),
            Span::new(8, OPEN)
        ]
    );
}

#[test]
fn contiguous_chunks_stay_contiguous_only_without_a_gap() {
    let chunk = |first_start, end: i64| {
        let timeline = Timeline::explicit(vec![end].into(), Spans::Contiguous { first_start });
        let column = tilt_data::Column::new("x", ints(&[0]));
        SnapshotBuffer::scalar(timeline, column, Unit::Tick).unwrap()
    };
    let joined = SnapshotBuffer::concat(&[chunk(0, 4), chunk(4, 5)]).unwrap();
    assert!(matches!(
        joined.timeline().spans(),
        Spans::Contiguous { first_start: 0 }
    ));
    let apart = SnapshotBuffer::concat(&[chunk(0, 4), chunk(6, 9)]).unwrap();
    assert_eq!(events(&apart), [Span::new(0, 4), Span::new(6, 9)]);
}

#[test]
fn regular_chunks_that_continue_store_nothing() {
    let chunks = [
        stream(&[0, 5], SpanRule::Point),
        stream(&[10, 15], SpanRule::Point),
    ];
    let whole = SnapshotBuffer::concat(&chunks).unwrap();
    assert!(matches!(
        whole.timeline().stamps(),
        Stamps::Regular {
            t0: 0,
            period: 5,
            len: 4
        }
    ));
    let masked = chunks[0]
        .masked(&BooleanArray::from(vec![true, false]))
        .unwrap();
    let whole = SnapshotBuffer::concat(&[masked, chunks[1].clone()]).unwrap();
    assert_eq!(whole.null_rows(), 1);
}

#[test]
fn chunks_out_of_order_or_of_other_streams_are_refused() {
    let (early, late) = (
        stream(&[1, 2], SpanRule::Point),
        stream(&[3, 9], SpanRule::Point),
    );
    let text = |chunks: &[SnapshotBuffer]| SnapshotBuffer::concat(chunks).unwrap_err().to_string();
    assert_eq!(
        text(&[late.clone(), early.clone()]),
        "chunk 1 has events that end before the last end 9 of the chunks before it; give chunks in time order"
    );
    assert_eq!(
        text(&[early, interval_stream(&[(3, 9)])]),
        "bug in the caller: chunk 1 differs from the first in columns"
    );
    let held = |times: &[i64]| stream(times, SpanRule::UntilNext);
    assert!(text(&[held(&[5]), held(&[4])]).starts_with("chunk 1 has"));
    assert!(SnapshotBuffer::concat(&[held(&[5]), held(&[5])]).is_ok());
}
