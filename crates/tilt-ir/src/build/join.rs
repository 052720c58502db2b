//! Joins by time.
//!
//! Streams of different timelines meet wherever an operation takes both; `with_columns` looks at others at the events of one, which with
//! [`between`](Stream::between) is a window join and with [`prevailing`](super::Window::prevailing) kdb's `wj`. Here are the joins that make a
//! record of two.

use super::{
    Stream, draft::Draft, error::Checked, gaps::needs_a_bound, length::Length, record::columns_of,
};
use crate::{
    expr::{BinaryOp, Expr},
    ids::{ExprId, StreamId},
    program::Clock,
    types::DType,
};

/// Which event an as-of join takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsOf {
    /// The last at or before the left one.
    Backward,
    /// The first at or after the left one.
    Forward,
    /// The nearer of the two, of equally near ones the earlier.
    Nearest,
}

impl Stream {
    /// Each event of this stream with the event of `right` that `strategy` takes, at most `tolerance` away, in one record. Without such an
    /// event the right columns are φ. Right columns whose name is taken get the suffix.
    #[must_use]
    pub fn join_asof(
        &self,
        right: &Self,
        strategy: AsOf,
        tolerance: Option<Length>,
        suffix: &str,
    ) -> Self {
        Self::combine("join_asof", &[self, right], |draft, ids| {
            let (left, right) = (ids[0], ids[1]);
            let bound = match &tolerance {
                Some(tolerance) => Some(tolerance.positive("the tolerance", draft.unit())?),
                None => None,
            };
            let matched = match (strategy, bound) {
                (AsOf::Backward, _) => draft.held(right, tolerance.as_ref())?,
                (AsOf::Forward, Some(bound)) => draft.next(right, -1, bound)?.0,
                (AsOf::Nearest, Some(bound)) => draft.nearest(right, bound)?,
                (AsOf::Forward | AsOf::Nearest, None) => return Err(needs_a_bound("tolerance")),
            };
            let body = draft.bound("right", matched, |draft, matched| {
                let own = draft.read(left)?;
                draft.side_by_side((left, own), (right, matched), suffix)
            })?;
            draft.define("join_asof", Clock::At(left), body)
        })
    }

    /// Each pair of an event here and one of `right` that are active at the same time, on the interval that they share.
    #[must_use]
    pub fn join_overlap(&self, right: &Self, suffix: &str) -> Self {
        Self::combine("join_overlap", &[self, right], |draft, ids| {
            let values = draft.joined(ids)?;
            let mut both = None;
            for value in &values {
                let missing = draft.add(Expr::IsNull(*value))?;
                let present = draft.add(Expr::Unary(crate::expr::UnaryOp::Not, missing))?;
                both = Some(match both {
                    None => present,
                    Some(both) => draft.add(Expr::Binary(BinaryOp::And, both, present))?,
                });
            }
            let record = draft.side_by_side((ids[0], values[0]), (ids[1], values[1]), suffix)?;
            let body = match both {
                Some(both) => draft.only_if(both, record)?,
                None => record,
            };
            draft.define_joined("join_overlap", ids, body)
        })
    }
}

impl Draft {
    /// The columns of two values in one record.
    fn side_by_side(
        &mut self,
        left: (StreamId, ExprId),
        right: (StreamId, ExprId),
        suffix: &str,
    ) -> Checked<ExprId> {
        let mut fields = self.columns(left)?;
        for (mut name, value) in self.columns(right)? {
            if fields.iter().any(|field| field.0 == name) {
                name.push_str(suffix);
            }
            fields.push((name, value));
        }
        self.add(Expr::Record(fields))
    }

    /// The columns of a value of a stream; one that is no record is a column called like the stream.
    fn columns(&mut self, (stream, value): (StreamId, ExprId)) -> Checked<Vec<(String, ExprId)>> {
        if let DType::Record(_) = self.program.dtype(value) {
            return columns_of(self, value);
        }
        let name = self.program.streams[stream].name();
        Ok(vec![(name.to_owned(), value)])
    }
}
