use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use privacyidea_contract::map::Contents;
use privacyidea_contract::wire::{PasswdEntry, Reply};

use crate::calls::{Module, list_passwd, passwd_by_name};
use crate::world::{FakeDaemon, built_module, fresh, publish_base, sample, user};

/// Runs `body` in a forked child and returns its wait status. `body` says whether all is well.
fn in_child(body: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child calls `body`, which allocates at most where glibc allows it, and ends without cleaning up.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let code = i32::from(!body());
        // Not exit_group(2), which the strict filter forbids.
        // SAFETY: ends this process, which has one thread.
        unsafe { libc::syscall(libc::SYS_exit, code) };
    }
    let mut status = 0;
    // SAFETY: our child, and a valid pointer.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

pub(super) fn a_hit_makes_no_system_call() {
    publish_base(sample(fresh()));
    let module = Module::load();
    let lookup = module.passwd_by_name();
    assert_eq!(lookup(c"alice"), (1, 0, 2000), "the first one opens the map");
    let strict = || {
        // SAFETY: from here on the kernel kills this process for anything but read, write, exit and sigreturn.
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) == 0 }
    };
    let lookups = || {
        (0..1000)
            .all(|_| lookup(c"alice").2 == 2000 && lookup(c"ghost").0 == 0 && module.all_others_succeed())
    };
    assert_eq!(in_child(|| strict() && lookups()), 0);
    // That the filter would have noticed.
    // SAFETY: no arguments.
    let noticed = in_child(|| strict() && unsafe { libc::syscall(libc::SYS_getppid) } != 0);
    assert_eq!(noticed & 0x7f, libc::SIGKILL);
}

/// Neither memory that is lost nor reads of what is not there: from the map, from the daemon, and with neither.
pub(super) fn lookups_are_clean_under_valgrind() {
    for scenario in [
        "every_key_is_answered_from_the_map",
        "a_miss_goes_to_the_daemon",
        "an_outage_is_no_absence",
        "damaged_and_malicious_maps_are_not_believed",
        "enumeration_lists_both_files_where_allowed",
    ] {
        let output = Command::new("valgrind")
            .args(["--quiet", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect"])
            .args(["--show-leak-kinds=definite,indirect", "--error-exitcode=99"])
            .arg(std::env::current_exe().unwrap())
            .args(["--scenario", scenario])
            .output()
            .expect("install valgrind (tests/run does)");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{scenario}: {}\n{errors}", output.status);
    }
}

/// A map in which everybody's numbers are `generation`.
fn generation(generation: u32) -> Contents {
    let mut contents = Contents::listing(fresh());
    for name in ["alice", "bob", "carla"] {
        let entry = PasswdEntry { gid: generation, gecos: generation.to_string(), ..user(name, generation) };
        contents.passwd(&entry, 0).unwrap();
    }
    contents
}

fn count_in(path: &str, what: &str) -> usize {
    std::fs::read_to_string(path).unwrap().lines().filter(|line| line.contains(what)).count()
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Runs `threads` threads that call `body` until `main` returns.
fn with_busy_threads<R>(threads: usize, body: impl Fn() + Sync, main: impl FnOnce() -> R) -> R {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    body();
                }
            });
        }
        let result = main();
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

pub(super) fn threads_see_whole_entries_while_maps_change() {
    publish_base(generation(2000));
    let published = AtomicU32::new(2000);
    let seen = AtomicU32::new(0);
    let body = || {
        let at_least = published.load(Ordering::SeqCst);
        let entry = passwd_by_name("bob").unwrap().unwrap();
        assert!(entry.uid == entry.gid && entry.gecos == entry.uid.to_string(), "{entry:?}");
        assert!(entry.uid >= at_least, "{} after {at_least}", entry.uid);
        seen.fetch_add(1, Ordering::Relaxed);
    };
    let descriptors = open_descriptors();
    with_busy_threads(8, body, || {
        for number in 2001..2300 {
            publish_base(generation(number));
            published.store(number, Ordering::SeqCst);
        }
    });
    assert!(seen.load(Ordering::Relaxed) > 1000);
    assert_eq!(passwd_by_name("bob").unwrap().unwrap().uid, 2299);
    assert_eq!(count_in("/proc/self/maps", "lookup-1"), 1, "old maps are unmapped");
    assert_eq!(open_descriptors(), descriptors);
}

