"""The gated delta rule (Yang et al., arXiv:2412.06464) and the convolution before it, under the names of `_xpu_C`.

Sequences of one length are computed together, and a sequence in pieces of 64 tokens by products of matrices.
"""

from __future__ import annotations

import itertools
from collections import defaultdict

import torch
from torch import Tensor
from torch.nn import functional

from xpu_ops.vllm.kernels.common import require
from xpu_ops.vllm.kernels.registry import operator

_PIECE = 64


def _split(
    qkvz: Tensor, ba: Tensor, keys: int, values: int, key_dim: int, value_dim: int, tokens: int, parts: int, plain: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The inputs of the convolution (tokens, channels), the gates z, b and a, from projections.

    Projections come as q, k, v, z and b, a one after another (`plain`), or all of one key head after those of the last.
    """
    keys, values = keys // parts, values // parts
    each = values // keys
    qkvz, ba = qkvz[:tokens], ba[:tokens]
    sizes = [key_dim, key_dim, each * value_dim, each * value_dim]
    if plain:
        q, k, v, z = qkvz.split([keys * s for s in sizes], -1)
        b, a = ba.chunk(2, -1)
    else:
        q, k, v, z = qkvz.view(tokens, keys, sum(sizes)).split(sizes, -1)
        b, a = ba.view(tokens, keys, 2 * each).split([each, each], -1)
    mixed = torch.cat([t.reshape(tokens, -1) for t in (q, k, v)], -1)
    return (
        mixed, z.reshape(tokens, values, value_dim), b.reshape(tokens, values).contiguous(),
        a.reshape(tokens, values).contiguous(),
    )  # fmt: skip


def _heads(mixed: Tensor, keys: int, values: int, key_dim: int, value_dim: int) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = mixed.split([keys * key_dim, keys * key_dim, values * value_dim], -1)
    return (
        q.unflatten(-1, (keys, key_dim)).contiguous(), k.unflatten(-1, (keys, key_dim)).contiguous(),
        v.unflatten(-1, (values, value_dim)).contiguous(),
    )  # fmt: skip


def _convolve(window: Tensor, weights: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    """The convolution of each channel over (sequences, history + length, channels), without the history, in float32."""
    width = weights.size(1)
    length = window.size(1) - width + 1
    taps = weights.float().t()
    y = window[:, :length].float() * taps[0]
    for i in range(1, width):
        y.addcmul_(window[:, i : i + length].float(), taps[i])
    if bias is not None:
        y.add_(bias.float())
    require(activation in ("silu", "swish", "", "none"), f"causal_conv1d: unknown activation {activation!r}")
    return functional.silu(y) if activation in ("silu", "swish") else y


def _lengths(begins: Tensor) -> dict[int, list[tuple[int, int]]]:
    """Which sequences have a length, with the first token of each."""
    starts = begins.tolist()
    out: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for i, (first, last) in enumerate(itertools.pairwise(starts)):
        if last > first:
            out[last - first].append((i, first))
    return out


def _group(members: list[tuple[int, int]], length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The sequences of a group, and their tokens (sequences, length)."""
    sequence, first = torch.tensor(members, device=device).unbind(1)
    return sequence, first[:, None] + torch.arange(length, device=device)


def _initial(states: Tensor, slots: Tensor, known: Tensor | None) -> Tensor:
    start = states.index_select(0, slots)
    if known is None:
        return start
    return torch.where(known.to(torch.bool).view(-1, *([1] * (states.dim() - 1))), start, 0)


def _accepted(states: Tensor, slots: Tensor, accepted: Tensor) -> Tensor:
    """The states after the last accepted token of each sequence, whose steps have the slots (sequences, steps)."""
    last = (accepted[: slots.size(0), None] - 1).clamp(min=0).to(torch.int64)
    return states.index_select(0, slots.gather(1, last).squeeze(1).to(torch.int64))


@operator(
    "_xpu_C",
    "causal_conv1d_non_spec(Tensor! z, Tensor projected_states_qkvz, Tensor projected_states_ba, int num_k_heads, "
    "int num_v_heads, int head_k_dim, int head_v_dim, Tensor! conv_state, Tensor conv_weights, Tensor? conv_bias, "
    "str activation, int num_prefills, int num_decodes, int num_spec_decodes, Tensor? has_initial_state, "
    "Tensor non_spec_query_start_loc, Tensor? non_spec_token_indx, Tensor non_spec_state_indices_tensor, "
    "int num_actual_tokens, int tp_size, bool reorder_input) -> Tensor[]",
)
def causal_conv1d_non_spec(
    z: Tensor,
    qkvz: Tensor,
    ba: Tensor,
    keys: int,
    values: int,
    key_dim: int,
    value_dim: int,
    states: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    activation: str,
    num_prefills: int,
    num_decodes: int,
    num_spec_decodes: int,
    known: Tensor | None,
    begins: Tensor,
    tokens: Tensor | None,
    slots: Tensor,
    count: int,
    parts: int,
    plain: bool,
) -> list[Tensor]:
    mixed, gate, b, a = _split(qkvz, ba, keys, values, key_dim, value_dim, count, parts, plain)
    if tokens is None:
        z[:count].copy_(gate)
    else:
        tokens = tokens.to(torch.int64)
        z.index_copy_(0, tokens, gate[tokens])
        mixed, b, a = mixed[tokens], b[tokens], a[tokens]
    out = torch.zeros_like(mixed)
    history = weights.size(1) - 1
    for length, members in _lengths(begins).items():
        sequence, at = _group(members, length, mixed.device)
        slot = slots[sequence].to(torch.int64)
        window = torch.cat(
            (_initial(states, slot, None if known is None else known[sequence]).to(mixed.dtype), mixed[at]), 1
        )
        states.index_copy_(0, slot, window[:, window.size(1) - history :].to(states.dtype))
        out[at] = _convolve(window, weights, bias, activation).to(mixed.dtype)
    return [*_heads(out, keys // parts, values // parts, key_dim, value_dim), b, a]


@operator(
    "_xpu_C",
    "causal_conv1d_spec(Tensor! z, Tensor projected_states_qkvz, Tensor projected_states_ba, int num_k_heads, "
    "int num_v_heads, int head_k_dim, int head_v_dim, Tensor! conv_state, Tensor conv_weights, Tensor? conv_bias, "
    "str activation, int num_prefills, int num_decodes, int num_spec_decodes, Tensor spec_query_start_loc, "
    "Tensor spec_token_indx, Tensor spec_state_indices_tensor, Tensor num_accepted_tokens, int num_actual_tokens, "
    "int tp_size, bool reorder_input) -> Tensor[]",
)
def causal_conv1d_spec(
    z: Tensor,
    qkvz: Tensor,
    ba: Tensor,
    keys: int,
    values: int,
    key_dim: int,
    value_dim: int,
    states: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    activation: str,
    num_prefills: int,
    num_decodes: int,
    sequences: int,
    begins: Tensor,
    tokens: Tensor,
    slots: Tensor,
    accepted: Tensor,
    count: int,
    parts: int,
    plain: bool,
) -> list[Tensor]:
    mixed, gate, b, a = _split(qkvz, ba, keys, values, key_dim, value_dim, count, parts, plain)
    length = slots.size(1)
    tokens = tokens[: sequences * length].to(torch.int64)
    z.index_copy_(0, tokens, gate[tokens])
    rows = mixed[tokens].view(sequences, length, -1)
    window = torch.cat((_accepted(states, slots[:sequences], accepted).to(mixed.dtype), rows), 1)
    history = weights.size(1) - 1
    states.index_copy_(
        0, slots[:sequences, length - 1].to(torch.int64), window[:, window.size(1) - history :].to(states.dtype)
    )
    out = _convolve(window, weights, bias, activation).to(mixed.dtype).flatten(0, 1)
    return [*_heads(out, keys // parts, values // parts, key_dim, value_dim), b[tokens], a[tokens]]


def _normed(x: Tensor, repeat: int) -> Tensor:
    """Vectors of length one in float32, each head as often as it has value heads, heads before tokens."""
    y = x.float()
    y = y * torch.rsqrt(y.square().sum(-1, keepdim=True) + 1e-6)
    return y.repeat_interleave(repeat, -2).transpose(-2, -3)


def _rows(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, decay: Tensor, at: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The operands of the rule for the tokens `at` (sequences, length)."""
    repeat, scale = v.size(1) // q.size(1), q.size(2) ** -0.5
    return (
        _normed(q[at], repeat) * scale, _normed(k[at], repeat), v[at].float().transpose(1, 2), beta[at].transpose(1, 2),
        decay[at].transpose(1, 2),
    )  # fmt: skip


def _rule(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, decay: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs and last states of sequences of one length.

    A step is S = g S + beta (v - g S k) k^T, and its output S q.

    Args:
        q, k: (..., heads, tokens, key dim), float32, of length one; q is scaled.
        v: (..., heads, tokens, value dim).
        beta, decay: (..., heads, tokens); decay is the logarithm of g.
        state: (..., heads, value dim, key dim).

    Source: the representation of products of Householder matrices (Bischof and Van Loan), by pieces.
    """
    outputs = []
    for first in range(0, q.size(-2), _PIECE):
        part = slice(first, min(first + _PIECE, q.size(-2)))
        qp, kp, vp, bp = q[..., part, :], k[..., part, :], v[..., part, :], beta[..., part].unsqueeze(-1)
        total = decay[..., part].cumsum(-1)
        along = torch.exp(total).unsqueeze(-1)
        between = torch.exp((total.unsqueeze(-1) - total.unsqueeze(-2)).tril())
        right = bp * (vp - along * torch.matmul(kp, state.mT))
        size = kp.size(-2)
        if size > 1:
            left = torch.eye(size, device=q.device) + (bp * between * torch.matmul(kp, kp.mT)).tril(-1)
            right = torch.linalg.solve_triangular(left, right, upper=False, unitriangular=True)
        seen = (between * torch.matmul(qp, kp.mT)).tril()
        outputs.append(along * torch.matmul(qp, state.mT) + torch.matmul(seen, right))
        rest = torch.exp(total[..., -1:] - total).unsqueeze(-1)
        state = along[..., -1:, :] * state + torch.matmul((right * rest).mT, kp)
    return torch.cat(outputs, -2), state


def _gates(b: Tensor, a: Tensor, a_log: Tensor, dt_bias: Tensor) -> tuple[Tensor, Tensor]:
    return torch.sigmoid(b.float()), -torch.exp(a_log.float()) * functional.softplus(a.float() + dt_bias.float())


@operator(
    "_xpu_C",
    "gated_delta_rule_non_spec(Tensor! core_attn_out, Tensor q, Tensor k, Tensor v, Tensor b, Tensor a, int num_v_heads, "
    "int head_v_dim, Tensor A_log, Tensor dt_bias, Tensor! ssm_state, int num_prefills, int num_decodes, "
    "int num_spec_decodes, Tensor? has_initial_state, Tensor non_spec_query_start_loc, Tensor? non_spec_token_indx, "
    "Tensor non_spec_state_indices_tensor, int num_actual_tokens, int tp_size) -> ()",
)
def gated_delta_rule_non_spec(
    out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    b: Tensor,
    a: Tensor,
    values: int,
    value_dim: int,
    a_log: Tensor,
    dt_bias: Tensor,
    states: Tensor,
    num_prefills: int,
    num_decodes: int,
    num_spec_decodes: int,
    known: Tensor | None,
    begins: Tensor,
    tokens: Tensor | None,
    slots: Tensor,
    count: int,
    parts: int,
) -> None:
    beta, decay = _gates(b, a, a_log, dt_bias)
    for length, members in _lengths(begins).items():
        sequence, at = _group(members, length, q.device)
        slot = slots[sequence].to(torch.int64)
        state = _initial(states, slot, None if known is None else known[sequence]).float()
        y, state = _rule(*_rows(q, k, v, beta, decay, at), state)
        states.index_copy_(0, slot, state.to(states.dtype))
        to = at if tokens is None else tokens.to(torch.int64)[at]
        out[to] = y.transpose(1, 2).to(out.dtype)


@operator(
    "_xpu_C",
    "gated_delta_rule_spec(Tensor! core_attn_out, Tensor q, Tensor k, Tensor v, Tensor b, Tensor a, int num_v_heads, "
    "int head_v_dim, Tensor A_log, Tensor dt_bias, Tensor! ssm_state, int num_prefills, int num_decodes, "
    "int num_spec_decodes, Tensor spec_query_start_loc, Tensor spec_token_indx, Tensor spec_state_indices_tensor, "
    "Tensor num_accepted_tokens, int num_actual_tokens, int tp_size) -> ()",
)
def gated_delta_rule_spec(
    out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    b: Tensor,
    a: Tensor,
    values: int,
    value_dim: int,
    a_log: Tensor,
    dt_bias: Tensor,
    states: Tensor,
    num_prefills: int,
    num_decodes: int,
    sequences: int,
    begins: Tensor,
    tokens: Tensor,
    slots: Tensor,
    accepted: Tensor,
    count: int,
    parts: int,
) -> None:
    beta, decay = _gates(b, a, a_log, dt_bias)
    length = slots.size(1)
    at = torch.arange(sequences * length, device=q.device).view(sequences, length)
    rows = _rows(q, k, v, beta, decay, at)
    state = _accepted(states, slots[:sequences], accepted).float()
    tokens = tokens.to(torch.int64)
    for step in range(length):  # every step's state is kept: the next call begins where tokens were accepted
        one = slice(step, step + 1)
        qs, ks, vs, bs, ds = (r[:, :, one] for r in rows)
        y, state = _rule(qs, ks, vs, bs, ds, state)
        states.index_copy_(0, slots[:sequences, step].to(torch.int64), state.to(states.dtype))
        out[tokens[at[:, step]]] = y.squeeze(2).to(out.dtype)


@operator(
    "_xpu_C",
    "gdn_attention(Tensor! core_attn_out, Tensor! z, Tensor projected_states_qkvz, Tensor projected_states_ba, "
    "int num_k_heads, int num_v_heads, int head_k_dim, int head_v_dim, Tensor! conv_state, Tensor! ssm_state, "
    "Tensor conv_weights, Tensor? conv_bias, str activation, Tensor A_log, Tensor dt_bias, int num_prefills, "
    "int num_decodes, int num_spec_decodes, Tensor? has_initial_state, Tensor? non_spec_query_start_loc, "
    "Tensor? non_spec_token_indx, Tensor? non_spec_state_indices_tensor, Tensor? spec_query_start_loc, "
    "Tensor? spec_token_indx, Tensor? spec_state_indices_tensor, Tensor? num_accepted_tokens, int num_actual_tokens, "
    "int tp_size, bool reorder_input) -> ()",
)
def gdn_attention(
    out: Tensor,
    z: Tensor,
    qkvz: Tensor,
    ba: Tensor,
    keys: int,
    values: int,
    key_dim: int,
    value_dim: int,
    conv_states: Tensor,
    states: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    activation: str,
    a_log: Tensor,
    dt_bias: Tensor,
    num_prefills: int,
    num_decodes: int,
    num_spec_decodes: int,
    known: Tensor | None,
    begins: Tensor | None,
    tokens: Tensor | None,
    slots: Tensor | None,
    spec_begins: Tensor | None,
    spec_tokens: Tensor | None,
    spec_slots: Tensor | None,
    accepted: Tensor | None,
    count: int,
    parts: int,
    plain: bool,
) -> None:
    inputs = (z, qkvz, ba, keys, values, key_dim, value_dim, conv_states, weights, bias, activation)
    numbers = (num_prefills, num_decodes, num_spec_decodes)
    gates = (values, value_dim, a_log, dt_bias, states)
    if num_spec_decodes and spec_begins is not None and spec_tokens is not None and spec_slots is not None:
        require(accepted is not None, "gdn_attention: speculative tokens need num_accepted_tokens")
        which = (spec_begins, spec_tokens, spec_slots, accepted)
        mixed = causal_conv1d_spec(*inputs, *numbers, *which, count, parts, plain)
        gated_delta_rule_spec(out, *mixed, *gates, *numbers, *which, count, parts)
    if num_prefills + num_decodes and begins is not None and slots is not None:
        few = num_prefills + num_decodes
        rest = (known, begins[: few + 1], tokens if num_spec_decodes else None, slots[:few])
        mixed = causal_conv1d_non_spec(*inputs, *numbers, *rest, count, parts, plain)
        gated_delta_rule_non_spec(out, *mixed, *gates, *numbers, *rest, count, parts)
