//! Runs a loop on raw memory row by row: what compiled code must do, as plain code. Every read and write is checked.
//!
//! A value in a register is a word as [`Imm`] holds it: integers sign- or zero-extended, an `f32` as its 32 bits.

use std::{fmt, ops::Range, ptr};

use tilt_ir::Id;

use super::{
    AccessId, Binary, By, Combine, Compare, Function, Imm, Inst, LANES, Loop, Sink, Slot, Store,
    Ty, Unary, ValueId, shifts,
};
use crate::{
    abi::{Args, Target, View},
    jit::runtime,
};

/// Executes `l`, which must have passed [`verify`](super::verify()). Rows that do not exist are neither read nor written.
///
/// # Safety
/// `args` keep the promises of [`abi`](crate::abi) for `l`, where rows past the end need not exist, and `lead` and `len` of the views and
/// targets are true.
///
/// # Panics
/// When a row reads or writes outside of `lead` and `len`, or an instruction gets an operand that its contract rules out. The message names
/// the loop, the access, column or value, and the row.
pub unsafe fn interpret(l: &Loop, args: *const Args) {
    let mut machine = Machine {
        l,
        // SAFETY: the caller promises valid arguments.
        args: unsafe { &*args },
        targets: l.targets(),
        range: 0,
        registers: vec![0; l.values.len()],
    };
    match &l.sink {
        Sink::Store { columns, .. } => machine.store_rows(columns),
        Sink::Scan { slots, backward } => machine.scan(slots, *backward),
        Sink::Fold { slots, backward } => machine.fold(slots, *backward),
        Sink::Panes { slots, every } => machine.panes(slots, i64::from(*every)),
        Sink::Slide {
            slots,
            span,
            running,
        } => machine.slide(slots, *span, *running),
        Sink::Comb { slots } => machine.comb(slots),
    }
}

struct Machine<'a> {
    l: &'a Loop,
    args: &'a Args,
    /// The types of the columns that are written.
    targets: Vec<Ty>,
    /// The number of the current range of a fold.
    range: i64,
    /// The values of the current row, in order of definition.
    registers: Vec<u64>,
}

