"""Files that a person names with an option: written whole, or an error and nothing left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tritonstack.base.errors import UsageError
from tritonstack.operate.shared.output_files import require_output, write_output


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("folder", "Is a directory"),
        ("file/below", "its folder does not exist"),
        ("missing/deep/file", "its folder does not exist"),
        ("to-folder", "Is a directory"),
        ("n" * 300, "File name too long"),
    ],
)
def test_what_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path, name, reason):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    (tmp_path / "to-folder").symlink_to("folder")
    before = sorted(tmp_path.rglob("*"))
    for write in (require_output, lambda file: write_output(file, b"new")):
        with pytest.raises(UsageError, match=f"cannot write .*: ({reason})") as caught:
            write(tmp_path / name)
        assert (caught.value.code, bool(caught.value.remedy)) == ("TS901", True)
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_text() == "kept"


def test_links_and_devices_are_not_replaced(tmp_path):
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "device").symlink_to("/dev/null")
    for name in ("link", "device", "new"):
        require_output(tmp_path / name)
    assert {file.name for file in tmp_path.iterdir()} == {"link", "device"}
    for name in ("link", "device", "new"):
        write_output(tmp_path / name, b"content")
    write_output(Path("/dev/null"), b"content")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "device").is_symlink()
    assert Path("/dev/null").is_char_device()
    assert (tmp_path / "file").read_bytes() == (tmp_path / "new").read_bytes() == b"content"
