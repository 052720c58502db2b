//! The results of runs for each key, merged.

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use arrow_select::interleave::interleave;
use tilt_data::{Spans, Timeline};
use tilt_ir::Program;

use super::{Output, RowKeys, leaf_types};
use crate::{error::Error, plan::Plan, series::Series};

/// What one key gives.
pub(crate) struct Events {
    key: u32,
    series: Series,
    /// The rows that are events; `None` if all are.
    rows: Option<Vec<u32>>,
}

impl Events {
    /// The events of a key, if it has any; of the first key in any case, for the types.
    pub(crate) fn of(key: usize, series: Series) -> Option<Self> {
        let events = Self {
            key: key as u32,
            rows: series.presence().map(|p| p.set_indices_u32().collect()),
            series,
        };
        (key == 0 || events.len() > 0).then_some(events)
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.as_ref().map_or(self.series.axis.len(), Vec::len)
    }
}

/// All events by end, then key, then order within the key.
pub(crate) fn merge(program: &Program, plan: &Plan, parts: &[Events]) -> Result<Output, Error> {
    let stage = plan.stages.last().expect("a plan has stages");
    let mut rows: Vec<(i64, u32, u32)> = Vec::with_capacity(parts.iter().map(Events::len).sum());
    for (number, part) in parts.iter().enumerate() {
        let ends = part.series.axis.ends();
        let row = |row: u32| (ends[row as usize], number as u32, row);
        match &part.rows {
            Some(kept) => rows.extend(kept.iter().copied().map(row)),
            None => rows.extend((0..ends.len() as u32).map(row)),
        }
    }
    // Stable: keys come in order, and their events too.
    rows.sort_by_key(|(end, ..)| *end);
    let timelines: Vec<&Timeline> = parts.iter().map(|p| &p.series.axis.timeline).collect();
    let length = timelines.first().and_then(|t| match t.spans() {
        Spans::Fixed(length) => Some(*length),
        _ => None,
    });
    let length = length.filter(|d| {
        timelines
            .iter()
            .all(|t| matches!(t.spans(), Spans::Fixed(length) if length == d))
    });
    let ends = rows.iter().map(|(end, ..)| *end).collect();
    let timeline = if let Some(length) = length {
        Timeline::explicit(ends, Spans::Fixed(length))
    } else {
        let start =
            |(_, part, row): &(i64, u32, u32)| timelines[*part as usize].start(*row as usize);
        Timeline::intervals(rows.iter().map(start).collect(), ends)
    };
    let ids = rows
        .iter()
        .map(|(_, part, _)| parts[*part as usize].key)
        .collect();
    let indices: Vec<(usize, usize)> = rows
        .iter()
        .map(|(_, part, row)| (*part as usize, *row as usize))
        .collect();
    let types: Vec<DataType> = leaf_types(program.stream_dtype(stage.stream));
    let mut leaves = Vec::with_capacity(types.len());
    for (leaf, data_type) in types.iter().enumerate() {
        let arrays = parts
            .iter()
            .map(|p| p.series.leaves[leaf].to_array(data_type));
        let arrays: Vec<ArrayRef> = arrays.collect();
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        let merged = interleave(&arrays, &indices);
        leaves.push(merged.map_err(|e| Error::Internal(e.to_string()))?);
    }
    Ok(Output {
        timeline,
        keys: RowKeys::Ids(ids),
        leaves,
    })
}