/// Sinks.
impl Machine<'_> {
    fn store_rows(&mut self, columns: &[Store]) {
        for row in 0..self.args.rows as i64 {
            self.evaluate(row);
            for (k, store) in columns.iter().enumerate() {
                self.write(k, row, self.register(store.value));
                if let Some(valid) = store.valid {
                    self.write_validity(k, row, self.register(valid));
                }
            }
        }
    }

    fn scan(&mut self, slots: &[Slot], backward: bool) {
        let mut carries: Vec<_> = slots
            .iter()
            .zip(0..)
            .map(|(s, k)| self.carry(*s, k))
            .collect();
        let ranges = in_order(0..self.args.rows as i64, backward);
        for (nth, range) in ranges.enumerate() {
            let rows = self.begin_range(range);
            if nth > 0 {
                carries = slots.iter().map(|s| self.neutral(*s)).collect();
            }
            let rows = in_order(rows, backward);
            self.combine_rows(slots, rows, &mut carries, Self::write_row);
        }
        for (k, carry) in carries.iter().enumerate() {
            // SAFETY: the state has a word for each slot.
            unsafe { *self.args.state.add(k) = *carry };
        }
    }

    /// The rows of a range, which is the current one from here on.
    fn begin_range(&mut self, range: i64) -> Range<i64> {
        self.range = range;
        // SAFETY: the ranges are pairs, one for each row of the arguments.
        unsafe {
            let pair = self.args.ranges.offset(2 * range as isize);
            *pair..*pair.add(1)
        }
    }

    fn fold(&mut self, slots: &[Slot], backward: bool) {
        for range in 0..self.args.rows as i64 {
            let rows = self.begin_range(range);
            let mut totals: Vec<_> = slots.iter().map(|s| self.neutral(*s)).collect();
            self.combine_rows(slots, in_order(rows, backward), &mut totals, |_, _, _| {});
            self.write_row(range, &totals);
        }
    }

    fn panes(&mut self, slots: &[Slot], every: i64) {
        for pane in 0..self.args.rows as i64 {
            let mut totals: Vec<_> = slots.iter().map(|s| self.neutral(*s)).collect();
            let rows = pane * every..(pane + 1) * every;
            self.combine_rows(slots, rows, &mut totals, |_, _, _| {});
            self.write_row(pane, &totals);
        }
    }

    /// Each group is combined with itself some lanes earlier, what lies before it being in the state, then with what runs.
    fn slide(&mut self, slots: &[Slot], span: u32, running: bool) {
        let shifts = shifts(span);
        let (each, columns) = (self.l.state_words(), 1 + usize::from(running));
        let exist = self.begin_range(0);
        for range in 1..self.args.rows as i64 {
            let rows = self.begin_range(range);
            for (k, slot) in slots.iter().enumerate() {
                if running && range > 1 {
                    let run = k * each + shifts.len() * LANES;
                    let neutral = [self.neutral(*slot); LANES];
                    self.set_state(run, &neutral);
                }
            }
            for base in rows.step_by(LANES) {
                let mut groups: Vec<_> = slots.iter().map(|s| [self.neutral(*s); LANES]).collect();
                for lane in 0..LANES {
                    let row = base + lane as i64;
                    if exist.contains(&row) {
                        self.evaluate(row);
                        for (group, slot) in groups.iter_mut().zip(slots) {
                            group[lane] = self.register(slot.value);
                        }
                    }
                }
                for (k, (slot, mut group)) in slots.iter().zip(groups).enumerate() {
                    let (op, ty) = (slot.op, self.l.ty(slot.value));
                    for (step, shift) in shifts.iter().enumerate() {
                        let at = k * each + step * LANES;
                        let both = [self.state(at), group].concat();
                        self.set_state(at, &group);
                        for (lane, word) in group.iter_mut().enumerate() {
                            let earlier = both[LANES + lane - *shift as usize];
                            *word = op.words(ty, earlier, *word);
                        }
                    }
                    self.write_lanes(k * columns, base, &group);
                    if running {
                        let at = k * each + shifts.len() * LANES;
                        let mut run = self.state(at);
                        for (run, word) in run.iter_mut().zip(&group) {
                            *run = op.words(ty, *run, *word);
                        }
                        self.set_state(at, &run);
                        self.write_lanes(k * columns + 1, base, &run);
                    }
                }
            }
        }
    }

    fn comb(&mut self, slots: &[Slot]) {
        for range in 0..self.args.rows as i64 {
            let rows = self.begin_range(range);
            for (k, slot) in slots.iter().enumerate() {
                if range > 0 {
                    let neutral = [self.neutral(*slot); LANES];
                    self.set_state(k * LANES, &neutral);
                }
            }
            for row in in_order(rows.clone(), true) {
                self.evaluate(row);
                let lane = (row - rows.start) as usize % LANES;
                for (k, slot) in slots.iter().enumerate() {
                    let mut run = self.state(k * LANES);
                    let ty = self.l.ty(slot.value);
                    run[lane] = slot.op.words(ty, run[lane], self.register(slot.value));
                    self.set_state(k * LANES, &run);
                    self.write(k, row, run[lane]);
                }
            }
        }
    }

    /// Words of the state, one for each lane.
    fn state(&self, at: usize) -> [u64; LANES] {
        // SAFETY: the state has as many words as the loop says.
        std::array::from_fn(|lane| unsafe { *self.args.state.add(at + lane) })
    }

    fn set_state(&self, at: usize, words: &[u64; LANES]) {
        for (lane, word) in words.iter().enumerate() {
            // SAFETY: the state has as many words as the loop says.
            unsafe { *self.args.state.add(at + lane) = *word };
        }
    }

    /// Writes the rows of a group.
    fn write_lanes(&self, k: usize, base: i64, words: &[u64; LANES]) {
        for (lane, word) in words.iter().enumerate() {
            self.write(k, base + lane as i64, *word);
        }
    }

    /// Combines the rows into `carries`, in groups of eight counted from the first that `rows` gives. `each` gets the carries of every row:
    /// those before its group, combined with the tree over the group's rows up to this one.
    fn combine_rows(
        &mut self,
        slots: &[Slot],
        rows: impl Iterator<Item = i64>,
        carries: &mut [u64],
        each: impl Fn(&Self, i64, &[u64]),
    ) {
        let empty: Vec<_> = slots.iter().map(|s| [self.neutral(*s); LANES]).collect();
        let mut group = empty.clone();
        let mut before = carries.to_vec();
        for (n, row) in rows.enumerate() {
            let lane = n % LANES;
            if lane == 0 {
                group.clone_from(&empty);
                before.copy_from_slice(carries);
            }
            self.evaluate(row);
            for (k, slot) in slots.iter().enumerate() {
                let ty = self.l.ty(slot.value);
                group[k][lane] = self.register(slot.value);
                carries[k] = slot.op.words(ty, before[k], tree(slot.op, ty, &group[k]));
            }
            each(self, row, carries);
        }
    }

    fn neutral(&self, slot: Slot) -> u64 {
        slot.op.neutral(self.l.ty(slot.value)).bits
    }

    /// The carry of slot number `k` from the state.
    fn carry(&self, slot: Slot, k: usize) -> u64 {
        // SAFETY: the state has a word for each slot.
        let word = unsafe { *self.args.state.add(k) };
        wrap(self.l.ty(slot.value), word)
    }

    fn write_row(&self, row: i64, words: &[u64]) {
        for (k, word) in words.iter().enumerate() {
            self.write(k, row, *word);
        }
    }
}

