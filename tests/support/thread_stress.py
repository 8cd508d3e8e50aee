"""Threads that compute at once, each on tensors of its own, against results computed before they began.

A program, for settings that a process reads at its start: python tests/support/thread_stress.py --seconds 5
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import itertools
import random
import sys
import threading
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

DEVICE = "xpu"
THREADS = (2, 4, 8)
STREAMS = ("default", "own", "random")
SHARED_STREAMS = 3  # that threads take in turn at random
SWITCH_S = 1e-5  # how often Python changes threads: by default it hides what happens between two calls
GRACE_S = 120  # over the time asked for before a hang is reported
PRODUCTS = 1e-5  # relative tolerance where oneDNN may add in another order

Compute = Callable[[], list[torch.Tensor]]
Case = Callable[[torch.Generator], Compute]


def numbers(g: torch.Generator, *sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=g).to(DEVICE)


def places(g: torch.Generator, bound: int, *sizes: int) -> torch.Tensor:
    return torch.randint(0, bound, sizes, generator=g).to(DEVICE)


def issue(g: torch.Generator) -> Compute:
    """Small results whose memory comes and goes between the threads, and counts that are waited for."""
    a, i, t = numbers(g, 40, 30), places(g, 40, 25), places(g, 30, 40)
    return lambda: [
        a.index_select(0, i),
        a[a > 0],
        F.embedding(i, a),
        torch.cat([a, a * 2]).sort(0)[0],
        F.cross_entropy(a, t),
        torch.zeros(40, 30, device=DEVICE).index_add_(0, i, a[:25]),
    ]


def pointwise(g: torch.Generator) -> Compute:
    a, b = numbers(g, 40, 30), numbers(g, 40, 30)
    return lambda: [
        a * b + 1,
        (a.t() * 2).relu(),
        a[:, ::2] - b[:, 1::2],
        a.half().float(),
        torch.where(a > b, a, b),
        a.clone().mul_(b).sigmoid_(),
        a.exp() + b[0],
        torch.full((40, 30), 3.0, device=DEVICE).add_(a, alpha=2),
    ]


def reductions(g: torch.Generator) -> Compute:
    a = numbers(g, 40, 30)
    return lambda: [a.sum(), a.mean(1), a.amax(0), a.argmax(1), a.std(), a.norm(), (a > 0).any(0)]


def indexing(g: torch.Generator) -> Compute:
    a, i, j = numbers(g, 40, 30), places(g, 40, 40, 30), places(g, 40, 25)
    return lambda: [
        a.gather(0, i),
        torch.zeros_like(a).scatter_add_(0, i, a),
        a.clone().index_put_((j,), a[:25], accumulate=True),
        a.clone().index_fill_(0, j, 1.0),
        (a > 0.5).nonzero(),
        a.masked_select(a < 0),
        a.clone().masked_fill_(a > 1, 0.0),
        a.take(i),
    ]


def sorting(g: torch.Generator) -> Compute:
    a, i = numbers(g, 40, 30), places(g, 50, 300)
    return lambda: [*a.sort(1), *a.topk(5), i.unique(), *torch.unique(i, return_counts=True), a.argsort(0)]


def copies(g: torch.Generator) -> Compute:
    a, host = numbers(g, 40, 30), torch.randn((40, 30), generator=g)
    return lambda: [
        a.t().contiguous(),
        torch.stack([a, a], 1),
        a.double().long(),
        host.to(DEVICE) + a,
        torch.cat([a, a.flip(0)]),
        torch.tensor(a.tolist()),
        torch.tensor(a.sum().item()),
    ]


def large(g: torch.Generator) -> Compute:
    """Beyond what runs on the calling thread: kernels that still run while others allocate."""
    a = numbers(g, 400, 400)
    return lambda: [a * 2 + 1, a.sum(0), (a + a.t()).relu_()[0], a.cumsum(0)[-1], a[a[:, 0] > 0].sum(1)]


def products(g: torch.Generator) -> Compute:
    a, w, bias = numbers(g, 40, 30), numbers(g, 20, 30), numbers(g, 20)
    x, k = numbers(g, 2, 4, 12, 12), numbers(g, 8, 4, 3, 3)
    return lambda: [a @ w.t(), F.linear(a, w, bias), F.conv2d(x, k, padding=1), torch.bmm(x[0], x[1])]


def layers(g: torch.Generator) -> Compute:
    a, x, i = numbers(g, 40, 30), numbers(g, 2, 4, 12, 12), places(g, 30, 40)
    return lambda: [
        a.softmax(1),
        F.layer_norm(a, (30,)),
        F.batch_norm(x, None, None, training=True),
        F.max_pool2d(x, 2),
        F.interpolate(x, scale_factor=2.0, mode="bilinear"),
        F.nll_loss(a.log_softmax(1), i),
        F.mse_loss(a, a * 2),
    ]


def training(g: torch.Generator) -> Compute:
    """A few steps of a small model."""
    x, t = numbers(g, 16, 30), places(g, 10, 16)
    start = [numbers(g, 20, 30) / 8, numbers(g, 20) / 8, numbers(g, 10, 20) / 8]

    def steps() -> list[torch.Tensor]:
        w, b, v = params = [p.clone().requires_grad_() for p in start]
        optimizer = torch.optim.Adam(params, lr=0.01)
        for _ in range(2):
            optimizer.zero_grad()
            F.cross_entropy(F.linear(F.gelu(F.linear(x, w, b)), v), t).backward()
            optimizer.step()
        return [p.detach() for p in params]

    return steps


def gradients(g: torch.Generator) -> Compute:
    """Backward of the families that have kernels of their own for it."""
    a, x, k, i = numbers(g, 40, 30), numbers(g, 2, 4, 12, 12), numbers(g, 8, 4, 3, 3), places(g, 40, 25)

    def backward() -> list[torch.Tensor]:
        p, y, w = a.clone().requires_grad_(), x.clone().requires_grad_(), k.clone().requires_grad_()
        (F.embedding(i, p).sum() + p[p > 0].square().sum() + F.layer_norm(p, (30,)).softmax(1)[0].sum()).backward()
        q = p.detach()[None, None, :16, :16].requires_grad_()
        (F.max_pool2d(F.conv2d(y, w), 2).sum() + F.scaled_dot_product_attention(q, q, q).sum()).backward()
        grads = [t.grad for t in (p, y, w, q)]
        return [t for t in grads if t is not None]

    return backward


def attention(g: torch.Generator) -> Compute:
    """A kernel between two primitives of oneDNN, which are work of the host on the CPU device."""
    q, k, v = (numbers(g, 1, 1, 16, 16) for _ in range(3))
    return lambda: [F.scaled_dot_product_attention(q, k, v)]


EXACT: list[Case] = [issue, pointwise, reductions, indexing, sorting, copies, large]
CLOSE: list[Case] = [products, layers, training, gradients, attention]
CASES = EXACT + CLOSE


def differs(case: Case, found: torch.Tensor, want: torch.Tensor) -> bool:
    if case in EXACT:
        return not torch.equal(found, want)
    return found.shape != want.shape or not torch.allclose(found, want, rtol=PRODUCTS, atol=PRODUCTS)


class Work:
    """The cases of one thread with their results."""

    def __init__(self, seed: int, cases: list[Case]) -> None:
        self.cases: list[tuple[Case, Compute, list[torch.Tensor]]] = []
        for number, case in enumerate(cases):
            compute = case(torch.Generator().manual_seed(1000 * seed + number))
            self.cases.append((case, compute, [r.cpu() for r in compute()]))

    def once(self, errors: collections.Counter[str]) -> None:
        for case, compute, want in self.cases:
            try:
                for position, (found, expected) in enumerate(zip(compute(), want, strict=True)):
                    if differs(case, found.cpu(), expected):
                        errors[f"{case.__name__}: result {position} is wrong"] += 1
            except Exception as e:
                errors[f"{case.__name__}: {type(e).__name__}: {str(e)[:120]}"] += 1


def stress(works: list[Work], streams: str, seconds: float) -> tuple[int, collections.Counter[str]]:
    """Run each work in a thread of its own for so long. Returns the number of rounds, and what went wrong how often."""
    torch.xpu.synchronize()
    errors: collections.Counter[str] = collections.Counter()
    rounds = [0] * len(works)
    shared = [torch.xpu.Stream() for _ in range(SHARED_STREAMS)]
    start = threading.Barrier(len(works))
    end = time.monotonic() + seconds

    def run(number: int) -> None:
        draw = random.Random(number)
        own = torch.xpu.Stream()
        start.wait()
        while rounds[number] == 0 or time.monotonic() < end:
            stream = {"default": None, "own": own, "random": draw.choice(shared)}[streams]
            with torch.xpu.stream(stream) if stream else contextlib.nullcontext():
                works[number].once(errors)
            rounds[number] += 1

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
    torch.xpu.synchronize()
    return sum(rounds), errors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of all combinations together")
    parser.add_argument("--threads", type=int, nargs="*", default=list(THREADS))
    parser.add_argument("--streams", nargs="*", choices=STREAMS, default=list(STREAMS))
    parser.add_argument("--cases", nargs="*", choices=[c.__name__ for c in CASES], default=[c.__name__ for c in CASES])
    args = parser.parse_args()
    faulthandler.dump_traceback_later(args.seconds + GRACE_S, exit=True)
    works = [Work(seed, [c for c in CASES if c.__name__ in args.cases]) for seed in range(max(args.threads))]
    combinations = list(itertools.product(args.threads, args.streams))
    failed = False
    for count, streams in combinations:
        rounds, errors = stress(works[:count], streams, args.seconds / len(combinations))
        print(f"{count} threads, {streams} stream: {rounds} rounds", *errors.most_common(20), sep="\n  ", flush=True)
        failed |= bool(errors)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
