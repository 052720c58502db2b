//! Sessions as bytes.
//!
//! ```text
//! "TILTLIVE"  version: u32  fingerprint of the query: u64  length: u64  body  checksum: u64
//! ```
//!
//! The body has, in an order that the version fixes, a text of the options that matter, the instants and counts of the run and of each input, what the run carries, and tables as Arrow IPC streams:
//! rows that are held, that wait, that were late, and results that may still be revised. All numbers are little-endian.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    hash::Hash,
    sync::Arc,
};

use arrow_array::{
    Array, ArrayRef, BinaryArray, Int64Array, RecordBatch, UInt64Array,
    cast::AsArray,
    types::{Int64Type, UInt64Type},
};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};
use tilt_data::{SnapshotBuffer, TimeColumn, TimeColumns};
use tilt_exec::{Compiled, Error, InputState, LiveError, LiveState};
use tilt_ir::{OPEN, Span};

use crate::{
    bytes::{Reader, Writer, checksum, corrupt, split, unreadable},
    changes::Given,
    edges::{Begun, Edges, as_bytes},
    error::SessionError,
    late::{Fate, LateRow},
    options::SessionOptions,
    port::Port,
    row::{Row, gather},
    session::Session,
    status::Counts,
};

const MAGIC: &[u8; 8] = b"TILTLIVE";
const VERSION: u32 = 4;
/// The version that had no carried state.
const ROWS_ONLY: u32 = 3;

impl Session {
    /// The session as bytes, from which [`restore`](Self::restore) goes on with the same future: on another machine, with other threads, in a newer version.
    ///
    /// They are about as many as the rows that are held have: what results to come look back to, and what waits for the watermark. What is looked back to without a bound is carried, and has
    /// the size of a few rows.
    ///
    /// # Errors
    /// [`SessionError::Closed`], and when Arrow refuses.
    pub fn checkpoint(&mut self) -> Result<Vec<u8>, SessionError> {
        if self.is_closed {
            return Err(SessionError::Closed);
        }
        let state = self.live.save()?;
        self.ports.iter_mut().try_for_each(Port::hold_back)?;
        let mut body = Writer::default();
        body.text(&self.digest());
        body.number(self.clock);
        body.number(state.until);
        body.maybe(state.start);
        body.number(state.lasts);
        body.flag(state.carried.is_some());
        if let Some(carried) = &state.carried {
            body.section(carried);
        }
        for port in &self.ports {
            let of_port = &state.inputs[&port.input.name];
            write_port(&mut body, port, of_port)?;
        }
        body.flag(self.view.is_some());
        if let Some(view) = &self.view {
            let events = view.events.iter().copied();
            body.table(&with_events(
                events,
                view.rows.schema_ref().fields(),
                view.rows.columns(),
            )?)?;
        }
        let mut all = Writer::default();
        all.bytes.extend(MAGIC);
        all.bytes.extend(VERSION.to_le_bytes());
        all.count(self.compiled.fingerprint());
        all.count(body.bytes.len() as u64);
        all.bytes.extend(body.bytes);
        all.count(checksum(&all.bytes));
        Ok(all.bytes)
    }

