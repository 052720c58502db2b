//! What the figures were measured on.

use std::{fmt, fs, process::Command, thread};

/// Processor and compilers. Without a date, so that a table changes only when figures do.
pub(crate) struct Machine {
    model: String,
    cores: usize,
    caches: Vec<String>,
    rustc: String,
    llvm: String,
}

impl Machine {
    /// This one.
    pub(crate) fn this() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let version = |program: &str| {
            let output = Command::new(program).arg("--version").output().ok()?;
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let unknown = || "unknown".to_owned();
        Self {
            model: model.map_or_else(unknown, |(_, model)| model.to_owned()),
            cores: thread::available_parallelism().map_or(1, Into::into),
            caches: (0..).map_while(cache).collect(),
            rustc: version("rustc").unwrap_or_else(unknown),
            llvm: version("/usr/lib/llvm-19/bin/llvm-config").unwrap_or_else(|| "19".to_owned()),
        }
    }
}

/// The `index`-th cache of the first core: its level, its kind and its size.
fn cache(index: usize) -> Option<String> {
    let read = |what: &str| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}");
        Some(fs::read_to_string(path).ok()?.trim().to_owned())
    };
    let kind = match read("type")?.as_str() {
        "Data" => "d",
        "Instruction" => "i",
        _ => "",
    };
    Some(format!("L{}{kind} {}", read("level")?, read("size")?))
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (caches, llvm) = (self.caches.join(", "), &self.llvm);
        write!(
            f,
            "{}, {} cores, {caches}; {}, LLVM {llvm} for queries",
            self.model, self.cores, self.rustc
        )
    }
}
