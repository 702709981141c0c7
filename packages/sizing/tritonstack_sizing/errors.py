"""Errors that several commands raise."""

from __future__ import annotations

from tritonstack.base.errors import TritonstackError


class NoMeasurementsError(TritonstackError):
    """A trace, a period of captured requests, or a saved result of `bench` does not exist, is damaged, or is
    empty; the endpoint answered no request; or nothing tells `simulate` how fast one instance answers. The
    message says which, and the help what to measure.
    """

    code = "TS914"
    title = "No usable measurements"


class SearchError(TritonstackError):
    """`tritonstack tune` finds no setting to search on this machine or another search runs in the project, or
    no scaling meets the objective of `simulate`. The message has the reason. No file has changed.
    """

    code = "TS916"
    title = "Search found no setting"
