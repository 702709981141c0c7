"""Write the smallest wheels that pip downloads and installs."""

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType


def write_wheel(
    index: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    files: Mapping[str, str | bytes] = MappingProxyType({}),
) -> Path:
    index.mkdir(exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nProvides-Extra: more\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    info, package = f"{name.replace('-', '_')}-{version}.dist-info", name.replace("-", "_")
    contents = {
        f"{package}/__init__.py": b"",
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **{path: text.encode() if isinstance(text, str) else text for path, text in files.items()},
    }
    record = "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in contents.items())
    wheel = index / f"{package}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**contents, f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode()}.items():
            archive.writestr(path, text)
    return wheel


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
