#include "decode_worker/receive_checks.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/base/kv_type_name.h"
#include "common/base/log.h"
#include "common/base/numerics.h"
#include "common/base/status_macros.h"
#include "common/handoff/kv_digest.h"
#include "common/handoff/kv_wire_choice.h"
#include "common/protocol/identity_text.h"
#include "common/protocol/layer_states.h"

namespace baton {

using internal::v1::AttemptKey;
using internal::v1::KvDataHeader;
using internal::v1::OutputToken;
using internal::v1::PushCommit;
using internal::v1::PushOpen;

bool SameKey(const AttemptKey& a, const AttemptKey& b) {
  // tests/planted_bugs: attempt_not_compared
  return a.request_id_high() == b.request_id_high() && a.request_id_low() == b.request_id_low() &&
         a.choice() == b.choice() && a.attempt() == b.attempt();
}

bool SameSecret(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<uint8_t>(a[i]) ^ static_cast<uint8_t>(b[i]));
  }
  return difference == 0;
}

absl::Status CheckIdentity(const ReceiveConfig& config, const PushOpen& open) {
  if (SameIdentity(open.identity(), config.identity)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the prefill worker runs ", IdentityText(open.identity()),
                   ", this decode worker ", IdentityText(config.identity)));
}

namespace {

absl::Status CheckShape(const ReceiveConfig& config, const PushOpen& open) {
  const auto mismatch = [](const std::string& what) {
    return absl::FailedPreconditionError(absl::StrCat("push open: ", what));
  };
  const internal::v1::KvShape& theirs = open.shape();
  const internal::v1::KvShape& ours = config.shape;
  if (theirs.layers() != ours.layers() || theirs.kv_heads() != ours.kv_heads() ||
      theirs.head_dim() != ours.head_dim()) {
    return mismatch("shape.layers, kv_heads or head_dim differ from this worker's");
  }
  if (absl::Status same = CheckSameLayerStates(ours, theirs); !same.ok()) {
    return mismatch(std::string(same.message()));
  }
  if (config.strict_kv_dtype && theirs.dtype() != ours.dtype()) {
    return mismatch(absl::StrCat("shape.dtype is ", LogSafe(theirs.dtype()),
                                 ", this worker's KV is ", ours.dtype(),
                                 ", and it runs with --strict-kv-dtype"));
  }
  const auto wire = KvTypeFromName(open.wire_dtype());
  if (!wire.ok() || !TakesWireType(theirs, *wire, ours)) {
    return mismatch(absl::StrCat("wire_dtype is ", LogSafe(open.wire_dtype()),
                                 ", this worker takes ", absl::StrJoin(ours.wire_dtypes(), ", ")));
  }
  if (theirs.block_size() == 0 || theirs.block_size() % kKvPageTokens != 0) {
    return mismatch("shape.block_size is not a multiple of 16");
  }
  if (open.token_count() != static_cast<uint32_t>(config.token_ids.size())) {
    return mismatch("token_count differs from the sequence's");
  }
  return absl::OkStatus();
}

absl::Status CheckPageHashes(const ReceiveConfig& config, const PushOpen& open,
                             const std::string& stored_numerics) {
  const auto& theirs = open.page_hashes();
  const std::vector<uint64_t> ours =
      stored_numerics == config.shape.numerics()
          ? config.page_hashes
          : PageHashes(config.identity, config.cache_salt, stored_numerics, config.token_ids);
  if (std::equal(theirs.begin(), theirs.end(), ours.begin(), ours.end())) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "push open: page_hashes differ: the prefill worker used other tokens, another salt or other "
      "numerics than this sequence");
}

}  // namespace

absl::StatusOr<PushTerms> CheckOpen(const ReceiveConfig& config, const PushOpen& open) {
  BATON_RETURN_IF_ERROR(CheckShape(config, open));
  PushTerms terms{.wire = *KvTypeFromName(open.wire_dtype())};
  const std::string numerics = StoredNumerics(open.shape(), terms.wire, config.shape);
  BATON_RETURN_IF_ERROR(CheckPageHashes(config, open, numerics));
  const bool own_numerics = numerics == config.shape.numerics();
  terms.exact = own_numerics && Numerics(numerics).bits_are_equal();
  if (!own_numerics) terms.numerics = numerics;
  return terms;
}

