"""The kernels that a GPU would launch, executed on an NVIDIA GPU: docs/gpu.md."""
