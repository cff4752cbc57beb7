#include "router/front/file_type_name.h"

namespace baton {

std::string FileTypeName(uint64_t file_type) {
  switch (file_type) {
    case 0:
      return "F32";
    case 1:
      return "F16";
    case 2:
      return "Q4_0";
    case 3:
      return "Q4_1";
    case 7:
      return "Q8_0";
    case 32:
      return "BF16";
    default:
      return "";
  }
}

}  // namespace baton
