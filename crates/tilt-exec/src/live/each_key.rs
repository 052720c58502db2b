//! Live runs by key in steps: a run in steps for each key, all by one plan.
//!
//! Keys do not see each other. Where the events of the output begin and end with rows of their key, and do not look ahead, only a key with new rows has new results, and
//! those cost what its rows cost. Where they are cells of a grid all keys share a clock: rows are taken when time has passed the end of a cell, and then every key goes on that has rows
//! which cells to come look back to. A key that nothing looks back to any more is forgotten.
//!
//! What they cannot settle (an integer total that may not fit, rows that the plan was not made for, more keys than have a run each) parts do by runs of their own. The runs of keys begin anew from
//! rows that are held later, once parts have cost as much as that.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use arrow_array::{
    Array, ArrayRef, DictionaryArray, StringArray, cast::AsArray, downcast_primitive_array,
    make_array, new_null_array, types::UInt32Type,
};
use arrow_buffer::{Buffer, ToByteSlice};
use arrow_data::ArrayData;
use arrow_row::{OwnedRow, RowConverter, SortField};
use arrow_schema::DataType;
use tilt_data::SnapshotBuffer;
use tilt_ir::{Program, StreamId};

use crate::{
    bytes::{Reader, Writer},
    edges,
    error::Error,
    facts::SeriesFacts,
    keyed::{Events, RowKeys, gather_leaf, merge},
    pieces::slice,
    plan::{Domain, Plan},
    query::Prepared,
    run::Trouble,
    series::Leaf,
    steps::{Arrived, Common, Reached, Steps},
    text::Dictionary,
    words::Mixing,
};

/// Rows that the columns of a key have room for at first.
pub(super) const ROOM: usize = 1 << 6;
/// How many keys can have a run of their own.
const MOST: usize = 1 << 15;
/// More rows than this, if they are more than a quarter of those that are held, may cost less in the run of a part than in those of their keys.
const MANY: usize = 1 << 6;
/// What a step of a key costs besides its rows: as much as so many rows in the run of a part.
const STEP: usize = 1 << 7;
/// What the run of a part costs besides its rows: as much as taking so many rows.
const FIXED: usize = 1 << 8;

/// What a step of a key costs besides its rows where the run of a part computes the cells of all keys in one pass: as much as so many rows in that.
const STEP_OF_CELLS: usize = 1 << 10;
/// What taking a row into the run of its key costs, where rows are taken to compute cells: as much as so many rows in the run of a part.
const TAKE: usize = 1 << 2;

/// Cells of a grid that the output consists of.
#[derive(Clone, Copy, Default)]
pub(super) struct Cells {
    /// How far back of a cell that is told others are looked at.
    back: i64,
    /// Whether the run of a part computes them in one pass over the rows of all keys.
    in_one_pass: bool,
}

impl Cells {
    /// Those of the output of a plan, in which nothing looks further back than so far.
    pub(super) fn of(plan: &Plan, back: i64) -> Self {
        let is_alone = match &plan.stages[..] {
            [stage] => matches!(stage.domain, Domain::Grid { .. }) && stage.own.is_empty(),
            _ => false,
        };
        Self {
            back: if is_alone { 0 } else { back },
            in_one_pass: plan.scatter.is_some(),
        }
    }
}

/// The runs of all keys.
pub(super) struct EachKey {
    pub(super) prepared: Arc<Prepared>,
    pub(super) common: Arc<Common>,
    /// Whether they carry what results look back to, and rows that they have are not held besides.
    pub(super) carried: bool,
    pub(super) inputs: Vec<KeyedInput>,
    pub(super) facts: BTreeMap<StreamId, SeriesFacts>,
    /// The inputs without rows.
    pub(super) like: BTreeMap<StreamId, SnapshotBuffer>,
    pub(super) start: i64,
    /// If the output consists of cells of a grid.
    pub(super) cells: Option<Cells>,
    /// Results up to here were given out.
    pub(super) told: i64,
    /// How far back results look, if that is known: then keys are forgotten.
    pub(super) lookback: Option<i64>,
    /// Output without events.
    pub(super) none: SnapshotBuffer,
    pub(super) keys: Keys,
    pub(super) runs: Vec<OfKey>,
    /// Keys with rows that have no results yet.
    pub(super) waiting: Vec<u32>,
    /// How many keys were left when some were forgotten last.
    pub(super) left: usize,
    /// How many keys of an input there were at most, and among how many rows they were counted.
    pub(super) known: usize,
    pub(super) counted: usize,
    /// What runs of parts have cost since there were many rows, in rows.
    pub(super) spent: usize,
}