/// The rows of a range from first to last, or from last to first.
fn in_order(rows: Range<i64>, backward: bool) -> impl Iterator<Item = i64> {
    let Range { start, end } = rows;
    rows.map(move |row| {
        if backward {
            end - 1 - (row - start)
        } else {
            row
        }
    })
}

/// The balanced tree `((x0 ⊕ x1) ⊕ (x2 ⊕ x3)) ⊕ ((x4 ⊕ x5) ⊕ (x6 ⊕ x7))`.
fn tree(op: Combine, ty: Ty, words: &[u64]) -> u64 {
    match words {
        [word] => *word,
        words => {
            let (left, right) = words.split_at(words.len() / 2);
            op.words(ty, tree(op, ty, left), tree(op, ty, right))
        }
    }
}

impl Combine {
    /// Two words of type `ty` combined, as loops do it.
    pub fn words(self, ty: Ty, a: u64, b: u64) -> u64 {
        binary(self.binary(), ty, a, b).expect("these operations are total")
    }
}

/// The body.
impl Machine<'_> {
    fn evaluate(&mut self, row: i64) {
        for (id, node) in self.l.values.iter() {
            let word = self.inst(&node.inst, node.ty, row);
            self.registers[id.index()] =
                word.unwrap_or_else(|why| self.fail(format_args!("value {id:?}"), row, &why));
        }
    }

    fn register(&self, id: ValueId) -> u64 {
        self.registers[id.index()]
    }

    /// The result of an instruction for a row, or why it has none.
    fn inst(&self, inst: &Inst, ty: Ty, row: i64) -> Result<u64, String> {
        let get = |id: &ValueId| self.register(*id);
        let word = match inst {
            Inst::Const(imm) => imm.bits,
            // SAFETY: there is a word for each parameter.
            Inst::Param(param) => wrap(ty, unsafe { *self.args.params.add(param.index()) }),
            Inst::Row => self.args.first.wrapping_add(row) as u64,
            Inst::Load(access) => self.load(*access, row),
            Inst::Valid(access) => self.valid(*access, row),
            Inst::Lookup(access, index) => self.read(*access, get(index) as i64, row),
            Inst::Unary(op, a) => unary(*op, ty, get(a)),
            Inst::Binary(op, a, b) => binary(*op, ty, get(a), get(b))?,
            Inst::Compare(op, a, b) => compare(*op, self.l.ty(*a), get(a), get(b)),
            Inst::Select(condition, a, b) if get(condition) == 1 => get(a),
            Inst::Select(_, _, b) => get(b),
            Inst::Convert(a) => convert(self.l.ty(*a), ty, get(a)),
            Inst::Bits(a) => wrap(ty, get(a)),
            Inst::Call(function, operands) => {
                call(function, &operands.iter().map(get).collect::<Vec<_>>())?
            }
        };
        Ok(word)
    }

    fn fail(&self, what: impl fmt::Display, row: i64, why: &str) -> ! {
        panic!("loop {}, {what}, row {row}: {why}", self.l.name)
    }
}

