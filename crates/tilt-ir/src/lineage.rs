//! Lineage (boundary resolution, TiLT §5.1): how far around an interval of the output each input can matter.
//!
//! The output on `(Ts, Te]` depends only on input events that intersect `(Ts - lookback, Te + lookahead]`, where each
//! reach is a number of ticks and a number of events. The events part comes from reads that count events (`prev`,
//! ordinal windows, `hold` without an age) and from edges of output events that lie where an input is φ. Both parts may be
//! used up in any order, so the reach in time is the furthest point at which the distance walked, less the `events`
//! largest gaps between neighbouring ends, is within `ticks`.
//!
//! **How it is derived.** For each stream, two reaches relative to an instant `T`:
//! - *at the end*: what an event that ends at `T` depends on;
//! - *inside*: what an event active at `T` depends on. The body is evaluated at the event's end, which may lie after `T` by the
//!   timeline's stretch (a grid cell's length less one), unless the body is *steady*: it reads only its clock's sources,
//!   which do not change inside an event.
//!
//! Reads compose by adding reaches. A read is at the end when the reader's clock ticks on the very timeline it reads, or on a
//! coarser grid of the same points.

use std::{collections::BTreeMap, fmt};

use crate::{
    expr::{Agg, Bounds, Edge, Expr},
    ids::{ExprId, Id, StreamId},
    nullness::{self, Totality},
    program::{Clock, Program, Source, Stream, Temporal},
    time::{Unit, format_duration},
    timeline::{Timeline, Timelines, is_aligned},
};

/// How far one direction reaches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reach {
    /// At most `ticks` of time and `events` gaps between events.
    Bounded {
        /// Ticks, not negative.
        ticks: i64,
        /// Gaps between neighbouring events that may be skipped besides.
        events: u64,
    },
    /// Any distance.
    Unbounded,
}

impl Reach {
    /// No distance at all.
    pub const NONE: Self = Self::Bounded {
        ticks: 0,
        events: 0,
    };

    /// Whether this reach is no longer than `other` in either of its parts.
    pub fn is_within(self, other: Self) -> bool {
        longest(self, other) == other
    }

    /// The text for people, in the program's unit: `20s`, `20s + 1 event`, `unbounded`.
    pub fn display(self, unit: Unit) -> impl fmt::Display {
        match self {
            Self::Unbounded => "unbounded".to_owned(),
            Self::Bounded { ticks, events } => {
                let ticks = format_duration(ticks, unit);
                match events {
                    0 => ticks,
                    1 => format!("{ticks} + 1 event"),
                    n => format!("{ticks} + {n} events"),
                }
            }
        }
    }
}

/// How far around the output an input matters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Halo {
    /// Into the past.
    pub lookback: Reach,
    /// Into the future.
    pub lookahead: Reach,
}

/// Where the events of a stream begin and end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Inputs whose events start or end there, in order of definition.
    pub inputs: Vec<StreamId>,
    /// Whether grid points, or boundaries of a calendar, count too.
    pub grid: bool,
}

/// The lineage of a program's output, and the change points of all its streams.
#[derive(Clone, Debug)]
pub struct Lineage {
    halos: BTreeMap<StreamId, Halo>,
    changes: Vec<Changes>,
}

impl Lineage {
    /// Resolves the boundaries of a verified program.
    pub fn new(program: &Program) -> Self {
        Self::resolved(program, None, Totality::new)
    }

    /// The same of data whose sessions last `longest` ticks at most, which is positive: how far back those matter that depend on no session
    /// which is longer.
    pub fn if_sessions_last(program: &Program, longest: i64) -> Self {
        Self::resolved(program, Some(longest), Totality::new)
    }

    /// The same where events of inputs are counted by rows that have a value in each column but that of the key: a column of a record may be φ, so a window of twenty of its values
    /// has no bound in events, but one in such rows. Sessions last `longest_session` ticks at most, if that is known.
    pub fn of_complete_rows(program: &Program, longest_session: Option<i64>) -> Self {
        Self::resolved(program, longest_session, Totality::if_complete)
    }

