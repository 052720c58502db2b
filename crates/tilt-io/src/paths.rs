//! Names and patterns of files.

use std::path::PathBuf;

use crate::error::{IoError, Result};

/// The files that `patterns` name, each pattern's in order of their names. A name of an existing file is no pattern, whatever it contains.
pub(crate) fn expand(patterns: &[impl AsRef<str>]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for pattern in patterns {
        let pattern = pattern.as_ref();
        let plain = PathBuf::from(pattern);
        if plain.is_file() || !pattern.contains(['*', '?', '[']) {
            files.push(plain);
            continue;
        }
        let found = glob::glob(pattern).map_err(|error| IoError::Pattern {
            pattern: pattern.to_owned(),
            reason: error.to_string(),
        })?;
        let before = files.len();
        for path in found {
            let path = path.map_err(|error| IoError::File {
                path: error.path().to_owned(),
                source: error.into(),
            })?;
            if path.is_file() {
                files.push(path);
            }
        }
        if files.len() == before {
            return Err(IoError::NoFiles {
                patterns: vec![pattern.to_owned()],
            });
        }
    }
    if files.is_empty() {
        return Err(IoError::NoFiles {
            patterns: Vec::new(),
        });
    }
    Ok(files)
}
