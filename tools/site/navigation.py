"""The navigation of the site: every page of docs/ once, by what a reader wants. tests/docs/test_site.py holds it complete."""

from __future__ import annotations

NAVIGATION: dict[str, tuple[str, ...]] = {
    "Start": ("Install and run <README>", "docs/porting", "docs/environment", "examples/README", "docs/debugging"),
    "Use": (
        "docs/compile",
        "docs/export",
        "examples/aoti/README",
        "docs/onednn",
        "docs/onemkl",
        "docs/ipex",
        "docs/vllm",
        "docs/distributed",
        "docs/torchvision",
        "docs/ecosystem",
        "docs/custom-kernels",
        "examples/own_operator",
        "docs/triton",
    ),
    "Test and measure": (
        "docs/testing",
        "docs/performance",
        "docs/many-cores",
        "docs/models",
        "docs/profiling",
        "docs/coverage",
        "docs/scorecard",
        "docs/accuracy",
        "docs/reliability",
        "docs/bringup",
        "A GPU's kernels on an NVIDIA GPU <docs/gpu>",
    ),
    "Understand the code": (
        "docs/architecture",
        "docs/families",
        "docs/threads",
        "docs/compilers",
        "docs/upstream",
        "docs/cpu-device",
        "docs/glossary",
    ),
    "Change the code": (
        "CONTRIBUTING",
        "docs/adding-an-op",
        "docs/releasing",
        "docs/notes/index",
        "CHANGELOG",
        "SECURITY",
    ),
}
# Pages that the ones above name, in no list of their own.
UNLISTED = ("docs/index", "docs/home")
