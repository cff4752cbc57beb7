// Packs rows of a GGUF tensor into the CPU's groups, and reads single values out of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/gguf/ggml_type.h"

namespace baton {

// Bytes of a packed group of 16 rows; 0 for a type that is not supported or whose blocks do not
// divide `columns`.
size_t PackedGroupBytes(GgmlType type, size_t columns);

// Whether the numbers of a row of the file can be packed: an MXFP4 block whose exponent is 255 is
// NaN. Other types take every bit pattern. `file` is the row's first byte.
bool ValidRow(GgmlType type, const uint8_t* file, int columns);

// Packs one row of the file into lane `lane` of its group. `file` is the row's first byte.
void PackRow(GgmlType type, const uint8_t* file, int columns, int lane, uint8_t* group);

// Writes the row in lane `lane` of a group as floats to `out` [columns]. Each is the value that the
// file's format defines, rounded once.
void DequantiseRow(GgmlType type, const uint8_t* group, int columns, int lane, float* out);

}  // namespace baton
