//! The files of a store of flow records, made by the helper or by this process.

#[cfg(feature = "parquet")]
pub(crate) use with::Opener;
#[cfg(feature = "parquet")]
pub(super) use with::answer;

#[cfg(not(feature = "parquet"))]
pub(super) use without::answer;

#[cfg(feature = "parquet")]
mod with {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    use ringtap_flow_io::{OwnFiles, StoreFiles};
    use ringtap_sys::output::Access;

    use super::super::helper::{Client, Reply};
    use super::super::message::{Operation, Request};
    use super::super::{as_user, writer_of};

    /// Opens files with the privileges of the user who started the program.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Opener(pub(crate) Access);

    impl Opener {
        fn with<T>(
            self,
            path: &Path,
            by_helper: impl FnOnce(&Client) -> io::Result<T>,
            here: impl FnOnce(OwnFiles) -> io::Result<T>,
        ) -> io::Result<T> {
            match writer_of(path) {
                Some(client) => by_helper(client),
                None => here(OwnFiles(self.0)).map_err(as_user),
            }
        }
    }

    impl StoreFiles for Opener {
        fn create(&self, path: &Path) -> io::Result<File> {
            let create = |client: &Client| Ok(client.write(path, self.0, true)?.0);
            self.with(path, create, |files| files.create(path))
        }

        fn publish(&self, path: &Path) -> io::Result<()> {
            self.with(
                path,
                |client| client.publish(path),
                |files| files.publish(path),
            )
        }

        fn exchange(&self, path: &Path) -> io::Result<()> {
            self.with(
                path,
                |client| client.exchange(path),
                |files| files.exchange(path),
            )
        }

        fn read(&self, path: &Path) -> io::Result<File> {
            self.with(path, |client| client.read(path), |files| files.read(path))
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            self.with(
                path,
                |client| client.remove(path),
                |files| files.remove(path),
            )
        }
    }

    /// Does what a request asks for, in the helper. The path is one of the store.
    pub(in super::super) fn answer(request: Request<'_>, access: Access) -> io::Result<Reply> {
        let (files, path) = (OwnFiles(access), request.path);
        let mut reply = Reply::default();
        match request.operation {
            Operation::Read => reply.file = Some(files.read(path)?),
            Operation::Write => reply.file = Some(files.create(path)?),
            Operation::Remove => files.remove(path)?,
            Operation::Publish => files.publish(path)?,
            Operation::Exchange => files.exchange(path)?,
            _ => return Err(io::ErrorKind::Unsupported.into()),
        }
        Ok(reply)
    }
}

#[cfg(not(feature = "parquet"))]
mod without {
    use std::io;

    use ringtap_sys::output::Access;

    use super::super::helper::Reply;
    use super::super::message::Request;

    /// Refuses: this ringtap has no stores.
    pub(in super::super) fn answer(_: Request<'_>, _: Access) -> io::Result<Reply> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
