//! External functions: a loop computes the arguments of a chunk, the host's function is called row by row, and the loops after it read the results.

use tilt_codegen::{
    abi::{Target, View},
    lir::{By, LANES, Lanes, Sink, Store, Ty},
    lower::{Body, Result, Term, Unsupported, Valid, register},
};
use tilt_interp::Value;
use tilt_ir::{DType, Expr, ExprId, Id};

use crate::{
    memory::Scratch,
    plan::{ParamSource, Source},
    reads::StageReads,
    run::{Piece, Trouble},
    text::Dictionary,
    view,
};

/// A call of an external function.
#[derive(Debug)]
pub(crate) struct CallPlan {
    pub(crate) function: String,
    /// The loop that stores the arguments, one column each; none if there are none.
    pub(crate) arguments: Option<usize>,
    pub(crate) sources: Vec<Source>,
    pub(crate) params: Vec<ParamSource>,
    /// Types of the arguments.
    dtypes: Vec<DType>,
    result: DType,
    /// What is called with what, to call it once.
    key: Vec<Term>,
}

/// Lowers a call.
pub(crate) fn lower(
    reads: &mut StageReads,
    body: &mut Body,
    id: ExprId,
    args: &[Term],
) -> Result<Term> {
    let program = reads.planner.program;
    let Expr::Call { func, .. } = program.expr(id) else {
        unreachable!("only calls are called")
    };
    let function = &program.functions[*func];
    let is_list = |dtype: &DType| matches!(dtype, DType::List(_));
    if function.params.iter().any(is_list) || is_list(&function.result) {
        return Err(Unsupported("an external function of lists".into()));
    }
    // Codes of strings are given out before anything runs.
    if function.result == DType::Utf8 {
        return Err(Unsupported(
            "an external function that returns strings".into(),
        ));
    }
    let ty = register(&function.result)?;
    let calls = &reads.found().calls;
    let known = calls
        .iter()
        .position(|c| c.function == function.name && c.key == args);
    let call = match known {
        Some(known) => known,
        None => add(reads, body, function, args)?,
    };
    let access = reads.access(body, Source::Call(call), &function.name, ty, By::Row, true);
    Ok(Term::Scalar {
        value: body.load(access),
        valid: body.valid(access),
    })
}

fn add(
    reads: &mut StageReads,
    body: &mut Body,
    function: &tilt_ir::Function,
    args: &[Term],
) -> Result<usize> {
    let mut columns = Vec::with_capacity(args.len());
    for arg in args {
        let Term::Scalar { value, valid } = arg else {
            return Err(Unsupported(
                "a record as an argument of an external function".into(),
            ));
        };
        columns.push(Store {
            value: *value,
            valid: (*valid != Valid::Always).then(|| body.truth(*valid)),
        });
    }
    let mut call = CallPlan {
        function: function.name.clone(),
        arguments: None,
        sources: Vec::new(),
        params: Vec::new(),
        dtypes: function.params.clone(),
        result: function.result.clone(),
        key: args.to_vec(),
    };
    if !args.is_empty() {
        let sink = Sink::Store {
            columns,
            streaming: false,
        };
        let finished = body.clone().finish(
            format!("arguments of {}", function.name),
            Lanes::Eight,
            sink,
        );
        let found = reads.found();
        let sources = finished.accesses.iter();
        call.sources = sources.map(|a| found.sources[a.index()].clone()).collect();
        let params = finished.params.iter();
        call.params = params.map(|p| found.params[p.index()].clone()).collect();
        reads.planner.loops.push(finished.body);
        call.arguments = Some(reads.planner.loops.len() - 1);
    }
    let calls = &mut reads.found().calls;
    calls.push(call);
    Ok(calls.len() - 1)
}

/// Room for the arguments of a chunk.
pub(crate) fn targets(columns: &[(Ty, bool)], rows: usize, scratch: &mut Scratch) -> Vec<Target> {
    let padded = rows.next_multiple_of(LANES);
    let target = |(ty, nullable): &(Ty, bool)| {
        let bytes = if *ty == Ty::Bool {
            padded / 8
        } else {
            padded * ty.bytes()
        };
        Target {
            values: scratch.take(bytes),
            validity: if *nullable {
                scratch.take(padded / 8)
            } else {
                std::ptr::null_mut()
            },
            len: padded as u64,
        }
    };
    columns.iter().map(target).collect()
}

