"""Kinds of errors that several parts of the project report, most of them in files.

A kind is a class with a code, a title, and an explanation, its docstring. Kinds of one part are beside its
code. The base decides the exit code; `code=` of another class keeps its own exit code.
"""

from __future__ import annotations

from tritonstack.base.errors import TritonstackError, UsageError


class UnreadableFileError(UsageError):
    """A file is missing, empty, too large, not a regular file, not readable, or, for YAML, not UTF-8. Or it
    is outside the model's folder, or a link to such a place: builds read only files that the repository
    holds. Check the path and the permissions, or copy the file into the folder.
    """

    code = "TS101"
    title = "File cannot be read"


class InvalidYamlError(UsageError):
    """The text is not valid YAML, has a key twice, or uses a part of YAML that tritonstack rejects, such as
    tags and several documents. The parser often stops one line after the mistake. Check indentation, quotes,
    brackets, and the space after each colon.
    """

    code = "TS102"
    title = "Invalid YAML"


class UnknownKeyError(UsageError):
    """A mapping has a key that does not exist here. Correct the spelling, or move the key to the section that
    it belongs to. Some keys exist only for certain values of `kind`.
    """

    code = "TS104"
    title = "Unknown key"


class MissingKeyError(UsageError):
    """A required key is missing or has no value, or a recipe needs a key that others do not. Add the key with
    a value, or write `{}` for the defaults of a section.
    """

    code = "TS106"
    title = "Required key is missing"


class InvalidValueError(UsageError):
    """The value has another type or form than expected, is not in the list of allowed values, or is out of
    range; or a list has too few, too many, or duplicate items. The message names the rule. Quote text that
    looks like a number, and do not quote numbers.
    """

    code = "TS111"
    title = "Invalid value"


class UnavailableOptionError(UsageError):
    """The option excludes another one of the same file, or does not exist for this recipe, format, precision,
    kind of endpoint, or Triton release; or tritonstack sets the variable itself. Remove the option, or choose
    what the message names.
    """

    code = "TS114"
    title = "Option not available here"


class InstanceTypeError(UsageError):
    """The endpoint or its model needs a GPU, another number or kind of GPUs, or more vCPUs, memory, disk, or
    instances than the instance type has. Or the Triton release does not support its GPU or driver. Choose
    another instance type, or remove the option.
    """

    code = "TS119"
    title = "Instance type does not fit"


class ScalingError(UsageError):
    """SageMaker cannot scale or update the endpoint in this way: the metric, the minimum, the strategy, the
    size of its steps, its duration, or its alarms do not fit.
    """

    code = "TS121"
    title = "Scaling or rollout not possible"


class MissingReferenceError(UsageError):
    """A file names a model, an environment, or a file that does not exist in the project. Correct the name,
    or add what it names.
    """

    code = "TS201"
    title = "Reference not found"


class UnusableNameError(UsageError):
    """Two resources would get the same name in AWS, a name is reserved, or `name` differs from the name of
    its file or folder. Or the name of a file means that nothing reads it: environments, templates, and locks
    end with `.yaml`, and each folder in `models/` has a `model.yaml`. Rename one of them.
    """

    code = "TS204"
    title = "Name cannot be used"


class RegionError(UsageError):
    """AWS does not offer the image, instance type, build machine, or feature in the environment's region or
    zones, or it is not known whether it does. Or a quota of the account is too low. Choose another region,
    confirm that AWS has added it since, request the quota, or build on your own machine.
    """

    code = "TS206"
    title = "Not available in the region"


class EndpointMismatchError(UsageError):
    """The kind, the image, the hosting mode, or the request limit of the endpoint does not fit what the
    recipe of its model produces. Change the endpoint, such as its `kind`, `triton_release`, or `image`, or
    the model as the help says.
    """

    code = "TS209"
    title = "Endpoint does not fit the model"


class CompositionError(UsageError):
    """The steps of an ensemble, or the calls between models, do not fit together. A model or tensor is
    missing, unused, or not declared; types or batching differ; or a step streams, keeps state, or calls
    models itself. Correct the steps, or `recipe.calls`.
    """

    code = "TS214"
    title = "Models do not fit together"


