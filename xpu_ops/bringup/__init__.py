"""`xpu-ops bringup`: everything that a new device has to show, in one command that writes one archive."""
