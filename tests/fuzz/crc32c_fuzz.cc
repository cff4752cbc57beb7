// The CRC's kernels give what the portable one gives, of any bytes at any address. The first byte
// is how often the rest is repeated, so that short inputs reach the long loops.
#include <string>

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "tests/fuzz/fuzz_input.h"

namespace baton {
namespace {

void Run(FuzzInput input) {
  const int repeats = 1 + input.Below(64);
  const size_t shift = static_cast<size_t>(input.Below(64));
  const uint32_t before = input.Byte() * 0x01010101u;
  const std::string part = input.Bytes(4096);
  std::string bytes(shift, 'x');
  for (int i = 0; i < repeats; ++i) bytes += part;
  const char* const data = bytes.data() + shift;
  const size_t size = bytes.size() - shift;
  const uint32_t expected = ExtendCrc32cPortable(before, data, size);
  BATON_CHECK(ExtendCrc32c(before, data, size) == expected, "the chosen kernel must give the CRC");
  if (HasCrc32cSse42()) {
    BATON_CHECK(ExtendCrc32cSse42(before, data, size) == expected,
                "the SSE 4.2 kernel must give the CRC");
  }
  if (HasCrc32cAvx512()) {
    BATON_CHECK(ExtendCrc32cAvx512(before, data, size) == expected,
                "the AVX-512 kernel must give the CRC");
  }
  const size_t half = size / 2;
  BATON_CHECK(ExtendCrc32c(ExtendCrc32c(before, data, half), data + half, size - half) == expected,
              "two parts must give the CRC of the whole");
}

}  // namespace
}  // namespace baton

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  baton::Run(baton::FuzzInput(data, size));
  return 0;
}
