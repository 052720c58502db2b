//! Machine code for loops, by LLVM.
//!
//! ```text
//! loops -> LLVM IR (emit) -> passes and code generator (target) -> object file -> linked into the process (orc) -> kernels
//! ```
//!
//! Object files are what is cached (`cache`): linking one takes a tenth of a millisecond, compiling it a few.

mod cache;
mod emit;
mod orc;
pub mod runtime;
mod target;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use inkwell::{
    OptimizationLevel,
    context::Context,
    memory_buffer::MemoryBuffer,
    passes::PassBuilderOptions,
    targets::{FileType, TargetMachine},
};

use self::{
    cache::{Directory, Key},
    target::Cpu,
};
use crate::{
    abi,
    lir::{Inst, Loop},
};

/// The version of LLVM, and the CPU that code is made for as LLVM names it.
pub fn machine() -> (String, String) {
    let (major, minor, patch) = inkwell::support::get_llvm_version();
    (format!("{major}.{minor}.{patch}"), Cpu::host().name.clone())
}

/// Compiled loops. Clones share the code, which lives as long as one of them.
#[derive(Clone)]
pub struct Module(Arc<Inner>);

struct Inner {
    kernels: Vec<abi::Kernel>,
    /// Holds the memory of the kernels.
    _code: orc::Code,
}

impl Module {
    /// The kernel of the `i`-th loop. It may be called as long as the module lives.
    pub fn kernel(&self, i: usize) -> abi::Kernel {
        self.0.kernels[i]
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Module")
            .field("kernels", &self.0.kernels.len())
            .finish_non_exhaustive()
    }
}

/// How to compile.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Options {
    /// How hard LLVM tries.
    pub optimize: Level,
    /// Stop the process when a loop reaches for an element that its column does not have. Slow.
    pub checked: bool,
}

impl Options {
    /// The default ones; checked if the environment variable `TILT_CHECKED` is 1, which is for tests.
    pub fn from_env() -> Self {
        static CHECKED: OnceLock<bool> = OnceLock::new();
        let checked = || std::env::var("TILT_CHECKED").is_ok_and(|text| text == "1");
        Self {
            checked: *CHECKED.get_or_init(checked),
            ..Self::default()
        }
    }
}

/// How hard LLVM tries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Level {
    /// The passes that matter to loops that are vectors already.
    #[default]
    Fast,
    /// LLVM's `O3`.
    Full,
}

impl Level {
    /// The pipeline in the language of LLVM's `opt`.
    fn passes(self) -> &'static str {
        match self {
            Self::Fast => {
                "always-inline,function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse)"
            }
            Self::Full => "default<O3>",
        }
    }
}

/// Why loops cannot be compiled.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JitError {
    /// Hardened systems forbid it.
    #[error("the host does not let this process make memory executable")]
    ExecutableMemory,
    /// LLVM knows nothing of this machine.
    #[error("LLVM cannot compile for this machine: {0}")]
    Target(String),
    /// A bug of this crate.
    #[error("the code generator made invalid LLVM IR: {0}")]
    Verify(String),
    /// The object file does not link.
    #[error("compiled code does not link: {0}")]
    Link(String),
    /// The runtime has no such function.
    #[error("the runtime has no function `{name}`")]
    UnknownFunction {
        /// Its name.
        name: String,
    },
}

/// Forgets what was compiled in this process, so that the next compilation starts from nothing. For measurements; modules in use stay.
pub fn forget() {
    cache::clear();
}

/// Compiles loops to machine code for this host; the `i`-th kernel is the `i`-th loop's. Served from the cache when the same loops were compiled
/// before. The loops must have passed [`verify`](fn@crate::lir::verify).
pub fn compile(loops: &[Loop], options: &Options) -> Result<Module, JitError> {
    compile_for(loops, *options, Cpu::host(), Directory::from_env().as_ref())
}

/// LLVM IR of loops, before any pass.
pub fn llvm_ir(loops: &[Loop], options: &Options) -> String {
    emit::module(loops, flavour(*options, Cpu::host()))
}

