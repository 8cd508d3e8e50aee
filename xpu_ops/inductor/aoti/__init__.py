"""Models compiled ahead of time: packages of torch._inductor.aoti_compile_and_package that run without Python.

Inductor writes C++ around the kernels (wrapper.py), the package keeps their code (package.py), g++ builds the library
(xpu_ops/upstream/inductor_export.py). bindings/aoti has what a package needs where it runs.
"""
