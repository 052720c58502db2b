//! What can be wrong with data, grouped by who must act.

use arrow_schema::{ArrowError, DataType};
use tilt_ir::{DType, Span, Unit};

/// The result of this crate's functions.
pub type Result<T, E = DataError> = std::result::Result<T, E>;

/// Why data was refused. Rows count from zero, across all chunks of an input, in the order given.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    // --- The query's author -------------------------------------------------------------------------------------
    /// An interval input without a pair of time columns.
    #[error(
        "input ~{input} has intervals, but one time column `{column}` was named; name the start and the end column"
    )]
    NeedsInterval {
        /// The input.
        input: String,
        /// The column that was named.
        column: String,
    },
    /// A pair of time columns for an input whose rows have one stamp.
    #[error(
        "input ~{input} has one stamp a row, but the columns `{start}` and `{end}` were named; name one time column or declare the input as interval"
    )]
    NeedsStamp {
        /// The input.
        input: String,
        /// The start column that was named.
        start: String,
        /// The end column that was named.
        end: String,
    },
    /// `closed="left"` without intervals.
    #[error("input ~{input}: closed=\"left\" is for intervals given by two columns; leave it out")]
    ClosedLeft {
        /// The input.
        input: String,
    },
    /// A length or period that is no length of time.
    #[error("input ~{input}: its {what} of {ticks} ticks is not between 1 and 2^62")]
    BadLength {
        /// The input.
        input: String,
        /// "span" or "period".
        what: &'static str,
        /// As declared.
        ticks: i64,
    },
    /// An input without key read as a keyed one.
    #[error("input ~{input} has no key; read it with `ingest` or declare one")]
    NotKeyed {
        /// The input.
        input: String,
    },
    /// A key that the input's values do not have.
    #[error("input ~{input}: the key `{key}` is not a field of {dtype}; add it to the record")]
    KeyNotAField {
        /// The input.
        input: String,
        /// The key column.
        key: String,
        /// The type of the input's values.
        dtype: DType,
    },
    /// No way to tell which column holds the values of a scalar input.
    #[error(
        "input ~{input}: its values could be in any of the columns {}; name one",
        list(candidates)
    )]
    AmbiguousValue {
        /// The input.
        input: String,
        /// All columns but the time columns.
        candidates: Vec<String>,
    },
    /// Time columns in a unit that has no relation to the query's.
    #[error("time column `{column}` ({found}) counts {from}, which does not convert to the query's unit {to}; {}", unit_hint(*to))]
    UnitMismatch {
        /// The column.
        column: String,
        /// Its type.
        found: DataType,
        /// The unit its numbers are in.
        from: Unit,
        /// The query's unit.
        to: Unit,
    },

    // --- The data's owner: columns ------------------------------------------------------------------------------
    /// A column that is not there.
    #[error(
        "there is no column `{column}`{}; the columns are {}",
        did_you_mean(column, columns),
        list(columns)
    )]
    MissingColumn {
        /// The column looked for.
        column: String,
        /// The columns there are.
        columns: Vec<String>,
    },
    /// A name that several columns have.
    #[error("there are several columns `{column}`; rename all but one")]
    DuplicateColumn {
        /// The name.
        column: String,
    },
    /// A column of times of a type that no instant can be read from.
    #[error(
        "time column `{column}` has type {found}; accepted are Timestamp, Date32, Date64, Duration, Int64 and Int32: cast it to one of them"
    )]
    TimeType {
        /// The column.
        column: String,
        /// Its type.
        found: DataType,
    },
    /// A column whose type is not the declared one.
    #[error(
        "column `{column}` has type {found}, but {expected} is declared, which accepts {}: cast the column or change the declaration",
        crate::dtype::accepted(expected)
    )]
    ValueType {
        /// The column.
        column: String,
        /// Its type.
        found: DataType,
        /// The declared type.
        expected: DType,
    },
    /// A column whose type has no meaning here.
    #[error(
        "column `{column}` has type {found}, which no stream can have; accepted are booleans, integers, floats, strings, timestamps and durations: cast or leave out the column"
    )]
    UnsupportedType {
        /// The column.
        column: String,
        /// Its type.
        found: DataType,
    },
    /// Chunks of one input whose columns differ in type.
    #[error(
        "column `{column}` has type {found} in chunk {chunk}, but {expected} in the chunks before; cast it to one type"
    )]
    ChunkType {
        /// The column.
        column: String,
        /// The first chunk that differs.
        chunk: usize,
        /// Its type there.
        found: DataType,
        /// Its type before.
        expected: DataType,
    },

    // --- The data's owner: rows ---------------------------------------------------------------------------------
    /// A row without a time.
    #[error("time column `{column}` is null in row {row}; drop such rows or give them a time")]
    NullTime {
        /// The column.
        column: String,
        /// The first such row.
        row: usize,
    },
    /// A time that the query's unit cannot count in 64 bits.
    #[error(
        "time column `{column}`, row {row}: {value} {from} does not fit into 64 bits of {to}; give the query a coarser unit"
    )]
    TimeOverflow {
        /// The column.
        column: String,
        /// The first such row.
        row: usize,
        /// In the data's unit.
        value: i64,
        /// The data's unit.
        from: Unit,
        /// The query's unit.
        to: Unit,
    },
    /// A time between two ticks of the query's unit.
    #[error(
        "time column `{column}`, row {row}: {value} {from} is not a whole number of {to}; give the query a finer unit or round the column"
    )]
    TimeInexact {
        /// The column.
        column: String,
        /// The first such row.
        row: usize,
        /// In the data's unit.
        value: i64,
        /// The data's unit.
        from: Unit,
        /// The query's unit.
        to: Unit,
    },
    /// A time too far from zero to add windows to.
    #[error("time column `{column}`, row {row}: {} is beyond ±2^62 ticks; give the query a coarser unit or correct the row", instant(*value, *unit))]
    OutOfRange {
        /// The column.
        column: String,
        /// The first such row.
        row: usize,
        /// The time.
        value: i64,
        /// Its unit.
        unit: Unit,
    },
    /// A row earlier than the one before it.
    #[error(
        "time column `{column}` is not sorted: row {row} ({}) comes after row {previous_row} ({}); sort the data or set the option `sort`",
        instant(*value, *unit), instant(*previous, *unit)
    )]
    Unsorted {
        /// The column; of intervals the end column.
        column: String,
        /// The first row that is earlier than its predecessor.
        row: usize,
        /// Its time.
        value: i64,
        /// Its predecessor (of the same key).
        previous_row: usize,
        /// The predecessor's time.
        previous: i64,
        /// The unit of the times.
        unit: Unit,
    },
    /// An interval that holds no instant.
    #[error(
        "row {row}: its end `{end_column}` ({}) is not after its start `{start_column}` ({}); drop or correct such rows",
        instant(*end, *unit), instant(*start, *unit)
    )]
    EmptyInterval {
        /// The first such row.
        row: usize,
        /// The start column.
        start_column: String,
        /// The end column.
        end_column: String,
        /// The row's start.
        start: i64,
        /// The row's end.
        end: i64,
        /// The unit of the times.
        unit: Unit,
    },
    /// Two events at one instant of an input declared to have at most one.
    #[error(
        "input ~{input}: row {row} {span} overlaps row {previous_row} {previous} (time column `{column}`); correct the data, or declare overlap=\"bag\", \"first\" or \"last\""
    )]
    Overlapping {
        /// The input.
        input: String,
        /// The time column; of intervals the start column.
        column: String,
        /// The first row that starts before its predecessor has ended.
        row: usize,
        /// Its event.
        span: Span,
        /// Its predecessor (of the same key).
        previous_row: usize,
        /// The predecessor's event.
        previous: Span,
    },
    /// A row off the declared grid.
    #[error(
        "time column `{column}`, row {row}: {} is not a whole number of periods ({period} ticks) after the first row ({}); round the column, or do not declare a period",
        instant(*value, *unit), instant(*first, *unit)
    )]
    OffGrid {
        /// The column.
        column: String,
        /// The first such row.
        row: usize,
        /// Its time.
        value: i64,
        /// The first row's time.
        first: i64,
        /// The declared period in ticks.
        period: i64,
        /// The unit of the times.
        unit: Unit,
    },
    /// Chunks to concatenate that are not in time order.
    #[error("chunk {chunk} has events that end before the last end {} of the chunks before it; give chunks in time order", instant(*previous, *unit))]
    ChunkOrder {
        /// The first such chunk.
        chunk: usize,
        /// The latest end before it.
        previous: i64,
        /// The unit of the times.
        unit: Unit,
    },
    /// A time that the given column's type cannot hold.
    #[error("{} does not fit into the type {to} that column `{column}` came in; choose another layout", instant(*value, *unit))]
    NotAsGiven {
        /// The column.
        column: String,
        /// The time.
        value: i64,
        /// Its unit.
        unit: Unit,
        /// The type the column was given in.
        to: DataType,
    },

    // --- The environment ----------------------------------------------------------------------------------------
    /// Arrow refused, for example because a dictionary has more entries than its keys can number.
    #[error("Arrow: {0}")]
    Arrow(#[from] ArrowError),

    // --- Us -----------------------------------------------------------------------------------------------------
    /// Buffers that do not belong together.
    #[error("bug in the caller: {what} has {found} rows, its timeline {expected}")]
    Length {
        /// The column or bitmap.
        what: String,
        /// Its rows.
        found: usize,
        /// The timeline's rows.
        expected: usize,
    },
    /// Rows gathered out of order or out of bounds.
    #[error(
        "bug in the caller: row {row} gathered at position {position} is out of bounds or breaks the time order"
    )]
    GatherOrder {
        /// Where in the list.
        position: usize,
        /// The row.
        row: usize,
    },
    /// Buffers concatenated that are not of one stream.
    #[error("bug in the caller: chunk {chunk} differs from the first in {what}")]
    ChunkShape {
        /// The first such chunk.
        chunk: usize,
        /// What differs.
        what: &'static str,
    },
}

