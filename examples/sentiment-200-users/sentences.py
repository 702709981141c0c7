"""The sentences of the document, with their labels. The model is not trained on them."""

SENTENCES = {
    "I love you so much!": "positive",
    "I hate this movie": "negative",
    "Ok, let's see tomorrow.": "neutral",
}
