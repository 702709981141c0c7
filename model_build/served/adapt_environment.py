"""Makes an unpacked execution environment fit the Python that it finds: run by its `bin/activate`.

Triton's Python backend looks for a virtual environment of its own Python version. The packages in here serve
every version, so all that is missing is the shell of such an environment, made now: a link to the image's
python3, `pyvenv.cfg`, and a site-packages that leads to our packages and to the image's NumPy. Running it
again, or several times at once, is harmless: each file is put in its place whole.
"""

import importlib.util
import os
import sys
from pathlib import Path


def main(environment: Path) -> None:
    """Write the shell of a virtual environment around `environment`/packages."""
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    put_link(environment / "bin" / "python3", base)
    put_text(environment / "pyvenv.cfg", f"home = {base.parent}\ninclude-system-site-packages = false\n")
    site_packages = environment / "lib" / base.name / "site-packages"
    site_packages.mkdir(parents=True, exist_ok=True)
    put_text(site_packages / "packages.pth", f"{environment / 'packages'}\n{folder_of_numpy()}\n")


def folder_of_numpy() -> Path:
    """Where the image's python3 has its NumPy, the one that Triton's stub works with."""
    found = importlib.util.find_spec("numpy")
    if found is None or found.origin is None:
        sys.exit(f"{sys.executable} has no NumPy, which Triton's Python backend needs")
    return Path(found.origin).parent.parent


def put_text(file: Path, text: str) -> None:
    """Write a file in one step, unless it is right already."""
    if file.is_file() and file.read_text() == text:
        return
    temporary = file.with_name(f"{file.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(file)


def put_link(link: Path, destination: Path) -> None:
    """Make a link in one step, unless it is right already."""
    if link.is_symlink() and link.readlink() == destination:
        return
    temporary = link.with_name(f"{link.name}.{os.getpid()}")
    temporary.symlink_to(destination)
    temporary.replace(link)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
