"""Calls of networks, random numbers and matrices, as tools/gpu/sweep.py has them of the rest."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.manifest import TORCH_TYPES

from tools.gpu.sweep_calls import (
    COMPLEX,
    FLOATS,
    INTS,
    ORDERED,
    UNSIGNED,
    Case,
    Cases,
    numbers,
    places,
    run,
)

aten = torch.ops.aten
CASES = Cases()


# Networks
@CASES.of([*FLOATS, *INTS])
def pools(t: str) -> None:
    for shape in ((2, 3, 12, 12), (2, 40, 12, 12), (1, 8, 40, 40)):
        for form in (torch.contiguous_format, torch.channels_last):
            x = numbers(*shape, t=t).contiguous(memory_format=form)
            for k, s, p in ((2, 2, 0), (3, 1, 1), (5, 3, 2), (9, 9, 0)):

                def both(x: torch.Tensor = x, k: int = k, s: int = s, p: int = p) -> None:
                    y, where = aten.max_pool2d_with_indices(x, [k, k], [s, s], [p, p])
                    aten.max_pool2d_with_indices_backward(y, x, [k, k], [s, s], [p, p], [1, 1], False, where)

                def mean(x: torch.Tensor = x, k: int = k, s: int = s, p: int = p) -> None:
                    y = aten.avg_pool2d(x, [k, k], [s, s], [p, p])
                    aten.avg_pool2d_backward(y, x, [k, k], [s, s], [p, p], False, True, None)

                run(both, mean)
            run(
                lambda: F.adaptive_avg_pool2d(x, 5),
                lambda: F.adaptive_max_pool2d(x, 5),
                lambda: aten._adaptive_avg_pool2d_backward(x[..., :5, :5], x),
            )


@CASES.of(FLOATS)
def images(t: str) -> None:
    for volume in (False, True):
        x = numbers(*((2, 3, 6, 7, 8) if volume else (2, 3, 12, 14)), t=t)
        wide = numbers(*((1, 40, 6, 7, 8) if volume else (1, 40, 12, 14)), t=t)
        for y in (x, wide):
            grid = numbers(y.shape[0], *((5, 5, 5, 3) if volume else (9, 9, 2)), t=t, low=-1.2, high=1.2)
            for how in range(3):
                name = "grid_sampler_3d" if volume else "grid_sampler_2d"
                for padding in (0, 1, 2):

                    def sample(
                        y: torch.Tensor = y,
                        how: int = how,
                        name: str = name,
                        padding: int = padding,
                        grid: torch.Tensor = grid,
                    ) -> None:
                        out = getattr(aten, name)(y, grid, how, padding, False)
                        getattr(aten, name + "_backward")(out, y, grid, how, padding, False, [True, True])

                    run(sample)
    for shape in ((2, 3, 12, 14), (1, 40, 12, 14)):
        for form in (torch.contiguous_format, torch.channels_last):
            x = numbers(*shape, t=t).contiguous(memory_format=form).requires_grad_()
            for mode in ("bilinear", "bicubic", "nearest", "nearest-exact", "area"):
                for size in ((7, 9), (24, 30), (5, 14)):
                    for anti in (False, True):

                        def resize(
                            x: torch.Tensor = x, mode: str = mode, size: tuple[int, int] = size, anti: bool = anti
                        ) -> None:
                            F.interpolate(x, size, mode=mode, antialias=anti).sum().backward()

                        run(resize)


@CASES.of(["u8", "f32"])
def pictures(t: str) -> None:
    x = numbers(2, 3, 12, 14, t=t, low=0, high=200)
    for y in (x, x.contiguous(memory_format=torch.channels_last), numbers(1, 40, 12, 14, t=t, low=0, high=200)):
        for mode in ("bilinear", "bicubic", "nearest", "nearest-exact"):
            for size in ((7, 9), (24, 30), (12, 30), (30, 14)):
                for anti in (False, True):
                    run(lambda: F.interpolate(y, size, mode=mode, antialias=anti))


@CASES.of(FLOATS)
def vision(t: str) -> None:
    import torchvision

    ops = torchvision.ops
    boxes = torch.tensor([[0, 1, 1, 9, 8], [1, 2, 0, 7, 9], [0, 3, 3, 11, 11.0]], dtype=TORCH_TYPES[t]).xpu()
    for shape in ((2, 8, 12, 12), (2, 40, 12, 12)):
        for form in (torch.contiguous_format, torch.channels_last):
            x = numbers(*shape, t=t).contiguous(memory_format=form).requires_grad_()
            run(
                lambda: ops.roi_align(x, boxes, 2).sum().backward(),
                lambda: ops.roi_pool(x, boxes, 2).sum().backward(),
            )
            run(
                lambda: ops.ps_roi_align(x, boxes, 2).sum().backward(),
                lambda: ops.ps_roi_pool(x, boxes, 2).sum().backward(),
            )
            offset = numbers(2, 18, 12, 12, t=t).requires_grad_()
            weight, mask = numbers(4, shape[1], 3, 3, t=t).requires_grad_(), numbers(2, 9, 12, 12, t=t).requires_grad_()
            run(lambda: ops.deform_conv2d(x, offset, weight, padding=1, mask=mask).sum().backward())
    run(lambda: ops.nms(boxes[:, 1:].contiguous(), numbers(3, t=t), 0.3))


@CASES.of(FLOATS)
def embeddings(t: str) -> None:
    table = numbers(50, 24, t=t).requires_grad_()
    index, offsets = places(90, below=50), torch.tensor([0, 20, 20, 60]).xpu()
    for mode in ("sum", "mean", "max"):
        for scale in (False, True):

            def bag(mode: str = mode, scale: bool = scale) -> None:
                each = numbers(90, t=t).requires_grad_() if scale and mode == "sum" else None
                F.embedding_bag(index, table, offsets, mode=mode, per_sample_weights=each).sum().backward()
                F.embedding_bag(index, table.detach()[:, :7], offsets, mode=mode, per_sample_weights=each)

            run(bag)
    run(
        lambda: F.embedding(index, table, scale_grad_by_freq=True).sum().backward(),
        lambda: aten.embedding_renorm_(table.detach().clone(), index, 1.0, 2.0),
    )


@CASES.of(FLOATS)
def norms(t: str) -> None:
    for shape in ((30, 200), (3, 9000), (400, 24)):
        x = numbers(*shape, t=t).requires_grad_()
        for p in {t, "f32"} if t in ("f16", "bf16") else {t}:
            w, b = (numbers(shape[1], t=p).requires_grad_() for _ in range(2))
            run(lambda: F.layer_norm(x, x.shape[1:], w, b).sum().backward())
            run(
                lambda: F.rms_norm(x, x.shape[1:], w).sum().backward(),
                lambda: F.rms_norm(x, x.shape[1:]).sum().backward(),
            )
            run(lambda: F.layer_norm(x, x.shape[1:]).sum().backward())
            grad = numbers(*shape, t=t)

            def parts(x: torch.Tensor = x, w: torch.Tensor = w, b: torch.Tensor = b, grad: torch.Tensor = grad) -> None:
                d, shape = x.detach(), list(x.shape[1:])
                _, mean, rstd = aten.native_layer_norm(d, shape, w.detach(), b.detach(), 1e-5)
                for mask in ([True, False, False], [True, True, True], [False, True, True]):
                    aten.native_layer_norm_backward(grad, d, shape, mean, rstd, w.detach(), b.detach(), mask)
                _, rstd = aten._fused_rms_norm(d, shape, w.detach(), 1e-5)
                for mask in ([True, False], [True, True], [False, True]):
                    aten._fused_rms_norm_backward(grad, d, shape, rstd, w.detach(), mask)

            run(parts)
    x = numbers(20, 30, t=t).requires_grad_()
    run(
        lambda: torch._weight_norm(x, x[:, :1].detach().clone().requires_grad_(), 0).sum().backward(),
        lambda: torch.renorm(x, 2, 0, 1.0),
    )
    run(
        lambda: torch.cdist(x, x).sum().backward(),
        lambda: F.pdist(x).sum().backward(),
        lambda: torch.cdist(x, x, 1.0).sum().backward(),
    )
    image = numbers(4, 8, 6, 6, t=t).requires_grad_()
    for p in {t, "f32"} if t in ("f16", "bf16") else {t}:
        w, b = (numbers(8, t=p).requires_grad_() for _ in range(2))
        run(lambda: F.batch_norm(image, b.detach().clone(), b.detach().abs(), w, b, True).sum().backward())
        run(
            lambda: F.group_norm(image, 4, w, b).sum().backward(),
            lambda: F.instance_norm(image, weight=w, bias=b).sum().backward(),
        )


@CASES.of(FLOATS)
def softmaxes(t: str) -> None:
    for x in (numbers(40, 30, t=t), numbers(4, 5000, t=t), numbers(300, 20, 9, t=t)):
        for d in (0, 1):
            run(lambda: torch.softmax(x, d), lambda: torch.log_softmax(x, d))
            run(
                lambda: aten._softmax_backward_data(x, torch.softmax(x, d), d, x.dtype),
                lambda: aten._log_softmax_backward_data(x, x, d, x.dtype),
            )
            if t in ("f16", "bf16"):
                wide = x.float()
                run(
                    lambda: torch.softmax(x, d, dtype=torch.float32),
                    lambda: torch.log_softmax(x, d, dtype=torch.float32),
                )
                run(lambda: aten._softmax(x, d, True), lambda: aten._log_softmax(x, d, True))
                run(
                    lambda: aten._softmax_backward_data(wide, torch.softmax(wide, d), d, x.dtype),
                    lambda: aten._log_softmax_backward_data(wide, wide, d, x.dtype),
                )


@CASES.of(FLOATS)
def losses(t: str) -> None:
    for n in (600, 40_000):
        x, y = numbers(n, t=t, low=0.1, high=0.9).requires_grad_(), numbers(n, t=t, low=0.1, high=0.9)
        for f in (
            F.mse_loss,
            F.l1_loss,
            F.huber_loss,
            F.smooth_l1_loss,
            F.binary_cross_entropy,
            F.binary_cross_entropy_with_logits,
            F.kl_div,
            F.soft_margin_loss,
        ):
            for how in ("none", "mean", "sum"):
                run(lambda: f(x, y, reduction=how).sum().backward())
    x, target = numbers(30, 12, t=t).requires_grad_(), places(30, below=12)
    run(
        lambda: F.multi_margin_loss(x, target).backward(),
        lambda: F.multilabel_margin_loss(x, places(30, 12, below=12)).backward(),
        lambda: F.cross_entropy(x, target).backward(),
    )
    steps = numbers(20, 3, 6, t=t).log_softmax(2).requires_grad_()
    run(
        lambda: F.ctc_loss(
            steps, places(3, 5, below=5) + 1, torch.tensor([20, 20, 20]), torch.tensor([5, 4, 3])
        ).backward()
    )


@CASES.of(FLOATS)
def cells(t: str) -> None:
    x = numbers(5, 4, 8, t=t)
    for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):

        def train(kind: Any = kind) -> None:
            net = kind(8, 12).to("xpu", x.dtype)
            net(x)[0].sum().backward()

        run(train)
    for kind in (torch.nn.LSTMCell, torch.nn.GRUCell):
        run(lambda: kind(8, 12).to("xpu", x.dtype)(x[0]))
    for kind, fused in (
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.Adam, {}),
        (torch.optim.AdamW, {"amsgrad": True}),
        (torch.optim.Adagrad, {}),
    ):

        def step(kind: Any = kind, fused: dict[str, Any] = fused) -> None:
            p = numbers(70, t=t).requires_grad_()
            p.grad = numbers(70, t=t)
            kind([p], lr=0.1, fused=True, **fused).step()

        run(step)


@CASES.of(["bf16", "f16", "f32"])
def attention(t: str) -> None:
    for queries, keys in ((40, 40), (1, 70), (70, 90)):
        q, k, v = numbers(2, 2, queries, 16, t=t), numbers(2, 2, keys, 16, t=t), numbers(2, 2, keys, 16, t=t)
        boolean, additive = numbers(queries, keys, t="b8"), numbers(queries, keys, t=t)
        for mask in (None, boolean, additive):
            for p in (0.0, 0.3):

                def train(
                    q: torch.Tensor = q, k: torch.Tensor = k, v: torch.Tensor = v, mask: Any = mask, p: float = p
                ) -> None:
                    q = q.detach().requires_grad_()
                    F.scaled_dot_product_attention(q, k, v, mask, p).sum().backward()

                run(train)


# Random numbers
@CASES.of([*ORDERED, *UNSIGNED, *COMPLEX])
def draws(t: str) -> None:
    x = numbers(500, t=t, low=0.1, high=0.9)
    for name, values in {
        "random_": (), "bernoulli_": (0.5,), "exponential_": (), "log_normal_": (), "geometric_": (0.5,), "cauchy_": (),
        "normal_": (), "uniform_": (),
    }.items():  # fmt: skip
        run(lambda: getattr(x.clone(), name)(*values))
    run(lambda: x.clone().random_(2, 9), lambda: x.clone().random_(0, 1 << 40), lambda: x.clone().bernoulli_(x))
    for p in FLOATS:
        run(lambda: x.clone().bernoulli_(numbers(500, t=p, low=0.1, high=0.9)))
    run(
        lambda: F.dropout(x, 0.4),
        lambda: aten.native_dropout(x, 0.4, True),
        lambda: F.rrelu(x, training=True),
        lambda: torch._standard_gamma(x),
    )
    run(
        lambda: aten._masked_scale(x, numbers(500, t="u8", low=0, high=2), 2.0),
        lambda: aten._masked_scale(x, numbers(500, t="b8"), 2.0),
        lambda: aten.native_dropout_backward(x, numbers(500, t="b8"), 2.0),
    )
    run(lambda: torch._standard_gamma_grad(x, x), lambda: torch._dirichlet_grad(x, x, x + x))
    run(
        lambda: torch.complex(x, x),
        lambda: torch.polar(x, x),
        lambda: torch.linspace(0, 5, 90, dtype=x.dtype, device="xpu"),
        lambda: torch.logspace(0, 1, 90, dtype=x.dtype, device="xpu"),
    )


@CASES.of(["f32", "f64"])
def matrices(t: str) -> None:
    a = numbers(40, 4, 4, t=t)
    spd = a @ a.mT + 4 * torch.eye(4, dtype=a.dtype, device="xpu")
    run(
        lambda: torch.linalg.cholesky(spd),
        lambda: torch.linalg.solve_triangular(spd.tril(), a, upper=False),
        lambda: torch.linalg.solve(spd, a),
        lambda: torch.linalg.qr(a),
    )
    run(
        lambda: torch.linalg.lu(numbers(30, 30, t=t)),
        lambda: torch.cholesky_solve(a, torch.linalg.cholesky(spd)),
        lambda: torch.linalg.eigh(spd),
        lambda: torch.linalg.svd(a),
    )


@CASES.of(["f32", "bf16"])
def quantized(t: str) -> None:
    x = numbers(16, 64, t=t)
    for target in (torch.qint8, torch.quint8, torch.qint32):
        run(
            lambda: torch.quantize_per_channel(
                x.float(), torch.ones(16).xpu() * 0.1, torch.zeros(16).long().xpu(), 0, target
            ).dequantize()
        )
    importlib.import_module("torch.ao.quantization.fx._decomposed")  # registers the operators
    lib = torch.ops.quantized_decomposed
    scale, zero = torch.full((16,), 0.1).xpu(), torch.zeros(16, dtype=torch.int64).xpu()
    for low in (torch.int8, torch.uint8, torch.int32):
        lowest = 0 if low is torch.uint8 else -100
        run(lambda: lib.quantize_per_channel(x.float(), scale, zero, 0, lowest, 100, low))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("call", "t"), CASES.params())
def test_case(call: Case, t: str) -> None:
    call(t)
