"""The page of runs in the browser, served on loopback."""