impl DataError {
    /// The same error of rows that follow `before` others: rows are counted over all batches.
    #[must_use]
    pub fn after(mut self, before: usize) -> Self {
        use DataError::*;
        match &mut self {
            NullTime { row, .. }
            | TimeOverflow { row, .. }
            | TimeInexact { row, .. }
            | OutOfRange { row, .. }
            | EmptyInterval { row, .. }
            | OffGrid { row, .. } => *row += before,
            Unsorted {
                row, previous_row, ..
            }
            | Overlapping {
                row, previous_row, ..
            } => {
                *row += before;
                *previous_row += before;
            }
            _ => {}
        }
        self
    }
}

/// `15 ns`, or `15` on a plain axis.
fn instant(ticks: i64, unit: Unit) -> String {
    match unit {
        Unit::Tick => ticks.to_string(),
        unit => format!("{ticks} {unit}"),
    }
}

fn unit_hint(to: Unit) -> &'static str {
    match to {
        Unit::Tick => "give the query a unit (s, ms, us or ns) or cast the column to Int64",
        _ => "declare the input's unit or cast the column to Timestamp",
    }
}

/// `a`, `b` and `c`.
fn list(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    match quoted.as_slice() {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

fn did_you_mean(name: &str, columns: &[String]) -> String {
    let wanted = name.to_lowercase();
    columns
        .iter()
        .map(|c| (edit_distance(&wanted, &c.to_lowercase()), c))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= name.len() / 3)
        .map_or_else(String::new, |(_, c)| format!(", did you mean `{c}`?"))
}

/// Levenshtein distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_suggested_and_a_far_one_is_not() {
        let columns = ["time".to_owned(), "Price".to_owned()];
        assert_eq!(did_you_mean("price", &columns), ", did you mean `Price`?");
        assert_eq!(did_you_mean("tme", &columns), ", did you mean `time`?");
        assert_eq!(did_you_mean("volume", &columns), "");
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }
}
