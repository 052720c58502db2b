//! Arrow IPC: files are mapped into memory and shared, streams are read.

use std::{fs::File, io::BufReader, path::Path, sync::Arc};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::{
    Block,
    convert::fb_to_schema,
    reader::{FileDecoder, StreamReader, read_footer_length},
    root_as_footer,
};
use arrow_schema::SchemaRef;
use bytes::Bytes;

use crate::{
    error::{IoError, Result},
    scan::{FileBatches, Wanted},
};

/// Length of the footer and magic bytes at a file's end.
const TRAILER: usize = 10;

/// The columns of a file.
pub(crate) fn schema(path: &Path) -> Result<SchemaRef> {
    Ok(Mapped::open(path)?.schema)
}

/// The rows of a file, which share its mapped memory unless they are compressed.
pub(crate) fn read(path: &Path, wanted: &Wanted) -> Result<FileBatches> {
    let file = Mapped::open(path)?;
    let fail = IoError::content(path);
    let projection = wanted.projection(&file.schema);
    let decoder = FileDecoder::new(Arc::clone(&file.schema), file.version);
    let mut decoder = decoder.with_projection(projection);
    for block in &file.dictionaries {
        decoder
            .read_dictionary(block, &file.bytes(path, block)?)
            .map_err(&fail)?;
    }
    let (path, rows) = (path.to_owned(), wanted.batch_rows);
    let batches = (0..file.batches.len()).flat_map(move |index| {
        let block = &file.batches[index];
        let batch = file.bytes(&path, block).and_then(|bytes| {
            let batch = decoder.read_record_batch(block, &bytes);
            batch.map_err(|error| IoError::Content {
                path: path.clone(),
                reason: format!("batch {index}: {error}"),
            })
        });
        match batch {
            Ok(batch) => slices(batch.as_ref(), rows).map(Ok).collect(),
            Err(error) => vec![Err(error)],
        }
    });
    Ok(Box::new(batches))
}

/// The columns of a stream.
pub(crate) fn stream_schema(path: &Path) -> Result<SchemaRef> {
    Ok(open_stream(path, None)?.schema())
}

/// The rows of a stream.
pub(crate) fn read_stream(path: &Path, wanted: &Wanted) -> Result<FileBatches> {
    let projection = wanted.projection(&*stream_schema(path)?);
    let reader = open_stream(path, Some(projection))?;
    let (path, rows) = (path.to_owned(), wanted.batch_rows);
    let batches = reader.flat_map(move |batch| match batch {
        Ok(batch) => slices(Some(&batch), rows).map(Ok).collect(),
        Err(error) => vec![Err(IoError::content(&path)(error))],
    });
    Ok(Box::new(batches))
}

fn open_stream(
    path: &Path,
    projection: Option<Vec<usize>>,
) -> Result<StreamReader<BufReader<File>>> {
    let file = File::open(path).map_err(IoError::file(path))?;
    StreamReader::try_new_buffered(file, projection).map_err(|error| IoError::Content {
        path: path.to_owned(),
        reason: format!("not an Arrow IPC stream: {error}"),
    })
}

/// A batch in slices of at most `rows` rows.
fn slices(batch: Option<&RecordBatch>, rows: usize) -> impl Iterator<Item = RecordBatch> + '_ {
    batch.into_iter().flat_map(move |batch| {
        let starts = (0..batch.num_rows()).step_by(rows);
        starts.map(move |start| batch.slice(start, rows.min(batch.num_rows() - start)))
    })
}

/// A file in memory.
struct Mapped {
    bytes: Buffer,
    schema: SchemaRef,
    version: arrow_ipc::MetadataVersion,
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
}

impl Mapped {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(IoError::file(path))?;
        // SAFETY: the mapping is private and read only. A file that another process truncates while it is read ends this one, as with every
        // mapped file; writers of this crate replace files whole.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(IoError::file(path))?;
        let bytes = Buffer::from(Bytes::from_owner(map));
        Self::parse(&bytes).map_err(|reason| IoError::Content {
            path: path.to_owned(),
            reason: format!("not an Arrow IPC file: {reason}"),
        })
    }

    fn parse(bytes: &Buffer) -> Result<Self, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let trailer = bytes.len().checked_sub(TRAILER).ok_or("it is too short")?;
        let last: [u8; TRAILER] = bytes[trailer..].try_into().map_err(|e| text(&e))?;
        let length = read_footer_length(last).map_err(|e| text(&e))?;
        let start = trailer.checked_sub(length).ok_or("its footer is cut off")?;
        let footer = root_as_footer(&bytes[start..trailer]).map_err(|e| text(&e))?;
        let schema = fb_to_schema(footer.schema().ok_or("it has no schema")?);
        let blocks = |blocks: Option<flatbuffers::Vector<'_, Block>>| {
            blocks.iter().flatten().copied().collect()
        };
        Ok(Self {
            schema: Arc::new(schema),
            version: footer.version(),
            dictionaries: blocks(footer.dictionaries()),
            batches: blocks(footer.recordBatches()),
            bytes: bytes.clone(),
        })
    }

    /// What a block holds.
    fn bytes(&self, path: &Path, block: &Block) -> Result<Buffer> {
        let length = i64::from(block.metaDataLength()).checked_add(block.bodyLength());
        let start = usize::try_from(block.offset()).ok();
        let length = length.and_then(|length| usize::try_from(length).ok());
        start
            .zip(length)
            .filter(|(start, length)| {
                start
                    .checked_add(*length)
                    .is_some_and(|end| end <= self.bytes.len())
            })
            .map(|(start, length)| self.bytes.slice_with_length(start, length))
            .ok_or_else(|| IoError::Content {
                path: path.to_owned(),
                reason: "a block lies outside of the file".to_owned(),
            })
    }
}
