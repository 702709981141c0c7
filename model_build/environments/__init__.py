"""The packages of served Python models: resolved, trimmed and packed, or taken as conda-pack made them."""
