//! Sums over the two parts of a window, shared by the windows that have their split in common.
//!
//! The late part grows with the window's end, so one chain serves all windows of a split. The early part shrinks with the window's
//! beginning: its sums are kept for every position that it can begin at.

use super::{
    Contributions, Numbering, Window,
    places::{Chain, Op},
};

/// What is summed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Terms {
    /// The values.
    Values(Op),
    /// Their squares, and the greatest magnitude beside.
    Squares,
    /// The first powers, as many as said, of the distance from the part's anchor.
    Powers(usize),
    /// What a regression needs: x, d, x², x·d by the distances from the anchor.
    Line,
    /// Values times lengths, for events that no edge clips, and the lengths beside.
    Areas,
}

impl Terms {
    fn op(self) -> Op {
        match self {
            Self::Values(op) => op,
            _ => Op::Add,
        }
    }

    fn count(self) -> usize {
        match self {
            Self::Values(_) | Self::Squares | Self::Areas => 1,
            Self::Powers(n) => n,
            Self::Line => 4,
        }
    }
}

/// The sums of a part, so far.
#[derive(Clone, Debug)]
struct Growing {
    terms: Terms,
    n: u64,
    /// The contribution nearest to the split, and its end.
    anchor: (f64, i64),
    chains: [Chain; 4],
    peak: f64,
    length: i128,
}

/// The sums of a part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    pub(crate) n: u64,
    pub(crate) anchor: (f64, i64),
    pub(crate) sums: [f64; 4],
    pub(crate) peak: f64,
    pub(crate) length: i128,
}

impl Part {
    /// A sum, if there is one.
    pub(crate) fn sum(&self, i: usize) -> Option<f64> {
        (self.n > 0).then_some(self.sums[i])
    }
}

impl Growing {
    fn new(terms: Terms) -> Self {
        Self {
            terms,
            n: 0,
            anchor: (0.0, 0),
            chains: [(); 4].map(|()| Chain::new(terms.op())),
            peak: f64::NAN,
            length: 0,
        }
    }

    /// Adds a contribution, away from the split.
    #[inline]
    fn push(&mut self, place: i64, v: f64, span: impl FnOnce() -> (i64, i64)) {
        match self.terms {
            Terms::Values(_) => self.chains[0].push(place, v),
            Terms::Squares => {
                self.chains[0].push(place, v * v);
                self.peak = self.peak.max(v.abs());
            }
            Terms::Powers(count) => {
                if self.n == 0 {
                    self.anchor.0 = v;
                }
                let d = v - self.anchor.0;
                let d2 = d * d;
                let powers = [d, d2, d2 * d, d2 * d2];
                for (chain, power) in self.chains.iter_mut().zip(powers).take(count) {
                    chain.push(place, power);
                }
            }
            Terms::Line => {
                let (_, end) = span();
                if self.n == 0 {
                    self.anchor = (v, end);
                }
                let (x, d) = (distance(self.anchor.1, end), v - self.anchor.0);
                let terms = [x, d, x * x, x * d];
                for (chain, term) in self.chains.iter_mut().zip(terms) {
                    chain.push(place, term);
                }
            }
            Terms::Areas => {
                let (start, end) = span();
                let length = i128::from(end) - i128::from(start);
                self.chains[0].push(place, v * length as f64);
                self.length += length;
            }
        }
        self.n += 1;
    }

    fn finish(&self) -> Part {
        let mut sums = [0.0; 4];
        for (sum, chain) in sums.iter_mut().zip(&self.chains).take(self.terms.count()) {
            *sum = chain.finish().unwrap_or(0.0);
        }
        Part {
            n: self.n,
            anchor: self.anchor,
            sums,
            peak: self.peak,
            length: self.length,
        }
    }
}

/// `to - from`, exact before it becomes a double.
pub(crate) fn distance(from: i64, to: i64) -> f64 {
    (i128::from(to) - i128::from(from)) as f64
}

/// The sums of both parts of one window after the other.
#[derive(Debug)]
pub(crate) struct Parts {
    terms: Terms,
    numbering: Numbering,
    split: usize,
    /// The sums of the positions from `split - 1 - i` to before the split.
    early: Vec<Part>,
    late: Growing,
    /// The positions of the late part so far.
    late_first: usize,
    late_end: usize,
    /// The number of the next contribution of the late part, where those are counted.
    late_count: i64,
}

