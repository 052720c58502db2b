//! Live runs and runs over chunks that count values of a column hold as many rows as have them, though the column may be φ anywhere.

use crate::live_open_sessions::{check, points};

/// What counts values of a column, which one row in six has none of, and values that a condition left.
const BODIES: [&str; 10] = [
    "~v[t] = ~x[t].a  ~y[t] = reduce std ~v[#-20 : #]",
    "~v[t] = ~x[t].a  ~y[t] = reduce median ~v[#-9 : #]",
    "~v[t] = ~x[t].a  ~y[t] = ~v[t] - ~v.prev(3)",
    "~v[t] = ~x[t].a * 2.0  ~y[t] = reduce max ~v[#-30 : #-4]",
    "~v[t] = ~x[t].a  ~m[t] = reduce mean ~v[t-50 : t]  ~y[t] = ~m[t] - ~m.prev(2)",
    "~v[t] = ~x[t].a  ~y[t at ~x] = {m: reduce sum ~v[#-5 : #], n: ~x[t].n}",
    "~v[t] = ~x[t].a  ~y[t at ~x] = coalesce(hold(~v[t-3]), 0.0)",
    "~v[t] = ~x[t].a  ~y[t at ~x] = {s: reduce sum ~v[#-7 : #], len: reduce len ~x[t-20 : t]}",
    "~v[t] = if ~x[t].n > 6 then ~x[t].a else null  ~y[t] = reduce std ~v[#-20 : #]",
    "~v[t] = ~x[t].n / (~x[t].n - 3)  ~y[t] = ~v[t] - ~v.prev(1)",
];

#[test]
fn values_of_points_are_counted() {
    check("point", &points(5), &BODIES, 100);
}

#[test]
fn values_of_keys_are_counted() {
    check("point key k", &points(6), &BODIES, 500);
}
