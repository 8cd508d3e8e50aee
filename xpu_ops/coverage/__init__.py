"""What runs natively on xpu: every ATen overload of the installed torch with a verdict."""
