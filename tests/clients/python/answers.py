"""What a session does with each answer, of any client."""


def check(actual, expected):
    if actual != expected:
        raise SystemExit(f"got {actual!r}, not {expected!r}")
