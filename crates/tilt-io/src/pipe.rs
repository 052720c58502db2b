//! Rows as bytes that come and go in pieces of any size: JSON lines, CSV and Arrow IPC streams.

use std::{io::Read, sync::Arc};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_csv::WriterBuilder;
use arrow_ipc::{reader::StreamDecoder, writer::StreamWriter};
use arrow_json::{LineDelimitedWriter, ReaderBuilder};
use arrow_schema::{ArrowError, SchemaRef};

use crate::{csv, format::Format, json};

/// Rows of a batch of lines.
const BATCH_ROWS: usize = 1 << 13;

/// Why bytes are no rows, or rows no bytes.
#[derive(Debug, thiserror::Error)]
pub enum PipeError {
    /// A format whose rows are not readable before its end.
    #[error("{format} cannot go through a pipe; use jsonl, csv or ipc_stream")]
    Format {
        /// The format.
        format: &'static str,
    },
    /// A line that is no row.
    #[error("line {line}: {reason}")]
    Line {
        /// From one.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Bytes that are no Arrow IPC stream, or rows that Arrow refuses.
    #[error("Arrow: {0}")]
    Arrow(#[from] ArrowError),
}

/// Makes batches of bytes as they come.
#[derive(Debug)]
pub struct Decoder(Kind);

#[derive(Debug)]
enum Kind {
    Lines {
        text: Text,
        /// Types are inferred from the first lines unless they are known.
        schema: Option<SchemaRef>,
        /// The beginning of a line.
        rest: Vec<u8>,
        /// How many lines were complete.
        lines: usize,
    },
    Ipc(Box<StreamDecoder>),
}

/// What is in lines.
#[derive(Debug)]
enum Text {
    Json,
    /// The first line has the names of columns. It may be given again before any others.
    Csv {
        header: Option<Vec<u8>>,
    },
}

impl Decoder {
    /// Reads rows of these columns; of an IPC stream they are what it says.
    ///
    /// # Errors
    /// [`PipeError::Format`].
    pub fn new(format: Format, schema: Option<SchemaRef>) -> Result<Self, PipeError> {
        let text = match format {
            Format::JsonLines => Text::Json,
            Format::Csv => Text::Csv { header: None },
            Format::IpcStream => return Ok(Self(Kind::Ipc(Box::default()))),
            other => {
                let format = other.name();
                return Err(PipeError::Format { format });
            }
        };
        let (rest, lines) = (Vec::new(), 0);
        Ok(Self(Kind::Lines {
            text,
            schema,
            rest,
            lines,
        }))
    }

    /// The rows that are complete with these bytes.
    ///
    /// # Errors
    /// [`PipeError::Line`] and [`PipeError::Arrow`]. Nothing can be read after that.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Vec<RecordBatch>, PipeError> {
        match &mut self.0 {
            Kind::Lines {
                text,
                schema,
                rest,
                lines,
            } => {
                rest.extend(bytes);
                if !bytes.contains(&b'\n') {
                    return Ok(Vec::new());
                }
                let unfinished = rest.split_off(text.end(rest));
                let whole = std::mem::replace(rest, unfinished);
                text.decode(&whole, schema, lines)
            }
            Kind::Ipc(decoder) => {
                let mut bytes = Buffer::from(bytes);
                let mut batches = Vec::new();
                while !bytes.is_empty() {
                    batches.extend(decoder.decode(&mut bytes)?);
                }
                Ok(batches)
            }
        }
    }

    /// The rows of what is left: a last line without an end.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), and when an IPC stream breaks off.
    pub fn finish(mut self) -> Result<Vec<RecordBatch>, PipeError> {
        match &mut self.0 {
            Kind::Lines { .. } => {
                let last = self.decode(b"\n")?;
                match self.0 {
                    Kind::Lines { rest, lines, .. } if !rest.is_empty() => Err(PipeError::Line {
                        line: lines + 1,
                        reason: "quotes are not closed".to_owned(),
                    }),
                    _ => Ok(last),
                }
            }
            Kind::Ipc(decoder) => {
                decoder.finish()?;
                Ok(Vec::new())
            }
        }
    }
}

impl Text {
    /// Where the last complete line ends. A line of CSV goes on inside of quotes.
    fn end(&self, bytes: &[u8]) -> usize {
        let end_of = |bytes: &[u8]| {
            bytes
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1)
        };
        let mut end = end_of(bytes);
        if let Self::Csv { .. } = self {
            let mut quotes = count(&bytes[..end], b'"');
            while quotes % 2 == 1 {
                let earlier = end_of(&bytes[..end - 1]);
                quotes -= count(&bytes[earlier..end], b'"');
                end = earlier;
            }
        }
        end
    }

