#include "prefill_worker/kv_buffer.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/crc32c.h"
#include "common/rpc/kv_wire.h"

namespace baton {
namespace {

// One reference for each slice and one for the builder; deletes itself with the last.
class Pin {
 public:
  explicit Pin(std::function<void()> released) : released_(std::move(released)) {}
  void Add() { references_.fetch_add(1, std::memory_order_relaxed); }
  static void Remove(void* pin) {
    auto* self = static_cast<Pin*>(pin);
    if (self->references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    self->released_();
    delete self;
  }

 private:
  std::atomic<int> references_ = 1;
  const std::function<void()> released_;
};

}  // namespace

grpc::ByteBuffer MakeKvBuffer(const internal::v1::KvDataHeader& header, const KvBlocks& blocks,
                              std::function<void()> released) {
  const int first = static_cast<int>(header.first_token());
  const int end = first + static_cast<int>(header.token_count());
  const int first_layer = static_cast<int>(header.first_layer());
  const std::string header_bytes = header.SerializeAsString();
  const size_t payload_bytes =
      size_t{header.layer_count()} * header.token_count() * 2 * blocks.layout.row_bytes();

  auto* pin = new Pin(std::move(released));
  std::vector<grpc::Slice> slices;
  slices.emplace_back(EncodeKvDataPrefix(
      header_bytes, Crc32c(header_bytes.data(), header_bytes.size()), payload_bytes));
  const auto add = [&](uint8_t* bytes, size_t size) {
    pin->Add();
    slices.emplace_back(bytes, size, &Pin::Remove, pin);
  };
  for (int layer = first_layer; layer < first_layer + static_cast<int>(header.layer_count());
       ++layer) {
    blocks.ForEachRun(layer, KvLayout::kKeys, first, end, add);
    blocks.ForEachRun(layer, KvLayout::kValues, first, end, add);
  }
  grpc::ByteBuffer buffer(slices.data(), slices.size());
  slices.clear();
  Pin::Remove(pin);
  return buffer;
}

}  // namespace baton
