//! The rows in a window.

use std::ops::Range;

use super::{
    Instants, Source,
    edges::{Ended, Started},
    saturate,
};

/// Where [`Window::read`] writes: one position a row in each.
#[derive(Debug)]
pub(crate) struct Bounds<'a> {
    /// The first row that ends after the window's beginning.
    pub(crate) first: &'a mut [u32],
    /// The first row that starts at or after the window's end, if starts are ordered. Otherwise no row from here on
    /// starts before the window's end, but some before may not either.
    pub(crate) end: &'a mut [u32],
    /// Of windows with a beginning: the first row that ends after the last multiple of the window's length that lies
    /// before the window's end.
    pub(crate) split: Option<&'a mut [u32]>,
}

/// Reads the rows in a window `(t+lo, t+hi]`: those of `first..end`, with `first <= split <= end`.
#[derive(Clone, Debug)]
pub(crate) struct Window<'a> {
    lo: Option<i64>,
    hi: i64,
    disjoint: bool,
    ended: Ended<'a>,
    started: Started<'a>,
    blocks: Blocks<'a>,
    instants: Vec<i64>,
}

impl<'a> Window<'a> {
    /// A reader that stands before the first row. Without `lo` windows begin with the first row of all; they are empty
    /// if `lo >= hi`.
    pub(crate) fn new(source: &'a Source<'a>, lo: Option<i64>, hi: i64) -> Self {
        let length = lo.map_or(1, |lo| hi.saturating_sub(lo).max(1));
        Self {
            lo,
            hi,
            disjoint: source.is_disjoint(),
            ended: Ended::new(source, lo.unwrap_or(0)),
            started: Started::new(source, hi),
            blocks: Blocks::new(source, length),
            instants: Vec::new(),
        }
    }

    /// Writes the bounds of each row's window.
    ///
    /// # Panics
    /// When the bounds are not one a row, or the split of windows without a beginning is asked for.
    pub(crate) fn read(&mut self, at: Instants, rows: Range<usize>, bounds: Bounds) {
        let Bounds { first, end, split } = bounds;
        assert!(
            rows.len() == first.len() && rows.len() == end.len(),
            "one position a row"
        );
        let instants = at.of(rows, &mut self.instants);
        match self.lo {
            Some(_) => self.ended.count(instants, at.stride(), first),
            None => first.fill(0),
        }
        if self.lo.is_some_and(|lo| lo >= self.hi) {
            end.copy_from_slice(first);
        } else {
            self.started.count(instants, at.stride(), end);
            for (first, end) in first.iter().zip(&mut *end) {
                *end = (*end).max(*first);
            }
        }
        if let Some(split) = split {
            assert!(self.lo.is_some(), "a window without a beginning has no end");
            assert_eq!(split.len(), first.len(), "one position a row");
            let edges = Edges { first, end: &*end };
            self.blocks.split(instants, self.hi, edges, split);
        }
    }

    /// Writes how many rows of the source have ended by each instant plus `lo`: where windows begin that begin there.
    pub(crate) fn count_ended(&mut self, instants: &[i64], out: &mut [u32]) {
        self.ended.count(instants, None, out);
    }

    /// Writes how many rows of the source have started before the instant of each row plus `hi`, or a bound if starts are not ordered.
    pub(crate) fn count_started(&mut self, at: Instants, rows: Range<usize>, out: &mut [u32]) {
        let instants = at.of(rows, &mut self.instants);
        self.started.count(instants, at.stride(), out);
    }

    /// As [`Window::read`] for rows that are the source's own, where windows end with the row's event: `(t+lo, t]` with
    /// `lo < 0`, of rows that do not overlap or are points.
    ///
    /// # Panics
    /// As [`Window::read`] does.
    pub(crate) fn read_own(&mut self, at: Instants, rows: Range<usize>, bounds: Bounds) {
        debug_assert!(self.hi == 0 && self.lo.is_none_or(|lo| lo < 0));
        // Where a window's beginning is saturated, or a row's start, the last row of a window may not be in it.
        let lo = self.lo.unwrap_or(-1);
        let begins = at.first(&rows).is_some_and(|t| t.checked_add(lo).is_some());
        if !begins {
            return self.read(at, rows, bounds);
        }
        let Bounds { first, end, split } = bounds;
        assert!(
            rows.len() == first.len() && rows.len() == end.len(),
            "one position a row"
        );
        let start = rows.start as u32;
        let instants = at.of(rows, &mut self.instants);
        match self.lo {
            Some(_) => self.ended.count(instants, at.stride(), first),
            None => first.fill(0),
        }
        for (end, next) in end.iter_mut().zip(start + 1..) {
            *end = next;
        }
        if let (false, Some(last)) = (self.disjoint, instants.last()) {
            // Points overlap where they are equal, and all of them are in the window.
            let mut after = (*last, self.started.count_at(*last));
            for (t, end) in instants.iter().zip(end).rev() {
                if *t != after.0 {
                    after = (*t, *end);
                }
                *end = after.1;
            }
        }
        if let Some(split) = split {
            assert!(self.lo.is_some(), "a window without a beginning has no end");
            assert_eq!(split.len(), first.len(), "one position a row");
            self.blocks.split_own(instants, start, split);
        }
    }
}

