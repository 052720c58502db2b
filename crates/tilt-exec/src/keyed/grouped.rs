//! The rows of an input, grouped by key.

use std::{ops::Range, sync::Arc};

use arrow_buffer::ScalarBuffer;
use tilt_data::{SnapshotBuffer, Spans, Timeline};

use super::{past::Kept, places::Places};
use crate::{
    facts::{AxisFacts, Regular},
    keys::Ids,
    series::{Axis, Leaf, Series},
};

/// The rows of a keyed input, those of one key together and in order.
pub(super) struct Grouped {
    /// What holds for every key.
    pub(super) axis: AxisFacts,
    /// The key of each row, and where it is.
    pub(super) ids: Ids,
    pub(super) places: Places,
    /// Where each key begins, and the end.
    bounds: Vec<u32>,
    pub(super) ends: ScalarBuffer<i64>,
    /// Unless all events have one length.
    starts: Option<ScalarBuffer<i64>>,
    pub(super) leaves: Vec<Leaf>,
}

impl Grouped {
    /// Groups the times of rows by their keys, those of each key moved in time if `moves` says by how much, after rows that were grouped before, if there are any. How many
    /// threads do it makes no difference.
    pub(super) fn new(
        buffer: &SnapshotBuffer,
        series: &Series,
        ids: Ids,
        keys: usize,
        moves: Option<&[i64]>,
        kept: Option<&Kept>,
        threads: usize,
    ) -> Self {
        let all = series.axis.ends();
        let (places, bounds) = match (kept, moves) {
            (Some(kept), Some(moves)) => Places::after(
                |key| kept.of_key(key, moves),
                all.len(),
                &ids,
                keys,
                threads,
            ),
            _ => Places::by_key(all.len(), &ids, keys, threads),
        };
        let before = kept.map_or(&[][..], Kept::ends);
        let ends = places.spread_times(all, &ids, moves, before);
        let timeline = buffer.timeline();
        let length = match timeline.spans() {
            Spans::Fixed(length) => Some(*length),
            _ => None,
        };
        let starts =
            (length.is_none()).then(|| places.spread_times(&timeline.starts(), &ids, moves, &[]));
        let mut this = Self {
            axis: AxisFacts {
                regular: None,
                length,
                disjoint: false,
                ordered: false,
                mixed: false,
            },
            ids,
            places,
            bounds,
            ends,
            starts,
            leaves: Vec::new(),
        };
        // Where no two events overlap, those of a key do not.
        let is_apart = kept.is_none_or(|kept| kept.are_disjoint() && this.are_apart_from_kept());
        this.axis.disjoint = !buffer.is_bag() && is_apart || this.is_disjoint();
        this.axis.ordered = this.axis.disjoint || length.is_some();
        this.axis.regular = this.regular();
        this
    }

    /// How many rows all keys have.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The first place of a key, or of what follows all keys.
    pub(super) fn begin(&self, key: usize) -> u32 {
        self.bounds[key]
    }

    pub(super) fn range(&self, key: usize) -> Range<usize> {
        self.bounds[key] as usize..self.bounds[key + 1] as usize
    }

    fn keys(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.bounds.len() - 1).map(|key| self.range(key))
    }

    /// Whether the first rows after those that were grouped before do not overlap them; true also of another key's, but not at the end of a line.
    fn are_apart_from_kept(&self) -> bool {
        let length = self.axis.length.unwrap_or(1);
        self.places.after_kept().all(|place| {
            let ends = self.ends.get(place - 1..=place);
            ends.is_none_or(|ends| ends[1].saturating_sub(ends[0]) >= length)
        })
    }

    fn is_disjoint(&self) -> bool {
        self.keys().all(|rows| {
            let ends = &self.ends[rows.clone()];
            match (&self.starts, self.axis.length) {
                (Some(starts), _) => starts[rows].iter().skip(1).zip(ends).all(|(s, e)| s >= e),
                (None, length) => {
                    let length = length.unwrap_or(1);
                    ends.windows(2).all(|w| w[1].saturating_sub(w[0]) >= length)
                }
            }
        })
    }

    /// The period and phase that the ends of every key have.
    fn regular(&self) -> Option<Regular> {
        self.axis.length?;
        let gap = |rows: Range<usize>| {
            let ends = &self.ends[rows];
            ends.get(1)?.checked_sub(ends[0]).filter(|gap| *gap > 0)
        };
        let period = self.keys().find_map(gap)?;
        let regular = Regular::new(period, *self.ends.first()?);
        let fits = self.keys().all(|rows| {
            let ends = &self.ends[rows];
            ends.first()
                .is_none_or(|end| Regular::new(period, *end) == regular)
                && ends
                    .windows(2)
                    .all(|w| w[1].checked_sub(w[0]) == Some(period))
        });
        fits.then_some(regular)
    }

    /// Groups the columns that are read, after those of rows that were grouped before. The others stay as they are, or are any memory that is as long.
    pub(super) fn gather(&mut self, series: &Series, read: &[usize], kept: Option<&Kept>) {
        let leaf = |(i, leaf): (usize, &Leaf)| match (read.contains(&i), kept) {
            (true, kept) => self.places.spread_leaf(leaf, kept.map(|kept| kept.leaf(i))),
            (false, None) => leaf.clone(),
            (false, Some(_)) => {
                let any = self.ends.inner().clone();
                Leaf::written(leaf.ty, self.places.len(), any, None)
            }
        };
        self.leaves = series.leaves.iter().enumerate().map(leaf).collect();
    }

    /// The rows of a key.
    pub(super) fn series(&self, key: usize) -> Series {
        let rows = self.range(key);
        let ends = self.ends.slice(rows.start, rows.len());
        let timeline = match (&self.starts, self.axis.length, self.axis.regular) {
            (Some(starts), ..) => Timeline::intervals(starts.slice(rows.start, rows.len()), ends),
            (None, Some(length), Some(regular)) => {
                let first = ends.first().copied().unwrap_or(regular.phase);
                Timeline::regular(first, regular.period, rows.len(), Spans::Fixed(length))
            }
            (None, length, _) => Timeline::explicit(ends, Spans::Fixed(length.unwrap_or(1))),
        };
        self.series_of(rows, timeline)
    }

    /// The rows of some keys, one key after the other.
    pub(super) fn line(&self, keys: Range<usize>) -> Series {
        let rows = self.bounds[keys.start] as usize..self.bounds[keys.end] as usize;
        let ends = self.ends.slice(rows.start, rows.len());
        let timeline = match &self.starts {
            Some(starts) => Timeline::intervals(starts.slice(rows.start, rows.len()), ends),
            None => Timeline::explicit(ends, Spans::Fixed(self.axis.length.unwrap_or(1))),
        };
        self.series_of(rows, timeline)
    }

    fn series_of(&self, rows: Range<usize>, timeline: Timeline) -> Series {
        let leaves = self.leaves.iter();
        Series {
            axis: Arc::new(Axis::new(timeline, Vec::new())),
            leaves: leaves
                .map(|leaf| leaf.slice(rows.start, rows.len()).aligned())
                .collect(),
            present: None,
        }
    }
}
