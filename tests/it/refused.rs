//! Hosts that let no memory become executable.
#![cfg(target_os = "linux")]

use std::{collections::BTreeMap, sync::Arc};

use tilt::{
    Backend, Query, RunOptions,
    arrow::array::Float64Array,
    data::{Column, SnapshotBuffer, Spans, Timeline},
    interp::events_of,
    ir::Unit,
};

use crate::child;

/// What is at an offset of the record that a filter of system calls sees.
const NUMBER: u32 = 0;
const THIRD_ARGUMENT: u32 = 32;

/// From now on no call of this thread, or of threads that it starts, makes memory executable: a filter refuses `mprotect` and `mmap` that ask for it.
fn refuse_executable_memory() {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let load = |k| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, k);
    let is = |k, yes, no| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, k);
    let has = |k, yes, no| step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, yes, no, k);
    let give = |k| step(libc::BPF_RET | libc::BPF_K, 0, 0, k);
    let mut filter = [
        load(NUMBER),
        is(libc::SYS_mprotect as u32, 1, 0),
        is(libc::SYS_mmap as u32, 0, 3),
        load(THIRD_ARGUMENT),
        has(libc::PROT_EXEC as u32, 0, 1),
        give(libc::SECCOMP_RET_ERRNO | libc::EACCES as u32),
        give(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the filter is one, and lives as long as the call; it changes nothing but what this thread may ask for.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        );
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }
}

#[test]
fn without_executable_memory_queries_are_interpreted_with_one_warning() {
    let reason = "the host does not let this process make memory executable";
    if !child::is_child() {
        let name = "refused::without_executable_memory_queries_are_interpreted_with_one_warning";
        let output = child::run(name, &[("TILT_CACHE_DIR", "")]);
        let said = String::from_utf8_lossy(&output.stderr);
        let warning = format!("tilt: {reason}; queries are interpreted");
        assert_eq!(said.lines().collect::<Vec<_>>(), [warning]);
        return;
    }
    refuse_executable_memory();
    let values: Vec<f64> = (0..5000).map(|i| f64::from(i * 7919 % 101) / 7.0).collect();
    let timeline = Timeline::regular(1, 1, values.len(), Spans::Fixed(1));
    let column = Column::new("x", Arc::new(Float64Array::from(values)));
    let x = SnapshotBuffer::scalar(timeline, column, Unit::Tick).expect("a column");
    let inputs = BTreeMap::from([("x".to_owned(), x)]);
    for body in ["~y[t] = ~x[t] * 2.0", "~y[t] = reduce mean ~x[t-10 : t]"] {
        let text = format!("query q unit tick {{ input ~x: f64 point  {body}  output ~y }}");
        let compiled = Query::parse(&text).expect("a query").compile();
        let compiled = compiled.expect("compiles");
        let explained = compiled.explain();
        let because = format!("interpreted, because of {reason}");
        assert!(explained.contains(&because), "{explained}");
        let run = |backend| {
            let options = RunOptions::default().backend(backend).threads(2);
            let (output, stats) = compiled.run_with_stats(&inputs, &options).expect("runs");
            (events_of(&output).expect("events"), stats.interpreted)
        };
        let (found, why) = run(Backend::Native);
        assert_eq!(why.as_deref(), Some(reason));
        let (right, _) = run(Backend::Loops);
        assert!(found.len() == 5000 && found.iter().zip(&right).all(|(a, b)| a.same(b)));
    }
}
