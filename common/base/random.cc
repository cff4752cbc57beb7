#include "common/base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "common/base/check.h"

namespace baton {

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t done = 0; done < count;) {
    const ssize_t got = getrandom(bytes.data() + done, count - done, 0);
    if (got < 0 && errno == EINTR) continue;
    BATON_CHECK(got > 0, "getrandom must return random bytes");
    done += static_cast<size_t>(got);
  }
  return bytes;
}

uint64_t RandomUint64() {
  uint64_t value;
  std::memcpy(&value, RandomBytes(sizeof(value)).data(), sizeof(value));
  return value;
}

}  // namespace baton
