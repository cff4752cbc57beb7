// Prints an answer on standard output while it comes.
#pragma once

#include <string>

#include "baton/v1/generation.pb.h"
#include "client/generate_client.h"

namespace baton {

// One answer's. Not thread-safe. Borrows the answer.
class AnswerPrinter {
 public:
  explicit AnswerPrinter(const Answer& answer) : answer_(answer) {}

  // Prints what `event`, which the answer holds already, lets be shown: the text of the only choice
  // as it comes; of several each as a block under its number, in their order, when it is complete.
  void Take(const v1::GenerateResponse& event);
  // The answer has ended. What was begun gets its newline.
  void End();

 private:
  const Answer& answer_;
  bool printed_ = false;
  size_t next_choice_ = 0;  // the first of several choices that is not printed yet
};

}  // namespace baton
