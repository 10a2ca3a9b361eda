use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;

/// Returns a folder with the mode, and keeps its parent alive.
fn folder(mode: u32) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).expect("a folder");
    fs::set_permissions(&inner, Permissions::from_mode(mode)).expect("its mode");
    (folder, inner)
}

fn take(path: &Path) -> io::Result<UnwrittenFile> {
    open(path, Access::Owner, false)
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").mode() & 0o7777
}

#[test]
fn a_file_that_is_made_has_the_permissions_asked_for() {
    let (_folder, folder) = folder(0o755);
    // SAFETY: the call takes nothing and cannot fail.
    let gid = unsafe { libc::getegid() };
    let own = Group { gid };
    for (name, access, mode) in [
        ("owner", Access::Owner, 0o600),
        ("group", Access::Group(own), 0o640),
    ] {
        let path = folder.join(name);
        assert!(open(&path, access, false).expect("made").made.is_some());
        assert_eq!(mode_of(&path), mode, "{name}");
    }
    let path = folder.join("umask");
    open(&path, Access::Umask, true).expect("made");
    let other = folder.join("other");
    fs::write(&other, "").expect("a file");
    assert_eq!(mode_of(&path), mode_of(&other));
}

#[test]
fn a_file_that_is_there_stays_as_it_is() {
    let (_folder, folder) = folder(0o755);
    let path = folder.join("f");
    fs::write(&path, "content").expect("a file");
    fs::set_permissions(&path, Permissions::from_mode(0o664)).expect("its mode");
    assert!(take(&path).expect("opened").made.is_none());
    assert_eq!(mode_of(&path), 0o664);
    assert_eq!(fs::read(&path).expect("a file"), b"content");
}

#[test]
fn what_was_made_can_be_removed_though_the_path_leads_elsewhere_now() {
    let (folder, inner) = folder(0o755);
    let path = inner.join("f");
    let made = take(&path).expect("made").made.expect("it is new");
    let moved = folder.path().join("moved");
    fs::rename(&inner, &moved).expect("renamed");
    made.remove().expect("removed");
    assert!(!moved.join("f").exists());
}

#[test]
fn links_are_followed_where_only_the_owner_puts_them() {
    let (_folder, folder) = folder(0o755);
    let (file, link, chain) = (folder.join("f"), folder.join("link"), folder.join("chain"));
    symlink("f", &link).expect("a link");
    symlink(&link, &chain).expect("a link");
    // A link to a missing file creates that file.
    assert!(take(&chain).expect("made").made.is_some());
    assert!(file.exists());
    assert!(take(&link).expect("opened").made.is_none());
    let circle = folder.join("circle");
    symlink("circle", &circle).expect("a link");
    let error = take(&circle).expect_err("a circle");
    assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
}

fn refusal(result: io::Result<UnwrittenFile>) -> Refusal {
    let error = result.expect_err("refused");
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    *inner.unwrap_or_else(|| panic!("{error}"))
}

#[test]
fn links_in_sticky_directories_are_not_followed() {
    let (outside, folder) = folder(0o1777);
    let target = outside.path().join("target");
    fs::write(&target, "content").expect("a file");
    let link = folder.join("link");
    symlink(&target, &link).expect("a link");
    assert_eq!(refusal(take(&link)), Refusal::Link);
    // Nor through a link that may be followed.
    let safe = outside.path().join("safe");
    symlink(&link, &safe).expect("a link");
    assert_eq!(refusal(take(&safe)), Refusal::Link);
    let nowhere = folder.join("nowhere");
    symlink(outside.path().join("new"), &nowhere).expect("a link");
    assert_eq!(refusal(take(&nowhere)), Refusal::Link);
    assert!(!outside.path().join("new").exists());
    let second = folder.join("second");
    fs::hard_link(&target, &second).expect("a link");
    assert_eq!(refusal(take(&second)), Refusal::Linked);
    assert!(take(&folder.join("own")).expect("made").made.is_some());
    assert!(take(&folder.join("own")).expect("opened").made.is_none());
    assert_eq!(fs::read(&target).expect("a file"), b"content");
}

#[test]
fn descriptors_have_names_in_proc() {
    let (_folder, folder) = folder(0o755);
    let file = File::create(folder.join("f")).expect("a file");
    let (reader, writer) = io::pipe().expect("a pipe");
    for fd in [file.as_raw_fd(), writer.as_raw_fd()] {
        let path = PathBuf::from(format!("/dev/fd/{fd}"));
        assert!(take(&path).expect("opened").made.is_none());
    }
    drop(reader);
    assert!(take(Path::new("/dev/null")).expect("opened").made.is_none());
}

#[test]
fn what_is_no_name_of_a_file_is_refused_by_its_number() {
    let (_folder, folder) = folder(0o755);
    let text = folder.to_str().expect("text");
    for (path, errno) in [
        (format!("{text}/"), libc::EISDIR),
        (format!("{text}/."), libc::EISDIR),
        (text.to_owned(), libc::EISDIR),
        (format!("{text}/missing/f"), libc::ENOENT),
        (String::new(), libc::ENOENT),
    ] {
        let error = take(Path::new(&path)).expect_err(&path);
        assert_eq!(error.raw_os_error(), Some(errno), "{path:?}");
    }
}

#[test]
fn groups_have_names_and_numbers() {
    assert_eq!(Group::by_name("root").map(Group::gid), Ok(0));
    assert_eq!(Group::by_name("12345").map(Group::gid), Ok(12345));
    assert!(Group::by_name("no-such-group").is_err());
    assert!(Group::by_name("").is_err());
    assert!(Group::by_name("4294967295").is_err());
}

#[test]
fn directories_are_found_as_the_kernel_finds_them() {
    let (folder, inner) = folder(0o1777);
    let own = inner.join("own");
    symlink("../inner/.", &own).expect("a link");
    let far = folder.path().join("far");
    symlink(folder.path(), &far).expect("a link");
    for (number, way) in [
        "inner",
        "inner/own",
        "far/inner//own/.",
        "far/inner/../inner",
    ]
    .iter()
    .enumerate()
    {
        let name = format!("f{number}");
        take(&folder.path().join(way).join(&name)).expect("made");
        assert!(inner.join(name).exists(), "{way}");
    }
    fs::write(inner.join("file"), "").expect("a file");
    symlink("loop", inner.join("loop")).expect("a link");
    symlink("gone", inner.join("dangling")).expect("a link");
    for (way, errno) in [
        ("file", libc::ENOTDIR),
        ("loop", libc::ELOOP),
        ("dangling", libc::ENOENT),
        ("nothing", libc::ENOENT),
    ] {
        let error = take(&inner.join(way).join("f")).expect_err(way);
        assert_eq!(error.raw_os_error(), Some(errno), "{way}");
    }
}
