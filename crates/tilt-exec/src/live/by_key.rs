//! Parts of a keyed run that only some keys can have results in.
//!
//! Keys do not see each other. Where the events of the output begin and end with rows of their key, a part has results of the keys alone that have rows in it, so it is computed from
//! the rows of those: a push costs what its keys have in their windows, however many other keys there are.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use arrow_array::ArrayRef;
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType;
use tilt_data::SnapshotBuffer;
use tilt_ir::{CalendarCells, Clock, Program, Source, Span, Stream, StreamId};

use super::{Live, arriving::Arriving};
use crate::error::Error;

/// Where the events of the output can end.
#[derive(Debug)]
pub(super) enum Ends {
    Anywhere,
    /// Where a row of the same key begins or ends.
    WithRows,
    /// At multiples of a period from an offset.
    Cells {
        period: i64,
        offset: i64,
    },
    /// Where cells of a calendar do.
    Calendar(Box<CalendarCells>),
}

impl Ends {
    pub(super) fn of(program: &Program) -> Self {
        if is_bound(program, program.output) {
            return Self::WithRows;
        }
        let mut stream = program.output;
        loop {
            match program.streams[stream].as_temporal().map(|t| &t.clock) {
                Some(Clock::At(other)) => stream = *other,
                Some(Clock::Every { period, offset }) => {
                    let (period, offset) = (*period, *offset);
                    return Self::Cells { period, offset };
                }
                Some(Clock::Calendar(calendar)) => {
                    let cells = calendar.cells(program.unit).ok();
                    return cells.map_or(Self::Anywhere, |cells| Self::Calendar(Box::new(cells)));
                }
                _ => return Self::Anywhere,
            }
        }
    }

    /// Whether an event can end in a part.
    pub(super) fn may_be_in(&self, part: Span) -> bool {
        match self {
            Self::Anywhere | Self::WithRows => true,
            Self::Cells { period, offset } => {
                let distance = |t: i64| i128::from(t) - i128::from(*offset);
                let cells = |t: i64| distance(t).div_euclid(i128::from(*period));
                cells(part.start) < cells(part.end)
            }
            Self::Calendar(cells) => {
                let first = cells.number(part.start.saturating_add(1));
                let first = first.and_then(|number| cells.cell(number));
                first.is_none_or(|cell| cell.end <= part.end)
            }
        }
    }

    /// Whether they end with rows of their keys.
    pub(super) fn are_with_rows(&self) -> bool {
        matches!(self, Self::WithRows)
    }
}

/// Whether the events of a stream begin and end with rows of their key.
fn is_bound(program: &Program, stream: StreamId) -> bool {
    match &program.streams[stream] {
        Stream::Input(input) => input.key.is_some(),
        Stream::Temporal(temporal) => match &temporal.clock {
            Clock::At(stream) => is_bound(program, *stream),
            Clock::OnChange(sources) => sources.iter().all(|source| match *source {
                Source::Value { stream, offset: 0 } => is_bound(program, stream),
                _ => false,
            }),
            Clock::Every { .. } | Clock::Calendar(_) | Clock::Sessions { .. } => false,
        },
    }
}

/// Which rows have which key. Rows are counted from the first of all.
pub(super) struct ByKey {
    dtype: DataType,
    converter: RowConverter,
    rows: HashMap<Box<[u8]>, Vec<u64>>,
    /// The first row that is not listed.
    next: u64,
    /// How many are listed, some of which are held no longer.
    listed: usize,
}

impl ByKey {
    /// An index of rows from number `next` on; `None` of a type whose equal values may be different bytes.
    fn new(dtype: &DataType, next: u64) -> Option<Self> {
        let is_plain = dtype.is_integer() || dtype.is_temporal() || *dtype == DataType::Boolean;
        let is_text = match dtype {
            DataType::Dictionary(_, words) => words.is_string(),
            dtype => dtype.is_string(),
        };
        if !is_plain && !is_text {
            return None;
        }
        Some(Self {
            dtype: dtype.clone(),
            converter: RowConverter::new(vec![SortField::new(dtype.clone())]).ok()?,
            rows: HashMap::new(),
            next,
            listed: 0,
        })
    }

    /// Lists the rows that come next; `None` if their keys have another type.
    fn list(&mut self, keys: &ArrayRef) -> Option<()> {
        if *keys.data_type() != self.dtype {
            return None;
        }
        let columns = std::slice::from_ref(keys);
        for key in &self.converter.convert_columns(columns).ok()? {
            match self.rows.get_mut(key.as_ref()) {
                Some(rows) => rows.push(self.next),
                None => {
                    self.rows.insert(key.as_ref().into(), vec![self.next]);
                }
            }
            self.next += 1;
            self.listed += 1;
        }
        Some(())
    }

