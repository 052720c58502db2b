//! Steps give what a run gives, whatever rows come together.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, StringArray};
use tilt_data::{Column, SnapshotBuffer, Spans, Timeline};
use tilt_ir::{Program, Span, StreamId};

use super::{Arrived, Common, ROOM, Reached, Steps};
use crate::{
    facts::SeriesFacts,
    query::{Backend, Compiled, Query, RunOptions},
    series::Series,
};

/// Numbers that look random.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, n: u64) -> usize {
        (self.next() % n) as usize
    }
}

#[derive(Clone, Copy)]
enum Shape {
    Regular,
    Irregular,
    UntilNext,
}

fn buffer(
    noise: &mut Noise,
    program: &Program,
    id: StreamId,
    shape: Shape,
    rows: usize,
) -> SnapshotBuffer {
    let mut t = 5 + noise.below(4) as i64;
    let stamps: Vec<i64> = (0..rows)
        .map(|_| {
            t += 1 + noise.below(5) as i64;
            t
        })
        .collect();
    let timeline = match shape {
        Shape::Regular => Timeline::regular(6, 1, rows, Spans::Fixed(1)),
        Shape::Irregular => Timeline::explicit(stamps.into(), Spans::Fixed(1)),
        Shape::UntilNext => Timeline::explicit(
            stamps.into(),
            Spans::UntilNext {
                next: tilt_ir::OPEN,
            },
        ),
    };
    let input = program.streams[id].as_input().expect("an input");
    let values: ArrayRef = match input.dtype.to_string().as_str() {
        "i64" => Arc::new(Int64Array::from_iter_values(
            (0..rows).map(|_| noise.below(1000) as i64 - 500),
        )),
        // New words come all the time.
        "utf8" => Arc::new(StringArray::from_iter_values(
            (0..rows).map(|row| format!("word {}", noise.below(2 + row as u64 / 50))),
        )),
        _ => Arc::new(Float64Array::from_iter_values(
            (0..rows).map(|_| noise.below(1_000_000) as f64 / 977.0 - 400.0),
        )),
    };
    SnapshotBuffer::scalar(timeline, Column::new(&input.name, values), program.unit)
        .expect("a buffer")
}

/// What can be compared bit for bit: events and their values.
fn listed(buffer: &SnapshotBuffer) -> Vec<(i64, i64, Vec<String>)> {
    let value = |column: &Column, row: usize| {
        let array = column.array().slice(row, 1);
        match array.as_any().downcast_ref::<Float64Array>() {
            Some(doubles) if doubles.null_count() == 0 => {
                format!("{:x}", doubles.value(0).to_bits())
            }
            _ => format!("{array:?}"),
        }
    };
    buffer
        .positions()
        .map(|row| {
            let event = buffer.event(row);
            let values = buffer.columns().iter().map(|c| value(c, row));
            (event.start, event.end, values.collect())
        })
        .collect()
}

fn check(text: &str, shapes: &[Shape], rows: usize, sizes: u64) {
    let compiled = Query::parse(text)
        .expect("a program")
        .compile()
        .expect("compiled");
    let program = compiled.program().clone();
    let mut noise = Noise(rows as u64 * 31 + sizes);
    let buffers: BTreeMap<StreamId, SnapshotBuffer> = program
        .inputs()
        .zip(shapes)
        .map(|((id, _), shape)| (id, buffer(&mut noise, &program, id, *shape, rows)))
        .collect();
    let named: BTreeMap<String, SnapshotBuffer> = buffers
        .iter()
        .map(|(id, b)| (program.streams[*id].name().to_owned(), b.clone()))
        .collect();
    let expected = compiled.run(&named, &RunOptions::default()).expect("a run");
    let found = in_steps(&compiled, &program, &buffers, &mut noise, sizes);
    let found: Vec<_> = found.iter().flat_map(listed).collect();
    let expected = listed(&expected);
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(
            found, expected,
            "row {i}, {sizes} rows at a time, of {text}"
        );
    }
    assert_eq!(
        found.len(),
        expected.len(),
        "{sizes} rows at a time, of {text}"
    );
}

