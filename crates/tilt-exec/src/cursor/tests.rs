use std::ops::Range;

use arrow_buffer::BooleanBuffer;
use tilt_data::{Spans, Timeline};
use tilt_ir::OPEN;

use super::{
    count::{Counter, Ticks},
    instants::Base,
    regular::{Grid, Ruler, Stride},
    *,
};

/// A few numbers that look random.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// One of `0..sides`.
    pub(crate) fn roll(&mut self, sides: i64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64) % sides
    }

    pub(crate) fn chance(&mut self, of: i64) -> bool {
        self.roll(of) == 0
    }

    /// Sorted instants, often equal ones.
    pub(crate) fn sorted(&mut self, len: i64, base: i64, room: i64) -> Vec<i64> {
        let mut instants: Vec<i64> = (0..len).map(|_| base + self.roll(room)).collect();
        instants.sort_unstable();
        instants
    }

    /// A timeline of any kind with all instants in `base-10 ..= base+30`, but for open ends.
    pub(crate) fn timeline(&mut self, base: i64, open: bool) -> Timeline {
        let len = self.roll(9);
        let stamps = self.sorted(len, base, 20);
        let last = stamps.last().copied().unwrap_or(base);
        let spans = match self.roll(5) {
            0 => Spans::Fixed(1 + self.roll(6)),
            1 => Spans::Contiguous {
                first_start: base - 3 + self.roll(6),
            },
            2 => Spans::UntilNext {
                next: if open && self.chance(2) {
                    OPEN
                } else {
                    // For regular stamps as well, the last of which is below base + 29.
                    last.max(base + 29) + self.roll(2)
                },
            },
            kind => {
                let mut before = base - 5;
                let starts: Vec<i64> = stamps
                    .iter()
                    .map(|end| {
                        let start = if kind == 3 {
                            end - self.roll(9)
                        } else {
                            before
                        };
                        before = *end;
                        start + i64::from(kind == 4 && self.chance(3))
                    })
                    .collect();
                return Timeline::intervals(starts.into(), stamps.into());
            }
        };
        if self.chance(2) {
            Timeline::explicit(stamps.into(), spans)
        } else {
            let (t0, period) = (base + self.roll(5), 1 + self.roll(3));
            Timeline::regular(t0, period, len as usize, spans)
        }
    }

    pub(crate) fn present(&mut self, len: usize) -> Option<BooleanBuffer> {
        let some = self.chance(2);
        some.then(|| BooleanBuffer::collect_bool(len, |_| !self.chance(3)))
    }

    /// A stretch near the middle of time or at one of its ends.
    fn base(&mut self) -> i64 {
        [0, -7, i64::MAX - 31, i64::MIN + 12][self.roll(4) as usize]
    }
}

/// A source, what was made of it, and instants to read at.
#[derive(Debug)]
struct Case {
    timeline: Timeline,
    present: Option<BooleanBuffer>,
    base: Base<'static>,
    len: usize,
    offset: i64,
}

impl Case {
    fn roll(dice: &mut Dice) -> Self {
        let start = dice.base();
        let timeline = dice.timeline(start, true);
        let present = dice.present(timeline.len());
        let len = 1 + dice.roll(30) as usize;
        let base = if dice.chance(2) {
            let instants = dice.sorted(len as i64, start - 11, 42);
            Base::Explicit(Vec::leak(instants))
        } else {
            let period = if len > 10 { 1 } else { 1 + dice.roll(4) };
            let t0 = (start - 11).saturating_add(dice.roll(20));
            let t0 = t0.min(i64::MAX - len as i64 * period);
            Base::Regular { t0, period }
        };
        let offset = [0, 0, 3, -4, i64::MAX, i64::MIN][dice.roll(6) as usize];
        Self {
            timeline,
            present,
            base,
            len,
            offset,
        }
    }

