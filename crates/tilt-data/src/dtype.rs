//! Arrow types and the IR's.

use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, Fields, TimeUnit};
use tilt_ir::{DType, Field, FloatWidth, Unit, Width};

/// The type of a stream over a column of type `data_type`; `None` if it has no meaning here.
///
/// Strings are one type however they are stored (plain, large, view, dictionary). Time zones are not part of a
/// stream's type.
pub fn from_arrow(data_type: &DataType) -> Option<DType> {
    Some(match data_type {
        DataType::Boolean => DType::Bool,
        DataType::Int8 => DType::Int(Width::W8),
        DataType::Int16 => DType::Int(Width::W16),
        DataType::Int32 => DType::Int(Width::W32),
        DataType::Int64 => DType::Int(Width::W64),
        DataType::UInt8 => DType::UInt(Width::W8),
        DataType::UInt16 => DType::UInt(Width::W16),
        DataType::UInt32 => DType::UInt(Width::W32),
        DataType::UInt64 => DType::UInt(Width::W64),
        DataType::Float16 => DType::Float(FloatWidth::W16),
        DataType::Float32 => DType::Float(FloatWidth::W32),
        DataType::Float64 => DType::Float(FloatWidth::W64),
        DataType::Timestamp(unit, _) => DType::Timestamp(unit_from_arrow(*unit)),
        DataType::Duration(unit) => DType::Duration(unit_from_arrow(*unit)),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DType::Utf8,
        DataType::Dictionary(_, values)
            if matches!(
                **values,
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
            ) =>
        {
            DType::Utf8
        }
        DataType::Struct(fields) => DType::Record(
            fields
                .iter()
                .map(|f| {
                    Some(Field {
                        name: f.name().clone(),
                        dtype: from_arrow(f.data_type())?,
                    })
                })
                .collect::<Option<_>>()?,
        ),
        DataType::List(item) | DataType::LargeList(item) => {
            DType::List(Box::new(from_arrow(item.data_type())?))
        }
        _ => return None,
    })
}

/// The type of the column that holds values of type `dtype` when none is given: instants and durations on a plain axis
/// are `Int64`, records are structs.
pub fn to_arrow(dtype: &DType) -> DataType {
    match dtype {
        DType::Bool => DataType::Boolean,
        DType::Int(Width::W8) => DataType::Int8,
        DType::Int(Width::W16) => DataType::Int16,
        DType::Int(Width::W32) => DataType::Int32,
        DType::Int(Width::W64) => DataType::Int64,
        DType::UInt(Width::W8) => DataType::UInt8,
        DType::UInt(Width::W16) => DataType::UInt16,
        DType::UInt(Width::W32) => DataType::UInt32,
        DType::UInt(Width::W64) => DataType::UInt64,
        DType::Float(FloatWidth::W16) => DataType::Float16,
        DType::Float(FloatWidth::W32) => DataType::Float32,
        DType::Float(FloatWidth::W64) => DataType::Float64,
        DType::Timestamp(unit) => {
            unit_to_arrow(*unit).map_or(DataType::Int64, |u| DataType::Timestamp(u, None))
        }
        DType::Duration(unit) => unit_to_arrow(*unit).map_or(DataType::Int64, DataType::Duration),
        DType::Utf8 => DataType::Utf8,
        DType::Record(fields) => DataType::Struct(
            fields
                .iter()
                .map(|f| ArrowField::new(&f.name, to_arrow(&f.dtype), true))
                .collect::<Fields>(),
        ),
        DType::List(item) => {
            DataType::List(Arc::new(ArrowField::new_list_field(to_arrow(item), true)))
        }
    }
}

/// Whether a column of type `data_type` can hold a stream's values of type `dtype` as they are.
pub fn accepts(dtype: &DType, data_type: &DataType) -> bool {
    from_arrow(data_type).as_ref() == Some(dtype) || to_arrow(dtype) == *data_type
}

/// The Arrow types that hold `dtype`, for messages.
pub(crate) fn accepted(dtype: &DType) -> String {
    match dtype {
        DType::Utf8 => "Utf8, LargeUtf8, Utf8View and dictionaries of them".to_owned(),
        other => to_arrow(other).to_string(),
    }
}

/// The IR's name of an Arrow unit.
pub fn unit_from_arrow(unit: TimeUnit) -> Unit {
    match unit {
        TimeUnit::Second => Unit::Second,
        TimeUnit::Millisecond => Unit::Milli,
        TimeUnit::Microsecond => Unit::Micro,
        TimeUnit::Nanosecond => Unit::Nano,
    }
}

/// Arrow's name of a unit; plain ticks have none.
pub fn unit_to_arrow(unit: Unit) -> Option<TimeUnit> {
    match unit {
        Unit::Tick => None,
        Unit::Second => Some(TimeUnit::Second),
        Unit::Milli => Some(TimeUnit::Millisecond),
        Unit::Micro => Some(TimeUnit::Microsecond),
        Unit::Nano => Some(TimeUnit::Nanosecond),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_comes_back_from_its_arrow_type() {
        let mut types = vec![DType::Bool, DType::Utf8];
        types.extend(Width::ALL.map(DType::Int));
        types.extend(Width::ALL.map(DType::UInt));
        types.extend([FloatWidth::W16, FloatWidth::W32, FloatWidth::W64].map(DType::Float));
        types.extend(Unit::ALL[1..].iter().map(|u| DType::Timestamp(*u)));
        types.extend(Unit::ALL[1..].iter().map(|u| DType::Duration(*u)));
        types.push(DType::List(Box::new(DType::F64)));
        types.push(DType::Record(vec![Field {
            name: "a".to_owned(),
            dtype: DType::I32,
        }]));
        for dtype in types {
            assert_eq!(from_arrow(&to_arrow(&dtype)), Some(dtype.clone()));
            assert!(accepts(&dtype, &to_arrow(&dtype)));
        }
    }

    #[test]
    fn strings_are_one_type_and_decimals_none() {
        for keys in [DataType::Int8, DataType::UInt64] {
            let dictionary = DataType::Dictionary(Box::new(keys), Box::new(DataType::Utf8));
            assert_eq!(from_arrow(&dictionary), Some(DType::Utf8));
        }
        assert_eq!(from_arrow(&DataType::Utf8View), Some(DType::Utf8));
        assert_eq!(from_arrow(&DataType::Decimal128(10, 2)), None);
        assert_eq!(
            from_arrow(&DataType::Dictionary(
                Box::new(DataType::Int8),
                Box::new(DataType::Int64)
            )),
            None
        );
    }

    #[test]
    fn instants_on_a_plain_axis_are_integers() {
        assert_eq!(to_arrow(&DType::Timestamp(Unit::Tick)), DataType::Int64);
        assert!(accepts(&DType::Duration(Unit::Tick), &DataType::Int64));
        assert!(!accepts(&DType::Duration(Unit::Nano), &DataType::Int64));
        assert!(accepts(
            &DType::Timestamp(Unit::Nano),
            &DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
        ));
    }
}