/// An input, all of whose events have one length.
pub(super) struct KeyedInput {
    pub(super) id: StreamId,
    /// The column of its keys.
    pub(super) key: String,
    pub(super) length: i64,
    pub(super) is_disjoint: bool,
    /// How many of all rows were taken.
    pub(super) taken: u64,
}

/// The run of a key.
pub(super) struct OfKey {
    pub(super) steps: Steps,
    /// Where the last row of each input ends.
    pub(super) last: Vec<i64>,
    pub(super) waits: bool,
}

impl EachKey {
    /// Whether the runs of keys cost less than that of a part, for so many new rows of all that are held. Otherwise they begin anew when it pays again: that takes all rows that
    /// are held, so not before parts have cost as much.
    pub(super) fn pays(&mut self, new: usize, held: usize) -> bool {
        self.known = self.known.max(self.runs.len());
        let is_dear = match self.cells {
            None => are_many(new, held) && new + STEP * self.known.min(new) > held,
            Some(cells) => {
                let keys = if self.runs.is_empty() {
                    self.known
                } else {
                    self.waiting.len()
                };
                let (of_part, of_key) = if cells.in_one_pass {
                    (held, STEP_OF_CELLS)
                } else {
                    // Which is a run for each key as well.
                    (held + STEP * keys, STEP)
                };
                TAKE * new + of_key * keys > FIXED + of_part
            }
        };
        if is_dear {
            self.spent = 0;
            self.runs.clear();
            self.waiting.clear();
            self.keys.clear();
            self.inputs.iter_mut().for_each(|input| input.taken = 0);
            return false;
        }
        !self.runs.is_empty() || self.spent >= held
    }

    /// Whether it matters for so many new rows how many keys there are, and that is known of far fewer.
    pub(super) fn is_to_count(&self, new: usize, held: usize) -> bool {
        are_many(new, held) && self.counted < new / 2
    }

    /// Counts the keys of rows of an input.
    pub(super) fn count(&mut self, input: usize, rows: &SnapshotBuffer) {
        let mut keys = Keys::new(&self.keys.data_type);
        let column = rows.column(&self.inputs[input].key);
        if let (Some(keys), Some(column)) = (&mut keys, column)
            && keys.numbers_of(column.array()).is_some()
        {
            self.known = self.known.max(keys.len());
        }
    }

    /// A part was computed by a run on so many rows.
    pub(super) fn spend(&mut self, rows: usize) {
        self.spent += FIXED + rows;
    }

    /// Takes rows of an input, all of them events.
    pub(super) fn push(
        &mut self,
        program: &Program,
        input: usize,
        rows: &SnapshotBuffer,
    ) -> Result<(), Trouble> {
        const OTHER: Trouble = Trouble("rows that the plan was not made for");
        let KeyedInput {
            id,
            length,
            is_disjoint,
            ..
        } = self.inputs[input];
        let column = rows.column(&self.inputs[input].key).ok_or(OTHER)?;
        let numbers = self.keys.numbers_of(column.array()).ok_or(OTHER)?;
        let from = self.cells_from(rows);
        self.add_runs(from)?;
        // Rows of a key together, in order.
        let order = ordered(&numbers, self.runs.len());
        let leaves: Vec<Leaf> = self.facts[&id]
            .leaves
            .iter()
            .enumerate()
            .map(|(number, leaf)| {
                let array = rows.column(&leaf.name).map(tilt_data::Column::array);
                let array = array.filter(|_| !self.facts[&id].is_coded(number));
                // Codes that nobody reads are not given out.
                array.map_or_else(Leaf::nothing, |array| {
                    let dtype = program.stream_dtype(id).field(&leaf.name);
                    let dtype = dtype.expect("a field of the input");
                    let leaf = edges::leaf(array, dtype, &Dictionary::default());
                    gather_leaf(&order, &leaf, 1)
                })
            })
            .collect();
        let ends = rows.timeline().ends();
        let ends: Vec<i64> = order.iter().map(|row| ends[*row as usize]).collect();
        let mut first = 0;
        let is_same = |a: &u32, b: &u32| numbers[*a as usize] == numbers[*b as usize];
        for of_key in order.chunk_by(is_same) {
            let number = numbers[of_key[0] as usize];
            let ends = &ends[first..first + of_key.len()];
            // Nothing looked back to the key any more: nor at the cells that have passed since.
            let run = &self.runs[number as usize];
            if self.cells.is_some() && !run.waits && run.last.iter().any(|last| *last > i64::MIN) {
                self.runs[number as usize] = self.run(from)?;
            }
            let run = &mut self.runs[number as usize];
            let before = std::mem::replace(&mut run.last[input], ends[ends.len() - 1]);
            let follows = |a: i64, b: i64| b.saturating_sub(length) >= a;
            let are_apart =
                follows(before, ends[0]) && ends.windows(2).all(|w| follows(w[0], w[1]));
            if is_disjoint && !are_apart {
                return Err(Trouble("events of a key that overlap"));
            }
            if !run.steps.append_some(id, (ends, length), &leaves, first) {
                return Err(OTHER);
            }
            if !std::mem::replace(&mut run.waits, true) {
                self.waiting.push(number);
            }
            first += of_key.len();
        }
        Ok(())
    }

