// Finds the end of a JSON value that comes character by character.
#pragma once

#include <cstddef>
#include <string>

namespace baton {

// Takes one value. Strings may hold control characters and unknown escapes, which models write: who
// reads the value decides. Not thread-safe.
class JsonScanner {
 public:
  static constexpr size_t kMaxDepth = 256;
  static constexpr size_t kMaxScalarBytes = 64;  // bytes of a number

  enum class Result {
    kMore,  // the value goes on
    kDone,  // the byte was its last
    kBad,   // the byte cannot stand there
  };
  // REQUIRES: every result before was kMore. The value is an object or an array; a scalar alone is
  // kBad.
  Result Push(char byte);

 private:
  enum class State {
    kValue,       // expects the value of a member, or a value behind a comma
    kFirstValue,  // expects an array's first value or its end
    kFirstKey,    // expects an object's first key or its end
    kKey,         // expects a key behind a comma
    kColon,
    kAfterValue,
    kString,
    kEscape,
    kScalar,  // a number, true, false or null
  };
  Result BeginValue(char byte);
  Result Close(char byte);
  Result AfterValue(char byte);

  State state_ = State::kValue;
  bool string_is_key_ = false;
  std::string open_;  // the closing brackets to come, the innermost last
  std::string scalar_;
};

}  // namespace baton
