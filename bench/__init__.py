"""Timings of what users wait for, beside what the plain tools need for the same work."""
