//! Deterministic data and the buffers around it. Arrays are shared between the engine and the hand-written loops.

use std::{
    collections::BTreeMap,
    ops::{Add, Div, Mul, Neg, Sub},
    sync::Arc,
};

use tilt::{
    arrow::{
        array::{
            ArrowPrimitiveType, PrimitiveArray,
            types::{Float32Type, Float64Type, Int32Type, Int64Type},
        },
        buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, ScalarBuffer},
    },
    data::{Column, SnapshotBuffer, Spans, Timeline},
    ir::Unit,
};

/// The streams a query reads, by name.
pub(crate) type Inputs = BTreeMap<String, SnapshotBuffer>;

/// A type of the columns.
pub(crate) trait Element: ArrowNativeType {
    /// Arrow's name for it.
    type Arrow: ArrowPrimitiveType<Native = Self>;
    /// The IR's name for it.
    const NAME: &'static str;
    /// How many bytes a value takes.
    const BYTES: f64 = size_of::<Self>() as f64;
}

macro_rules! elements {
    ($($native:ty, $arrow:ty, $name:literal;)*) => {$(
        impl Element for $native {
            type Arrow = $arrow;
            const NAME: &'static str = $name;
        }
    )*};
}

elements! {
    f64, Float64Type, "f64";
    f32, Float32Type, "f32";
    i64, Int64Type, "i64";
    i32, Int32Type, "i32";
}

/// A floating-point type, for what runs in both.
pub(crate) trait Real:
    Element
    + Into<f64>
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The nearest value.
    fn of(value: f64) -> Self;
}

impl Real for f64 {
    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }
}

impl Real for f32 {
    #[inline(always)]
    fn of(value: f64) -> Self {
        value as Self
    }
}

/// Marsaglia's xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    /// A sequence of its own for each seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Uniform on `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform on `0 .. bound`.
    pub(crate) fn below(&mut self, bound: i64) -> i64 {
        ((u128::from(self.next()) * bound as u128) >> 64) as i64
    }
}

/// `n` values uniform on `[-50, 50)`, the data of TiLT's own suite.
pub(crate) fn reals<T: Real>(n: usize, seed: u64) -> ScalarBuffer<T> {
    let mut random = Random::new(seed);
    let values = (0..n).map(|_| T::of(random.unit() * 100.0 - 50.0));
    values.collect::<Vec<T>>().into()
}

/// `n` integers uniform on `0 .. bound`.
pub(crate) fn integers<T: Element + TryFrom<i64>>(
    n: usize,
    bound: i64,
    seed: u64,
) -> ScalarBuffer<T> {
    let mut random = Random::new(seed);
    let mut value = || {
        T::try_from(random.below(bound))
            .ok()
            .expect("a value that fits")
    };
    (0..n).map(|_| value()).collect::<Vec<T>>().into()
}

/// The data of Hammer Slide's experiments, but on a range that is wider than its `0 .. 64`: there the minimum of a long
/// window is always 0, and a loop that reads the wrong window passes the check.
pub(crate) fn tuples(n: usize) -> ScalarBuffer<i32> {
    integers(n, 1 << 20, 1)
}

/// `n` increasing stamps with gaps uniform on `1 ..= gap`.
pub(crate) fn stamps(n: usize, gap: i64, seed: u64) -> ScalarBuffer<i64> {
    let mut random = Random::new(seed);
    let mut t = 0;
    let stamps = (0..n).map(|_| {
        t += 1 + random.below(gap);
        t
    });
    stamps.collect::<Vec<_>>().into()
}

/// `n` increasing stamps in µs at a rate that changes every second: mostly low, sometimes `peak` events a second.
pub(crate) fn spiky_stamps(n: usize, peak: usize, seed: u64) -> ScalarBuffer<i64> {
    const SECOND: i64 = 1_000_000;
    let mut random = Random::new(seed);
    let mut stamps = Vec::with_capacity(n);
    for second in 0.. {
        let rate = (peak as f64 * random.unit().powi(3)) as i64;
        let begin = second * SECOND;
        stamps.extend(
            (1..=rate)
                .map(|i| begin + i * SECOND / rate)
                .take(n - stamps.len()),
        );
        if stamps.len() == n {
            break;
        }
    }
    stamps.into()
}

/// A validity bitmap of `n` rows, one in `every` of which is missing.
pub(crate) fn gaps(n: usize, every: i64, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let mut bits = vec![0; n.div_ceil(64)];
    for i in 0..n {
        bits[i / 64] |= u64::from(random.below(every) != 0) << (i % 64);
    }
    bits
}

/// A column of values without nulls.
pub(crate) fn column<T: Element>(name: &str, values: &ScalarBuffer<T>) -> Column {
    let array = PrimitiveArray::<T::Arrow>::new(values.clone(), None);
    Column::new(name, Arc::new(array))
}

/// The timeline of `n` samples, the first of which ends after one period.
pub(crate) fn samples(n: usize, period: i64) -> Timeline {
    Timeline::regular(period, period, n, Spans::Fixed(period))
}

/// The timeline of points.
pub(crate) fn points(stamps: &ScalarBuffer<i64>) -> Timeline {
    Timeline::explicit(stamps.clone(), Spans::Fixed(1))
}

/// A stream of values on a timeline.
pub(crate) fn stream<T: Element>(
    timeline: Timeline,
    values: &ScalarBuffer<T>,
    unit: Unit,
) -> SnapshotBuffer {
    SnapshotBuffer::scalar(timeline, column("value", values), unit).expect("one length")
}

/// A stream of values where `bits` are set.
pub(crate) fn stream_with_gaps<T: Element>(
    timeline: Timeline,
    values: &ScalarBuffer<T>,
    bits: &[u64],
    unit: Unit,
) -> SnapshotBuffer {
    let valid = BooleanBuffer::new(Buffer::from_vec(bits.to_vec()), 0, values.len());
    let array = PrimitiveArray::<T::Arrow>::new(values.clone(), Some(NullBuffer::new(valid)));
    SnapshotBuffer::scalar(timeline, Column::new("value", Arc::new(array)), unit)
        .expect("one length")
}

/// A stream of records on a timeline.
pub(crate) fn records(timeline: Timeline, columns: Vec<Column>, unit: Unit) -> SnapshotBuffer {
    SnapshotBuffer::record(timeline, columns, None, unit).expect("one length")
}

/// The inputs of a query that reads one stream.
pub(crate) fn input(name: &str, stream: SnapshotBuffer) -> Inputs {
    Inputs::from([(name.to_owned(), stream)])
}
