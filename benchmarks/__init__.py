"""Benchmarks: speed as ratios within one run, never as seconds to be asserted."""
