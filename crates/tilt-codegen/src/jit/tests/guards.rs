//! Kernels on columns that lie directly at memory that must not be touched.

use super::{
    super::{Module, Options, target::Cpu},
    harness::*,
    reductions::{Guarded, PAGE},
};
use crate::{
    abi::{Args, Target, View, nothing_ahead},
    lir::{By, Combine, Imm, Inst, LANES, Lanes, Loop, Sink, Ty},
};

pub(super) const TYPES: [Ty; 7] = [
    Ty::F64,
    Ty::F32,
    Ty::I64,
    Ty::I32,
    Ty::U16,
    Ty::I8,
    Ty::Bool,
];

/// A page of which exactly `elements` elements of a type may be touched on one side.
pub(super) struct Edge {
    page: Guarded,
    ty: Ty,
    elements: usize,
    at_end: bool,
}

impl Edge {
    pub(super) fn new(ty: Ty, elements: usize, at_end: bool) -> Self {
        let page = Guarded::new();
        let edge = Self {
            page,
            ty,
            elements,
            at_end,
        };
        assert!(edge.bytes() <= PAGE);
        edge
    }

    fn bytes(&self) -> usize {
        match self.ty {
            Ty::Bool => self.elements.div_ceil(8),
            ty => self.elements * ty.bytes(),
        }
    }

    pub(super) fn pointer(&self) -> *mut u8 {
        if self.at_end {
            self.page.end().wrapping_sub(self.bytes())
        } else {
            self.page.first()
        }
    }

    pub(super) fn fill(&self, words: &[u64]) {
        for (row, word) in words.iter().enumerate() {
            assert!(row < self.elements);
            // SAFETY: the element is within the page.
            unsafe {
                if self.ty == Ty::Bool {
                    let byte = self.pointer().add(row / 8);
                    *byte = *byte & !(1 << (row % 8)) | ((*word as u8 & 1) << (row % 8));
                } else {
                    let bytes = word.to_le_bytes();
                    let at = self.pointer().add(row * self.ty.bytes());
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, self.ty.bytes());
                }
            }
        }
    }

    pub(super) fn get(&self, row: usize) -> u64 {
        assert!(row < self.elements);
        // SAFETY: the element is within the page.
        unsafe {
            if self.ty == Ty::Bool {
                return u64::from(*self.pointer().add(row / 8) >> (row % 8) & 1);
            }
            let mut word = [0u8; 8];
            let at = self.pointer().add(row * self.ty.bytes());
            std::ptr::copy_nonoverlapping(at, word.as_mut_ptr(), self.ty.bytes());
            let bits = u64::from_le_bytes(word);
            if self.ty.is_float() {
                bits
            } else {
                Imm::int(self.ty, bits as i64).bits
            }
        }
    }
}

/// Calls a kernel of one column on rows or ranges.
///
/// # Safety
/// View, target and ranges keep the contract of [`crate::abi`].
unsafe fn call(module: &Module, view: View, target: Target, ranges: &[i64], rows: usize) {
    let mut state = 0u64;
    let args = Args {
        views: &raw const view,
        targets: &raw const target,
        params: std::ptr::null(),
        state: &raw mut state,
        ranges: ranges.as_ptr(),
        first: 0,
        rows: rows as u64,
        ahead: nothing_ahead(),
        step: 0,
    };
    // SAFETY: the caller's promise.
    unsafe { module.kernel(0)(&raw const args) };
}

/// Without checks, which would stop a kernel before the page does.
pub(super) fn compiled(lp: &Loop) -> Vec<Module> {
    let unchecked = modes().into_iter().filter(|(options, _)| !options.checked);
    unchecked.map(|mode| module(lp, &mode)).collect()
}

#[test]
fn stores_touch_whole_groups_of_rows_and_no_more() {
    for ty in TYPES {
        for lanes in [Lanes::One, Lanes::Eight] {
            for streaming in [false, true] {
                let mut lp = new_loop(lanes);
                let column = lp.access(ty, By::Row);
                let x = lp.push(Inst::Load(column), ty);
                let valid = lp.push(Inst::Valid(column), Ty::Bool);
                lp.store(x, Some(valid));
                if let Sink::Store {
                    streaming: past, ..
                } = &mut lp.sink
                {
                    *past = streaming;
                }
                for module in compiled(&lp) {
                    for rows in 0..45 {
                        // Streaming stores ask for aligned groups, which pages begin with.
                        store_guarded(ty, &module, rows, false);
                        store_guarded(ty, &module, rows, true);
                    }
                }
            }
        }
    }
}

/// Copies rows between columns that lie at an end of accessible memory.
fn store_guarded(ty: Ty, module: &Module, rows: usize, at_end: bool) {
    let padded = rows.next_multiple_of(LANES);
    let edge = |ty: Ty| Edge::new(ty, padded, at_end);
    let (values, valid, out, out_valid) = (edge(ty), edge(Ty::Bool), edge(ty), edge(Ty::Bool));
    let words = samples(ty, rows, 41);
    let bits = samples(Ty::Bool, rows, 42);
    values.fill(&words);
    valid.fill(&bits);
    let view = View {
        values: values.pointer(),
        validity: valid.pointer(),
        index: std::ptr::null(),
        lead: 0,
        len: padded as u64,
    };
    let target = Target {
        values: out.pointer(),
        validity: out_valid.pointer(),
        len: padded as u64,
    };
    // SAFETY: a group more than the rows can be read and written.
    unsafe { call(module, view, target, &[], rows) };
    for row in 0..rows {
        assert_eq!(out_valid.get(row), bits[row], "{ty:?} {row} of {rows}");
        let (found, expected) = (out.get(row), words[row]);
        assert!(
            same(ty, found, expected),
            "{ty:?} {row} of {rows}: {found:x}"
        );
    }
}

