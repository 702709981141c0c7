"""The commands of each pipeline step, and the role of its duty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tritonstack.base import naming
from tritonstack.base.error_kinds import NotApplicableError
from tritonstack.base.naming import DeliveryRole
from tritonstack.base.paths import Project, is_source_tree
from tritonstack.constructs.iam.grants import AwsScope
from tritonstack.files.environment.environment import EnvironmentSpec

LOCKS = "environments"
"""The folder that steps pass on: builds and promotions change only files in it."""
HANDED = "handed"
"""Where a step finds the locks from the previous step."""

_PATH = 'export PATH="$PWD/.venv/bin:$PATH"'
LOCK_FILE = "requirements.lock.txt"
_SETUP = (
    "python3 -m venv .venv",
    _PATH,
    f"pip install --quiet --no-deps --require-hashes --requirement {LOCK_FILE}",
    "pip install --quiet --no-deps --requirement requirements.txt",
    "tritonstack setup --no-server",
)
_SETUP_OF_SOURCE_TREE = ("make setup-cli", _PATH)
_TAKE_LOCKS = f"cp {HANDED}/*.lock.yaml {LOCKS}/"


@dataclass(frozen=True)
class PipelineStep:
    """One pipeline step."""

    name: str
    setup: Sequence[str]
    """Follows the commands that install the tool."""
    commands: Sequence[str]


def setup_commands(project: Project) -> Sequence[str]:
    """Install what every step needs: the tool that requirements.txt pins, and the CDK CLI.

    requirements.txt of tritonstack's own repository lists no tritonstack: `make` installs it from the source.
    """
    if is_source_tree(project):
        return _SETUP_OF_SOURCE_TREE
    if not (project.root / LOCK_FILE).is_file():
        raise NotApplicableError(
            f"the steps of the pipeline install {LOCK_FILE}, which does not exist",
            remedy="run `tritonstack upgrade` to write it, and commit it with requirements.txt",
        )
    return _SETUP


def build_step(aws: AwsScope, spec: EnvironmentSpec) -> PipelineStep:
    """Build and lock what is missing, on the machines from the catalog, GPUs included.

    The jobs run in the environment's account; this step starts and follows them.
    """
    setup = use_role(aws, spec, "deploy")
    return PipelineStep(f"Build-{spec.name}", setup, (f"tritonstack build {spec.name}",))


def synth_step(spec: EnvironmentSpec) -> PipelineStep:
    """Validate all files and synthesize the stacks."""
    commands = (_TAKE_LOCKS, "tritonstack validate", f"cdk synth --quiet -c env={spec.name}")
    return PipelineStep("Synth", (), commands)


def deploy_step(aws: AwsScope, spec: EnvironmentSpec) -> PipelineStep:
    """Deploy, in two phases if SageMaker requires it, and sync the model prefixes."""
    return _with_locks(f"Deploy-{spec.name}", aws, spec, "deploy", f"tritonstack deploy {spec.name}")


def verify_step(aws: AwsScope, spec: EnvironmentSpec) -> PipelineStep:
    """Verify the deployed endpoints; the next promotion depends on the verdict."""
    return _with_locks(f"Verify-{spec.name}", aws, spec, "deploy", f"tritonstack verify {spec.name}")


def promote_step(aws: AwsScope, spec: EnvironmentSpec, source: str) -> PipelineStep:
    """Check the promotion gates and copy the source's artifacts to the environment's account."""
    command = f"tritonstack promote {source} {spec.name}"
    return _with_locks(f"Promote-{spec.name}", aws, spec, "promote", command)


def reap_commands(aws: AwsScope, spec: EnvironmentSpec) -> tuple[str, ...]:
    """Destroy expired previews."""
    command = f"tritonstack reap --account {spec.account} --region {spec.region}"
    return (*use_role(aws, spec, "clean-up"), command)


def use_role(aws: AwsScope, spec: EnvironmentSpec, duty: DeliveryRole) -> tuple[str, ...]:
    """Assume the role of an environment's account for one duty, starting from the step's own role."""
    profile = f"{spec.name}-{duty}"
    settings = {
        "role_arn": duty_role_arn(aws, spec, duty),
        "credential_source": "EcsContainer",
        "region": spec.region,
    }
    configure = (f"aws configure set profile.{profile}.{key} {value}" for key, value in settings.items())
    return (*configure, f"export AWS_PROFILE={profile}")


def duty_role_arn(aws: AwsScope, spec: EnvironmentSpec, duty: DeliveryRole) -> str:
    """Return the ARN of the role that an environment's account has for a duty."""
    target = AwsScope(aws.partition, spec.region, spec.account)
    return target.iam(f"role/{naming.delivery_role_name(spec.delivery_base, duty)}")


def _with_locks(
    name: str, aws: AwsScope, spec: EnvironmentSpec, duty: DeliveryRole, command: str
) -> PipelineStep:
    return PipelineStep(name, use_role(aws, spec, duty), (_TAKE_LOCKS, command))
