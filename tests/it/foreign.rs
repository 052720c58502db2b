//! Columns that others have allocated: nothing beside them is touched, results share what did not change, and what is new is aligned and padded.

use std::{collections::BTreeMap, ptr::NonNull, sync::Arc};

use tilt::{
    Backend, Query, RunOptions,
    arrow::{
        array::{
            Array, ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, StringArray,
            make_array,
        },
        buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer},
    },
    data::{Column, Shape, SnapshotBuffer, Spans, Stamps, Timeline},
    interp::{Options, events_of, run_buffers},
    ir::{Span, Unit},
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

/// 1000 events of `~x: {a: f64, b: bool, c: i32, s: utf8}`, rows, values or neither missing; every third stamp is missing if they are irregular.
fn columns(regular: bool, rows_missing: bool, values_missing: bool) -> SnapshotBuffer {
    let rows = 1000;
    let timeline = if regular {
        Timeline::regular(5, 2, rows, Spans::Fixed(1))
    } else {
        let stamps = (0..rows as i64).map(|i| 3 * i + i / 3);
        Timeline::explicit(stamps.collect(), Spans::Fixed(1))
    };
    let missing = |step: usize| values_missing.then_some(step);
    let is_there = |i: usize, step: usize| missing(step).is_none_or(|step| !i.is_multiple_of(step));
    let a = (0..rows).map(|i| is_there(i, 7).then_some((i % 13) as f64 - 6.0));
    let b = (0..rows).map(|i| is_there(i, 5).then_some(i % 3 == 0));
    let c = (0..rows).map(|i| is_there(i, 3).then_some(i as i32 - 500));
    let s = (0..rows).map(|i| is_there(i, 11).then_some(["p", "q", "r"][i % 3]));
    // Bits and elements of these begin anywhere.
    let cut = |array: ArrayRef| array.slice(3, rows - 3);
    let columns = vec![
        Column::new("a", cut(Arc::new(a.collect::<Float64Array>()))),
        Column::new("b", cut(Arc::new(b.collect::<BooleanArray>()))),
        Column::new("c", cut(Arc::new(c.collect::<Int32Array>()))),
        Column::new("s", cut(Arc::new(s.collect::<StringArray>()))),
    ];
    let there = |i| !rows_missing || i % 17 != 0;
    let present = rows_missing.then(|| (3..rows).map(there).collect::<NullBuffer>());
    let timeline = timeline.slice(3, rows - 3);
    SnapshotBuffer::record(timeline, columns, present, Unit::Tick).expect("columns of one length")
}

/// Outputs some of whose columns are the input's, and how many of numbers: bits that begin within a byte are moved before a run, strings are decoded after it.
const SHARING: [(&str, usize); 10] = [
    ("if ~x[t].a > 0.0 then ~x[t].a else null", 1),
    ("if ~x[t].a > 0.0 then ~x[t].c else null", 1),
    ("if ~x[t].c < 9 then ~x[t].b else null", 0),
    ("if ~x[t].b then ~x[t].s else null", 0),
    ("if ~x[t].b then ~x[t] else null", 2),
    ("~x[t].a", 1),
    ("{p: ~x[t].a, q: ~x[t].a * 2.0, r: ~x[t].c}", 2),
    ("{p: ~x[t].a, q: ~x[t].b, r: ~x[t].a}", 2),
    (
        "if (reduce mean ~x[t-9 : t] map (~x[t].a)) > 0.0 then ~x[t].a else null",
        1,
    ),
    (
        "{p: ~x[t].a, q: reduce sum ~x[t-8 : t] map (~x[t].c), r: ~x.prev(1).a}",
        1,
    ),
];

/// Whether memory lies within that of a column of the input.
fn is_of(input: &SnapshotBuffer, array: &ArrayRef) -> bool {
    let at = array.to_data().buffers()[0].as_ptr();
    let columns = input.columns().iter();
    let mut buffers = columns.flat_map(|column| column.array().to_data().buffers().to_vec());
    buffers.any(|buffer| buffer.as_ptr_range().contains(&at))
}

#[test]
fn what_is_passed_on_is_shared_and_right() {
    for (body, shared) in SHARING {
        for kind in 0..8 {
            let (regular, rows, values) = (kind & 1 > 0, kind & 2 > 0, kind & 4 > 0);
            let x = columns(regular, rows, values);
            let declared = if regular { "point period 2" } else { "point" };
            let text = format!(
                "query q unit tick {{ input ~x: {{a: f64, b: bool, c: i32, s: utf8}} {declared}  \
                 ~y[t] = {body}  output ~y }}"
            );
            let query = Query::parse(&text).expect("a query");
            let program = query.program().clone();
            let inputs = BTreeMap::from([("x".to_owned(), x.clone())]);
            let hull = x.hull().expect("rows");
            let parts = [
                None,
                Some(Span::new(hull.start + 11, hull.end - 333)),
                Some(Span::new(hull.start + 77, hull.start + 444)),
            ];
            for part in parts {
                let options = Options {
                    span: Some(hull),
                    part,
                    ..Options::default()
                };
                let expected = run_buffers(&program, &inputs, &options).expect("runs");
                let right = events_of(&expected).expect("a buffer of events");
                for optimize in [false, true] {
                    let compiled = query.clone().optimize(optimize).compile();
                    let compiled = compiled.expect("compiles");
                    for (threads, rows, backend) in [
                        (1, 4096, Backend::default()),
                        (2, 64, Backend::default()),
                        (1, 128, Backend::Loops),
                    ] {
                        let mut options = RunOptions::default().threads(threads);
                        options = options.piece_rows(rows).backend(backend).span(hull);
                        options = part.into_iter().fold(options, RunOptions::part);
                        let found = compiled.run(&inputs, &options).expect("runs");
                        assert!(
                            is_same(&found, &expected, &right),
                            "{body}, kind {kind}, part {part:?}, optimize {optimize}, pieces of {rows}\n{}",
                            compiled.explain()
                        );
                        let columns = found.columns().iter();
                        let arrays = columns.map(Column::array);
                        let arrays = arrays.filter(|array| array.data_type().is_primitive());
                        let of_input = arrays.filter(|array| is_of(&x, array)).count();
                        // Rows that are no events are left out before. A small part would keep all of the input.
                        if optimize && x.null_rows() == 0 {
                            let shared = if part == parts[2] { 0 } else { shared };
                            assert_eq!(of_input, shared, "{body}, kind {kind}, part {part:?}");
                        }
                        let packed = compiled.run(&inputs, &options.clone().events_only());
                        assert!(
                            is_same(&packed.expect("runs"), &expected, &right),
                            "{body}, kind {kind}, packed"
                        );
                    }
                }
            }
        }
    }
}
