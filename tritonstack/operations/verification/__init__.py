"""Whether what runs is what was asked for: observed, held against templates, judged, told."""
