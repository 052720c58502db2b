//! Columns that others have allocated: nothing beside them is touched, results share what did not change, and what is new is aligned and padded.

use std::{collections::BTreeMap, ptr::NonNull, sync::Arc};

use tilt::{
    Query, RunOptions,
    arrow::{
        array::{Array, ArrayRef, Float64Array, Int64Array, make_array},
        buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer},
    },
    data::{Column, Shape, SnapshotBuffer, Spans, Stamps, Timeline},
    interp::{Options, events_of, run_buffers},
    ir::Unit,
};

use crate::{
    apps::{APPLICATIONS, Application},
    generate::buffers,
    keyed::is_same,
};

const PAGE: usize = 4096;

/// Which end of accessible memory a column lies at.
#[derive(Clone, Copy, Debug)]
enum End {
    First,
    Last,
}

/// Pages between two that nobody may touch.
struct Guarded {
    start: *mut libc::c_void,
    size: usize,
}

// SAFETY: nothing but memory, which whoever has it may read on any thread.
unsafe impl Send for Guarded {}
// SAFETY: as above; it is written before it is shared.
unsafe impl Sync for Guarded {}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.start, self.size) };
    }
}

/// A copy of a buffer that begins or ends where accessible memory does.
fn guarded(buffer: &Buffer, end: End) -> Buffer {
    let len = buffer.len();
    let room = len.next_multiple_of(PAGE).max(PAGE);
    let size = room + 2 * PAGE;
    // SAFETY: a fresh mapping whose middle is made accessible, and written within.
    let (pages, at) = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let start = libc::mmap(std::ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        let middle: *mut u8 = start.byte_add(PAGE).cast();
        let both = libc::PROT_READ | libc::PROT_WRITE;
        assert_eq!(libc::mprotect(middle.cast(), room, both), 0);
        let at = match end {
            End::First => middle,
            End::Last => middle.add(room - len),
        };
        std::ptr::copy_nonoverlapping(buffer.as_ptr(), at, len);
        // Inputs are not written to.
        assert_eq!(libc::mprotect(middle.cast(), room, libc::PROT_READ), 0);
        (Guarded { start, size }, at)
    };
    let at = NonNull::new(at).expect("not null");
    // SAFETY: `len` bytes that live as long as the mapping.
    unsafe { Buffer::from_custom_allocation(at, len, Arc::new(pages)) }
}

fn guarded_times(times: &ScalarBuffer<i64>, end: End) -> ScalarBuffer<i64> {
    ScalarBuffer::new(guarded(times.inner(), end), 0, times.len())
}

fn guarded_bits(nulls: &NullBuffer, end: End) -> NullBuffer {
    let bits = nulls.inner();
    let inner = guarded(bits.inner(), end);
    NullBuffer::new(BooleanBuffer::new(inner, bits.offset(), bits.len()))
}

fn guarded_array(array: &ArrayRef, end: End) -> ArrayRef {
    let data = array.to_data();
    let buffers = data.buffers().iter().map(|buffer| guarded(buffer, end));
    let (buffers, nulls) = (buffers.collect(), data.nulls());
    let nulls = nulls.map(|nulls| guarded_bits(nulls, end));
    let builder = data.clone().into_builder().buffers(buffers).nulls(nulls);
    make_array(builder.build().expect("the same array"))
}

/// The same events in memory that ends, or begins, at pages that nobody may touch.
fn guarded_events(buffer: &SnapshotBuffer, end: End) -> SnapshotBuffer {
    let timeline = buffer.timeline();
    let timeline = match (timeline.stamps(), timeline.spans()) {
        (Stamps::Regular { .. }, _) => timeline.clone(),
        (Stamps::Explicit(ends), Spans::Starts { starts, .. }) => {
            Timeline::intervals(guarded_times(starts, end), guarded_times(ends, end))
        }
        (Stamps::Explicit(stamps), spans) => {
            Timeline::explicit(guarded_times(stamps, end), spans.clone())
        }
    };
    let columns = buffer.columns().iter();
    let mut columns: Vec<Column> = columns
        .map(|column| Column::new(column.name(), guarded_array(column.array(), end)))
        .collect();
    let built = match buffer.shape() {
        Shape::Scalar => SnapshotBuffer::scalar(timeline, columns.remove(0), buffer.unit()),
        Shape::Record => {
            let rows = buffer.validity().map(|rows| guarded_bits(rows, end));
            SnapshotBuffer::record(timeline, columns, rows, buffer.unit())
        }
    };
    built.expect("the same events")
}

/// Addresses of all buffers of columns.
fn addresses(buffer: &SnapshotBuffer) -> Vec<*const u8> {
    let of_column = |column: &Column| -> Vec<*const u8> {
        let data = column.array().to_data();
        data.buffers().iter().map(Buffer::as_ptr).collect()
    };
    buffer.columns().iter().flat_map(of_column).collect()
}

