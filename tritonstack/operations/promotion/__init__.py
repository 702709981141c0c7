"""From one environment into another: what fits, which gates are open, and how bytes get there."""
