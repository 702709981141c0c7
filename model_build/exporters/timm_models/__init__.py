"""Models of timm (PyTorch Image Models), in the layout of the Hub: config.json and model.safetensors."""
