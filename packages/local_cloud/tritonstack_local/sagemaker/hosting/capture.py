"""Data capture: write sampled requests and answers to S3 as JSON lines, in SageMaker's format.

The files lie below `<destination>/<endpoint>/<variant>/<year>/<month>/<day>/<hour>/`.
"""

from __future__ import annotations

import base64
import json
import logging
import threading
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack_local.sagemaker.records import now
from tritonstack_local.sagemaker.servers.artifacts import bucket_and_key

# SageMaker writes every few minutes; here the delay is shorter.
FLUSH_S = 2.0
# Maximum buffered size; a full buffer is written at once.
BUFFER_BYTES = 16 * 1024 * 1024

log = logging.getLogger(__name__)


class Message(NamedTuple):
    """A captured request or response."""

    body: bytes
    content_type: str


class Capture:
    """Captures the requests of one variant. A write failure is logged and drops the buffer."""

    def __init__(self, *, settings: Mapping[str, Any], s3: Any, endpoint: str, variant: str) -> None:
        """`settings` are a DataCaptureConfig."""
        self._settings = settings
        self._s3 = s3
        self._below = f"{endpoint}/{variant}"
        self._owed = 0
        self._exchanges: list[tuple[Message, Message, str | None, datetime]] = []
        self._size = 0
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"capture of {self._below}", daemon=True)
        self._thread.start()

    def note(self, request: Message, answer: Message, *, inference_id: str | None) -> None:
        """Capture an exchange if it is in the sample: an exact percentage."""
        with self._lock:
            self._owed += self._settings["InitialSamplingPercentage"]
            if self._owed < 100:
                return
            self._owed -= 100
            self._exchanges.append((request, answer, inference_id, now()))
            self._size += len(request.body) + len(answer.body)
            if self._size > BUFFER_BYTES:
                self._wanted.set()

    def stop(self) -> None:
        """Write the buffer and stop."""
        self._ended.set()
        self._wanted.set()
        self._thread.join()

    def _record(
        self, request: Message, answer: Message, inference_id: str | None, time: datetime
    ) -> dict[str, Any]:
        modes = {option["CaptureMode"] for option in self._settings["CaptureOptions"]}
        data = {}
        if modes & {"Input", "InputAndOutput"}:
            data["endpointInput"] = self._side(request, "INPUT")
        if modes & {"Output", "InputAndOutput"}:
            data["endpointOutput"] = self._side(answer, "OUTPUT")
        metadata = {
            "eventId": str(uuid.uuid4()),
            **({"inferenceId": inference_id} if inference_id else {}),
            "inferenceTime": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        return {"captureData": data, "eventMetadata": metadata, "eventVersion": "0"}

    def _side(self, message: Message, mode: str) -> dict[str, str]:
        encoding = self._encoding(message.content_type)
        text = base64.b64encode(message.body) if encoding == "BASE64" else message.body
        return {
            "observedContentType": message.content_type,
            "mode": mode,
            "data": text.decode(errors="replace"),
            "encoding": encoding,
        }

    def _encoding(self, content_type: str) -> str:
        kind = content_type.partition(";")[0].strip()
        types = self._settings.get("CaptureContentTypeHeader", {})
        if kind in types.get("CsvContentTypes", ()):
            return "CSV"
        return "JSON" if kind in types.get("JsonContentTypes", ()) else "BASE64"

    def _run(self) -> None:
        while not self._ended.is_set():
            self._wanted.wait(FLUSH_S)
            self._wanted.clear()
            self._flush()
        self._flush()

    def _flush(self) -> None:
        with self._lock:
            exchanges, self._exchanges, self._size = self._exchanges, [], 0
        if not exchanges:
            return
        bucket, prefix = bucket_and_key(self._settings["DestinationS3Uri"])
        key = f"{prefix.rstrip('/')}/{self._below}/{_file_name(now())}".lstrip("/")
        kms_key = self._settings.get("KmsKeyId")
        encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key} if kms_key else {}
        try:
            self._s3.put_object(
                Bucket=bucket,
                Key=key,
                Body="".join(f"{json.dumps(self._record(*exchange))}\n" for exchange in exchanges).encode(),
                **encryption,
            )
        except (ClientError, BotoCoreError) as error:
            log.warning("lost captured data of %s: %s", self._below, error)


def _file_name(time: datetime) -> str:
    return f"{time:%Y/%m/%d/%H}/{time:%M-%S}-{time.microsecond // 1000:03}-{uuid.uuid4()}.jsonl"