    /// A run for each key that has none yet, without cells that end up to an instant.
    fn add_runs(&mut self, cells_from: i64) -> Result<(), Trouble> {
        if self.keys.len() > MOST && !self.carried {
            return Err(Trouble("more keys than have a run each"));
        }
        while self.runs.len() < self.keys.len() {
            let run = self.run(cells_from)?;
            self.runs.push(run);
        }
        Ok(())
    }

    /// A run of a key without rows.
    fn run(&self, cells_from: i64) -> Result<OfKey, Trouble> {
        let from = (self.start, cells_from);
        let steps = Steps::new(&self.common, &self.facts, &self.like, from);
        Ok(OfKey {
            steps: steps.ok_or(Trouble("stages that do not go on"))?,
            last: vec![i64::MIN; self.inputs.len()],
            waits: false,
        })
    }

    /// Cells that end by then look at none of these rows, or were told and are not looked at by others. Without cells as the output those of the whole run are looked at.
    fn cells_from(&self, rows: &SnapshotBuffer) -> i64 {
        let Some(cells) = self.cells else {
            return self.start;
        };
        let first = rows.hull().map_or(self.told, |hull| hull.start);
        first
            .max(self.told)
            .saturating_sub(cells.back)
            .saturating_sub(1)
    }

    /// Computes what can be told when inputs and the run have come so far; results up to `told` were given out. How far it can be told, if rows told that.
    pub(super) fn step(
        &mut self,
        arrived: &[(StreamId, Arrived)],
        reached: Reached,
        told: i64,
    ) -> Result<(Vec<Events>, i64), Trouble> {
        let (mut parts, mut until) = (Vec::new(), i64::MAX);
        // Of results that end together those of the least key come first.
        let keys = &self.keys;
        (self.waiting).sort_unstable_by(|a, b| keys.row(*a).cmp(&keys.row(*b)));
        let mut still = Vec::new();
        for number in self.waiting.drain(..) {
            let run = &mut self.runs[number as usize];
            let last = run.last.iter().copied().max().unwrap_or(i64::MIN);
            // As far as its results can be: those of rows end no later, and cells no further than they are looked back from.
            let most = match (self.cells, self.lookback) {
                (None, _) => last,
                (Some(_), Some(lookback)) => last.saturating_add(lookback),
                (Some(_), None) => i64::MAX,
            };
            let is_quiet = self.cells.is_some()
                && !reached.last
                && arrived
                    .iter()
                    .all(|(_, arrived)| arrived.furthest() >= most);
            let mut series = if is_quiet {
                let within = arrived
                    .iter()
                    .map(|(id, arrived)| (*id, arrived.until(most)));
                run.steps.step(&within.collect::<Vec<_>>(), reached)?
            } else {
                run.steps.step(arrived, reached)?
            };
            let known = run.steps.until();
            run.waits = !reached.last && !is_quiet && most > known;
            if !is_quiet {
                until = until.min(known);
            }
            if run.waits {
                still.push(number);
            }
            match series.axis.timeline.ends_until(told) {
                0 => {}
                old => series = slice(&series, &(old..series.axis.len())),
            }
            parts.extend(Events::of(number as usize, series).filter(|part| part.len() > 0));
        }
        self.waiting = still;
        Ok((parts, until))
    }

