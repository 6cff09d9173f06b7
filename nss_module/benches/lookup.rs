//! How long a lookup takes (`docs/benchmarks.md`): `tests/bench nss`, or with
//! other numbers of users `cargo bench -p nss-privacyidea --bench lookup -- USERS...`.
//!
//! The module's functions are called directly, without glibc's walk through nsswitch.conf; then getpwnam_r through
//! glibc, with this module and with `files` taking turns batch by batch. Runs itself in a mount namespace for each
//! number of users; wants root or user namespaces. Rows: what, users, number of batches, and minimum, median and
//! maximum over them.

use std::ffi::{CStr, CString, c_void};
use std::fmt::Write;
use std::hint::black_box;
use std::mem::{MaybeUninit, transmute};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use libc::{c_char, c_int, c_long, gid_t, passwd, size_t};
use privacyidea_contract::map::{BASE_FILE, Contents, Description, publish};
use privacyidea_contract::paths::MAP_DIRECTORY;
use privacyidea_contract::wire::{GroupEntry, PasswdEntry};

/// Batches are short and many, so that most of them are not interrupted on a busy machine.
const BATCHES: usize = 40;
const CALLS_PER_BATCH: usize = 500;
/// How often this module and `files` take turns.
const COMPARISONS: usize = 21;
/// How often all batches are run.
const PASSES: usize = 10;
const CALLS: usize = BATCHES * CALLS_PER_BATCH;
const USERS_PER_GROUP: u32 = 100;

type ByName<T> = unsafe extern "C" fn(*const c_char, *mut T, *mut c_char, size_t, *mut c_int) -> c_int;
type ById<T> = unsafe extern "C" fn(u32, *mut T, *mut c_char, size_t, *mut c_int) -> c_int;
type InitgroupsDyn = unsafe extern "C" fn(
    *const c_char,
    gid_t,
    *mut c_long,
    *mut c_long,
    *mut *mut gid_t,
    c_long,
    *mut c_int,
) -> c_int;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [flag, users] = arguments.as_slice() {
        if flag == "--here" {
            return measure(users.parse().expect("a number of users"));
        }
    }
    let library = tempfile::tempdir().expect("a directory");
    let executable = std::env::current_exe().expect("a path");
    let module = executable.parent().expect("a directory").join("libnss_privacyidea.so");
    symlink(module, library.path().join("libnss_privacyidea.so.2")).expect("a link");
    println!("{:<48} {:>9} {:>4} {:>12} {:>12} {:>12} unit", "what", "users", "n", "min", "median", "max");
    let numbers =
        if arguments.is_empty() { vec!["1000".into(), "100000".into(), "1000000".into()] } else { arguments };
    for users in numbers {
        let status = Command::new("unshare")
            .args(["--map-root-user", "--mount", "--propagation", "private"])
            .arg(&executable)
            .args(["--here", &users])
            .env("LD_LIBRARY_PATH", library.path())
            .status()
            .expect("unshare(1) runs");
        assert!(status.success());
    }
}

fn row(what: &str, users: u32, mut samples: Vec<f64>, unit: &str) {
    samples.sort_by(f64::total_cmp);
    let [min, median, max] = [0, samples.len() / 2, samples.len() - 1].map(|index| samples[index]);
    let n = samples.len();
    println!("{what:<48} {users:>9} {n:>4} {min:>12.1} {median:>12.1} {max:>12.1} {unit}");
}

fn name(number: u32) -> String {
    format!("user{number:07}")
}

fn entry(number: u32) -> PasswdEntry {
    PasswdEntry {
        name: name(number),
        uid: 100_000 + number,
        gid: 100_000,
        gecos: format!("Firstname Lastname {number}"),
        home: format!("/home/{}", name(number)),
        shell: "/bin/bash".to_owned(),
    }
}

/// Four groups for each user; the last one is the primary group of all.
fn groups(users: u32) -> impl Iterator<Item = GroupEntry> {
    let sizes =
        (0..4u32).flat_map(move |kind| (0..users.div_ceil(USERS_PER_GROUP)).map(move |part| (kind, part)));
    sizes.map(move |(kind, part)| GroupEntry {
        name: format!("group{kind}-{part}"),
        gid: 2_000_000 + kind * 100_000 + part,
        members: (part * USERS_PER_GROUP..users.min((part + 1) * USERS_PER_GROUP)).map(name).collect(),
    })
}

#[expect(clippy::disallowed_methods, reason = "the module reads the real clock, so its maps need real times")]
fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Peak resident memory of this process in MiB.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc is mounted");
    let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("a line");
    line.split_whitespace().nth(1).and_then(|number| number.parse::<f64>().ok()).expect("a number") / 1024.0
}

/// Milliseconds of processor time, in and out of the kernel, that this process has used.
fn processor_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the struct.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

