//! Building loops by hand and running them on columns of words.

use tilt_ir::Arena;

use super::super::{Level, Module, Options, compile_for, target::Cpu};
use crate::{
    abi::{Args, Target, View},
    lir::{
        Access, AccessId, Binary, By, Combine, Imm, Inst, LANES, Lanes, Loop, Node, Param, ParamId,
        Sink, Slot, Store, Ty, ValueId,
    },
};

/// Every way to compile that tests go through.
pub(super) fn modes() -> Vec<(Options, Cpu)> {
    let mut modes = Vec::new();
    for optimize in [Level::Fast, Level::Full] {
        for checked in [false, true] {
            modes.push((Options { optimize, checked }, Cpu::host().clone()));
        }
    }
    if cfg!(target_arch = "x86_64") {
        for name in ["x86-64", "x86-64-v3"] {
            modes.push((Options::default(), Cpu::named(name)));
        }
    }
    modes
}

pub(super) fn module(lp: &Loop, mode: &(Options, Cpu)) -> Module {
    match compile_for(std::slice::from_ref(lp), mode.0, &mode.1, None) {
        Ok(module) => module,
        Err(error) => panic!(
            "{error}\n{}",
            super::super::llvm_ir(std::slice::from_ref(lp), &mode.0)
        ),
    }
}

pub(super) fn new_loop(lanes: Lanes) -> Loop {
    Loop {
        name: "test".into(),
        lanes,
        accesses: Arena::default(),
        params: Arena::default(),
        values: Arena::default(),
        sink: Sink::Store {
            columns: vec![],
            streaming: false,
        },
    }
}

/// Shorthands.
pub(super) trait Build {
    fn access(&mut self, ty: Ty, by: By) -> AccessId;
    fn param(&mut self, ty: Ty) -> ParamId;
    fn push(&mut self, inst: Inst, ty: Ty) -> ValueId;
    fn load(&mut self, ty: Ty) -> ValueId;
    fn constant(&mut self, imm: Imm) -> ValueId;
    fn binary(&mut self, op: Binary, a: ValueId, b: ValueId) -> ValueId;
    fn store(&mut self, value: ValueId, valid: Option<ValueId>);
    fn slot(&mut self, op: Combine, value: ValueId, fold: bool, backward: bool);
}

impl Build for Loop {
    fn access(&mut self, ty: Ty, by: By) -> AccessId {
        let name = format!("c{}", self.accesses.len());
        self.accesses.push(Access {
            name,
            ty,
            by,
            nullable: true,
        })
    }
    fn param(&mut self, ty: Ty) -> ParamId {
        let name = "p".into();
        self.params.push(Param { name, ty })
    }
    fn push(&mut self, inst: Inst, ty: Ty) -> ValueId {
        self.values.push(Node { inst, ty })
    }
    fn load(&mut self, ty: Ty) -> ValueId {
        let access = self.access(ty, By::Row);
        self.push(Inst::Load(access), ty)
    }
    fn constant(&mut self, imm: Imm) -> ValueId {
        self.push(Inst::Const(imm), imm.ty)
    }
    fn binary(&mut self, op: Binary, a: ValueId, b: ValueId) -> ValueId {
        self.push(Inst::Binary(op, a, b), self.ty(a))
    }
    fn store(&mut self, value: ValueId, valid: Option<ValueId>) {
        match &mut self.sink {
            Sink::Store { columns, .. } => columns.push(Store { value, valid }),
            _ => unreachable!(),
        }
    }
    fn slot(&mut self, op: Combine, value: ValueId, fold: bool, backward: bool) {
        let mut all = match &self.sink {
            Sink::Scan { slots, .. } | Sink::Fold { slots, .. } => slots.clone(),
            _ => vec![],
        };
        all.push(Slot { op, value });
        self.sink = if fold {
            Sink::Fold {
                slots: all,
                backward,
            }
        } else {
            Sink::Scan {
                slots: all,
                backward,
            }
        };
    }
}

/// Memory aligned to a cache line, with room for eight elements before row 0.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    origin: usize,
}

/// Bytes before row 0.
const LEAD: usize = LANES * 8;

impl Buffer {
    pub(super) fn new(ty: Ty, rows: usize, fill: u8) -> Self {
        let size = LEAD + (rows + 2 * LANES) * ty.bytes().max(1) + 64;
        let bytes = vec![fill; size];
        let origin = bytes.as_ptr().align_offset(64) + LEAD;
        Self { bytes, origin }
    }
    pub(super) fn pack(ty: Ty, words: &[u64], fill: u8) -> Self {
        let mut buffer = Self::new(ty, words.len(), fill);
        for (row, word) in words.iter().enumerate() {
            buffer.set(ty, row, *word);
        }
        buffer
    }
    pub(super) fn set(&mut self, ty: Ty, row: usize, word: u64) {
        if ty == Ty::Bool {
            let byte = &mut self.bytes[self.origin + row / 8];
            *byte = *byte & !(1 << (row % 8)) | ((word as u8 & 1) << (row % 8));
        } else {
            let at = self.origin + row * ty.bytes();
            self.bytes[at..at + ty.bytes()].copy_from_slice(&word.to_le_bytes()[..ty.bytes()]);
        }
    }
    pub(super) fn get(&self, ty: Ty, row: usize) -> u64 {
        if ty == Ty::Bool {
            return u64::from(self.bytes[self.origin + row / 8] >> (row % 8) & 1);
        }
        let mut word = [0; 8];
        let at = self.origin + row * ty.bytes();
        word[..ty.bytes()].copy_from_slice(&self.bytes[at..at + ty.bytes()]);
        let bits = u64::from_le_bytes(word);
        if ty.is_float() {
            bits
        } else {
            Imm::int(ty, bits as i64).bits
        }
    }
    pub(super) fn pointer(&mut self) -> *mut u8 {
        self.bytes[self.origin..].as_mut_ptr()
    }
}

