//! Tests of concurrent writers, of writers that are killed, and of targets of all kinds.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashSet;
use std::ffi::OsStr;
use std::process::Command;
use std::thread;

use super::temporary::{Temporary, unique_name};
use super::*;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A directory that is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let unique = format!("pytree-files-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(unique);
        fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    /// Returns the names of all files, including hidden files.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn names_of_one_process_number_differ() {
    let names = || (0..5_000).map(|_| unique_name(OsStr::new("state"), 1));
    let threads: Vec<_> = (0..4)
        .map(|_| thread::spawn(move || names().collect::<Vec<_>>()))
        .collect();
    let all = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap());
    let different: HashSet<String> = all.collect();
    assert_eq!(different.len(), 20_000);
    // Each process counts its temporary files from zero. So if two processes have equal numbers, only the random parts
    // of the names differ.
    let parts = different
        .iter()
        .map(|name| name.rsplit('-').next().unwrap());
    assert_eq!(parts.collect::<HashSet<_>>().len(), 20_000);
    let longest = different.iter().map(String::len).max();
    assert!(longest < Some(80), "{longest:?}");
}

/// Runs in child processes that execute this test binary. An environment variable holds the path of the file to write.
#[test]
fn writing_child() {
    let Some(path) = std::env::var_os("PYTREE_FILES_CHILD") else {
        return;
    };
    let id = std::process::id();
    for number in 0..100 {
        let line = format!("{id} {number}\n").repeat(1_000);
        write(&path, line.as_bytes()).unwrap();
    }
}

fn child(path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "files::tests::writing_child"]);
    command.env("PYTREE_FILES_CHILD", path);
    command
}

#[test]
fn writers_side_by_side_all_succeed() {
    let scratch = Scratch::new("many");
    let path = scratch.0.join("state");
    let children: Vec<_> = (0..4)
        .map(|_| child(&path).stdout(std::process::Stdio::null()).spawn())
        .collect();
    thread::scope(|scope| {
        for thread in 0..4 {
            let path = &path;
            scope.spawn(move || {
                for number in 0..100 {
                    let line = format!("{thread} {number}\n").repeat(1_000);
                    write(path, line.as_bytes()).unwrap();
                }
            });
        }
    });
    for child in children {
        assert!(child.unwrap().wait().unwrap().success());
    }
    let text = fs::read_to_string(&path).unwrap();
    let lines: HashSet<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1, "a file is of one writer");
    assert_eq!(scratch.names(), ["state"]);
}

#[test]
fn temporaries_of_killed_writers_are_removed() {
    let scratch = Scratch::new("killed");
    let path = scratch.0.join("state");
    let leave = |target: &str| {
        let name = unique_name(OsStr::new(target), 1);
        fs::write(scratch.0.join(&name), "half of").unwrap();
        name
    };
    leave("state");
    leave("state");
    let live = leave("state");
    let other = leave("another");
    let lock = File::open(scratch.0.join(&live)).unwrap();
    lock.lock().unwrap();
    write(&path, b"one").unwrap();
    let mut expected = [live.as_str(), &other, "state"];
    expected.sort_unstable();
    assert_eq!(
        scratch.names(),
        expected,
        "a live one and another file's stay"
    );
    drop(lock);
    write(&path, b"two").unwrap();
    assert_eq!(scratch.names(), [&other, "state"]);
    assert_eq!(fs::read(&path).unwrap(), b"two");
}

#[test]
fn family_shares_its_temporaries() {
    let scratch = Scratch::new("family");
    let leave = || fs::write(scratch.0.join(leftover_name(OsStr::new("all"))), "half of").unwrap();
    leave();
    write_in_family(&scratch.0.join("one"), b"1", "all").unwrap();
    assert_eq!(scratch.names(), ["one"]);
    leave();
    remove_dead(&scratch.0, "all");
    assert_eq!(scratch.names(), ["one"]);
}

#[test]
fn locked_and_used_files_are_not_removed() {
    let scratch = Scratch::new("locked");
    let path = scratch.0.join("part");
    let locked = Unfinished::new(path.clone(), "all")
        .unwrap()
        .finish()
        .unwrap();
    remove_unless_locked(&path, || false);
    assert!(path.exists(), "it is locked");
    drop(locked);
    remove_unless_locked(&path, || true);
    assert!(path.exists(), "it is used");
    // A process that another test starts has the locked file, too, until it runs its program.
    for _ in 0..500 {
        remove_unless_locked(&path, || false);
        if !path.exists() {
            return;
        }
        thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("a file that nothing locks or uses is not removed");
}

#[test]
fn relative_path_is_in_the_working_directory() {
    let scratch = Scratch::new("relative");
    let left = unique_name(OsStr::new("state"), 1);
    fs::write(scratch.0.join(left), "half of").unwrap();
    let mut writer = child(Path::new("state"));
    let writer = writer
        .current_dir(&scratch.0)
        .stdout(std::process::Stdio::null());
    assert!(writer.status().unwrap().success());
    assert_eq!(scratch.names(), ["state"]);
}

#[test]
#[cfg(unix)]
fn killed_process_leaves_nothing_for_long() {
    let scratch = Scratch::new("kill");
    let path = scratch.0.join("state");
    for moment in 0..10 {
        let mut writer = child(&path)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(std::time::Duration::from_millis(15 + 3 * moment));
        writer.kill().unwrap();
        writer.wait().unwrap();
        if let Ok(text) = fs::read_to_string(&path) {
            let lines: HashSet<&str> = text.lines().collect();
            assert_eq!((lines.len(), text.lines().count()), (1, 1_000));
        }
    }
    write(&path, b"the last").unwrap();
    assert_eq!(scratch.names(), ["state"]);
}

#[test]
#[cfg(unix)]
fn permissions_are_kept() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("mode");
    let path = scratch.0.join("state");
    for mode in [0o600, 0o640, 0o444, 0o755] {
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        write(&path, b"new").unwrap();
        let found = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(found, mode, "{found:o} for {mode:o}");
        fs::remove_file(&path).unwrap();
    }
    // The target does not exist here, so the new file gets the default permissions of the process.
    write(&path, b"new").unwrap();
    fs::write(scratch.0.join("plain"), "").unwrap();
    let mode = |name: &str| fs::metadata(scratch.0.join(name)).unwrap().permissions();
    assert_eq!(mode("state"), mode("plain"));
}

