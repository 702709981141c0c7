"""The corrections of moto can be reverted temporarily."""

from tritonstack_local.moto_patches import correct, uncorrected


class Library:
    def told(self):
        return "as it comes"


def test_corrections_can_be_reverted_temporarily():
    correct((Library, "told", lambda _: "corrected"), (Library, "more", lambda _: "added"))
    correct((Library, "told", lambda _: "corrected again"))
    assert (Library().told(), Library().more()) == ("corrected again", "added")
    with uncorrected():
        assert Library().told() == "as it comes"
        assert not hasattr(Library, "more")
    assert (Library().told(), Library().more()) == ("corrected again", "added")
