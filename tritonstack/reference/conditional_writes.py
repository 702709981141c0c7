"""What S3 answers to a write on condition, for rooms that do not know each other.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

HELD_CODES = frozenset({"412", "PreconditionFailed"})
"""What lies there is not what the condition says: somebody has written it."""
AGAIN_CODES = frozenset({"409", "ConditionalRequestConflict", "404", "NoSuchKey"})
"""Another request came between, or what was to be replaced has been deleted. What lies there now, if anything
does, this does not say: the write is to be made again.
"""
