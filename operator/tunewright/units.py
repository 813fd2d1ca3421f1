"""Unit constants and their printed forms. Used by every layer; imports nothing of the project.

Units are suffixes of names (`_bytes`, `_seconds`, `_flops`, `_bytes_per_second`); these helpers only convert
them for people.
"""

KIB = 1024
MIB = 1024**2
GIB = 1024**3
GB = 10**9
TERA = 10**12


def format_gib(size_bytes: float) -> str:
    """Print a size in GiB with one decimal.

    >>> format_gib(3 * GIB)
    '3.0 GiB'
    """
    return f"{size_bytes / GIB:.1f} GiB"


def format_bytes(size_bytes: float) -> str:
    """Print a size in the largest binary unit that keeps it above one.

    >>> format_bytes(1536)
    '1.5 KiB'
    """
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(size_bytes) >= size:
            return f"{size_bytes / size:.1f} {unit}"
    return f"{size_bytes:.0f} B"


def format_seconds(seconds: float) -> str:
    """Print a duration in the unit people would say.

    >>> format_seconds(0.0123), format_seconds(75), format_seconds(7200)
    ('12.3 ms', '1 min 15 s', '2 h 0 min')
    """
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def format_speed(tokens_per_second: float) -> str:
    """Print a throughput without decimals that nobody measured.

    >>> format_speed(38824.2), format_speed(12.34)
    ('38824', '12.3')
    """
    return f"{tokens_per_second:.0f}" if tokens_per_second >= 100 else f"{tokens_per_second:.3g}"


def six_digits(value: float) -> float:
    """Round to six significant digits: what is written down to be compared, on another machine too.

    >>> six_digits(38824.2345), six_digits(0.0)
    (38824.2, 0.0)
    """
    return float(f"{value:.6g}")
