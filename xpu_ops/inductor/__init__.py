"""torch.compile for xpu on a stock torch: Inductor writes SYCL kernels, xpu_ops.jit compiles them.

Nothing is to be imported or called: xpu_ops/upstream/inductor.py registers the backend once torch._inductor is imported.
"""