    fn instants(&self) -> Instants<'static> {
        let (base, offset) = (self.base, self.offset);
        Instants { base, offset: 0 }.plus(offset)
    }

    fn at(&self, row: usize) -> i64 {
        let t = match self.base {
            Base::Regular { t0, period } => t0 + row as i64 * period,
            Base::Explicit(instants) => instants[row],
        };
        t.saturating_add(self.offset)
    }

    fn is_event(&self, i: usize) -> bool {
        let valid = self.present.as_ref().is_none_or(|bits| bits.value(i));
        valid && self.timeline.start(i) < self.timeline.end(i)
    }

    fn events(&self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.timeline.len()).filter(|i| self.is_event(*i))
    }

    /// Rows in chunks of random size.
    fn chunks(&self, dice: &mut Dice) -> Vec<Range<usize>> {
        let mut chunks = Vec::new();
        let mut from = 0;
        while from < self.len {
            let to = self.len.min(from + 1 + dice.roll(20) as usize);
            chunks.push(from..to);
            from = to;
        }
        chunks
    }
}

fn number(position: Option<usize>) -> u32 {
    position.map_or(NONE, |p| p as u32)
}

#[test]
fn the_active_event_is_that_of_the_definition() {
    let mut dice = Dice(1);
    for _ in 0..40_000 {
        let case = Case::roll(&mut dice);
        let source = Source::new(&case.timeline, case.present.as_ref());
        let chunks = case.chunks(&mut dice);
        for policy in [Policy::Unique, Policy::First, Policy::Last] {
            let mut reader = Active::new(&source, policy);
            for rows in chunks.clone() {
                let mut out = vec![7; rows.len()];
                let result = reader.read(case.instants(), rows.clone(), &mut out);
                let mut failed = None;
                for (row, found) in rows.zip(&out) {
                    let t = case.at(row);
                    let active: Vec<usize> = case
                        .events()
                        .filter(|i| case.timeline.event(*i).contains(t))
                        .collect();
                    if policy == Policy::Unique && active.len() > 1 {
                        failed = Some(t);
                        break;
                    }
                    let expected = match policy {
                        Policy::Last => active.last(),
                        _ => active.first(),
                    };
                    assert_eq!(
                        *found,
                        number(expected.copied()),
                        "{policy:?} at {t} of {case:?}"
                    );
                }
                assert_eq!(result.err(), failed);
                if failed.is_some() {
                    break;
                }
            }
        }
    }
}

#[test]
fn the_held_event_is_that_of_the_definition() {
    let mut dice = Dice(2);
    for _ in 0..60_000 {
        let case = Case::roll(&mut dice);
        let source = Source::new(&case.timeline, case.present.as_ref());
        let max_age = dice.chance(2).then(|| 1 + dice.roll(8));
        let run_end = match dice.roll(3) {
            0 => i64::MAX,
            _ => case.at(0).saturating_add(dice.roll(40)),
        };
        let mut reader = Held::new(&source, max_age, run_end);
        for rows in case.chunks(&mut dice) {
            let mut out = vec![7; rows.len()];
            reader.read(case.instants(), rows.clone(), &mut out);
            for (row, found) in rows.zip(out) {
                let t = case.at(row);
                let end = |i: usize| case.timeline.end(i);
                let held = case.events().rfind(|i| end(*i) <= t && end(*i) < OPEN);
                let is_young =
                    |i: &usize| max_age.is_none_or(|age| t.saturating_sub(end(*i)) < age);
                let held = held.filter(|i| t <= run_end && is_young(i));
                assert_eq!(found, number(held), "at {t} of {case:?}");
            }
        }
    }
}

