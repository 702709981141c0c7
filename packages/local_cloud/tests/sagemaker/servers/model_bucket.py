"""A strict fake of the S3 client that downloads models."""

import io
import threading
from collections import Counter

from botocore.exceptions import ClientError
from botocore.response import StreamingBody

BUCKET = "shelf"


class ModelBucket:
    """Serves the objects below `models/` of one bucket, and counts the requests for each."""

    def __init__(self):
        self.objects = {}
        self.asked = Counter()
        self._lock = threading.Lock()

    @property
    def url(self):
        return f"s3://{BUCKET}/models/"

    def get_object(self, *, Bucket, Key):  # noqa: N803 - boto3's names
        assert Bucket == BUCKET
        target = Key.removeprefix("models/")
        assert target != Key, "a model outside the prefix was asked for"
        with self._lock:
            self.asked[target] += 1
        if target not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey", "Message": "not there"}}, "GetObject")
        content = self.objects[target]
        return {"Body": StreamingBody(io.BytesIO(content), len(content))}
