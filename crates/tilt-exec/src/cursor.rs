//! Reads by time, as positions: which event of a source each output row reads.
//!
//! A reader takes output rows chunk by chunk and writes one `u32` position a row, [`NONE`] where nothing is read. It
//! remembers where it stopped, so the instants it is given must never decrease from one row to the next, nor from one
//! call to the next.
//!
//! Everything rests on one primitive, [`Counter`]: how many stamps are at or before a limit. Regular stamps are counted
//! by arithmetic, explicit ones by a cursor that only moves forward.

mod active;
mod count;
mod edges;
mod held;
mod instants;
mod ranks;
mod regular;
mod source;
mod wide;
mod window;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use self::{
    active::{Active, Policy},
    held::Held,
    instants::Instants,
    ranks::Ranks,
    source::{Shape, Source},
    wide::parts,
    window::{Bounds, Window},
};

/// No position: φ.
pub(crate) const NONE: u32 = u32::MAX;

/// The instant nearest to `t`.
pub(crate) fn saturate(t: i128) -> i64 {
    t.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}
