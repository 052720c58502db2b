//! Tests that run in a process of their own, because of its environment or because of what they do to it.

use std::{
    env,
    process::{Command, Output},
};

const MARK: &str = "TILT_TEST_CHILD";

/// Whether this process was started by [`run`].
pub(crate) fn is_child() -> bool {
    env::var_os(MARK).is_some()
}

/// Runs one test of this binary, as `module::name`, with more in its environment. Fails if the test does; what it has printed.
pub(crate) fn run(test: &str, environment: &[(&str, &str)]) -> Output {
    let output = attempt(test, environment);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{test} with {environment:?}: {}\n{stdout}\n{stderr}",
        output.status
    );
    output
}

/// As [`run`], whatever becomes of the test.
pub(crate) fn attempt(test: &str, environment: &[(&str, &str)]) -> Output {
    Command::new(env::current_exe().expect("this binary has a path"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(MARK, "1")
        .envs(environment.iter().copied())
        .output()
        .expect("this binary can be run again")
}
