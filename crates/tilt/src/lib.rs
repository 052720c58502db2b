//! tilt: a time-centric query compiler. This crate is the facade that Rust services depend on.
//!
//! A stream is a function of time, and a query is a pure function of streams whose reach into past and future is known.
//!
//! ```
//! use std::{collections::BTreeMap, sync::Arc};
//! use tilt::arrow::array::{Array, ArrayRef, Float64Array, RecordBatch, TimestampSecondArray};
//! use tilt::data::{IngressOptions, Layout, ingest};
//! use tilt::{Query, RunOptions};
//!
//! // Where the mean price of the last 10 seconds is above that of the last 20.
//! let query = Query::parse(
//!     "query trend unit s {
//!        input ~price: f64 point
//!        ~short[t] = reduce mean ~price[t-10s : t]
//!        ~long[t] = reduce mean ~price[t-20s : t]
//!        ~diff[t] = ~short[t] - ~long[t]
//!        ~trend[t] = if ~diff[t] > 0.0 then ~diff[t] else null
//!        output ~trend
//!      }",
//! )?;
//! let trend = query.compile()?;
//!
//! // Four expressions became one loop, whose result at an instant depends on the 20 seconds before it and on nothing after it.
//! let plan = trend.explain();
//! assert!(plan.contains("1 stage loop, 2 windows"));
//! assert!(plan.contains("~price: lookback 20s, lookahead 0s"));
//!
//! // Rows become events without copying, if they are what the query declares.
//! let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![100, 112, 115, 131]));
//! let prices: ArrayRef = Arc::new(Float64Array::from(vec![10.0, 10.5, 11.0, 9.0]));
//! let rows = RecordBatch::try_from_iter([("time", times), ("price", prices)])?;
//! let program = trend.program();
//! let (_, input) = program.inputs().next().expect("an input");
//! let prices = ingest(&rows, input, program.unit, &IngressOptions::stamp("time"))?;
//!
//! let inputs = BTreeMap::from([("price".to_owned(), prices)]);
//! let result = trend.run(&inputs, &RunOptions::default())?;
//! let rows = result.to_record_batch(Layout::Auto)?;
//! assert_eq!(rows["time"].as_ref(), &TimestampSecondArray::from(vec![112, 115]) as &dyn Array);
//! assert_eq!(rows["trend"].as_ref(), &Float64Array::from(vec![0.25, 0.25]) as &dyn Array);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The same query, built by calls instead of text; every operation is checked at once, and the first error is reported at the end:
//!
//! ```
//! use tilt::{Query, Stream, ir::{DType, Input, Unit}};
//!
//! let price = Stream::input(Input::point("price", DType::F64, Unit::Second));
//! let diff = price.window("10s").mean() - price.window("20s").mean();
//! let trend = diff.filter(diff.gt(0.0)).alias("trend");
//! let query = Query::new(trend.program("trend")?)?;
//! assert!(query.compile()?.explain().contains("1 stage loop, 2 windows"));
//!
//! // Bars of a minute, looked at where trades are, and how far the price is from the last one's high.
//! let bar = price.tumbling("1m");
//! let bars = bar.agg([("high", bar.max()), ("low", bar.min()), ("range", bar.max() - bar.min())]);
//! let gap = &price - bars.field("high").hold(Some("5m".into()));
//! assert_eq!(gap.dtype()?, &DType::F64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Query`] is a verified program, [`Compiled`] its machine code, shared by clones and threads; [`RunOptions`] says over which part of the timeline and on
//! how many threads it runs, and can cancel and watch it. [`Compiled::stream`] runs on input that arrives in chunks,
//! [`Compiled::analyze`] tells what a run did. `examples/service.rs` embeds a query in a service.
//!
//! Rows that arrive one after the other, in any order, are [pushed](live::Session::push) into a [`live::Session`] of a [`Compiled`], which gives results as soon as they are certain:
//!
//! ```
//! use std::sync::Arc;
//! use tilt::arrow::array::{Array, Float64Array, Int64Array, RecordBatch};
//! use tilt::live::{Completion, InputOptions, Session, SessionOptions};
//! use tilt::{Query, Stream, data::IngressOptions, ir::{DType, Input, Unit}};
//!
//! let price = Stream::input(Input::point("price", DType::F64, Unit::Tick));
//! let mean = price.window(10).mean().alias("mean");
//! let query = Query::new(mean.program("mean")?)?.compile()?;
//! let prices = InputOptions::new(IngressOptions::stamp("t")).lateness(3);
//! let mut session = Session::new(&query, SessionOptions::new().input("price", prices))?;
//! let times = Int64Array::from(vec![1, 9, 7]);
//! let values = Float64Array::from(vec![1.0, 9.0, 5.0]);
//! session.push("price", &RecordBatch::try_from_iter([("t", Arc::new(times) as _), ("price", Arc::new(values) as _)])?)?;
//! // A price of 6 or later may still come.
//! assert_eq!(session.take()?["mean"].as_ref(), &Float64Array::from(vec![1.0]) as &dyn Array);
//! let rest = session.close(Completion::End)?;
//! assert_eq!(rest["mean"].as_ref(), &Float64Array::from(vec![3.0, 5.0]) as &dyn Array);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`ir`] | queries: text form, verifier, lineage, optimiser |
//! | [`build`] | queries built by calls: [`Stream`], [`Window`] |
//! | [`data`] | streams over Arrow arrays: ingress, egress, cutting by time |
//! | [`live`] | sessions: rows in any order, results as they become certain |
//! | [`interp`] | the oracle, which defines every result |
//! | [`arrow`] | the Arrow that all of them speak |

pub use tilt_data as data;
pub use tilt_data::arrow;
pub use tilt_exec::{
    Backend, Cancel, Compiled, EndsOf, Error, HeldInput, InputState, Live, LiveError, LiveState,
    Progress, Query, RunOptions, StageStats, Stats, StreamRun, default_threads, forget_compiled,
    machine,
};
pub use tilt_interp as interp;
pub use tilt_ir as ir;
pub use tilt_ir::build::{self, BuildError, Stream, Window};
pub use tilt_live as live;
