#include "common/model/config.h"

#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/hash.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

// Reads the keys "<architecture>.<name>" of one file.
class Keys {
 public:
  Keys(const GgufFile& file, absl::string_view architecture)
      : file_(file), prefix_(absl::StrCat(architecture, ".")) {}

  bool Has(absl::string_view name) const { return file_.Has(absl::StrCat(prefix_, name)); }

  // The value of a key that is a count in [1, max].
  absl::StatusOr<int> Count(absl::string_view name, int max) const {
    BATON_ASSIGN_OR_RETURN(const uint64_t value, file_.GetUint(absl::StrCat(prefix_, name)));
    if (value < 1 || value > static_cast<uint64_t>(max)) {
      return Invalid(name, absl::StrCat("is ", value, "; must be 1 to ", max));
    }
    return static_cast<int>(value);
  }
  absl::StatusOr<int> CountOr(absl::string_view name, int max, int otherwise) const {
    return Has(name) ? Count(name, max) : otherwise;
  }

  // The value of a key that is a positive, finite number.
  absl::StatusOr<double> Number(absl::string_view name) const {
    BATON_ASSIGN_OR_RETURN(const double value, file_.GetFloat(absl::StrCat(prefix_, name)));
    if (!(value > 0 && value < 1e30)) {
      return Invalid(name, absl::StrCat("is ", value, "; must be a positive number"));
    }
    return value;
  }
  absl::StatusOr<double> NumberOr(absl::string_view name, double otherwise) const {
    return Has(name) ? Number(name) : otherwise;
  }

  absl::StatusOr<std::string> StringOr(absl::string_view name, const char* otherwise) const {
    if (!Has(name)) return std::string(otherwise);
    BATON_ASSIGN_OR_RETURN(const absl::string_view value,
                           file_.GetString(absl::StrCat(prefix_, name)));
    return std::string(value);
  }

  absl::Status Invalid(absl::string_view name, absl::string_view why) const {
    return absl::InvalidArgumentError(absl::StrCat(file_.path(), ": ", prefix_, name, " ", why));
  }
  absl::Status Unsupported(absl::string_view name, absl::string_view why) const {
    return absl::UnimplementedError(absl::StrCat(file_.path(), ": ", prefix_, name, " ", why));
  }

 private:
  const GgufFile& file_;
  const std::string prefix_;
};

absl::Status ReadSizes(const GgufFile& file, const Keys& keys, ModelConfig& config) {
  BATON_ASSIGN_OR_RETURN(config.layers, keys.Count("block_count", 4096));
  BATON_ASSIGN_OR_RETURN(config.width, keys.Count("embedding_length", 1 << 18));
  BATON_ASSIGN_OR_RETURN(config.feed_forward_width, keys.Count("feed_forward_length", 1 << 20));
  BATON_ASSIGN_OR_RETURN(config.context_length, keys.Count("context_length", 1 << 27));
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr || embedding->dims.size() != 2 || embedding->dims[1] < 1 ||
      embedding->dims[1] > (1 << 24)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": tensor 'token_embd.weight' is missing or has no vocabulary"));
  }
  config.vocab_size = static_cast<int>(embedding->dims[1]);
  if (keys.Has("vocab_size")) {
    BATON_ASSIGN_OR_RETURN(const int vocab_size, keys.Count("vocab_size", 1 << 24));
    if (vocab_size != config.vocab_size) {
      return keys.Invalid("vocab_size",
                          absl::StrCat("is ", vocab_size, ", but 'token_embd.weight' has ",
                                       config.vocab_size, " rows"));
    }
  }
  BATON_ASSIGN_OR_RETURN(const double epsilon, keys.Number("attention.layer_norm_rms_epsilon"));
  config.norm_epsilon = static_cast<float>(epsilon);
  return absl::OkStatus();
}

