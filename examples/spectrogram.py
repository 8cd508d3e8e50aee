"""A spectrogram of a chirp with torch.stft, and the signal back from it, on xpu beside torch CPU."""

from __future__ import annotations

import torch

import xpu_ops

RATE, SECONDS, FRAME, HOP = 16000, 2.0, 512, 128


def chirp() -> torch.Tensor:
    """A tone that rises from 200 Hz to 4 kHz, with noise."""
    t = torch.arange(int(RATE * SECONDS)) / RATE
    phase = 2 * torch.pi * (200 * t + (4000 - 200) / (2 * SECONDS) * t**2)
    return torch.sin(phase) + 0.05 * torch.randn(t.shape, generator=torch.Generator().manual_seed(0))


def analyse(signal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The spectrogram in decibels, the loudest frequency of each frame in Hz, and the signal put together again."""
    window = torch.hann_window(FRAME, device=signal.device)
    spectrum = torch.stft(signal, FRAME, HOP, window=window, return_complex=True)
    power = 10 * spectrum.abs().square().clamp_min(1e-10).log10()
    loudest = spectrum.abs().argmax(0) * (RATE / FRAME)
    return power, loudest, torch.istft(spectrum, FRAME, HOP, window=window, length=signal.numel())


def main() -> None:
    signal = chirp()
    with xpu_ops.fallback.forbid():
        power, loudest, again = (t.cpu() for t in analyse(signal.to("xpu")))
    expected = analyse(signal)
    print(f"frames: {power.shape[1]}, from {loudest[5]:.0f} Hz to {loudest[-6]:.0f} Hz")
    print(f"largest difference from torch CPU: {(power - expected[0]).abs().max():.1e} dB")
    print(f"signal after stft and istft: off by {(again - signal).abs().max():.1e}")
    assert (loudest == expected[1]).all() and (again - signal).abs().max() < 1e-5
    assert (power - expected[0]).abs().median() < 1e-4


if __name__ == "__main__":
    main()
