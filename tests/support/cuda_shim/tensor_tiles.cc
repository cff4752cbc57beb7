#include "tests/support/cuda_shim/tensor_tiles.h"

#include <cstring>

#include "common/base/float_types.h"

namespace baton::cuda_shim {
namespace {

constexpr int kLanes = 32;

template <float (*kToFloat)(uint16_t)>
void MultiplyTiles(LaneData* lanes) {
  float a[16][16];  // [row, column]
  float b[16][8];
  float d[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    MultiplyData data;
    std::memcpy(&data, lanes[lane].bytes, sizeof(data));
    const int group = lane / 4;
    const int pair = lane % 4 * 2;
    for (int half = 0; half < 2; ++half) {
      const auto element = [half](uint32_t bits) {
        return kToFloat(static_cast<uint16_t>(bits >> (16 * half)));
      };
      for (int i = 0; i < 4; ++i) {
        a[group + i % 2 * 8][pair + half + i / 2 * 8] = element(data.a[i]);
      }
      for (int i = 0; i < 2; ++i) b[pair + half + i * 8][group] = element(data.b[i]);
      for (int i = 0; i < 2; ++i) d[group + i * 8][pair + half] = data.d[2 * i + half];
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) d[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    float out[4];
    for (int i = 0; i < 4; ++i) out[i] = d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
    std::memcpy(lanes[lane].bytes, out, sizeof(out));
  }
}

}  // namespace

void MultiplyF16Tiles(LaneData* lanes) { MultiplyTiles<F16ToF32>(lanes); }
void MultiplyBf16Tiles(LaneData* lanes) { MultiplyTiles<Bf16ToF32>(lanes); }

}  // namespace baton::cuda_shim
