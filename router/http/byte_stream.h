// The bytes of one connection, in plain text or TLS, without waiting.
#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>

#include "absl/strings/string_view.h"

namespace baton {

struct SslFree {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using SslSession = std::unique_ptr<SSL, SslFree>;

// Not thread-safe. Borrows the descriptor, which does not block.
class ByteStream {
 public:
  enum class Outcome {
    kDone,
    kWantsToRead,   // try again when there is something to read
    kWantsToWrite,  // try again when something can be written
    kEnd,           // the other side sends no more
    kBroken,
  };
  struct Result {
    Outcome outcome = Outcome::kDone;
    size_t bytes = 0;  // with kDone: more than none
  };

  // Plain text if `session` is null.
  ByteStream(int descriptor, SslSession session);

  // To be repeated until it is done, before anything else. Nothing to do in plain text.
  Result Handshake();
  Result Read(char* buffer, size_t size);
  Result Write(absl::string_view bytes);
  // Signals the other side that no more is sent.
  void EndWriting();

  // Whether there are bytes to read that polling the descriptor does not show.
  bool has_pending() const { return session_ != nullptr && SSL_pending(session_.get()) > 0; }
  SSL* session() const { return session_.get(); }  // null in plain text

 private:
  // What came of a call of OpenSSL's.
  template <typename Call>
  Result OfSession(Call call);

  const int descriptor_;
  const SslSession session_;
};

}  // namespace baton