/// Memory. Elements are little-endian, as on every machine that code is compiled for.
impl Machine<'_> {
    fn view(&self, access: AccessId) -> &View {
        // SAFETY: there is a view for each access.
        unsafe { &*self.args.views.add(access.index()) }
    }

    fn target(&self, k: usize) -> &Target {
        // SAFETY: there is a target for each column of the sink.
        unsafe { &*self.args.targets.add(k) }
    }

    fn fail_access(&self, access: AccessId, row: i64, why: &str) -> ! {
        let name = &self.l.accesses[access].name;
        self.fail(format_args!("access {name}"), row, why)
    }

    fn load(&self, access: AccessId, row: i64) -> u64 {
        let element = match self.l.accesses[access].by {
            By::Index => self.index(access, row),
            By::Back(rows) => {
                self.check_back(access, row, rows);
                row
            }
            _ => self.position(access, row),
        };
        self.read(access, element, row)
    }

    /// What is read back must be the first target: compiled code has it in registers.
    fn check_back(&self, access: AccessId, row: i64, rows: u32) {
        let bytes = rows as usize * self.l.accesses[access].ty.bytes();
        let expected = self.target(0).values.wrapping_sub(bytes).cast_const();
        if self.view(access).values != expected {
            self.fail_access(access, row, "this is not what the loop stored before");
        }
    }

    /// The number of the row or of its range, whichever the access goes by.
    fn position(&self, access: AccessId, row: i64) -> i64 {
        match self.l.accesses[access].by {
            By::Range => self.range,
            By::Row | By::Back(_) | By::Index | By::Table => row,
        }
    }

    fn index(&self, access: AccessId, row: i64) -> i64 {
        let index = self.view(access).index;
        if index.is_null() {
            self.fail_access(access, row, "there is no index column");
        }
        // SAFETY: an index column has an element for each row.
        i64::from(unsafe { *index.offset(row as isize) })
    }

    fn valid(&self, access: AccessId, row: i64) -> u64 {
        let view = self.view(access);
        if view.validity.is_null() {
            self.fail_access(access, row, "there is no validity");
        }
        let position = self.position(access, row);
        // The length of an indexed column says nothing about rows.
        if self.l.accesses[access].by != By::Index {
            self.check_read(access, position, row);
        }
        // SAFETY: validity has a bit for each row or range.
        unsafe { read_bit(view.validity, position) }
    }

    fn read(&self, access: AccessId, element: i64, row: i64) -> u64 {
        self.check_read(access, element, row);
        let ty = self.l.accesses[access].ty;
        let values = self.view(access).values;
        if !is_aligned(values, ty) {
            self.fail_access(access, row, "the values are not aligned");
        }
        // SAFETY: the element lies within the lead and length of the view.
        unsafe { read_element(values, ty, element) }
    }

    fn check_read(&self, access: AccessId, element: i64, row: i64) {
        let View { lead, len, .. } = *self.view(access);
        let (first, end) = (-i128::from(lead), i128::from(len));
        if !(first..end).contains(&i128::from(element)) {
            let why = format!("element {element} is not one of {first} .. {end}");
            self.fail_access(access, row, &why);
        }
    }

    fn write(&self, k: usize, row: i64, word: u64) {
        self.check_write(k, row);
        let ty = self.targets[k];
        let values = self.target(k).values;
        if !is_aligned(values, ty) {
            self.fail(
                format_args!("column {k}"),
                row,
                "the values are not aligned",
            );
        }
        // SAFETY: the row lies within the length of the target.
        unsafe { write_element(values, ty, row, word) }
    }

    fn write_validity(&self, k: usize, row: i64, bit: u64) {
        self.check_write(k, row);
        let validity = self.target(k).validity;
        if validity.is_null() {
            self.fail(format_args!("column {k}"), row, "there is no validity");
        }
        // SAFETY: the row lies within the length of the target.
        unsafe { write_bit(validity, row, bit) }
    }

    fn check_write(&self, k: usize, row: i64) {
        let len = self.target(k).len;
        if row as u64 >= len {
            let why = format!("row {row} is not one of 0 .. {len}");
            self.fail(format_args!("column {k}"), row, &why);
        }
    }
}