impl CallPlan {
    /// The results for the rows whose arguments are in `arguments`, as a column.
    ///
    /// # Safety
    /// The targets hold `rows` elements of the arguments' types, or null validity.
    pub(crate) unsafe fn results(
        &self,
        piece: &Piece,
        arguments: &[Target],
        rows: usize,
        scratch: &mut Scratch,
    ) -> std::result::Result<View, Trouble> {
        let function = piece
            .functions
            .get(&self.function)
            .ok_or(Trouble("an unknown function"))?;
        let padded = rows.next_multiple_of(LANES);
        let ty = register(&self.result).map_err(|_| Trouble("a function's type"))?;
        let values = scratch.slice::<u8>(padded * ty.bytes().max(1));
        let validity = scratch.slice::<u8>(padded / 8);
        values.fill(0);
        validity.fill(0);
        let mut args = Vec::with_capacity(arguments.len());
        for row in 0..rows {
            args.clear();
            for (target, dtype) in arguments.iter().zip(&self.dtypes) {
                // SAFETY: the caller's promise.
                args.push(unsafe { argument(target, dtype, row, piece.dictionary) }?);
            }
            if args.iter().any(Value::is_null) {
                continue;
            }
            piece.control.check()?;
            let result = function(&args);
            // The interpreter reports what it is instead.
            if !result.fits(&self.result) {
                return Err(Trouble("a function's result of another type"));
            }
            if put(values, ty, row, &result) {
                validity[row / 8] |= 1 << (row % 8);
            }
        }
        Ok(View {
            values: values.as_ptr(),
            validity: validity.as_ptr(),
            len: padded as u64,
            ..view::nothing()
        })
    }
}

/// An argument as the host takes it.
///
/// # Safety
/// As for [`CallPlan::results`].
unsafe fn argument(
    target: &Target,
    dtype: &DType,
    row: usize,
    dictionary: &Dictionary,
) -> std::result::Result<Value, Trouble> {
    // SAFETY: the caller's promise; bits are bytes of eight rows.
    let bit = |bits: *const u8| unsafe { *bits.add(row / 8) } >> (row % 8) & 1 == 1;
    if !target.validity.is_null() && !bit(target.validity) {
        return Ok(Value::Null);
    }
    let ty = register(dtype).map_err(|_| Trouble("an argument's type"))?;
    macro_rules! element {
        ($t:ty) => {{
            let at = target.values.wrapping_add(row * size_of::<$t>());
            // SAFETY: the caller's promise.
            unsafe { at.cast::<$t>().read_unaligned() }
        }};
    }
    Ok(match ty {
        Ty::Bool => Value::Bool(bit(target.values)),
        Ty::I8 => Value::Int(element!(i8).into()),
        Ty::I16 => Value::Int(element!(i16).into()),
        Ty::I32 => Value::Int(element!(i32).into()),
        Ty::I64 => Value::Int(element!(i64)),
        Ty::U8 => Value::UInt(element!(u8).into()),
        Ty::U16 => Value::UInt(element!(u16).into()),
        Ty::U32 if *dtype == DType::Utf8 => Value::Str(dictionary.text(element!(u32))),
        Ty::U32 => Value::UInt(element!(u32).into()),
        Ty::U64 => Value::UInt(element!(u64)),
        Ty::F32 => Value::Float(element!(f32).into()),
        Ty::F64 => Value::Float(element!(f64)),
    })
}

/// Writes a value into a column; `false` if it is φ.
fn put(column: &mut [u8], ty: Ty, row: usize, value: &Value) -> bool {
    let word = match *value {
        Value::Bool(v) => {
            column[row / 8] |= u8::from(v) << (row % 8);
            return true;
        }
        Value::Int(v) => v as u64,
        Value::UInt(v) => v,
        Value::Float(v) if ty == Ty::F32 => u64::from((v as f32).to_bits()),
        Value::Float(v) => v.to_bits(),
        Value::Null | Value::Str(_) | Value::Record(_) | Value::List(_) => return false,
    };
    // The low bytes of a two's complement number are the narrower number.
    let bytes = ty.bytes();
    column[row * bytes..(row + 1) * bytes].copy_from_slice(&word.to_le_bytes()[..bytes]);
    true
}
