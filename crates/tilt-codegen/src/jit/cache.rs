//! Compiled modules by what they were compiled from: in the process, and as object files in the directory `TILT_CACHE_DIR` if that is set.
//!
//! An object file is code. The directory is used only if it belongs to the user and nobody else can write there.

use std::{
    collections::HashMap,
    fmt::{self, Write as _},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{Module, Options, target::Cpu};
use crate::lir::Loop;

/// How many modules the process keeps.
const CAPACITY: usize = 1024;

/// Names what was compiled, how and for which machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key(u128);

impl Key {
    /// The key of `loops` compiled for `cpu`.
    pub(super) fn new(loops: &[Loop], options: Options, cpu: &Cpu) -> Self {
        let mut hash = Fnv::default();
        let version = concat!(env!("CARGO_PKG_VERSION"), " ", env!("TILT_CODEGEN"));
        let llvm = inkwell::support::get_llvm_version();
        write!(hash, "{version} {llvm:?} {cpu:?} {options:?} {loops:?}")
            .expect("hashing does not fail");
        Self(hash.0)
    }
}

/// FNV-1a of 128 bits: the same in every process and release, unlike the hashers of `std`.
struct Fnv(u128);

impl Default for Fnv {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Fnv {
    fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 ^= u128::from(*byte);
            self.0 = self
                .0
                .wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
}

impl fmt::Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.update(text.as_bytes());
        Ok(())
    }
}

/// The modules of this process.
#[derive(Default)]
struct Memory {
    modules: HashMap<Key, (Module, u64)>,
    /// Counts uses, to know the oldest.
    clock: u64,
}

impl Memory {
    fn get(&mut self, key: Key) -> Option<Module> {
        self.clock += 1;
        let (module, used) = self.modules.get_mut(&key)?;
        *used = self.clock;
        Some(module.clone())
    }

    /// Keeps a module, or gives the one that another thread was faster to compile.
    fn insert(&mut self, key: Key, module: Module) -> Module {
        if self.modules.len() >= CAPACITY {
            self.forget_older_half();
        }
        self.clock += 1;
        let entry = self.modules.entry(key).or_insert((module, self.clock));
        entry.0.clone()
    }

    fn forget_older_half(&mut self) {
        let mut uses: Vec<u64> = self.modules.values().map(|(_, used)| *used).collect();
        let middle = uses.len() / 2;
        let median = *uses.select_nth_unstable(middle).1;
        self.modules.retain(|_, (_, used)| *used >= median);
    }
}

fn memory() -> std::sync::MutexGuard<'static, Memory> {
    static MEMORY: OnceLock<Mutex<Memory>> = OnceLock::new();
    let memory = MEMORY.get_or_init(Mutex::default);
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The module compiled before.
pub(super) fn get(key: Key) -> Option<Module> {
    memory().get(key)
}

/// Forgets every module; those in use stay.
pub(super) fn clear() {
    *memory() = Memory::default();
}

/// Keeps a module.
pub(super) fn insert(key: Key, module: Module) -> Module {
    memory().insert(key, module)
}

/// A directory of object files.
pub(super) struct Directory(PathBuf);

/// Begins every file.
const MAGIC: &[u8; 8] = b"tiltobj1";
/// Magic, length and hash.
const HEADER: usize = 8 + 8 + 16;

impl Directory {
    /// The directory that the environment names, if it can be trusted.
    pub(super) fn from_env() -> Option<Self> {
        let path = std::env::var_os("TILT_CACHE_DIR")?;
        Self::open(Path::new(&path))
    }

    /// A directory of the user's own where nobody else can write.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        // SAFETY: `geteuid` has no preconditions and cannot fail.
        let user = unsafe { libc::geteuid() };
        let trusted = metadata.is_dir() && metadata.uid() == user && metadata.mode() & 0o022 == 0;
        trusted.then(|| Self(path.to_owned()))
    }

    /// Where the object of a key is.
    pub(super) fn path(&self, key: Key) -> PathBuf {
        self.0.join(format!("{:032x}.tilt", key.0))
    }

    /// The object stored for a key. A file that is not what was written counts as none.
    pub(super) fn read(&self, key: Key) -> Option<Vec<u8>> {
        let mut file = fs::read(self.path(key)).ok()?;
        let (header, object) = file.split_at_checked(HEADER)?;
        if header != Self::header(key, object) {
            return None;
        }
        file.drain(..HEADER);
        Some(file)
    }

    /// Stores an object. A cache that cannot be written is no error.
    pub(super) fn write(&self, key: Key, object: &[u8]) {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = self.0.join(format!(
            "{:032x}.{}.{unique}.tmp",
            key.0,
            std::process::id()
        ));
        let mut file = Self::header(key, object);
        file.extend_from_slice(object);
        // Renaming makes the file appear at once and whole.
        let stored =
            fs::write(&temporary, file).and_then(|()| fs::rename(&temporary, self.path(key)));
        if stored.is_err() {
            let _ = fs::remove_file(&temporary);
        }
    }

    fn header(key: Key, object: &[u8]) -> Vec<u8> {
        let mut hash = Fnv::default();
        hash.update(&key.0.to_le_bytes());
        hash.update(object);
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&(object.len() as u64).to_le_bytes());
        header.extend_from_slice(&hash.0.to_le_bytes());
        header
    }
}
