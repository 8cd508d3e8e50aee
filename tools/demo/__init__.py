"""`make demo`: trains two small models on the xpu device beside the CPU."""