/// The edges of windows, one each a row.
#[derive(Clone, Copy)]
struct Edges<'a> {
    first: &'a [u32],
    end: &'a [u32],
}

/// Time in blocks `(b, b + length]`, `b` a multiple of the length.
#[derive(Clone, Debug)]
struct Blocks<'a> {
    length: i64,
    /// Where the block of the last instant begins, rounded to what fits.
    begin: i64,
    /// Where it ends, likewise.
    end: i64,
    ended: Ended<'a>,
    /// The first row that ends after the block's beginning.
    position: u32,
    /// Where the blocks that were entered begin, and the first row that ends after that.
    begins: Vec<i64>,
    positions: Vec<u32>,
}

impl<'a> Blocks<'a> {
    fn new(source: &Source<'a>, length: i64) -> Self {
        Self {
            length,
            begin: i64::MIN,
            end: i64::MIN,
            ended: Ended::new(source, 0),
            position: 0,
            begins: Vec::new(),
            positions: Vec::new(),
        }
    }

    /// Writes the first row that ends after the beginning of the block that holds each instant plus `hi`, within the
    /// edges of the row's window.
    fn split(&mut self, instants: &[i64], hi: i64, edges: Edges, out: &mut [u32]) {
        self.begins.clear();
        // First the number of the block, then what is there: positions are found for all blocks together.
        let (mut number, mut end) = (0, self.end);
        for (t, out) in instants.iter().zip(&mut *out) {
            let t = t.saturating_add(hi);
            if t > end {
                self.enter(t);
                end = self.end;
                self.begins.push(self.begin);
                number += 1;
            }
            *out = number;
        }
        let blocks = self.begins.len();
        self.positions.resize(blocks + 1, 0);
        self.positions[0] = self.position;
        self.ended
            .count(&self.begins, None, &mut self.positions[1..=blocks]);
        self.position = self.positions[blocks];
        let edges = edges.first.iter().zip(edges.end);
        for (out, (first, end)) in out.iter_mut().zip(edges) {
            *out = self.positions[*out as usize].max(*first).min(*end);
        }
    }

    /// As [`Blocks::split`] where the rows are the source's own, from row `start` on: the first row in a block is the
    /// first that ends after its beginning.
    fn split_own(&mut self, instants: &[i64], start: u32, out: &mut [u32]) {
        if let Some(first) = instants.first()
            && *first > self.end
        {
            // There may be rows before that were not asked for.
            self.enter(*first);
            self.position = self.ended.count_at(self.begin);
        }
        let mut position = self.position;
        let mut row = 0;
        while let Some(t) = instants.get(row) {
            if *t > self.end {
                self.enter(*t);
                position = start + row as u32;
            }
            let same = 1 + until(&instants[row + 1..], self.end);
            out[row..row + same].fill(position);
            row += same;
        }
        self.position = position;
    }

    /// Goes on to the block of an instant after the end of the present one.
    fn enter(&mut self, t: i64) {
        (self.begin, self.end) = match self.end.checked_add(self.length) {
            // The usual step, unless nothing has been entered or an edge was rounded.
            Some(end) if self.begin > i64::MIN && t <= end => (self.end, end),
            _ => {
                let length = i128::from(self.length);
                let begin = (i128::from(t) - 1).div_euclid(length) * length;
                (saturate(begin), saturate(begin + length))
            }
        };
    }
}

/// How many of some instants in order are at or before a limit, which may be few or most of them.
fn until(instants: &[i64], limit: i64) -> usize {
    const FEW: usize = 16;
    let few = &instants[..instants.len().min(FEW)];
    let first = few.iter().take_while(|t| **t <= limit).count();
    if first < FEW {
        return first;
    }
    FEW + instants[FEW..].partition_point(|t| *t <= limit)
}