    fn resolved(
        program: &Program,
        longest_session: Option<i64>,
        totality: impl Fn(&Program, &Timelines) -> Totality,
    ) -> Self {
        let timelines = Timelines::with_sessions(program, longest_session);
        let mut resolver = Resolver {
            totality: totality(program, &timelines),
            timelines,
            program,
            longest_session,
            at_end: Vec::new(),
            inside: Vec::new(),
        };
        let mut changes: Vec<Changes> = Vec::new();
        for (id, stream) in program.streams.iter() {
            resolver.resolve(id);
            changes.push(match stream {
                Stream::Input(_) => Changes {
                    inputs: vec![id],
                    grid: false,
                },
                Stream::Temporal(temporal) => changes_of(&temporal.clock, &changes),
            });
        }
        let reaches = &resolver.at_end[program.output.index()];
        let halos = program
            .inputs()
            .filter_map(|(id, _)| Some((id, reaches.get(&id)?.halo())))
            .collect();
        Self { halos, changes }
    }

    /// The halo of an input, or `None` if the output does not depend on it.
    pub fn halo(&self, input: StreamId) -> Option<Halo> {
        self.halos.get(&input).copied()
    }

    /// Inputs the output depends on, with their halos.
    pub fn halos(&self) -> impl Iterator<Item = (StreamId, Halo)> {
        self.halos.iter().map(|(id, halo)| (*id, *halo))
    }

    /// Whether no input of `program`, whose lineage this is, matters further away than `other` says of the input of that name.
    pub(crate) fn is_within(
        &self,
        program: &Program,
        other: &Self,
        other_program: &Program,
    ) -> bool {
        program.inputs().all(|(id, input)| {
            let Some(halo) = self.halo(id) else {
                return true;
            };
            let theirs = other_program.stream_named(&input.name);
            theirs.and_then(|id| other.halo(id)).is_some_and(|theirs| {
                halo.lookback.is_within(theirs.lookback)
                    && halo.lookahead.is_within(theirs.lookahead)
            })
        })
    }

    /// The longest reach into the past over all inputs.
    pub fn lookback(&self) -> Reach {
        self.halos
            .values()
            .fold(Reach::NONE, |a, halo| longest(a, halo.lookback))
    }

    /// The longest reach into the future over all inputs.
    pub fn lookahead(&self) -> Reach {
        self.halos
            .values()
            .fold(Reach::NONE, |a, halo| longest(a, halo.lookahead))
    }

    /// Where the events of a stream begin and end.
    pub fn changes(&self, stream: StreamId) -> &Changes {
        &self.changes[stream.index()]
    }
}

fn longest(a: Reach, b: Reach) -> Reach {
    match (a, b) {
        (
            Reach::Bounded { ticks, events },
            Reach::Bounded {
                ticks: t,
                events: e,
            },
        ) => Reach::Bounded {
            ticks: ticks.max(t),
            events: events.max(e),
        },
        _ => Reach::Unbounded,
    }
}

fn changes_of(clock: &Clock, known: &[Changes]) -> Changes {
    let mut all = Changes {
        inputs: Vec::new(),
        grid: clock.has_cells(),
    };
    for stream in clock.streams() {
        let changes = &known[stream.index()];
        all.inputs.extend(&changes.inputs);
        all.grid |= changes.grid;
    }
    all.inputs.sort_unstable();
    all.inputs.dedup();
    all
}

/// The instants and events read around `T`: `[T + lo, T + hi]`, `back` events further back and `ahead` further ahead.
/// `None` is without limit. Unlike a [`Halo`] it is signed, so that a shift to the future undoes one to the past.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Extent {
    lo: Option<i64>,
    hi: Option<i64>,
    back: u64,
    ahead: u64,
}

impl Extent {
    const HERE: Self = Self {
        lo: Some(0),
        hi: Some(0),
        back: 0,
        ahead: 0,
    };

    fn halo(self) -> Halo {
        let reach = |ticks: Option<i64>, events| match ticks {
            Some(ticks) => Reach::Bounded {
                ticks: ticks.max(0),
                events,
            },
            None => Reach::Unbounded,
        };
        Halo {
            lookback: reach(self.lo.map(i64::saturating_neg), self.back),
            lookahead: reach(self.hi, self.ahead),
        }
    }

    /// What is read through a read of this extent at every instant of `[T + lo, T + hi]`.
    fn moved(self, lo: Option<i64>, hi: Option<i64>) -> Self {
        let add = |a: Option<i64>, b: Option<i64>| a.zip(b).map(|(a, b)| a.saturating_add(b));
        Self {
            lo: add(self.lo, lo),
            hi: add(self.hi, hi),
            ..self
        }
    }

    fn union(self, other: Self) -> Self {
        Self {
            lo: self.lo.zip(other.lo).map(|(a, b)| a.min(b)),
            hi: self.hi.zip(other.hi).map(|(a, b)| a.max(b)),
            back: self.back.max(other.back),
            ahead: self.ahead.max(other.ahead),
        }
    }
}

