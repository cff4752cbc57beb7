// The name of a model file's general.file_type.
#pragma once

#include <cstdint>
#include <string>

namespace baton {

// Returns the type of most tensors, such as "Q4_1". Empty for types without a name here.
std::string FileTypeName(uint64_t file_type);

}  // namespace baton
