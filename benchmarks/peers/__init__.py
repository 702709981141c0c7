"""Servers that the benchmarks compare with: FastAPI with PyTorch, ONNX Runtime, or XGBoost."""
