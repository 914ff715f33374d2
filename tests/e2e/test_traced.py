"""Reading what strace wrote: only what the container did, and every call of it once."""

import pytest

from tests.e2e.traced import below, files

ENTERED = '7 openat(AT_FDCWD, "/before", O_RDONLY) = 3\n7 chroot("/new/root") = 0\n'


@pytest.mark.parametrize(
    ("lines", "opened", "tried"),
    [
        ('7 openat(AT_FDCWD, "/a", O_RDONLY|O_CLOEXEC) = 3', {"/a"}, {"/a"}),
        ('7 openat(AT_FDCWD, "/a", O_RDONLY) = -1 ENOENT (No such file or directory)', set(), {"/a"}),
        ('7 stat("/a", {st_mode=S_IFREG}) = 0', set(), {"/a"}),
        ('7 connect(5, {sa_family=AF_UNIX, sun_path="/run/x.sock"}, 110) = 0', {"/run/x.sock"}, {"/run/x.sock"}),
        ("7 connect(5, {sa_family=AF_INET, sin_port=htons(80)}, 16) = 0", set(), set()),
        ('7 openat(4, "relative", O_RDONLY) = 3', set(), set()),
        ('7 open("/a", O_RDONLY) = ? ERESTARTSYS (To be restarted)', set(), {"/a"}),
        (
            '7 openat(AT_FDCWD, "/a" <unfinished ...>\n8 stat("/b", {}) = 0\n7 <... openat resumed>, O_RDONLY) = 3',
            {"/a"},
            {"/a", "/b"},
        ),
        ("7 +++ exited with 0 +++", set(), set()),
    ],
)
def test_calls(lines: str, opened: set[str], tried: set[str]) -> None:
    found = files(ENTERED + lines + "\n")
    assert (found.opened, found.tried) == (opened, tried)
    assert files(lines).tried == set(), "nothing has entered a root of its own"


def test_below() -> None:
    assert [below(path, "/a/b") for path in ("/a/b", "/a/b/c", "/a/bc", "/a")] == [True, True, False, False]
