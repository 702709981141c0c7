"""Multi-model endpoints: many models behind one server, loaded as memory allows.

A model is at one of three levels: an archive below the endpoint's S3 prefix; downloaded, unpacked on the
instance's volume; and loaded into the server. A request takes its model to the last. Where room is lacking,
it is taken from the model that was used least recently and that no request uses: memory, by unloading one
that stays on the volume; the volume, by deleting one that is not loaded.
"""

from tritonstack_local.sagemaker.multi_model.container import LoadRefusedError, MultiModelServer
from tritonstack_local.sagemaker.multi_model.downloads import DownloadFolders
from tritonstack_local.sagemaker.multi_model.hosted import HostedModels
from tritonstack_local.sagemaker.multi_model.limits import Limits, volume_bytes
from tritonstack_local.sagemaker.multi_model.measures import Measures
from tritonstack_local.sagemaker.multi_model.model_host import ModelHost

__all__ = [
    "DownloadFolders",
    "HostedModels",
    "Limits",
    "LoadRefusedError",
    "Measures",
    "ModelHost",
    "MultiModelServer",
    "volume_bytes",
]
