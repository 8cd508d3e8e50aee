"""python -m tools.processor COMMAND...: runs a program as on a processor with AVX2 and without AVX-512.

    python -m tools.processor python -m xpu_ops.bench --level sample

Four libraries choose their code for themselves, each by a variable of its own: the OpenCL runtime (which the loops of the calling
thread follow), ATen, oneDNN (torch's and ours) and MKL. A comparison is fair where all of them are limited alike. Says first what each of
them takes itself for, and exits with 1 where one is not limited. MKL tells on processors of Intel alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

VARIABLES = {
    "CL_CONFIG_CPU_TARGET_ARCH": "core-avx2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}
# Attention has tiles of its own for sixteen registers, so its kernel's name tells what the device's plans are for.
PROBE = """
import torch, torch.nn.functional as F
a, x = torch.rand(64, 64), torch.rand(512, 512, device="xpu")
F.conv2d(torch.rand(2, 8, 16, 16), torch.rand(8, 8, 3, 3))
torch.linalg.cholesky_ex(a @ a)
torch.linalg.cholesky_ex(x @ x)
q = torch.rand(1, 2, 256, 64, device="xpu")
with torch.profiler.profile() as profile:
    F.scaled_dot_product_attention(q, q, q)
    torch.xpu.synchronize()
names = [e.name for e in profile.events() if e.name.startswith("attention_block")]
print("ATen", torch.backends.cpu.get_cpu_capability())
print("device code", "AVX2" if names and all("narrow" in n for n in names) else f"more: {names}")
"""


def told(output: str) -> dict[str, str]:
    """The processor that each library takes this one for, in its own words."""
    found = dict(re.findall(r"^(ATen|device code) (.*)$", output, re.M))
    for number, isa in enumerate(re.findall(r"onednn_verbose,.*info,cpu,isa:(.*)$", output, re.M)):
        found[f"oneDNN {number + 1}"] = isa.strip()
    for number, what in enumerate(re.findall(r"^MKL_VERBOSE .*architecture (.*) processors", output, re.M)):
        found[f"MKL {number + 1}"] = what.removesuffix(" enabled")
    return found


def limited(library: str, told: str) -> bool:
    unknown = library.startswith("MKL") and "AVX" not in told and "Advanced" not in told
    return unknown or ("AVX2" in told and "512" not in told)


def main() -> int:
    if not sys.argv[1:]:
        sys.exit(__doc__)
    env = {**os.environ, **VARIABLES}
    verbose = {**env, "ONEDNN_VERBOSE": "1", "MKL_VERBOSE": "1"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROBE], env=verbose, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    libraries = told(done.stdout)
    for library, what in libraries.items():
        print(f"{library}: {what}{'' if limited(library, what) else ' (not limited)'}", file=sys.stderr, flush=True)
    if not all(limited(*item) for item in libraries.items()):
        return 1
    return subprocess.run(sys.argv[1:], env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
