"""Runs on the machine with the NVIDIA GPU: Python, torch with CUDA, the driver, ptxas. No xpu_ops."""
