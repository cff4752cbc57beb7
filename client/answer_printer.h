// Prints an answer on standard output while it comes.
#pragma once

#include <string>

#include "baton/v1/generation.pb.h"
#include "client/generate_client.h"

namespace baton {

// One printer serves one answer, which it borrows. Not thread-safe.
class AnswerPrinter {
 public:
  explicit AnswerPrinter(const Answer& answer) : answer_(answer) {}

  // Prints what can be shown after `event`. A single choice is printed piece by piece as its text
  // arrives. Of several choices each is printed as a block under its number, in index order, once
  // it is complete. REQUIRES: the answer already holds what is in `event`.
  void Take(const v1::GenerateResponse& event);
  // Ends the line of a single choice. Call it when the answer has ended.
  void End();

 private:
  const Answer& answer_;
  bool printed_ = false;
  size_t next_choice_ = 0;  // index of the first choice that is not printed yet, where several are
};

}  // namespace baton
