"""Models of tables: scikit-learn, and the pickles that hold them."""
