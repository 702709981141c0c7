"""Measure endpoints under load, tune models, and simulate scaling: a wing of tritonstack.

Scripts call what the commands do: `from tritonstack_sizing import bench, tune, simulate`. Each name is
imported on first use; type checkers read `__init__.pyi`.
"""

from __future__ import annotations

from importlib import import_module

_NAMES = {
    "loads.bench": "LoadOptions bench plan_bench",
    "simulation.simulate": "simulate write_proposal",
    "simulation.options": "SimulationOptions",
    "tuning.tune": "end_search tune",
    "tuning.planning": "TuneOptions plan_tuning",
}
"""Module -> its public names."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
