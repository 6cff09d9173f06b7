//! Writing a map beside the published one and putting it in its place.

use std::fs::{File, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufWriter, Error, ErrorKind, Result, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, fallocate};

use super::bytes::Bytes;
use super::contents::Contents;
use super::index::{TableBuilder, TooManyProbes};
use super::layout::{
    FLAG_COMPLETE, FLAG_ENUMERATE, FORMAT_VERSION, MAGIC, REPLACED, SLOT_SIZE, Table, UNIT, header,
};
use super::reader::{Map, is_same};
use super::view::Record;
use super::{BASE_FILE, MapError};

/// How many seeds are tried until every walk in the tables is short.
const SEEDS: usize = 8;

/// What was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Bytes of the file.
    pub length: u64,
    /// Number of passwd entries.
    pub passwd: u32,
    /// Number of group entries.
    pub group: u32,
}

/// Builds a map and puts it in the place of the file `file_name` ([`BASE_FILE`] or
/// [`RECENT_FILE`](super::RECENT_FILE)) of `directory`; then tells the readers of the map so far.
///
/// The file is written beside the published one, with all its space allocated first, synchronised, opened as a reader
/// would, and renamed. Readers of the file it replaces keep what they have mapped. One process publishes at a time:
/// what an interrupted publication left behind is removed.
///
/// # Errors
/// The published file is as it was, unless only the last step failed (synchronising the directory, telling the
/// readers): then they notice when their entries expire.
pub fn publish(directory: &Path, file_name: &str, mut contents: Contents) -> Result<Published> {
    remove_leftovers(directory, file_name)?;
    contents.derive_groups().map_err(Error::other)?;
    let old_base = open_to_flag(&directory.join(BASE_FILE))?;
    let temporary = Temporary::create(directory, file_name)?;
    let published = write_file(&temporary.file, contents)?;
    temporary.file.sync_all()?;
    verify(&temporary.path, &published)?;
    temporary.rename(&directory.join(file_name))?;
    File::open(directory)?.sync_all()?;
    // The base carries the flag for both files: one word for a reader to look at.
    old_base.map_or(Ok(()), |base| flag(&base, file_name == BASE_FILE))?;
    Ok(published)
}

/// Says that the entries of a published file are fresh until `time` (UNIX seconds): a refresh found nothing new.
///
/// # Errors
/// The file is not there or is no map.
pub fn set_fresh_until(directory: &Path, file_name: &str, time: u64) -> Result<()> {
    let path = directory.join(file_name);
    Map::open(&path).map_err(as_io)?;
    let file = open_to_flag(&path)?.ok_or(ErrorKind::NotFound)?;
    file.write_all_at(&time.to_ne_bytes(), header::FRESH_UNTIL as u64)
}

fn as_io(error: MapError) -> Error {
    match error {
        MapError::Io(error) => error,
        damaged @ MapError::Damaged(_) => Error::new(ErrorKind::InvalidData, damaged),
    }
}

/// A published map, opened to change a word of its header; none if there is no map.
fn open_to_flag(path: &Path) -> Result<Option<File>> {
    if Map::open(path).is_err() {
        return Ok(None);
    }
    let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32;
    File::options().read(true).write(true).custom_flags(flags).open(path).map(Some)
}

/// Tells the readers of a base that it was replaced, or that there is a new recent file.
fn flag(base: &File, is_replaced: bool) -> Result<()> {
    let mut number = [0; 4];
    base.read_exact_at(&mut number, header::SUPERSEDED as u64)?;
    let number = u32::from_ne_bytes(number);
    let next = if is_replaced { number | REPLACED } else { number.wrapping_add(1) & !REPLACED };
    base.write_all_at(&next.to_ne_bytes(), header::SUPERSEDED as u64)
}

/// A file that goes away unless it is renamed.
struct Temporary {
    file: File,
    path: PathBuf,
    is_published: bool,
}