fn in_steps(
    compiled: &Compiled,
    program: &Program,
    buffers: &BTreeMap<StreamId, SnapshotBuffer>,
    noise: &mut Noise,
    sizes: u64,
) -> Vec<SnapshotBuffer> {
    let facts: BTreeMap<StreamId, SeriesFacts> = program
        .inputs()
        .map(|(id, input)| {
            (
                id,
                SeriesFacts::of_input(input, &buffers[&id]).expect("facts"),
            )
        })
        .collect();
    let prepared = compiled.inner.prepare(&facts, Backend::Native).prepared;
    let hulls = buffers.values().filter_map(SnapshotBuffer::hull);
    let run = hulls
        .reduce(|a, b| Span::new(a.start.min(b.start), a.end.max(b.end)))
        .expect("events");
    let options = RunOptions::default();
    let common =
        Common::new(program, &prepared, &facts, &options, ROOM).expect("a plan that goes on");
    let mut steps =
        Steps::new(&common, &facts, buffers, (run.start, run.start)).expect("stages that go on");
    let mut done: BTreeMap<StreamId, usize> = buffers.keys().map(|id| (*id, 0)).collect();
    let mut end = run.start;
    let mut outputs = Vec::new();
    let output = |series: Series| {
        let (of, dictionary) = (program.output, common.dictionary());
        crate::execute::assemble_rows(program, of, &series, &dictionary).expect("output")
    };
    while buffers.iter().any(|(id, b)| done[id] < b.len()) {
        let mut covered = Vec::new();
        for (id, buffer) in buffers {
            let from = done[id];
            let n = (1 + noise.below(sizes)).min(buffer.len() - from);
            let rows = buffer.slice(from, n);
            // What a chunk tells by itself.
            let rows = match rows.timeline().spans() {
                Spans::UntilNext { .. } if n > 0 => {
                    let stamps: Vec<i64> = (from..from + n)
                        .map(|i| buffer.timeline().stamp(i))
                        .collect();
                    let timeline = Timeline::explicit(
                        stamps.into(),
                        Spans::UntilNext {
                            next: tilt_ir::OPEN,
                        },
                    );
                    SnapshotBuffer::scalar(timeline, rows.columns()[0].clone(), program.unit)
                        .expect("rows")
                }
                _ => rows,
            };
            assert!(steps.push(program, *id, &rows), "rows that fit");
            *done.get_mut(id).expect("an input") += n;
            let last = from + n;
            let start = if last == 0 {
                i64::MIN
            } else {
                buffer.timeline().start(last - 1)
            };
            if last > 0 {
                let of_last = buffer.timeline().event(last - 1);
                let until_next = matches!(buffer.timeline().spans(), Spans::UntilNext { .. });
                end = end.max(if until_next {
                    of_last.start + 1
                } else {
                    of_last.end
                });
            }
            // Starts are in order, and events disjoint.
            let covers = match buffer.timeline().spans() {
                Spans::Fixed(_) if last > 0 => buffer.timeline().end(last - 1),
                _ => start,
            };
            let promised = i64::MIN;
            covered.push((
                *id,
                Arrived {
                    covered: covers,
                    promised,
                },
            ));
        }
        outputs.push(output(
            steps
                .step(
                    &covered,
                    Reached {
                        end,
                        certain: end,
                        last: false,
                    },
                )
                .expect("a step"),
        ));
    }
    let all = Arrived {
        covered: i64::MAX,
        promised: i64::MAX,
    };
    let covered: Vec<_> = buffers.keys().map(|id| (*id, all)).collect();
    outputs.push(output(
        steps
            .step(
                &covered,
                Reached {
                    end: run.end,
                    certain: run.end,
                    last: true,
                },
            )
            .expect("the last step"),
    ));
    outputs
}

