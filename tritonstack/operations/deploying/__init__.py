"""What a deploy will do, said before it is done; the CDK that does it; and what it writes down."""
