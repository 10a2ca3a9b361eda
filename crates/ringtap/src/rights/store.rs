//! The files of a store of flow records, made by the helper or by this process.

use std::fs::File;
use std::io;
use std::path::Path;

use ringtap_flow_io::{OwnFiles, StoreFiles};
use ringtap_sys::output::Access;

use super::helper::{Client, Reply};
use super::message::{Operation, Request};
use super::{as_user, writer_of};

/// Opens files with the privileges of the user who started the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opener(pub(crate) Access);

impl Opener {
    fn with<T>(
        self,
        path: &Path,
        by_helper: impl FnOnce(&Client) -> io::Result<T>,
        here: impl FnOnce(&OwnFiles, &Path) -> io::Result<T>,
    ) -> io::Result<T> {
        match writer_of(path) {
            Some(client) => by_helper(client),
            None => here(&OwnFiles(self.0), path).map_err(as_user),
        }
    }
}

impl StoreFiles for Opener {
    fn create(&self, path: &Path) -> io::Result<File> {
        let create = |client: &Client| Ok(client.write(path, self.0, true)?.0);
        self.with(path, create, OwnFiles::create)
    }

    fn publish(&self, path: &Path) -> io::Result<()> {
        let publish = |client: &Client| client.order(Operation::Publish, path);
        self.with(path, publish, OwnFiles::publish)
    }

    fn exchange(&self, path: &Path) -> io::Result<()> {
        let exchange = |client: &Client| client.order(Operation::Exchange, path);
        self.with(path, exchange, OwnFiles::exchange)
    }

    fn read(&self, path: &Path) -> io::Result<File> {
        self.with(path, |client| client.read(path), OwnFiles::read)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let remove = |client: &Client| client.order(Operation::Remove, path);
        self.with(path, remove, OwnFiles::remove)
    }
}

/// Does what a request asks for, in the helper. The path is one of the store.
pub(super) fn answer(request: Request<'_>, access: Access) -> io::Result<Reply> {
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
