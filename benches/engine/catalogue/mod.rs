//! The rows of the table: queries, data, loops, bars.

mod apps;
mod streams;
mod windows;

use crate::{data::Real, workload::Entry};

pub(crate) use apps::NAMES as APPS;

/// All rows in the order of the table.
pub(crate) fn entries() -> Vec<Entry> {
    let mut entries = windows::entries();
    entries.extend(streams::entries());
    entries.extend(apps::entries());
    entries
}

/// The text of an application, for measuring how long it takes to compile.
pub(crate) fn app(name: &str) -> String {
    apps::text(name)
}

/// A window of so many events, or a quarter of what there is.
fn fit(window: usize, n: usize) -> usize {
    window.min(n / 4)
}

/// `expr`, a double, as a value of the type that the query computes in.
fn narrow<T: Real>(expr: &str) -> String {
    if T::NAME == "f64" {
        expr.to_owned()
    } else {
        format!("cast({expr}, {})", T::NAME)
    }
}

/// `expr`, a value of the type that the query reads, as a double.
fn wide<T: Real>(expr: &str) -> String {
    if T::NAME == "f64" {
        expr.to_owned()
    } else {
        format!("cast({expr}, f64)")
    }
}
