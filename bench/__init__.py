"""Measurements: each prints ratios against a bare baseline of the same interleaved run."""
