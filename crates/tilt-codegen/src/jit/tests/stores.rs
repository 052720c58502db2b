//! Loops that store columns.

use super::harness::*;
use crate::lir::{Binary, By, Compare, Function, Imm, Inst, Lanes, Sink, Ty, Unary};

const NUMBERS: [Ty; 10] = [
    Ty::I8,
    Ty::I16,
    Ty::I32,
    Ty::I64,
    Ty::U8,
    Ty::U16,
    Ty::U32,
    Ty::U64,
    Ty::F32,
    Ty::F64,
];

const BOTH: [Lanes; 2] = [Lanes::One, Lanes::Eight];

/// An integer of any type as a number.
fn number(ty: Ty, word: u64) -> i128 {
    if ty.is_signed() {
        i128::from(word as i64)
    } else {
        i128::from(word)
    }
}

fn float(ty: Ty, word: u64) -> f64 {
    match ty {
        Ty::F32 => f64::from(f32::from_bits(word as u32)),
        _ => f64::from_bits(word),
    }
}

fn float_binary(op: Binary, ty: Ty, a: u64, b: u64) -> u64 {
    // For f32, computing in f64 and rounding gives the same for these operations.
    let (a, b) = (float(ty, a), float(ty, b));
    let result = match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        _ => a / b,
    };
    Imm::float(ty, result).bits
}

fn int_binary(op: Binary, ty: Ty, a: u64, b: u64) -> u64 {
    let (x, y) = (number(ty, a), number(ty, b));
    let result = match op {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x.wrapping_mul(y),
        Binary::Div => x / y,
        Binary::Rem => x % y,
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::Shl => x << y,
        Binary::Shr => x >> y,
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
    };
    Imm::int(ty, result as i64).bits
}