#[test]
fn windows_go_on_where_they_stopped() {
    use Shape::{Irregular, Regular, UntilNext};
    let queries = [
        "query q unit tick { input ~x: f64 point  ~y[t] = ~x[t] * 2.0 + 1.0  output ~y }",
        "query q unit tick { input ~x: i64 point  ~y[t] = reduce sum ~x[t-30 : t]  output ~y }",
        "query q unit tick { input ~x: f64 point  ~y[t] = reduce mean ~x[t-30 : t]  output ~y }",
        "query q unit tick { input ~x: f64 point  ~y[t] = reduce max ~x[t-100 : t] - reduce min ~x[t-7 : t]  output ~y }",
        "query q unit tick { input ~x: f64 point  ~y[t] = reduce std ~x[t-50 : t]  output ~y }",
        "query q unit tick { input ~x: f64 point  ~m[t] = reduce mean ~x[t-20 : t] - reduce mean ~x[t-50 : t]  ~y[t] = if ~m[t] > 0.0 then ~m[t] else null  output ~y }",
        "query q unit tick { input ~x: f64 point  ~y[t] = reduce sum ~x[t-3 : t+5]  output ~y }",
        "query q unit tick { input ~x: f64 point  ~y[t] = ~x[t] - ~x.prev(3)  output ~y }",
        "query q unit tick { input ~x: f64 point  ~y[t] = reduce median ~x[t-40 : t]  output ~y }",
        "query q unit tick { input ~x: f64 point  ~y[t every 10] = reduce mean ~x[t-10 : t]  output ~y }",
        "query q unit tick { input ~x: f64 point  ~y[t every 5] = reduce mean ~x[t-40 : t]  output ~y }",
        "query q unit tick { input ~x: i64 point  ~y[t every 4] = reduce sum ~x[t-40 : t]  output ~y }",
        "query q unit tick { input ~x: f64 point  ~y[t]: f64 = 0.1 * ~x[t] + 0.9 * coalesce(~y.prev(1), 0.0)  output ~y }",
        "query q unit tick { input ~x: f64 point  ~y[t] = reduce sum ~x[#-3 : #]  output ~y }",
        "query q unit tick { input ~x: i64 point  ~y[t] = reduce sum ~x[-inf : t]  output ~y }",
    ];
    for text in queries {
        for (shape, rows) in [(Regular, 3000), (Irregular, 3000)] {
            for sizes in [1, 3, 10, 100, 2500] {
                check(text, &[shape], rows, sizes);
            }
        }
    }
    let until_next = [
        "query q unit tick { input ~x: f64 until_next  ~y[t] = ~x[t] + 1.0  output ~y }",
        "query q unit tick { input ~x: f64 until_next  ~y[t every 7] = ~x[t] + hold(~x[t])  output ~y }",
    ];
    for text in until_next {
        for sizes in [1, 3, 10, 100] {
            check(text, &[UntilNext], 2000, sizes);
        }
    }
    let joins = [
        (
            "query q unit tick { input ~x: f64 point  input ~y: f64 until_next  ~z[t] = ~x[t] + ~y[t]  output ~z }",
            [Irregular, UntilNext],
        ),
        (
            "query q unit tick { input ~x: f64 point  input ~y: f64 point  ~z[t] = ~x[t] + hold(~y[t])  output ~z }",
            [Irregular, Irregular],
        ),
        (
            "query q unit tick { input ~x: f64 point  input ~y: f64 point  ~z[t] = coalesce(~x[t], 0.0) + coalesce(~y[t], 0.0)  output ~z }",
            [Irregular, Irregular],
        ),
        (
            "query q unit tick { input ~x: f64 point  input ~y: f64 point  ~a[t at ~x] = reduce mean ~x[t-20 : t]  ~z[t at ~x] = ~a[t] - reduce mean ~y[t-40 : t]  output ~z }",
            [Irregular, Irregular],
        ),
        (
            "query q unit tick { input ~x: f64 until_next  input ~y: f64 until_next  ~a[t] = ~x[t] + ~y[t]  ~z[t at ~a] = ~a[t] - reduce max ~a[t-40 : t]  output ~z }",
            [UntilNext, UntilNext],
        ),
        (
            "query q unit tick { input ~x: f64 point  input ~y: f64 point  ~z[t] = ~x[t] - ~y[t-2]  output ~z }",
            [Regular, Irregular],
        ),
    ];
    for (text, shapes) in joins {
        for sizes in [1, 3, 10, 100, 1000] {
            check(text, &shapes, 2000, sizes);
        }
    }
}

