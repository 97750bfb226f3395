"""Which labels are wrong, and what a person does about it."""
