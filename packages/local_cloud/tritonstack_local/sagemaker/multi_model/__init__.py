"""Multi-model endpoints: many models behind one server, loaded as memory allows.

A model has three levels: an archive below the endpoint's S3 prefix; downloaded and unpacked on the instance's
volume; loaded into the server. A request loads its model. If memory or disk is short, the least recently used
idle model makes room: it is unloaded to free memory, or deleted from the volume if it is not loaded.
"""

from tritonstack_local.sagemaker.multi_model.container import LoadRejectedError
from tritonstack_local.sagemaker.multi_model.downloads import Downloads
from tritonstack_local.sagemaker.multi_model.hosted import HostedModels

__all__ = ["Downloads", "HostedModels", "LoadRejectedError"]
