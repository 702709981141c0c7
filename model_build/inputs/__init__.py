"""`test_inputs` of model.yaml as arrays, and what it says of tensors beyond what a model tells itself."""