    /// Whole lines as batches.
    fn decode(
        &mut self,
        bytes: &[u8],
        schema: &mut Option<SchemaRef>,
        lines: &mut usize,
    ) -> Result<Vec<RecordBatch>, PipeError> {
        let mut before = *lines;
        *lines += count(bytes, b'\n');
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Vec::new());
        }
        let mut rows = bytes;
        if let Self::Csv { header } = self
            && header.is_none()
        {
            let ends = bytes
                .iter()
                .enumerate()
                .filter(|(_, byte)| **byte == b'\n')
                .map(|(at, _)| at + 1);
            let end = ends
                .into_iter()
                .find(|end| count(&bytes[..*end], b'"').is_multiple_of(2));
            let (first, others) = bytes.split_at(end.unwrap_or(bytes.len()));
            *header = Some(first.to_vec());
            before += count(first, b'\n');
            rows = others;
            if rows.iter().all(u8::is_ascii_whitespace) {
                return Ok(Vec::new());
            }
        }
        let known = if let Some(schema) = schema {
            Arc::clone(schema)
        } else {
            let inferred = self.infer(rows);
            let inferred = inferred.map_err(|error| {
                which_line(rows, before, &error, |line| self.infer(line).map(drop))
            })?;
            Arc::clone(schema.insert(inferred))
        };
        self.parse(rows, &known).map_err(|error| {
            which_line(rows, before, &error, |line| {
                self.parse(line, &known).map(drop)
            })
        })
    }

    fn infer(&self, rows: &[u8]) -> Result<SchemaRef, ArrowError> {
        match self {
            Self::Json => json::infer(|| Ok(rows)),
            Self::Csv { header } => {
                csv::infer(|| Ok(header.as_deref().unwrap_or_default().chain(rows)))
            }
        }
    }

    fn parse(&self, rows: &[u8], schema: &SchemaRef) -> Result<Vec<RecordBatch>, ArrowError> {
        match self {
            Self::Json => {
                let builder = ReaderBuilder::new(Arc::clone(schema)).with_batch_size(BATCH_ROWS);
                builder.build(rows)?.collect()
            }
            Self::Csv { header } => {
                let header = header.as_deref().unwrap_or_default();
                let names = csv::infer(|| Ok(header))?;
                csv::parse(header.chain(rows), &names, schema, BATCH_ROWS)?.collect()
            }
        }
    }
}

fn count(bytes: &[u8], wanted: u8) -> usize {
    bytes.split(|byte| *byte == wanted).count() - 1
}

/// The error of the first line that has one by itself.
fn which_line(
    bytes: &[u8],
    before: usize,
    error: &ArrowError,
    check: impl Fn(&[u8]) -> Result<(), ArrowError>,
) -> PipeError {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate();
    let mut wrong = lines.filter_map(|(i, line)| Some((i, check(line).err()?)));
    let (line, reason) = wrong
        .next()
        .map_or((0, error.to_string()), |(line, error)| {
            (line, error.to_string())
        });
    PipeError::Line {
        line: before + line + 1,
        reason,
    }
}

/// Makes bytes of batches as they come, so that whoever reads them has every row at once.
pub struct Encoder(Sink);

enum Sink {
    Lines,
    Csv {
        /// Whether the names of columns were written.
        is_titled: bool,
    },
    Ipc {
        writer: Option<Box<StreamWriter<Vec<u8>>>>,
        /// The columns of batches without rows, which may have other types than those with some.
        empty: Option<SchemaRef>,
    },
}

impl Encoder {
    /// Writes rows.
    ///
    /// # Errors
    /// [`PipeError::Format`].
    pub fn new(format: Format) -> Result<Self, PipeError> {
        match format {
            Format::JsonLines => Ok(Self(Sink::Lines)),
            Format::Csv => Ok(Self(Sink::Csv { is_titled: false })),
            Format::IpcStream => Ok(Self(Sink::Ipc {
                writer: None,
                empty: None,
            })),
            other => {
                let format = other.name();
                Err(PipeError::Format { format })
            }
        }
    }

    /// The bytes of rows, and before the first of them what says which columns there are.
    ///
    /// # Errors
    /// When the format cannot hold them, or they have other columns than those before.
    pub fn encode(&mut self, batch: &RecordBatch) -> Result<Vec<u8>, PipeError> {
        match &mut self.0 {
            Sink::Lines => {
                let mut writer = LineDelimitedWriter::new(Vec::new());
                writer.write(batch)?;
                writer.finish()?;
                Ok(writer.into_inner())
            }
            Sink::Csv { is_titled } => {
                let builder = WriterBuilder::new().with_header(!*is_titled);
                let mut writer = builder.build(Vec::new());
                writer.write(batch)?;
                *is_titled = true;
                Ok(writer.into_inner())
            }
            Sink::Ipc { writer, empty } => {
                if batch.num_rows() == 0 {
                    *empty = Some(batch.schema());
                    return Ok(Vec::new());
                }
                let writer = if let Some(writer) = writer {
                    writer
                } else {
                    let begun = StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
                    writer.insert(Box::new(begun))
                };
                writer.write(batch)?;
                Ok(std::mem::take(writer.get_mut()))
            }
        }
    }

