// What a connection has yet to write, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "router/http/byte_stream.h"

namespace baton {

// Not thread-safe. Holds no memory while it is empty. It has no bound of its own: of events each
// writer waits for `written` before its next, and a whole body comes at once.
class OutputQueue {
 public:
  using Written = std::function<void(bool ok)>;

  // `written` may be null.
  void Append(std::string bytes, Written written);
  // Writes what `stream` takes, and then calls `written` of all that is through. kDone: nothing is
  // left, or others are to have their turn. `bytes` tells how many were written.
  ByteStream::Result Flush(ByteStream& stream);
  // Drops everything, and calls `written` with false.
  void Fail();
  bool empty() const { return begin_ == bytes_.size(); }

 private:
  struct Waiting {
    uint64_t end = 0;  // the bytes of the connection up to here
    Written written;
  };

  void CallWritten();

  std::string bytes_;
  size_t begin_ = 0;              // of those that were not written yet
  uint64_t appended_bytes_ = 0;   // ever
  uint64_t written_bytes_ = 0;    // ever
  std::vector<Waiting> waiting_;  // one or a few
};

}  // namespace baton