fn is_aligned(values: *const u8, ty: Ty) -> bool {
    values.addr().is_multiple_of(ty.bytes().max(1))
}

/// # Safety
/// The element can be read.
unsafe fn read_element(values: *const u8, ty: Ty, element: i64) -> u64 {
    if ty == Ty::Bool {
        // SAFETY: as promised.
        return unsafe { read_bit(values, element) };
    }
    let mut bytes = [0; 8];
    // SAFETY: as promised; no element is longer than a word.
    unsafe {
        let from = values.offset(element as isize * ty.bytes() as isize);
        ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), ty.bytes());
    }
    wrap(ty, u64::from_le_bytes(bytes))
}

/// # Safety
/// The element can be written.
unsafe fn write_element(values: *mut u8, ty: Ty, element: i64, word: u64) {
    if ty == Ty::Bool {
        // SAFETY: as promised.
        return unsafe { write_bit(values, element, word) };
    }
    let bytes = word.to_le_bytes();
    // SAFETY: as promised; no element is longer than a word.
    unsafe {
        let to = values.offset(element as isize * ty.bytes() as isize);
        ptr::copy_nonoverlapping(bytes.as_ptr(), to, ty.bytes());
    }
}

/// # Safety
/// The byte of bit `at`, counted from the least significant of the first byte, can be read.
unsafe fn read_bit(bits: *const u8, at: i64) -> u64 {
    // SAFETY: as promised.
    let byte = unsafe { *bits.offset(at.div_euclid(8) as isize) };
    u64::from(byte >> at.rem_euclid(8) & 1)
}

/// # Safety
/// The byte of bit `at` can be read and written.
unsafe fn write_bit(bits: *mut u8, at: i64, bit: u64) {
    let mask = 1 << at.rem_euclid(8);
    // SAFETY: as promised.
    unsafe {
        let byte = bits.offset(at.div_euclid(8) as isize);
        *byte = if bit == 1 {
            *byte | mask
        } else {
            *byte & !mask
        };
    }
}

/// The low bits of a word as a value of type `ty`.
fn wrap(ty: Ty, word: u64) -> u64 {
    Imm::int(ty, word as i64).bits
}

fn integer(ty: Ty, bits: u64) -> i128 {
    Imm { ty, bits }.integer()
}

/// A float as a double, which holds each of them exactly.
fn double(ty: Ty, bits: u64) -> f64 {
    match ty {
        Ty::F32 => f64::from(f32::from_bits(bits as u32)),
        _ => f64::from_bits(bits),
    }
}

/// Evaluates an expression on words taken as floats of type `$ty`, in the arithmetic of that type.
macro_rules! on_floats {
    ($ty:expr, |$($x:ident),+| $result:expr) => {
        if $ty == Ty::F32 {
            $(let $x = f32::from_bits($x as u32);)+
            u64::from($result.to_bits())
        } else {
            $(let $x = f64::from_bits($x);)+
            $result.to_bits()
        }
    };
}

