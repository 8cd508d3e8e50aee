"""The cases of `make gpu-bench`: calls that are planned here and executed on the GPU, against torch CUDA's operator.

A case is an expression over its inputs; `o` is written in place. `moved` is the memory traffic that it cannot avoid: its
inputs read once and its results written once, where nothing else is said.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

M = 1 << 20
BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "uint8": 1, "bool": 1}
# The most that a case may take of torch CUDA's time, by group: the goals of the project's GPU plans.
GOALS = {
    "elementwise": 1.2, "copy": 1.2, "cast": 1.2, "reduction": 1.5, "scan": 1.5, "softmax": 1.5, "norm": 1.5, "loss": 1.5,
    "index": 2.0, "sort": 3.0, "pooling": 1.5, "other": 1.5,
}  # fmt: skip


@dataclass(frozen=True)
class Input:
    """Shape, element type and how it is filled: normal, uniform, zeros, index:N (random below N), mix:N (the same numbers
    below N on every device), ramp (rising)."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    fill: str = "normal"

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * BYTES[self.dtype]


@dataclass(frozen=True)
class BenchCase:
    """One call. `executed`: the host reads results back, so the plan is made by running the call on equal data."""

    group: str
    name: str
    inputs: dict[str, Input]
    expr: str
    moved: int
    check: str = "close"  # close: values; sorted: any order; none: random numbers
    executed: bool = False


@dataclass
class Table:
    cases: list[BenchCase] = field(default_factory=list)

    def add(
        self, group: str, name: str, expr: str, moved: int = 0, written: int = 0, check: str = "close",
        executed: bool = False, **inputs: Input,
    ) -> None:  # fmt: skip
        """`written`: bytes of results where `moved`, all traffic, is not given."""
        total = moved or sum(i.bytes for i in inputs.values()) + written
        self.cases.append(BenchCase(group, name, inputs, expr, total, check, executed))


def f32(*shape: int, fill: str = "normal") -> Input:
    return Input(shape, "float32", fill)


def bf16(*shape: int, fill: str = "normal") -> Input:
    return Input(shape, "bfloat16", fill)


def f16(*shape: int, fill: str = "normal") -> Input:
    return Input(shape, "float16", fill)


def i64(*shape: int, fill: str) -> Input:
    return Input(shape, "int64", fill)


HALF_GIB = 512 * M  # bytes of 128 M float32