impl Parts {
    pub(crate) fn new(terms: Terms, numbering: Numbering) -> Self {
        Self {
            terms,
            numbering,
            split: usize::MAX,
            early: Vec::new(),
            late: Growing::new(terms),
            late_first: 0,
            late_end: 0,
            late_count: 0,
        }
    }

    /// The early and the late part of a window.
    pub(crate) fn of(&mut self, window: &Window, all: &Contributions) -> [Part; 2] {
        let whole = if self.terms == Terms::Areas {
            whole_events(window, all)
        } else {
            window.first..window.end
        };
        if window.is_list || self.numbering == Numbering::Events {
            return self.anew(window, all);
        }
        if window.split != self.split {
            self.split = window.split;
            self.early.clear();
            self.restart(window.split);
        }
        let early = match window.split.checked_sub(whole.start) {
            None | Some(0) => Part::default(),
            Some(count) => {
                if count > self.early.len() {
                    self.fill_early(whole.start, all);
                }
                self.early[count - 1]
            }
        };
        let late_first = whole.start.max(window.split);
        let late_end = whole.end.max(late_first);
        if late_first != self.late_first || late_end < self.late_end {
            self.restart(late_first);
            if self.numbering == Numbering::Contributions {
                let skipped = (window.split..late_first).filter(|p| all.contributes(*p));
                self.late_count = skipped.count() as i64;
            }
        }
        for p in self.late_end..late_end {
            if let Some(v) = all.double(p) {
                let place = match self.numbering {
                    Numbering::Contributions => self.late_count,
                    Numbering::Cells(first) => first + p as i64,
                    _ => (p - window.split) as i64,
                };
                self.late.push(place, v, || all.span(p));
                self.late_count += 1;
            }
        }
        self.late_end = late_end;
        [early, self.late.finish()]
    }

    fn restart(&mut self, at: usize) {
        self.late = Growing::new(self.terms);
        (self.late_first, self.late_end, self.late_count) = (at, at, 0);
    }

    /// Sums of the early part down to a position.
    fn fill_early(&mut self, first: usize, all: &Contributions) {
        self.early.clear();
        let mut growing = Growing::new(self.terms);
        let mut part = growing.finish();
        for p in (first..self.split).rev() {
            if let Some(v) = all.double(p) {
                let place = match self.numbering {
                    Numbering::Contributions => growing.n as i64,
                    _ => (self.split - 1 - p) as i64,
                };
                growing.push(place, v, || all.span(p));
                part = growing.finish();
            }
            self.early.push(part);
        }
    }

    /// Of a window that shares nothing with the next: its positions are not neighbours, or places count from its first event.
    fn anew(&mut self, window: &Window, all: &Contributions) -> [Part; 2] {
        let (mut early, mut late) = (Growing::new(self.terms), Growing::new(self.terms));
        let is_whole = |p| {
            let (start, end) = all.span(p);
            self.terms != Terms::Areas || (start >= window.from && end <= window.to)
        };
        let mut counted = 0;
        for p in (window.first..window.split).rev() {
            if let Some(v) = all.double(p) {
                let place = match self.numbering {
                    Numbering::Contributions => counted,
                    _ => (window.split - 1 - p) as i64,
                };
                counted += 1;
                if is_whole(p) {
                    early.push(place, v, || all.span(p));
                }
            }
        }
        let mut places = 0;
        for p in window.split..window.end {
            if window.is_list && all.span(p).0 >= window.to {
                continue;
            }
            let value = all.double(p);
            let holds_place = match self.numbering {
                Numbering::Contributions => value.is_some(),
                Numbering::Events => all.is_event(p),
                Numbering::Positions | Numbering::Cells(_) => true,
            };
            if let Some(v) = value
                && is_whole(p)
            {
                let place = match self.numbering {
                    Numbering::Cells(first) => first + p as i64,
                    _ => places,
                };
                late.push(place, v, || all.span(p));
            }
            places += i64::from(holds_place);
        }
        [early.finish(), late.finish()]
    }
}

/// The positions of the events that no edge of the window clips. Starts and ends are in order, so those clipped at the left come first
/// and those clipped at the right last.
fn whole_events(window: &Window, all: &Contributions) -> std::ops::Range<usize> {
    let (mut first, mut end) = (window.first, window.end);
    while first < end && all.span(first).0 < window.from {
        first += 1;
    }
    while first < end && all.span(end - 1).1 > window.to {
        end -= 1;
    }
    first..end
}
