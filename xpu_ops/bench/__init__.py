"""xpu against torch's CPU backend on the same machine, the same data and the same number of threads."""
