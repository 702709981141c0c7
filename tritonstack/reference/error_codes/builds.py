"""TS3xx: model builds."""

from __future__ import annotations

from collections.abc import Mapping

from tritonstack.reference.error_codes.kinds import Kind

BUILDS: Mapping[str, Kind] = {
    "TS301": Kind(
        "Model source not available",
        "The source of the model does not exist, is gated or private, or cannot be reached. Check the URL "
        "in `source`, the credentials, and the network.",
    ),
    "TS302": Kind(
        "Source files missing or invalid",
        "The source lacks a file that the recipe needs, or one of its files is damaged or has a name that "
        "is not allowed. Download or copy the model again, and check `recipe.file`.",
    ),
    "TS303": Kind(
        "Source changed",
        "A file has another checksum than expected, or changed during the build. Fetch it again, and "
        "build when nothing writes there.",
    ),
    "TS304": Kind(
        "model.yaml contradicts the source",
        "A field of `model.yaml` differs from what the files of the model state. Remove the field to use "
        "the model's own value, or state the reason under `overrides`.",
    ),
    "TS305": Kind(
        "Model cannot be exported",
        "The framework cannot load the model or export its graph. Check that the configuration, the "
        "tokenizer, and the weights belong together; the message quotes the library.",
    ),
    "TS306": Kind(
        "ONNX graph not supported",
        "The ONNX file is invalid, or uses operators, types, or versions that Triton's ONNX Runtime or "
        "the recipe does not support. Export it again as the message says.",
    ),
    "TS307": Kind(
        "TorchScript module not supported",
        "PyTorch cannot load or run the module, or its inputs or outputs are not tensors. Wrap it in a "
        "module that takes and returns tensors.",
    ),
    "TS308": Kind(
        "Tree model not supported",
        "The file is not a tree model that the FIL backend can serve, or it does not match the recipe. "
        "Save it again with its library's own function.",
    ),
    "TS309": Kind(
        "Model code failed",
        "Python code of the model cannot be imported, is incomplete, or raised an exception. Correct the "
        "code at the place in the message.",
    ),
    "TS310": Kind(
        "TensorRT cannot build the engine",
        "TensorRT failed, or the graph or its profiles do not fit the TensorRT version. Change "
        "`tensorrt.profiles`, choose another Triton release, or use `format: onnx`.",
    ),
    "TS311": Kind(
        "Build machine does not fit the target",
        "The machine has no GPU, another GPU, another TensorRT, or an older driver than the build needs. "
        "Build in AWS, or in the image of the Triton release.",
    ),
    "TS312": Kind(
        "Answers differ from the framework",
        "The exported model gives other answers than the original framework, beyond the tolerance. Use a "
        "higher precision, or widen `accept` if the difference is acceptable.",
    ),
    "TS313": Kind(
        "Answers depend on the size or batch",
        "The graph gives wrong answers at sizes or batches that the test inputs do not have, usually "
        "because a size became a constant during export. Compute sizes with tensor operations, or declare "
        "them fixed.",
    ),
    "TS314": Kind(
        "Test input does not match the model",
        "A test input lacks a tensor, has an unknown one, has another shape or type than the model takes, "
        "or has no expected answer.",
    ),
    "TS315": Kind(
        "Declaration contradicts the model",
        "A tensor, batch size, or Triton option in `model.yaml` contradicts the model that was built. "
        "Correct or remove the declaration.",
    ),
    "TS316": Kind(
        "Invalid config.pbtxt",
        "The file named by `triton.config`, or in a repository that `tritonstack doctor` checks, is not a "
        "valid Triton model configuration. The line is that of the protobuf parser.",
    ),
    "TS317": Kind(
        "config.pbtxt contradicts the model",
        "A field of your `config.pbtxt` differs from the model, its folder, or `model.yaml`. Remove the "
        "field, or make both equal.",
    ),
    "TS318": Kind(
        "Python packages cannot be packed",
        "The packages of a Python model cannot be resolved, downloaded, or packed, or the given "
        "environment archive is not usable. Choose versions with Linux x86-64 wheels for the server's "
        "Python. If the message says that the package index is unreachable, check the network and pip's "
        "settings.",
    ),
    "TS319": Kind(
        "Artifact cannot be served",
        "Triton did not load the packed artifact, did not answer, or the repository breaks a rule of "
        "SageMaker. Read the end of the server's log in the message.",
    ),
    "TS320": Kind(
        "Library raised an exception",
        "A library, or code of the model, raised an exception that tritonstack does not know. The message "
        "quotes it; the build log has the traceback.",
    ),
    "TS321": Kind(
        "Disk or memory too small",
        "The build needs more disk space or memory than is available, or the system killed it. Free "
        "space, build fewer models at once, or use a larger machine.",
    ),
    "TS322": Kind(
        "Build failed",
        "One or more builds failed. The message has a part per build, each with its own code, and the "
        "path of the log.",
    ),
    "TS323": Kind(
        "Build job failed",
        "A build job in AWS could not be started, ended with an error, was stopped, or exceeds a quota. "
        "The message names its log; `tritonstack quotas` lists the quotas.",
    ),
    "TS324": Kind(
        "Build infrastructure not deployed",
        "The stack that builds models in AWS is missing, incomplete, or older than the environment's "
        "file. Deploy it again, or build with `--local`.",
    ),
    "TS325": Kind(
        "Custom image cannot be built",
        "Docker could not build or push the image of an endpoint, or the image is gone. Correct the "
        "Dockerfile, and check that the base image can be pulled.",
    ),
    "TS326": Kind(
        "Repository layout not accepted by SageMaker",
        "The archive or folder does not have the layout <model>/config.pbtxt and <model>/<version>/<files> "
        "at its top level, or has links or unsafe names. Move or remove what the message names.",
    ),
    "TS327": Kind(
        "File of a Triton model is missing",
        "A version folder lacks the model's file, or `config.pbtxt` names a file or version that the "
        "repository lacks. Add the file, or correct the name.",
    ),
    "TS328": Kind(
        "config.pbtxt rejected by Triton",
        "The configuration has valid syntax, but Triton rejects its values when it loads the model. "
        "Correct the field.",
    ),
    "TS329": Kind(
        "Ensemble rejected by Triton",
        "The steps of an ensemble in `config.pbtxt` do not fit together: a part or tensor is missing or "
        "unused, types or sizes differ, or steps wait for each other. Correct the mappings.",
    ),
    "TS330": Kind(
        "Python model cannot start",
        "The code of a Python model, or the execution environment that it names, does not fit Triton's "
        "image. Correct the code, or pack the environment again for the release.",
    ),
    "TS331": Kind(
        "Model does not fit the endpoint",
        "The hosting mode, the image, or the instance type does not support the model, or it is not "
        "certain which model it loads. The help says what to change in the repository or the endpoint.",
    ),
    "TS332": Kind(
        "Model setting with a surprising effect",
        "The model loads, but a setting or file has an effect that people rarely expect, such as idle "
        "instances or code that runs from a pickle. Change it, or ignore the warning.",
    ),
    "TS333": Kind(
        "File does not belong in a model archive",
        "A tool or an operating system left a file or folder. At the top level, folders count as models. "
        "Pack without them.",
    ),
    "TS340": Kind(
        "Nothing to import",
        "`tritonstack import` found no Triton model, Merlin export, or MLflow model, or several models that "
        "serve by themselves. Name the folder or archive of one model, or choose one with `--model`.",
    ),
    "TS341": Kind(
        "Merlin export cannot become an ensemble",
        "The executor of a Merlin Systems export does something that Triton's ensembles cannot: it casts "
        "types, converts ragged columns, packs features for a forest, or runs an operator without a folder. "
        "Change the export, or write the logic as a Python model.",
    ),
    "TS342": Kind(
        "MLflow model cannot be imported",
        "No recipe serves the flavors in `MLmodel`, or the file or one that it names is missing or damaged. "
        "The help says how to save the model in a format that can be served.",
    ),
    "TS343": Kind(
        "config.pbtxt differs from the model's file",
        "The tensors in `config.pbtxt` are not those of the ONNX graph or the trees: another name, type, or "
        "size. Triton would reject the model when it loads it, or the answers would be wrong.",
    ),
    "TS344": Kind(
        "Triton repository differs from model.yaml",
        "A model with the recipe `triton` has another entry model or layout than `model.yaml` says, or its "
        "`config.pbtxt` declares no tensors. Correct one of the two.",
    ),
    "TS345": Kind(
        "Step of a Merlin export needs packages",
        "A Python model of the export imports libraries that SageMaker's Triton images lack. Pack them into "
        "an execution environment, or serve from an image of your own.",
    ),
    "TS350": Kind(
        "Language model not supported on CPUs",
        "The recipe `text-generation` or `text-to-text` does not support the architecture, or "
        "`generation_config.json` has a setting that the served model lacks. Change the setting, or use "
        "another recipe.",
    ),
    "TS351": Kind(
        "Text longer than the language model allows",
        "`max_length` of the recipe exceeds the positions of the model, or a test text leaves no room for a "
        "completion. Correct the number, or shorten the text.",
    ),
    "TS352": Kind(
        "Completions differ from the framework's",
        "The exported or served model chooses other tokens than transformers' `generate` with greedy "
        "decoding. Use texts whose next tokens the model is sure of, or another recipe.",
    ),
    "TS355": Kind(
        "Called model is not declared",
        "The code of a Python model calls another model that `recipe.calls` does not list, so it would not "
        "be in the artifact. Add it, or correct the name.",
    ),
    "TS356": Kind(
        "Model with calls inside another model",
        "A model that calls other models cannot be a step of an ensemble, and cannot be called itself. "
        "Call all models from one model, or deploy it on its own endpoint.",
    ),
    "TS357": Kind(
        "Model cannot be served on this machine",
        "`tritonstack dev` and `tritonstack tune` serve on the CPU of this machine, and the model runs on "
        "GPUs only. Build it for an endpoint with a GPU.",
    ),
    "TS358": Kind(
        "New version fails for a test input",
        "`tritonstack dev` built and started a changed model, but a test input got an error. The former "
        "version keeps serving. Correct the model.",
    ),
    "TS367": Kind(
        "scikit-learn model not supported",
        "The file is not a scikit-learn model of this version, or has a part that skl2onnx cannot convert to "
        "ONNX. Replace that part, or use a recipe of kind `trees` or `python`.",
    ),
    "TS368": Kind(
        "Graph does not match its tokenizer or image processor",
        "A graph with `input: text` takes other tensors than a tokenizer returns, or one with "
        "`input: image` takes other pixels than the image processor returns. Export the graph again, or use "
        "`input: tensors`.",
    ),
    "TS369": Kind(
        "SentencePiece vocabulary cannot be converted",
        "The source has no tokenizer.json, and the tokenizer that transformers makes from its SentencePiece "
        "file splits texts differently. Add a tokenizer.json.",
    ),
    "TS370": Kind(
        "Image model without comparable vectors",
        "The recipe `image-embedding` supports CLIP models, whose texts and images are comparable. "
        "Choose one, or use the recipe `onnx` with `input: image`.",
    ),
    "TS375": Kind(
        "Decoupled model does not end its responses",
        "A decoupled Python model sends the final flag without a response, an error after its first "
        "response, or no final flag, so that callers wait until SageMaker's time limit. Send at least one "
        "response, then the flag TRITONSERVER_RESPONSE_COMPLETE_FINAL, for every request.",
    ),
    "TS376": Kind(
        "Inputs of a decoupled model have ambiguous shapes",
        "SageMaker's front end takes requests to decoupled models as JSON with flat lists. Triton restores "
        "the shapes from `config.pbtxt`, so only the last variable size of an input can differ from 1. Set "
        "fixed sizes with `tensors`.",
    ),
    "TS380": Kind(
        "no SHAP values",
        "`shap: true` of the recipe trees: FIL computes no SHAP values of this model, or other ones than the "
        "library. It needs a model of XGBoost or LightGBM with training rows in every node, at most 31 "
        "levels, and one tree per class and round. Train the model so, or remove `shap`.",
    ),
}
