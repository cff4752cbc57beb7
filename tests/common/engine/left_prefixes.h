// The plain model of retained prefixes: what a broken attempt left for the next one at its request.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace baton {

class LeftPrefixes {
 public:
  struct Left {  // at the most
    std::vector<int32_t> tokens;
    bool foreign = false;  // computed under other numerics
    absl::Time expiry;
  };

  void Leave(const std::string& resume_key, Left left) { left_[resume_key] = std::move(left); }
  // Nobody takes it any more.
  void Drop(const std::string& resume_key) { left_.erase(resume_key); }
  // Empty: nothing was left.
  std::vector<int32_t> TokensFor(const std::string& resume_key) const {
    const auto found = left_.find(resume_key);
    return found == left_.end() ? std::vector<int32_t>() : found->second.tokens;
  }

  // An attempt may go on with its first `held` tokens.
  void CheckTaken(const std::string& resume_key, const std::vector<int32_t>& token_ids, int held,
                  bool foreign, absl::Time now) const {
    const auto found = left_.find(resume_key);
    ASSERT_NE(found, left_.end()) << "gets what nobody left for it";
    const Left& left = found->second;
    ASSERT_EQ(left.foreign, foreign);
    ASSERT_GT(left.expiry, now);
    ASSERT_LE(static_cast<size_t>(held), left.tokens.size());
    ASSERT_TRUE(std::equal(token_ids.begin(), token_ids.begin() + held, left.tokens.begin()));
  }

 private:
  std::map<std::string, Left> left_;
};

}  // namespace baton
