"""Application Auto Scaling: targets, policies, and schedules that change instance counts."""
