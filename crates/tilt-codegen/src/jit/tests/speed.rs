//! Times of compilation and of kernels, for people: `cargo test --release -p tilt-codegen speed -- --ignored --nocapture`.

use std::time::Instant;

use inkwell::targets::FileType;

use super::{
    super::{Level, Options, generate, link, target::Cpu},
    harness::*,
};
use crate::{
    abi::{Args, Target, View},
    lir::{Binary, By, Combine, Compare, Imm, Inst, Lanes, Loop, Ty},
};

/// x * 2 + 1.
fn select() -> Loop {
    let mut lp = new_loop(Lanes::Eight);
    let x = lp.load(Ty::F64);
    let two = lp.constant(Imm::float(Ty::F64, 2.0));
    let one = lp.constant(Imm::float(Ty::F64, 1.0));
    let product = lp.binary(Binary::Mul, x, two);
    let sum = lp.binary(Binary::Add, product, one);
    lp.store(sum, None);
    lp
}

/// The same where x > 0 and x is valid.
fn select_where() -> Loop {
    let mut lp = new_loop(Lanes::Eight);
    let column = lp.access(Ty::F64, By::Row);
    let x = lp.push(Inst::Load(column), Ty::F64);
    let valid = lp.push(Inst::Valid(column), Ty::Bool);
    let two = lp.constant(Imm::float(Ty::F64, 2.0));
    let one = lp.constant(Imm::float(Ty::F64, 1.0));
    let zero = lp.constant(Imm::zero(Ty::F64));
    let product = lp.binary(Binary::Mul, x, two);
    let sum = lp.binary(Binary::Add, product, one);
    let above = lp.push(Inst::Compare(Compare::Gt, x, zero), Ty::Bool);
    let both = lp.binary(Binary::And, valid, above);
    lp.store(sum, Some(both));
    lp
}

fn combined(op: Combine, ty: Ty, fold: bool) -> Loop {
    let mut lp = new_loop(Lanes::Eight);
    let x = lp.load(ty);
    lp.slot(op, x, fold, false);
    lp
}

fn kernels() -> Vec<(&'static str, Loop)> {
    vec![
        ("select f64", select()),
        ("select where f64", select_where()),
        ("scan add f64", combined(Combine::Add, Ty::F64, false)),
        ("scan max i32", combined(Combine::Max, Ty::I32, false)),
        ("fold add f64", combined(Combine::Add, Ty::F64, true)),
        ("fold add f32", combined(Combine::Add, Ty::F32, true)),
        ("fold min i32", combined(Combine::Min, Ty::I32, true)),
    ]
}

/// Nanoseconds a row, the best of many runs.
fn time(lp: &Loop, kernel: crate::abi::Kernel, rows: usize) -> f64 {
    let fold = !matches!(lp.sink, crate::lir::Sink::Store { .. });
    let ty = lp.targets()[0];
    let mut x = Buffer::pack(ty, &samples(Ty::U8, rows, 1), 0);
    let mut bits = Buffer::new(Ty::Bool, rows, 0xf7);
    let (mut out, mut out_bits) = (Buffer::new(ty, rows, 0), Buffer::new(Ty::Bool, rows, 0));
    let view = View {
        values: x.pointer(),
        validity: bits.pointer(),
        index: std::ptr::null(),
        lead: 0,
        len: rows as u64,
    };
    let target = Target {
        values: out.pointer(),
        validity: out_bits.pointer(),
        len: rows as u64,
    };
    let ranges: Vec<i64> = (0..rows as i64 / 1000)
        .flat_map(|r| [r * 1000, r * 1000 + 1000])
        .collect();
    let mut state = [0u64];
    let args = Args {
        views: &raw const view,
        targets: &raw const target,
        params: std::ptr::null(),
        state: state.as_mut_ptr(),
        ranges: ranges.as_ptr(),
        first: 0,
        rows: if fold {
            ranges.len() as u64 / 2
        } else {
            rows as u64
        },
        ahead: crate::abi::nothing_ahead(),
        step: 0,
    };
    let mut best = f64::INFINITY;
    for _ in 0..40_000_000 / rows {
        let start = Instant::now();
        // SAFETY: buffers have room for a group on either side.
        unsafe { kernel(&raw const args) };
        best = best.min(start.elapsed().as_secs_f64());
    }
    best * 1e9 / rows as f64
}

/// The time that this thread had a processor: other processes do not count.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes a `timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[test]
#[ignore = "prints times: a test must not fail because the machine is busy"]
fn speed() {
    println!(
        "{:20} {:6} {:>10} {:>10} {:>12} {:>12}",
        "kernel", "level", "compile ms", "L1 ns/row", "L2 ns/row", "RAM ns/row"
    );
    for (name, lp) in kernels() {
        for optimize in [Level::Fast, Level::Full] {
            let options = Options {
                optimize,
                checked: false,
            };
            let loops = std::slice::from_ref(&lp);
            let mut compile = f64::INFINITY;
            let mut object = vec![];
            for _ in 0..20 {
                let start = cpu_seconds();
                object = generate(loops, options, Cpu::host(), FileType::Object).unwrap();
                compile = compile.min((cpu_seconds() - start) * 1e3);
            }
            let module = link(loops, &object).unwrap();
            let tiny = time(&lp, module.kernel(0), 2_000);
            let near = time(&lp, module.kernel(0), 20_000);
            let far = time(&lp, module.kernel(0), 8_000_000);
            println!("{name:20} {optimize:6?} {compile:10.2} {tiny:10.4} {near:12.4} {far:12.4}");
        }
    }
}

#[test]
#[ignore = "prints assembly for people to read"]
fn listings() {
    for (name, lp) in kernels() {
        for optimize in [Level::Fast, Level::Full] {
            let options = Options {
                optimize,
                checked: false,
            };
            let text = super::super::assembly(std::slice::from_ref(&lp), &options).unwrap();
            println!("==== {name} {optimize:?}\n{text}");
        }
    }
}
