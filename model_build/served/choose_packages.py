"""Adds the compiled packages of the Python that it finds to an execution environment: run by `bin/activate`.

An environment that holds packages compiled for one Python has a folder of them for each Python that it was
made for: packages-py310, packages-py312.
"""

import os
import sys
from pathlib import Path


def main(environment: Path) -> None:
    """Say no where there is no folder for this Python; else put it on the way of `import`."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    folder = environment / f"packages-py{sys.version_info[0]}{sys.version_info[1]}"
    if not folder.is_dir():
        made_for = sorted(entry.name.partition("-")[2] for entry in environment.glob("packages-py*"))
        sys.exit(
            f"this execution environment is for {' and '.join(made_for)}, and the Python of this image is "
            f"{version}: build the model for it (`pythons` in model.yaml)"
        )
    site_packages = environment / "lib" / version / "site-packages"
    site_packages.mkdir(parents=True, exist_ok=True)
    temporary = site_packages / f"compiled.{os.getpid()}"
    temporary.write_text(f"{folder}\n")
    temporary.replace(site_packages / "compiled.pth")  # in one step, for many may do this at once


if __name__ == "__main__":
    main(Path(sys.argv[1]))
