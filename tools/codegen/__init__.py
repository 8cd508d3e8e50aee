"""Reads the operator manifest and writes device modules, kernel tables, dispatcher registrations and test rows."""