#[test]
fn windows_hold_the_events_of_the_definition() {
    let mut dice = Dice(3);
    for _ in 0..60_000 {
        let case = Case::roll(&mut dice);
        let source = Source::new(&case.timeline, case.present.as_ref());
        let hi = [0, dice.roll(9) - 4, i64::MAX, i64::MIN + 2][dice.roll(4) as usize];
        let lo = (!dice.chance(4)).then_some(hi.saturating_sub(dice.roll(9)));
        let mut reader = Window::new(&source, lo, hi);
        for rows in case.chunks(&mut dice) {
            let [mut first, mut end, mut split] = [(); 3].map(|()| vec![7; rows.len()]);
            let bounds = Bounds {
                first: &mut first,
                end: &mut end,
                split: lo.is_some().then_some(&mut split[..]),
            };
            reader.read(case.instants(), rows.clone(), bounds);
            for (k, row) in rows.enumerate() {
                let t = case.at(row);
                let (from, to) = (lo.map(|lo| t.saturating_add(lo)), t.saturating_add(hi));
                let span = |i: usize| case.timeline.event(i);
                let is_inside = |i: &usize| {
                    span(*i).start < to
                        && from.is_none_or(|from| span(*i).end > from)
                        && lo.is_none_or(|lo| lo < hi)
                };
                let found = |from: u32| {
                    let rows = (from as usize..end[k] as usize).filter(|i| case.is_event(*i));
                    // Where starts are not ordered, the bound says too much.
                    rows.filter(|i| source.is_ordered() || span(*i).start < to)
                        .collect::<Vec<_>>()
                };
                assert!(first[k] <= end[k] && end[k] as usize <= source.len());
                let expected: Vec<usize> = case.events().filter(is_inside).collect();
                assert_eq!(found(first[k]), expected, "{lo:?} {hi} at {t} of {case:?}");
                if let Some(lo) = lo {
                    assert!(first[k] <= split[k] && split[k] <= end[k]);
                    let length = i128::from(hi.saturating_sub(lo).max(1));
                    let block = (i128::from(to) - 1).div_euclid(length) * length;
                    let late = |i: &usize| i128::from(span(*i).end) > block;
                    let expected: Vec<usize> = expected.into_iter().filter(late).collect();
                    assert_eq!(found(split[k]), expected, "{lo} {hi} at {t} of {case:?}");
                }
            }
        }
    }
}

#[test]
fn counting_back_skips_positions_without_an_event() {
    let mut dice = Dice(4);
    for round in 0..300 {
        let stamps = dice.sorted(400, 0, 4000);
        let spans = if round % 2 == 0 {
            Spans::UntilNext { next: 5000 }
        } else {
            Spans::Fixed(1)
        };
        let timeline = Timeline::explicit(stamps.into(), spans);
        let sides = 2 + round % 60;
        let present = BooleanBuffer::collect_bool(420, |_| !dice.chance(sides));
        let present = (round % 3 > 0).then(|| present.slice(13, 400));
        let source = Source::new(&timeline, present.as_ref());
        let ranks = Ranks::new(&source);
        let current: Vec<u32> = (0..400).chain([NONE]).collect();
        for n in [0, 1, 2, 5, 63, 64, 65, 200, 399, 400] {
            let mut out = vec![7; current.len()];
            for (current, out) in current.iter().zip(&mut out) {
                *out = ranks.nth_before(*current, n);
            }
            for (current, found) in current.iter().zip(out) {
                let expected = match (*current, n) {
                    (NONE, _) | (_, 0) => *current,
                    _ => {
                        let mut before =
                            (0..*current as usize).rev().filter(|i| source.is_event(*i));
                        number(before.nth(n as usize - 1))
                    }
                };
                assert_eq!(found, expected, "{n} before {current}");
                let is_event = *current != NONE && source.is_event(*current as usize);
                let expected = if is_event { expected } else { NONE };
                assert_eq!(ranks.nth_before_event(*current, n), expected);
            }
        }
    }
}

#[test]
fn regular_ticks_are_counted_exactly() {
    let mut dice = Dice(5);
    let mut large = || (dice.roll(1 << 31) << 32) + dice.roll(1 << 31) * 3 - (1 << 62);
    for round in 0..20_000 {
        let t0 = large() / 2;
        let period = (large() >> (round % 62)).abs().max(1);
        let room = (i128::from(i64::MAX) - i128::from(t0)) / i128::from(period);
        let len = (room + 1).min(4_000_000_000) as usize;
        let grid = Grid { t0, period, len };
        let ruler = Ruler::new(grid).expect("there are ticks");
        let count = |limit: i64| {
            let number = (i128::from(limit) - i128::from(t0)).div_euclid(i128::from(period));
            (number + 1).clamp(0, len as i128) as u32
        };
        let tick = t0.wrapping_add((large() % len as i64).abs().wrapping_mul(period));
        for limit in [tick - 1, tick, tick.saturating_add(1), large(), i64::MIN] {
            assert_eq!(ruler.count(limit), count(limit), "{grid:?} at {limit}");
        }
    }
}