class UntrustedPickleError(UsageError):
    """The model contains a pickle, which can run any code when loaded. Convert it to safetensors, ONNX, or
    another data format; if you trust the source, set `trust: {pickle: <reason>}`.
    """

    code = "TS217"
    title = "Pickle is not trusted"


class DeliveryError(UsageError):
    """The order or the environments in the delivery file do not fit the `promotion` sections, too many
    environments share one CDK bootstrap, or pull requests could change more than their own preview. Correct
    the delivery file or the template.
    """

    code = "TS219"
    title = "Delivery contradicts the environments"


class MissingSourceError(UsageError):
    """The source of the model does not exist, is gated or private, or cannot be reached. Check the URL in
    `source`, the credentials, and the network.
    """

    code = "TS301"
    title = "Model source not available"


class SourceFileError(UsageError):
    """The source lacks a file that the recipe needs, or one of its files is damaged or has a name that is not
    allowed. Download or copy the model again, and check `recipe.file`.
    """

    code = "TS302"
    title = "Source files missing or invalid"


class ChangedSourceError(UsageError):
    """A file has another checksum than expected, or changed during the build. Or, as a warning, `source`
    names a branch or a tag, which can move without a change of the lock: write the full commit hash.
    """

    code = "TS303"
    title = "Source changed or can change"


class ModelMismatchError(UsageError):
    """A field of `model.yaml` differs from what the files of the model state, or from the model that was
    built. Remove the field to use the model's own value, correct it, or state the reason under `overrides`.
    """

    code = "TS304"
    title = "model.yaml contradicts the model"


class ModelCodeError(UsageError):
    """Python code of the model, or a library that it calls, cannot be imported, is incomplete, or raised an
    exception; or a file beside it shadows a module. Correct the code at the place in the message; the build
    log has the traceback.
    """

    code = "TS309"
    title = "Model code failed"


class MachineError(UsageError):
    """This machine has no GPU, another GPU, another TensorRT, or an older driver than the model needs. Build
    in AWS, or in the image of the Triton release.
    """

    code = "TS311"
    title = "Machine does not fit the target"


class PackagesError(UsageError):
    """The packages of a Python model have no exact version, cannot be resolved or packed, or are for another
    Python or NumPy than the server's. Write `name==version` with wheels for Linux x86-64, and check
    `recipe.pythons`. If the package index is unreachable, check the network and pip's settings.
    """

    code = "TS318"
    title = "Python packages do not fit"


class UnbuiltArtifactError(UsageError):
    """The lock has no artifact or image for an endpoint. Run `tritonstack build`, and commit the lock."""

    code = "TS401"
    title = "Artifact is not built"


class OutdatedArtifactError(UsageError):
    """The locked artifact or image was built from other files than those of this commit, or for another GPU
    or TensorRT version than the endpoint's. Run `tritonstack build`, and commit the lock.
    """

    code = "TS402"
    title = "Artifact is out of date"


class LockEntryError(TritonstackError):
    """A lock states other facts about an artifact than its manifest, another lock, or AWS, or claims a
    promotion that did not happen, or has an entry that nothing uses. Or `--online` could reach no account.
    Restore the lock from git, build or promote again, or remove the entry.
    """

    code = "TS403"
    title = "Lock entry is wrong"


class ArtifactNotFoundError(TritonstackError):
    """The lock names an artifact or image that is not in the bucket, in the registry, or on this machine, or
    the artifact has no usable test examples. Publish it with `tritonstack build`, or promote it again.
    """

    code = "TS409"
    title = "Artifact or image is missing"


class DamagedArtifactError(TritonstackError):
    """An artifact, its archive, or a JSON record differs from its checksum, cannot be read, or was written by
    an incompatible version of tritonstack. Nothing uses it. Delete it, and build or publish it again.
    """

    code = "TS410"
    title = "Artifact is damaged"