// tests/planted_bugs: message_header_checks
absl::Status CheckHeader(const ReceiveConfig& config, const KvWireFormat& wire,
                         const CarriedTokens& carried, const KvDataHeader& header,
                         size_t payload_bytes) {
  const auto refuse = [](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("KvData header: ", what));
  };
  if (!SameKey(header.key(), config.key)) return refuse("key of another attempt");
  if (header.sequence_number() == 0) return refuse("sequence_number is 0");
  if (header.state_kind() != internal::v1::LAYER_STATE_KIND_ROWS) {
    return refuse(absl::StrCat("state_kind is ", LayerStateKindText(header.state_kind()),
                               ", which this version does not carry"));
  }
  const auto layers = static_cast<uint32_t>(config.layout.layers);
  if (header.layer_count() == 0 || header.layer_count() > layers ||
      header.first_layer() > layers - header.layer_count()) {
    return refuse("layers out of range");
  }
  const auto tokens = static_cast<uint32_t>(config.token_ids.size());
  if (header.token_count() == 0 || header.token_count() > tokens ||
      header.first_token() > tokens - header.token_count()) {
    return refuse("tokens out of range");
  }
  for (uint32_t i = 0; i < header.layer_count(); ++i) {
    const auto layer = static_cast<int>(header.first_layer() + i);
    if (static_cast<int>(header.first_token()) >= carried.First(layer)) continue;
    return refuse(absl::StrCat("token ", header.first_token(), " of layer ", layer,
                               ", which carries the tokens from ", carried.First(layer), " on"));
  }
  const uint32_t end = header.first_token() + header.token_count();
  if (header.first_token() % kKvPageTokens != 0 || (end % kKvPageTokens != 0 && end != tokens)) {
    return refuse("tokens are not whole pages");
  }
  if (header.first_kv_head() != 0 ||
      header.kv_head_count() != static_cast<uint32_t>(config.layout.kv_heads)) {
    return refuse("kv heads are not all of the model's");
  }
  const size_t bytes = size_t{header.layer_count()} * header.token_count() * 2 * wire.row_bytes();
  if (payload_bytes != bytes) return refuse("payload size differs from the ranges'");
  const size_t pages = size_t{header.layer_count()} *
                       static_cast<size_t>(KvPages(static_cast<int>(header.token_count())));
  if (static_cast<size_t>(header.page_crc32c_size()) != pages) {
    return refuse("page_crc32c is not one for each layer and page");
  }
  return absl::OkStatus();
}

absl::Status CheckCheckpoint(const ReceiveConfig& config, int checkpointed_tokens,
                             const internal::v1::PushCheckpoint& checkpoint) {
  const uint32_t end = checkpoint.end_token();
  const auto tokens = static_cast<uint32_t>(config.token_ids.size());
  if (end > tokens || end <= static_cast<uint32_t>(checkpointed_tokens) ||
      (end % kKvPageTokens != 0 && end != tokens)) {
    return absl::InvalidArgumentError("checkpoint: end_token out of range");
  }
  return absl::OkStatus();
}

absl::Status CheckFirstTokens(const ReceiveConfig& config, const PushCommit& commit) {
  const auto refuse = [](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("commit: ", what));
  };
  if (commit.first_tokens_size() != config.choices) {
    return refuse("first_tokens is not one for each choice");
  }
  uint32_t choice = config.key.choice();
  bool goes_on = false;
  for (const OutputToken& token : commit.first_tokens()) {
    if (token.choice() != choice++) return refuse("first_tokens.choice is another's");
    if (token.output_index() != static_cast<uint32_t>(config.token_ids.size()) -
                                    static_cast<uint32_t>(config.prompt_length)) {
      return refuse("first_tokens.output_index is not the next");
    }
    if (token.token().token_id() >= static_cast<uint32_t>(config.vocab_size)) {
      return refuse("first_tokens.token_id is outside the vocabulary");
    }
    if (token.guessed() || token.refused_guesses() > 0) {  // the digest leaves these out
      return refuse("first_tokens.guessed is for what a decode worker makes");
    }
    goes_on |= !token.ends_sequence();
  }
  if (!goes_on) return refuse("first_tokens.ends_sequence: nothing to decode");
  return absl::OkStatus();
}

}  // namespace baton
