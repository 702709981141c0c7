"""What all endpoints of an environment share: its key, its artifacts, its images and its alarm topic."""

from __future__ import annotations

from constructs import Construct

from catalog import naming
from catalog.environments import EnvironmentSpec
from stacks.constructs.alarm_topic import AlarmTopic
from stacks.constructs.artifact_store import ArtifactStore
from stacks.constructs.encryption_key import EncryptionKey
from stacks.constructs.image_repository import ImageRepository
from stacks.environment_stack import EnvironmentStack


class FoundationStack(EnvironmentStack):
    """Deployed once, before any endpoint."""

    def __init__(self, scope: Construct, *, environment: EnvironmentSpec) -> None:
        super().__init__(
            scope,
            stack_name=naming.foundation_stack_name(environment.base),
            description=f"tritonstack: what the endpoints of {environment.name} share",
            environment=environment,
        )
        key = EncryptionKey(self, "Encryption", environment=environment).key
        artifacts = ArtifactStore(self, "Artifacts", environment=environment, key=key)
        serving = ImageRepository(self, "ServingImage", environment=environment, image="serving", key=key)
        builder = ImageRepository(self, "BuilderImage", environment=environment, image="builder", key=key)
        alarms = AlarmTopic(self, "Alarms", environment=environment, key=key)

        self.output("KeyArn", value=key.key_arn, description="Key that encrypts this environment's data")
        self.output("ArtifactBucket", value=artifacts.bucket.bucket_name, description="Where artifacts lie")
        self.output("LogBucket", value=artifacts.log_bucket.bucket_name, description="Its access log")
        self.output("ServingRepository", value=serving.uri, description="Images that endpoints run")
        self.output("BuilderRepository", value=builder.uri, description="Images that build artifacts")
        self.output("AlarmTopic", value=alarms.topic.topic_arn, description="Who subscribes hears alarms")