    /// Forgets rows before `first`, if they are most of all.
    fn forget(&mut self, first: u64) {
        let held = self.next.saturating_sub(first) as usize;
        if self.listed < 2 * held + 1024 {
            return;
        }
        self.rows.retain(|_, rows| {
            rows.drain(..rows.partition_point(|row| *row < first));
            !rows.is_empty()
        });
        self.listed = held;
    }

    /// The rows of a key from `first` on.
    fn of_key(&self, key: &[u8], first: u64) -> &[u64] {
        let rows = self.rows.get(key).map_or(&[][..], Vec::as_slice);
        &rows[rows.partition_point(|row| *row < first)..]
    }
}

impl Arriving {
    /// Brings the index of rows by key up to date; `None` if there can be none.
    fn index(&mut self, key: &str) -> Option<()> {
        let first = self.first_held();
        self.held.settle().ok()?;
        let rows = self.held.chunks_from(0).next()?.ok()?;
        let dtype = rows.column(key)?.array().data_type();
        // Rows may be held in another form from now on.
        if self.by_key.as_ref().is_none_or(|by| by.dtype != *dtype) {
            self.by_key = ByKey::new(dtype, first);
        }
        let by_key = self.by_key.as_mut()?;
        by_key.next = by_key.next.max(first);
        let listed = (by_key.next - first) as usize;
        for chunk in self.held.chunks_from(listed) {
            by_key.list(chunk.ok()?.column(key)?.array())?;
        }
        by_key.forget(first);
        Some(())
    }

    /// The keys, as bytes, of held rows from one on.
    fn keys_from(&mut self, key: &str, row: usize) -> Option<BTreeSet<Box<[u8]>>> {
        let by_key = self.by_key.as_mut()?;
        let mut keys = BTreeSet::new();
        for chunk in self.held.chunks_from(row) {
            let chunk = chunk.ok()?;
            let column = std::slice::from_ref(chunk.column(key)?.array());
            let rows = by_key.converter.convert_columns(column).ok()?;
            keys.extend(rows.iter().map(|key| key.as_ref().into()));
        }
        Some(keys)
    }

    /// Where in what is held the rows of some keys are, in order.
    fn rows_of(&self, keys: &BTreeSet<Box<[u8]>>) -> Vec<usize> {
        let first = self.first_held();
        let by_key = self.by_key.iter();
        let rows = by_key.flat_map(|by| keys.iter().flat_map(|key| by.of_key(key, first)));
        let mut rows: Vec<usize> = rows.map(|row| (row - first) as usize).collect();
        rows.sort_unstable();
        rows
    }
}

impl Live {
    /// The rows that results in a part depend on: those of keys that can have some. `None` if all keys can, or if that is not much less.
    pub(super) fn concerned(
        &mut self,
        part: Span,
    ) -> Result<Option<BTreeMap<String, SnapshotBuffer>>, Error> {
        if !self.ends.are_with_rows() || self.inputs.iter().any(Arriving::has_begun) {
            return Ok(None);
        }
        let program = &self.query.inner.program;
        let declared: Vec<Option<&String>> =
            program.inputs().map(|(_, i)| i.key.as_ref()).collect();
        let mut keys = BTreeSet::new();
        let mut types = BTreeSet::new();
        for (input, key) in self.inputs.iter_mut().zip(&declared) {
            let Some(key) = key else { continue };
            let fresh = input.held.rows_after(part.start);
            let all = input.held.len();
            if 4 * fresh > all || input.is_open() || input.index(key).is_none() {
                return Ok(None);
            }
            let Some(of_input) = input.keys_from(key, all - fresh) else {
                return Ok(None);
            };
            keys.extend(of_input);
            types.extend(input.by_key.as_ref().map(|by| by.dtype.to_string()));
        }
        if types.len() != 1 {
            return Ok(None);
        }
        let mut found = BTreeMap::new();
        for (input, key) in self.inputs.iter_mut().zip(&declared) {
            let rows = if key.is_none() {
                input.cut(part)?
            } else {
                let rows = input.rows_of(&keys);
                if 2 * rows.len() > input.held.len() {
                    return Ok(None);
                }
                input.gather(&rows)?
            };
            found.insert(input.name.clone(), rows);
        }
        Ok(Some(found))
    }
}
