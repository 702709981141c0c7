"""What the product is compared with, as programs of their own, each in its best form."""
