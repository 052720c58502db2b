//! Which rows of a stage read only rows that exist.

use std::ops::Range;

use tilt_codegen::lir::LANES;

use super::StageRun;
use crate::{locate::Locator, plan::Source};

impl StageRun<'_> {
    /// The rows for which there is a loop that knows that what they read exists, whole groups of them.
    pub(super) fn inside(&self, rows: &Range<usize>, locators: &[Locator]) -> Range<usize> {
        let none = rows.end..rows.end;
        let stage = self.stage;
        let is_for = stage.streaming.unwrap_or(stage.main);
        let Some(inside) = stage.inside.as_ref().filter(|_| self.main == is_for) else {
            return none;
        };
        let (mut first, mut end) = (rows.start as i64, rows.end as i64);
        // Whether a row exists may be all that the loop for any row asks of it: then the one that does not ask has no such source.
        for source in stage.sources.iter().chain(&inside.sources) {
            let (offset, len) = match source {
                Source::OwnRows { rows: back } => {
                    let computed = (rows.start as i64).saturating_sub(self.before as i64);
                    first = first.max(computed - back);
                    continue;
                }
                Source::Leaf { stream, locate, .. } | Source::Present { stream, locate } => {
                    match &locators[*locate] {
                        Locator::Rows(offset) => (*offset, self.series[stream].axis.len() as i64),
                        Locator::Nowhere => return none,
                        _ => continue,
                    }
                }
                _ => continue,
            };
            first = first.max(offset.saturating_neg());
            end = end.min(len.saturating_sub(offset));
        }
        for (locate, locator) in stage.locates.iter().zip(locators) {
            if locate.is_periodic() {
                let Some(found) = locator.rows(locators) else {
                    return none;
                };
                (first, end) = (first.max(found.start), end.min(found.end));
            }
        }
        let group = |row: i64| (row - rows.start as i64) / LANES as i64 * LANES as i64;
        let at = |row: i64| (rows.start as i64 + row).clamp(0, rows.end as i64) as usize;
        let first = at(group(first.saturating_add(LANES as i64 - 1)));
        // The last group of all may be a part of one.
        let end = if end == rows.end as i64 {
            rows.end
        } else {
            at(group(end))
        };
        if first < end { first..end } else { none }
    }
}
