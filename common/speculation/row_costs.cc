#include "common/speculation/row_costs.h"

#include <algorithm>

namespace baton {
namespace {

constexpr double kUsualFixedRows = 6.5;  // 4 rows take 1.4 times as long as one
constexpr double kMostFixedRows = 1000;  // a GPU's steps hardly grow with their rows
constexpr double kUsualWeight = 4;       // rows^2 of observations that the usual costs stand for
constexpr double kKeptOfStep = 0.98;     // weight that a step keeps when another is observed

}  // namespace

void RowCosts::Observe(int rows, absl::Duration duration) {
  const double seconds = absl::ToDoubleSeconds(duration);
  if (rows < 1 || seconds <= 0) return;
  weight_ = kKeptOfStep * weight_ + 1;
  const double from_mean_rows = rows - mean_rows_;
  const double from_mean_seconds = seconds - mean_seconds_;
  mean_rows_ += from_mean_rows / weight_;
  mean_seconds_ += from_mean_seconds / weight_;
  rows_squared_ = kKeptOfStep * rows_squared_ + from_mean_rows * (rows - mean_rows_);
  rows_seconds_ = kKeptOfStep * rows_seconds_ + from_mean_rows * (seconds - mean_seconds_);
}

double RowCosts::fixed_rows() const {
  if (weight_ == 0) return kUsualFixedRows;
  const double usual_slope = mean_seconds_ / (mean_rows_ + kUsualFixedRows);
  const double slope =
      (rows_seconds_ + kUsualWeight * usual_slope) / (rows_squared_ + kUsualWeight);
  if (slope * (mean_rows_ + kMostFixedRows) <= mean_seconds_) return kMostFixedRows;
  return std::max(0.0, mean_seconds_ / slope - mean_rows_);
}

absl::Duration RowCosts::row_time() const {
  if (weight_ == 0) return absl::ZeroDuration();
  return absl::Seconds(mean_seconds_ / (mean_rows_ + fixed_rows()));
}

}  // namespace baton
