//! Timelines: which streams share their intervals, whether several events of one can be active at once, and how long
//! an event can last.

use rustc_hash::FxHashMap as HashMap;

use crate::{
    ids::{Id, StreamId},
    program::{Clock, Overlap, Program, Source, SpanRule, Stream},
};

/// The identity of a list of intervals. Streams with equal timelines combine position by position.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Timeline {
    /// The rows of an input.
    Input(StreamId),
    /// The cells of a grid; `offset` lies in `0..period`.
    Grid {
        /// Ticks between grid points.
        period: i64,
        /// The least grid point that is not negative.
        offset: i64,
    },
    /// The events of a clock of sessions or of a calendar, or of an `on` clock that joins several timelines or shifts one, named by
    /// the first stream on it. Equal clocks have equal events.
    Own(StreamId),
}

impl Timeline {
    /// The timeline of a grid clock.
    pub fn grid(period: i64, offset: i64) -> Self {
        Self::Grid {
            period,
            offset: offset.rem_euclid(period.max(1)),
        }
    }
}

/// The timeline of every stream of a program, with the facts that follow from the clocks.
#[derive(Clone, Debug)]
pub struct Timelines {
    of: Vec<Timeline>,
    facts: HashMap<Timeline, Facts>,
    /// How long sessions last at most, if that is known.
    longest_session: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Facts {
    bag: bool,
    stretch: Option<i64>,
}

impl Timelines {
    /// Derives the timelines. Ids must be in range and streams in order of definition.
    pub fn new(program: &Program) -> Self {
        Self::with_sessions(program, None)
    }

    /// The same of data whose sessions last so many ticks at most.
    pub(crate) fn with_sessions(program: &Program, longest_session: Option<i64>) -> Self {
        let mut this = Self {
            of: Vec::with_capacity(program.streams.len()),
            facts: HashMap::default(),
            longest_session,
        };
        for (id, stream) in program.streams.iter() {
            let timeline = match stream {
                Stream::Input(_) => Timeline::Input(id),
                Stream::Temporal(temporal) => {
                    let twin = || {
                        let known = program.temporals().take_while(|(other, _)| *other < id);
                        let mut twins = known.filter(|(_, t)| t.clock == temporal.clock);
                        twins.next().map_or(id, |(twin, _)| twin)
                    };
                    this.aligned(&temporal.clock)
                        .unwrap_or_else(|| Timeline::Own(twin()))
                }
            };
            if !this.facts.contains_key(&timeline) {
                let facts = this.derive_facts(program, id, timeline);
                this.facts.insert(timeline, facts);
            }
            this.of.push(timeline);
        }
        this
    }

    /// The timeline of a stream.
    pub fn of(&self, stream: StreamId) -> Timeline {
        self.of[stream.index()]
    }

    /// Whether several events of the timeline may be active at one instant.
    pub fn is_bag(&self, timeline: Timeline) -> bool {
        self.facts[&timeline].bag
    }

    /// By how many ticks the end of an event can lie after an instant at which it is active; `None` if there is no limit.
    pub fn stretch(&self, timeline: Timeline) -> Option<i64> {
        self.facts[&timeline].stretch
    }

    /// The timeline on which a clock ticks event by event, evaluating at the events' ends, or `None` if the clock makes
    /// events of its own.
    pub fn aligned(&self, clock: &Clock) -> Option<Timeline> {
        match clock {
            Clock::At(stream) => Some(self.of(*stream)),
            Clock::Every { period, offset } => Some(Timeline::grid(*period, *offset)),
            Clock::OnChange(sources) => {
                let mut timelines = sources.iter().map(|source| match source {
                    Source::Value { stream, offset: 0 } => Some(self.of(*stream)),
                    _ => None,
                });
                let first = timelines.next()??;
                timelines.all(|other| other == Some(first)).then_some(first)
            }
            Clock::Calendar(_) | Clock::Sessions { .. } => None,
        }
    }

    fn derive_facts(&self, program: &Program, id: StreamId, timeline: Timeline) -> Facts {
        match (timeline, &program.streams[id]) {
            (Timeline::Grid { period, .. }, _) => Facts {
                bag: false,
                stretch: Some(period - 1),
            },
            (_, Stream::Input(input)) => Facts {
                bag: input.overlap != Overlap::Disjoint,
                stretch: match input.span {
                    SpanRule::Point => Some(0),
                    SpanRule::Fixed(d) => Some(d - 1),
                    SpanRule::UntilNext | SpanRule::Interval => None,
                },
            },
            (_, Stream::Temporal(temporal)) => match &temporal.clock {
                Clock::OnChange(sources) => {
                    // An event ends no later than any choice it is made of, and at least one is.
                    let lengths = sources.iter().map(|s| self.source_stretch(*s));
                    Facts {
                        bag: sources.iter().any(
                            |s| matches!(s, Source::Value { stream, .. } if self.is_bag(self.of(*stream))),
                        ),
                        stretch: lengths
                            .reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b)))
                            .flatten(),
                    }
                }
                Clock::Calendar(calendar) => {
                    let cells = calendar.cells(program.unit).ok();
                    Facts {
                        bag: false,
                        stretch: cells.and_then(|cells| Some(cells.longest()? - 1)),
                    }
                }
                Clock::Sessions { stream, max, .. } => {
                    let source = self.of(*stream);
                    // Only an event that is too long by itself makes a session longer than it may be. Where a session is full, what
                    // overlaps with it begins another one; points that coincide do not make it longer.
                    let longest = max.zip(self.stretch(source));
                    let points = self.stretch(source) == Some(0);
                    Facts {
                        bag: self.is_bag(source) && max.is_some() && !points,
                        stretch: match self.longest_session {
                            Some(longest) => Some(longest - 1),
                            None => longest.map(|(max, stretch)| stretch.max(max - 1)),
                        },
                    }
                }
                Clock::At(_) | Clock::Every { .. } => {
                    unreachable!("these clocks tick on timelines of others")
                }
            },
        }
    }

    /// The ticks by which an event's end can follow an instant at which the source has that choice.
    pub(crate) fn source_stretch(&self, source: Source) -> Option<i64> {
        match source {
            Source::Value { stream, .. } => self.stretch(self.of(stream)),
            Source::Hold { max_age, .. } => max_age.map(|age| age - 1),
            Source::Window { stream, lo, hi } => {
                let width = hi.checked_sub(lo)?;
                self.stretch(self.of(stream))?.checked_add(width)
            }
        }
    }
}

/// Whether `t + offset` is always the end of an event of `timeline` for a clock aligned to `here`.
pub(crate) fn is_aligned(here: Option<Timeline>, timeline: Timeline, offset: i64) -> bool {
    match (here, timeline) {
        (
            Some(Timeline::Grid {
                period: p,
                offset: o,
            }),
            Timeline::Grid { period, offset: at },
        ) => {
            let distance = i128::from(o) + i128::from(offset) - i128::from(at);
            p % period == 0 && distance % i128::from(period) == 0
        }
        (Some(here), timeline) => offset == 0 && here == timeline,
        (None, _) => false,
    }
}
