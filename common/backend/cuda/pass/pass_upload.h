// The arrays of a pass in device memory (operands.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/backend/backend.h"
#include "common/backend/cuda/device/operands.h"
#include "common/backend/cuda/pass/upload_ring.h"

namespace baton {

// What the size of a pass's arrays depends on.
struct PassSize {
  int rows = 0;
  int sequences = 0;
  size_t table_entries = 0;         // entries of all block tables together
  bool embeds = false;              // whether the pass has tokens
  bool scales_queries = false;      // whether the pass has query_scales
  std::vector<size_t> angles = {};  // for each rope: number of cosines, and as many sines
  size_t plan_words = 0;            // words of the attention's plan, if it travels with the arrays
};

// A recorded pass has room for as many sequences as it has rows.
PassSize SizeOf(const Pass& pass);

// Where the arrays of a pass lie in one piece of memory: offsets in bytes, multiples of 32. Recorded
// passes of one shape have the same offsets: the block tables, which differ in length, are last.
struct PassLayout {
  explicit PassLayout(const PassSize& size);

  int sequences = 0;  // sequences that the arrays have room for
  size_t table_of_row = 0;
  size_t positions = 0;
  size_t first_rows = 0;
  size_t tokens = 0;     // [rows] InputTokens
  size_t token_ids = 0;  // [rows] ids of the tokens: room that a kernel fills
  size_t query_scales = 0;
  struct Rope {
    size_t cosines = 0;
    size_t sines = 0;
  };
  std::vector<Rope> ropes = {};
  size_t plan = 0;  // room that the caller fills
  size_t block_tables = 0;
  size_t bytes = 0;  // bytes of all arrays together
};

// Writes the arrays of `pass` to `memory` [layout.bytes], but for the token ids and the plan. Rows of
// padding get the token id 0 and position -1.
void FillPass(const Pass& pass, const PassLayout& layout, uint8_t* memory);
// Views of the arrays that FillPass wrote, once they lie at `memory` on the device: RopesAt has one
// for each of the pass's ropes.
CudaPass PassAt(const Pass& pass, const PassLayout& layout, const uint8_t* memory);
std::vector<CudaRope> RopesAt(const Pass& pass, const PassLayout& layout, const uint8_t* memory);

}  // namespace baton
