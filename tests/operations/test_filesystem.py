"""The doctor names file systems on which the promises do not hold."""

from __future__ import annotations

import pytest

from chatsnapshot.doctor.filesystem import judge_mount, mount_of, read_mounts

ROOT = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard"


def line(kind: str, point: str = "/mnt/share", options: str = "rw,relatime", more: str = "rw") -> str:
    return f"90 27 0:44 / {point} {options} shared:9 - {kind} device:/export {more}"


def grades(path: str, *lines: str) -> list[tuple[str, str]]:
    return [(finding.grade, finding.found) for finding in judge_mount(path, read_mounts([ROOT, *lines]))]


@pytest.mark.parametrize(
    "kind",
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "9p",
        "virtiofs",
        "fuse",
        "fuseblk",
        "fuse.sshfs",
        "fuse.grpcfuse",
        "vboxsf",
    ],
)
def test_network_shared_and_fuse_file_systems_are_problems_with_a_reason(kind: str) -> None:
    ((grade, found),) = grades("/mnt/share/runs.db", line(kind))
    assert grade == "problem"
    assert found.startswith(f"{kind} at /mnt/share is unsafe for a ledger: ")


@pytest.mark.parametrize("kind", ["tmpfs", "ramfs"])
def test_memory_is_named_as_not_durable(kind: str) -> None:
    ((grade, found),) = grades("/mnt/share/runs.db", line(kind))
    assert grade == "warning" and "nothing in it survives a restart" in found


def test_the_layer_of_a_container_is_noted_with_what_to_do() -> None:
    (finding,) = judge_mount("/srv/runs.db", read_mounts([ROOT.replace("ext4", "overlay")]))
    assert finding.grade == "note" and "goes when the container goes" in finding.found
    assert finding.to_do == "mount a volume at /srv to keep it"


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs"])
def test_local_file_systems_are_ok(kind: str) -> None:
    ((grade, _),) = grades("/mnt/share/runs.db", line(kind))
    assert grade == "ok"


def test_nothing_is_claimed_of_an_unknown_file_system() -> None:
    ((grade, found),) = grades("/mnt/share/runs.db", line("newfs"))
    assert grade == "note" and "nothing is said about its locks and syncs" in found


def test_a_system_without_a_list_of_mounts_is_unknown() -> None:
    (finding,) = judge_mount("/srv/runs.db", None)
    assert finding.grade == "note" and finding.found.startswith("unknown: ")


@pytest.mark.parametrize("option", ["nobarrier", "barrier=0"])
def test_a_mount_without_barriers_is_a_problem(option: str) -> None:
    assert [grade for grade, _ in grades("/mnt/share/runs.db", line("ext4", more=f"rw,{option}"))] == [
        "ok",
        "problem",
    ]


def test_a_read_only_mount_is_noted() -> None:
    found = grades("/mnt/share/runs.db", line("ext4", options="ro,relatime"))
    assert [grade for grade, _ in found] == ["ok", "note"]


def test_a_file_that_is_mounted_alone_is_a_problem() -> None:
    found = grades("/srv/runs.db", line("ext4", point="/srv/runs.db"))
    assert [grade for grade, _ in found] == ["ok", "problem"]
    assert "log and lock beside it lie elsewhere" in found[1][1]


def test_the_deepest_mount_counts_and_of_two_at_one_place_the_last() -> None:
    mounts = read_mounts([ROOT, line("ext4", "/mnt"), line("nfs4", "/mnt/a"), line("xfs", "/mnt/a")])
    found = {path: mount_of(path, mounts) for path in ("/mnt/a/b", "/mnt/ab", "/srv")}
    assert {path: mount and (mount.point, mount.kind) for path, mount in found.items()} == {
        "/mnt/a/b": ("/mnt/a", "xfs"),
        "/mnt/ab": ("/mnt", "ext4"),
        "/srv": ("/", "ext4"),
    }


def test_blanks_in_a_mount_point_are_read() -> None:
    mounts = read_mounts([line("nfs4", "/mnt/two\\040words")])
    found = mount_of("/mnt/two words/x", mounts)
    assert found is not None and found.point == "/mnt/two words"


def test_lines_that_are_no_mounts_are_passed_over() -> None:
    assert read_mounts(["", "garbage", "1 2 3 - x", ROOT.replace(" - ", " ")]) == []
