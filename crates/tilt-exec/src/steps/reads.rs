//! What each row of a stage reads of other streams, as far as that tells when it can be computed and what can be forgotten.

use std::collections::BTreeSet;

use tilt_ir::{Bounds, StreamId};

use crate::{
    own::{OwnBack, OwnColumn},
    plan::{Domain, GroupPlan, Locate, Plan, Source, Stage},
    window::{Algorithm, Current, WindowPlan},
};

/// What a row that ends at `t` reads of a stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Read {
    /// The row with its number, and so many before and after it.
    Rows { back: usize, ahead: usize },
    /// So many events before the row that is `back` rows before the one with its number.
    Events { back: usize, events: usize },
    /// Rows that end after `t - back` and start before `t + ahead`, and as many before them.
    Time { back: i64, ahead: i64, rows: usize },
    /// Rows that start before `t + ahead`, from as many events back as is said before `t - back`.
    Last {
        back: i64,
        ahead: i64,
        events: usize,
    },
    /// What rows that start before `t + ahead` come to, which the scans of the stage's windows tell up to the last one that they have read.
    Total { ahead: i64 },
    /// All rows that start before `t + ahead`.
    All { ahead: i64 },
}

/// What the rows of a stage read, of which stream; `None` if it is something that cannot be told.
pub(super) fn reads(plan: &Plan, stage: &Stage) -> Option<Vec<(StreamId, Read)>> {
    let mut found = BTreeSet::new();
    match &stage.domain {
        Domain::On(stream) => {
            found.insert((*stream, Read::Rows { back: 0, ahead: 0 }));
        }
        Domain::Merge {
            twin: Some(twin), ..
        } => {
            found.insert((*twin, Read::Rows { back: 0, ahead: 0 }));
        }
        Domain::Merge {
            groups, required, ..
        } => {
            for (group, required) in groups.iter().zip(required) {
                let read = chosen(group, *required)?;
                found.extend(group.streams().iter().map(|stream| (*stream, read)));
            }
        }
        Domain::Grid { .. } => {}
        // How far cells of a calendar and sessions reach is known when they end.
        Domain::Calendar(_) | Domain::Sessions { .. } => return None,
    }
    let inside = stage.inside.iter().flat_map(|inside| &inside.sources);
    let of_calls = stage.calls.iter().flat_map(|call| &call.sources);
    for source in stage.sources.iter().chain(inside).chain(of_calls) {
        match source {
            Source::Leaf { stream, locate, .. }
            | Source::Present { stream, locate }
            | Source::Edge { stream, locate, .. } => {
                let reads = located(plan, stage, *locate)?;
                found.extend(reads.into_iter().map(|read| (*stream, read)));
            }
            Source::OwnRows { rows } => {
                let back = rows.unsigned_abs() as usize;
                found.insert((stage.stream, Read::Rows { back, ahead: 0 }));
            }
            Source::OwnTable(_)
            | Source::EndsTable
            | Source::Position { .. }
            | Source::Ends
            | Source::Starts
            | Source::Call(_)
            | Source::Window { .. }
            | Source::RangeFirst(_)
            | Source::RangeEnd(_)
            | Source::RangeLate(_)
            | Source::Anchor { .. }
            | Source::Distance { .. } => {}
        }
    }
    let OwnBack { rows, events } = stage.own_back;
    if rows > 0 {
        let (back, ahead) = (rows, 0);
        found.insert((stage.stream, Read::Rows { back, ahead }));
    }
    if events > 0 {
        found.insert((stage.stream, Read::Events { back: 0, events }));
    }
    let has_gaps = stage.own.iter().any(|(own, _)| *own == OwnColumn::Last);
    for locate in &stage.locates {
        match locate {
            Locate::OwnActive { offset } | Locate::OwnEnded { offset, .. } => {
                let (back, ahead) = (offset.checked_neg()?, 0);
                let rows = 1;
                found.insert((stage.stream, Read::Time { back, ahead, rows }));
                if has_gaps {
                    let events = 1;
                    found.insert((
                        stage.stream,
                        Read::Last {
                            back,
                            ahead,
                            events,
                        },
                    ));
                }
            }
            _ => {}
        }
    }
    for (number, range) in stage.ranges.iter().enumerate() {
        let read = ranged(plan, stage, number)?;
        found.insert((range.stream, read));
        if let (Read::Total { .. }, Bounds::Ordinal { hi, .. }) = (read, range.bounds) {
            let events = usize::try_from(1 - hi).unwrap_or(1);
            found.insert((range.stream, Read::Events { back: 0, events }));
        }
        let windows = stage.windows.iter().filter(|window| window.range == number);
        for source in windows.flat_map(|window| &window.sources) {
            if let Source::Leaf { stream, .. }
            | Source::Present { stream, .. }
            | Source::Anchor { stream, .. } = source
            {
                found.insert((*stream, read));
            }
        }
    }
    Some(found.into_iter().collect())
}

