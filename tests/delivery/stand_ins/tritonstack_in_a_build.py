"""The command line itself, in a build that the embedded cloud runs.

A build sees no process but its own, so the one thing that is played is that the clouds outside are running.
"""

from local_cloud import process

process.is_running = lambda _pid, _ticks: True

from cli.main import main  # noqa: E402

main()
