// The bytes that a connection still has to write, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "absl/strings/cord.h"

#include "router/http/byte_stream.h"

namespace baton {

// Not thread-safe. Holds no memory while it is empty, and does not copy long pieces; of a cord,
// whose parts may be shared, it copies at most 64 KiB at a time. It has no bound of its own: a
// writer of events waits for `written` before its next event, and a whole body is one piece.
class OutputQueue {
 public:
  using Written = std::function<void(bool ok)>;

  // `written` may be null.
  void Append(std::string bytes, Written written);
  void Append(absl::Cord bytes, Written written);
  // Writes what `stream` takes, and then calls `written` of all that is through. kDone: nothing is
  // left, or others are to have their turn. `bytes` becomes the number of written bytes.
  ByteStream::Result Flush(ByteStream& stream);
  // Drops everything, and calls `written` with false.
  void Fail();
  bool empty() const { return pieces_.empty(); }

 private:
  struct Waiting {
    uint64_t end = 0;  // the bytes of the connection up to here
    Written written;
  };

  struct Piece {
    std::string bytes;     // not empty
    absl::Cord more = {};  // what follows them
  };

  // Moves the next bytes of the piece from `more` to `bytes`.
  static void Cut(Piece& piece);
  void CallWritten();

  std::list<Piece> pieces_;       // in their order
  size_t begin_ = 0;              // bytes of the first piece that were written
  uint64_t appended_bytes_ = 0;   // ever
  uint64_t written_bytes_ = 0;    // ever
  std::vector<Waiting> waiting_;  // one or a few
};

}  // namespace baton
