"""Whole models, beside torch, torch.compile, ONNX Runtime and OpenVINO."""
