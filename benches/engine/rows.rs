//! Results as rows, to compare the engine, the hand-written loops and the interpreter.

use tilt::{
    arrow::array::{
        Array,
        cast::AsArray,
        types::{Float32Type, Float64Type, Int32Type, Int64Type},
    },
    arrow::schema::DataType,
    data::SnapshotBuffer,
    ir::Span,
};

/// Events with their values, every column as doubles, which hold the integers here exactly.
#[derive(Default)]
pub(crate) struct Rows {
    spans: Vec<Span>,
    columns: Vec<Vec<f64>>,
    /// How far each column may be off, relative to the larger of the value and one.
    tolerances: Vec<f64>,
}

impl Rows {
    /// Events without values yet.
    pub(crate) fn new(spans: impl IntoIterator<Item = Span>) -> Self {
        let spans = spans.into_iter().collect();
        Self {
            spans,
            ..Self::default()
        }
    }

    /// Events of one length.
    pub(crate) fn ending(length: i64, ends: impl IntoIterator<Item = i64>) -> Self {
        Self::default().at_ends(length, &ends.into_iter().collect::<Vec<_>>())
    }

    /// A value at each of the samples of a period, the first of which ends after one.
    pub(crate) fn samples<V: Into<f64>>(period: i64, values: impl IntoIterator<Item = V>) -> Self {
        Self::default().column(values).at_samples(period)
    }

    /// The columns at as many samples of a period.
    pub(crate) fn at_samples(self, period: i64) -> Self {
        let ends: Vec<i64> = (1..=self.columns[0].len() as i64)
            .map(|i| i * period)
            .collect();
        self.at_ends(period, &ends)
    }

    /// The columns at events of one length.
    pub(crate) fn at_ends(self, length: i64, ends: &[i64]) -> Self {
        let spans = ends
            .iter()
            .map(|end| Span::new(end - length, *end))
            .collect();
        Self { spans, ..self }
    }

    /// As [`samples`](Self::samples), only where `bits` are set.
    pub(crate) fn valid_samples<V: Into<f64> + Copy>(
        period: i64,
        values: &[V],
        bits: &[u64],
    ) -> Self {
        let valid = |i: &usize| bits[i / 64] >> (i % 64) & 1 == 1;
        let positions: Vec<usize> = (0..values.len()).filter(valid).collect();
        let ends = positions.iter().map(|i| (*i as i64 + 1) * period);
        Self::ending(period, ends).column(positions.iter().map(|i| values[*i]))
    }

    /// Adds a column.
    pub(crate) fn column<V: Into<f64>>(mut self, values: impl IntoIterator<Item = V>) -> Self {
        self.columns
            .push(values.into_iter().map(Into::into).collect());
        self
    }

    /// Adds a column of 64-bit integers.
    pub(crate) fn integers(self, values: impl IntoIterator<Item = i64>) -> Self {
        self.column(values.into_iter().map(|v| v as f64))
    }

    /// The events of a buffer. Integers must be met exactly, floats to 1e-9, single ones to 1e-6.
    pub(crate) fn of(buffer: &SnapshotBuffer) -> Self {
        let positions: Vec<usize> = buffer.positions().collect();
        let mut rows = Self::new(positions.iter().map(|i| buffer.event(*i)));
        for column in buffer.columns() {
            let array = column.array().as_ref();
            rows = rows.column(positions.iter().map(|i| value(array, *i)));
            rows.tolerances.push(match array.data_type() {
                DataType::Float64 => 1e-9,
                DataType::Float32 => 1e-6,
                _ => 0.0,
            });
        }
        rows
    }

    /// How many events.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// The first difference between these rows, which are right, and those found.
    pub(crate) fn difference(&self, found: &Self) -> Option<String> {
        let (expected, count) = (self.spans.len(), found.spans.len());
        let row = self
            .spans
            .iter()
            .zip(&found.spans)
            .position(|(a, b)| a != b);
        if let Some(row) = row {
            let (expected, found) = (self.spans[row], found.spans[row]);
            return Some(format!("row {row} is at {found}, not {expected}"));
        }
        if (expected, self.columns.len()) != (count, found.columns.len()) {
            let (a, b) = (self.columns.len(), found.columns.len());
            return Some(format!(
                "{count} rows of {b} columns, not {expected} of {a}"
            ));
        }
        for (c, tolerance) in self.tolerances.iter().enumerate() {
            let off = |(a, b): (&f64, &f64)| {
                a != b
                    && !((a - b).abs() <= tolerance * a.abs().max(1.0) || a.is_nan() && b.is_nan())
            };
            let (right, column) = (&self.columns[c], &found.columns[c]);
            if let Some(row) = right.iter().zip(column).position(off) {
                let (expected, found) = (right[row], column[row]);
                let at = self.spans[row];
                return Some(format!("column {c} is {found} at {at}, not {expected}"));
            }
        }
        None
    }
}

/// The value at `i`, NaN where there is none.
fn value(array: &dyn Array, i: usize) -> f64 {
    if array.is_null(i) {
        return f64::NAN;
    }
    match array.data_type() {
        DataType::Float64 => array.as_primitive::<Float64Type>().value(i),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(i).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(i) as f64,
        DataType::Int32 => array.as_primitive::<Int32Type>().value(i).into(),
        other => panic!("no query here has values of type {other}"),
    }
}
