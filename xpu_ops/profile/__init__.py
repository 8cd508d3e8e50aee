"""Where a program spends its time on xpu: behind `xpu-ops profile`."""
