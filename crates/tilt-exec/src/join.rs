//! The rows of `on` clocks that join several timelines, and when nothing needs to be merged.
//!
//! | rows | when |
//! |---|---|
//! | those of one group | every body on the clock is φ without the group, and nothing else changes within its events |
//! | the cells of a grid | all groups are plain reads of samples on that grid, which follow each other without gaps |
//! | a merge | always |
//!
//! Positions of an `on` clock without a value are not observable: nobody reads them, places of reductions count contributions only, and events by count are
//! those with a value. So rows may be added that are φ for every stream on the clock, and rows that are φ for all of them may be left out.

use tilt_ir::{Bounds, Clock, Expr, ExprId, Source as ClockSource, StreamId, Timeline, strict_in};

use crate::{
    facts::AxisFacts,
    plan::{Domain, GroupPlan, Planner},
};

impl Planner<'_> {
    /// The rows of an `on` clock that is not aligned to a timeline.
    pub(crate) fn join(&self, id: StreamId, clock: &Clock, sources: &[ClockSource]) -> Domain {
        let groups = self.groups(sources);
        // Streams with equal clocks share their rows, so what is left out must be φ for all of them.
        let same_clock = self.program.temporals().filter(|(_, t)| t.clock == *clock);
        let bodies: Vec<ExprId> = same_clock
            .filter(|(id, _)| self.needed.contains(id))
            .map(|(_, t)| t.body)
            .collect();
        let required = groups.iter().map(|group| self.is_required(group, &bodies));
        let required: Vec<bool> = required.collect();
        if let Some(stream) = self.driver(&groups, &required, &bodies) {
            return Domain::On(stream);
        }
        if let Some((period, offset)) = self.common_grid(&groups, &bodies) {
            return Domain::Grid { period, offset };
        }
        let twin = match self.timelines.of(id) {
            Timeline::Own(first) if first != id => Some(first),
            _ => None,
        };
        let twin = twin.filter(|t| self.stages.iter().any(|s| s.stream == *t));
        Domain::Merge {
            groups,
            required,
            twin,
        }
    }

    fn groups(&self, sources: &[ClockSource]) -> Vec<GroupPlan> {
        let mut groups: Vec<GroupPlan> = Vec::new();
        for source in sources {
            match *source {
                ClockSource::Value { stream, offset } => {
                    let group = groups.iter_mut().find_map(|group| match group {
                        GroupPlan::Value { streams, offset: o }
                            if *o == offset
                                && self.timelines.of(streams[0]) == self.timelines.of(stream) =>
                        {
                            Some(streams)
                        }
                        _ => None,
                    });
                    match group {
                        Some(streams) => streams.push(stream),
                        None => groups.push(GroupPlan::Value {
                            streams: vec![stream],
                            offset,
                        }),
                    }
                }
                ClockSource::Hold {
                    stream,
                    offset,
                    max_age,
                } => groups.push(GroupPlan::Hold {
                    stream,
                    offset,
                    max_age,
                }),
                ClockSource::Window { stream, lo, hi } => {
                    groups.push(GroupPlan::Window { stream, lo, hi });
                }
            }
        }
        groups
    }

    /// Whether all bodies are φ where the group has no choice.
    fn is_required(&self, group: &GroupPlan, bodies: &[ExprId]) -> bool {
        let is_of_group = |_: ExprId, expr: &Expr| match (group, expr) {
            (GroupPlan::Value { streams, offset }, expr) => {
                let timeline = self.timelines.of(streams[0]);
                plain_read(expr).is_some_and(|(stream, o)| {
                    o == *offset && self.timelines.of(stream) == timeline
                })
            }
            (
                GroupPlan::Hold {
                    stream,
                    offset,
                    max_age,
                },
                Expr::Hold {
                    stream: s,
                    offset: o,
                    max_age: a,
                },
            ) => (stream, offset, max_age) == (s, o, a),
            (GroupPlan::Window { stream, lo, hi }, Expr::Reduce { window, .. }) => {
                let bounds = Bounds::Time {
                    lo: Some(*lo),
                    hi: *hi,
                };
                *stream == window.stream && window.bounds == bounds
            }
            _ => false,
        };
        let mut bodies = bodies.iter();
        bodies.all(|body| strict_in(self.program, *body, &is_of_group))
    }

    /// A stream whose rows are those of the clock: of a group that is required, while nothing else changes within its events.
    fn driver(
        &self,
        groups: &[GroupPlan],
        required: &[bool],
        bodies: &[ExprId],
    ) -> Option<StreamId> {
        if !groups.iter().all(|group| self.is_disjoint(group)) {
            return None;
        }
        let drives = |(number, group): (usize, &GroupPlan)| {
            let GroupPlan::Value { streams, offset: 0 } = group else {
                return None;
            };
            let axis = &self.facts[&streams[0]].axis;
            let others = || {
                let others = groups.iter().enumerate().filter(|(n, _)| *n != number);
                others.map(|(_, group)| group)
            };
            let drives = required[number]
                && others().all(|other| self.is_still(other, axis))
                && others().all(|other| self.reads_sources_only(other, bodies));
            drives.then_some(streams[0])
        };
        let mut drivers: Vec<StreamId> = groups.iter().enumerate().filter_map(drives).collect();
        // Rows at equal distances make the best loops.
        drivers.sort_by_key(|stream| self.facts[stream].axis.regular.is_none());
        drivers.first().copied()
    }

    fn is_disjoint(&self, group: &GroupPlan) -> bool {
        match group {
            GroupPlan::Value { streams, .. } => self.facts[&streams[0]].axis.disjoint,
            GroupPlan::Hold { .. } | GroupPlan::Window { .. } => true,
        }
    }

    /// Whether the choice of a group never changes strictly within an event of `axis`.
    fn is_still(&self, group: &GroupPlan, axis: &AxisFacts) -> bool {
        if axis.length == Some(1) {
            return true;
        }
        let GroupPlan::Value { streams, offset } = group else {
            return false;
        };
        let there = &self.facts[&streams[0]].axis;
        let (Some(here), Some(length), Some(regular), Some(other_length)) =
            (axis.regular, axis.length, there.regular, there.length)
        else {
            return false;
        };
        let period = i128::from(here.period);
        let is_outside = |edge: i128| {
            let before_end = (i128::from(here.phase) - edge).rem_euclid(period);
            before_end == 0 || before_end >= i128::from(length)
        };
        let end = i128::from(regular.phase) - i128::from(*offset);
        length <= here.period
            && regular.period % here.period == 0
            && is_outside(end)
            && is_outside(end - i128::from(other_length))
    }

    /// Whether the bodies read at this group only what its choices depend on: then what is active is what is chosen.
    fn reads_sources_only(&self, group: &GroupPlan, bodies: &[ExprId]) -> bool {
        let GroupPlan::Value { streams, offset } = group else {
            return true;
        };
        let timeline = self.timelines.of(streams[0]);
        let mut holds = true;
        for body in bodies {
            self.program.walk(*body, &mut |_, expr| {
                if let Some((stream, o)) = plain_read(expr) {
                    let is_bound = o == *offset && self.timelines.of(stream) == timeline;
                    holds &= !is_bound || streams.contains(&stream);
                }
            });
        }
        holds
    }

    /// Period and offset of a grid on whose cells all groups have their events.
    fn common_grid(&self, groups: &[GroupPlan], bodies: &[ExprId]) -> Option<(i64, i64)> {
        if !self.unions {
            return None;
        }
        let grid_of = |group: &GroupPlan| {
            let GroupPlan::Value { streams, offset } = group else {
                return None;
            };
            let axis = &self.facts[&streams[0]].axis;
            let regular = axis.regular.filter(|_| axis.disjoint)?;
            let period = i128::from(regular.period);
            let phase = (i128::from(regular.phase) - i128::from(*offset)).rem_euclid(period);
            let fills = axis.length == Some(regular.period);
            (fills && self.reads_sources_only(group, bodies))
                .then_some((regular.period, phase as i64))
        };
        let mut grids = groups.iter().map(grid_of);
        let first = grids.next()??;
        grids.all(|grid| grid == Some(first)).then_some(first)
    }
}

/// The stream and offset of a read of the event active at an instant.
fn plain_read(expr: &Expr) -> Option<(StreamId, i64)> {
    match expr {
        Expr::At { stream, offset } | Expr::Edge { stream, offset, .. } => Some((*stream, *offset)),
        Expr::Prev { stream, .. } => Some((*stream, 0)),
        _ => None,
    }
}