    /// Goes on with a session from a [`checkpoint`](Self::checkpoint) of it.
    ///
    /// # Errors
    /// [`SessionError::Corrupt`] if the bytes are not what was written, [`SessionError::Version`] and [`SessionError::Other`] if they were written by another program or for
    /// another query, and errors as [`new`](Self::new).
    pub fn restore(
        compiled: &Compiled,
        bytes: &[u8],
        options: SessionOptions,
    ) -> Result<Self, SessionError> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            return Err(corrupt("it does not begin as one"));
        };
        let Some((sealed, sum)) = bytes.split_last_chunk::<8>() else {
            return Err(corrupt("it ends too early"));
        };
        let mut head = Reader::new(rest);
        let found = head.version()?;
        let (fingerprint, len) = (head.count()?, head.count()?);
        let start = MAGIC.len() + 4 + 8 + 8;
        let body = sealed.get(start..).unwrap_or_default();
        if u64::from_le_bytes(*sum) != checksum(sealed) || body.len() as u64 != len {
            return Err(corrupt("its checksum is wrong"));
        }
        if found != VERSION && found != ROWS_ONLY {
            let known = VERSION;
            return Err(SessionError::Version { found, known });
        }
        let other = |what: String| SessionError::Other { what };
        if fingerprint != compiled.fingerprint() {
            return Err(other("its query is another one".to_owned()));
        }
        let mut body = Reader::new(body);
        let mut session = Self::new(compiled, options)?;
        let (digest, given) = (body.text()?, session.digest());
        if digest != given {
            return Err(other(format!("its options are {digest}, not {given}")));
        }
        session.clock = body.number()?;
        let mut state = session.live.save()?;
        state.until = body.number()?;
        state.start = body.maybe()?;
        state.lasts = body.number()?;
        if found != ROWS_ONLY && body.flag()? {
            state.carried = Some(body.section()?.to_vec());
        }
        for port in &mut session.ports {
            read_port(&mut body, port, &mut state)?;
        }
        if body.flag()? {
            let rows = body.table()?;
            let (events, _) = events_of(&rows)?;
            let columns: Vec<usize> = (2..rows.num_columns()).collect();
            let rows = rows.project(&columns).map_err(|e| unreadable(&e))?;
            session.view = Some(Given { events, rows });
        }
        if !body.is_at_end() {
            return Err(corrupt("it goes on after its end"));
        }
        let live = compiled.resume(state, &session.options.run);
        session.live = live.map_err(|error| match error {
            Error::Live(error @ LiveError::Carried) => other(error.to_string()),
            error => error.into(),
        })?;
        Ok(session)
    }

    /// The options that the future depends on.
    fn digest(&self) -> String {
        let inputs = self.ports.iter().map(|port| {
            let options = &port.options;
            format!(
                "~{} lateness {} {:?} edges {} idle {:?}",
                port.input.name,
                options.lateness,
                options.policy,
                options.edges,
                options.idle_after
            )
        });
        let inputs: Vec<String> = inputs.collect();
        format!("{:?}, {}", self.options.mode, inputs.join(", "))
    }
}

fn field(name: &str, dtype: DataType) -> FieldRef {
    Arc::new(Field::new(name, dtype, true))
}