#[test]
fn regular_ticks_are_counted_exactly_at_regular_instants() {
    let mut dice = Dice(6);
    for round in 0..3_000 {
        // Cycles short and long, fine and coarse.
        let periods: [i64; 9] = [1, 3, 4, 5, 64, 97, 1000, 12_345, 1 << 40];
        let period = periods[dice.roll(9) as usize];
        let stride = periods[dice.roll(9) as usize];
        let len: i64 = [1, 7, 300, 100_000][dice.roll(4) as usize];
        let t0 = [0, -5000, i64::MIN + 10, i64::MAX - (1 << 59)][dice.roll(4) as usize];
        let rows = [1, 2, 255, 256, 300, 2048][dice.roll(6) as usize];
        let grid = Grid {
            t0,
            period,
            len: len as usize,
        };
        let first = t0
            .saturating_add(dice.roll(1 + len.saturating_mul(period).min(1 << 50)))
            .saturating_sub(dice.roll(1 + 3 * stride));
        let plus = [dice.roll(10) - 5, 1];
        let Some(counts) = Stride::new(grid, plus, first, stride, rows) else {
            continue;
        };
        let mut out = vec![7; rows];
        counts.count(&mut out);
        for (row, found) in out.iter().enumerate() {
            let limit = i128::from(first) + row as i128 * i128::from(stride);
            let distance = limit + i128::from(plus[0] + plus[1]) - i128::from(t0);
            let number = distance.div_euclid(i128::from(period)) + 1;
            let right = number.clamp(0, i128::from(len)) as u32;
            assert_eq!(*found, right, "{grid:?} every {stride}, round {round}");
        }
    }
}

/// Stamps whose distances are equal, alike or very different, some of them equal, anywhere in time.
fn stamps(dice: &mut Dice, len: i64) -> Vec<i64> {
    let base = [
        0,
        -(1 << 62),
        (1 << 62) - 5000,
        i64::MIN,
        i64::MAX - (1 << 40),
    ];
    let mut t = base[dice.roll(5) as usize];
    let (scale, often) = (dice.roll(4), 1 + dice.roll(50));
    let mut next = |_| {
        let rest = dice.roll(1 + [0, 3, 100, 1 << 26][scale as usize]);
        let far = if dice.chance(often) {
            dice.roll(3000)
        } else {
            0
        };
        t += rest + far;
        t
    };
    (0..len).map(&mut next).collect()
}

#[test]
fn counts_are_those_of_the_definition_however_dense() {
    let mut dice = Dice(7);
    for round in 0..3_000 {
        let len = [0, 1, 3, 4, 5, 50, 700, 9000][dice.roll(8) as usize];
        let ticks = stamps(&mut dice, len);
        let rows = [1, 3, 63, 64, 65, 2048][dice.roll(6) as usize];
        let middle = ticks.get(ticks.len() / 2).copied().unwrap_or(7);
        let step = [0, 1, 60, 5000, 1 << 25][dice.roll(5) as usize];
        let back = if step > 5000 { 1 } else { 900 };
        let mut t = middle.saturating_sub(dice.roll(1 + back * rows * (1 + step)));
        let mut next = |_| {
            t = t.saturating_add(dice.roll(1 + 2 * step));
            t
        };
        let instants: Vec<i64> = (0..rows).map(&mut next).collect();
        let shift = [0, 9, -1000, i64::MAX, i64::MIN][dice.roll(5) as usize];
        let mut counter = Counter::new(Ticks::Explicit(&ticks), 0, shift, -1);
        let mut at_once = counter.clone();
        let cut = dice.roll(rows + 1) as usize;
        let mut out = vec![7; rows as usize];
        counter.count(&instants[..cut], None, &mut out[..cut]);
        counter.count(&instants[cut..], None, &mut out[cut..]);
        for (t, found) in instants.iter().zip(&out) {
            let limit = t.saturating_add(shift).saturating_sub(1);
            let expected = ticks.partition_point(|tick| *tick <= limit);
            assert_eq!(
                *found as usize, expected,
                "{len} {rows} {step} in round {round}"
            );
        }
        if let Some(t) = instants.last() {
            assert_eq!(Some(&at_once.count_at(*t)), out.last());
        }
    }
}