absl::Status ReadHeads(const Keys& keys, ModelConfig& config) {
  BATON_ASSIGN_OR_RETURN(config.heads, keys.Count("attention.head_count", 4096));
  BATON_ASSIGN_OR_RETURN(config.kv_heads,
                         keys.CountOr("attention.head_count_kv", 4096, config.heads));
  if (config.heads % config.kv_heads != 0) {
    return keys.Invalid("attention.head_count_kv", "does not divide attention.head_count");
  }
  if (!keys.Has("attention.key_length") && config.width % config.heads != 0) {
    return keys.Invalid("attention.head_count", "does not divide embedding_length");
  }
  BATON_ASSIGN_OR_RETURN(
      config.head_dim, keys.CountOr("attention.key_length", 1 << 16, config.width / config.heads));
  BATON_ASSIGN_OR_RETURN(const int value_dim,
                         keys.CountOr("attention.value_length", 1 << 16, config.head_dim));
  if (value_dim != config.head_dim) {
    return keys.Unsupported("attention.value_length", "differs from the keys'; supported is equal");
  }
  if (config.head_dim % 16 != 0 || config.head_dim > 512) {
    return keys.Unsupported("attention.key_length",
                            absl::StrCat("(head dimension) is ", config.head_dim,
                                         "; supported are multiples of 16 up to 512"));
  }
  return absl::OkStatus();
}

absl::Status ReadRope(const Keys& keys, ModelConfig& config) {
  BATON_ASSIGN_OR_RETURN(config.rope_dim,
                         keys.CountOr("rope.dimension_count", 1 << 16, config.head_dim));
  if (config.rope_dim % 2 != 0 || config.rope_dim > config.head_dim) {
    return keys.Invalid("rope.dimension_count", "must be even and at most the head dimension");
  }
  BATON_ASSIGN_OR_RETURN(config.rope_base, keys.NumberOr("rope.freq_base", 10000));
  BATON_ASSIGN_OR_RETURN(const std::string scaling, keys.StringOr("rope.scaling.type", "none"));
  if (scaling == "linear") {
    BATON_ASSIGN_OR_RETURN(config.rope_linear_scale, keys.Number("rope.scaling.factor"));
  } else if (scaling != "none") {
    return keys.Unsupported("rope.scaling.type",
                            absl::StrCat("is '", scaling, "'; supported are none and linear"));
  } else {
    BATON_ASSIGN_OR_RETURN(config.rope_linear_scale, keys.NumberOr("rope.scale_linear", 1));
  }
  if (config.rope_base < 1 || config.rope_linear_scale < 1e-3) {
    return keys.Invalid("rope", "base must be at least 1 and scaling.factor at least 0.001");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ModelConfig::FromGguf(const GgufFile& file) {
  ModelConfig config;
  BATON_ASSIGN_OR_RETURN(const absl::string_view architecture,
                         file.GetString("general.architecture"));
  config.architecture = std::string(architecture);
  if (architecture != "llama" && architecture != "qwen2") {
    return absl::UnimplementedError(absl::StrCat(file.path(), ": general.architecture is '",
                                                 architecture, "'; supported are llama and qwen2"));
  }
  if (file.Has("general.name")) {
    BATON_ASSIGN_OR_RETURN(const absl::string_view name, file.GetString("general.name"));
    config.name = std::string(name);
  }
  const Keys keys(file, architecture);
  if (keys.Has("expert_count")) {
    return keys.Unsupported("expert_count", "is set: mixtures of experts are not supported");
  }
  if (keys.Has("attention.sliding_window")) {
    return keys.Unsupported("attention.sliding_window", "is set: only full attention is supported");
  }
  BATON_RETURN_IF_ERROR(ReadSizes(file, keys, config));
  BATON_RETURN_IF_ERROR(ReadHeads(keys, config));
  // GGUF stores the heads of "llama" so that the dimensions of a rotated pair are neighbours.
  config.rope_pairs = architecture == "qwen2" ? RopePairs::kHalfSplit : RopePairs::kInterleaved;
  BATON_RETURN_IF_ERROR(ReadRope(keys, config));
  return config;
}

std::string ModelConfig::Digest() const {
  Sha256 sha;
  sha.Update("baton model config 1\n");
  for (const int value : {layers, width, feed_forward_width, heads, kv_heads, head_dim, vocab_size,
                          context_length, static_cast<int>(rope_pairs), rope_dim}) {
    sha.UpdateInteger(int64_t{value});
  }
  for (const double value : {double{norm_epsilon}, rope_base, rope_linear_scale}) {
    sha.UpdateInteger(std::bit_cast<uint64_t>(value));
  }
  return sha.Finish();
}

KvLayout ModelConfig::MakeKvLayout(int block_size, KvType dtype) const {
  return {.layers = layers,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .block_size = block_size,
          .dtype = dtype};
}

}  // namespace baton
