"""xpu_ops.jit: kernels, element-wise operators and reductions from C++ text, and their operators of torch.library."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from xpu_ops import jit

AXPY = """
void axpy(const float* x, float* y, long n, float a) {
  const long i = xpu::global_id();
  if (i < n) y[i] += a * x[i];
}
"""
# Each work-group reverses its part in memory that its items share.
REVERSE = """
void reverse_parts(const float* x, float* y) {
  syclexp::work_group_static<float[256]> shared;
  float* tile = shared;
  const size_t i = xpu::local_id(), at = size_t(xpu::group_id()) * 256;
  tile[i] = x[at + i];
  sycl::group_barrier(sycl::work_group{});
  y[at + i] = tile[255 - i];
}
"""


@pytest.fixture(scope="module")
def axpy() -> jit.kernels.Kernel:
    return jit.kernel(AXPY, "axpy")


def test_kernel(axpy: jit.kernels.Kernel) -> None:
    x, y = torch.randn(1000, device="xpu"), torch.randn(1000, device="xpu")
    expected = y + 2 * x
    axpy(x, y, 1000, 2.0, items=1000)
    torch.testing.assert_close(y, expected)


def test_kernel_with_local_memory() -> None:
    x = torch.randn(512, device="xpu")
    y = torch.empty_like(x)
    jit.kernel(REVERSE, "reverse_parts", local=256)(x, y, groups=2)
    torch.testing.assert_close(y, x.view(2, 256).flip(1).flatten(), rtol=0, atol=0)


@pytest.mark.parametrize("factor", (2, 4, 8))
@pytest.mark.parametrize("index", ("xpu::local_id()", "xpu_local_id(0)"))
def test_local_ids_cut_to_32_bits(factor: int, index: str) -> None:
    """The multiple serves an address and, as an int, a value: see xpu_local_id."""
    source = f"""
