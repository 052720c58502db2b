//! Clocks: the events at which a temporal expression is evaluated.

use std::rc::Rc;

use tilt_ir::{Clock, Program, Source, Span, StreamId, Temporal};

use crate::{
    range::saturate,
    timeline::{Series, Streams, Timeline, TimelineId},
};

/// An event of a clock: where the body is evaluated, and which events its reads are bound to.
#[derive(Debug)]
pub(crate) struct Tick {
    pub(crate) position: usize,
    pub(crate) bound: Vec<Binding>,
}

/// Reads of streams on `timeline` at `offset` take this position, whatever else is active. No position is φ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) timeline: TimelineId,
    pub(crate) offset: i64,
    pub(crate) position: Option<usize>,
}

/// The events of the `at`, `on` or `sessions` clock of a temporal expression, on a timeline that it shares or is the first on.
pub(crate) fn event_ticks(
    program: &Program,
    id: StreamId,
    temporal: &Temporal,
    streams: &Streams,
    run: Span,
) -> (Rc<Timeline>, Vec<Tick>) {
    let sources = match &temporal.clock {
        Clock::At(stream) => &[Source::Value {
            stream: *stream,
            offset: 0,
        }][..],
        Clock::OnChange(sources) => sources,
        Clock::Sessions { stream, gap, max } => {
            return session_ticks(program, id, temporal, &streams[*stream], *gap, *max);
        }
        Clock::Every { .. } | Clock::Calendar(_) => {
            unreachable!("cells are no events of another stream")
        }
    };
    if let Some(aligned) = aligned(sources, streams) {
        let timeline = Rc::clone(&aligned[0].timeline);
        let bound_to = |position| Binding {
            timeline: timeline.id,
            offset: 0,
            position: Some(position),
        };
        let ticks = with_a_value(&aligned)
            .map(|position| Tick {
                position,
                bound: vec![bound_to(position)],
            })
            .collect();
        return (timeline, ticks);
    }
    let groups = groups(sources, streams, run);
    let combinations = combine(&groups);
    let intervals = combinations.iter().map(|c| c.span).collect();
    let timeline = Timeline::new(
        TimelineId::Own(first_with(program, id, &temporal.clock)),
        intervals,
    );
    let ticks = combinations.into_iter().enumerate();
    let ticks = ticks.map(|(position, combination)| Tick {
        position,
        bound: groups
            .iter()
            .zip(combination.choices)
            .filter_map(|(group, position)| {
                let (timeline, offset) = group.binds?;
                Some(Binding {
                    timeline,
                    offset,
                    position,
                })
            })
            .collect(),
    });
    (timeline, ticks.collect())
}

/// The first stream with this clock: equal clocks have equal events.
pub(crate) fn first_with(program: &Program, id: StreamId, clock: &Clock) -> StreamId {
    let mut temporals = program.temporals();
    let twin = temporals.find(|(_, temporal)| temporal.clock == *clock);
    twin.map_or(id, |(twin, _)| twin)
}

/// The events of a `sessions` clock. Nothing is bound.
fn session_ticks(
    program: &Program,
    id: StreamId,
    temporal: &Temporal,
    series: &Series,
    gap: i64,
    max: Option<i64>,
) -> (Rc<Timeline>, Vec<Tick>) {
    let events = series.events().iter();
    let events = events.map(|position| series.timeline.interval(*position));
    let sessions = sessions(events.collect(), gap, max);
    let first = first_with(program, id, &temporal.clock);
    let timeline = Timeline::new(TimelineId::Own(first), sessions);
    let tick = |position| Tick {
        position,
        bound: Vec::new(),
    };
    let ticks = (0..timeline.len()).map(tick).collect();
    (timeline, ticks)
}

