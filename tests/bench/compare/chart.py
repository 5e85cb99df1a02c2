"""A bar chart of the throughputs, as SVG."""

from xml.sax.saxutils import escape

# (heading, what stands below it), in the order of the picture.
GROUPS = [
    ("One call, one claim", [
        "echo_reserve_256", "ours_reserve_256", "redis_set", "redis_lua", "postgres_64",
        "postgres_16", "etcd_256",
    ]),
    ("64 callers of the C++ client with batching", ["echo_client_64", "ours_client_64"]),
    ("32 claims at once", ["ours_pipeline_32", "redis_lua_32", "redis_set_32", "postgres_32"]),
]  # fmt: skip

COLORS = {"ours": "#1f6feb", "echo": "#9aa4ae"}
OTHER = "#c9a227"
WIDTH, LABELS, BAR, GAP, HEADING = 880, 350, 18, 7, 34


def _color(name: str) -> str:
    return COLORS.get(name.split("_", maxsplit=1)[0], OTHER)


def _text(x: float, y: float, text: str, extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{escape(text)}</text>'


def _bar(y: float, rate: dict, name: str, words: str, scale: float) -> list:
    middle = y + BAR / 2
    low, high = LABELS + rate["min"] * scale, LABELS + rate["max"] * scale
    return [
        _text(LABELS - 8, middle + 4, words, 'text-anchor="end"'),
        f'<rect x="{LABELS}" y="{y:.1f}" width="{rate["median"] * scale:.1f}" height="{BAR}" '
        f'fill="{_color(name)}"/>',
        f'<path d="M{low:.1f} {middle:.1f}H{high:.1f}" stroke="#24292f" stroke-width="1.5"/>',
        _text(high + 8, middle + 4, f"{rate['median']:,.0f}"),
    ]


def draw(rates: dict, words: dict, caption: str) -> str:
    """`rates`: by measurement, median, min and max a second; `words`: by measurement."""
    groups = [(title, [name for name in names if name in rates]) for title, names in GROUPS]
    groups = [(title, names) for title, names in groups if names]
    parts = []
    y = 44.0
    for title, names in groups:
        # Each group has its own scale: what one message carries is not what one call does.
        scale = (WIDTH - LABELS - 90) / max(rates[name]["max"] for name in names)
        parts.append(_text(16, y + 14, title, 'font-weight="bold"'))
        y += HEADING - 8
        for name in names:
            parts += _bar(y, rates[name], name, words[name], scale)
            y += BAR + GAP
        y += 10
    height = y + 24
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}" font-family="sans-serif" font-size="12" fill="#24292f">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        _text(16, 24, "Durable claims a second: median, and from the lowest to the highest round",
              'font-size="15" font-weight="bold"'),
        *parts,
        _text(16, height - 10, caption, 'fill="#57606a" font-size="11"'),
        "</svg>",
        "",
    ])  # fmt: skip
