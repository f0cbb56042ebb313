"""The closed loop: days of traffic through the ad engine, which learns from what becomes of its answers."""