/// The sessions of events, ordered by end.
fn sessions(mut events: Vec<Span>, gap: i64, max: Option<i64>) -> Vec<Span> {
    events.sort_by_key(|event| event.start);
    let mut sessions: Vec<Span> = Vec::new();
    for event in events {
        if let Some(session) = sessions.last_mut() {
            let pause = i128::from(event.start) - i128::from(session.end);
            let end = session.end.max(event.end);
            let length = i128::from(end) - i128::from(session.start);
            if pause < gap.into() && max.is_none_or(|max| length <= max.into()) {
                session.end = end;
                continue;
            }
        }
        sessions.push(event);
    }
    // One that is too long by itself may end after those that begin inside of it.
    sessions.sort_by_key(|session| session.end);
    sessions
}

/// The streams of a clock whose sources are all unshifted reads on one timeline.
fn aligned<'a>(sources: &[Source], streams: &'a Streams) -> Option<Vec<&'a Series>> {
    let series: Option<Vec<&Series>> = sources
        .iter()
        .map(|source| match source {
            Source::Value { stream, offset: 0 } => Some(&streams[*stream]),
            _ => None,
        })
        .collect();
    let first = series.as_ref()?.first()?.timeline.id;
    series.filter(|series| series.iter().all(|s| s.timeline.id == first))
}

/// The positions at which at least one of these streams, all on one timeline, has a value.
fn with_a_value(series: &[&Series]) -> impl Iterator<Item = usize> {
    (0..series[0].timeline.len()).filter(|position| series.iter().any(|s| s.has_value(*position)))
}

/// Sources that are chosen together, with everything that can be chosen.
struct Group {
    /// What a choice binds; holds and windows bind nothing.
    binds: Option<(TimelineId, i64)>,
    choices: Vec<Choice>,
}

/// An event that may be chosen on an interval of the clock's time.
#[derive(Clone, Copy, Debug)]
struct Choice {
    span: Span,
    /// A position of the group's timeline, or the running number of a window's state.
    position: usize,
}

impl Choice {
    /// A choice available on `(start, end]`, or none if that is empty.
    fn on(start: i64, end: i64, position: usize) -> Option<Self> {
        (start < end).then_some(Self {
            span: Span::new(start, end),
            position,
        })
    }
}

/// The groups in order of the first source of each.
fn groups(sources: &[Source], streams: &Streams, run: Span) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for source in sources {
        let series = &streams[source.stream()];
        groups.push(match *source {
            Source::Value { offset, .. } => {
                let binds = Some((series.timeline.id, offset));
                if groups.iter().any(|g| g.binds == binds) {
                    continue;
                }
                let together: Vec<&Series> = sources
                    .iter()
                    .filter_map(|other| match other {
                        Source::Value { stream, offset: o } if *o == offset => {
                            Some(&streams[*stream])
                        }
                        _ => None,
                    })
                    .filter(|other| other.timeline.id == series.timeline.id)
                    .collect();
                Group {
                    binds,
                    choices: value_choices(&together, offset),
                }
            }
            Source::Hold {
                offset, max_age, ..
            } => Group {
                binds: None,
                choices: hold_choices(series, offset, max_age, run),
            },
            Source::Window { lo, hi, .. } => Group {
                binds: None,
                choices: window_choices(series, lo, hi),
            },
        });
    }
    groups
}

fn value_choices(together: &[&Series], offset: i64) -> Vec<Choice> {
    with_a_value(together)
        .filter_map(|position| {
            let span = together[0].timeline.interval(position);
            Choice::on(
                span.start.saturating_sub(offset),
                span.end.saturating_sub(offset),
                position,
            )
        })
        .collect()
}