/// What a locate reads.
fn located(plan: &Plan, stage: &Stage, locate: usize) -> Option<Vec<Read>> {
    let at = |offset: i64| {
        Some(Read::Time {
            back: offset.checked_neg()?,
            ahead: offset,
            rows: 1,
        })
    };
    let read = match &stage.locates[locate] {
        Locate::Same => Some(Read::Rows { back: 0, ahead: 0 }),
        Locate::Rows { rows, .. } => Some(Read::Rows {
            back: usize::try_from(-*rows).unwrap_or(0),
            ahead: usize::try_from(*rows).unwrap_or(0),
        }),
        Locate::Affine { offset, .. }
        | Locate::Coarse { offset, .. }
        | Locate::ByTime { offset, .. } => at(*offset),
        Locate::Held { offset, .. } => Some(Read::Last {
            back: offset.checked_neg()?,
            ahead: *offset,
            events: 1,
        }),
        Locate::Prev {
            of,
            stream: counted,
            n,
        } => {
            let n = *n as usize;
            // Events that are not at every row may be any number of rows back.
            let is_nullable = is_nullable(plan, *counted);
            let [read] = located(plan, stage, *of)?[..] else {
                return None;
            };
            if let (true, Read::Rows { back, .. }) = (is_nullable, read) {
                return Some(vec![read, Read::Events { back, events: n }]);
            }
            Some(match read {
                Read::Time { back, ahead, .. } | Read::Last { back, ahead, .. } if is_nullable => {
                    Read::Last {
                        back,
                        ahead,
                        events: n + 2,
                    }
                }
                Read::Rows { back, ahead } => Read::Rows {
                    back: back + n,
                    ahead,
                },
                Read::Time { back, ahead, rows } => Read::Time {
                    back,
                    ahead,
                    rows: rows + n,
                },
                Read::Last { back, ahead, .. } => Read::Time {
                    back,
                    ahead,
                    rows: n + 2,
                },
                Read::Events { .. } | Read::Total { .. } | Read::All { .. } => return None,
            })
        }
        Locate::Range { range, .. } => ranged(plan, stage, *range),
        Locate::OwnActive { offset } | Locate::OwnEnded { offset, .. } => at(*offset),
        Locate::Choice(number) => match &stage.domain {
            Domain::Merge {
                groups, required, ..
            } => chosen(&groups[*number], required[*number]),
            _ => None,
        },
    };
    read.map(|read| vec![read])
}

/// Whether all that is read of a range without a beginning is what its scans carry, and the last row.
fn is_carried(plan: &Plan, stage: &Stage, number: usize) -> bool {
    let scans = |window: &WindowPlan| {
        matches!(
            window.algorithm,
            Algorithm::Blocks { .. } | Algorithm::Prefix { .. }
        ) && window.anchor.is_none()
            && window.panes.is_none()
            && !window.gapless
    };
    let mut windows = stage.windows.iter().filter(|w| w.range == number);
    let is_first = |locate: &Locate| matches!(locate, Locate::Range { range, last: false } if *range == number);
    let range = &stage.ranges[number];
    plan.carried
        && range.is_running()
        && !range.packed
        && windows.all(scans)
        && !stage.locates.iter().any(is_first)
}

/// What a range reads.
fn ranged(plan: &Plan, stage: &Stage, number: usize) -> Option<Read> {
    let range = &stage.ranges[number];
    match range.bounds {
        Bounds::Time { lo: None, hi } if is_carried(plan, stage, number) => {
            Some(Read::Total { ahead: hi })
        }
        Bounds::Ordinal { lo: None, hi } if hi <= 0 && is_carried(plan, stage, number) => {
            Some(Read::Total { ahead: 0 })
        }
        // Also a row before, for what has been added up until there.
        Bounds::Time { lo: Some(lo), hi } => Some(Read::Time {
            back: lo.checked_neg()?,
            ahead: hi,
            rows: 1,
        }),
        Bounds::Time { lo: None, hi } => Some(Read::All { ahead: hi }),
        Bounds::Ordinal { lo: None, hi } if hi <= 0 => Some(Read::All { ahead: 0 }),
        Bounds::Ordinal { lo: Some(lo), hi } if !is_nullable(plan, range.stream) => {
            let rows = usize::try_from(1 - lo).unwrap_or(1);
            match range.current {
                Current::Row => Some(Read::Rows {
                    back: rows,
                    ahead: usize::try_from(hi).unwrap_or(0),
                }),
                Current::Started | Current::Choice(_) if hi <= 0 => Some(Read::Time {
                    back: 0,
                    ahead: 0,
                    rows: rows + 1,
                }),
                Current::Started | Current::Choice(_) => None,
            }
        }
        // Events that are not at every row may be any number of rows back.
        Bounds::Ordinal { lo: Some(lo), hi } if hi <= 0 && range.current == Current::Row => {
            let events = usize::try_from(1 - lo).unwrap_or(1);
            Some(Read::Events { back: 0, events })
        }
        Bounds::Ordinal { .. } => None,
        Bounds::Event => {
            let length = plan.axes[&stage.stream].length?;
            Some(Read::Time {
                back: length,
                ahead: 0,
                rows: 1,
            })
        }
    }
}

/// What a group of a merge reads: what it chose last begins or ends with an event. Without a value of one that is not required an event goes on
/// until the next value begins, and what is held or in a window changes with the next event: a tick ahead.
fn chosen(group: &GroupPlan, required: bool) -> Option<Read> {
    let (lo, hi, next) = match *group {
        GroupPlan::Value { offset, .. } => (offset, offset, i64::from(!required)),
        GroupPlan::Hold { offset, .. } => (offset, offset, 1),
        GroupPlan::Window { lo, hi, .. } => (lo, hi, 1),
    };
    Some(Read::Last {
        back: lo.checked_neg()?,
        ahead: hi.checked_add(next)?,
        events: 1,
    })
}

/// Whether a stream may have rows without an event.
fn is_nullable(plan: &Plan, stream: StreamId) -> bool {
    let stage = plan.stages.iter().find(|stage| stage.stream == stream);
    stage.is_some_and(|stage| stage.facts.nullable)
}
