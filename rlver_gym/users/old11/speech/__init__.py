"""What the embedded user says: answers, reactions, disclosures. Knows no weights and no points."""