fn unary(op: Unary, ty: Ty, a: u64) -> u64 {
    match op {
        Unary::Neg if ty.is_float() => on_floats!(ty, |a| (-a)),
        Unary::Abs if ty.is_float() => on_floats!(ty, |a| a.abs()),
        Unary::Neg => wrap(ty, a.wrapping_neg()),
        Unary::Abs => wrap(ty, integer(ty, a).unsigned_abs() as u64),
        Unary::Not => wrap(ty, !a),
        Unary::Sqrt => on_floats!(ty, |a| a.sqrt()),
        Unary::Floor => on_floats!(ty, |a| a.floor()),
        Unary::Ceil => on_floats!(ty, |a| a.ceil()),
        Unary::Trunc => on_floats!(ty, |a| a.trunc()),
        Unary::Round => on_floats!(ty, |a| a.round_ties_even()),
    }
}

fn binary(op: Binary, ty: Ty, a: u64, b: u64) -> Result<u64, &'static str> {
    if ty.is_float() {
        return Ok(float_binary(op, ty, a, b));
    }
    let (x, y) = (integer(ty, a), integer(ty, b));
    let result = match op {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x.wrapping_mul(y),
        Binary::Div | Binary::Rem => divide(op, ty, x, y)?,
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::Shl | Binary::Shr => shift(op, ty, x, y)?,
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
    };
    Ok(wrap(ty, result as u64))
}

fn float_binary(op: Binary, ty: Ty, a: u64, b: u64) -> u64 {
    match op {
        Binary::Add => on_floats!(ty, |a, b| (a + b)),
        Binary::Sub => on_floats!(ty, |a, b| (a - b)),
        Binary::Mul => on_floats!(ty, |a, b| (a * b)),
        Binary::Div => on_floats!(ty, |a, b| (a / b)),
        _ => unreachable!("the verifier allows no other operation on floats"),
    }
}

fn divide(op: Binary, ty: Ty, x: i128, y: i128) -> Result<i128, &'static str> {
    if y == 0 {
        return Err("the divisor is zero");
    }
    let quotient = x / y;
    if integer(ty, wrap(ty, quotient as u64)) != quotient {
        return Err("the quotient overflows");
    }
    Ok(if op == Binary::Div { quotient } else { x % y })
}

fn shift(op: Binary, ty: Ty, x: i128, count: i128) -> Result<i128, &'static str> {
    if !(0..i128::from(ty.bits())).contains(&count) {
        return Err("the count of the shift is not less than the width");
    }
    Ok(if op == Binary::Shl {
        x << count
    } else {
        x >> count
    })
}

fn compare(op: Compare, ty: Ty, a: u64, b: u64) -> u64 {
    let order = if ty.is_float() {
        double(ty, a).partial_cmp(&double(ty, b))
    } else {
        Some(integer(ty, a).cmp(&integer(ty, b)))
    };
    let holds = match (order, op) {
        // One of them is NaN.
        (None, op) => op == Compare::Ne,
        (Some(order), Compare::Eq) => order.is_eq(),
        (Some(order), Compare::Ne) => order.is_ne(),
        (Some(order), Compare::Lt) => order.is_lt(),
        (Some(order), Compare::Le) => order.is_le(),
        (Some(order), Compare::Gt) => order.is_gt(),
        (Some(order), Compare::Ge) => order.is_ge(),
    };
    u64::from(holds)
}

fn convert(from: Ty, to: Ty, a: u64) -> u64 {
    match (from.is_float(), to) {
        (false, Ty::F32) => u64::from((integer(from, a) as f32).to_bits()),
        (false, Ty::F64) => (integer(from, a) as f64).to_bits(),
        (false, to) => wrap(to, a),
        (true, Ty::F32 | Ty::F64) if from == to => a,
        (true, Ty::F32 | Ty::F64) => Imm::float(to, double(from, a)).bits,
        (true, to) => saturate(to, double(from, a) as i128),
    }
}

/// The integer of type `ty` that is nearest to `value`.
fn saturate(ty: Ty, value: i128) -> u64 {
    let least = integer(ty, Combine::Max.neutral(ty).bits);
    let greatest = integer(ty, Combine::Min.neutral(ty).bits);
    wrap(ty, value.clamp(least, greatest) as u64)
}