#[test]
fn windows_row_by_row_go_on_where_they_stopped() {
    for agg in [
        "median",
        "quantile(0.9)",
        "mode",
        "n_unique",
        "ewm(0.1)",
        "skew",
        "slope",
        "arg_max",
        "last",
        "product",
    ] {
        let text = format!(
            "query q unit tick {{ input ~x: f64 point  ~y[t] = reduce {agg} ~x[t-60 : t]  output ~y }}"
        );
        for shape in [Shape::Regular, Shape::Irregular] {
            for sizes in [1, 10, 700] {
                check(&text, &[shape], 3000, sizes);
            }
        }
    }
    // So long that the sorted list of a window becomes blocks.
    let long = "query q unit tick { input ~x: f64 point  ~y[t] = reduce median ~x[t-2500 : t]  output ~y }";
    for sizes in [30, 900] {
        check(long, &[Shape::Regular], 7000, sizes);
    }
}

#[test]
fn panes_go_on_where_they_stopped() {
    for (dtype, reduction) in [
        ("f64", "max ~x[t-160 : t]"),
        ("i64", "sum ~x[t-160 : t]"),
        ("i64", "min ~x[t-320 : t-16]"),
        ("i64", "sum ~x[t-1600 : t]"),
        ("f64", "max ~x[t-1600 : t]"),
        ("f64", "max ~x[t-80 : t+16]"),
    ] {
        let text = format!(
            "query q unit tick {{ input ~x: {dtype} point  ~y[t every 16] = reduce {reduction}  output ~y }}"
        );
        for sizes in [1, 9, 40, 100, 2500] {
            check(&text, &[Shape::Regular, Shape::Irregular], 6000, sizes);
        }
    }
}

#[test]
fn cut_panes_go_on_where_they_stopped() {
    for (dtype, every, reduction) in [
        ("f64", 16, "max ~x[t-150 : t]"),
        ("i64", 30, "sum ~x[t-100 : t]"),
        ("i64", 20, "min ~x[t-320 : t-11]"),
        ("i64", 3, "sum ~x[t-7 : t]"),
        ("f64", 40, "max ~x[t-190 : t]"),
        ("i64", 110, "sum ~x[t-540 : t]"),
        ("i64", 300, "sum ~x[t-1000 : t]"),
        ("f64", 40, "max ~x[t-90 : t+15]"),
    ] {
        let text = format!(
            "query q unit tick {{ input ~x: {dtype} point  ~y[t every {every}] = reduce {reduction}  output ~y }}"
        );
        for sizes in [1, 9, 40, 100, 2500] {
            check(&text, &[Shape::Regular, Shape::Irregular], 4000, sizes);
        }
    }
}

/// Cells of one grid, some of whose windows end later than those of others.
#[test]
fn panes_do_not_hurry_ahead_of_their_rows() {
    for (near, far) in [("t", "t+40"), ("t+40", "t"), ("t-5", "t+200")] {
        let text = format!(
            "query q unit tick {{ input ~x: f64 point
               ~a[t every 16] = reduce max ~x[t-100 : {near}]
               ~b[t every 16] = reduce max ~x[t-90 : {far}]
               ~y[t every 16] = coalesce(~b[t], 0.0) + coalesce(~a[t-32], 0.5) + coalesce(~b[t+16], 0.25)
               output ~y }}"
        );
        for sizes in [1, 9, 100] {
            check(&text, &[Shape::Irregular], 2000, sizes);
        }
    }
}

#[test]
fn words_may_come_at_any_time() {
    for body in [
        "~y[t] = ~x[t]",
        "~y[t] = if ~x[t] == \"word 3\" then ~x[t] else \"other\"",
        "~y[t] = ~x[t] != ~x.prev(1)",
        "~y[t] = reduce last ~x[t-30 : t-5]",
        "~f[t] = if ~x[t] == \"word 1\" then 1 else null ~y[t] = reduce sum ~f[t-200 : t]",
    ] {
        let text = format!("query q unit tick {{ input ~x: utf8 point  {body}  output ~y }}");
        for sizes in [1, 10, 700] {
            check(&text, &[Shape::Irregular], 3000, sizes);
        }
    }
}
