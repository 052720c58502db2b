//! Linking of object files into this process, by LLVM's ORC.
//!
//! One LLJIT serves the process. Each module gets a library (`JITDylib`) of its own, emptied and used again when the module is dropped.

use std::{
    ffi::{CStr, CString, c_void},
    ptr,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use inkwell::{
    llvm_sys::{
        error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage},
        orc2::{
            LLVMJITEvaluatedSymbol, LLVMJITSymbolFlags, LLVMJITSymbolGenericFlags,
            LLVMOrcAbsoluteSymbols, LLVMOrcCJITDylibSearchOrderElement, LLVMOrcCLookupSetElement,
            LLVMOrcCSymbolMapPair, LLVMOrcCSymbolMapPairs, LLVMOrcDisposeMaterializationUnit,
            LLVMOrcExecutionSessionCreateBareJITDylib, LLVMOrcExecutionSessionLookup,
            LLVMOrcJITDylibClear, LLVMOrcJITDylibDefine, LLVMOrcJITDylibLookupFlags,
            LLVMOrcJITDylibRef, LLVMOrcLookupKind, LLVMOrcSymbolLookupFlags,
            lljit::{
                LLVMOrcCreateLLJIT, LLVMOrcCreateLLJITBuilder, LLVMOrcLLJITAddObjectFile,
                LLVMOrcLLJITGetExecutionSession, LLVMOrcLLJITMangleAndIntern, LLVMOrcLLJITRef,
            },
        },
    },
    memory_buffer::MemoryBuffer,
};

use super::{JitError, runtime, target};

/// Linked code. Dropping it frees the memory.
pub(super) struct Code {
    library: Library,
}

#[derive(Clone, Copy)]
struct Library(LLVMOrcJITDylibRef);

// SAFETY: a JITDylib belongs to the process-wide session and is only touched under the engine's lock.
unsafe impl Send for Library {}
// SAFETY: as above; a shared reference gives access to nothing.
unsafe impl Sync for Library {}

/// The process's linker, behind a lock.
struct Engine {
    jit: LLVMOrcLLJITRef,
    /// Emptied libraries.
    free: Vec<Library>,
    /// How many libraries were ever made.
    libraries: usize,
}

// SAFETY: an LLJIT may be used from any thread; the lock around the engine lets in one at a time.
unsafe impl Send for Engine {}

/// What the last lookup found. Not handed through the callback's context, which ORC leaves undefined after an error.
static FOUND: Mutex<Option<Result<u64, String>>> = Mutex::new(None);

/// The engine, made on first use and never disposed: code may run until the process ends.
fn engine() -> Result<MutexGuard<'static, Engine>, JitError> {
    static ENGINE: OnceLock<Result<Mutex<Engine>, String>> = OnceLock::new();
    let made = ENGINE.get_or_init(|| {
        target::initialize();
        Engine::new().map(Mutex::new)
    });
    match made {
        Ok(engine) => Ok(engine.lock().unwrap_or_else(PoisonError::into_inner)),
        Err(message) => Err(JitError::Link(message.clone())),
    }
}

/// Links an object file and finds the addresses of `symbols` in it.
pub(super) fn link(object: &[u8], symbols: &[String]) -> Result<(Code, Vec<u64>), JitError> {
    let mut engine = engine()?;
    let library = engine.library();
    match engine.load(library, object, symbols) {
        Ok(addresses) => Ok((Code { library }, addresses)),
        Err(message) => {
            engine.clear(library);
            Err(JitError::Link(message))
        }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        if let Ok(mut engine) = engine() {
            engine.clear(self.library);
        }
    }
}

impl Engine {
    fn new() -> Result<Self, String> {
        let mut jit = ptr::null_mut();
        // SAFETY: the builder is fresh and passes into the LLJIT; `jit` is written on success.
        check(unsafe { LLVMOrcCreateLLJIT(&raw mut jit, LLVMOrcCreateLLJITBuilder()) })?;
        Ok(Self {
            jit,
            free: Vec::new(),
            libraries: 0,
        })
    }

    /// An empty library.
    fn library(&mut self) -> Library {
        if let Some(library) = self.free.pop() {
            return library;
        }
        let name = c_string(&format!("tilt{}", self.libraries));
        self.libraries += 1;
        // SAFETY: the session lives as long as the LLJIT, which is never disposed; no other library has the name.
        Library(unsafe {
            let session = LLVMOrcLLJITGetExecutionSession(self.jit);
            LLVMOrcExecutionSessionCreateBareJITDylib(session, name.as_ptr())
        })
    }

