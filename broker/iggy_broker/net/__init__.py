"""The edge: sockets, sessions and the commands behind them."""
