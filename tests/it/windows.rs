//! Windows too long for the oracle, against the order of `docs/ir.md` written as plain loops.

use std::{collections::BTreeMap, sync::Arc};

use tilt::{
    Query, RunOptions,
    arrow::array::{
        Array, Float64Array, Int64Array,
        cast::AsArray,
        types::{Float64Type, Int64Type},
    },
    data::{Column, SnapshotBuffer, Spans, Timeline},
    ir::Unit,
};

/// More than what is kept of the suffixes of a block at once.
const LENGTHS: [usize; 3] = [2500, 70_000, 150_001];
const ROWS: usize = 400_003;
/// The end of the first sample, so that the first block is cut.
const FIRST: usize = 40_000;

fn inputs(column: Arc<dyn Array>) -> BTreeMap<String, SnapshotBuffer> {
    let timeline = Timeline::regular(FIRST as i64, 1, ROWS, Spans::Fixed(1));
    let column = Column::new("x", column);
    let x = SnapshotBuffer::scalar(timeline, column, Unit::Tick).unwrap();
    BTreeMap::from([("x".to_owned(), x)])
}

fn results(
    ty: &str,
    agg: &str,
    length: usize,
    inputs: &BTreeMap<String, SnapshotBuffer>,
) -> Vec<Arc<dyn Array>> {
    let text = format!(
        "query q unit tick {{ input ~x: {ty} fixed 1 period 1  ~y[t] = reduce {agg} ~x[t-{length} : t]  output ~y }}"
    );
    let compiled = Query::parse(&text).unwrap().compile().unwrap();
    let ways = [1 << 20, 160_000, 1000];
    let run = |rows: usize| {
        let options = RunOptions::default().piece_rows(rows);
        let result = compiled.run(&inputs.clone(), &options).unwrap();
        Arc::clone(result.columns()[0].array())
    };
    ways.into_iter()
        .filter(|rows| length / rows < 100)
        .map(run)
        .collect()
}

/// The balanced tree over up to eight values.
fn tree(values: &[f64]) -> f64 {
    if let [value] = values {
        return *value;
    }
    let (left, right) = values.split_at(values.len().next_power_of_two() / 2);
    tree(left) + tree(right)
}

/// Σ in the pinned order, up to each value: groups of eight, from the first value given on.
fn sums(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let (mut group, mut before, mut out) = (Vec::new(), None::<f64>, Vec::new());
    for value in values {
        group.push(value);
        let sum = tree(&group);
        out.push(before.map_or(sum, |before| before + sum));
        if group.len() == 8 {
            before = out.last().copied();
            group.clear();
        }
    }
    out
}

#[test]
fn long_sums_keep_their_order() {
    let value = |i: usize| ((i * 7919) % 10_007) as f64 / 3.0 - 1000.0;
    let values: Vec<f64> = (0..ROWS).map(value).collect();
    let inputs = inputs(Arc::new(Float64Array::from(values.clone())));
    for length in LENGTHS {
        let (mut prefix, mut suffix) = (vec![0.0; ROWS], vec![0.0; ROWS]);
        let mut start = 0;
        while start < ROWS {
            // Blocks are ((k-1)·length, k·length]; sample i ends at FIRST + i.
            let end = (FIRST + start).next_multiple_of(length) - FIRST + 1;
            let block = start..end.min(ROWS);
            let forward = sums(values[block.clone()].iter().copied());
            prefix[block.clone()].copy_from_slice(&forward);
            let backward = sums(values[block.clone()].iter().rev().copied());
            for (i, sum) in block.clone().rev().zip(backward) {
                suffix[i] = sum;
            }
            start = block.end;
        }
        for found in results("f64", "mean", length, &inputs) {
            let found = found.as_primitive::<Float64Type>();
            assert_eq!(found.len(), ROWS);
            for (i, late) in prefix.iter().enumerate() {
                let first = (i + 1).saturating_sub(length);
                let block = (FIRST + i - 1) / length;
                let is_one_part = (FIRST + first - 1) / length == block;
                let sum = if is_one_part {
                    *late
                } else {
                    suffix[first] + late
                };
                let mean = sum / (i + 1 - first) as f64;
                assert_eq!(
                    found.value(i).to_bits(),
                    mean.to_bits(),
                    "{length}: row {i}"
                );
            }
        }
    }
}

#[test]
fn long_windows_of_integers() {
    let value = |i: usize| (i as i64 * 7919) % 1_000_003 - 500_000;
    let values: Vec<i64> = (0..ROWS).map(value).collect();
    let inputs = inputs(Arc::new(Int64Array::from(values.clone())));
    for length in LENGTHS {
        let mut total = 0;
        let sums: Vec<i64> = (0..ROWS)
            .map(|i| {
                total += values[i] - if i < length { 0 } else { values[i - length] };
                total
            })
            .collect();
        // The candidates for the least value, in order.
        let mut least: std::collections::VecDeque<usize> = std::collections::VecDeque::new();
        let minima: Vec<i64> = (0..ROWS)
            .map(|i| {
                while least.back().is_some_and(|j| values[*j] >= values[i]) {
                    least.pop_back();
                }
                least.push_back(i);
                while least[0] + length <= i {
                    least.pop_front();
                }
                values[least[0]]
            })
            .collect();
        for (agg, expected) in [("sum", &sums), ("min", &minima)] {
            for found in results("i64", agg, length, &inputs) {
                let found = found.as_primitive::<Int64Type>();
                let differs = (0..ROWS).find(|i| found.value(*i) != expected[*i]);
                assert_eq!(differs, None, "{agg} {length}");
            }
        }
    }
}
