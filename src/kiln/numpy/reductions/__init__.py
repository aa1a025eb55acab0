"""What is computed along axes: sums, extremes, running totals, statistics, quantiles."""