/// A type that functions of the runtime take and give.
trait Word {
    fn from_word(word: u64) -> Self;
    fn to_word(self) -> u64;
}

impl Word for i64 {
    fn from_word(word: u64) -> Self {
        word as Self
    }
    fn to_word(self) -> u64 {
        self as u64
    }
}

impl Word for f32 {
    fn from_word(word: u64) -> Self {
        Self::from_bits(word as u32)
    }
    fn to_word(self) -> u64 {
        u64::from(self.to_bits())
    }
}

impl Word for f64 {
    fn from_word(word: u64) -> Self {
        Self::from_bits(word)
    }
    fn to_word(self) -> u64 {
        self.to_bits()
    }
}

/// Evaluates an expression in which `$name` is the Rust type for `$ty`.
macro_rules! with_type {
    ($ty:expr, $name:ident => $result:expr) => {
        match $ty {
            Ty::I64 => {
                type $name = i64;
                $result
            }
            Ty::F32 => {
                type $name = f32;
                $result
            }
            Ty::F64 => {
                type $name = f64;
                $result
            }
            _ => unreachable!("the verifier allows no other type in a call"),
        }
    };
}

fn call(function: &Function, words: &[u64]) -> Result<u64, String> {
    let address = runtime::address(&function.name)
        .ok_or_else(|| format!("the runtime has no function {}", function.name))?;
    let code = ptr::with_exposed_provenance(address);
    // SAFETY: the runtime's functions have the types that the loop states, and the verifier compares these with the operands.
    Ok(unsafe { call_at(code, &function.params, function.result, words) })
}

/// # Safety
/// `code` is an `extern "C"` function of these types, and there is a word for each parameter.
pub(super) unsafe fn call_at(code: *const (), params: &[Ty], result: Ty, words: &[u64]) -> u64 {
    // SAFETY: as promised.
    unsafe {
        match *params {
            [] => with_type!(result, R => call0::<R>(code)),
            [a] => with_type!(a, A => with_type!(result, R => call1::<A, R>(code, words))),
            [a, b] => with_type!(a, A => with_type!(b, B =>
                with_type!(result, R => call2::<A, B, R>(code, words)))),
            [a, b, c] => with_type!(a, A => with_type!(b, B => with_type!(c, C =>
                with_type!(result, R => call3::<A, B, C, R>(code, words))))),
            _ => unreachable!("the verifier allows no more operands in a call"),
        }
    }
}

/// # Safety
/// `code` is an `extern "C" fn() -> R`.
unsafe fn call0<R: Word>(code: *const ()) -> u64 {
    // SAFETY: as promised.
    let function: extern "C" fn() -> R = unsafe { std::mem::transmute(code) };
    function().to_word()
}

/// # Safety
/// `code` is an `extern "C" fn(A) -> R`.
unsafe fn call1<A: Word, R: Word>(code: *const (), words: &[u64]) -> u64 {
    // SAFETY: as promised.
    let function: extern "C" fn(A) -> R = unsafe { std::mem::transmute(code) };
    function(A::from_word(words[0])).to_word()
}

/// # Safety
/// `code` is an `extern "C" fn(A, B) -> R`.
unsafe fn call2<A: Word, B: Word, R: Word>(code: *const (), words: &[u64]) -> u64 {
    // SAFETY: as promised.
    let function: extern "C" fn(A, B) -> R = unsafe { std::mem::transmute(code) };
    function(A::from_word(words[0]), B::from_word(words[1])).to_word()
}

/// # Safety
/// `code` is an `extern "C" fn(A, B, C) -> R`.
unsafe fn call3<A: Word, B: Word, C: Word, R: Word>(code: *const (), words: &[u64]) -> u64 {
    // SAFETY: as promised.
    let function: extern "C" fn(A, B, C) -> R = unsafe { std::mem::transmute(code) };
    function(
        A::from_word(words[0]),
        B::from_word(words[1]),
        C::from_word(words[2]),
    )
    .to_word()
}