class CopyError(TritonstackError):
    """The bucket already holds other objects under the artifact's name, several publishers write at once, or
    a copy between accounts failed or arrived with other contents. Rerun the command, which resumes; remove an
    incomplete artifact first.
    """

    code = "TS413"
    title = "Artifact cannot be published or copied"


class PromotionRejectedError(TritonstackError):
    """The artifacts cannot be promoted between these environments: the environment has another source or
    none, or the artifacts do not fit. Nothing was changed.
    """

    code = "TS418"
    title = "Promotion not possible"


class AwsCallError(TritonstackError):
    """An AWS API returned an error that tritonstack does not handle, or the IAM policies do not allow the
    call; then the help names the action to allow. The message is AWS's own. Rerun with `--debug` to see the
    call.
    """

    code = "TS503"
    title = "AWS rejected a call"


class NotRecordedError(TritonstackError):
    """The verdict of `verify`, or a load test, could not be written to the artifact bucket, or the endpoint
    does not serve the artifact of the lock throughout. Deploy first, use credentials that may write there, or
    omit the recording.
    """

    code = "TS513"
    title = "Result was not recorded"


class NotDeployedError(UsageError):
    """The environment or the instance is not deployed, so the command has nothing to work on.
    Deploy it first.
    """

    code = "TS514"
    title = "Not deployed"


class ConstructError(UsageError):
    """A stack uses the constructs with options that contradict each other or exceed a limit of IAM, or a
    stack needs an account or region at synthesis. Correct the code that creates the construct; shorten names,
    or split the environment.
    """

    code = "TS515"
    title = "Invalid options of a construct"


class UncheckedAnswerError(TritonstackError):
    """A test request failed, or its answer has another shape than the example. Read the log group of the
    endpoint.
    """

    code = "TS517"
    title = "Answers could not be checked"


class MissingProgramError(TritonstackError):
    """This machine lacks a Triton server of the right version and backends, the CDK CLI, npm, or a Docker
    engine, or one of them could not be installed. Run `tritonstack setup`; for Docker, start an engine or set
    `DOCKER_HOST`.
    """

    code = "TS601"
    title = "Required program not found"


class LocalCloudError(TritonstackError):
    """The local cloud did not start or stop, already runs, runs for another account, or its port is in use.
    Stop it with `tritonstack down`, or choose another account, folder, or `--port`. The end of its log is in
    the message.
    """

    code = "TS611"
    title = "Local cloud failed"


class MissingPackageError(UsageError):
    """The command needs a package that is not installed. Run the command in the message."""

    code = "TS615"
    title = "Python package not installed"


class StorageError(TritonstackError):
    """The disk is full, the folder is not writable, a file is in its place, or the build needs more memory
    than is available. Check the path and its permissions, free space, build fewer models at once, or use a
    larger machine.
    """

    code = "TS616"
    title = "Disk or memory too small"


class CommandLineError(UsageError):
    """The command, an option, or an argument does not exist, is missing, or has an invalid value, two options
    exclude each other, or a command that deletes or overrides needs a confirmation. `--help` after the
    command lists what it accepts.
    """

    code = "TS901"
    title = "Invalid command line"


class UnknownNameError(UsageError):
    """There is no environment, template, model, endpoint, gate, or other item of the given name. The help
    suggests a similar name or lists the known ones.
    """

    code = "TS903"
    title = "Unknown name"


class CommandInterruptedError(TritonstackError):
    """The command was stopped by Ctrl-C or a signal. The help says what continues in AWS and
    how to resume.
    """

    code = "TS906"
    title = "Interrupted"


class NotApplicableError(UsageError):
    """The command cannot be used with this endpoint, environment, pipeline, or repository, for example
    `targets` with an endpoint of one model, or the form of a file prevents its edit. The help names what to
    do instead.
    """

    code = "TS908"
    title = "Command does not apply"


class NameInUseError(UsageError):
    """`tritonstack init` writes only into a new or empty folder, and `tritonstack new` replaces no model,
    endpoint, or environment. Choose another name, or edit the existing file.
    """

    code = "TS909"
    title = "Already exists"
