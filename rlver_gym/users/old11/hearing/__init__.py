"""English as the embedded user hears it: words, sentences, acts, questions. Knows no card."""