#[test]
fn reads_by_index_touch_the_elements_they_name() {
    for ty in TYPES.into_iter().filter(|ty| *ty != Ty::Bool) {
        let mut lp = new_loop(Lanes::Eight);
        let column = lp.access(ty, By::Index);
        let x = lp.push(Inst::Load(column), ty);
        lp.store(x, None);
        for module in compiled(&lp) {
            for (len, is_near) in [1usize, 2, 7, 8, 9, 17, 31]
                .into_iter()
                .flat_map(|len| [(len, false), (len, true)])
            {
                for at_end in [false, true] {
                    let rows = 2 * len + 3;
                    let padded = rows.next_multiple_of(LANES);
                    let values = Edge::new(ty, len, at_end);
                    let index = Edge::new(Ty::U32, padded, at_end);
                    let valid = Edge::new(Ty::Bool, padded, at_end);
                    let out = Edge::new(ty, padded, at_end);
                    let words = samples(ty, len, 43);
                    values.fill(&words);
                    // Neighbours are read together, but none beyond the column.
                    let at = |row: usize| {
                        if is_near {
                            row / 2 % len
                        } else {
                            row * 5 % len
                        }
                    };
                    index.fill(&(0..padded).map(|row| at(row) as u64).collect::<Vec<_>>());
                    let view = View {
                        values: values.pointer(),
                        validity: valid.pointer(),
                        index: index.pointer().cast(),
                        lead: 0,
                        len: len as u64,
                    };
                    let target = Target {
                        values: out.pointer(),
                        validity: std::ptr::null_mut(),
                        len: padded as u64,
                    };
                    // SAFETY: the index names elements, for a group more than the rows.
                    unsafe { call(&module, view, target, &[], rows) };
                    for row in 0..rows {
                        let (found, expected) = (out.get(row), words[at(row)]);
                        assert!(
                            same(ty, found, expected),
                            "{ty:?} {row} of {rows}: {found:x}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn scans_touch_nothing_outside_of_their_ranges() {
    for ty in [Ty::F64, Ty::I64, Ty::I32] {
        for backward in [false, true] {
            let mut lp = new_loop(Lanes::Eight);
            let column = lp.access(ty, By::Row);
            let x = lp.push(Inst::Load(column), ty);
            let valid = lp.push(Inst::Valid(column), Ty::Bool);
            let zero = lp.constant(Imm::zero(ty));
            let x = lp.push(Inst::Select(valid, x, zero), ty);
            lp.slot(Combine::Add, x, false, backward);
            for module in compiled(&lp) {
                for rows in 0..45 {
                    for at_end in [false, true] {
                        scan_guarded(ty, &module, rows, backward, at_end);
                    }
                }
            }
        }
    }
}

/// Counts rows, in two ranges that touch each other and both ends of what is accessible.
fn scan_guarded(ty: Ty, module: &Module, rows: usize, backward: bool, at_end: bool) {
    let (values, out) = (Edge::new(ty, rows, at_end), Edge::new(ty, rows, at_end));
    let valid = Edge::new(Ty::Bool, rows, at_end);
    let number = |n: usize| {
        if ty.is_float() {
            Imm::float(ty, n as f64).bits
        } else {
            Imm::int(ty, n as i64).bits
        }
    };
    values.fill(&vec![number(1); rows]);
    valid.fill(&vec![1; rows]);
    let view = View {
        values: values.pointer(),
        validity: valid.pointer(),
        index: std::ptr::null(),
        lead: 0,
        len: rows as u64,
    };
    let target = Target {
        values: out.pointer(),
        validity: std::ptr::null_mut(),
        len: rows as u64,
    };
    let split = rows / 3;
    let ranges = [[0, split as i64], [split as i64, rows as i64]];
    // SAFETY: the rows of the ranges exist.
    unsafe { call(module, view, target, ranges.as_flattened(), 2) };
    for row in 0..rows {
        let range = if row < split { 0..split } else { split..rows };
        let counted = if backward {
            range.end - row
        } else {
            row + 1 - range.start
        };
        assert_eq!(
            out.get(row),
            number(counted),
            "{ty:?} {row} of {rows}, backward {backward}"
        );
    }
}

/// Checked code stops the process, so this test runs itself in another one.
#[test]
fn checked_code_says_which_loop_reaches_too_far() {
    const CHILD: &str = "TILT_TEST_REACHES_TOO_FAR";
    if std::env::var_os(CHILD).is_none() {
        let name = "jit::tests::guards::checked_code_says_which_loop_reaches_too_far";
        let this = std::env::current_exe().expect("this binary has a path");
        let mut child = std::process::Command::new(this);
        child.args([name, "--exact", "--nocapture"]).env(CHILD, "1");
        let output = child.output().expect("this binary can be run again");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        let expected = "tilt: loop test reaches for elements 8..16 of a column of -0..15";
        assert!(said.contains(expected), "{said}");
        return;
    }
    let mut lp = new_loop(Lanes::Eight);
    let x = lp.load(Ty::F64);
    lp.store(x, None);
    let options = Options {
        checked: true,
        ..Options::default()
    };
    let module = module(&lp, &(options, Cpu::host().clone()));
    let (values, out) = (Edge::new(Ty::F64, 16, true), Edge::new(Ty::F64, 16, true));
    let view = View {
        values: values.pointer(),
        validity: std::ptr::null(),
        index: std::ptr::null(),
        lead: 0,
        len: 15,
    };
    let target = Target {
        values: out.pointer(),
        validity: std::ptr::null_mut(),
        len: 16,
    };
    // SAFETY: there are 16 elements; only the view says that there is one less.
    unsafe { call(&module, view, target, &[], 16) };
}
