//! Places of stores: a folder, or a copy of one in a bucket of S3.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use datafusion::prelude::SessionContext;
use futures_util::TryStreamExt as _;
use jiff::civil::Date;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as Key;
use object_store::{ObjectStore, RetryConfig};
use url::Url;

use crate::error::QueryError;
use crate::store::Range;

/// The beginning of a place in a bucket.
const SCHEME: &str = "s3://";
/// The variable with the name of the key.
const KEY_VARIABLE: &str = "AWS_ACCESS_KEY_ID";
/// The tries of a request, and the time for all of them.
const RETRIES: usize = 3;
const REQUEST: Duration = Duration::from_secs(60);

/// The place of a store.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A folder.
    Folder(PathBuf),
    /// A copy in a bucket.
    Bucket(Bucket),
}

/// A folder in a bucket of S3.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// The bucket and the folder, without a slash at the end.
    url: Url,
}

impl Place {
    /// Parses `--store`.
    pub(crate) fn parse(text: OsString) -> Result<Self, String> {
        let is_bucket = text.to_str().is_some_and(|text| text.starts_with(SCHEME));
        if !is_bucket {
            return Ok(Self::Folder(text.into()));
        }
        let wrong = |reason: &str| format!("{reason}; expected s3://BUCKET/FOLDER");
        let text = text.to_string_lossy();
        let url = Url::parse(text.trim_end_matches('/'));
        let url = url.map_err(|error| wrong(&error.to_string()))?;
        if url.host_str().is_none_or(str::is_empty) {
            return Err(wrong("no bucket"));
        }
        let has_more = url.query().is_some() || url.fragment().is_some();
        if has_more || !url.username().is_empty() || url.port().is_some() {
            return Err(wrong("a bucket has no user, port or query"));
        }
        Ok(Self::Bucket(Bucket { url }))
    }

    /// Returns the place as the engine names it.
    pub(crate) fn url(&self) -> Result<String, QueryError> {
        match self {
            Self::Folder(path) => {
                let folder = path.canonicalize().map_err(|source| QueryError::Folder {
                    path: path.clone(),
                    source,
                })?;
                Ok(format!("{}/", folder.display()))
            }
            Self::Bucket(bucket) => Ok(format!("{}/", bucket.url)),
        }
    }
}

impl Bucket {
    /// Makes the bucket known to the engine, and checks the copy: files of the range that count twice are refused.
    pub(crate) async fn open(
        &self,
        context: &SessionContext,
        range: Range,
    ) -> Result<(), QueryError> {
        let retries = RetryConfig {
            max_retries: RETRIES,
            retry_timeout: REQUEST,
            ..RetryConfig::default()
        };
        let store = AmazonS3Builder::from_env()
            .with_bucket_name(self.url.host_str().unwrap_or_default())
            .with_retry(retries)
            .build();
        let store = Arc::new(store.map_err(|error| self.failed(error))?);
        self.check(&*store, range).await?;
        context.register_object_store(&self.url, store);
        Ok(())
    }

    fn failed(&self, source: object_store::Error) -> QueryError {
        let hint = match std::env::var_os(KEY_VARIABLE) {
            Some(_) => "",
            None => "; AWS_ACCESS_KEY_ID is not set, so a service of the cloud was asked for keys",
        };
        QueryError::Bucket {
            url: self.url.to_string(),
            hint,
            source,
        }
    }

    async fn check(&self, store: &dyn ObjectStore, range: Range) -> Result<(), QueryError> {
        let prefix = Key::from_url_path(self.url.path());
        let prefix = prefix.map_err(|error| self.failed(error.into()))?;
        let days = store.list_with_delimiter(Some(&prefix)).await;
        let days = days.map_err(|error| self.failed(error))?.common_prefixes;
        if days.is_empty() {
            let url = self.url.to_string();
            return Err(QueryError::EmptyBucket { url });
        }
        for day in days.iter().filter(|day| is_in(day, range)) {
            let mut files = store.list(Some(day));
            let mut leaves = BTreeMap::new();
            while let Some(file) = files.try_next().await.map_err(|error| self.failed(error))? {
                let path = file.location.as_ref();
                let (leaf, name) = path.rsplit_once('/').unwrap_or(("", path));
                note(leaves.entry(leaf.to_owned()).or_default(), name);
            }
            if let Some(leaf) = leaves
                .into_iter()
                .find_map(|(leaf, seen)| seen.is_double().then_some(leaf))
            {
                let leaf = leaf.strip_prefix(prefix.as_ref()).unwrap_or(&leaf);
                return Err(QueryError::Unfinished {
                    url: self.url.to_string(),
                    leaf: leaf.trim_start_matches('/').to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// Whether a folder `date=…` has records of a range.
fn is_in(day: &Key, range: Range) -> bool {
    let date = day.filename().and_then(|name| name.strip_prefix("date="));
    let Some(date) = date.and_then(|date| date.parse::<Date>().ok()) else {
        return false;
    };
    range.has_day(date)
}

/// The numbers of the files of a leaf.
#[derive(Debug, Default)]
struct Seen {
    /// The lowest number of a file as it was written.
    lowest: Option<u64>,
    /// The highest number of a merged file.
    merged: Option<u64>,
}

impl Seen {
    /// Whether files are there that a merged file contains: it has all that were written before it.
    fn is_double(&self) -> bool {
        matches!((self.lowest, self.merged), (Some(lowest), Some(merged)) if lowest < merged)
    }
}

/// Notes a file `KIND-TIME-NUMBER.parquet`.
fn note(seen: &mut Seen, name: &str) {
    let Some((start, number)) = name
        .strip_suffix(".parquet")
        .and_then(|name| name.rsplit_once('-'))
    else {
        return;
    };
    let Ok(number) = number.parse::<u64>() else {
        return;
    };
    match start.starts_with("merged-") {
        true => seen.merged = seen.merged.max(Some(number)),
        false => seen.lowest = Some(seen.lowest.map_or(number, |lowest| lowest.min(number))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_folders_or_buckets() {
        let parse = |text: &str| Place::parse(text.into());
        assert!(matches!(parse("/var/lib/flows"), Ok(Place::Folder(_))));
        assert!(matches!(parse("s3:/flows"), Ok(Place::Folder(_))));
        let Ok(place @ Place::Bucket(_)) = parse("s3://flows/probe1/") else {
            panic!("no bucket");
        };
        assert_eq!(place.url().expect("a place"), "s3://flows/probe1/");
        for wrong in [
            "s3://",
            "s3:///x",
            "s3://u@b/x",
            "s3://b:9000/x",
            "s3://b/x?y",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_before_a_merged_one_count_twice() {
        let is_double = |names: &[&str]| {
            let mut seen = Seen::default();
            names.iter().for_each(|name| note(&mut seen, name));
            seen.is_double()
        };
        let (old, merged, new) = (
            "flows-20261126T071500.123456Z-000042.parquet",
            "merged-20261126T080512.000001Z-000099.parquet",
            "flows-20261126T091500.123456Z-000100.parquet",
        );
        assert!(is_double(&[old, merged]));
        assert!(!is_double(&[merged, new]));
        assert!(!is_double(&[old, new]));
        assert!(!is_double(&[merged, ".readers", "x.parquet"]));
    }
}