/// A column as words.
pub(super) struct Column {
    pub(super) ty: Ty,
    pub(super) words: Vec<u64>,
    pub(super) valid: Vec<bool>,
    pub(super) index: Vec<u32>,
}

impl Column {
    pub(super) fn new(ty: Ty, words: Vec<u64>) -> Self {
        let valid = vec![true; words.len()];
        let index = vec![];
        Self {
            ty,
            words,
            valid,
            index,
        }
    }
    pub(super) fn f64(values: impl IntoIterator<Item = f64>) -> Self {
        let words = values.into_iter().map(f64::to_bits).collect();
        Self::new(Ty::F64, words)
    }
}

/// What a kernel wrote.
pub(super) struct Output {
    pub(super) columns: Vec<Vec<u64>>,
    pub(super) valid: Vec<Vec<bool>>,
}

/// The rest of what a kernel is called with.
#[derive(Default)]
pub(super) struct Call {
    pub(super) params: Vec<u64>,
    pub(super) state: Vec<u64>,
    pub(super) ranges: Vec<i64>,
    pub(super) first: i64,
    pub(super) rows: usize,
}

/// Runs a loop once. Memory outside of columns holds garbage.
pub(super) fn run(lp: &Loop, module: &Module, inputs: &[Column], call: &mut Call) -> Output {
    let rows = call.rows;
    let bits = |bools: &[bool]| bools.iter().map(|b| u64::from(*b)).collect::<Vec<_>>();
    let mut values: Vec<_> = inputs
        .iter()
        .map(|c| Buffer::pack(c.ty, &c.words, 0xa5))
        .collect();
    let mut valid: Vec<_> = inputs
        .iter()
        .map(|c| Buffer::pack(Ty::Bool, &bits(&c.valid), 0x5a))
        .collect();
    let mut index: Vec<_> = inputs
        .iter()
        .map(|c| {
            let words: Vec<u64> = c.index.iter().map(|i| u64::from(*i)).collect();
            Buffer::pack(Ty::U32, &words, 0xee)
        })
        .collect();
    let views: Vec<View> = (0..inputs.len())
        .map(|k| View {
            values: values[k].pointer(),
            validity: valid[k].pointer(),
            index: index[k].pointer().cast(),
            lead: LANES as u64,
            len: (inputs[k].words.len() + LANES) as u64,
        })
        .collect();
    let types = lp.targets();
    let mut out: Vec<_> = types
        .iter()
        .map(|ty| Buffer::new(*ty, rows, 0xcc))
        .collect();
    let mut out_valid: Vec<_> = types
        .iter()
        .map(|_| Buffer::new(Ty::Bool, rows, 0xcc))
        .collect();
    let targets: Vec<Target> = (0..types.len())
        .map(|k| Target {
            values: out[k].pointer(),
            validity: out_valid[k].pointer(),
            len: rows.next_multiple_of(LANES) as u64,
        })
        .collect();
    // A scan of all rows, unless ranges are given.
    let all = [0, rows as i64];
    let scans = matches!(
        lp.sink,
        Sink::Scan { .. } | Sink::Slide { .. } | Sink::Comb { .. }
    );
    let (ranges, counted) = match (scans, call.ranges.len()) {
        (true, 0) => (all.as_ptr(), 1),
        (true, n) => (call.ranges.as_ptr(), n / 2),
        (false, _) => (call.ranges.as_ptr(), rows),
    };
    let args = Args {
        views: views.as_ptr(),
        targets: targets.as_ptr(),
        params: call.params.as_ptr(),
        state: call.state.as_mut_ptr(),
        ranges,
        first: call.first,
        rows: counted as u64,
        ahead: crate::abi::nothing_ahead(),
        step: 0,
    };
    // SAFETY: buffers have room for a group on either side.
    unsafe { module.kernel(0)(&raw const args) };
    let column = |k: usize| (0..rows).map(|row| out[k].get(types[k], row)).collect();
    let validity = |k: usize| {
        (0..rows)
            .map(|row| out_valid[k].get(Ty::Bool, row) == 1)
            .collect()
    };
    Output {
        columns: (0..types.len()).map(column).collect(),
        valid: (0..types.len()).map(validity).collect(),
    }
}

/// Words that are interesting for a type, `count` of them.
pub(super) fn samples(ty: Ty, count: usize, seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..count)
        .map(|_| {
            let word = random();
            let float = (word >> 11) as f64 / 1e9 - 4e6;
            match ty {
                Ty::F64 | Ty::F32 if word.is_multiple_of(13) => Imm::float(ty, f64::INFINITY).bits,
                Ty::F64 | Ty::F32 if word.is_multiple_of(11) => Imm::float(ty, -0.0).bits,
                Ty::F64 | Ty::F32 => Imm::float(ty, float).bits,
                Ty::Bool => word >> 7 & 1,
                _ if word.is_multiple_of(5) => Imm::int(ty, (word >> 8) as i64 % 7).bits,
                _ => Imm::int(ty, word as i64).bits,
            }
        })
        .collect()
}

/// Equal bits, or both NaN.
pub(super) fn same(ty: Ty, a: u64, b: u64) -> bool {
    let nan = |bits: u64| match ty {
        Ty::F64 => f64::from_bits(bits).is_nan(),
        Ty::F32 => f32::from_bits(bits as u32).is_nan(),
        _ => false,
    };
    a == b || nan(a) && nan(b)
}
