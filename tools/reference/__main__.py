"""Write the pages of docs/reference/ that changed.

python -m tools.reference
"""

from __future__ import annotations

from tools.reference.pages import FOLDER, pages
from tritonstack.base.files import write_text_atomically


def main() -> None:
    """Write each page that changed."""
    for name, text in pages():
        changed = write_text_atomically(FOLDER / name, text)
        print(f"{'wrote' if changed else 'kept '} docs/reference/{name}")


if __name__ == "__main__":
    main()