    /// Results of keys as the output, in order.
    pub(super) fn assemble(
        &self,
        program: &Program,
        parts: &[Events],
    ) -> Result<SnapshotBuffer, Error> {
        let Prepared::Loops { plan, .. } = &*self.prepared else {
            return Err(Error::Internal("a plan that is interpreted".to_owned()));
        };
        if parts.is_empty() {
            return Ok(self.none.clone());
        }
        let internal = |error: &dyn std::fmt::Display| Error::Internal(error.to_string());
        let output = merge(program, plan, parts)?;
        let RowKeys::Ids(ids) = output.keys else {
            return Err(Error::Internal("keys that are no numbers".to_owned()));
        };
        let keys = self.keys.column(&ids).map_err(|error| internal(&error))?;
        let columns = std::iter::once(keys).chain(output.leaves);
        let rows = (self.none).with_rows(output.timeline, columns.collect(), None);
        rows.map_err(|error| internal(&error))
    }

    /// Rows that are kept of an input.
    pub(super) fn rows_of(&self, id: StreamId) -> usize {
        self.runs.iter().map(|run| run.steps.rows_of(id)).sum()
    }

    /// Bytes of what runs keep, and of keys, about.
    pub(super) fn bytes(&self) -> usize {
        let runs = self.runs.iter();
        let steps = runs.map(|run| size_of::<OfKey>() + run.steps.bytes());
        steps.sum::<usize>() + self.keys.bytes()
    }

    /// Forgets keys without rows that results after `until` look back to, if there may be many.
    pub(super) fn forget(&mut self, until: i64) {
        let Some(lookback) = self.lookback else {
            return;
        };
        if self.runs.len() < 2 * self.left + 1024 {
            return;
        }
        let from = until.saturating_sub(lookback);
        let keeps = |run: &OfKey| run.waits || run.last.iter().any(|last| *last > from);
        let kept: Vec<bool> = self.runs.iter().map(keeps).collect();
        let mut next = 0;
        let new: Vec<Option<u32>> = kept
            .iter()
            .map(|kept| {
                let number = kept.then_some(next);
                next += u32::from(*kept);
                number
            })
            .collect();
        let mut each = kept.iter();
        self.runs.retain(|_| *each.next().unwrap_or(&true));
        self.keys.renumber(&new);
        for number in &mut self.waiting {
            *number = new[*number as usize].unwrap_or(0);
        }
        self.left = self.runs.len();
    }
}

/// Whether these can be the bytes of a key.
fn fits(data_type: &DataType, bytes: &[u8]) -> bool {
    match data_type.primitive_width() {
        Some(width) => bytes.len() == width,
        None => std::str::from_utf8(bytes).is_ok(),
    }
}

/// A column of one key, by its bytes if it is not null.
fn one_key(data_type: &DataType, bytes: Option<&[u8]>) -> ArrayRef {
    match (bytes, data_type) {
        (None, data_type) => new_null_array(data_type, 1),
        (Some(bytes), DataType::Utf8) => {
            let text = std::str::from_utf8(bytes).unwrap_or_default();
            Arc::new(StringArray::from(vec![text]))
        }
        (Some(bytes), data_type) => {
            let value = ArrayData::builder(data_type.clone()).len(1);
            let value = value.add_buffer(Buffer::from(bytes));
            // SAFETY: as many bytes as a value of the type has; a buffer that is copied is aligned.
            make_array(unsafe { value.build_unchecked() })
        }
    }
}

/// Whether so many new rows of all that are held may cost less in the run of a part.
fn are_many(new: usize, held: usize) -> bool {
    new > MANY && 4 * new > held
}

/// Rows in the order of their keys' numbers, of which there are so many.
fn ordered(numbers: &[u32], keys: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..numbers.len() as u32).collect();
    if keys > numbers.len() {
        order.sort_by_key(|row| numbers[*row as usize]);
        return order;
    }
    let mut places = vec![0u32; keys + 1];
    for number in numbers {
        places[*number as usize + 1] += 1;
    }
    for key in 0..keys {
        places[key + 1] += places[key];
    }
    for (row, number) in (0..).zip(numbers) {
        let place = &mut places[*number as usize];
        order[*place as usize] = row;
        *place += 1;
    }
    order
}

/// Keys as numbers, in the order in which they were met.
pub(super) struct Keys {
    data_type: DataType,
    converter: RowConverter,
    numbers: HashMap<Box<[u8]>, u32, Mixing>,
    of_null: Option<u32>,
    /// Each as a row, which compares as keys do.
    rows: Vec<OwnedRow>,
}

