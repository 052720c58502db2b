//! Columns at the edges of a run: from Arrow arrays to leaves and back.
//!
//! The leaves of a record are those of its fields one after the other. A record inside another, which no input has, is a leaf of bools, where it is there, and
//! then its own leaves. Strings are codes, lists that windows have made are words that stand for them, and half floats are doubles, which hold them exactly.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, ArrowPrimitiveType, Float64Array, StructArray, UInt32Array,
    cast::AsArray,
    types::{Float16Type, Float64Type},
};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use tilt_codegen::lower::register;
use tilt_data::dtype::to_arrow;
use tilt_ir::{DType, FloatWidth};

use crate::{
    series::Leaf,
    text::{Dictionary, is_text},
};

const HALF: DType = DType::Float(FloatWidth::W16);

/// The leaf of a scalar column.
pub(crate) fn leaf(array: &ArrayRef, dtype: &DType, dictionary: &Dictionary) -> Leaf {
    let array = if is_text(dtype) {
        dictionary.encode(array)
    } else if *dtype == HALF {
        let doubles: Float64Array = array.as_primitive::<Float16Type>().unary(f64::from);
        Arc::new(doubles)
    } else {
        Arc::clone(array)
    };
    let ty = register(dtype).expect("a planned type");
    Leaf::of_array(&array, ty)
}

/// The array of a field, from the leaves that come next.
pub(crate) fn array<'a>(
    leaves: &mut impl Iterator<Item = &'a Leaf>,
    dtype: &DType,
    dictionary: &Dictionary,
) -> ArrayRef {
    let leaf = leaves.next().expect("a leaf for every field");
    if let DType::Record(fields) = dtype {
        let present = leaf.bits().cloned().map(NullBuffer::new);
        let children = fields
            .iter()
            .map(|f| array(&mut *leaves, &f.dtype, dictionary));
        let children: Vec<ArrayRef> = children.collect();
        return match to_arrow(dtype) {
            DataType::Struct(_) if children.is_empty() => {
                Arc::new(StructArray::new_empty_fields(leaf.len, present))
            }
            DataType::Struct(fields) => Arc::new(StructArray::new(fields, children, present)),
            other => unreachable!("a record is no {other}"),
        };
    }
    if is_text(dtype) {
        let codes = leaf.to_array(&DataType::UInt32);
        let codes: &UInt32Array = codes.as_primitive();
        return dictionary.decode(codes);
    }
    if matches!(dtype, DType::List(_)) {
        let words = leaf.to_array(&DataType::UInt64);
        return dictionary.lists.decode(words.as_primitive(), dtype);
    }
    if *dtype == HALF {
        let doubles = leaf.to_array(&DataType::Float64);
        let round = <Float16Type as ArrowPrimitiveType>::Native::from_f64;
        return Arc::new(
            doubles
                .as_primitive::<Float64Type>()
                .unary::<_, Float16Type>(round),
        );
    }
    leaf.to_array(&to_arrow(dtype))
}
