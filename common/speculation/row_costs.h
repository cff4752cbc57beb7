// Learns what a row more costs a step.
#pragma once

#include "absl/time/time.h"

namespace baton {

// A step's time is taken to be a fixed part and a part for each row, and fitted to the last steps;
// if these had all as many rows, to what a CPU was seen to do. It changes how many tokens are
// guessed, never which come out. Not thread-safe.
class RowCosts {
 public:
  // A step of `rows` rows, all of sequences that decode, took `duration`.
  void Observe(int rows, absl::Duration duration);
  // How many rows would take as long as the fixed part of a step; not negative.
  double fixed_rows() const;
  // How long a row takes; zero until a step was observed.
  absl::Duration row_time() const;

 private:
  // Weighted sums over the steps, of which later ones count more.
  double weight_ = 0;
  double mean_rows_ = 0;
  double mean_seconds_ = 0;
  double rows_squared_ = 0;  // sum of (rows - mean_rows_)^2
  double rows_seconds_ = 0;  // sum of (rows - mean_rows_) * (seconds - mean_seconds_)
};

}  // namespace baton