fn build(users: u32) {
    let repetitions = if users > 100_000 { 3 } else { 5 };
    let (mut filling, mut publishing, mut processing) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repetitions {
        let built = now();
        let start = Instant::now();
        let mut contents = Contents::listing(Description {
            built,
            fresh_until: built + 3600,
            stale_for: 3600,
            enumerate: false,
            complete: true,
        });
        (0..users).for_each(|number| contents.passwd(&entry(number), 0).expect("usable"));
        groups(users).for_each(|group| contents.group(&group, 0).expect("usable"));
        filling.push(start.elapsed().as_secs_f64() * 1e3);
        let (start, processor) = (Instant::now(), processor_time());
        publish(Path::new(MAP_DIRECTORY), BASE_FILE, contents).expect("published");
        publishing.push(start.elapsed().as_secs_f64() * 1e3);
        processing.push(processor_time() - processor);
    }
    row("map: entries made and taken", users, filling, "ms");
    row("map: built, synchronised and published", users, publishing, "ms");
    row("map: processor time of building and publishing", users, processing, "ms");
    let length = Path::new(MAP_DIRECTORY).join(BASE_FILE).metadata().expect("a map").len();
    row("map: length", users, vec![length as f64 / 1048576.0], "MiB");
    row("map: peak memory of the process", users, vec![peak_memory()], "MiB");
}

/// Where users are looked up: in an order that no cache foresees, the same each time.
struct Order(u64);

impl Order {
    fn next(&mut self, users: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(users)) as u32
    }
}

fn batches(mut call: impl FnMut(usize)) -> Vec<f64> {
    // Once through all of them first: the pages of the map get mapped.
    (0..CALLS).for_each(&mut call);
    let starts = (0..BATCHES * PASSES).map(|batch| batch % BATCHES * CALLS_PER_BATCH);
    starts.map(|start| batch(start..start + CALLS_PER_BATCH, &mut call)).collect()
}

/// Nanoseconds per call.
fn batch(calls: std::ops::Range<usize>, call: &mut impl FnMut(usize)) -> f64 {
    let count = calls.len() as f64;
    let start = Instant::now();
    calls.for_each(call);
    start.elapsed().as_secs_f64() * 1e9 / count
}

fn measure(users: u32) {
    prepare(users);
    let mut order = Order(1);
    let chosen: Vec<u32> = (0..CALLS).map(|_| order.next(users)).collect();
    let names: Vec<CString> =
        chosen.iter().map(|number| CString::new(name(*number)).expect("no NUL")).collect();
    let ghosts: Vec<CString> =
        chosen.iter().map(|number| CString::new(format!("ghost{number}")).expect("no NUL")).collect();
    let group_number = |number: u32| (number % 4, number / USERS_PER_GROUP);
    let group_names: Vec<CString> = chosen
        .iter()
        .map(|number| {
            CString::new(format!("group{}-{}", group_number(*number).0, group_number(*number).1))
                .expect("no NUL")
        })
        .collect();
    let module = Module::load();
    row("getpwnam_r, hit, module direct", users, batches(|i| module.passwd_by_name(&names[i], 1)), "ns");
    row("getpwuid_r, hit, module direct", users, batches(|i| module.passwd_by_id(100_000 + chosen[i])), "ns");
    row(
        "getgrnam_r, hit (100 members), module direct",
        users,
        batches(|i| module.group_by_name(&group_names[i])),
        "ns",
    );
    let gid = |number| 2_000_000 + group_number(number).0 * 100_000 + group_number(number).1;
    row(
        "getgrgid_r, hit (100 members), module direct",
        users,
        batches(|i| module.group_by_id(gid(chosen[i]))),
        "ns",
    );
    row(
        "initgroups_dyn, hit (4 groups), module direct",
        users,
        batches(|i| module.groups_of(&names[i])),
        "ns",
    );
    row(
        "getpwnam_r, unknown name, module direct",
        users,
        batches(|i| module.passwd_by_name(&ghosts[i], 0)),
        "ns",
    );
    compare_with_files(users, &names);
}

/// The map on the disk that holds this program; `files` gets the same users in /etc/passwd.
fn prepare(users: u32) {
    let place = tempfile::tempdir_in(std::env::current_exe().expect("a path").parent().expect("a directory"));
    let place = place.expect("a directory");
    std::fs::create_dir(place.path().join("privacyidea-host")).expect("a new directory");
    let mut lines = String::from("root:x:0:0::/root:/bin/sh\n");
    for number in 0..users {
        let PasswdEntry { name, uid, gid, gecos, home, shell } = entry(number);
        writeln!(lines, "{name}:x:{uid}:{gid}:{gecos}:{home}:{shell}").expect("a string takes it");
    }
    let file = place.path().join("passwd");
    std::fs::write(&file, lines).expect("written");
    for (from, to) in [(place.path(), "/var/cache"), (file.as_path(), "/etc/passwd")] {
        let status = Command::new("mount").arg("--bind").arg(from).arg(to).status().expect("mount(8) runs");
        assert!(status.success());
    }
    build(users);
    // The mounts live as long as this process; the map is mapped before the directory goes.
    Module::load().passwd_by_name(&CString::new(name(0)).expect("no NUL"), 1);
}

