//! What is known of a series before it is computed: what plans are made from.

use tilt_codegen::lir::Ty;
use tilt_data::{SnapshotBuffer, Spans, Stamps};
use tilt_ir::{DType, Input};

use tilt_codegen::lower::{Unsupported, register};

/// Facts about a list of intervals.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct AxisFacts {
    /// Ends are `phase + k * period` for consecutive `k`.
    pub(crate) regular: Option<Regular>,
    /// All events are this long.
    pub(crate) length: Option<i64>,
    /// At most one event is active at an instant.
    pub(crate) disjoint: bool,
    /// Starts never decrease, so the events of a window are neighbours.
    pub(crate) ordered: bool,
    /// Rows of several keys are mixed, so the row before may be another key's.
    pub(crate) mixed: bool,
}

/// Ends at equal distances.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Regular {
    pub(crate) period: i64,
    /// In `0 .. period`.
    pub(crate) phase: i64,
}

impl Regular {
    pub(crate) fn new(period: i64, end: i64) -> Self {
        Self {
            period,
            phase: end.rem_euclid(period),
        }
    }
}

impl AxisFacts {
    /// The cells of a grid.
    pub(crate) fn grid(period: i64, offset: i64) -> Self {
        Self {
            regular: Some(Regular::new(period, offset)),
            length: Some(period),
            disjoint: true,
            ordered: true,
            mixed: false,
        }
    }

    /// Facts of a timeline as it is.
    pub(crate) fn of(buffer: &SnapshotBuffer) -> Self {
        let timeline = buffer.timeline();
        let disjoint = !buffer.is_bag();
        let length = match timeline.spans() {
            Spans::Fixed(length) => Some(*length),
            _ => None,
        };
        let regular = match timeline.stamps() {
            Stamps::Regular { t0, period, .. } if length.is_some() => {
                Some(Regular::new(*period, t0.wrapping_add(timeline.shift())))
            }
            _ => None,
        };
        Self {
            regular,
            length,
            disjoint,
            ordered: disjoint || !matches!(timeline.spans(), Spans::Starts { .. }),
            mixed: false,
        }
    }
}

/// Facts about a stream.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SeriesFacts {
    pub(crate) axis: AxisFacts,
    pub(crate) dtype: DType,
    /// The value, or the fields of a record, as `edges` lays them out.
    pub(crate) leaves: Vec<LeafFacts>,
    /// Whether positions may be empty.
    pub(crate) nullable: bool,
}

/// Facts about a column.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LeafFacts {
    /// The field's name; that of the stream for a scalar.
    pub(crate) name: String,
    pub(crate) ty: Ty,
    pub(crate) nullable: bool,
}

impl SeriesFacts {
    /// Whether its values are records.
    pub(crate) fn is_record(&self) -> bool {
        matches!(self.dtype, DType::Record(_))
    }

    /// Whether any of its values is a string or a list, for which a code stands.
    pub(crate) fn has_codes(&self) -> bool {
        fn is_coded(dtype: &DType) -> bool {
            match dtype {
                DType::Record(fields) => fields.iter().any(|field| is_coded(&field.dtype)),
                DType::List(_) => true,
                dtype => crate::text::is_text(dtype),
            }
        }
        is_coded(&self.dtype)
    }

    /// Whether any of its values is a list.
    pub(crate) fn has_lists(&self) -> bool {
        fn is_list(dtype: &DType) -> bool {
            match dtype {
                DType::Record(fields) => fields.iter().any(|field| is_list(&field.dtype)),
                dtype => matches!(dtype, DType::List(_)),
            }
        }
        is_list(&self.dtype)
    }

    /// Whether a field of a record, or its value, is one for which a code stands.
    pub(crate) fn is_coded(&self, leaf: usize) -> bool {
        let is_coded =
            |dtype: &DType| crate::text::is_text(dtype) || matches!(dtype, DType::List(_));
        match &self.dtype {
            DType::Record(fields) => fields.get(leaf).is_some_and(|field| is_coded(&field.dtype)),
            dtype => is_coded(dtype),
        }
    }

    /// Facts of an input's data.
    pub(crate) fn of_input(input: &Input, buffer: &SnapshotBuffer) -> Result<Self, Unsupported> {
        let record = matches!(input.dtype, DType::Record(_));
        let declared: Vec<(&str, &DType)> = match &input.dtype {
            DType::Record(fields) => fields.iter().map(|f| (f.name.as_str(), &f.dtype)).collect(),
            dtype => vec![(input.name.as_str(), dtype)],
        };
        let mut leaves = Vec::with_capacity(declared.len());
        for (index, (name, dtype)) in declared.into_iter().enumerate() {
            let column = if record {
                buffer.column(name)
            } else {
                buffer.columns().get(index)
            };
            let column = column.ok_or_else(|| Unsupported(format!("no column {name}")))?;
            leaves.push(LeafFacts {
                name: name.to_owned(),
                ty: register(dtype)?,
                // An entry of a dictionary may be null where no key is.
                nullable: column.array().logical_null_count() > 0,
            });
        }
        Ok(Self {
            axis: AxisFacts::of(buffer),
            dtype: input.dtype.clone(),
            leaves,
            nullable: buffer.null_rows() > 0,
        })
    }
}
