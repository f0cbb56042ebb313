"""What the studio's pages ask the server: plans of phrases, an auction taken apart, models, arms, judgements."""