void multiples(float* x, int64_t* y) {{
  const size_t i = {index};
  x[{factor} * i] = 1;
  y[i] = int64_t(int32_t({factor} * i)) * 3;
}}
"""
    x, y = torch.zeros(128, device="xpu"), torch.zeros(16, dtype=torch.int64, device="xpu")
    jit.kernel(source, "multiples", local=16)(x, y, groups=1)
    assert y.tolist() == [3 * factor * i for i in range(16)]


def test_several_kernels_of_one_source() -> None:
    module = jit.load_inline("mine", [AXPY, REVERSE], {"axpy": "y += a x", "reverse_parts": "each part backwards"})
    x, y = torch.randn(512, device="xpu"), torch.zeros(512, device="xpu")
    module.axpy(x, y, 512, 3.0, items=512)
    torch.testing.assert_close(y, 3 * x)
    module.reverse_parts(x, y, groups=2)
    assert torch.equal(y, x.view(2, 256).flip(1).flatten())
    assert module.__name__ == "mine" and module.axpy.__doc__ == "y += a x"
    with pytest.raises(ValueError, match="defines no function 'void other"):
        jit.load_inline("mine", AXPY, ["other"])


def test_kernel_on_a_stream(axpy: jit.kernels.Kernel) -> None:
    x, y = torch.ones(4096, device="xpu"), torch.zeros(4096, device="xpu")
    stream = torch.xpu.Stream()
    stream.wait_stream(torch.xpu.current_stream())
    with torch.xpu.stream(stream):
        for _ in range(10):
            axpy(x, y, 4096, 1.0, items=4096)
    stream.synchronize()
    assert y.eq(10).all()


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({0: torch.ones(4)}, ValueError, "axpy: argument x must be on an XPU device, not on cpu"),
        ({1: torch.ones(4, dtype=torch.half, device="xpu")}, TypeError, "axpy: argument y must be torch.float32"),
        ({1: torch.ones(4, 4, device="xpu").t()}, ValueError, "axpy: argument y must be contiguous"),
        ({0: 3}, TypeError, "axpy: argument x must be a tensor, not int"),
        ({3: "2"}, TypeError, "axpy: argument a must be a number, not str"),
        ({2: 4.0}, TypeError, "axpy: argument n must be an integer, not float"),
        ({2: 2**63}, ValueError, "axpy: argument n is 9223372036854775808, which long cannot hold"),
        ({0: torch.ones(4, device="xpu").to_sparse()}, TypeError, "axpy: argument x must be a dense tensor"),
    ],
)
def test_kernel_errors_name_the_argument(
    axpy: jit.kernels.Kernel, change: dict[int, object], error: type[Exception], text: str
) -> None:
    args: list[object] = [torch.ones(4, device="xpu"), torch.ones(4, device="xpu"), 4, 1.0]
    for i, v in change.items():
        args[i] = v
    with pytest.raises(error, match=text):
        axpy(*args, items=4)


def test_kernel_count_errors(axpy: jit.kernels.Kernel) -> None:
    with pytest.raises(TypeError, match="axpy: give either groups= or items="):
        axpy(1)
    with pytest.raises(TypeError, match="axpy: expected 4 arguments, got 1"):
        axpy(1, items=3)
    x, y = torch.ones(4, device="xpu"), torch.ones(4, device="xpu")
    for count, error in ((-1, ValueError), (2.5, TypeError), ("3", TypeError)):
        for name in ("items", "groups"):
            with pytest.raises(error, match=f"axpy: {name} must"):
                axpy(x, y, 4, 1.0, **{name: count})


@pytest.mark.parametrize(("local", "error"), [(0, ValueError), (-4, ValueError), (2.5, TypeError)])
def test_sizes_of_groups_that_cannot_be(local: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="f: local must"):
        jit.kernel("void f(float* y) {}", "f", local=local)


@pytest.mark.parametrize("lanes", [0, 3, 1024])
def test_sizes_of_sub_groups_that_cannot_be(lanes: int) -> None:
    with pytest.raises(ValueError, match=f"f: sub_group must be one of .*16.*, not {lanes}"):
        jit.kernel("void f(float* y) {}", "f", local=32, sub_group=lanes)(torch.ones(4, device="xpu"), groups=1)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("int f() {}", "defines no function 'void f"),
        ("void f(std::vector<int> x) {}", "cannot read the parameter"),
        ("void f(widget x) {}", "parameter x has the type widget"),
        ("void f(long n, long n) {}", "two parameters are named n"),
        ("void f(long n = abc) {}", "f: the default of parameter n must be a number, true or false, not 'abc'"),
    ],
)
def test_signatures_that_cannot_be(source: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        jit.kernel(source, "f")


def test_compile_error_has_the_line() -> None:
    source = "void broken(float* y) {\n  const float a = 1;\n  y[0] = a + undeclared;\n}\n"
    with pytest.raises(jit.CompileError, match=r"line 3: use of undeclared identifier 'undeclared'") as error:
        jit.kernel(source, "broken").compile()
    assert "y[0] = a + undeclared;" in str(error.value)


@pytest.fixture(scope="module")
def gelu_mul() -> jit.pointwise.Elementwise:
    return jit.elementwise("gelu_mul", "float a, float b, float alpha = 1", "xpu::gelu_erf(a) * b * alpha")


def gelu_mul_reference(a: torch.Tensor, b: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
    dtype = torch.result_type(a, b)
    dtype = dtype if dtype.is_floating_point else torch.float32
    return (torch.nn.functional.gelu(a.float()) * b.float() * alpha).to(dtype)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((5, 7), (5, 7)),
        ((5, 7), (7,)),
        ((5, 1, 3), (4, 3)),
        ((3, 40, 50), (40, 1)),
        ((), (6,)),
        ((0, 4), (4,)),
        ((2, 1, 2, 1, 2, 1, 2, 3), (2, 2, 2, 2, 2, 1)),
        ((20000,), (20000,)),
    ],
)
def test_elementwise_shapes(gelu_mul: jit.pointwise.Elementwise, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = torch.randn(a, device="xpu"), torch.randn(b, device="xpu")
    torch.testing.assert_close(gelu_mul(x, y, alpha=2.0), gelu_mul_reference(x, y, 2.0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "dtypes", [("float32", "bfloat16"), ("float16", "float16"), ("int32", "float32"), ("int8", "bool")]
)
def test_elementwise_promotes(gelu_mul: jit.pointwise.Elementwise, dtypes: tuple[str, str]) -> None:
    x, y = (torch.randint(0, 2, (33,), device="xpu").to(getattr(torch, d)) for d in dtypes)
    got, expected = gelu_mul(x, y), gelu_mul_reference(x, y)
    assert got.dtype == expected.dtype
    torch.testing.assert_close(got, expected, rtol=1e-2, atol=1e-2)


def test_elementwise_strides(gelu_mul: jit.pointwise.Elementwise) -> None:
    x, y = torch.randn(6, 8, 10, device="xpu").permute(2, 0, 1), torch.randn(10, 6, 16, device="xpu")[..., ::2]
    got = gelu_mul(x, y)
    assert got.stride() == torch.empty_like(x).stride()
    torch.testing.assert_close(got, gelu_mul_reference(x, y), rtol=1e-5, atol=1e-6)


def test_elementwise_errors(gelu_mul: jit.pointwise.Elementwise) -> None:
    x = torch.ones(3, device="xpu")
    with pytest.raises(TypeError, match="gelu_mul: expected 2 tensors, got 1"):
        gelu_mul(x)
    with pytest.raises(TypeError, match="gelu_mul: unknown argument beta"):
        gelu_mul(x, x, beta=1)
    with pytest.raises(TypeError, match="gelu_mul: argument b has the dtype torch.complex64"):
        gelu_mul(x, x.to(torch.complex64))
    with pytest.raises(ValueError, match="gelu_mul: argument b must be on an XPU device"):
        gelu_mul(x, torch.ones(3))
    for other in (x.to_sparse(), torch.nested.nested_tensor([x], layout=torch.jagged)):
        with pytest.raises(TypeError, match="gelu_mul: argument b must be a dense tensor, not"):
            gelu_mul(x, other)
    with pytest.raises(ValueError, match="must be a C\\+\\+ identifier, not 'two words'"):
        jit.elementwise("two words", "float a", "a")


def test_numbers_that_a_type_cannot_hold() -> None:
    plus = jit.elementwise("plus", "int32_t a, int k = 1", "a + k")
    x = torch.ones(3, dtype=torch.int32, device="xpu")
    assert plus(x, k=2**31 - 2).tolist() == [2**31 - 1] * 3
    for k in (2**31, -(2**31) - 1):
        with pytest.raises(ValueError, match=f"plus: argument k is {k}, which int cannot hold"):
            plus(x, k=k)
    with pytest.raises(TypeError, match="plus: argument k must be an integer, not float"):
        plus(x, k=2.5)


def test_truths_are_defaults() -> None:
    both = jit.elementwise("both", "float a, bool turn = false, float s = 2.f", "turn ? -a * s : a * s")
    op = both.register("xpu_ops_test::both")
    x = torch.ones(2, device="xpu")
    for f in (both, op):
        assert f(x).tolist() == [2, 2]
        assert f(x, turn=True).tolist() == [-2, -2]


def test_reduction_of_one_number() -> None:
    rms = jit.reduction("rms", "float a", "a * a", finish="sycl::sqrt(x / n)")
    x = torch.tensor(-3.0, device="xpu")
    for dim in (None, 0, -1):
        got = rms(x, dim=dim, keepdim=True)
        assert got.shape == ()
        assert got.item() == 3


@pytest.mark.parametrize("dim", [None, 0, 1, -1, (0, 2), ()])
def test_reduction_dimensions(dim: int | tuple[int, ...] | None) -> None:
    rms = jit.reduction("rms", "float a", "a * a", finish="sycl::sqrt(x / n)")
    x = torch.randn(5, 6, 37, device="xpu")
    expected = x.square().mean(dim).sqrt()
    torch.testing.assert_close(rms(x, dim=dim), expected)


def test_reduction_of_a_long_row() -> None:
    largest = jit.reduction("largest", "T a, T b", "a * b", combine="xpu::maximum(a, b)", identity="-xpu::inf<T>()")
    x, y = torch.randn(1 << 17, device="xpu"), torch.randn(1, device="xpu")
    torch.testing.assert_close(largest(x, y), (x * y).amax())
    assert largest(x, y, keepdim=True).shape == (1,)


def test_reduction_of_integers() -> None:
    total = jit.reduction("total", "T a", "a")
    x = torch.randint(-100, 100, (7, 300), device="xpu")
    assert torch.equal(total(x, dim=1), x.sum(1))


def test_reduction_errors() -> None:
    total = jit.reduction("total", "T a", "a")
    with pytest.raises(IndexError, match="total: Dimension out of range"):
        total(torch.ones(3, device="xpu"), dim=1)
    with pytest.raises(ValueError, match="at least one parameter without a default"):
        jit.reduction("none", "float a = 1", "a")


def test_registered_operator() -> None:
    f = jit.elementwise("cube_mul", "float a, float b, float alpha = 1", "a * a * a * b * alpha")

    def setup(
        ctx: object, inputs: tuple[torch.Tensor, ...], keyword_only_inputs: dict[str, float], output: object
    ) -> None:
        ctx.save_for_backward(*inputs)  # type: ignore[attr-defined]
        ctx.alpha = keyword_only_inputs["alpha"]  # type: ignore[attr-defined]

    def backward(ctx: object, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = ctx.saved_tensors  # type: ignore[attr-defined]
        alpha = ctx.alpha  # type: ignore[attr-defined]
        return 3 * a * a * b * alpha * grad, (a * a * a * alpha * grad).sum_to_size(b.shape)

    op = f.register("xpu_ops_tests::cube_mul", backward, setup)
    a = torch.randn(4, 5, device="xpu", requires_grad=True)
    b = torch.randn(5, device="xpu", requires_grad=True)
    torch.library.opcheck(op, (a, b), {"alpha": 2.0})
    expected = (a.detach() ** 3 * b.detach() * 2).sum()
    compiled = torch.compile(lambda x, y: torch.ops.xpu_ops_tests.cube_mul(x, y, alpha=2.0).sum())
    got = compiled(a, b)
    got.backward()
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(b.grad, 2 * (a.detach() ** 3).sum(0))


def test_registered_reduction() -> None:
    op = jit.reduction("sum_squares", "float a", "a * a").register("xpu_ops_tests::sum_squares")
    x = torch.randn(3, 4, device="xpu")
    torch.library.opcheck(op, (x, [1], True))
    torch.testing.assert_close(torch.ops.xpu_ops_tests.sum_squares(x, [1], True), x.square().sum(1, keepdim=True))