fn compare_with_files(users: u32, names: &[CString]) {
    // `files` reads half of the file for each lookup.
    let calls = (20_000_000 / users as usize).clamp(3, 2000);
    let (mut ours, mut files) = (Vec::new(), Vec::new());
    for _ in 0..COMPARISONS {
        configure(c"privacyidea");
        ours.push(batch(0..calls, &mut |i| passwd_through_glibc(&names[i])));
        configure(c"files");
        files.push(batch(0..calls.min(200_000 / users as usize + 1), &mut |i| {
            passwd_through_glibc(&names[i])
        }));
    }
    row("getpwnam_r, hit, glibc with this module alone", users, ours, "ns");
    row("getpwnam_r, hit, glibc with files alone", users, files, "ns");
}

fn configure(services: &CStr) {
    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }
    // SAFETY: two NUL-terminated strings; no other thread looks anything up.
    assert_eq!(unsafe { __nss_configure_lookup(c"passwd".as_ptr(), services.as_ptr()) }, 0);
}

fn passwd_through_glibc(name: &CStr) {
    let mut entry = MaybeUninit::<passwd>::uninit();
    let mut buffer = [MaybeUninit::<c_char>::uninit(); 1024];
    let mut result = std::ptr::null_mut();
    // SAFETY: valid pointers, and the buffer's length.
    let error = unsafe {
        libc::getpwnam_r(
            name.as_ptr(),
            entry.as_mut_ptr(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            &raw mut result,
        )
    };
    assert!(error == 0 && !result.is_null());
    black_box(&entry);
}

/// The module's functions.
struct Module {
    getpwnam: ByName<passwd>,
    getpwuid: ById<passwd>,
    getgrnam: ByName<libc::group>,
    getgrgid: ById<libc::group>,
    initgroups: InitgroupsDyn,
}

impl Module {
    fn load() -> Self {
        // SAFETY: a NUL-terminated name; the module's constructors do nothing.
        let handle = unsafe { libc::dlopen(c"libnss_privacyidea.so.2".as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        let symbol = |name: &CStr| {
            // SAFETY: a handle from dlopen and a NUL-terminated name.
            let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
            assert!(!symbol.is_null());
            symbol
        };
        Self {
            // SAFETY: the function's type by nss(5).
            getpwnam: unsafe {
                transmute::<*mut c_void, ByName<passwd>>(symbol(c"_nss_privacyidea_getpwnam_r"))
            },
            // SAFETY: as above.
            getpwuid: unsafe {
                transmute::<*mut c_void, ById<passwd>>(symbol(c"_nss_privacyidea_getpwuid_r"))
            },
            // SAFETY: as above.
            getgrnam: unsafe {
                transmute::<*mut c_void, ByName<libc::group>>(symbol(c"_nss_privacyidea_getgrnam_r"))
            },
            // SAFETY: as above.
            getgrgid: unsafe {
                transmute::<*mut c_void, ById<libc::group>>(symbol(c"_nss_privacyidea_getgrgid_r"))
            },
            // SAFETY: as above.
            initgroups: unsafe {
                transmute::<*mut c_void, InitgroupsDyn>(symbol(c"_nss_privacyidea_initgroups_dyn"))
            },
        }
    }

    fn passwd_by_name(&self, name: &CStr, expected: c_int) {
        by_name(self.getpwnam, name, expected);
    }

    fn passwd_by_id(&self, uid: u32) {
        by_id(self.getpwuid, uid);
    }

    fn group_by_name(&self, name: &CStr) {
        by_name(self.getgrnam, name, 1);
    }

    fn group_by_id(&self, gid: u32) {
        by_id(self.getgrgid, gid);
    }

    fn groups_of(&self, name: &CStr) {
        let mut list = [0; 16];
        let (mut used, mut size, mut errno) = (1, 16, 0);
        let mut gids: *mut gid_t = list.as_mut_ptr();
        // SAFETY: valid pointers; four groups fit, so that the list, which is not from malloc, does not grow.
        let status = unsafe {
            (self.initgroups)(
                name.as_ptr(),
                100_000,
                &raw mut used,
                &raw mut size,
                &raw mut gids,
                -1,
                &raw mut errno,
            )
        };
        assert_eq!((status, used), (1, 5));
        black_box(&list);
    }
}

fn by_name<T>(function: ByName<T>, name: &CStr, expected: c_int) {
    let mut entry = MaybeUninit::<T>::uninit();
    let mut buffer = [MaybeUninit::<c_char>::uninit(); 4096];
    let mut errno = 0;
    // SAFETY: valid pointers, and the buffer's length.
    let status = unsafe {
        function(name.as_ptr(), entry.as_mut_ptr(), buffer.as_mut_ptr().cast(), buffer.len(), &raw mut errno)
    };
    assert_eq!(status, expected);
    black_box(&entry);
}

fn by_id<T>(function: ById<T>, id: u32) {
    let mut entry = MaybeUninit::<T>::uninit();
    let mut buffer = [MaybeUninit::<c_char>::uninit(); 4096];
    let mut errno = 0;
    // SAFETY: valid pointers, and the buffer's length.
    let status =
        unsafe { function(id, entry.as_mut_ptr(), buffer.as_mut_ptr().cast(), buffer.len(), &raw mut errno) };
    assert_eq!(status, 1);
    black_box(&entry);
}
