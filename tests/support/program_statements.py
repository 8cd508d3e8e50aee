"""The statements of random programs: one function for each kind."""

from __future__ import annotations

import torch

from support.program_pool import (
    ACTIVATIONS,
    BINARY,
    BINARY_ONLY,
    BITS,
    COMPARE,
    COMPLEX,
    FLOATS,
    INTS,
    LIMIT,
    REDUCE,
    UNARY,
    UNARY_ONLY,
    Pool,
    execute,
    share,
)


class Draw(Pool):
    """One program while it is drawn."""

    # -- statements ------------------------------------------------------------------------------------------------
    def statement(self) -> str:
        r = self.rng
        kind = r.choices(
            [self.s_new, self.s_view, self.s_unary, self.s_binary, self.s_inplace, self.s_reduce, self.s_order, self.s_move,
             self.s_write, self.s_shape, self.s_nn, self.s_linalg, self.s_ternary, self.s_convert, self.s_out, self.s_foreach,
             self.s_host],
            [4, 8, 8, 10, 14, 8, 5, 9, 12, 7, 7, 5, 5, 5, 6, 2, 0 if self.compiled else 3],
        )[0]  # fmt: skip
        return kind()

    def s_new(self) -> str:
        if self.rng.random() < 0.3 and self.names():
            x = self.pick()
            f = self.rng.choice(["zeros_like", "ones_like", "clone", "detach"])
            return f"{self.fresh()} = torch.{f}({x})"
        if self.rng.random() < 0.2:
            e = self.rng.choice(
                [f"torch.arange({self.rng.randint(1, 40)}, device=dev)", "torch.linspace(-2, 4, 13, device=dev)",
                 f"torch.full({self.shape()}, 1.5, device=dev)", "torch.eye(4, device=dev)", "torch.tensor(2.5, device=dev)",
                 "torch.tril_indices(4, 5, device=dev)", "torch.tensor(3, device=dev)"]
            )  # fmt: skip
            return f"{self.fresh()} = {e}"
        e = self.make()
        if self.grad and self.rng.random() < 0.7:
            e = f"{self.make(dtype=self.rng.choice([torch.float32, torch.float64]))}.requires_grad_()"
        return f"{self.fresh()} = {e}"

    def s_view(self) -> str:
        return f"{self.fresh()} = {self.view_of(self.pick())}"

    def s_unary(self) -> str:
        r = self.rng
        x = self.view(self.pick())
        if r.random() < 0.25:
            return f"{self.fresh()} = F.{r.choice(ACTIVATIONS)}({x})"
        f = r.choice(UNARY + UNARY_ONLY)
        return f"{self.fresh()} = torch.{f}({x})"

    def s_binary(self) -> str:
        r = self.rng
        x = self.view(self.pick())
        t = eval(x, self.env)
        y = self.peer(t) if r.random() < 0.75 else self.number(t)
        f = r.choice(BINARY + BINARY_ONLY[: -3 if y[0] in "(-0123456789TF" else None] + COMPARE + BITS)
        if y[0] not in "mv(":
            if f in ("atan2", "hypot", "logaddexp", "nextafter", "maximum", "minimum", "fmax", "fmin", "ldexp", "logaddexp2",
                     "heaviside", "gcd", "lcm", "logical_and", "logical_or", "logical_xor"):  # fmt: skip
                f = "add"
            if f == "pow" and r.random() < 0.5:
                return f"{self.fresh()} = torch.pow({y}, {x})"
        if f in ("floor_divide", "remainder", "fmod") and not t.is_floating_point():
            return f"{self.fresh()} = torch.{f}({x}, {r.choice(['2', '3', '-3', '7'])})"
        if f in ("bitwise_left_shift", "bitwise_right_shift"):
            return f"{self.fresh()} = torch.{f}({x}, {r.choice(['1', '2', '3'])})"
        if f == "div" and r.random() < 0.5:
            return f"{self.fresh()} = torch.div({x}, {r.choice(['2', '3', '-3', '2.5'])}, rounding_mode={r.choice(['floor', 'trunc', None])!r})"
        if f in ("add", "sub") and r.random() < 0.3:
            return f"{self.fresh()} = torch.{f}({x}, {y}, alpha={self.number(t)})"
        if r.random() < 0.2:
            op = r.choice(["+", "-", "*", "/", "<", "==", "&", "|"])
            return f"{self.fresh()} = {y} {op} {x}" if y[0] != "-" else f"{self.fresh()} = ({y}) {op} {x}"
        return f"{self.fresh()} = torch.{f}({x}, {y})"

    def target(self) -> str:
        """A tensor to write to, or a view of it, whose elements do not share memory."""
        x = self.view(self.pick())
        t = eval(x, self.env)
        at = torch.zeros(t.storage_offset() + t.untyped_storage().nbytes(), dtype=torch.uint8)
        at.as_strided(t.shape, t.stride(), t.storage_offset()).fill_(1)
        if int(at.sum()) != t.numel():
            raise LookupError
        return x

    def s_inplace(self) -> str:
        r = self.rng
        x = self.target()
        t = eval(x, self.env)
        y = self.peer(t, same=True) if r.random() < 0.7 else self.number(t)
        k = r.random()
        if k < 0.25:
            return f"{x}.{r.choice(UNARY)}_()"
        if k < 0.3:
            return f"{x}.{r.choice(['zero_()', 'fill_(' + self.number(t) + ')', 'relu_()', 'tril_()', 'triu_(1)'])}"
        if k < 0.4:
            fits = y[0] in "mv" and not (t.dtype.is_floating_point or t.dtype.is_complex)
            return f"{x}.copy_(safe({y}))" if fits else (f"{x}.copy_({y})" if y[0] in "mv" else f"{x}.fill_({y})")
        if k < 0.6:
            op = r.choice(["+=", "-=", "*=", "/="])
            return f"w = {x}; w {op} {y}"
        if k < 0.7:
            f = r.choice(["addcmul_", "addcdiv_", "lerp_", "clamp_"])
            if f == "clamp_":
                return f"{x}.clamp_({r.choice(['-1', '-0.5', 'None'])}, {r.choice(['1', '1.5'])})"
            if f == "lerp_":
                return f"{x}.lerp_({self.make(t.shape, t.dtype)}, 0.25)"
            return f"{x}.{f}({self.peer(t, same=True)}, {self.peer(t, same=True)}, value={self.number(t)})"
        if k < 0.75:
            return f"{x}.masked_fill_({self.mask(t.shape)}, {self.number(t)})"
        f = r.choice([*BINARY, "eq", "lt", "logical_and", "bitwise_and"])
        if y[0] not in "mv(" and f in ("atan2", "hypot", "nextafter", "logical_and"):
            f = "mul"
        if f in ("floor_divide", "remainder", "fmod") and not t.is_floating_point():
            y = r.choice(["2", "3", "-3", "7"])
        return f"{x}.{f}_({y})"

    def s_ternary(self) -> str:
        r = self.rng
        x = self.view(self.pick())
        t = eval(x, self.env)
        a, b = self.peer(t), self.peer(t)
        f = r.choice(["where", "where2", "addcmul", "addcdiv", "lerp", "clamp", "clampt", "lerpt"])
        e = {
            "where": f"torch.where({self.mask(t.shape)}, {x}, {a})",
            "where2": f"torch.where({x} > 0, {r.choice([self.number(t), a])}, {r.choice([self.number(t), b])})",
            "addcmul": f"torch.addcmul({x}, {a}, {b}, value={self.number(t)})",
            "addcdiv": f"torch.addcdiv({x}, {a}, {b}, value={self.number(t)})",
            "lerp": f"torch.lerp({x}, {self.make(t.shape, t.dtype)}, 0.75)",
            "lerpt": f"torch.lerp({x}, {self.make(t.shape, t.dtype)}, {self.make(t.shape, t.dtype)})",
            "clamp": f"torch.clamp({x}, {self.number(t)}, {self.number(t)})",
            "clampt": f"torch.clamp({x}, {a}, {b})",
        }[f]
        return f"{self.fresh()} = {e}"

    def s_reduce(self) -> str:
        r = self.rng
        x = self.view(self.pick())
        t = eval(x, self.env)
        d = self.dim(t)
        keep = r.choice(["True", "False"])
        dims = tuple(r.sample(range(t.dim()), r.randint(1, t.dim()))) if t.dim() else ()
        f = r.choice([*REDUCE, *REDUCE, "argmax", "argmin", "max", "min", "norm", "softmax", "log_softmax", "median", "aminmax",
                      "all_sum", "std_mean", "normp", "quantile", "sumdt", "kthvalue", "mode", "cov", "trace", "hist"])  # fmt: skip
        if f in REDUCE:
            at = r.choice([f"{d}", f"{dims}"]) if f != "prod" else f"{d}"
            extra = ", correction=0" if f in ("std", "var") and r.random() < 0.3 else ""
            k = "" if f == "count_nonzero" else f", keepdim={keep}"
            return f"{self.fresh()} = torch.{f}({x}, {at}{extra}{k})"
        e = {
            "argmax": f"torch.argmax({x}, {r.choice([d, None])}, keepdim={keep})",
            "argmin": f"torch.argmin({x}, {r.choice([d, None])})",
            "max": f"torch.max({x}, {d}, keepdim={keep})[{r.randint(0, 1)}]",
            "min": f"torch.min({x}, {d}, keepdim={keep})[{r.randint(0, 1)}]",
            "norm": f"torch.linalg.vector_norm({x}, {r.choice([1, 2, 0, 'math.inf', 3])}, {dims or None}, keepdim={keep})",
            "normp": f"F.normalize({x}, dim={d})",
            "softmax": f"torch.softmax({x}, {d})",
            "log_softmax": f"torch.log_softmax({x}, {d})",
            "median": f"torch.nanmedian({x}, {d}).values" if r.random() < 0.5 else f"torch.median({x})",
            "mode": f"torch.mode(safe({x}), {d}).values",
            "kthvalue": f"torch.kthvalue({x}.detach(), 1, {d}, keepdim={keep}).values",
            "aminmax": f"torch.aminmax({x}, dim={d})[1]",
            "all_sum": f"{x}.{r.choice(['sum', 'mean', 'prod', 'max', 'min', 'any', 'all', 'std', 'norm'])}()",
            "std_mean": f"torch.std_mean({x}, {d}, correction={r.choice([0, 1])})[{r.randint(0, 1)}]",
            "quantile": f"torch.quantile({x}, 0.3, dim={d}, keepdim={keep})",
            "sumdt": f"torch.sum({x}, {dims or None}, dtype={r.choice(['torch.float64', 'torch.float32', 'torch.int64'])})"
            if t.dtype != torch.complex64 and not t.is_complex() and not t.is_floating_point()
            else f"torch.sum({x}, dtype={t.dtype})",
            "cov": f"torch.cov({x})",
            "trace": f"torch.trace({x})",
            "hist": f"torch.histc({x}.double(), 7, -3, 3)",
        }[f]
        return f"{self.fresh()} = {e}"

    def s_order(self) -> str:
        r = self.rng
        x = self.view(self.pick(lambda t: not t.is_complex()))
        t = eval(x, self.env)
        d = self.dim(t)
        desc = r.choice(["True", "False"])
        k = r.randint(0, t.shape[d]) if t.dim() else 1
        return f"{self.fresh()} = " + r.choice(
            [f"torch.sort({x}, stable=True, dim={d}, descending={desc})[{r.randint(0, 1)}]", f"torch.sort({x}.detach(), {d}, {desc})[0]",
             f"torch.argsort({x}, stable=True, dim={d})", f"torch.topk({x}.detach(), {k}, {d}, {desc})[0]", f"torch.msort({x}.detach())",
             f"torch.cumsum({x}, {d})", f"torch.cumprod({x}, {d})", f"torch.cummax({x}, {d})[{r.randint(0, 1)}]",
             f"torch.cummin({x}, {d})[{r.randint(0, 1)}]", f"torch.logcumsumexp({x}, {d})", f"torch.unique({x})",
             f"torch.unique({x}, return_inverse=True, return_counts=True)[{r.randint(0, 2)}]",
             f"torch.unique_consecutive({x}, return_counts=True)[{r.randint(0, 1)}]", f"torch.unique(safe({x}), dim={d})",
             f"torch.diff({x}, dim={d})", f"torch.searchsorted({self.make((9,), t.dtype)}.sort()[0], {x}.contiguous())",
             f"torch.bucketize({x}, torch.tensor([-1, 0, 2], device=dev), right={desc})", f"torch.isin({x}, {self.make((5,), t.dtype)})",
             f"torch.bincount({x}.flatten().abs() % 11)" if t.dtype == torch.int64 else f"torch.cumsum({x}, {d}, dtype=torch.float64)"]
        )  # fmt: skip

    def s_move(self) -> str:
        r = self.rng
        x = self.view(self.pick())
        t = eval(x, self.env)
        d = self.dim(t)
        size = t.shape[d] if t.dim() else 1
        v = self.fresh()
        if not size:
            return f"{v} = {x}.clone()"
        k = r.randint(0, 6)
        shape = list(t.shape)
        if shape:
            shape[d] = k
        n = max(t.dim(), 1)
        lead = ", ".join([":"] * (d % n))
        lead = lead + ", " if lead else ""
        c = [
            f"torch.index_select({x}, {d}, {self.index((k,), size, negative=False)})",
            f"torch.gather({x}, {d}, {self.index(shape, size, negative=False)})",
            f"{x}[{lead}{self.index((k,), size)}]",
            f"{x}[{lead}{self.index((2, 3), size)}]",
            f"{x}[{lead}{r.choice([str(list(range(min(size, 2)))), 'None', '...', '-1'])}]",
            f"{x}[{self.mask(t.shape)}]",
            f"{x}[{self.mask(t.shape[:1])}]" if t.dim() else f"{x}[None]",
            f"torch.masked_select({x}, {self.mask(t.shape)})",
            f"torch.take({x}, {self.index((2, k), t.numel())})" if t.numel() else f"{x}.clone()",
            f"torch.take_along_dim({x}, {self.index(shape, size, negative=False)}, {d})",
            f"torch.roll({x}, {r.randint(-3, 3)}, {d})",
            f"torch.flip({x}, ({d},))",
            f"torch.nonzero({x})",
            f"torch.argwhere({x})",
            f"torch.count_nonzero({x})",
        ]
        if t.dim() >= 2:
            c += [
                f"{x}[{self.index((k,), t.shape[0])}, {self.index((k,), t.shape[1])}]" if t.numel() else f"{x}.clone()",
                f"{x}[{self.index((k, 1), t.shape[0])}, {self.index((2,), t.shape[1])}]"
                if t.numel()
                else f"{x}.clone()",
                f"{x}[:, {self.index((k,), t.shape[1])}]" if t.numel() else f"{x}.clone()",
                f"torch.rot90({x}, {r.randint(-1, 3)})",
                f"torch.tril({x}, {r.randint(-2, 2)})",
                f"torch.triu({x}, {r.randint(-2, 2)})",
            ]
        return f"{v} = {r.choice(c)}"

    def s_write(self) -> str:
        r = self.rng
        x = self.target()
        t = eval(x, self.env)
        if not t.numel() or not t.dim():
            return f"{x}.mul_(2)"
        d = self.dim(t)
        size = t.shape[d]
        k = r.randint(0, min(size, 4))
        shape = list(t.shape)
        shape[d] = k
        src = self.make(shape, t.dtype)
        many = list(t.shape)
        many[d] = r.randint(1, 6)
        add = self.make(many, t.dtype)
        one, dup = self.index((k,), size, True, False), self.index((many[d],), size, negative=False)
        full, fdup = self.index(shape, size, True, False), self.index(many, size, negative=False)
        num = self.number(t)
        a = r.randrange(size)
        lead = "".join(":, " for _ in range(d % t.dim()))
        row = list(t.shape)
        row[d] = 1
        place = r.random() < 0.6
        ordered = [] if t.is_complex() else ["amax", "amin"]
        u = "_" if place else ""
        c = [
            f"{x}.index_copy{u}({d}, {one}, {src})",
            f"{x}.index_add{u}({d}, {dup}, {add}, alpha={num})",
            f"{x}.index_fill{u}({d}, {dup}, {num})",
            f"{x}.index_reduce{u}({d}, {dup}, {add}, {r.choice(ordered or ['prod', 'mean'])!r})",
            f"{x}.scatter{u}({d}, {fdup}, {num})",
            f"{x}.scatter{u}({d}, {self.index(shape, size, True, False)}, {src})"
            if t.dim() == 1
            else f"{x}.scatter_add{u}({d}, {full}, {src})",
            f"{x}.scatter_add{u}({d}, {fdup}, {add})",
            f"{x}.scatter_reduce{u}({d}, {fdup}, {add}, {r.choice([*ordered, 'prod', 'mean', 'sum'])!r}, include_self={r.choice([True, False])})",
            f"{x}.masked_fill{u}({self.mask(t.shape)}, {num})",
            f"{x}.masked_scatter{u}({self.mask(t.shape)}, {self.make((t.numel(),), t.dtype)})",
            f"{x}.index_put{u}(({dup},), {self.make((many[d], *t.shape[1:]), t.dtype)}, accumulate=True)"
            if d % t.dim() == 0
            else f"{x}.flip({d})",
        ]
        set_ = [
            f"{x}[{lead}{self.index((k,), size, True)}] = {num}",
            f"{x}[{self.mask(t.shape)}] = {num}",
            f"{x}[{self.mask(t.shape[:1])}] *= 2",
            f"{x}[{lead}{a}:] = {self.peer_of(t.narrow(d, a, size - a))}",
            f"{x}[{lead}{a}] {r.choice(['', '+', '*'])}= {self.peer_of(t.select(d, a))}",
            f"{x}.put_({self.index((3,), t.numel())}, {self.make((3,), t.dtype)}, accumulate=True)",
            f"{x}.narrow({d}, {a}, 1).copy_({self.make(row, t.dtype)})",
            f"{x}.select({d}, {a}).fill_({num})",
        ]
        if t.dim() >= 2:
            set_ += [f"{x}.fill_diagonal_({num})", f"{x}.transpose(0, 1)[{r.randrange(t.shape[1])}] = {num}"]
            set_ += [f"{x}.diagonal().add_({num})"]
            set_ += [f"{x}[{self.index((3,), t.shape[0])}, {self.index((3,), t.shape[1])}] = {num}"]
        if not place:
            pick = r.choice(c)
            return f"{self.fresh()} = {pick}"
        return r.choice(c + set_)

    def peer_of(self, t: torch.Tensor) -> str:
        return self.make(t.shape if self.rng.random() < 0.7 else t.shape[1:], t.dtype)

    def s_shape(self) -> str:
        r = self.rng
        x = self.view(self.pick())
        t = eval(x, self.env)
        d = self.dim(t)
        v = self.fresh()
        small = t.numel() < LIMIT / 4
        y = self.make(t.shape)
        c = [f"torch.cat([{x}, {y}, {x}], {d})" if small and t.dim() else f"{x} + 0", f"torch.stack([{x}, {y}], {d})" if small else f"{x} + 0",
             f"{x}.contiguous()", f"{x}.clone(memory_format=torch.contiguous_format)", f"torch.atleast_2d({x})",
             f"torch.broadcast_tensors({x}, {self.peer(t)})[1]", f"torch.diff({x}, dim={d})" if t.dim() else f"{x} + 0"]  # fmt: skip
        if small:
            c += [
                f"{x}.repeat({', '.join(['2'] * max(t.dim(), 1))})",
                f"torch.repeat_interleave({x}, 2, {d})",
                f"torch.tile({x}, (2,))",
            ]
            c += [f"torch.outer({x}.flatten()[:20], {y}.flatten()[:20])", f"torch.vander({x}.flatten()[:9], 4)"]
            c += [f"F.pad({x}, ({r.randint(-1, 2)}, {r.randint(0, 2)}), value={self.number(t)})"] if t.dim() else []
            c += [f"torch.diag_embed({x}, {r.randint(-1, 1)})"] if t.dim() and t.numel() < 60 else []
            c += [
                f"torch.hstack([{x}, {x}])",
                f"torch.vstack([{x}, {y}])",
                f"torch.block_diag({x}, {y})" if t.dim() <= 2 and t.numel() < 60 else f"{x}.clone()",
            ]
            c += (
                [f"torch.repeat_interleave({x}, {self.index((t.shape[d],), 4, negative=False)}, {d})"]
                if t.dim()
                else []
            )
        if t.dim() >= 2:
            c += [
                f"torch.diag({x})" if t.dim() == 2 else f"{x}.flatten(0, 1)",
                f"{x}.flatten({r.choice(['0, 1', '-2, -1'])})",
                f"{x}.reshape({t.shape[-1]}, -1)" if t.numel() else f"{x}.clone()",
            ]
        if t.dim() == 4:
            c += [f"{x}.contiguous(memory_format=torch.channels_last)"] * 3
        return f"{v} = {r.choice(c)}"

    def s_convert(self) -> str:
        r = self.rng
        x = self.view(self.pick())
        t = eval(x, self.env)
        to = r.choice([*FLOATS, *FLOATS, *INTS, torch.bool, *COMPLEX])
        if t.is_complex() and not to.is_complex:
            return f"{self.fresh()} = {x}.abs().to({to if to.is_floating_point else torch.float32})"
        if (t.is_floating_point() or t.is_complex()) and to in INTS:
            return f"{self.fresh()} = safe({x}).to({to})"
        return f"{self.fresh()} = {x}.to({to})"

    def s_out(self) -> str:
        """A function that writes into a tensor of the pool, or a view of it."""
        r = self.rng
        x = self.view(self.pick())
        t = eval(x, self.env)
        if t.requires_grad or (self.grad and r.random() < 0.9):
            return self.s_binary()
        names = self.names(lambda o: o.shape == t.shape and not o.requires_grad and not share(o, t))
        out = f"torch.empty_like({x})" if not names or r.random() < 0.3 else r.choice(names)
        if r.random() < 0.1:
            out = f"torch.empty(0, dtype={self.dtype()}, device=dev)"
        d = self.dim(t)
        y = self.peer(t, same=True)
        f = r.choice(
            [
                "unary",
                "unary",
                "binary",
                "binary",
                "cumsum",
                "clamp",
                "sum",
                "cat",
                "sort",
                "matmul",
                "where",
                "gather",
                "index_select",
            ]
        )
        v = self.fresh()
        if f == "unary":
            return f"{v} = torch.{r.choice([u for u in UNARY if u != 'i0'])}({x}, out={out})"
        if f == "binary":
            return f"{v} = torch.{r.choice([*BINARY[:5], *COMPARE])}({x}, {y}, out={out})"
        if f == "cumsum":
            return f"{v} = torch.cumsum({x}, {d}, out={out})"
        if f == "clamp":
            return f"{v} = torch.clamp({x}, -1, 1, out={out})"
        if f == "where":
            return f"{v} = torch.where({self.mask(t.shape)}, {x}, {self.make(t.shape, t.dtype)}, out={out})"
        if f == "sort":
            return f"{v} = torch.sort({x}, dim={d}, stable=True, out=({out}, torch.empty(0, dtype=torch.int64, device=dev)))[0]"
        if f == "gather" and t.numel():
            return f"{v} = torch.gather({x}, {d}, {self.index(t.shape, t.shape[d] if t.dim() else 1, negative=False)}, out={out})"
        if f == "index_select" and t.numel() and t.dim():
            return f"{v} = torch.index_select({x}, {d}, {self.index((t.shape[d],), t.shape[d], negative=False)}, out={out})"
        if f == "cat" and t.dim():
            return f"{v} = torch.cat([{x}, {x}], {d}, out=torch.empty(0, dtype={t.dtype}, device=dev))"
        if f == "matmul" and t.dim() == 2:
            return f"{v} = torch.matmul({x}, {self.make((t.shape[1], t.shape[1]), t.dtype)}, out={out})"
        return f"{v} = torch.sum({x}, {d}, out=torch.empty(0, dtype={t.dtype}, device=dev))"

    def s_foreach(self) -> str:
        r = self.rng
        names = [self.target() for _ in range(r.randint(1, 4))]
        xs = f"[{', '.join(names)}]"
        ys = f"[{', '.join(self.make(eval(n, self.env).shape, eval(n, self.env).dtype) for n in names)}]"
        v = self.fresh()
        return r.choice(
            [f"torch._foreach_add_({xs}, {ys}, alpha=2)", f"torch._foreach_mul_({xs}, 2)", f"{v} = torch._foreach_norm({xs})[0]",
             f"{v} = torch._foreach_mul({xs}, {ys})[-1]", f"torch._foreach_copy_({xs}, {ys})", f"torch._foreach_zero_({xs})",
             f"{v} = torch._foreach_sqrt({xs})[0]", f"torch._foreach_addcmul_({xs}, {ys}, {ys}, 0.5)", f"torch._foreach_neg_({xs})",
             f"{v} = torch._foreach_lerp({xs}, {ys}, 0.5)[0]", f"{v} = torch._foreach_maximum({xs}, {ys})[0]"]
        )  # fmt: skip

    def s_linalg(self) -> str:
        r = self.rng
        x = self.view(self.pick(lambda t: t.dtype in (*FLOATS, *COMPLEX) and t.numel() > 0))
        t = eval(x, self.env)
        v = self.fresh()
        if t.dim() == 0 or not t.numel():
            return f"{v} = {x} * 2"
        k = r.randint(1, 9)
        n = t.shape[-1]
        c = [f"torch.matmul({x}, {self.make((n, k), t.dtype)})", f"torch.matmul({x}, {self.make((n,), t.dtype)})",
             f"torch.einsum('...i,ji->...j', {x}, {self.make((k, n), t.dtype)})", f"torch.tensordot({x}, {self.make((n, k), t.dtype)}, 1)",
             f"torch.linalg.norm({x}.flatten())", f"F.linear({x}, {self.make((k, n), t.dtype)}, {self.make((k,), t.dtype)})"]  # fmt: skip
        if n == 3:
            c += [f"torch.linalg.cross({x}, {self.make(t.shape, t.dtype)})"] * 4
        if t.dim() >= 2:
            m = t.shape[-2]
            c += [
                f"torch.matmul({x}.mT, {x})",
                f"torch.matmul({x}, {x}.mT)",
                f"torch.linalg.svdvals(tame({x}))",
                f"torch.linalg.matrix_norm({x})",
            ]
            if t.dim() == 2:
                c += [f"torch.addmm({self.make((r.choice([m, 1]), k), t.dtype)}, {x}, {self.make((n, k), t.dtype)}, beta={r.choice(['0', '1', '0.5'])}, alpha=2)",
                      f"torch.cdist({x}, {self.make((k, n), t.dtype)})", f"torch.mv({x}, {self.make((n,), t.dtype)})", f"torch.chain_matmul({x}, {x}.mT)" if not self.compiled else f"{x}.mT @ {x}",
                      f"torch.kron({x}[:5, :5], {self.make((2, 3), t.dtype)})", f"torch.corrcoef({x})", f"torch.addr({x}, {self.make((m,), t.dtype)}, {self.make((n,), t.dtype)})"]  # fmt: skip
            if t.dim() == 3:
                b = self.make((t.shape[0], n, k), t.dtype)
                c += [
                    f"torch.bmm({x}, {b})",
                    f"torch.baddbmm({self.make((t.shape[0], m, k), t.dtype)}, {x}, {b}, beta=0.5)",
                ]
                c += [f"torch.einsum('bij,bkj->bik', {x}, {x})"]
            if m < 20 and t.dtype in (torch.float32, torch.float64, *COMPLEX):
                spd = f"spd({x})"
                c += [
                    f"torch.linalg.{q}({spd})" for q in ("inv", "det", "cholesky", "eigvalsh", "matrix_exp", "slogdet")
                ][:5]
                c += [
                    f"torch.linalg.solve({spd}, {self.make((m, 2), t.dtype)})",
                    f"torch.linalg.lu_factor({spd})[0]",
                    f"torch.linalg.matrix_power({spd}, 3)",
                ]
                c += [
                    f"torch.linalg.solve_triangular({spd}, {self.make((m, 2), t.dtype)}, upper={r.choice([True, False])})"
                ]
        if t.dtype in (torch.float32, torch.float64):
            c += [f"torch.fft.{q}({x}, dim={self.dim(t)})" for q in ("fft", "rfft", "ifft")] + [
                f"torch.fft.irfft({x}, n={n + 1})"
            ]
        return f"{v} = {r.choice(c)}"

    def s_nn(self) -> str:
        r = self.rng
        names = self.names(lambda t: t.dtype in FLOATS and t.numel() > 0 and t.dim() >= 1)
        # With NaN and infinity it is open what padding, a mask and a mean make of them.
        if not names or self.special:
            return self.s_unary()
        x = self.view(r.choice(names))
        t = eval(x, self.env)
        v = self.fresh()
        if not t.numel() or not t.dim():
            return f"{v} = F.gelu({x})"
        dt, n = t.dtype, t.shape[-1]
        c = [f"F.layer_norm({x}, ({n},), {self.make((n,), dt)}, {self.make((n,), dt)})", f"F.rms_norm({x}, ({n},))", f"F.gelu({x}, approximate='tanh')",
             f"F.mse_loss({x}, {self.make(t.shape, dt)}, reduction={r.choice(['none', 'sum', 'mean'])!r})", f"F.smooth_l1_loss({x}, {self.make(t.shape, dt)})",
             f"F.embedding({self.index((2, 3), 5, negative=False)}, {self.make((5, n), dt)})", f"F.one_hot({self.index((3, 2), 4, negative=False)}, 4)",
             f"F.binary_cross_entropy_with_logits({x}, {self.make(t.shape, dt)})", f"F.cosine_similarity({x}, {self.make(t.shape, dt)}, dim=-1)",
             f"F.huber_loss({x}, {self.make(t.shape, dt)}, delta=0.7)", f"F.kl_div({x}, {self.make(t.shape, dt)}, reduction='sum')"]  # fmt: skip
        if n % 2 == 0:
            c += [f"F.glu({x})"]
        if t.dim() == 2:
            b = t.shape[0]
            red = r.choice(["none", "sum", "mean"])
            c += [f"F.cross_entropy({x}, {self.index((b,), n, negative=False)}, reduction={red!r}, label_smoothing={r.choice([0.0, 0.1])})",
                  f"F.nll_loss({x}, {self.index((b,), n, negative=False)}, reduction={red!r})", f"F.multi_margin_loss({x}, {self.index((b,), n, negative=False)})",
                  f"F.bilinear({x}, {x}, {self.make((3, n, n), dt)})" if n < 20 else f"F.relu({x})", f"F.pdist({x})",
                  f"F.embedding_bag({self.index((2, 3), b, negative=False)}, {x}, mode={r.choice(['sum', 'mean', 'max'])!r})",
                  f"F.batch_norm({x}, {self.make((n,), dt)}.float().abs(), {self.make((n,), dt)}.float().abs(), training=False)" if b else f"F.relu({x})"]  # fmt: skip
        if t.dim() >= 3:
            ch = t.shape[1]
            c += [
                f"F.instance_norm({x})" if t[0, 0].numel() > 1 else f"F.relu({x})",
                f"F.group_norm({x}, {ch}, {self.make((ch,), dt)}, {self.make((ch,), dt)})"
                if t[0].numel() > ch
                else f"F.relu({x})",
            ]
            c += [
                f"F.batch_norm({x}, None, None, {self.make((ch,), dt)}, {self.make((ch,), dt)}, training=True)"
                if t.numel() > 2 * ch
                else f"F.relu({x})"
            ]
        if t.dim() == 3:
            ch = t.shape[1]
            k = r.randint(1, 3)
            pad = r.randint(0, 2)
            c += [f"F.conv1d({x}, {self.make((4, ch, k), dt)}, {self.make((4,), dt)}, stride={r.randint(1, 2)}, padding={pad})",
                  f"F.conv_transpose1d({x}, {self.make((ch, 3, k), dt)}, stride={r.randint(1, 2)})", f"F.max_pool1d({x}, {k})", f"F.avg_pool1d({x}, {k}, padding={k // 2})",
                  f"F.adaptive_avg_pool1d({x}, {r.randint(1, 5)})", f"F.interpolate({x}, size={r.randint(1, 9)}, mode={r.choice(['linear', 'nearest'])!r})",
                  f"F.pad({x}, (1, 1), mode={r.choice(['reflect', 'replicate', 'circular'])!r})", f"F.scaled_dot_product_attention({x}, {x}, {x})",
                  f"F.scaled_dot_product_attention({x}, {x}, {x}, is_causal=True)", f"F.lp_pool1d({x}, 2, {k})", f"F.adaptive_max_pool1d({x}, 2)"]  # fmt: skip
        if t.dim() == 4:
            ch = t.shape[1]
            k = r.randint(1, 3)
            c += [f"F.conv2d({x}, {self.make((4, ch, k, k), dt)}, None, padding={k // 2}, dilation={r.randint(1, 2)})", f"F.conv2d({x}, {self.make((ch * 2, 1, k, k), dt)}, groups={ch}, padding=1)",
                  f"F.conv_transpose2d({x}, {self.make((ch, 3, k, k), dt)}, stride=2, padding={k // 2})", f"F.max_pool2d({x}, 2, padding=1)", f"F.avg_pool2d({x}, 2, ceil_mode=True, padding=1)",
                  f"F.adaptive_avg_pool2d({x}, ({r.randint(1, 3)}, 2))", f"F.interpolate({x}, scale_factor={r.choice([0.5, 1.5, 2.0])}, mode={r.choice(['bilinear', 'nearest', 'bicubic', 'nearest-exact'])!r})",
                  f"F.pad({x}, (1, 2, 1, 0), mode={r.choice(['reflect', 'replicate', 'constant', 'circular'])!r})", f"F.unfold({x}, 2, padding=1)",
                  f"F.grid_sample({x}, {self.make((t.shape[0], 3, 2, 2), dt)}, align_corners={r.choice([True, False])}, padding_mode={r.choice(['zeros', 'border', 'reflection'])!r})",
                  f"F.pixel_unshuffle(F.pad({x}, (0, {t.shape[3] % 2}, 0, {t.shape[2] % 2})), 2)", f"F.scaled_dot_product_attention({x}, {x}, {x}, {self.mask((t.shape[2], t.shape[2]))} | torch.eye({t.shape[2]}, device=dev).bool())",
                  f"F.local_response_norm({x}, 3)", f"F.channel_shuffle({x}, 1)", f"F.max_unpool2d(*F.max_pool2d({x}, 1, return_indices=True), 1)"]  # fmt: skip
        return f"{v} = {r.choice(c)}"

    def s_host(self) -> str:
        """Copies through the host, and objects that travel as bytes."""
        r = self.rng
        x = self.view(self.pick())
        v = self.fresh()
        return r.choice(
            [f"{v} = {x}.detach().cpu().clone().to(dev)", f"{v} = torch.tensor({x}.detach().cpu().tolist(), device=dev)", f"{v} = copy.deepcopy({x}.detach())",
             f"{v} = pickle.loads(pickle.dumps({x}.detach()))", f"{v} = reload({x}.detach())", f"{x}.detach().copy_({x}.detach().cpu().flip(0) if {x}.dim() else {x}.detach().cpu(), non_blocking=True)",
             f"{v} = torch.from_numpy({x}.detach().cpu().float().resolve_conj().resolve_neg().numpy().copy()).to(dev)" if not eval(x, self.env).is_complex() else f"{v} = {x}.resolve_conj()",
             f"{v} = {x}.new_tensor({x}.sum().item())", f"{v} = {x}.data", f"{v} = {x}.new_full((3,), 2)"]
        )  # fmt: skip

    # -- the whole ---------------------------------------------------------------------------------------------------
    def add(self, line: str) -> None:
        """Runs the statement on the CPU; what it leaves must stay small."""
        before = self.env.copy()
        error = execute(line, self.env)
        if error is not None:
            self.env = before
        for n in list(self.env):
            t = self.env[n]
            if n[0] == "v" and (not isinstance(t, torch.Tensor) or t.numel() > LIMIT or t.layout != torch.strided):
                del self.env[n]
        self.lines.append(line)

    def draw(self, length: int) -> list[str]:
        for _ in range(3):
            self.add(self.s_new())
        while len(self.lines) < length:
            try:
                line = self.statement()
            except Exception:  # a tensor that does not fit the statement
                continue
            if self.compiled and execute(line, self.env.copy()) is not None:
                continue
            self.add(line)
        if self.grad:
            self.backward()
        return self.lines

    def backward(self) -> None:
        r = self.rng
        leaves = self.names(lambda t: t.requires_grad and t.is_leaf)
        outs = self.names(lambda t: t.requires_grad and not t.is_leaf)
        if not leaves or not outs:
            return
        picked = r.sample(outs, min(3, len(outs)))
        total = " + ".join(f"({o}.abs().double().sin() * 2).sum()" for o in picked)
        tail = ", allow_unused=True, create_graph=True)"
        self.add(f"g = torch.autograd.grad({total}, [{', '.join(leaves)}]{tail}")
        for i in range(len(leaves)):
            self.add(f"{self.fresh()} = g[{i}]")
        if r.random() < 0.6:
            self.add(
                f"h = torch.autograd.grad(sum((i.sin()).sum() for i in g if i is not None and i.requires_grad), [{', '.join(leaves)}], allow_unused=True)"
            )
            for i in range(len(leaves)):
                self.add(f"{self.fresh()} = h[{i}]")
