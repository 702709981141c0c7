"""What each step of the pipeline runs: commands that a person could type, with the role of that duty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tritonstack.base import naming
from tritonstack.base.naming import Duty
from tritonstack.constructs.delivery.delivery_grants import global_arn
from tritonstack.constructs.iam.grants import Home
from tritonstack.spec.environments.environment import EnvironmentSpec

LOCKS = "environments"
"""The folder that steps hand on: all that a build or a promotion changes lies in it."""
HANDED = "handed"
"""Where a step finds the locks that another one has left."""

_SETUP = ("make setup-cli", 'export PATH="$PWD/.venv/bin:$PATH"')
_TAKE_LOCKS = f"cp {HANDED}/*.lock.yaml {LOCKS}/"


@dataclass(frozen=True)
class Step:
    """One step."""

    name: str
    setup: Sequence[str]
    commands: Sequence[str]


def build_step(home: Home, spec: EnvironmentSpec) -> Step:
    """Build what the lock lacks, on the machines that the catalog names, GPUs among them, and lock it.

    The jobs run in the environment's account; this step starts and follows them.
    """
    setup = (*_SETUP, *use_role(home, spec, "deploy"))
    return Step(f"Build-{spec.name}", setup, (f"tritonstack build {spec.name}",))


def synth_step(spec: EnvironmentSpec) -> Step:
    """See that all files go together, and that the stacks can be made of what was built."""
    commands = (_TAKE_LOCKS, "tritonstack validate", f"npx cdk synth --quiet -c env={spec.name}")
    return Step("Synth", _SETUP, commands)


def deploy_step(home: Home, spec: EnvironmentSpec) -> Step:
    """Deploy, in two phases where SageMaker asks for that, and put models on their shelves."""
    return _with_locks(f"Deploy-{spec.name}", home, spec, "deploy", f"tritonstack deploy {spec.name}")


def verify_step(home: Home, spec: EnvironmentSpec) -> Step:
    """Prove that what runs is what was asked for; the verdict is what the next promotion stands on."""
    return _with_locks(f"Verify-{spec.name}", home, spec, "deploy", f"tritonstack verify {spec.name}")


def promote_step(home: Home, spec: EnvironmentSpec, source: str) -> Step:
    """Pass the gates, and bring what the source runs to the environment's account."""
    command = f"tritonstack promote {source} {spec.name}"
    return _with_locks(f"Promote-{spec.name}", home, spec, "promote", command)


def reap_commands(home: Home, spec: EnvironmentSpec) -> tuple[str, ...]:
    """Destroy what has expired where previews stand."""
    command = f"tritonstack reap --account {spec.account} --region {spec.region}"
    return (*_SETUP, *use_role(home, spec, "clean-up"), command)


def use_role(home: Home, spec: EnvironmentSpec, duty: Duty) -> tuple[str, ...]:
    """Take on the role of an environment's account for one duty, starting from the step's own."""
    profile = f"{spec.name}-{duty}"
    settings = {
        "role_arn": duty_role_arn(home, spec, duty),
        "credential_source": "EcsContainer",
        "region": spec.region,
    }
    configure = (f"aws configure set profile.{profile}.{key} {value}" for key, value in settings.items())
    return (*configure, f"export AWS_PROFILE={profile}")


def duty_role_arn(home: Home, spec: EnvironmentSpec, duty: Duty) -> str:
    """The role that an environment's account has for a duty."""
    there = Home(home.partition, spec.region, spec.account)
    return global_arn(there, f"role/{naming.delivery_role_name(spec.delivery_base, duty)}")


def _with_locks(name: str, home: Home, spec: EnvironmentSpec, duty: Duty, command: str) -> Step:
    return Step(name, (*_SETUP, *use_role(home, spec, duty)), (_TAKE_LOCKS, command))