    fn load(
        &self,
        library: Library,
        object: &[u8],
        symbols: &[String],
    ) -> Result<Vec<u64>, String> {
        self.define_runtime(library)?;
        let buffer = MemoryBuffer::create_from_memory_range_copy(object, "tilt");
        let raw = buffer.as_mut_ptr();
        // The session owns the buffer from here on, whatever comes of it.
        std::mem::forget(buffer);
        // SAFETY: `raw` is a buffer that nobody else owns.
        check(unsafe { LLVMOrcLLJITAddObjectFile(self.jit, library.0, raw) })?;
        symbols
            .iter()
            .map(|name| self.lookup(library, name))
            .collect()
    }

    /// Makes the functions of the runtime known in a library.
    fn define_runtime(&self, library: Library) -> Result<(), String> {
        let flags = LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsExported as u8
            | LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsCallable as u8;
        let mut pairs: Vec<_> = runtime::symbols()
            .into_iter()
            .map(|(name, address)| LLVMOrcCSymbolMapPair {
                // SAFETY: the name ends with a zero byte; `LLVMOrcAbsoluteSymbols` takes the reference over.
                Name: unsafe { LLVMOrcLLJITMangleAndIntern(self.jit, c_string(name).as_ptr()) },
                Sym: LLVMJITEvaluatedSymbol {
                    Address: address as u64,
                    Flags: LLVMJITSymbolFlags {
                        GenericFlags: flags,
                        TargetFlags: 0,
                    },
                },
            })
            .collect();
        // SAFETY: the pairs are copied; the unit passes into the library, or back to us on failure.
        unsafe {
            let unit = LLVMOrcAbsoluteSymbols(pairs.as_mut_ptr(), pairs.len());
            let defined = check(LLVMOrcJITDylibDefine(library.0, unit));
            if defined.is_err() {
                LLVMOrcDisposeMaterializationUnit(unit);
            }
            defined
        }
    }

    /// The address of a symbol. Links what it needs first.
    fn lookup(&self, library: Library, name: &str) -> Result<u64, String> {
        let mut order = LLVMOrcCJITDylibSearchOrderElement {
            JD: library.0,
            JDLookupFlags:
                LLVMOrcJITDylibLookupFlags::LLVMOrcJITDylibLookupFlagsMatchExportedSymbolsOnly,
        };
        let mut wanted = LLVMOrcCLookupSetElement {
            // SAFETY: the name ends with a zero byte; the lookup takes the reference over.
            Name: unsafe { LLVMOrcLLJITMangleAndIntern(self.jit, c_string(name).as_ptr()) },
            LookupFlags: LLVMOrcSymbolLookupFlags::LLVMOrcSymbolLookupFlagsRequiredSymbol,
        };
        // SAFETY: both arrays have one element and are read before the call returns. An LLJIT without threads of its own links in this call, so
        // that the callback has run when it returns.
        unsafe {
            LLVMOrcExecutionSessionLookup(
                LLVMOrcLLJITGetExecutionSession(self.jit),
                LLVMOrcLookupKind::LLVMOrcLookupKindStatic,
                &raw mut order,
                1,
                &raw mut wanted,
                1,
                found,
                ptr::null_mut(),
            );
        }
        let result = FOUND.lock().unwrap_or_else(PoisonError::into_inner).take();
        result.unwrap_or_else(|| Err(format!("the lookup of {name} gave no answer")))
    }

    /// Frees what a library holds and keeps it for the next module.
    fn clear(&mut self, library: Library) {
        // SAFETY: nothing refers to the library's code any more: its `Code` is being dropped or was never made.
        if check(unsafe { LLVMOrcJITDylibClear(library.0) }).is_ok() {
            self.free.push(library);
        }
    }
}

/// The callback of [`Engine::lookup`], which asks for one symbol.
extern "C" fn found(
    error: LLVMErrorRef,
    pairs: LLVMOrcCSymbolMapPairs,
    count: usize,
    _: *mut c_void,
) {
    let result = check(error).and_then(|()| {
        if count == 1 {
            // SAFETY: without an error `pairs` holds `count` pairs.
            Ok(unsafe { (*pairs).Sym.Address })
        } else {
            Err(format!("{count} symbols found"))
        }
    });
    *FOUND.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
}

/// Takes over an error and gives its message.
fn check(error: LLVMErrorRef) -> Result<(), String> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the error is not null and nobody else's; the message is a C string that we dispose of.
    unsafe {
        let raw = LLVMGetErrorMessage(error);
        let message = CStr::from_ptr(raw).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(raw);
        Err(message)
    }
}

fn c_string(name: &str) -> CString {
    CString::new(name).expect("symbols have no zero bytes")
}
