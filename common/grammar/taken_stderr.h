// XGrammar reports what it ignores by lines on stderr.
#pragma once

#include <iostream>
#include <sstream>
#include <string>

namespace baton {

// Takes what is written to std::cerr while it lives; one may live within another. REQUIRES: no
// other thread writes to std::cerr.
class TakenStderr {
 public:
  TakenStderr() : before_(std::cerr.rdbuf(text_.rdbuf())) {}
  ~TakenStderr() { std::cerr.rdbuf(before_); }
  TakenStderr(const TakenStderr&) = delete;
  TakenStderr& operator=(const TakenStderr&) = delete;

  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

}  // namespace baton
