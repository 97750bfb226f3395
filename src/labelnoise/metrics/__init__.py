"""What is measured: accuracy of predictions, precision and recall of selections."""
