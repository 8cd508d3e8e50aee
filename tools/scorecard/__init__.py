"""Suites that others wrote, run on xpu: `make scorecard` writes docs/scorecard.md."""
