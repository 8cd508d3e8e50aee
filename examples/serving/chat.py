"""Serves a model on xpu by `transformers serve` with continuous batching, and talks to it: one stream, then 16 clients at once.

Needs `pip install transformers[serving]`. The model is a tiny random Llama that is written first; give the folder of another
as the argument. The key-value cache takes 0.6 of the memory that is free; XPU_OPS_CPU_MEMORY, in bytes, bounds it.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

CLIENTS, TOKENS = 16, 16


def write_model(folder: Path) -> None:
    """A Llama of random weights whose tokens are bytes."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<pad>": 0, "<s>": 1, "</s>": 2} | {c: i + 3 for i, c in enumerate(alphabet)}
    bytes_only = Tokenizer(models.BPE(vocabulary, []))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bytes_only, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=0,
        initializer_range=0.3,  # answers that differ
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    model.generation_config.do_sample = False
    model.save_pretrained(folder)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


class Server:
    """`transformers serve` as a process of its own."""

    main = "transformers.cli.transformers"
    options = ("--device", "xpu", "--continuous-batching")

    def __init__(self, model: str) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self.model = model
        code = f"import sys; from {self.main} import main; sys.exit(main())"
        options = [*self.options, "--host", "127.0.0.1", "--port", str(port)]
        self.process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", code, "serve", model, *options])

    def wait(self, seconds: float = 300) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}")
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=5).close()
                return
            except OSError:
                time.sleep(0.2)
        raise TimeoutError("the server does not answer")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def stream(self, prompt: str) -> Iterator[str]:
        """The pieces of the answer as they come, in the form of OpenAI's API."""
        body: dict[str, Any] = {
            "model": self.model, "stream": True, "max_tokens": TOKENS, "temperature": 0.0,
            "messages": [{"role": "user", "content": prompt}],
        }  # fmt: skip
        request = urllib.request.Request(
            f"{self.url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            for line in answer:
                text = line.decode().strip()
                if text.startswith("data: ") and text != "data: [DONE]":
                    for choice in json.loads(text[6:]).get("choices", []):
                        if piece := choice["delta"].get("content"):
                            yield piece


def timed(server: Server, prompt: str) -> tuple[str, float, float]:
    """The answer, seconds to its first piece, and seconds in all."""
    begin, first, pieces = time.perf_counter(), 0.0, []
    for piece in server.stream(prompt):
        first = first or time.perf_counter() - begin
        pieces.append(piece)
    return "".join(pieces), first, time.perf_counter() - begin


def main(model: str, kind: type[Server] = Server) -> None:
    server = kind(model)
    try:
        server.wait()
        prompts = ["Tell me more. " * (i % 3) + f"What comes after {i}?" for i in range(CLIENTS)]
        alone = [timed(server, p) for p in prompts]
        print(f"one at a time: {CLIENTS / sum(t for _, _, t in alone):.1f} answers per second")
        begin = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as pool:
            together = list(pool.map(lambda p: timed(server, p), prompts))
        seconds = time.perf_counter() - begin
        first = sorted(f for _, f, _ in together)[CLIENTS // 2]
        print(
            f"{CLIENTS} at once: {CLIENTS / seconds:.1f} answers per second, {first * 1e3:.0f} ms to the first piece (median)"
        )
        same = sum(a[0] == b[0] and bool(a[0]) for a, b in zip(alone, together, strict=True))
        print(f"the same answers alone and together: {same} of {CLIENTS}")
    finally:
        server.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as made:
            write_model(Path(made))
            main(made)
