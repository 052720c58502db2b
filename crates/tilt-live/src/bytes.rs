//! Numbers, texts and tables as bytes.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::{reader::StreamReader, writer::StreamWriter};
use arrow_schema::ArrowError;

use crate::error::SessionError;

/// FNV-1a. A change of one byte always changes it: every step is a bijection of the sum so far.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Writes values one after the other.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn number(&mut self, number: i64) {
        self.bytes.extend(number.to_le_bytes());
    }

    pub(crate) fn count(&mut self, count: u64) {
        self.bytes.extend(count.to_le_bytes());
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.bytes.push(u8::from(flag));
    }

    pub(crate) fn maybe(&mut self, number: Option<i64>) {
        self.flag(number.is_some());
        self.number(number.unwrap_or(0));
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.section(text.as_bytes());
    }

    pub(crate) fn section(&mut self, bytes: &[u8]) {
        self.count(bytes.len() as u64);
        self.bytes.extend(bytes);
    }

    /// A table as an Arrow IPC stream.
    pub(crate) fn table(&mut self, rows: &RecordBatch) -> Result<(), ArrowError> {
        let mut writer = StreamWriter::try_new(Vec::new(), rows.schema_ref())?;
        writer.write(rows)?;
        let stream = writer.into_inner()?;
        self.section(&stream);
        Ok(())
    }
}

/// Reads what a [`Writer`] wrote.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

pub(crate) fn corrupt(what: impl Into<String>) -> SessionError {
    SessionError::Corrupt { what: what.into() }
}

/// What Arrow, or anyone else who reads a part of it, says of bytes that are not whole.
pub(crate) fn unreadable(error: &dyn std::fmt::Display) -> SessionError {
    corrupt(error.to_string())
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    fn next<const N: usize>(&mut self) -> Result<[u8; N], SessionError> {
        let Some((first, rest)) = self.bytes.split_first_chunk::<N>() else {
            return Err(corrupt("it ends too early"));
        };
        self.bytes = rest;
        Ok(*first)
    }

    pub(crate) fn number(&mut self) -> Result<i64, SessionError> {
        Ok(i64::from_le_bytes(self.next()?))
    }

    pub(crate) fn count(&mut self) -> Result<u64, SessionError> {
        Ok(u64::from_le_bytes(self.next()?))
    }

    pub(crate) fn version(&mut self) -> Result<u32, SessionError> {
        Ok(u32::from_le_bytes(self.next()?))
    }

    pub(crate) fn flag(&mut self) -> Result<bool, SessionError> {
        match self.next::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(corrupt(format!("{other} is no flag"))),
        }
    }

    pub(crate) fn maybe(&mut self) -> Result<Option<i64>, SessionError> {
        let is_there = self.flag()?;
        let number = self.number()?;
        Ok(is_there.then_some(number))
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, SessionError> {
        std::str::from_utf8(self.section()?).map_err(|e| unreadable(&e))
    }

    pub(crate) fn section(&mut self) -> Result<&'a [u8], SessionError> {
        let len = usize::try_from(self.count()?).map_err(|e| unreadable(&e))?;
        let Some((section, rest)) = self.bytes.split_at_checked(len) else {
            return Err(corrupt("it ends too early"));
        };
        self.bytes = rest;
        Ok(section)
    }

    /// The rows of a table.
    pub(crate) fn table(&mut self) -> Result<RecordBatch, SessionError> {
        let mut batches =
            StreamReader::try_new(self.section()?, None).map_err(|e| unreadable(&e))?;
        let rows = batches.next().ok_or_else(|| corrupt("a table is empty"))?;
        rows.map_err(|e| unreadable(&e))
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// The first `N` columns of a table, and the others.
pub(crate) fn split<const N: usize>(
    rows: &RecordBatch,
) -> Result<([&ArrayRef; N], Vec<ArrayRef>), SessionError> {
    let columns: Vec<&ArrayRef> = rows.columns().iter().take(N).collect();
    let first = <[&ArrayRef; N]>::try_from(columns);
    let first = first.map_err(|_| corrupt("a table has too few columns"))?;
    Ok((first, rows.columns()[N..].to_vec()))
}