#[test]
fn applications_touch_nothing_beside_their_inputs() {
    for name in APPLICATIONS {
        let Application { program, inputs } = Application::read(name);
        let arrays = buffers(&program, &inputs);
        let expected = run_buffers(&program, &arrays, &Options::default()).expect("runs");
        let right = events_of(&expected).expect("a buffer of events");
        for optimize in [false, true] {
            let query = Query::new(program.clone()).expect("verified");
            let compiled = query.optimize(optimize).compile().expect("compiles");
            for end in [End::First, End::Last] {
                let guarded =
                    |(name, buffer): (&String, _)| (name.clone(), guarded_events(buffer, end));
                let inputs: BTreeMap<String, SnapshotBuffer> = arrays.iter().map(guarded).collect();
                let theirs: Vec<_> = inputs.values().flat_map(addresses).collect();
                for (threads, rows) in [(1, None), (2, Some(64))] {
                    let mut options = RunOptions::default().threads(threads);
                    options = rows.into_iter().fold(options, RunOptions::piece_rows);
                    let found = compiled.run(&inputs, &options).expect("runs");
                    assert!(
                        is_same(&found, &expected, &right),
                        "{name} at the {end:?} page, optimize {optimize}, pieces {rows:?}"
                    );
                    // By key, rows go back to where the input has them by other means than loops.
                    let is_keyed = program.inputs().any(|(_, input)| input.key.is_some());
                    for column in found.columns().iter().filter(|_| !is_keyed) {
                        let data = column.array().to_data();
                        let at = data.buffers()[0].as_ptr();
                        if data.data_type().is_primitive() && !theirs.contains(&at) {
                            assert_eq!(at as usize % 64, 0, "{name}: {}", column.name());
                        }
                    }
                }
            }
        }
    }
}

/// The address of the stamps of a buffer that stores them.
fn stamps(buffer: &SnapshotBuffer) -> *const u8 {
    match buffer.timeline().stamps() {
        Stamps::Explicit(stamps) => stamps.inner().as_ptr(),
        Stamps::Regular { .. } => panic!("the times are irregular"),
    }
}

/// `~x: {k: i64, x: f64}` at irregular times.
fn keyed_points(rows: i64) -> SnapshotBuffer {
    let ends: Vec<i64> = (0..rows).map(|i| 10 * i + i % 7).collect();
    let timeline = Timeline::explicit(ends.into(), Spans::Fixed(1));
    let columns = vec![
        Column::new(
            "k",
            Arc::new(Int64Array::from_iter_values((0..rows).map(|i| i % 5))),
        ),
        Column::new(
            "x",
            Arc::new(Float64Array::from_iter_values(
                (0..rows).map(|i| (i % 101) as f64),
            )),
        ),
    ];
    SnapshotBuffer::record(timeline, columns, None, Unit::Tick).expect("columns of one length")
}

#[test]
fn what_does_not_change_is_shared_with_the_input() {
    let x = keyed_points(100_000);
    let inputs = BTreeMap::from([("x".to_owned(), x.clone())]);
    let run = |declared: &str, body: &str, threads| {
        let text = format!(
            "query q unit tick {{ input ~x: {{k: i64, x: f64}} point {declared}  {body}  output ~y }}"
        );
        let compiled = Query::parse(&text).expect("a query").compile();
        let options = RunOptions::default().threads(threads);
        let output = compiled.expect("compiles").run(&inputs, &options);
        output.expect("runs")
    };
    let bodies = [
        "~y[t] = ~x[t].x * 2.0",
        "~y[t] = if ~x[t].x > 50.0 then ~x[t].x else null",
        "~y[t] = reduce mean ~x[t-100 : t] map (~x[t].x)",
    ];
    for threads in [1, 2] {
        for body in bodies {
            assert_eq!(
                stamps(&run("", body, threads)),
                stamps(&x),
                "the times of {body}"
            );
        }
        // By key, columns that are passed on are those of the input, whatever is computed beside them.
        for beside in [
            "~x[t].x - ~x.prev(1).x",
            "reduce mean ~x[t-100 : t] map (~x[t].x)",
        ] {
            let body = format!("~y[t] = {{new: {beside}, x: ~x[t].x}}");
            let found = run("key k", &body, threads);
            assert_eq!(stamps(&found), stamps(&x), "the times of {body}");
            for name in ["k", "x"] {
                let of = |buffer: &SnapshotBuffer| {
                    let column = buffer.column(name).expect("a column").array().to_data();
                    column.buffers()[0].as_ptr()
                };
                assert_eq!(of(&found), of(&x), "the column {name} of {body}");
            }
        }
    }
}
