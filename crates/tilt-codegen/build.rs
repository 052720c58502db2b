//! Names the code generator by its own text, which is a part of the key of what it compiled: an object file of another one is never used.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=src");
    // FNV-1a.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for file in files(Path::new("src"))? {
        for byte in fs::read(file)? {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo:rustc-env=TILT_CODEGEN={hash:016x}");
    Ok(())
}

/// All files in a directory and those in it, in one order on every machine.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        entries.push(entry?.path());
    }
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        if entry.ends_with("tests") {
            // They generate nothing.
        } else if entry.is_dir() {
            found.extend(files(&entry)?);
        } else {
            found.push(entry);
        }
    }
    Ok(found)
}
