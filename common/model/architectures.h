// What the supported architectures do differently from one another: a table with one row for each.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/backend/backend.h"

namespace baton {

// Where the norms of a sublayer f stand.
enum class NormPlaces {
  kBefore,  // x += f(norm(x))
  kAfter,   // x += norm(f(x))
  kAround,  // x += norm(f(norm(x)))
};

// Which values of queries and keys are normalised together, before they are rotated.
enum class QkNorm {
  kNone,
  kHead,  // each head by itself, all with the same gain
  kRow,   // all heads of a row
};

enum class ExpertsRule {
  kNone,
  kOptional,  // in every layer if the file says how many there are
  kRequired,  // in every layer
};

// The period of windows in which no layer sees all keys.
inline constexpr int kNoGlobalLayer = 1 << 30;

// A row describes decoder layers with RMSNorm, rotary positions, grouped-query attention and a gated
// feed-forward. Fields that a row leaves out are those of llama.
struct Architecture {
  const char* name;  // general.architecture, and the prefix of its keys
  // GGUF stores the heads of some architectures so that the dimensions of a pair are neighbours.
  RopePairs rope_pairs;
  NormPlaces norm_places = NormPlaces::kBefore;
  QkNorm qk_norm = QkNorm::kNone;
  GateFunction gate_function = GateFunction::kSilu;
  ExpertsRule experts = ExpertsRule::kNone;
  // The last layer of each group of this size sees all keys, and the others those of the window, if
  // the file has one (attention.sliding_window). 0: there are no windows.
  int window_period = 0;
  // True: layers with a window rotate without scaling, by local_rope_base unless the file says
  // another base (rope.freq_base_swa). 0: by the base of the others.
  bool plain_local_rope = false;
  double local_rope_base = 0;
  int unrotated_period = 0;     // size of groups whose last layer does not rotate; 0: none
  bool rounded_yarn = true;     // the ends of YaRN's ramp are whole numbers of pairs
  bool sinks = false;           // every head of every layer has a sink
  bool output_bias = false;     // attention's output has a bias
  bool root_embedding = false;  // the embedding is scaled by the root of the width
  int width_scaled_layers = 0;  // models with this many layers scale attention by width / heads
  // Which of OptionalKeys() it may have.
  absl::Span<const char* const> keys = {};
};

// The row of an architecture; null: it is not supported.
const Architecture* FindArchitecture(absl::string_view name);
// The names of all rows, such as "llama, qwen2 and qwen3".
std::string SupportedArchitectures();
// The keys, without the architecture's prefix, that change what is computed and that not every
// architecture has. A file of another architecture that sets one is refused.
absl::Span<const char* const> OptionalKeys();
bool MayHave(const Architecture& architecture, absl::string_view key);

}  // namespace baton
