//! Late rows as a batch.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};
use tilt_data::arrow::buffer::NullBuffer;
use tilt_data::dtype::to_arrow;
use tilt_ir::{DType, OPEN, Unit};

use crate::row::{Row, gather};

/// As many late rows of an input are kept until they are taken; of more, the first ones are only counted.
const MOST: usize = 1 << 16;

/// What became of a late row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Dropped,
    Adjusted,
    Overlapping,
}

impl Fate {
    pub(crate) const ALL: [Self; 3] = [Self::Dropped, Self::Adjusted, Self::Overlapping];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dropped => "dropped",
            Self::Adjusted => "adjusted",
            Self::Overlapping => "overlapping",
        }
    }
}

/// A late row as it was given, what became of it, and how many ticks late it was.
#[derive(Clone, Debug)]
pub(crate) struct LateRow {
    pub(crate) row: Row,
    pub(crate) fate: Fate,
    pub(crate) by: i64,
}

/// Gives rows a chunk of their own, so that they do not keep all that came with them.
pub(crate) fn apart(late: &mut [LateRow]) -> Result<(), ArrowError> {
    if late.is_empty() {
        return Ok(());
    }
    let chunk = Arc::new(gather(late.iter().map(|late| &late.row))?);
    for (place, late) in late.iter_mut().enumerate() {
        late.row.chunk = Arc::clone(&chunk);
        late.row.place = place;
    }
    Ok(())
}

/// Late rows that nobody has taken yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct LateRows {
    rows: VecDeque<LateRow>,
    /// Rows that were moved and may still be left out, by number.
    undecided: BTreeMap<u64, LateRow>,
}

impl LateRows {
    /// All of them, those last of which it is not decided what becomes of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &LateRow> {
        self.rows.iter().chain(self.undecided.values())
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len() + self.undecided.len()
    }

    /// Adds a row that was moved and may still be left out.
    pub(crate) fn wait(&mut self, late: LateRow) {
        self.undecided.insert(late.row.seq, late);
    }

    /// It is known what becomes of a row that was moved.
    pub(crate) fn decide(&mut self, seq: u64, fate: Fate) {
        if let Some(late) = self.undecided.remove(&seq) {
            self.push(LateRow { fate, ..late });
        }
    }

    /// Of rows that were moved none is left whose fate is open: they are left out. How many.
    pub(crate) fn drop_undecided(&mut self) -> u64 {
        let undecided = std::mem::take(&mut self.undecided);
        let (count, fate) = (undecided.len() as u64, Fate::Dropped);
        for late in undecided.into_values() {
            self.push(LateRow { fate, ..late });
        }
        count
    }

    pub(crate) fn push(&mut self, late: LateRow) {
        if self.rows.len() == MOST {
            self.rows.pop_front();
        }
        self.rows.push_back(late);
    }

    /// The rows: `start` and `end` in ticks of `unit`, their values, and `late` and `late_by`. `None` if there are none.
    pub(crate) fn take(
        &mut self,
        unit: Unit,
        fields: &[FieldRef],
    ) -> Result<Option<RecordBatch>, ArrowError> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let rows = std::mem::take(&mut self.rows);
        let values = gather(rows.iter().map(|late| &late.row))?;
        let starts = Int64Array::from_iter_values(rows.iter().map(|l| l.row.event.start));
        let ends: Int64Array = rows
            .iter()
            .map(|l| Some(l.row.event.end).filter(|end| *end != OPEN))
            .collect();
        let fates = StringArray::from_iter_values(rows.iter().map(|l| l.fate.name()));
        let by = Int64Array::from_iter_values(rows.iter().map(|l| l.by));
        let mut columns: Vec<(FieldRef, ArrayRef)> =
            vec![time("start", starts, unit)?, time("end", ends, unit)?];
        columns.extend(fields.iter().cloned().zip(values));
        let text: (FieldRef, ArrayRef) = (
            Arc::new(Field::new("late", DataType::Utf8, false)),
            Arc::new(fates),
        );
        let ticks: (FieldRef, ArrayRef) = (
            Arc::new(Field::new("late_by", DataType::Int64, false)),
            Arc::new(by),
        );
        columns.extend([text, ticks]);
        let (fields, arrays): (Vec<FieldRef>, Vec<ArrayRef>) = columns.into_iter().unzip();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map(Some)
    }
}

/// A column of instants.
fn time(name: &str, ticks: Int64Array, unit: Unit) -> Result<(FieldRef, ArrayRef), ArrowError> {
    let nulls: Option<NullBuffer> = ticks.nulls().cloned();
    let dtype = match unit {
        Unit::Tick => DataType::Int64,
        unit => to_arrow(&DType::Timestamp(unit)),
    };
    let data = ticks.into_data().into_builder().data_type(dtype.clone());
    let array = tilt_data::arrow::array::make_array(data.build()?);
    let field = Field::new(name, dtype, nulls.is_some());
    Ok((Arc::new(field), array))
}