pub(super) fn children_of_busy_threads_look_up() {
    publish_base(generation(2000));
    let body = || drop(passwd_by_name("bob").unwrap().unwrap());
    with_busy_threads(4, body, || {
        for number in 2001..2101 {
            // Half of the children find a map that was replaced.
            if number % 2 == 0 {
                publish_base(generation(number));
            }
            let expected = number - number % 2;
            let status = in_child(|| {
                let lookup = Module::load().passwd_by_name();
                let is_found = |name: &CStr| lookup(name).2 == expected.max(2000);
                is_found(c"alice") && is_found(c"bob") && lookup(c"ghost").0 == 0
            });
            assert_eq!(status, 0, "generation {number}");
        }
    });
    // A child goes on where its parent's enumeration was, and does not move the parent's.
    let names = list_passwd(true, |step| {
        if step == 1 {
            assert_eq!(in_child(|| list_passwd(false, |_| ()) == ["bob", "carla"]), 0);
        }
    });
    assert_eq!(names, ["alice", "bob", "carla"]);
}

pub(super) fn a_thousand_threads_leave_nothing_open() {
    publish_base(sample(fresh()));
    let _daemon = FakeDaemon::start(|_| Some(Reply::NotFound));
    assert_eq!(passwd_by_name("alice"), Ok(Some(user("alice", 2000))));
    let descriptors = open_descriptors();
    for round in 0..50 {
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    assert_eq!(passwd_by_name("alice"), Ok(Some(user("alice", 2000))));
                    assert_eq!(passwd_by_name("ghost"), Ok(None));
                });
            }
        });
        // Every other round the threads ask the daemon.
        let complete = round % 2 == 0;
        publish_base(sample(privacyidea_contract::map::Description { complete, ..fresh() }));
    }
    assert_eq!(open_descriptors(), descriptors);
    passwd_by_name("alice").unwrap();
    assert_eq!(count_in("/proc/self/maps", "lookup-1"), 1);
}

/// pthread_cancel(3) of a thread that waits for the daemon: the thread ends after its lookup, and nothing else does.
pub(super) fn a_cancelled_thread_harms_nobody() {
    extern "C" fn lookup(_: *mut c_void) -> *mut c_void {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let (mut buffer, mut result) = ([0; 1024], ptr::null_mut());
        let (entry, buffer, length) = (entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len());
        // SAFETY: valid pointers, and the buffer's length. No frame of this function has anything to drop.
        unsafe { libc::getpwnam_r(c"carla".as_ptr(), entry, buffer, length, &raw mut result) };
        ptr::null_mut()
    }
    let (asked, is_asked) = std::sync::mpsc::channel();
    let _daemon = FakeDaemon::start(move |_| {
        asked.send(()).unwrap();
        None
    });
    let descriptors = open_descriptors();
    let mut thread = 0;
    // SAFETY: a function of the right type; default attributes.
    assert_eq!(unsafe { libc::pthread_create(&raw mut thread, ptr::null(), lookup, ptr::null_mut()) }, 0);
    is_asked.recv().unwrap();
    // SAFETY: a thread that was not joined yet.
    assert_eq!(unsafe { libc::pthread_cancel(thread) }, 0);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::pthread_join(thread, ptr::null_mut()) }, 0);
    // The daemon keeps its end of the connection.
    assert_eq!(open_descriptors(), descriptors + 1);
    publish_base(sample(fresh()));
    assert_eq!(passwd_by_name("alice"), Ok(Some(user("alice", 2000))));
}

pub(super) fn loading_and_unloading_with_threads() {
    publish_base(sample(fresh()));
    let load = || {
        let module = Module::load();
        assert_eq!(module.passwd_by_name()(c"alice").2, 2000);
        module.unload();
    };
    with_busy_threads(4, load, || (0..2000).for_each(|_| load()));
    assert_eq!(count_in("/proc/self/maps", "lookup-1"), 1, "not mapped anew by each load");
}

pub(super) fn the_library_is_small_and_needs_only_libc() {
    let output = Command::new("readelf").args(["--dynamic", "--wide"]).arg(built_module()).output().unwrap();
    let dynamic = String::from_utf8(output.stdout).unwrap();
    let is_allowed = |line: &str| {
        ["[libc.so.6]", "[libgcc_s.so.1]", "[ld-linux"].iter().any(|library| line.contains(library))
    };
    for line in dynamic.lines().filter(|line| line.contains("(NEEDED)")) {
        assert!(is_allowed(line), "{line}");
    }
    assert!(dynamic.contains("soname: [libnss_privacyidea.so.2]"), "{dynamic}");
    assert!(dynamic.lines().any(|line| line.contains("FLAGS_1") && line.contains("NODELETE")), "{dynamic}");
    let stripped = tempfile::NamedTempFile::new().unwrap();
    let status = Command::new("strip").arg("-o").arg(stripped.path()).arg(built_module()).status().unwrap();
    assert!(status.success());
    let size = stripped.path().metadata().unwrap().len();
    println!("{size} bytes when stripped");
    assert!(cfg!(debug_assertions) || size < 600 * 1024, "{size} bytes");
}
