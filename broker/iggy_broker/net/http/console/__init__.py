"""The web console at `/ui`: what serves it is here, what the browser runs is in `static`."""