    /// The bytes of the end.
    ///
    /// # Errors
    /// When Arrow refuses.
    pub fn finish(self) -> Result<Vec<u8>, PipeError> {
        let writer = match self.0 {
            Sink::Lines | Sink::Csv { .. } => None,
            Sink::Ipc { writer, empty } => match (writer, empty) {
                (None, Some(schema)) => Some(Box::new(StreamWriter::try_new(Vec::new(), &schema)?)),
                (writer, _) => writer,
            },
        };
        let Some(mut writer) = writer else {
            return Ok(Vec::new());
        };
        writer.finish()?;
        Ok(std::mem::take(writer.get_mut()))
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.0 {
            Sink::Lines => "jsonl",
            Sink::Csv { .. } => "csv",
            Sink::Ipc { .. } => "ipc_stream",
        };
        f.debug_tuple("Encoder").field(&name).finish()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int64Array, cast::AsArray, types::Int64Type};

    use super::*;

    fn rows(times: Vec<i64>) -> RecordBatch {
        let values = times.iter().map(|t| *t as f64 / 2.0);
        let values = Float64Array::from_iter_values(values);
        RecordBatch::try_from_iter([
            ("t", Arc::new(Int64Array::from(times)) as _),
            ("x", Arc::new(values) as _),
        ])
        .expect("two columns")
    }

    /// Whatever the pieces are, the rows are the same.
    #[test]
    fn bytes_come_back_as_rows_in_pieces_of_any_size() {
        for format in [Format::JsonLines, Format::Csv, Format::IpcStream] {
            let (one, two) = (rows(vec![1, 2, 3]), rows(vec![4]));
            let mut encoder = Encoder::new(format).expect("a format of pipes");
            let mut bytes = encoder.encode(&one).expect("encodes");
            bytes.extend(encoder.encode(&two).expect("encodes"));
            bytes.extend(encoder.finish().expect("ends"));
            for size in [1, 7, 64, bytes.len()] {
                let mut decoder = Decoder::new(format, Some(one.schema())).expect("a format");
                let mut found = Vec::new();
                for piece in bytes.chunks(size) {
                    found.extend(decoder.decode(piece).expect("decodes"));
                }
                found.extend(decoder.finish().expect("ends"));
                let all = arrow_select::concat::concat_batches(&one.schema(), &found);
                assert_eq!(
                    all.expect("one schema"),
                    rows(vec![1, 2, 3, 4]),
                    "{format:?}"
                );
            }
        }
    }

    #[test]
    fn a_line_that_is_no_row_is_named() {
        let schema = Some(rows(Vec::new()).schema());
        let mut decoder = Decoder::new(Format::JsonLines, schema).expect("a format");
        let first = decoder.decode(b"{\"t\":1,\"x\":1}\n\n{\"t\":2");
        assert_eq!(first.expect("a row").len(), 1);
        let error = decoder
            .decode(b",\"x\":2}\n{\"t\":\"no\"}\n")
            .expect_err("no time");
        assert!(error.to_string().starts_with("line 4: "), "{error}");
    }

    #[test]
    fn lines_of_csv_go_on_inside_of_quotes_and_have_columns_in_any_order() {
        let bytes = b"note,x,t\n\"a,\n\"\"b\"\"\",0.5,1\n,1,2\n";
        for size in [1, 3, bytes.len()] {
            let schema = Some(rows(Vec::new()).schema());
            let mut decoder = Decoder::new(Format::Csv, schema).expect("a format");
            let mut found = Vec::new();
            for piece in bytes.chunks(size) {
                found.extend(decoder.decode(piece).expect("decodes"));
            }
            found.extend(decoder.finish().expect("ends"));
            let times = found
                .iter()
                .flat_map(|b| b["t"].as_primitive::<Int64Type>().values().to_vec());
            assert_eq!(times.collect::<Vec<_>>(), [1, 2]);
        }
        let mut decoder = Decoder::new(Format::Csv, None).expect("a format");
        decoder.decode(b"t,x\n1,2\n\"3").expect("a row");
        let error = decoder.finish().expect_err("no end");
        assert_eq!(error.to_string(), "line 3: quotes are not closed");
        let mut decoder =
            Decoder::new(Format::Csv, Some(rows(Vec::new()).schema())).expect("a format");
        let error = decoder.decode(b"t,x\n1,2\nno,3\n").expect_err("no time");
        assert!(error.to_string().starts_with("line 3: "), "{error}");
    }

    #[test]
    fn types_of_lines_are_inferred_from_the_first_ones() {
        let mut decoder = Decoder::new(Format::JsonLines, None).expect("a format");
        let found = decoder.decode(b"{\"ts\":\"2026-03-29T01:02:03.5Z\",\"x\":1.5}\n");
        let schema = found.expect("a row")[0].schema();
        assert_eq!(
            schema.field(0).data_type().to_string(),
            "Timestamp(ms, \"UTC\")"
        );
    }

    #[test]
    fn a_stream_that_breaks_off_is_refused() {
        let mut encoder = Encoder::new(Format::IpcStream).expect("a format");
        let bytes = encoder.encode(&rows(vec![1])).expect("encodes");
        let mut decoder = Decoder::new(Format::IpcStream, None).expect("a format");
        decoder
            .decode(&bytes[..bytes.len() - 3])
            .expect("not all of it");
        assert!(decoder.finish().is_err());
        assert!(Decoder::new(Format::Parquet, None).is_err());
    }
}
