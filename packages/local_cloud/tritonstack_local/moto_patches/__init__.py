"""Corrections of moto: where its services must behave differently to match AWS."""
