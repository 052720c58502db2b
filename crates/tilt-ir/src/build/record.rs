//! Streams of records.

use super::{
    Stream,
    draft::Draft,
    error::{Checked, Problem},
    literal::{Literal, Operand},
    operators::{self, Arg},
};
use crate::{
    expr::Expr,
    ids::{ExprId, StreamId},
    program::Clock,
    types::DType,
};

/// The columns of a record with their names.
type Columns = Vec<(String, ExprId)>;

impl Stream {
    /// A column of a record.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        Self::apply("field", name, &[self.into()], |program, args| {
            let record = operators::settled(program, &args[0])?;
            Ok(program.add(Expr::Field(record, name.to_owned()))?)
        })
    }

    /// The record with only these columns, in this order.
    #[must_use]
    pub fn select(&self, names: &[&str]) -> Self {
        self.reshaped("select", |_| {
            Ok(names
                .iter()
                .map(|n| ((*n).to_owned(), (*n).to_owned()))
                .collect())
        })
    }

    /// The record without these columns.
    #[must_use]
    pub fn drop(&self, names: &[&str]) -> Self {
        self.reshaped("drop", |all| {
            require(all, names)?;
            let kept = all.iter().filter(|name| !names.contains(&name.as_str()));
            Ok(kept.map(|name| (name.clone(), name.clone())).collect())
        })
    }

    /// The record with columns renamed from the first to the second of each pair.
    #[must_use]
    pub fn rename(&self, names: &[(&str, &str)]) -> Self {
        self.reshaped("rename", |all| {
            let old: Vec<&str> = names.iter().map(|pair| pair.0).collect();
            require(all, &old)?;
            let new = |name: &String| {
                let pair = names.iter().find(|pair| pair.0 == name);
                pair.map_or_else(|| name.clone(), |pair| pair.1.to_owned())
            };
            Ok(all.iter().map(|name| (new(name), name.clone())).collect())
        })
    }

    /// A record of columns of this one; `columns` gives pairs of new and old names.
    fn reshaped(
        &self,
        operation: &str,
        columns: impl FnOnce(&[String]) -> Checked<Vec<(String, String)>>,
    ) -> Self {
        Self::apply(operation, operation, &[self.into()], |program, args| {
            let record = operators::settled(program, &args[0])?;
            let DType::Record(fields) = program.dtype(record) else {
                return Err(not_a_record(program.dtype(record)));
            };
            let all: Vec<String> = fields.iter().map(|f| f.name.clone()).collect();
            let mut record_fields = Vec::new();
            for (new, old) in columns(&all)? {
                record_fields.push((new, program.add(Expr::Field(record, old))?));
            }
            Ok(program.add(Expr::Record(record_fields))?)
        })
    }

    /// The record with more columns, or others in the place of those of the same name. They are looked at the events of this stream:
    /// a window is evaluated there, any other stream has the value it has there.
    #[must_use]
    pub fn with_columns<C: Into<Operand>>(
        &self,
        columns: impl IntoIterator<Item = (impl Into<String>, C)>,
    ) -> Self {
        let (names, operands) = unzipped(columns);
        self.beside("with_columns", operands, |draft, clock, args| {
            let own = draft.read(clock)?;
            let mut fields = columns_of(draft, own)?;
            for (name, arg) in names.into_iter().zip(args) {
                let value = operators::settled(&mut draft.program, arg)?;
                match fields.iter_mut().find(|field| field.0 == name) {
                    Some(field) => field.1 = value,
                    None => fields.push((name, value)),
                }
            }
            let body = draft.add(Expr::Record(fields))?;
            draft.define("with_columns", Clock::At(clock), body)
        })
    }

    /// Defines a stream at the events of this one, over values that other operands have there.
    pub(super) fn beside(
        &self,
        operation: &str,
        operands: Vec<Operand>,
        define: impl FnOnce(&mut Draft, StreamId, &[Arg]) -> Checked<StreamId>,
    ) -> Self {
        let mut streams = vec![self];
        streams.extend(operands.iter().filter_map(|operand| match operand {
            Operand::Stream(stream) => Some(stream),
            Operand::Literal(_) => None,
        }));
        Self::combine(operation, &streams, |draft, ids| {
            let clock = Clock::At(ids[0]);
            let mut rest = ids[1..].iter();
            let mut args = Vec::with_capacity(operands.len());
            for operand in &operands {
                args.push(match (operand, operand_id(operand, &mut rest)) {
                    (_, Some(id)) => Arg::Expr(draft.value_on(id, &clock)?),
                    (Operand::Literal(literal), None) => Arg::Literal(literal.clone()),
                    (Operand::Stream(_), None) => Arg::Literal(Literal::Null),
                });
            }
            define(draft, ids[0], &args)
        })
    }
}

fn operand_id<'a>(
    operand: &Operand,
    ids: &mut impl Iterator<Item = &'a StreamId>,
) -> Option<StreamId> {
    match operand {
        Operand::Stream(_) => ids.next().copied(),
        Operand::Literal(_) => None,
    }
}

/// A record of streams, wherever one of them changes.
pub fn struct_of<C: Into<Operand>>(
    columns: impl IntoIterator<Item = (impl Into<String>, C)>,
) -> Stream {
    let (names, operands) = unzipped(columns);
    Stream::apply("struct_of", "struct", &operands, |program, args| {
        let mut fields = Vec::with_capacity(args.len());
        for (name, arg) in names.into_iter().zip(args) {
            fields.push((name, operators::settled(program, arg)?));
        }
        Ok(program.add(Expr::Record(fields))?)
    })
}

pub(super) fn unzipped<C: Into<Operand>>(
    columns: impl IntoIterator<Item = (impl Into<String>, C)>,
) -> (Vec<String>, Vec<Operand>) {
    columns
        .into_iter()
        .map(|(name, operand)| (name.into(), operand.into()))
        .unzip()
}

/// The fields of a record value.
pub(super) fn columns_of(draft: &mut Draft, record: ExprId) -> Checked<Columns> {
    let DType::Record(fields) = draft.program.dtype(record).clone() else {
        return Err(not_a_record(draft.program.dtype(record)));
    };
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let value = draft.add(Expr::Field(record, field.name.clone()))?;
        columns.push((field.name, value));
    }
    Ok(columns)
}

fn not_a_record(found: &DType) -> Problem {
    Problem::types(format!(
        "the stream has one value of type {found}, not columns"
    ))
    .hint("`struct_of` makes a record of streams")
}

fn require(all: &[String], names: &[&str]) -> Checked<()> {
    match names.iter().find(|name| !all.iter().any(|n| n == *name)) {
        None => Ok(()),
        Some(name) => Err(Problem::types(format!("there is no column `{name}`"))
            .hint(format!("there are {}", all.join(", ")))),
    }
}
