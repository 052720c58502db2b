//! Batches, declarations and a random generator for the tests.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, DurationMillisecondArray, Float16Array, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, LargeStringArray, RecordBatch,
    StringArray, StringViewArray, TimestampMicrosecondArray, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array,
    types::{Int8Type, Int32Type, UInt16Type, UInt64Type},
};
use half::f16;
use tilt_data::{IngressOptions, SnapshotBuffer, ingest};
use tilt_ir::{DType, Input, Overlap, Span, SpanRule, Unit};

/// A small deterministic generator (`SplitMix64`).
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low + 1) as u64) as i64
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

pub(crate) fn ints(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

pub(crate) fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

/// `t` and `x` of so many rows.
pub(crate) fn stamped(times: &[i64]) -> RecordBatch {
    let x: Float64Array = (0..times.len()).map(|i| Some(i as f64)).collect();
    batch(vec![("t", ints(times)), ("x", Arc::new(x))])
}

/// `s`, `e` and `x`.
pub(crate) fn intervals(spans: &[(i64, i64)]) -> RecordBatch {
    let x: Int64Array = (0..spans.len() as i64).map(Some).collect();
    let (starts, ends): (Vec<i64>, Vec<i64>) = spans.iter().copied().unzip();
    batch(vec![
        ("s", ints(&starts)),
        ("e", ints(&ends)),
        ("x", Arc::new(x)),
    ])
}

/// A stream of plain ticks in which everything is allowed.
pub(crate) fn input(dtype: DType, span: SpanRule) -> Input {
    Input {
        name: "x".to_owned(),
        dtype,
        unit: Unit::Tick,
        span,
        period: None,
        key: None,
        overlap: Overlap::Bag,
    }
}

/// `times` as a stream of floats.
pub(crate) fn stream(times: &[i64], span: SpanRule) -> SnapshotBuffer {
    let declared = input(DType::F64, span);
    ingest(
        &stamped(times),
        &declared,
        Unit::Tick,
        &IngressOptions::stamp("t"),
    )
    .unwrap()
}

/// Intervals as a stream of integers.
pub(crate) fn interval_stream(spans: &[(i64, i64)]) -> SnapshotBuffer {
    let declared = input(DType::I64, SpanRule::Interval);
    let options = IngressOptions::interval("s", "e");
    ingest(&intervals(spans), &declared, Unit::Tick, &options).unwrap()
}

pub(crate) fn events(buffer: &SnapshotBuffer) -> Vec<Span> {
    (0..buffer.len()).map(|i| buffer.event(i)).collect()
}

/// A column of `len` values of every type a stream can have, some of them null.
pub(crate) fn column_of_every_type(len: usize, rng: &mut Rng) -> Vec<(&'static str, ArrayRef)> {
    let words = [
        "",
        "a",
        "bc",
        "a longer string that no view can hold inline",
        "ü",
    ];
    let values: Vec<Option<i64>> = (0..len)
        .map(|_| (!rng.chance(20)).then(|| rng.range(-100, 100)))
        .collect();
    let bytes = |v: i64| v.unsigned_abs();
    let text = || {
        values
            .iter()
            .map(|v| v.map(|v| words[v.unsigned_abs() as usize % 5]))
    };
    macro_rules! column {
        ($array:ty, $of:expr) => {
            Arc::new(values.iter().map(|v| v.map($of)).collect::<$array>()) as ArrayRef
        };
    }
    vec![
        ("bool", column!(BooleanArray, |v| v > 0)),
        ("i8", column!(Int8Array, |v| v as i8)),
        ("i16", column!(Int16Array, |v| v as i16)),
        ("i32", column!(Int32Array, |v| v as i32)),
        ("i64", column!(Int64Array, |v| v)),
        ("u8", column!(UInt8Array, |v| bytes(v) as u8)),
        ("u16", column!(UInt16Array, |v| bytes(v) as u16)),
        ("u32", column!(UInt32Array, |v| bytes(v) as u32)),
        ("u64", column!(UInt64Array, bytes)),
        ("f16", column!(Float16Array, |v| f16::from_f64(v as f64))),
        ("f32", column!(Float32Array, |v| v as f32)),
        (
            "f64",
            column!(Float64Array, |v| if v == 0 { f64::NAN } else { v as f64 }),
        ),
        ("us", column!(TimestampMicrosecondArray, |v| v)),
        (
            "tz",
            Arc::new(
                values
                    .iter()
                    .copied()
                    .collect::<TimestampMicrosecondArray>()
                    .with_timezone("Europe/Vienna"),
            ),
        ),
        ("ms", column!(DurationMillisecondArray, |v| v)),
        ("utf8", Arc::new(text().collect::<StringArray>())),
        ("large", Arc::new(text().collect::<LargeStringArray>())),
        ("view", Arc::new(text().collect::<StringViewArray>())),
        (
            "dict_i8",
            Arc::new(text().collect::<DictionaryArray<Int8Type>>()),
        ),
        (
            "dict_i32",
            Arc::new(text().collect::<DictionaryArray<Int32Type>>()),
        ),
        (
            "dict_u16",
            Arc::new(text().collect::<DictionaryArray<UInt16Type>>()),
        ),
        (
            "dict_u64",
            Arc::new(text().collect::<DictionaryArray<UInt64Type>>()),
        ),
    ]
}
