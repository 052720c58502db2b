"""A query as a user with a strict type checker writes it. mypy checks this file, a test runs it."""

from datetime import timedelta

import tilt as tl


@tl.reducer
class Vwap:
    """Volume-weighted average price."""

    value: float = 0.0
    volume: float = 0.0

    def acc(self, e: "tl.Value") -> "Vwap":
        """Add a trade."""
        return Vwap(self.value + e.px * e.qty, self.volume + e.qty)  # type: ignore[arg-type]

    def result(self) -> float:
        """Give the price."""
        return self.value / self.volume


@tl.query
def signal(trades: tl.Stream, window: str = "10s") -> tl.Stream:
    """Compare prices with their recent mean."""
    px: tl.Stream = trades["px"]
    recent: tl.Window = px.window(window, min_samples=2)
    z: tl.Stream = (px - recent.mean()) / recent.std()
    side = tl.when(z > 0).then("rich").otherwise("cheap")
    bars = trades.window(tl.tumbling(timedelta(minutes=1))).agg(
        high=tl.col("px").max(), n=tl.len(), vwap=(tl.col("px") * tl.col("qty")).sum() / tl.col("qty").sum()
    )
    return trades.with_columns(z=z, side=side, high=bars["high"], vwap=trades["-1m":].reduce(Vwap))


def main() -> tl.Table:
    """Run it."""
    rows = {"ts": [1, 2, 3, 65], "px": [10.0, 11.0, 9.5, 10.5], "qty": [1.0, 2.0, 1.0, 3.0]}
    result: tl.Table = signal(tl.stream(rows, time="ts", unit="s")).collect(threads=1)
    lookback: str = signal(tl.source("trades", {"ts": "i64", "px": "f64", "qty": "f64"}, time="ts", unit="s")).lookback
    assert lookback == "1m"
    return result


if __name__ == "__main__":
    print(main())
