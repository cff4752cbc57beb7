#include "common/base/crc32c.h"

namespace baton {

uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t size) {
  static const auto extend = HasCrc32cAvx512()  ? &ExtendCrc32cAvx512
                             : HasCrc32cSse42() ? &ExtendCrc32cSse42
                                                : &ExtendCrc32cPortable;
  return extend(crc, data, size);
}

}  // namespace baton
