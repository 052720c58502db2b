//! The caches, threads and errors.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use super::{
    super::{
        JitError, Options, assembly,
        cache::{Directory, Key},
        compile, compile_for, llvm_ir,
        target::Cpu,
    },
    harness::*,
};
use crate::lir::{Binary, Function, Imm, Inst, Lanes, Loop, Ty};

/// Adds `constant`: another loop for each.
fn adds(constant: i64) -> Loop {
    let mut lp = new_loop(Lanes::Eight);
    let a = lp.load(Ty::I64);
    let b = lp.constant(Imm::int(Ty::I64, constant));
    let sum = lp.binary(Binary::Add, a, b);
    lp.store(sum, None);
    lp
}

fn assert_adds(lp: &Loop, module: &super::super::Module, constant: i64) {
    let mut call = Call {
        rows: 5,
        ..Call::default()
    };
    let inputs = [Column::new(Ty::I64, vec![1, 2, 3, 4, 5])];
    let output = run(lp, module, &inputs, &mut call);
    let expected: Vec<u64> = (1..6).map(|x| (x + constant) as u64).collect();
    assert_eq!(output.columns[0], expected);
}

/// A directory of the test's own, removed afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tilt-jit-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_same_loops_are_compiled_once() {
    let options = Options::default();
    let first = compile(&[adds(100)], &options).unwrap();
    let again = compile(&[adds(100)], &options).unwrap();
    let other = compile(&[adds(101)], &options).unwrap();
    assert_eq!(first.kernel(0) as usize, again.kernel(0) as usize);
    assert_ne!(first.kernel(0) as usize, other.kernel(0) as usize);
}

#[test]
fn modules_hold_several_loops() {
    let loops = [adds(1), adds(2)];
    let module = compile(&loops, &Options::default()).unwrap();
    assert_ne!(module.kernel(0) as usize, module.kernel(1) as usize);
    assert_adds(&loops[0], &module, 1);
}

#[test]
fn threads_compile_at_once() {
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                for i in 0..20 {
                    // Every other loop is compiled by both.
                    let constant = 1000 + if i % 2 == 0 { i } else { i + 100 * thread };
                    let lp = adds(constant);
                    let module = compile(std::slice::from_ref(&lp), &Options::default()).unwrap();
                    assert_adds(&lp, &module, constant);
                }
            });
        }
    });
}

#[test]
fn objects_on_disk() {
    let scratch = Scratch::new("disk");
    let directory = Directory::open(&scratch.0).unwrap();
    let (options, cpu) = (Options::default(), Cpu::host());
    let lp = adds(2000);
    let loops = std::slice::from_ref(&lp);
    let key = Key::new(loops, options, cpu);
    assert_eq!(directory.read(key), None);
    compile_for(loops, options, cpu, Some(&directory)).unwrap();
    let object = directory.read(key).unwrap();
    assert!(object.starts_with(b"\x7fELF"));
    let stored = super::super::stored(loops, key, Some(&directory)).unwrap();
    assert_adds(&lp, &stored, 2000);
    // Names of temporary files are gone.
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
}

#[test]
fn corrupted_objects_are_ignored_and_replaced() {
    let scratch = Scratch::new("corrupted");
    let directory = Directory::open(&scratch.0).unwrap();
    let (options, cpu) = (Options::default(), Cpu::host());
    let key = Key::new(&[adds(3000)], options, cpu);
    directory.write(key, b"object");
    let good = fs::read(directory.path(key)).unwrap();
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let other = Key::new(&[adds(3001)], options, cpu);
    for bad in [&flipped[..], &good[..good.len() - 1], &good[..3], b""] {
        fs::write(directory.path(key), bad).unwrap();
        assert_eq!(directory.read(key), None);
    }
    // The file of another key.
    fs::write(directory.path(other), &good).unwrap();
    assert_eq!(directory.read(other), None);
    // Whole, but not an object: compiled afresh and replaced.
    let lp = adds(3000);
    directory.write(key, b"object");
    let module = compile_for(std::slice::from_ref(&lp), options, cpu, Some(&directory)).unwrap();
    assert_adds(&lp, &module, 3000);
    assert!(directory.read(key).unwrap().starts_with(b"\x7fELF"));
}

#[test]
fn directories_that_others_can_write_are_refused() {
    let scratch = Scratch::new("refused");
    for mode in [0o720, 0o702, 0o777] {
        fs::set_permissions(&scratch.0, fs::Permissions::from_mode(mode)).unwrap();
        assert!(Directory::open(&scratch.0).is_none());
    }
    fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(Directory::open(&scratch.0).is_some());
    assert!(Directory::open(&scratch.0.join("absent")).is_none());
}

#[test]
fn unknown_functions_are_named() {
    let mut lp = adds(4000);
    let a = lp.load(Ty::F64);
    let function = Function {
        name: "tilt_nothing".into(),
        params: vec![Ty::F64],
        result: Ty::F64,
    };
    let value = lp.push(Inst::Call(function, vec![a]), Ty::F64);
    lp.store(value, None);
    let error = compile(&[lp], &Options::default()).unwrap_err();
    let name = "tilt_nothing".to_owned();
    assert_eq!(error, JitError::UnknownFunction { name });
}

#[test]
fn dropped_modules_free_their_library() {
    // Not through the cache, which would keep them.
    let (options, cpu) = (Options::default(), Cpu::host());
    for constant in 5000..5020 {
        let lp = adds(constant);
        let loops = std::slice::from_ref(&lp);
        let object =
            super::super::generate(loops, options, cpu, inkwell::targets::FileType::Object);
        let module = super::super::link(loops, &object.unwrap()).unwrap();
        assert_adds(&lp, &module, constant);
    }
}

#[test]
fn explanations() {
    let loops = [adds(6000)];
    assert!(llvm_ir(&loops, &Options::default()).contains("@tilt_0_test"));
    assert!(
        assembly(&loops, &Options::default())
            .unwrap()
            .contains("tilt_0_test:")
    );
}
