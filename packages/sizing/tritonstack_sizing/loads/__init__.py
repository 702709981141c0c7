"""Load tests: arrivals, sending, histograms, warm-up, and the comparison of two runs."""