/// The extent for each input that matters.
type Extents = BTreeMap<StreamId, Extent>;

fn add_all(into: &mut Extents, from: impl IntoIterator<Item = (StreamId, Extent)>) {
    for (input, extent) in from {
        into.entry(input)
            .and_modify(|known| *known = known.union(extent))
            .or_insert(extent);
    }
}

fn each(extents: &Extents, f: impl Fn(Extent) -> Extent) -> Extents {
    extents.iter().map(|(id, e)| (*id, f(*e))).collect()
}

/// How the events of a stream can be counted.
enum Density {
    /// At least one event for every event of the input that counts.
    Input(StreamId),
    /// By data only.
    Unknown,
}

/// Where an expression is evaluated.
#[derive(Clone, Copy)]
struct Place {
    /// The timeline at the ends of whose events `T` lies.
    aligned: Option<Timeline>,
    /// The stream being defined.
    this: StreamId,
    /// The stream of the event that ends at `T`: the one being defined, or the one a map is applied to.
    event: StreamId,
}

struct Resolver<'a> {
    program: &'a Program,
    timelines: Timelines,
    totality: Totality,
    longest_session: Option<i64>,
    at_end: Vec<Extents>,
    inside: Vec<Extents>,
}

impl Resolver<'_> {
    fn resolve(&mut self, id: StreamId) {
        let (at_end, inside) = match &self.program.streams[id] {
            Stream::Input(_) => {
                let here = Extents::from([(id, Extent::HERE)]);
                (here.clone(), here)
            }
            Stream::Temporal(temporal) => {
                let timeline = self.timelines.of(id);
                let at_end = if self.timelines.is_bag(timeline) {
                    self.evaluated(id, temporal, self.timelines.aligned(&temporal.clock))
                } else {
                    // Its own events end there, whoever else is on that timeline.
                    self.evaluated(id, temporal, Some(timeline))
                };
                let steady = is_steady(
                    self.program,
                    &self.timelines,
                    temporal.body,
                    &temporal.clock,
                );
                let inside = if steady {
                    self.evaluated(id, temporal, None)
                } else {
                    let stretch = self.stretch(id);
                    each(&at_end, |e| e.union(e.moved(Some(0), stretch)))
                };
                (at_end, inside)
            }
        };
        self.at_end.push(at_end);
        self.inside.push(inside);
    }

    /// What an event depends on, evaluated at an instant of which it is known that it ends events of `aligned`.
    fn evaluated(&self, id: StreamId, temporal: &Temporal, aligned: Option<Timeline>) -> Extents {
        let mut extents = Extents::new();
        self.clock(&temporal.clock, temporal.body, aligned, &mut extents);
        let place = Place {
            aligned,
            this: id,
            event: id,
        };
        self.expr(temporal.body, place, &mut extents);
        if self.reads_itself(id, temporal.body) {
            extents = each(&extents, |e| Extent { lo: None, ..e });
        }
        extents
    }

    /// By how many ticks the end of an event of `id` can follow an instant inside it. A source without which there is no
    /// event limits it, however long the others last.
    fn stretch(&self, id: StreamId) -> Option<i64> {
        let limit = self.timelines.stretch(self.timelines.of(id));
        let Some((temporal, Clock::OnChange(sources))) = self.program.streams[id]
            .as_temporal()
            .map(|t| (t, &t.clock))
        else {
            return limit;
        };
        sources
            .iter()
            .filter(|s| nullness::strict_in_source(self.program, temporal.body, **s))
            .filter_map(|s| self.timelines.source_stretch(*s))
            .chain(limit)
            .min()
    }

    /// What the start and end of an event of the clock depend on.
    fn clock(&self, clock: &Clock, body: ExprId, aligned: Option<Timeline>, into: &mut Extents) {
        match clock {
            Clock::Every { .. } | Clock::Calendar(_) => {}
            Clock::Sessions { stream, gap, .. } => {
                // Where a session begins depends on all events before it, unless it is known how long it is; that it ends, on the gap after it.
                let inside = &self.inside[stream.index()];
                let lo = self.longest_session.map(i64::saturating_neg);
                add_all(into, each(inside, |e| e.moved(lo, Some(*gap))));
            }
            Clock::At(stream) => {
                let extents = match aligned {
                    Some(_) => &self.at_end,
                    None => &self.inside,
                };
                add_all(into, extents[stream.index()].clone());
            }
            Clock::OnChange(sources) => {
                let on_one_timeline = self.timelines.aligned(clock).is_some();
                // Where each event lies in one of a single tick, nothing changes inside of it.
                let is_instant = sources.iter().any(|source| {
                    matches!(source, Source::Value { .. })
                        && self.timelines.stretch(self.timelines.of(source.stream())) == Some(0)
                        && nullness::strict_in_source(self.program, body, *source)
                });
                for source in sources {
                    let stream = source.stream();
                    let inside = &self.inside[stream.index()];
                    match *source {
                        Source::Value { offset: 0, .. } if on_one_timeline => {
                            let extents = match aligned {
                                Some(_) => &self.at_end[stream.index()],
                                None => inside,
                            };
                            add_all(into, extents.clone());
                        }
                        Source::Value { offset, .. } => {
                            let read = each(inside, |e| e.moved(Some(offset), Some(offset)));
                            // Where the body has a value without this source, the event before it and the start of the one
                            // after it are edges of output events.
                            let strict = nullness::strict_in_source(self.program, body, *source);
                            add_all(
                                into,
                                if strict {
                                    read
                                } else {
                                    self.edges(stream, &read)
                                },
                            );
                        }
                        Source::Hold {
                            offset, max_age, ..
                        } => {
                            // A held event ends when the next one comes, one tick ahead. Only one with an age can lapse, which
                            // leaves an edge where the body has a value without it.
                            let read = self.hold(stream, offset, max_age);
                            let ahead = i64::from(!is_instant);
                            let next = each(&read, |e| e.union(e.moved(Some(0), Some(ahead))));
                            add_all(into, next);
                            let strict = nullness::strict_in_source(self.program, body, *source);
                            if max_age.is_some() && !strict {
                                add_all(into, self.edges(stream, &read));
                            }
                        }
                        Source::Window { lo, hi, .. } => {
                            let read = each(inside, |e| e.moved(Some(lo), Some(hi)));
                            add_all(into, self.edges(stream, &read));
                        }
                    }
                }
            }
        }
    }

    /// Extends a read so that it sees the last event of `stream` that ended before it and one that starts right after it.
    fn edges(&self, stream: StreamId, read: &Extents) -> Extents {
        let density = self.density(stream);
        read.iter()
            .map(|(input, e)| {
                let (lo, back) = match density {
                    Density::Input(of) if of == *input => (e.lo, e.back + 1),
                    _ => (None, e.back),
                };
                let hi = e.hi.map(|hi| hi.saturating_add(1));
                (*input, Extent { lo, hi, back, ..*e })
            })
            .collect()
    }

    fn expr(&self, id: ExprId, place: Place, into: &mut Extents) {
        let expr = self.program.expr(id);
        // The stream's own past is accounted for where all its other reads are known.
        let reads_itself = expr.stream() == Some(place.this);
        match expr {
            // What a map reads beside it, it reads at the ends of earlier events; how early does not matter.
            Expr::Reduce { map: Some(map), .. } if reads_itself => {
                let aligned = Some(self.timelines.of(place.this));
                let in_map = Place {
                    aligned,
                    event: place.this,
                    ..place
                };
                self.expr(*map, in_map, into);
            }
            _ if reads_itself => {}
            Expr::At { stream, offset } => {
                add_all(into, self.read(*stream, *offset, place));
            }
            Expr::Edge {
                stream,
                offset,
                edge,
            } => {
                let mut read = self.read(*stream, *offset, place);
                if *edge == Edge::End && self.program.streams[*stream].as_temporal().is_some() {
                    // The end is known only once it is reached.
                    let stretch = self.stretch(*stream);
                    read = each(&read, |e| e.union(e.moved(Some(0), stretch)));
                }
                add_all(into, read);
            }
            Expr::Hold {
                stream,
                offset,
                max_age,
            } => add_all(into, self.hold(*stream, *offset, *max_age)),
            Expr::Prev { stream, n } => {
                let mut read = self.read(*stream, 0, place);
                if place.aligned != Some(self.timelines.of(*stream)) {
                    read = self.unordered(*stream, &read);
                }
                add_all(into, self.events_back(*stream, &read, u64::from(*n)));
            }
            Expr::Reduce { agg, window, map } => {
                let stream = window.stream;
                let timeline = self.timelines.of(stream);
                let mut mapped = Extents::new();
                if let Some(map) = map {
                    let in_map = Place {
                        aligned: Some(timeline),
                        this: place.this,
                        event: stream,
                    };
                    self.expr(*map, in_map, &mut mapped);
                }
                let bounds = self.bounds_in_time(window.bounds, place);
                // At the end of an event, those that intersect a window up to there have ended as well.
                let ended = place.aligned == Some(timeline) && !self.timelines.is_bag(timeline);
                if ended
                    && let Bounds::Ordinal { lo, hi } = bounds
                    && hi <= 0
                {
                    add_all(&mut mapped, self.at_end[stream.index()].clone());
                    add_all(into, self.counted_back(stream, &mapped, lo));
                    return;
                }
                if ended
                    && let Bounds::Time { lo, hi } = bounds
                    && hi <= 0
                {
                    let hi = self
                        .stretch(stream)
                        .map_or(0, |s| hi.saturating_add(s).min(0));
                    add_all(&mut mapped, self.at_end[stream.index()].clone());
                    add_all(into, each(&mapped, |e| e.moved(lo, Some(hi))));
                    return;
                }
                let mut element = self.inside[stream.index()].clone();
                // These look at the ends of events, which those of an input carry with them.
                if matches!(agg, Agg::ArgMin | Agg::ArgMax | Agg::Slope)
                    && !matches!(timeline, Timeline::Input(_))
                {
                    let stretch = self.stretch(stream);
                    element = each(&element, |e| e.union(e.moved(Some(0), stretch)));
                }
                if let Some(map) = map {
                    let stretch = if is_steady_map(self.program, &self.timelines, *map, stream) {
                        Some(0)
                    } else {
                        self.stretch(stream)
                    };
                    add_all(
                        &mut element,
                        each(&mapped, |e| e.union(e.moved(Some(0), stretch))),
                    );
                }
                let read = match bounds {
                    Bounds::Event => unreachable!("a window of an event is one in time"),
                    Bounds::Time { lo, hi } => each(&element, |e| e.moved(lo, Some(hi))),
                    Bounds::Ordinal { lo, hi } => {
                        let element = self.unordered(stream, &element);
                        let read = self.counted_back(stream, &element, lo);
                        // The first step ahead leads to the end of the current event, unless that is where we are.
                        let current = u64::from(self.stretch(stream) != Some(0));
                        let ahead = if hi > 0 { hi as u64 + current } else { 0 };
                        self.events_ahead(stream, &read, ahead)
                    }
                };
                add_all(into, read);
            }
            _ => expr.for_each_operand(|operand| self.expr(operand, place, into)),
        }
    }

    /// The bounds of a window, those of an event as far as it can last.
    fn bounds_in_time(&self, bounds: Bounds, place: Place) -> Bounds {
        match bounds {
            Bounds::Event => Bounds::Time {
                lo: self.stretch(place.event).map(|stretch| -1 - stretch),
                hi: 0,
            },
            bounds => bounds,
        }
    }

    /// A read of the events of a window that begins `lo` events from the current one.
    fn counted_back(&self, stream: StreamId, read: &Extents, lo: Option<i64>) -> Extents {
        match lo {
            // The current event, from which the window counts, may be the last one before `T`.
            Some(lo) => self.events_back(stream, read, lo.saturating_neg().max(1) as u64),
            None => each(read, |e| Extent { lo: None, ..e }),
        }
    }

    /// A read of the event active at `T + offset`.
    fn read(&self, stream: StreamId, offset: i64, place: Place) -> Extents {
        let at_end = is_aligned(place.aligned, self.timelines.of(stream), offset);
        let extents = if at_end { &self.at_end } else { &self.inside };
        each(&extents[stream.index()], |e| {
            e.moved(Some(offset), Some(offset))
        })
    }

    /// A read that counts events back from one that has not ended: overlapping events are numbered by their ends, so those
    /// before it may start later.
    fn unordered(&self, stream: StreamId, read: &Extents) -> Extents {
        let timeline = self.timelines.of(stream);
        if !self.timelines.is_bag(timeline) {
            return read.clone();
        }
        let stretch = self.timelines.stretch(timeline);
        each(read, |e| e.union(e.moved(Some(0), stretch)))
    }

    /// A read of the last event that ended at or before `T + offset`.
    fn hold(&self, stream: StreamId, offset: i64, max_age: Option<i64>) -> Extents {
        let at_end = &self.at_end[stream.index()];
        if let Some(age) = max_age {
            each(at_end, |e| {
                e.moved(Some(offset.saturating_sub(age)), Some(offset))
            })
        } else {
            let here = each(at_end, |e| e.moved(Some(offset), Some(offset)));
            self.events_back(stream, &here, 1)
        }
    }

    /// A read moved `n` events of `stream` into the past.
    fn events_back(&self, stream: StreamId, read: &Extents, n: u64) -> Extents {
        self.count(stream, read, n, |e, counted| {
            if counted {
                Extent {
                    back: e.back.saturating_add(n),
                    ..e
                }
            } else {
                Extent { lo: None, ..e }
            }
        })
    }

    /// A read moved `n` events of `stream` into the future.
    fn events_ahead(&self, stream: StreamId, read: &Extents, n: u64) -> Extents {
        self.count(stream, read, n, |e, counted| {
            if counted {
                Extent {
                    ahead: e.ahead.saturating_add(n),
                    ..e
                }
            } else {
                Extent { hi: None, ..e }
            }
        })
    }

    /// Applies `step` to each input, telling it whether events of `stream` are events of that input.
    fn count(
        &self,
        stream: StreamId,
        read: &Extents,
        n: u64,
        step: impl Fn(Extent, bool) -> Extent,
    ) -> Extents {
        if n == 0 {
            return read.clone();
        }
        let density = self.density(stream);
        read.iter()
            .map(|(input, e)| {
                let counted = matches!(density, Density::Input(of) if of == *input);
                (*input, step(*e, counted))
            })
            .collect()
    }

    fn density(&self, stream: StreamId) -> Density {
        match self.timelines.of(stream) {
            Timeline::Input(input) if self.totality.is_total(stream) => Density::Input(input),
            _ => Density::Unknown,
        }
    }

    fn reads_itself(&self, id: StreamId, body: ExprId) -> bool {
        let mut found = false;
        self.program
            .walk(body, &mut |_, expr| found |= expr.stream() == Some(id));
        found
    }
}

