//! Parquet: row groups are pruned by statistics, columns by name.

use std::{fs::File, path::Path, sync::Arc};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{
            ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
            ParquetRecordBatchReaderBuilder, statistics::StatisticsConverter,
        },
    },
    errors::ParquetError,
    file::metadata::RowGroupMetaData,
};

use crate::{
    error::{IoError, Result},
    scan::{FileBatches, Wanted},
    times::{Tick, Times},
};

/// The columns of a file.
pub(crate) fn schema(path: &Path) -> Result<SchemaRef> {
    Ok(Arc::clone(open(path)?.1.schema()))
}

/// How many rows a file has.
pub(crate) fn rows(path: &Path) -> Result<usize> {
    let groups = open(path)?.1;
    let groups = groups.metadata().row_groups().iter();
    let rows = groups.map(RowGroupMetaData::num_rows);
    Ok(rows.sum::<i64>().max(0) as usize)
}

/// The least time of a file, if its statistics say.
pub(crate) fn first_time(path: &Path, time: &str) -> Result<Option<Tick>> {
    let metadata = open(path)?.1;
    let Some(bounds) = bounds(&metadata, time) else {
        return Ok(None);
    };
    let lows: Option<Vec<Tick>> = bounds.into_iter().map(|b| b.map(|(low, _)| low)).collect();
    Ok(lows.and_then(|lows| lows.into_iter().min_by_key(|low| low.order())))
}

/// The rows of the groups that may hold some of the range.
pub(crate) fn read(path: &Path, wanted: &Wanted) -> Result<FileBatches> {
    let (file, metadata) = open(path)?;
    let groups = metadata.metadata().num_row_groups();
    let mut chosen: Vec<usize> = (0..groups).collect();
    if let Some((time, range)) = &wanted.time
        && let Some(bounds) = bounds(&metadata, time)
    {
        chosen.retain(|group| bounds[*group].is_none_or(|(low, high)| range.meets(low, high)));
    }
    let columns = wanted.projection(metadata.schema());
    let mask = ProjectionMask::roots(metadata.parquet_schema(), columns);
    Ok(Box::new(Groups {
        path: path.to_owned(),
        file,
        metadata,
        mask,
        batch_rows: wanted.batch_rows,
        chosen: chosen.into_iter(),
        current: None,
    }))
}

/// A file, row group by row group: an error can say which one it is in.
struct Groups {
    path: std::path::PathBuf,
    file: File,
    metadata: ArrowReaderMetadata,
    mask: ProjectionMask,
    batch_rows: usize,
    chosen: std::vec::IntoIter<usize>,
    current: Option<(usize, ParquetRecordBatchReader)>,
}

impl Groups {
    fn open(&self, group: usize) -> Result<ParquetRecordBatchReader, String> {
        let file = self.file.try_clone().map_err(|error| error.to_string())?;
        ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_projection(self.mask.clone())
            .with_batch_size(self.batch_rows)
            .with_row_groups(vec![group])
            .build()
            .map_err(|error| error.to_string())
    }

    fn failed(&self, row_group: usize, reason: String) -> IoError {
        IoError::RowGroup {
            path: self.path.clone(),
            row_group,
            reason,
        }
    }
}

impl Iterator for Groups {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.current.is_none() {
                let group = self.chosen.next()?;
                match self.open(group) {
                    Ok(reader) => self.current = Some((group, reader)),
                    Err(reason) => return Some(Err(self.failed(group, reason))),
                }
            }
            let (group, reader) = self.current.as_mut()?;
            let group = *group;
            match reader.next() {
                Some(Ok(batch)) => return Some(Ok(batch)),
                Some(Err(error)) => return Some(Err(self.failed(group, error.to_string()))),
                None => self.current = None,
            }
        }
    }
}

fn open(path: &Path) -> Result<(File, ArrowReaderMetadata)> {
    let file = File::open(path).map_err(IoError::file(path))?;
    let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new());
    let metadata = metadata.map_err(|error: ParquetError| IoError::Content {
        path: path.to_owned(),
        reason: format!("not a Parquet file that can be read: {error}"),
    })?;
    Ok((file, metadata))
}

/// The least and the greatest time of each row group, as far as the statistics say; `None` if they say nothing of the column.
fn bounds(metadata: &ArrowReaderMetadata, time: &str) -> Option<Vec<Option<(Tick, Tick)>>> {
    let converter =
        StatisticsConverter::try_new(time, metadata.schema(), metadata.parquet_schema()).ok()?;
    let groups = metadata.metadata().row_groups();
    let lows = Times::of(&converter.row_group_mins(groups).ok()?)?;
    let highs = Times::of(&converter.row_group_maxes(groups).ok()?)?;
    let of_group = |group: usize| lows.get(group).zip(highs.get(group));
    Some((0..groups.len()).map(of_group).collect())
}
