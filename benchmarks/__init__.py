"""Measurements beside published figures and peers: one JSON line each."""