def elementwise(t: Table) -> None:
    n, rows = 128 * M, (65536, 2048)
    t.add("elementwise", "add f32 128M", "a + b", written=HALF_GIB, a=f32(n), b=f32(n))
    t.add("elementwise", "add bf16 256M", "a + b", written=HALF_GIB, a=bf16(2 * n), b=bf16(2 * n))
    t.add("elementwise", "mul f16 256M", "a * b", written=HALF_GIB, a=f16(2 * n), b=f16(2 * n))
    t.add("elementwise", "add f32 rows + bias", "a + b", written=HALF_GIB, a=f32(*rows), b=f32(2048))
    t.add("elementwise", "mul f32 rows * column", "a * b", written=HALF_GIB, a=f32(*rows), b=f32(65536, 1))
    t.add("elementwise", "add_ f32 128M in place", "o.add_(b)", moved=3 * HALF_GIB, o=f32(n), b=f32(n))
    t.add("elementwise", "exp f32 128M", "torch.exp(a)", written=HALF_GIB, a=f32(n))
    t.add("elementwise", "sin f32 128M", "torch.sin(a)", written=HALF_GIB, a=f32(n))
    t.add("elementwise", "gelu f32 128M", "F.gelu(a)", written=HALF_GIB, a=f32(n))
    t.add("elementwise", "silu bf16 256M", "F.silu(a)", written=HALF_GIB, a=bf16(2 * n))
    t.add("elementwise", "relu f16 256M", "torch.relu(a)", written=HALF_GIB, a=f16(2 * n))
    t.add(
        "elementwise", "gelu backward bf16 128M", "A.gelu_backward(a, b)", written=HALF_GIB // 2, a=bf16(n), b=bf16(n)
    )
    t.add("elementwise", "addcmul f32 64M", "torch.addcmul(a, b, c, value=0.5)", written=HALF_GIB // 2,
          a=f32(n // 2), b=f32(n // 2), c=f32(n // 2))  # fmt: skip
    t.add(
        "elementwise",
        "where f32 64M",
        "torch.where(a > 0, a, b)",
        moved=5 * HALF_GIB // 2,
        a=f32(n // 2),
        b=f32(n // 2),
    )
    t.add("elementwise", "lt f32 128M", "a < b", written=n, a=f32(n), b=f32(n))
    t.add("elementwise", "masked_fill f32 128M", "a.masked_fill(m, 0.5)", written=HALF_GIB,
          a=f32(n), m=Input((n,), "bool", "mix:2"))  # fmt: skip
    lists = {f"{side}{i}": f32(1024, 1024) for side in "pg" for i in range(32)}
    first, second = (", ".join(f"{side}{i}" for i in range(32)) for side in "pg")
    t.cases.append(
        BenchCase(
            "elementwise", "foreach add 32 x 1M", lists, f"torch._foreach_add([{first}], [{second}])", 3 * 32 * 4 * M
        )
    )


def copies(t: Table) -> None:
    image = (64, 256, 56, 56)
    bytes_image = 4 * math.prod(image)
    t.add("copy", "transposed f32 8192x16384", "a.t().contiguous()", written=HALF_GIB, a=f32(8192, 16384))
    t.add("copy", "transposed bf16 16384x16384", "a.t().contiguous()", written=HALF_GIB, a=bf16(16384, 16384))
    t.add("copy", "NCHW to NHWC f32", "a.permute(0, 2, 3, 1).contiguous()", written=bytes_image, a=f32(*image))
    t.add("copy", "NHWC to NCHW f32", "a.permute(0, 3, 1, 2).contiguous()", written=bytes_image, a=f32(64, 56, 56, 256))
    t.add("copy", "attention heads bf16", "a.transpose(1, 2).contiguous()", written=HALF_GIB, a=bf16(64, 2048, 32, 64))
    t.add("copy", "columns f32 65536x2048", "a[:, 512:1536].contiguous()", moved=HALF_GIB, a=f32(65536, 2048))
    t.add("copy", "cat f32 2 x 64M", "torch.cat([a, b])", written=HALF_GIB, a=f32(64 * M), b=f32(64 * M))
    t.add("copy", "cat f32 columns", "torch.cat([a, b], 1)", written=HALF_GIB, a=f32(65536, 1024), b=f32(65536, 1024))
    t.add("copy", "flip f32 65536x2048", "a.flip(1)", written=HALF_GIB, a=f32(65536, 2048))
    t.add("copy", "pad f32 images", "F.pad(a, (1, 1, 1, 1))", written=4 * 64 * 256 * 58 * 58, a=f32(*image))
    t.add("copy", "tril f32 8192x8192", "a.tril()", moved=2 * 256 * M, a=f32(8192, 8192))
    n = 128 * M
    t.add("cast", "f32 to bf16 128M", "a.to(torch.bfloat16)", written=HALF_GIB // 2, a=f32(n))
    t.add("cast", "bf16 to f32 128M", "a.to(torch.float32)", written=HALF_GIB, a=bf16(n))
    t.add("cast", "f16 to f32 128M", "a.to(torch.float32)", written=HALF_GIB, a=f16(n))
    t.add("cast", "i32 to f32 128M", "a.to(torch.float32)", written=HALF_GIB, a=Input((n,), "int32", "index:100000"))
    t.add("cast", "f32 to i64 64M", "a.to(torch.int64)", written=HALF_GIB, a=f32(n // 2))


def reductions(t: Table) -> None:
    rows = (65536, 2048)
    for name, expr in (
        ("sum rows", "a.sum(1)"), ("sum columns", "a.sum(0)"), ("amax rows", "a.amax(1)"), ("argmax rows", "a.argmax(1)"),
        ("var rows", "a.var(1)"), ("norm rows", "torch.linalg.vector_norm(a, dim=1)"), ("logsumexp rows", "a.logsumexp(1)"),
        ("argmin columns", "a.argmin(0)"), ("amax columns", "a.amax(0)"),
    ):  # fmt: skip
        t.add("reduction", f"{name} f32 65536x2048", expr, a=f32(*rows))
    t.add("reduction", "mean rows bf16 65536x4096", "a.mean(1)", a=bf16(65536, 4096))
    t.add("reduction", "sum rows f32 64x2M", "a.sum(1)", a=f32(64, 2 * M))
    t.add("reduction", "sum middle f32 64x8192x256", "a.sum(1)", a=f32(64, 8192, 256))
    t.add("reduction", "sum all f32 128M", "a.sum()", a=f32(128 * M, fill="uniform"))
    t.add("reduction", "amax all bf16 256M", "a.amax()", a=bf16(256 * M))
    t.add("reduction", "any bool 512M", "a.any()", a=Input((512 * M,), "bool", "zeros"))
    t.add("scan", "cumsum f32 16384x8192", "a.cumsum(1)", written=HALF_GIB, a=f32(16384, 8192))
    t.add("scan", "cumsum f32 dim 0 8192x16384", "a.cumsum(0)", written=HALF_GIB, a=f32(8192, 16384))
    t.add("scan", "cumsum i64 16M", "a.cumsum(0)", written=128 * M, a=i64(16 * M, fill="index:100"))


def softmaxes(t: Table) -> None:
    t.add("softmax", "softmax f32 65536x2048", "torch.softmax(a, 1)", written=HALF_GIB, a=f32(65536, 2048))
    t.add("softmax", "softmax bf16 65536x4096", "torch.softmax(a, 1)", written=HALF_GIB, a=bf16(65536, 4096))
    t.add("softmax", "softmax f32 4096x32768", "torch.softmax(a, 1)", written=HALF_GIB, a=f32(4096, 32768))
    t.add("softmax", "softmax f32 2M x 64", "torch.softmax(a, 1)", written=HALF_GIB, a=f32(2 * M, 64))
    t.add("softmax", "log_softmax f32 65536x2048", "torch.log_softmax(a, 1)", written=HALF_GIB, a=f32(65536, 2048))
    t.add("softmax", "softmax backward f32", "A._softmax_backward_data(a, b, 1, torch.float32)", written=HALF_GIB,
          a=f32(65536, 2048), b=f32(65536, 2048, fill="uniform"))  # fmt: skip
    logits, labels = f32(8192, 32000), i64(8192, fill="index:32000")
    t.add("loss", "cross_entropy f32 8192x32000", "F.cross_entropy(a, i)", a=logits, i=labels)
    t.add(
        "loss",
        "cross_entropy bf16 16384x32000",
        "F.cross_entropy(a, i)",
        a=bf16(16384, 32000),
        i=i64(16384, fill="index:32000"),
    )
    t.add(
        "loss",
        "nll_loss f32 8M x 16",
        "F.nll_loss(a, i)",
        moved=8 * M * (8 + 32),
        a=f32(8 * M, 16),
        i=i64(8 * M, fill="index:16"),
    )
    t.add("loss", "mse_loss f32 128M", "F.mse_loss(a, b)", a=f32(128 * M), b=f32(128 * M))


def norms(t: Table) -> None:
    image, channels = f32(64, 256, 56, 56), f32(256)
    t.add("norm", "layer_norm f32 65536x2048", "F.layer_norm(a, (2048,), w, b)", written=HALF_GIB,
          a=f32(65536, 2048), w=f32(2048), b=f32(2048))  # fmt: skip
    t.add("norm", "layer_norm backward f32", "A.native_layer_norm_backward(g, a, (2048,), m, r, w, b, (True, True, True))",
          written=HALF_GIB, g=f32(65536, 2048), a=f32(65536, 2048), m=f32(65536, 1), r=f32(65536, 1, fill="uniform"),
          w=f32(2048), b=f32(2048))  # fmt: skip
    t.add(
        "norm",
        "rms_norm bf16 65536x4096",
        "F.rms_norm(a, (4096,), w)",
        written=HALF_GIB,
        a=bf16(65536, 4096),
        w=bf16(4096),
    )
    t.add(
        "norm",
        "group_norm f32 64x256x56x56",
        "F.group_norm(a, 32, w, b)",
        written=image.bytes,
        a=image,
        w=channels,
        b=channels,
    )
    t.add("norm", "batch_norm f32 64x256x56x56", "F.batch_norm(a, None, None, w, b, True)", moved=3 * image.bytes,
          a=image, w=channels, b=channels)  # fmt: skip
    t.add("norm", "batch_norm inference f32", "F.batch_norm(a, m, v, w, b)", written=image.bytes,
          a=image, m=channels, v=f32(256, fill="uniform"), w=channels, b=channels)  # fmt: skip


def indexing(t: Table) -> None:
    t.add(
        "index",
        "index_select rows f32 1Mx128",
        "a.index_select(0, i)",
        written=HALF_GIB,
        a=f32(M, 128),
        i=i64(M, fill=f"index:{M}"),
    )
    t.add(
        "index",
        "embedding f32 50000x1024",
        "F.embedding(i, a)",
        moved=2 * HALF_GIB,
        a=f32(50000, 1024),
        i=i64(131072, fill="index:50000"),
    )
    t.add(
        "index",
        "gather dim 1 f32",
        "a.gather(1, i)",
        moved=16384 * 4096 * 16,
        a=f32(16384, 8192),
        i=i64(16384, 4096, fill="index:8192"),
    )
    t.add("index", "index rows bf16 a[i]", "a[i]", moved=2 * 256 * M, a=bf16(M, 128), i=i64(M, fill=f"index:{M}"))
    t.add(
        "index",
        "take f32 16M of 64M",
        "a.take(i)",
        moved=16 * M * 16,
        a=f32(64 * M),
        i=i64(16 * M, fill=f"index:{64 * M}"),
    )
    t.add("index", "scatter_ f32 dim 1", "o.scatter_(1, i, b)", moved=16384 * 2048 * 16, check="none",
          o=f32(16384, 4096, fill="zeros"), i=i64(16384, 2048, fill="index:4096"), b=f32(16384, 2048))  # fmt: skip
    t.add("index", "scatter_add_ f32 dim 1", "o.scatter_add_(1, i, b)", moved=16384 * 4096 * 20,
          o=f32(16384, 4096, fill="zeros"), i=i64(16384, 4096, fill="index:4096"), b=f32(16384, 4096))  # fmt: skip
    t.add("index", "index_add_ f32 262144 rows into 65536x256", "o.index_add_(0, i, b)", moved=262144 * 1024 + 2 * 65536 * 1024,
          o=f32(65536, 256, fill="zeros"), i=i64(262144, fill="index:65536"), b=f32(262144, 256))  # fmt: skip
    t.add("index", "index_put_ accumulate f32 1M into 64K", "o.index_put_((i,), b, accumulate=True)", moved=M * 20,
          o=f32(65536, fill="zeros"), i=i64(M, fill="index:65536"), b=f32(M))  # fmt: skip
    t.add("index", "index_copy_ f32 rows", "o.index_copy_(0, i, b)", moved=2 * 256 * M, o=f32(M, 64, fill="zeros"),
          i=i64(M, fill="ramp"), b=f32(M, 64))  # fmt: skip
    t.add("index", "embedding backward f32", "A.embedding_dense_backward(g, i, 50000, -1, False)", moved=65536 * 1024 + 50000 * 1024,
          g=f32(65536, 256), i=i64(65536, fill="index:50000"))  # fmt: skip
    t.add("index", "masked_select f32 16M", "a.masked_select(m)", moved=16 * M * 7, executed=True,
          a=f32(16 * M), m=Input((16 * M,), "bool", "mix:2"))  # fmt: skip
    t.add(
        "index", "nonzero bool 16M", "m.nonzero()", moved=16 * M * 5, executed=True, m=Input((16 * M,), "bool", "mix:2")
    )
    t.add(
        "index",
        "bincount i64 4M",
        "i.bincount(minlength=65536)",
        moved=32 * M,
        executed=True,
        i=i64(4 * M, fill="mix:65536"),
    )
    t.add("index", "histc f32 16M", "a.histc(256, -4, 4)", moved=64 * M, a=f32(16 * M))


def sorts(t: Table) -> None:
    t.add("sort", "sort f32 4096x4096", "a.sort(1)", moved=4096 * 4096 * 16, a=f32(4096, 4096))
    t.add("sort", "sort f32 16M", "a.sort()", moved=16 * M * 16, a=f32(16 * M))
    t.add("sort", "sort i64 4M", "a.sort()", moved=4 * M * 24, a=i64(4 * M, fill=f"index:{1 << 40}"), check="values")
    t.add("sort", "topk f32 4096x32768 k16", "a.topk(16, 1)", a=f32(4096, 32768))
    t.add("sort", "kthvalue f32 4096x4096", "a.kthvalue(2048, 1)", a=f32(4096, 4096), check="values")
    t.add("sort", "median f32 16M", "a.median()", a=f32(16 * M))
    t.add("sort", "unique i64 4M", "torch.unique(i)", moved=32 * M, executed=True, i=i64(4 * M, fill="mix:65536"))
    t.add(
        "sort",
        "searchsorted f32 16M in 1M",
        "torch.searchsorted(s, a)",
        moved=16 * M * 12,
        s=f32(M, fill="ramp"),
        a=f32(16 * M, fill="uniform"),
    )


def pooling(t: Table) -> None:
    image = f32(64, 64, 112, 112)
    small = 64 * 64 * 56 * 56 * 4
    t.add("pooling", "max_pool2d f32 64x64x112x112", "F.max_pool2d(a, 3, 2, 1)", written=small, a=image)
    t.add(
        "pooling", "max_pool2d bf16 64x64x112x112", "F.max_pool2d(a, 2)", written=small // 2, a=bf16(64, 64, 112, 112)
    )
    t.add("pooling", "avg_pool2d f32 64x64x112x112", "F.avg_pool2d(a, 2)", written=small, a=image)
    t.add("pooling", "adaptive_avg_pool2d f32 to 1", "F.adaptive_avg_pool2d(a, 1)", a=f32(256, 2048, 7, 7))
    t.add("pooling", "avg_pool2d backward f32", "A.avg_pool2d_backward(g, a, (2, 2), (2, 2), (0, 0), False, True, None)",
          moved=small + image.bytes, g=f32(64, 64, 56, 56), a=image)  # fmt: skip
    t.add("pooling", "interpolate bilinear f32 2x", "F.interpolate(a, scale_factor=2, mode='bilinear')", written=image.bytes,
          a=f32(64, 64, 56, 56))  # fmt: skip
    t.add(
        "pooling",
        "interpolate nearest f32 2x",
        "F.interpolate(a, scale_factor=2)",
        written=image.bytes,
        a=f32(64, 64, 56, 56),
    )


def others(t: Table) -> None:
    heads = f32(8, 16, 1024, 64)
    t.add(
        "other",
        "attention f32 8x16x1024x64",
        "F.scaled_dot_product_attention(q, k, v)",
        written=heads.bytes,
        q=heads,
        k=heads,
        v=heads,
    )
    t.add(
        "other", "cdist f32 4096x64 p=1", "torch.cdist(a, b, p=1.0)", written=64 * M, a=f32(4096, 64), b=f32(4096, 64)
    )
    t.add("other", "uniform_ f32 128M", "o.uniform_()", moved=HALF_GIB, check="none", o=f32(128 * M, fill="zeros"))
    t.add("other", "normal_ f32 128M", "o.normal_()", moved=HALF_GIB, check="none", o=f32(128 * M, fill="zeros"))


def table() -> list[BenchCase]:
    t = Table()
    for add in (elementwise, copies, reductions, softmaxes, norms, indexing, sorts, pooling, others):
        add(t)
    return t.cases