impl Temporary {
    fn create(directory: &Path, file_name: &str) -> Result<Self> {
        let path = directory.join(format!("{}{:016x}", leftover_prefix(file_name), random()));
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { file, path, is_published: false })
    }

    fn rename(mut self, to: &Path) -> Result<()> {
        // Whatever the umask says: everybody looks names up.
        self.file.set_permissions(Permissions::from_mode(0o644))?;
        std::fs::rename(&self.path, to)?;
        self.is_published = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_published {
            // A leftover is removed by the next publication.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn leftover_prefix(file_name: &str) -> String {
    format!(".{file_name}.new-")
}

fn remove_leftovers(directory: &Path, file_name: &str) -> Result<()> {
    let prefix = leftover_prefix(file_name);
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// 64 bits that others cannot foresee: std seeds the hasher from the system's random source.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The places of everything, in bytes.
struct Plan {
    tables: [(usize, usize); 5],
    passwd: usize,
    group: usize,
    other: usize,
    length: usize,
}

impl Plan {
    fn new(contents: &Contents) -> Self {
        let mut at = header::SIZE;
        let mut take = |length: usize| {
            at += length;
            at - length
        };
        let tables = contents.keys.map(TableBuilder::slots_for).map(|slots| (take(slots * SLOT_SIZE), slots));
        let passwd = take(contents.passwd.len());
        let group = take(contents.group.len());
        let other = take(contents.other.len());
        Self { tables, passwd, group, other, length: at }
    }
}

fn write_file(mut file: &File, contents: Contents) -> Result<Published> {
    let plan = Plan::new(&contents);
    if u32::try_from(plan.length / UNIT).is_err() || plan.tables.iter().any(|table| table.1 > 1 << 31) {
        return Err(Error::new(ErrorKind::FileTooLarge, "the lookup map would be too large"));
    }
    allocate(file, plan.length as u64)?;
    file.seek(SeekFrom::Start(plan.passwd as u64))?;
    for region in [&contents.passwd, &contents.group, &contents.other] {
        file.write_all(region)?;
    }
    let (description, counts, keys) = (contents.description, contents.counts, contents.keys);
    // From here on the file is read instead: at a million users this is a quarter of a gigabyte.
    drop(contents);
    let seed = write_tables(file, &plan, &keys)?;
    let flags = [(description.enumerate, FLAG_ENUMERATE), (description.complete, FLAG_COMPLETE)];
    let mut out = Vec::with_capacity(header::SIZE);
    out.extend_from_slice(&MAGIC.to_ne_bytes());
    out.extend_from_slice(&FORMAT_VERSION.to_ne_bytes());
    let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
    out.extend_from_slice(&flags.to_ne_bytes());
    let longs =
        [plan.length as u64, description.built, description.fresh_until, 0, description.stale_for, seed];
    longs.iter().for_each(|long| out.extend_from_slice(&long.to_ne_bytes()));
    let tables = plan.tables.iter().flat_map(|(at, slots)| [at / UNIT, *slots]);
    let regions = [plan.passwd, plan.group, plan.group, plan.other].map(|at| at / UNIT);
    for number in tables.chain(regions) {
        out.extend_from_slice(&(number as u32).to_ne_bytes());
    }
    counts.iter().for_each(|count| out.extend_from_slice(&count.to_ne_bytes()));
    file.write_all_at(&out, 0)?;
    Ok(Published { length: plan.length as u64, passwd: counts[0], group: counts[1] })
}

/// Takes all the space at once, so that a full disk is noticed now. Not every file system can.
fn allocate(file: &File, length: u64) -> Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, length).map_err(Error::from) {
        Err(error) if error.kind() == ErrorKind::Unsupported => file.set_len(length),
        done => done,
    }
}

fn write_tables(file: &File, plan: &Plan, keys: &[usize; 5]) -> Result<u64> {
    let bytes = Bytes::map(file)?;
    let mut failure = Error::other("the lookup map's tables cannot be built: too many names collide");
    for _ in 0..SEEDS {
        let seed = random();
        let written = Table::ALL.iter().try_for_each(|table| {
            let built = build_table(&bytes, plan, *table, keys[*table as usize], seed)?;
            let mut out = BufWriter::with_capacity(1 << 16, file);
            out.seek(SeekFrom::Start(plan.tables[*table as usize].0 as u64))?;
            built.write(&mut out)?;
            out.flush()
        });
        match written {
            Ok(()) => return Ok(seed),
            Err(error) if error.get_ref().is_some_and(|error| error.is::<TooManyProbes>()) => failure = error,
            Err(error) => return Err(error),
        }
    }
    Err(failure)
}

fn build_table(bytes: &Bytes, plan: &Plan, table: Table, keys: usize, seed: u64) -> Result<TableBuilder> {
    let mut builder = TableBuilder::new(keys);
    let regions = match table {
        Table::PasswdByName | Table::PasswdById => [plan.passwd..plan.group, plan.other..plan.length],
        Table::GroupByName | Table::GroupById => [plan.group..plan.other, plan.other..plan.length],
        Table::GroupsOf => [plan.other..plan.length, 0..0],
    };
    for mut region in regions {
        while !region.is_empty() {
            let record = Record::at(bytes, region.start).ok_or(ErrorKind::InvalidData)?;
            if let Some(key) = record.key(table) {
                let is_key_of = |position: u32| {
                    let other =
                        Record::at(bytes, position as usize * UNIT).and_then(|other| other.key(table));
                    other.is_some_and(|other| is_same(other, key))
                };
                builder
                    .insert(key.hash(seed), (region.start / UNIT) as u32, is_key_of)
                    .map_err(Error::other)?;
            }
            region.start += record.size;
        }
    }
    Ok(builder)
}

/// Opens the file as a reader will and finds the first and the last entries by their keys.
fn verify(path: &Path, published: &Published) -> Result<()> {
    let map = Map::open(path).map_err(as_io)?;
    let first_passwd = map.next_passwd(0, 0).map(|(entry, _)| entry);
    let first_group = map.next_group(0, 0).map(|(entry, _)| entry);
    let passwd_is_found = first_passwd.is_none_or(|entry| map.passwd_by_name(entry.name, 0).is_some());
    let group_is_found = first_group.is_none_or(|entry| map.group_by_name(entry.name, 0).is_some());
    let counts_are_right = map.counts() == [published.passwd, published.group];
    if !(counts_are_right && passwd_is_found && group_is_found) {
        return Err(Error::new(ErrorKind::InvalidData, "the lookup map that was written cannot be read"));
    }
    Ok(())
}
