// The checks that ReceiveMachine makes before it trusts a message.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/base/kv_type_name.h"
#include "common/base/log.h"
#include "common/handoff/kv_wire_choice.h"
#include "decode_worker/receive_machine.h"

namespace baton {

using internal::v1::KvDataHeader;
using internal::v1::OutputToken;
using internal::v1::PushCommit;
using internal::v1::PushOpen;

absl::Status ReceiveMachine::CheckShape(const PushOpen& open) const {
  const auto mismatch = [](const std::string& what) {
    return absl::FailedPreconditionError(absl::StrCat("push open: ", what));
  };
  const internal::v1::KvShape& theirs = open.shape();
  const internal::v1::KvShape& ours = config_.shape;
  if (theirs.layers() != ours.layers() || theirs.kv_heads() != ours.kv_heads() ||
      theirs.head_dim() != ours.head_dim()) {
    return mismatch("shape.layers, kv_heads or head_dim differ from this worker's");
  }
  if (config_.strict_kv_dtype && theirs.dtype() != ours.dtype()) {
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
  if (open.token_count() != static_cast<uint32_t>(token_count_)) {
    return mismatch("token_count differs from the sequence's");
  }
  return absl::OkStatus();
}

absl::Status ReceiveMachine::CheckPageHashes(const PushOpen& open,
                                             const std::string& stored_numerics) const {
  const auto& theirs = open.page_hashes();
  const std::vector<uint64_t> ours =
      stored_numerics == config_.shape.numerics()
          ? config_.page_hashes
          : PageHashes(config_.identity, config_.cache_salt, stored_numerics, config_.token_ids);
  if (std::equal(theirs.begin(), theirs.end(), ours.begin(), ours.end())) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "push open: page_hashes differ: other tokens, salt or numerics than this sequence's");
}

absl::Status ReceiveMachine::CheckHeader(const KvDataHeader& header, size_t payload_bytes) const {
  const auto refuse = [](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("KvData header: ", what));
  };
  if (!SameKey(header.key(), config_.key)) return refuse("key of another attempt");
  if (header.sequence_number() == 0) return refuse("sequence_number is 0");
  const auto layers = static_cast<uint32_t>(config_.layout.layers);
  if (header.layer_count() == 0 || header.layer_count() > layers ||
      header.first_layer() > layers - header.layer_count()) {
    return refuse("layers out of range");
  }
  const auto tokens = static_cast<uint32_t>(token_count_);
  if (header.token_count() == 0 || header.token_count() > tokens ||
      header.first_token() > tokens - header.token_count() ||
      header.first_token() < static_cast<uint32_t>(start_token_)) {
    return refuse("tokens out of range");
  }
  const uint32_t end = header.first_token() + header.token_count();
  if (header.first_token() % kKvPageTokens != 0 || (end % kKvPageTokens != 0 && end != tokens)) {
    return refuse("tokens are not whole pages");
  }
  if (header.first_kv_head() != 0 ||
      header.kv_head_count() != static_cast<uint32_t>(config_.layout.kv_heads)) {
    return refuse("kv heads are not all of the model's");
  }
  const size_t bytes = size_t{header.layer_count()} * header.token_count() * 2 * wire_.row_bytes();
  if (payload_bytes != bytes) return refuse("payload size differs from the ranges'");
  const size_t pages = size_t{header.layer_count()} *
                       static_cast<size_t>(KvPages(static_cast<int>(header.token_count())));
  if (static_cast<size_t>(header.page_crc32c_size()) != pages) {
    return refuse("page_crc32c is not one for each layer and page");
  }
  return absl::OkStatus();
}

absl::Status ReceiveMachine::CheckFirstTokens(const PushCommit& commit) const {
  const auto refuse = [](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("commit: ", what));
  };
  if (commit.first_tokens_size() != config_.choices) {
    return refuse("first_tokens is not one for each choice");
  }
  uint32_t choice = config_.key.choice();
  bool goes_on = false;
  for (const OutputToken& token : commit.first_tokens()) {
    if (token.choice() != choice++) return refuse("first_tokens.choice is another's");
    if (token.output_index() != static_cast<uint32_t>(token_count_ - config_.prompt_length)) {
      return refuse("first_tokens.output_index is not the next");
    }
    if (token.token().token_id() >= static_cast<uint32_t>(config_.vocab_size)) {
      return refuse("first_tokens.token_id is outside the vocabulary");
    }
    goes_on |= !token.ends_sequence();
  }
  if (!goes_on) return refuse("first_tokens.ends_sequence: nothing to decode");
  return absl::OkStatus();
}

bool ReceiveMachine::Covered(int first_layer, int end_layer, int first_page, int end_page) const {
  for (int layer = first_layer; layer < end_layer; ++layer) {
    for (int page = first_page; page < end_page; ++page) {
      if (PageAt(layer, page) != Page::kCovered) return false;
    }
  }
  return true;
}

bool ReceiveMachine::CoveredBefore(int end_token) const {
  return Covered(0, crcs_.layers(), start_token_ / kKvPageTokens, KvPages(end_token));
}

std::string ReceiveMachine::Digest(int end_token, absl::Span<const OutputToken> first_tokens) {
  return digester_.Digest({.identity = config_.identity,
                           .token_ids = config_.token_ids,
                           .start_token = start_token_,
                           .end_token = end_token,
                           .first_tokens = first_tokens,
                           .crcs = crcs_});
}

}  // namespace baton
