#include "common/base/status_macros.h"

#include <memory>

#include "gtest/gtest.h"

namespace baton {
namespace {

absl::Status ReturnIfError(const absl::Status& status, int* reached) {
  BATON_RETURN_IF_ERROR(status);
  ++*reached;
  return absl::OkStatus();
}

TEST(ReturnIfError, GoesOnOnlyWhenOk) {
  int reached = 0;
  EXPECT_TRUE(ReturnIfError(absl::OkStatus(), &reached).ok());
  EXPECT_EQ(reached, 1);
  EXPECT_EQ(ReturnIfError(absl::NotFoundError("gone"), &reached), absl::NotFoundError("gone"));
  EXPECT_EQ(reached, 1);
}

absl::StatusOr<int> Sum(absl::StatusOr<std::unique_ptr<int>> a, const absl::StatusOr<int>& b) {
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<int> first, std::move(a));
  int second = 0;
  BATON_ASSIGN_OR_RETURN(second, b);
  return *first + second;
}

TEST(AssignOrReturn, MovesTheValueOutOrReturnsTheStatus) {
  EXPECT_EQ(*Sum(std::make_unique<int>(1), 2), 3);
  EXPECT_EQ(Sum(absl::DataLossError("a"), 2).status(), absl::DataLossError("a"));
  EXPECT_EQ(Sum(std::make_unique<int>(1), absl::AbortedError("b")).status(),
            absl::AbortedError("b"));
}

absl::StatusOr<int> Count(int* evaluations) {
  ++*evaluations;
  return 5;
}
absl::Status EvaluateOnce(int* evaluations) {
  BATON_ASSIGN_OR_RETURN([[maybe_unused]] const int value, Count(evaluations));
  BATON_RETURN_IF_ERROR(Count(evaluations).status());
  return absl::OkStatus();
}

TEST(StatusMacros, EvaluateTheirExpressionOnce) {
  int evaluations = 0;
  EXPECT_TRUE(EvaluateOnce(&evaluations).ok());
  EXPECT_EQ(evaluations, 2);
}

}  // namespace
}  // namespace baton