impl Keys {
    /// No keys; `None` of a type whose equal values may be different bytes.
    pub(super) fn new(data_type: &DataType) -> Option<Self> {
        let is_plain = data_type.is_integer() || data_type.is_temporal();
        if !is_plain && *data_type != DataType::Utf8 {
            return None;
        }
        let field = SortField::new(data_type.clone());
        Some(Self {
            data_type: data_type.clone(),
            converter: RowConverter::new(vec![field]).ok()?,
            numbers: HashMap::default(),
            of_null: None,
            rows: Vec::new(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of all keys, about.
    fn bytes(&self) -> usize {
        let keys = self.numbers.keys();
        let of_key = |key: &[u8]| 2 * key.len() + size_of::<(Box<[u8]>, u32, OwnedRow)>();
        keys.map(|key| of_key(key)).sum()
    }

    /// Writes all keys.
    pub(super) fn save(&self, out: &mut Writer) {
        let mut all: Vec<&[u8]> = vec![&[]; self.len()];
        for (bytes, number) in &self.numbers {
            all[*number as usize] = bytes;
        }
        out.bytes(self.data_type.to_string().as_bytes());
        out.number(self.of_null.map_or(-1, i64::from));
        out.count(all.len());
        for bytes in all {
            out.bytes(bytes);
        }
    }

    /// Takes keys that were [written](Self::save), of the same type; there are no others.
    pub(super) fn restore(&mut self, from: &mut Reader) -> Option<()> {
        let is_same = from.bytes()? == self.data_type.to_string().as_bytes();
        let of_null = from.number()?;
        let len = from.count()?;
        for number in 0..len {
            let bytes = from.bytes()?;
            let bytes = (of_null != number as i64).then_some(bytes);
            let data_type = self.data_type.clone();
            if !is_same || bytes.is_some_and(|b| !fits(&data_type, b)) {
                return None;
            }
            let found = self.number(bytes, || one_key(&data_type, bytes))?;
            if found as usize != number {
                return None;
            }
        }
        Some(())
    }

    fn clear(&mut self) {
        self.numbers.clear();
        self.rows.clear();
        self.of_null = None;
    }

    fn row(&self, number: u32) -> arrow_row::Row<'_> {
        self.rows[number as usize].row()
    }

    /// The numbers of rows, by their keys; `None` if these have another type.
    fn numbers_of(&mut self, keys: &ArrayRef) -> Option<Vec<u32>> {
        if let Some(coded) = keys.as_dictionary_opt::<UInt32Type>() {
            return self.numbers_of_words(coded);
        }
        if *keys.data_type() != self.data_type {
            return None;
        }
        let mut numbers = Vec::with_capacity(keys.len());
        let is_valid = |row: usize| keys.is_valid(row).then_some(row);
        let one = |row: usize| keys.slice(row, 1);
        if *keys.data_type() == DataType::Utf8 {
            let texts = keys.as_string::<i32>();
            for row in 0..keys.len() {
                let bytes = is_valid(row).map(|row| texts.value(row).as_bytes());
                numbers.push(self.number(bytes, || one(row))?);
            }
            return Some(numbers);
        }
        downcast_primitive_array!(
            keys => for row in 0..keys.len() {
                let value = keys.value(row);
                let bytes = is_valid(row).map(|_| value.to_byte_slice());
                numbers.push(self.number(bytes, || one(row))?);
            },
            _ => return None
        );
        Some(numbers)
    }

    /// The same of strings of a dictionary.
    fn numbers_of_words(&mut self, keys: &DictionaryArray<UInt32Type>) -> Option<Vec<u32>> {
        let words = keys.values().as_string_opt::<i64>()?;
        if self.data_type != DataType::Utf8 {
            return None;
        }
        // A table is worth it where there are not many more words than rows.
        let mut known = vec![
            None;
            if words.len() <= 8 * keys.len() {
                words.len()
            } else {
                0
            }
        ];
        let number = |code: Option<u32>| {
            let code = code.map(|code| code as usize);
            let before = code.and_then(|code| known.get(code).copied().flatten());
            if before.is_some() {
                return before;
            }
            let word = code.map(|code| words.value(code));
            let one = || Arc::new(StringArray::from(vec![word])) as ArrayRef;
            let number = self.number(word.map(str::as_bytes), one);
            if let Some(known) = code.and_then(|code| known.get_mut(code)) {
                *known = number;
            }
            number
        };
        keys.keys().iter().map(number).collect()
    }

    /// The number of a key, by its bytes if it is not null. `one` gives a column of it alone.
    fn number(&mut self, bytes: Option<&[u8]>, one: impl FnOnce() -> ArrayRef) -> Option<u32> {
        let known = match bytes {
            None => self.of_null,
            Some(bytes) => self.numbers.get(bytes).copied(),
        };
        if known.is_some() {
            return known;
        }
        let number = self.rows.len() as u32;
        let rows = self.converter.convert_columns(&[one()]).ok()?;
        self.rows.push(rows.row(0).owned());
        match bytes {
            None => self.of_null = Some(number),
            Some(bytes) => drop(self.numbers.insert(bytes.into(), number)),
        }
        Some(number)
    }

    /// The keys of these numbers.
    fn column(&self, numbers: &[u32]) -> Result<ArrayRef, arrow_schema::ArrowError> {
        let rows = numbers.iter().map(|number| self.row(*number));
        let mut columns = self.converter.convert_rows(rows)?;
        Ok(columns.swap_remove(0))
    }

    /// Gives each key another number, or forgets it.
    fn renumber(&mut self, new: &[Option<u32>]) {
        self.of_null = self.of_null.and_then(|number| new[number as usize]);
        self.numbers
            .retain(|_, number| match new[*number as usize] {
                Some(new) => {
                    *number = new;
                    true
                }
                None => false,
            });
        let mut each = new.iter();
        self.rows
            .retain(|_| each.next().is_some_and(Option::is_some));
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int64Array};
    use tilt_data::{Column, Layout, Spans, Timeline};
    use tilt_ir::Unit;

    use super::*;
    use crate::{Live, Query, RunOptions, live::going::Going};

    const WINDOW: i64 = MOST as i64 + 4096;

    /// A row a tick from an instant on.
    fn rows(from: i64, keys: impl Iterator<Item = i64>) -> SnapshotBuffer {
        let keys = Int64Array::from_iter_values(keys);
        let ends: Vec<i64> = (from..).take(keys.len()).collect();
        let values = ends.iter().map(|t| t.rem_euclid(977) as f64 / 8.0);
        let values = Float64Array::from_iter_values(values);
        let columns = vec![
            Column::new("k", Arc::new(keys)),
            Column::new("v", Arc::new(values)),
        ];
        let timeline = Timeline::explicit(ends.into(), Spans::Fixed(1));
        SnapshotBuffer::record(timeline, columns, None, Unit::Tick).expect("as many rows")
    }

    fn has_runs(live: &Live) -> bool {
        matches!(&live.going, Going::Keys(each) if !each.runs.is_empty())
    }

    #[test]
    fn keys_have_runs_again_once_there_are_fewer() {
        let text = format!(
            "query q unit tick {{ input ~x: {{k: i64, v: f64}} point key k  ~v[t] = ~x[t].v  ~y[t] = reduce sum ~v[t-{WINDOW} : t]  output ~y }}"
        );
        let query = Query::parse(&text).expect("a query").compile();
        let query = query.expect("compiles");
        let options = RunOptions::default().threads(1);
        let mut live = query.live(&options).expect("a live run");
        let (mut at, mut told) = (1, Vec::new());
        let mut all = Vec::new();
        let mut push = |live: &mut Live, count: usize, key: &dyn Fn(i64) -> i64| {
            let keys: Vec<i64> = (at..).take(count).map(key).collect();
            live.push("x", &rows(at, keys.iter().copied()))
                .expect("in order");
            told.push(live.take().expect("runs"));
            at += count as i64;
            all.extend(keys);
        };
        // Keys that come once, then more of them than have a run each among the rows that are held, then a few again.
        for _ in 0..8 {
            push(&mut live, 1024, &|t| t);
            push(&mut live, 32, &|t| t);
        }
        assert!(has_runs(&live));
        let mut had_none = false;
        while live.held()[0].rows < WINDOW as usize {
            push(&mut live, 1024, &|t| t);
            had_none |= !has_runs(&live);
        }
        assert!(had_none);
        for _ in 0..WINDOW / 1024 + 8 {
            push(&mut live, 1024, &|t| t % 7);
            push(&mut live, 8, &|t| t % 7);
        }
        assert!(has_runs(&live));
        told.push(live.finish(None).expect("runs"));
        let inputs = BTreeMap::from([("x".to_owned(), rows(1, all.into_iter()))]);
        let expected = query.run(&inputs, &options).expect("runs");
        let batch = |rows: &SnapshotBuffer| rows.to_record_batch(Layout::Interval).expect("rows");
        let mut first = 0;
        for part in told.iter().map(batch).filter(|part| part.num_rows() > 0) {
            let of_run = batch(&expected).slice(first, part.num_rows());
            assert_eq!(part.columns(), of_run.columns());
            first += part.num_rows();
        }
        assert_eq!(first, expected.len());
    }
}