fn flavour(options: Options, cpu: &Cpu) -> emit::Flavour {
    emit::Flavour {
        checked: options.checked,
        fuses: cpu.fuses(),
        masks: cpu.masks(),
        converts: cpu.converts(),
        shuffles: cpu.shuffles(),
    }
}

/// Assembly of loops for this host.
pub fn assembly(loops: &[Loop], options: &Options) -> Result<String, JitError> {
    let bytes = generate(loops, *options, Cpu::host(), FileType::Assembly)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn compile_for(
    loops: &[Loop],
    options: Options,
    cpu: &Cpu,
    directory: Option<&Directory>,
) -> Result<Module, JitError> {
    let key = Key::new(loops, options, cpu);
    if let Some(module) = cache::get(key) {
        return Ok(module);
    }
    check_functions(loops)?;
    if !executable_memory() {
        return Err(JitError::ExecutableMemory);
    }
    if let Some(module) = stored(loops, key, directory) {
        return Ok(cache::insert(key, module));
    }
    let object = generate(loops, options, cpu, FileType::Object)?;
    if let Some(directory) = directory {
        directory.write(key, &object);
    }
    let module = link(loops, &object)?;
    Ok(cache::insert(key, module))
}

/// The module from the cache of object files. One that does not link is as good as none.
fn stored(loops: &[Loop], key: Key, directory: Option<&Directory>) -> Option<Module> {
    let object = directory?.read(key)?;
    link(loops, &object).ok()
}

fn check_functions(loops: &[Loop]) -> Result<(), JitError> {
    for (_, node) in loops.iter().flat_map(|lp| lp.values.iter()) {
        if let Inst::Call(function, _) = &node.inst
            && runtime::find(&function.name).is_none()
        {
            let name = function.name.clone();
            return Err(JitError::UnknownFunction { name });
        }
    }
    Ok(())
}

/// Compiles to an object file or to assembly.
fn generate(
    loops: &[Loop],
    options: Options,
    cpu: &Cpu,
    file_type: FileType,
) -> Result<Vec<u8>, JitError> {
    let machine = target::machine(cpu, OptimizationLevel::Aggressive)?;
    let invalid = |error: inkwell::support::LLVMString| JitError::Verify(error.to_string());
    let text = emit::module(loops, flavour(options, cpu));
    let context = Context::create();
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "tilt");
    let module = context.create_module_from_ir(buffer).map_err(invalid)?;
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    module.verify().map_err(invalid)?;
    module
        .run_passes(
            options.optimize.passes(),
            &machine,
            PassBuilderOptions::create(),
        )
        .map_err(invalid)?;
    write(&machine, &module, file_type)
}

fn write(
    machine: &TargetMachine,
    module: &inkwell::module::Module,
    file_type: FileType,
) -> Result<Vec<u8>, JitError> {
    let buffer = machine
        .write_to_memory_buffer(module, file_type)
        .map_err(|error| JitError::Target(error.to_string()))?;
    Ok(buffer.as_slice().to_vec())
}

fn link(loops: &[Loop], object: &[u8]) -> Result<Module, JitError> {
    let symbols: Vec<_> = loops
        .iter()
        .enumerate()
        .map(|(index, lp)| emit::symbol(index, lp))
        .collect();
    let (code, addresses) = orc::link(object, &symbols)?;
    let kernel = |address: u64| {
        // SAFETY: the symbol is a function that `emit` gave the signature of a kernel, and `Inner` keeps its code.
        unsafe { std::mem::transmute::<usize, abi::Kernel>(address as usize) }
    };
    Ok(Module(Arc::new(Inner {
        kernels: addresses.into_iter().map(kernel).collect(),
        _code: code,
    })))
}

/// Whether the host lets us make memory executable, tried once.
fn executable_memory() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let size = 4096;
        // SAFETY: a fresh private mapping that nothing else knows of, unmapped before the end.
        unsafe {
            let page = libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if page == libc::MAP_FAILED {
                return false;
            }
            let allowed = libc::mprotect(page, size, libc::PROT_READ | libc::PROT_EXEC) == 0;
            libc::munmap(page, size);
            allowed
        }
    })
}
