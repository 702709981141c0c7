"""CloudWatch's living side: metrics published by this cloud's own services, and alarms that follow them."""