#[test]
fn windows_of_own_rows_are_those_of_any_rows() {
    let mut dice = Dice(8);
    for _ in 0..2_000 {
        let len = [0, 1, 40, 300, 5000][dice.roll(5) as usize];
        let mut ends = stamps(&mut dice, len);
        let kind = dice.roll(6);
        if kind < 5 {
            ends.dedup();
        }
        let last = ends.last().copied().unwrap_or(0);
        let starts: Vec<i64> = (ends.iter().take(1).map(|t| t.saturating_sub(4)))
            .chain(ends.iter().copied())
            .take(ends.len())
            .collect();
        let timeline = match kind {
            0 => Timeline::explicit(ends.into(), Spans::UntilNext { next: last + 9 }),
            1 => {
                let first_start = ends.first().map_or(0, |t| t.saturating_sub(3));
                Timeline::explicit(ends.into(), Spans::Contiguous { first_start })
            }
            2 => Timeline::intervals(starts.into(), ends.into()),
            3 => Timeline::regular(last, 1 + dice.roll(9), len as usize, Spans::Fixed(1)),
            _ => Timeline::explicit(ends.into(), Spans::Fixed(1)),
        };
        let source = Source::new(&timeline, None);
        assert!(source.is_disjoint() || source.is_points());
        let ends = timeline.ends();
        let at = match timeline.period() {
            Some(period) if len > 0 => Instants::regular(ends[0], period),
            _ => Instants::explicit(&ends),
        };
        let lo = (!dice.chance(5)).then_some(-1 - dice.roll(400) * (1 + dice.roll(400)));
        let (mut own, mut any) = (Window::new(&source, lo, 0), Window::new(&source, lo, 0));
        let mut from = dice.roll(1 + timeline.len() as i64 / 2) as usize;
        while from < timeline.len() {
            let rows = from..timeline.len().min(from + 1 + dice.roll(2500) as usize);
            let [mut a, mut b] = [(); 2].map(|()| [(); 3].map(|()| vec![0; rows.len()]));
            let bounds = |[first, end, split]: &mut [Vec<u32>; 3], f: &mut dyn FnMut(Bounds)| {
                let split = lo.is_some().then_some(&mut split[..]);
                f(Bounds { first, end, split });
            };
            bounds(&mut a, &mut |bounds| own.read_own(at, rows.clone(), bounds));
            bounds(&mut b, &mut |bounds| any.read(at, rows.clone(), bounds));
            assert_eq!(a, b, "{lo:?} {rows:?} of {timeline:?}");
            from = rows.end;
        }
    }
}

#[test]
fn sources_that_are_known_are_those_that_are_looked_at() {
    let mut dice = Dice(9);
    for _ in 0..2_000 {
        let case = Case::roll(&mut dice);
        let seen = Source::new(&case.timeline, case.present.as_ref());
        let is_superseded = |i| case.timeline.is_superseded(i);
        let last = case.timeline.len().checked_sub(1);
        let is_late = |i| Some(case.timeline.end(i)) == last.map(|l| case.timeline.end(l));
        if (0..case.timeline.len()).any(|i| is_superseded(i) && !is_late(i)) {
            continue;
        }
        let shape = Shape {
            disjoint: seen.is_disjoint(),
            ordered: seen.is_ordered(),
        };
        let known = Source::known(&case.timeline, case.present.as_ref(), shape);
        assert_eq!(known.events(), seen.events(), "{case:?}");
        assert_eq!(known.is_dense(), seen.is_dense());
    }
}