#[test]
#[cfg(unix)]
fn temporary_file_is_opened_to_nobody_else() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("private");
    for mode in [0o600, 0o640, 0o700] {
        let permissions = fs::Permissions::from_mode(mode);
        let temporary =
            Temporary::new(&scratch.0, OsStr::new("state"), Some(&permissions)).unwrap();
        let names = scratch.names();
        let made = fs::metadata(scratch.0.join(&names[0])).unwrap();
        // The permissions are set before anything is written.
        assert_eq!(made.permissions().mode() & 0o777 & !mode, 0, "{mode:o}");
        drop(temporary);
        assert!(scratch.names().is_empty());
    }
}

#[test]
#[cfg(unix)]
fn symbolic_links_are_followed() {
    use std::os::unix::fs::symlink;
    let scratch = Scratch::new("links");
    let (data, links) = (scratch.0.join("data"), scratch.0.join("links"));
    fs::create_dir_all(&data).unwrap();
    fs::create_dir_all(&links).unwrap();
    fs::write(data.join("old"), "old").unwrap();
    symlink("../data/old", links.join("relative")).unwrap();
    symlink(data.join("new"), links.join("dangling")).unwrap();
    symlink("relative", links.join("chain")).unwrap();
    symlink("endless", links.join("endless")).unwrap();
    write(links.join("relative"), b"one").unwrap();
    assert_eq!(fs::read(data.join("old")).unwrap(), b"one");
    write(links.join("chain"), b"two").unwrap();
    assert_eq!(fs::read(data.join("old")).unwrap(), b"two");
    write(links.join("dangling"), b"three").unwrap();
    assert_eq!(fs::read(data.join("new")).unwrap(), b"three");
    assert!(write(links.join("endless"), b"four").is_err());
    for link in ["relative", "dangling", "chain", "endless"] {
        assert!(fs::symlink_metadata(links.join(link)).unwrap().is_symlink());
    }
    let count = |directory: &Path| fs::read_dir(directory).unwrap().count();
    assert_eq!((count(&data), count(&links)), (2, 4));
}

#[test]
fn long_name_can_be_written() {
    let scratch = Scratch::new("long");
    for length in [200, 250, 255] {
        let path = scratch.0.join("n".repeat(length));
        write(&path, b"all").unwrap();
        assert_eq!(read(&path).unwrap(), b"all");
    }
    assert_eq!(scratch.names().len(), 3);
}

#[test]
fn special_files_are_kept() {
    let scratch = Scratch::new("other");
    let error = write(&scratch.0, b"x").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    assert!(write("", b"x").is_err());
    assert!(write(scratch.0.join("none").join("state"), b"x").is_err());
    #[cfg(unix)]
    {
        // Use a socket that the test creates, and not a device, because a bug could replace the device.
        let socket = scratch.0.join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for error in [
            write(&socket, b"x").unwrap_err(),
            read(&socket).unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(error.contains("does not name a regular file"), "{error}");
        }
        assert!(!fs::symlink_metadata(&socket).unwrap().is_file());
        fs::remove_file(&socket).unwrap();
    }
    assert!(scratch.names().is_empty());
}

/// Runs in a child process whose files have a maximum size.
#[test]
fn cramped_child() {
    let Some(path) = std::env::var_os("PYTREE_FILES_CRAMPED") else {
        return;
    };
    let error = write(&path, &vec![b'x'; 1 << 20]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn failed_write_leaves_the_old_file() {
    let scratch = Scratch::new("full");
    let path = scratch.0.join("state");
    write(&path, b"old").unwrap();
    // A write beyond the maximum size of files fails like a write to a full disk: a part is written first.
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact files::tests::cramped_child";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env("PYTREE_FILES_CRAMPED", &path)
        .output()
        .unwrap();
    let output_text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && output_text.contains("1 passed"),
        "{output_text}"
    );
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(scratch.names(), ["state"]);
}

#[test]
fn missing_folder_is_named() {
    let folder = std::env::temp_dir().join(format!("pytree-no-folder-{}", std::process::id()));
    let error = write(folder.join("file"), b"x").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert_eq!(
        error.to_string(),
        format!(
            "the folder `{}` does not exist; create it with `std::fs::create_dir_all`",
            folder.display()
        )
    );
    assert!(!folder.exists());
}
