"""Write the JSON Schemas of the files people edit.

python -m tools.schemas
"""

from __future__ import annotations

from tritonstack.base.files import write_text_atomically
from tritonstack.files.project.schemas import schema_files


def main() -> None:
    """Write each schema that changed."""
    for file, text in schema_files():
        file.parent.mkdir(exist_ok=True)
        changed = write_text_atomically(file, text)
        print(f"{'wrote' if changed else 'kept '} {file}")


if __name__ == "__main__":
    main()