/// Run with `cargo test --release -p tilt-exec -- --ignored --nocapture speed`.
#[test]
#[ignore = "measures: a test must not fail because the machine is busy"]
fn speed_of_reads() {
    const ROWS: usize = 4 << 20;
    let mut dice = Dice(6);
    let mut walk = |step: i64| {
        let mut t = 0;
        let mut next = || {
            t += 1 + dice.roll(step);
            t
        };
        (0..ROWS).map(|_| next()).collect::<Vec<i64>>()
    };
    let (instants, stamps) = (walk(100), walk(100));
    let next = OPEN;
    let starts: Vec<i64> = stamps.iter().map(|end| end - 1).collect();
    let fixed = Timeline::explicit(stamps.clone().into(), Spans::Fixed(1));
    let tiles = Timeline::explicit(stamps.clone().into(), Spans::UntilNext { next });
    let intervals = Timeline::intervals(starts.into(), stamps.clone().into());
    let regular = Timeline::regular(50, 50, ROWS, Spans::Fixed(50));
    let bag = Timeline::explicit(stamps.into(), Spans::Fixed(100));
    let cases = [
        ("points", &fixed),
        ("until next", &tiles),
        ("intervals", &intervals),
        ("regular", &regular),
        ("bag", &bag),
    ];
    let grid = Instants::regular(7, 51);
    for (name, timeline) in cases {
        let begun = std::time::Instant::now();
        let source = Source::new(timeline, None);
        report(&format!("{name} source"), ROWS, begun);
        for (kind, at) in [
            ("irregular", Instants::explicit(&instants)),
            ("regular", grid),
        ] {
            in_chunks(&format!("{name} active {kind}"), || {
                let mut active = Active::new(&source, Policy::Last);
                move |rows, [out, ..]| active.read(at, rows, out).expect("no policy fails")
            });
            in_chunks(&format!("{name} held {kind}"), || {
                let mut held = Held::new(&source, Some(60), i64::MAX);
                move |rows, [out, ..]| held.read(at, rows, out)
            });
            for splits in [false, true] {
                in_chunks(&format!("{name} bounds {kind} {splits}"), || {
                    let mut window = Window::new(&source, Some(-1000), 0);
                    move |rows, [first, end, split]| {
                        let split = splits.then_some(&mut split[..]);
                        window.read(at, rows, Bounds { first, end, split });
                    }
                });
            }
        }
        let ends = timeline.ends();
        let at = Instants::explicit(&ends);
        if source.is_disjoint() {
            in_chunks(&format!("{name} bounds of its own"), || {
                let mut window = Window::new(&source, Some(-1000), 0);
                move |rows, [first, end, split]| {
                    let split = Some(&mut split[..]);
                    window.read_own(at, rows, Bounds { first, end, split });
                }
            });
        }
    }
    let hops = Instants::regular(7, 50_000);
    let source = Source::new(&fixed, None);
    let mut window = Window::new(&source, Some(-200_000), 0);
    let [mut first, mut end, mut split] = [(); 3].map(|()| vec![0; 1024]);
    let begun = std::time::Instant::now();
    for rows in [0..1024, 1024..2048, 2048..3072, 3072..4096] {
        let (first, end, split) = (&mut first, &mut end, Some(&mut split[..]));
        window.read(hops, rows, Bounds { first, end, split });
    }
    report("bounds of hops, a row", 4096, begun);
}

/// Reports the best of some runs over rows that the caches hold, and of stretches that they do not.
fn in_chunks<R>(name: &str, reader: impl Fn() -> R)
where
    R: FnMut(Range<usize>, &mut [Vec<u32>; 3]),
{
    const STRETCH: usize = 64 * 1024;
    let mut out = [(); 3].map(|()| vec![0; 2048]);
    let mut stretch = |read: &mut R, from: usize| {
        let begun = std::time::Instant::now();
        for from in (from..from + STRETCH).step_by(2048) {
            read(from..from + 2048, &mut out);
            std::hint::black_box(&mut out);
        }
        begun.elapsed().as_secs_f64() * 1e9 / STRETCH as f64
    };
    let near = (0..50).map(|_| stretch(&mut reader(), 0));
    let near = near.fold(f64::INFINITY, f64::min);
    let mut read = reader();
    let far = (0..4 << 20).step_by(STRETCH);
    let far = far.map(|from| stretch(&mut read, from));
    let far = far.fold(f64::INFINITY, f64::min);
    println!("{name:36} {near:6.2} ns in cache, {far:6.2} ns from memory");
}

pub(crate) fn report(name: &str, rows: usize, begun: std::time::Instant) {
    let each = begun.elapsed().as_secs_f64() * 1e9 / rows as f64;
    println!("{name:36} {each:6.2} ns");
}