/// Whether the body has one value throughout an event of the clock: it reads nothing but the clock's sources.
pub(crate) fn is_steady(
    program: &Program,
    timelines: &Timelines,
    body: ExprId,
    clock: &Clock,
) -> bool {
    let at;
    let sources: &[Source] = match clock {
        Clock::Every { .. } | Clock::Calendar(_) | Clock::Sessions { .. } => return false,
        Clock::At(stream) => {
            at = [Source::Value {
                stream: *stream,
                offset: 0,
            }];
            &at
        }
        Clock::OnChange(sources) => sources,
    };
    let bound = |stream: StreamId, offset: i64| {
        sources.iter().any(|source| {
            matches!(source, Source::Value { stream: s, offset: o }
                if *o == offset && timelines.of(*s) == timelines.of(stream))
        })
    };
    let mut steady = true;
    program.walk(body, &mut |_, expr| {
        steady &= match *expr {
            Expr::Time => false,
            // The set of events in a source window does not change, only how they are clipped.
            Expr::Reduce { agg, window, .. } => {
                let clipped = matches!(agg, Agg::Twa | Agg::Integral | Agg::Custom(_));
                let is_source = |source: &Source| {
                    matches!(*source, Source::Window { stream, lo, hi }
                        if stream == window.stream
                            && window.bounds == Bounds::Time { lo: Some(lo), hi })
                };
                !clipped && sources.iter().any(is_source)
            }
            Expr::At { stream, offset } | Expr::Edge { stream, offset, .. } => {
                bound(stream, offset)
            }
            Expr::Prev { stream, .. } => bound(stream, 0),
            Expr::Hold {
                stream,
                offset,
                max_age,
            } => sources.contains(&Source::Hold {
                stream,
                offset,
                max_age,
            }),
            _ => true,
        };
    });
    steady
}

/// Whether a map depends on nothing but the event it is applied to.
fn is_steady_map(program: &Program, timelines: &Timelines, map: ExprId, stream: StreamId) -> bool {
    let mut steady = true;
    program.walk(map, &mut |_, expr| {
        steady &= match *expr {
            // The end of an input's event is part of the event.
            Expr::Time => matches!(timelines.of(stream), Timeline::Input(_)),
            // The value of the very event, wherever it comes from.
            Expr::At {
                stream: s,
                offset: 0,
            } if s == stream => true,
            Expr::Reduce { .. } | Expr::Hold { .. } => false,
            Expr::At {
                stream: s, offset, ..
            }
            | Expr::Edge {
                stream: s, offset, ..
            } => {
                offset == 0
                    && timelines.of(s) == timelines.of(stream)
                    && program.streams[s].as_input().is_some()
            }
            Expr::Prev { .. } => false,
            _ => true,
        };
    });
    steady
}

#[cfg(test)]
mod tests;
