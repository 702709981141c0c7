"""S3's error codes for conditional writes, shared by packages that do not import each other.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

CONFLICT_CODES = frozenset({"412", "PreconditionFailed"})
"""The condition does not hold: another writer has changed the object."""
INTERFERED_CODES = frozenset({"409", "ConditionalRequestConflict"})
"""A concurrent write of the same key interfered: retry the write."""
AGAIN_CODES = INTERFERED_CODES | {"404", "NoSuchKey"}
"""A concurrent request interfered, or the object to replace was deleted. The current content is unknown:
retry the write.
"""