/// Each event is held from its end until the next one's, at most to the run's end and for `max_age`.
fn hold_choices(series: &Series, offset: i64, max_age: Option<i64>, run: Span) -> Vec<Choice> {
    let end_of = |position: usize| series.timeline.interval(position).end;
    let events = series.events();
    (0..events.len())
        .filter_map(|number| {
            let from = end_of(events[number]).saturating_sub(1);
            let replaced = events.get(number + 1).map(|next| end_of(*next) - 1);
            let expired = max_age.map(|age| from.saturating_add(age));
            let to = [replaced, expired]
                .into_iter()
                .flatten()
                .fold(run.end, i64::min);
            Choice::on(
                from.saturating_sub(offset),
                to.saturating_sub(offset),
                events[number],
            )
        })
        .collect()
}

/// The maximal intervals on which the set of events in the window is constant and not empty.
fn window_choices(series: &Series, lo: i64, hi: i64) -> Vec<Choice> {
    // An event (s, e] is in (t+lo, t+hi] while s < t+hi and e > t+lo, that is on (s-hi, e-lo-1].
    let mut changes: Vec<(i64, i64)> = Vec::new();
    for position in series.events() {
        let span = series.timeline.interval(*position);
        let enters = span.start.saturating_sub(hi);
        let leaves = saturate(i128::from(span.end) - i128::from(lo) - 1);
        if lo < hi && enters < leaves {
            changes.extend([(enters, 1), (leaves, -1)]);
        }
    }
    changes.sort_unstable();
    let mut inside = 0;
    let mut choices = Vec::new();
    for pair in changes.windows(2) {
        let ((from, step), (to, _)) = (pair[0], pair[1]);
        inside += step;
        if inside > 0 {
            choices.extend(Choice::on(from, to, choices.len()));
        }
    }
    choices
}

/// One choice from each group, φ where the group has none, and an interval on which all are available.
struct Combination {
    span: Span,
    choices: Vec<Option<usize>>,
}

/// Every combination but the one of only φ, ordered by end, then by the choices in order of the groups with φ last.
///
/// The availability of a choice is one interval and that of φ the gaps between the choices, so the maximal intervals of
/// the combinations are the intersections of one interval from each group.
fn combine(groups: &[Group]) -> Vec<Combination> {
    let mut combinations = vec![Combination {
        span: Span::new(i64::MIN, i64::MAX),
        choices: Vec::new(),
    }];
    for group in groups {
        let gaps = gaps(&group.choices);
        let choices = group.choices.iter().map(|c| (c.span, Some(c.position)));
        let mut available: Vec<(Span, Option<usize>)> = choices
            .chain(gaps.into_iter().map(|gap| (gap, None)))
            .collect();
        available.sort_by_key(|(span, _)| span.end);
        // Only used to search by time.
        let intervals = Timeline::new(
            TimelineId::Grid {
                period: 1,
                offset: 0,
            },
            available.iter().map(|(span, _)| *span).collect(),
        );
        let mut longer = Vec::with_capacity(combinations.len());
        for combination in &combinations {
            let Span { start, end } = combination.span;
            for found in intervals.between(Some(start), end) {
                let (span, choice) = available[found];
                let mut choices = combination.choices.clone();
                choices.push(choice);
                longer.push(Combination {
                    span: Span::new(start.max(span.start), end.min(span.end)),
                    choices,
                });
            }
        }
        combinations = longer;
    }
    combinations.retain(|c| c.choices.iter().any(Option::is_some));
    combinations.sort_by_cached_key(|c| {
        let order: Vec<usize> = c.choices.iter().map(|p| p.unwrap_or(usize::MAX)).collect();
        (c.span.end, order)
    });
    combinations
}