#[test]
fn binary_operations() {
    use Binary::*;
    for ty in NUMBERS {
        for lanes in BOTH {
            let mut lp = new_loop(lanes);
            let (a, b) = (lp.load(ty), lp.load(ty));
            let ops: &[Binary] = if ty.is_float() {
                &[Add, Sub, Mul, Div]
            } else {
                &[Add, Sub, Mul, And, Or, Xor, Min, Max]
            };
            for op in ops {
                let value = lp.binary(*op, a, b);
                lp.store(value, None);
            }
            for mode in modes() {
                let module = module(&lp, &mode);
                for rows in [0, 1, 3, 8, 13, 40] {
                    let (x, y) = (samples(ty, rows, 1), samples(ty, rows, 2));
                    let inputs = [Column::new(ty, x.clone()), Column::new(ty, y.clone())];
                    let mut call = Call {
                        rows,
                        ..Call::default()
                    };
                    let output = run(&lp, &module, &inputs, &mut call);
                    for (op, column) in ops.iter().zip(&output.columns) {
                        for row in 0..rows {
                            let expected = if ty.is_float() {
                                float_binary(*op, ty, x[row], y[row])
                            } else {
                                int_binary(*op, ty, x[row], y[row])
                            };
                            let message = (ty, op, lanes, x[row], y[row], &mode);
                            assert!(same(ty, column[row], expected), "{message:?}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn division_and_shifts() {
    use Binary::*;
    for ty in NUMBERS.into_iter().filter(|ty| ty.is_int()) {
        for lanes in BOTH {
            let mut lp = new_loop(lanes);
            let (a, b) = (lp.load(ty), lp.load(ty));
            // Divisors and counts that are safe whatever a row holds.
            let one = lp.constant(Imm::int(ty, 1));
            let mask = lp.constant(Imm::int(ty, i64::from(ty.bits()) - 1));
            let least_three = lp.constant(Imm::int(ty, 3));
            let divisor = lp.binary(Or, b, one);
            let divisor = lp.binary(Max, divisor, least_three);
            let count = lp.binary(And, b, mask);
            for (op, operand) in [(Div, divisor), (Rem, divisor), (Shl, count), (Shr, count)] {
                let value = lp.binary(op, a, operand);
                lp.store(value, None);
            }
            for mode in modes() {
                let module = module(&lp, &mode);
                let rows = 21;
                let (x, y) = (samples(ty, rows, 3), samples(ty, rows, 4));
                let inputs = [Column::new(ty, x.clone()), Column::new(ty, y.clone())];
                let mut call = Call {
                    rows,
                    ..Call::default()
                };
                let output = run(&lp, &module, &inputs, &mut call);
                for row in 0..rows {
                    let divisor = number(ty, y[row] | 1).max(3) as u64;
                    let count = y[row] & u64::from(ty.bits() - 1);
                    let operands = [(Div, divisor), (Rem, divisor), (Shl, count), (Shr, count)];
                    for (k, (op, operand)) in operands.into_iter().enumerate() {
                        let expected = int_binary(op, ty, x[row], operand);
                        assert_eq!(output.columns[k][row], expected, "{ty:?} {op:?} {mode:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn unary_operations() {
    use Unary::*;
    for ty in NUMBERS {
        for lanes in BOTH {
            let mut lp = new_loop(lanes);
            let a = lp.load(ty);
            let ops: &[Unary] = if ty.is_float() {
                &[Neg, Abs, Sqrt, Floor, Ceil, Trunc, Round]
            } else {
                &[Neg, Not, Abs]
            };
            for op in ops {
                let value = lp.push(Inst::Unary(*op, a), ty);
                lp.store(value, None);
            }
            for mode in modes() {
                let module = module(&lp, &mode);
                let rows = 29;
                let mut x = samples(ty, rows, 5);
                if ty.is_float() {
                    for (word, value) in x.iter_mut().zip([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e18]) {
                        *word = Imm::float(ty, value).bits;
                    }
                }
                let mut call = Call {
                    rows,
                    ..Call::default()
                };
                let output = run(&lp, &module, &[Column::new(ty, x.clone())], &mut call);
                for (op, column) in ops.iter().zip(&output.columns) {
                    for row in 0..rows {
                        let expected = if ty.is_float() {
                            let v = float(ty, x[row]);
                            let v = match op {
                                Neg => -v,
                                Abs => v.abs(),
                                Sqrt => v.sqrt(),
                                Floor => v.floor(),
                                Ceil => v.ceil(),
                                Trunc => v.trunc(),
                                _ => v.round_ties_even(),
                            };
                            Imm::float(ty, v).bits
                        } else {
                            let v = number(ty, x[row]);
                            let v = match op {
                                Neg => -v,
                                Not => !v,
                                _ => v.abs(),
                            };
                            Imm::int(ty, v as i64).bits
                        };
                        let message = (ty, op, lanes, x[row], &mode);
                        assert!(same(ty, column[row], expected), "{message:?}");
                    }
                }
            }
        }
    }
}

fn converted(from: Ty, to: Ty, word: u64) -> u64 {
    if from == Ty::Bool {
        return if to.is_float() {
            Imm::float(to, word as f64).bits
        } else {
            word
        };
    }
    match (from.is_float(), to) {
        (false, Ty::F64) => (number(from, word) as f64).to_bits(),
        (false, Ty::F32) => u64::from((number(from, word) as f32).to_bits()),
        (false, _) => Imm::int(to, number(from, word) as i64).bits,
        (true, _) if to.is_float() => Imm::float(to, float(from, word)).bits,
        (true, _) => Imm::int(to, float(from, word) as i64).bits,
    }
}

#[test]
fn conversions() {
    for from in Ty::ALL {
        for lanes in BOTH {
            let mut lp = new_loop(lanes);
            let a = lp.load(from);
            for to in NUMBERS {
                let value = lp.push(Inst::Convert(a), to);
                lp.store(value, None);
            }
            for mode in modes() {
                let module = module(&lp, &mode);
                let rows = 19;
                let x = if from.is_float() {
                    // What every type can hold.
                    (0..rows)
                        .map(|i| Imm::float(from, i as f64 * 6.37).bits)
                        .collect()
                } else {
                    samples(from, rows, 6)
                };
                let mut call = Call {
                    rows,
                    ..Call::default()
                };
                let output = run(&lp, &module, &[Column::new(from, x.clone())], &mut call);
                for (to, column) in NUMBERS.into_iter().zip(&output.columns) {
                    for row in 0..rows {
                        let expected = converted(from, to, x[row]);
                        let message = (from, to, lanes, x[row], &mode);
                        assert_eq!(column[row], expected, "{message:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn comparisons_selects_and_validity() {
    use Compare::*;
    for ty in NUMBERS {
        for lanes in BOTH {
            let mut lp = new_loop(lanes);
            let (left, right) = (lp.access(ty, By::Row), lp.access(ty, By::Row));
            let a = lp.push(Inst::Load(left), ty);
            let b = lp.push(Inst::Load(right), ty);
            let valid = lp.push(Inst::Valid(right), Ty::Bool);
            let ops = [Eq, Ne, Lt, Le, Gt, Ge];
            for op in ops {
                let value = lp.push(Inst::Compare(op, a, b), Ty::Bool);
                let both = lp.binary(Binary::And, value, valid);
                lp.store(value, Some(both));
            }
            let less = lp.push(Inst::Compare(Lt, a, b), Ty::Bool);
            let least = lp.push(Inst::Select(less, a, b), ty);
            let not = lp.push(Inst::Unary(Unary::Not, less), Ty::Bool);
            lp.store(least, Some(not));
            for mode in modes() {
                let module = module(&lp, &mode);
                for rows in (0..20).chain([32, 45, 71]) {
                    let (mut x, y) = (samples(ty, rows, 7), samples(ty, rows, 8));
                    if rows > 3 {
                        x[2] = y[2];
                        x[1] = if ty.is_float() {
                            Imm::float(ty, f64::NAN).bits
                        } else {
                            x[1]
                        };
                    }
                    let mut inputs = [Column::new(ty, x.clone()), Column::new(ty, y.clone())];
                    inputs[1].valid = (0..rows).map(|row| row % 3 != 1).collect();
                    let mut call = Call {
                        rows,
                        ..Call::default()
                    };
                    let output = run(&lp, &module, &inputs, &mut call);
                    for row in 0..rows {
                        let order = if ty.is_float() {
                            float(ty, x[row]).partial_cmp(&float(ty, y[row]))
                        } else {
                            Some(number(ty, x[row]).cmp(&number(ty, y[row])))
                        };
                        let holds = |op| match op {
                            Eq => order.is_some_and(std::cmp::Ordering::is_eq),
                            Ne => order.is_none_or(std::cmp::Ordering::is_ne),
                            Lt => order.is_some_and(std::cmp::Ordering::is_lt),
                            Le => order.is_some_and(std::cmp::Ordering::is_le),
                            Gt => order.is_some_and(std::cmp::Ordering::is_gt),
                            Ge => order.is_some_and(std::cmp::Ordering::is_ge),
                        };
                        for (k, op) in ops.into_iter().enumerate() {
                            assert_eq!(output.columns[k][row] == 1, holds(op), "{ty:?} {op:?}");
                            let valid = holds(op) && row % 3 != 1;
                            assert_eq!(output.valid[k][row], valid, "{ty:?} {op:?}");
                        }
                        let least = if holds(Lt) { x[row] } else { y[row] };
                        assert_eq!(output.columns[6][row], least);
                        assert_eq!(output.valid[6][row], !holds(Lt));
                    }
                }
            }
        }
    }
}

#[test]
fn elements_by_index_and_tables() {
    for ty in Ty::ALL {
        for lanes in BOTH {
            let mut lp = new_loop(lanes);
            let column = lp.access(ty, By::Index);
            let table = lp.access(ty, By::Table);
            let a = lp.push(Inst::Load(column), ty);
            let valid = lp.push(Inst::Valid(column), Ty::Bool);
            lp.store(a, Some(valid));
            let at = lp.load(Ty::I64);
            let found = lp.push(Inst::Lookup(table, at), ty);
            lp.store(found, None);
            for mode in modes() {
                let module = module(&lp, &mode);
                for rows in (0..20).chain([32, 45, 71]) {
                    let (x, y) = (samples(ty, 30, 9), samples(ty, 11, 10));
                    let mut first = Column::new(ty, x.clone());
                    first.index = (0..rows).map(|row| (row as u32 * 7) % 30).collect();
                    first.valid = (0..rows).map(|row| row % 4 != 0).collect();
                    let keys: Vec<u64> = (0..rows as u64).map(|row| row * 5 % 11).collect();
                    let third = Column::new(Ty::I64, keys.clone());
                    let inputs = [first, Column::new(ty, y.clone()), third];
                    let mut call = Call {
                        rows,
                        ..Call::default()
                    };
                    let output = run(&lp, &module, &inputs, &mut call);
                    for row in 0..rows {
                        assert_eq!(output.columns[0][row], x[row * 7 % 30], "{ty:?} {mode:?}");
                        assert_eq!(output.valid[0][row], row % 4 != 0);
                        assert_eq!(output.columns[1][row], y[keys[row] as usize], "{ty:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn params_rows_bits_and_bools() {
    for lanes in BOTH {
        let mut lp = new_loop(lanes);
        let row = lp.push(Inst::Row, Ty::I64);
        lp.store(row, None);
        for ty in Ty::ALL {
            let param = lp.param(ty);
            let value = lp.push(Inst::Param(param), ty);
            lp.store(value, None);
        }
        let a = lp.load(Ty::F64);
        let bits = lp.push(Inst::Bits(a), Ty::U64);
        lp.store(bits, None);
        let (p, q) = (lp.load(Ty::Bool), lp.load(Ty::Bool));
        let either = lp.binary(Binary::Xor, p, q);
        lp.store(either, Some(p));
        for mode in modes() {
            let module = module(&lp, &mode);
            for rows in (0..20).chain([32, 45, 71]) {
                let (x, y, z) = (
                    samples(Ty::F64, rows, 11),
                    samples(Ty::Bool, rows, 12),
                    samples(Ty::Bool, rows, 13),
                );
                let inputs = [
                    Column::new(Ty::F64, x.clone()),
                    Column::new(Ty::Bool, y.clone()),
                    Column::new(Ty::Bool, z.clone()),
                ];
                let params: Vec<u64> = Ty::ALL.iter().map(|ty| samples(*ty, 1, 14)[0]).collect();
                let mut call = Call {
                    rows,
                    params: params.clone(),
                    first: -5,
                    ..Call::default()
                };
                let output = run(&lp, &module, &inputs, &mut call);
                for row in 0..rows {
                    assert_eq!(output.columns[0][row] as i64, row as i64 - 5);
                    for (k, param) in params.iter().enumerate() {
                        assert_eq!(output.columns[k + 1][row], *param);
                    }
                    assert_eq!(output.columns[12][row], x[row]);
                    assert_eq!(output.columns[13][row], y[row] ^ z[row]);
                    assert_eq!(output.valid[13][row], y[row] == 1);
                }
            }
        }
    }
}

#[test]
fn runtime_functions() {
    for lanes in BOTH {
        let mut lp = new_loop(lanes);
        let (a, b) = (lp.load(Ty::F64), lp.load(Ty::F64));
        let function = |name: &str, arity| Function {
            name: name.into(),
            params: vec![Ty::F64; arity],
            result: Ty::F64,
        };
        let sine = lp.push(Inst::Call(function("tilt_sin", 1), vec![a]), Ty::F64);
        let power = lp.push(Inst::Call(function("tilt_pow", 2), vec![a, b]), Ty::F64);
        lp.store(sine, None);
        lp.store(power, None);
        for mode in modes() {
            let module = module(&lp, &mode);
            let rows = 11;
            let inputs = [
                Column::f64((0..rows).map(|i| i as f64 * 0.7)),
                Column::f64((0..rows).map(|i| 3.0 - i as f64)),
            ];
            let mut call = Call {
                rows,
                ..Call::default()
            };
            let output = run(&lp, &module, &inputs, &mut call);
            for row in 0..rows {
                let (x, y) = (row as f64 * 0.7, 3.0 - row as f64);
                assert_eq!(output.columns[0][row], libm::sin(x).to_bits());
                assert_eq!(output.columns[1][row], libm::pow(x, y).to_bits());
            }
        }
    }
}

/// Bodies that are too long to be copied gather the bits of groups that take turns.
#[test]
fn bits_of_long_bodies() {
    for streams in [false, true] {
        let mut lp = new_loop(Lanes::Eight);
        let column = lp.access(Ty::I64, By::Row);
        let x = lp.push(Inst::Load(column), Ty::I64);
        let valid = lp.push(Inst::Valid(column), Ty::Bool);
        let mut sum = x;
        for _ in 0..70 {
            sum = lp.binary(Binary::Add, sum, x);
            sum = lp.binary(Binary::Xor, sum, x);
        }
        let less = lp.push(Inst::Compare(Compare::Lt, sum, x), Ty::Bool);
        let both = lp.binary(Binary::And, less, valid);
        lp.store(sum, Some(less));
        lp.store(less, Some(both));
        lp.store(x, None);
        let Sink::Store { streaming, .. } = &mut lp.sink else {
            unreachable!()
        };
        *streaming = streams;
        let folded = |x: i64| (0..70).fold(x, |sum, _| sum.wrapping_add(x) ^ x);
        for mode in modes() {
            let module = module(&lp, &mode);
            for rows in [0, 1, 7, 8, 31, 32, 33, 40, 63, 64, 95, 96, 101, 256] {
                let x = samples(Ty::I64, rows, 16);
                let mut input = Column::new(Ty::I64, x.clone());
                input.valid = (0..rows).map(|row| row % 5 != 2).collect();
                let mut call = Call {
                    rows,
                    ..Call::default()
                };
                let output = run(&lp, &module, &[input], &mut call);
                for (row, word) in x.iter().enumerate() {
                    let sum = folded(*word as i64);
                    let less = sum < *word as i64;
                    assert_eq!(output.columns[0][row], sum as u64, "{row} of {rows}");
                    assert_eq!(output.valid[0][row], less, "{row} of {rows}");
                    assert_eq!(output.columns[1][row] == 1, less, "{row} of {rows}");
                    assert_eq!(output.valid[1][row], less && row % 5 != 2);
                    assert_eq!(output.columns[2][row], *word);
                }
            }
        }
    }
}

#[test]
fn streaming_stores() {
    for ty in NUMBERS {
        let mut lp = new_loop(Lanes::Eight);
        let a = lp.load(ty);
        let sum = lp.binary(Binary::Add, a, a);
        lp.store(sum, None);
        let Sink::Store { streaming, .. } = &mut lp.sink else {
            unreachable!()
        };
        *streaming = true;
        for mode in modes() {
            let module = module(&lp, &mode);
            let rows = 37;
            let x = samples(ty, rows, 15);
            let mut call = Call {
                rows,
                ..Call::default()
            };
            let output = run(&lp, &module, &[Column::new(ty, x.clone())], &mut call);
            for (row, word) in x.iter().enumerate() {
                let expected = if ty.is_float() {
                    float_binary(Binary::Add, ty, *word, *word)
                } else {
                    int_binary(Binary::Add, ty, *word, *word)
                };
                assert!(same(ty, output.columns[0][row], expected));
            }
        }
    }
}