/// A table of intervals and values.
fn with_events<'a>(
    events: impl Iterator<Item = Span> + Clone,
    fields: impl IntoIterator<Item = &'a FieldRef>,
    values: &[ArrayRef],
) -> Result<RecordBatch, ArrowError> {
    let starts = Int64Array::from_iter_values(events.clone().map(|event| event.start));
    let ends = Int64Array::from_iter_values(events.map(|event| event.end));
    let mut columns: Vec<ArrayRef> = vec![Arc::new(starts), Arc::new(ends)];
    columns.extend(values.iter().cloned());
    let times = ["start", "end"].map(|name| field(name, DataType::Int64));
    let fields: Vec<FieldRef> = times
        .into_iter()
        .chain(fields.into_iter().cloned())
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn events_of(rows: &RecordBatch) -> Result<(Vec<Span>, Vec<ArrayRef>), SessionError> {
    let ([starts, ends], values) = split::<2>(rows)?;
    let (starts, ends) = (numbers(starts)?, numbers(ends)?);
    let pairs = starts.values().iter().zip(ends.values());
    Ok((pairs.map(|(s, e)| Span::new(*s, *e)).collect(), values))
}

fn numbers(array: &ArrayRef) -> Result<&Int64Array, SessionError> {
    let numbers = array.as_primitive_opt::<Int64Type>();
    numbers.ok_or_else(|| corrupt("a column is not of numbers"))
}

fn buffer(fields: &[FieldRef], rows: &SnapshotBuffer) -> Result<RecordBatch, ArrowError> {
    // A run may hold strings in another form than they came in.
    let columns = rows.columns().iter().zip(fields);
    let values: Vec<ArrayRef> = columns
        .map(|(column, field)| cast(column.array(), field.data_type()))
        .collect::<Result<_, _>>()?;
    with_events((0..rows.len()).map(|row| rows.event(row)), fields, &values)
}

/// An instant for each key.
fn write_instants<K: AsRef<[u8]> + Ord>(body: &mut Writer, instants: &HashMap<K, i64>) {
    let mut instants: Vec<_> = instants.iter().collect();
    instants.sort();
    body.count(instants.len() as u64);
    for (key, instant) in instants {
        body.section(key.as_ref());
        body.number(*instant);
    }
}

fn read_instants<K: for<'a> From<&'a [u8]> + Eq + Hash>(
    body: &mut Reader,
) -> Result<HashMap<K, i64>, SessionError> {
    let keys = body.count()?;
    (0..keys)
        .map(|_| Ok((body.section()?.into(), body.number()?)))
        .collect()
}

fn write_port(body: &mut Writer, port: &Port, state: &InputState) -> Result<(), SessionError> {
    body.number(port.high);
    body.number(port.promised);
    body.flag(port.is_idle);
    body.number(port.touched);
    body.count(port.seq);
    body.maybe(port.grids.first);
    write_instants(body, &port.grids.of_keys);
    let counts = port.counts;
    for count in [
        counts.accepted,
        counts.dropped,
        counts.adjusted,
        counts.revised,
        counts.overlapping,
        port.row_bytes as u64,
        state.count,
    ] {
        body.count(count);
    }
    body.number(port.queue.last_end);
    write_instants(body, &port.queue.key_ends);
    body.number(state.covered);
    body.number(state.promised);
    for span in [state.hull, state.last] {
        body.maybe(span.map(|span| span.start));
        body.maybe(span.map(|span| span.end));
    }
    body.maybe(state.open_start);
    body.flag(state.is_exhausted);
    body.count(state.tail.len() as u64);
    state.tail.iter().for_each(|end| body.number(*end));

    let (Some(fields), Some(time)) = (&port.fields, &port.time) else {
        body.flag(false);
        return Ok(());
    };
    body.flag(true);
    let is_interval = matches!(time, TimeColumns::Interval { .. });
    body.flag(is_interval);
    let times = [time.start(), time.end()].map(|time| field(time.name(), time.data_type().clone()));
    let times = Schema::new(times[..=usize::from(is_interval)].to_vec());
    body.table(&RecordBatch::new_empty(Arc::new(times)))?;
    body.table(&buffer(fields, &state.rows)?)?;
    body.table(&buffer(fields, &state.begun)?)?;
    let given = port.edges.given_starts();
    let mut pending: Vec<&Row> = port.queue.pending.iter().map(|Reverse(row)| row).collect();
    pending.sort();
    body.table(&waiting(fields, &pending, &given)?)?;
    let begun: Vec<&Row> = port.queue.begun.values().collect();
    body.table(&waiting(fields, &begun, &given)?)?;
    let late: Vec<&Row> = port.late.all().map(|late| &late.row).collect();
    body.table(&waiting(fields, &late, &HashMap::new())?)?;
    for late in port.late.all() {
        body.text(late.fate.name());
        body.number(late.by);
    }
    Ok(())
}

/// Rows that wait, as a table. `given` has the starts that rows had which tell the start of an event only.
fn waiting(
    fields: &[FieldRef],
    rows: &[&Row],
    given: &HashMap<u64, i64>,
) -> Result<RecordBatch, ArrowError> {
    let values = if rows.is_empty() {
        let empty = fields
            .iter()
            .map(|f| arrow_array::new_empty_array(f.data_type()));
        empty.collect()
    } else {
        gather(rows.iter().copied())?
    };
    let at = Int64Array::from_iter_values(rows.iter().map(|row| row.at));
    let seq = UInt64Array::from_iter_values(rows.iter().map(|row| row.seq));
    let closes: UInt64Array = rows.iter().map(|row| row.closes).collect();
    let given: Int64Array = rows
        .iter()
        .map(|row| given.get(&row.seq).copied())
        .collect();
    let keys: BinaryArray = rows.iter().map(|row| row.key.as_deref()).collect();
    let own: [(&str, ArrayRef); 5] = [
        ("at", Arc::new(at)),
        ("seq", Arc::new(seq)),
        ("closes", Arc::new(closes)),
        ("given", Arc::new(given)),
        ("key", Arc::new(keys)),
    ];
    let mut all_fields = Vec::new();
    let mut columns = Vec::new();
    for (name, array) in own {
        all_fields.push(field(name, array.data_type().clone()));
        columns.push(array);
    }
    all_fields.extend(fields.iter().cloned());
    columns.extend(values);
    with_events(rows.iter().map(|row| row.event), &all_fields, &columns)
}

/// Rows that wait, with the starts that they were given.
fn read_waiting(body: &mut Reader) -> Result<Vec<(Row, Option<i64>)>, SessionError> {
    let rows = body.table()?;
    let (events, _) = events_of(&rows)?;
    let ([_, _, at, seq, closes, given, keys], values) = split::<7>(&rows)?;
    let (at, given) = (numbers(at)?, numbers(given)?);
    let counts = |array: &ArrayRef| {
        let counts = array.as_primitive_opt::<UInt64Type>().cloned();
        counts.ok_or_else(|| corrupt("a column is not of numbers"))
    };
    let (seq, closes) = (counts(seq)?, counts(closes)?);
    let keys = keys.as_binary_opt::<i32>();
    let keys = keys.ok_or_else(|| corrupt("a column is not of bytes"))?;
    let chunk = Arc::new(values);
    let row = |(i, event): (usize, Span)| {
        let row = Row {
            at: at.value(i),
            seq: seq.value(i),
            event,
            closes: closes.is_valid(i).then(|| closes.value(i)),
            key: keys.is_valid(i).then(|| keys.value(i).into()),
            chunk: Arc::clone(&chunk),
            place: i,
        };
        (row, given.is_valid(i).then(|| given.value(i)))
    };
    Ok(events.into_iter().enumerate().map(row).collect())
}

fn read_port(
    body: &mut Reader,
    port: &mut Port,
    state: &mut LiveState,
) -> Result<(), SessionError> {
    let name = port.input.name.clone();
    let state = state.inputs.get_mut(&name);
    let state = state.ok_or_else(|| corrupt("an input is missing"))?;
    port.high = body.number()?;
    port.promised = body.number()?;
    port.is_idle = body.flag()?;
    port.touched = body.number()?;
    port.seq = body.count()?;
    port.grids.first = body.maybe()?;
    port.grids.of_keys = read_instants(body)?;
    port.counts = Counts {
        accepted: body.count()?,
        dropped: body.count()?,
        adjusted: body.count()?,
        revised: body.count()?,
        overlapping: body.count()?,
    };
    port.row_bytes = usize::try_from(body.count()?).map_err(|e| unreadable(&e))?;
    state.count = body.count()?;
    port.queue.last_end = body.number()?;
    port.queue.key_ends = read_instants(body)?;
    state.covered = body.number()?;
    state.promised = body.number()?;
    let mut span = || -> Result<Option<Span>, SessionError> {
        let (start, end) = (body.maybe()?, body.maybe()?);
        Ok(start.zip(end).map(|(start, end)| Span::new(start, end)))
    };
    (state.hull, state.last) = (span()?, span()?);
    state.open_start = body.maybe()?;
    state.is_exhausted = body.flag()?;
    let tail = body.count()?;
    state.tail = (0..tail).map(|_| body.number()).collect::<Result<_, _>>()?;

    if !body.flag()? {
        return Ok(());
    }
    let is_interval = body.flag()?;
    let times = body.table()?;
    let time = |i: usize| {
        let fields = times.schema_ref().fields();
        let field = fields.get(i).ok_or_else(|| corrupt("a time is missing"))?;
        TimeColumn::given(field, port.input.unit).map_err(|e| unreadable(&e))
    };
    let time = if is_interval {
        let (start, end) = (time(0)?, time(1)?);
        TimeColumns::Interval { start, end }
    } else {
        TimeColumns::Stamp(time(0)?)
    };
    let held = body.table()?;
    port.know(held.schema_ref().fields()[2..].to_vec(), time);
    let (events, values) = events_of(&held)?;
    state.rows = port.buffer_of(&events, values)?;
    let (events, values) = events_of(&body.table()?)?;
    state.begun = port.buffer_of(&events, values)?;

    let mut edges = Edges::default();
    let mut began = |rows: &[(Row, Option<i64>)]| -> Result<(), SessionError> {
        let Some((first, _)) = rows.first().filter(|_| port.options.edges) else {
            return Ok(());
        };
        let values = as_bytes(&first.chunk)?;
        for (row, given) in rows {
            if let Some(given) = given.filter(|_| row.event.end == OPEN) {
                let begun = Begun {
                    seq: row.seq,
                    start: row.event.start,
                };
                edges.begin(given, values.row(row.place).as_ref(), begun);
            }
        }
        Ok(())
    };
    let pending = read_waiting(body)?;
    let begun = read_waiting(body)?;
    // Rows that one row may end have one start, so they wait together, and are in order of arrival.
    began(&begun)?;
    began(&pending)?;
    port.edges = edges;
    let moved = pending.iter().filter(|(row, _)| row.yields());
    let moved: HashSet<u64> = moved.map(|(row, _)| row.seq).collect();
    port.queue.pending = pending.into_iter().map(|(row, _)| Reverse(row)).collect();
    port.queue.begun = begun.into_iter().map(|(row, _)| (row.seq, row)).collect();
    for (row, _) in read_waiting(body)? {
        let fate = body.text()?;
        let fate = Fate::ALL.into_iter().find(|known| known.name() == fate);
        let fate = fate.ok_or_else(|| corrupt("a late row has no fate"))?;
        let by = body.number()?;
        let late = LateRow { row, fate, by };
        if fate == Fate::Adjusted && moved.contains(&late.row.seq) {
            port.late.wait(late);
        } else {
            port.late.push(late);
        }
    }
    Ok(())
}