/// The maximal intervals on which no choice is available.
fn gaps(choices: &[Choice]) -> Vec<Span> {
    let mut spans: Vec<Span> = choices.iter().map(|c| c.span).collect();
    spans.sort_unstable_by_key(|span| span.start);
    let mut gaps = Vec::new();
    let mut covered = i64::MIN;
    for span in spans {
        if covered < span.start {
            gaps.push(Span::new(covered, span.start));
        }
        covered = covered.max(span.end);
    }
    if covered < i64::MAX {
        gaps.push(Span::new(covered, i64::MAX));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A few numbers that look random.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: u64) -> i64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 33) % sides) as i64
        }

        fn group(&mut self) -> Group {
            let mut spans: Vec<Span> = (0..self.roll(4))
                .map(|_| {
                    let start = self.roll(8);
                    Span::new(start, start + 1 + self.roll(5))
                })
                .collect();
            spans.sort_by_key(|span| span.end);
            let choices = spans.into_iter().enumerate();
            let choices = choices.map(|(position, span)| Choice { span, position });
            Group {
                binds: None,
                choices: choices.collect(),
            }
        }
    }

    /// All combinations available at `t`, by the definition: every choice of every group, φ where a group has none.
    fn available(groups: &[Group], t: i64) -> Vec<Vec<Option<usize>>> {
        let mut all = vec![Vec::new()];
        for group in groups {
            let active = group.choices.iter().filter(|c| c.span.contains(t));
            let mut active: Vec<Option<usize>> = active.map(|c| Some(c.position)).collect();
            if active.is_empty() {
                active.push(None);
            }
            let longer = all.iter().flat_map(|choices: &Vec<Option<usize>>| {
                let longer = |choice| choices.iter().copied().chain([choice]).collect();
                active.iter().copied().map(longer)
            });
            all = longer.collect();
        }
        all.retain(|choices| choices.iter().any(Option::is_some));
        all
    }

    #[test]
    fn combinations_are_those_of_the_definition_instant_by_instant() {
        let mut dice = Dice(7);
        for _ in 0..2_000 {
            let groups: Vec<Group> = (0..=dice.roll(3)).map(|_| dice.group()).collect();
            let combinations = combine(&groups);
            assert!(combinations.is_sorted_by_key(|c| c.span.end));
            for t in -1..16 {
                let mut found: Vec<_> = combinations
                    .iter()
                    .filter(|c| c.span.contains(t))
                    .map(|c| c.choices.clone())
                    .collect();
                let mut expected = available(&groups, t);
                found.sort();
                expected.sort();
                assert_eq!(found, expected, "at {t}");
            }
            // Maximal: the same combination is never available on both sides of an end.
            for c in &combinations {
                let next = |other: &&Combination| other.span.start == c.span.end;
                assert!(
                    combinations
                        .iter()
                        .filter(next)
                        .all(|other| other.choices != c.choices)
                );
            }
        }
    }

    #[test]
    fn sessions_end_at_a_pause_or_when_they_get_too_long() {
        let spans = |spans: &[(i64, i64)]| -> Vec<Span> {
            spans.iter().map(|(s, e)| Span::new(*s, *e)).collect()
        };
        let points = |at: &[i64]| at.iter().map(|t| Span::new(t - 1, *t)).collect::<Vec<_>>();
        // Ten ticks from point to point are within the gap, eleven are not.
        assert_eq!(
            sessions(points(&[0, 10, 21]), 10, None),
            spans(&[(-1, 10), (20, 21)])
        );
        assert_eq!(sessions(points(&[5, 5, 5]), 1, Some(1)), spans(&[(4, 5)]));
        assert_eq!(
            sessions(points(&[0, 4, 8, 9]), 10, Some(9)),
            spans(&[(-1, 8), (8, 9)])
        );
        assert_eq!(sessions(Vec::new(), 10, None), []);
        // A long event bridges what ended within it, wherever it stands in the order of ends.
        let bag = spans(&[(0, 1), (50, 51), (0, 100)]);
        assert_eq!(sessions(bag.clone(), 10, None), spans(&[(0, 100)]));
        assert_eq!(
            sessions(bag, 10, Some(60)),
            spans(&[(0, 1), (50, 51), (0, 100)])
        );
        let ends = [i64::MIN + 1, i64::MAX];
        assert_eq!(sessions(points(&ends), 1 << 62, Some(1 << 62)).len(), 2);
    }
}
