#include "common/jinja/workspace.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "common/base/clock.h"
#include "common/base/status_macros.h"

namespace baton::jinja {
namespace {

// Steps between two looks at the clock: some 0.2 ms.
constexpr size_t kStepsPerCheck = 2048;

absl::StatusOr<int> ChildDepth(const Value& value) {
  int depth = 0;
  if (const List* list = value.list()) depth = list->depth;
  if (const Dict* dict = value.dict()) depth = dict->depth;
  if (depth >= kMaxContainerDepth) {
    return absl::ResourceExhaustedError(
        absl::StrCat("lists are nested deeper than ", kMaxContainerDepth));
  }
  return depth;
}

}  // namespace

Workspace::Workspace(const std::atomic<bool>* cancelled)
    : cancelled_(cancelled), begin_(ThreadCpuTime()) {}

absl::Status Workspace::Step(size_t count) {
  if (count > kMaxSteps - steps_) {
    steps_ = kMaxSteps;
    return absl::ResourceExhaustedError(absl::StrCat("more than ", kMaxSteps, " steps"));
  }
  steps_ += count;
  if (steps_ < next_check_) return absl::OkStatus();
  next_check_ = steps_ + kStepsPerCheck;
  if (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed)) {
    return absl::CancelledError("the rendering was cancelled");
  }
  if (ThreadCpuTime() - begin_ <= kMaxCpuTime) return absl::OkStatus();
  steps_ = kMaxSteps;
  return absl::ResourceExhaustedError(
      absl::StrCat("more than ", absl::FormatDuration(kMaxCpuTime), " of CPU time"));
}

absl::Status Workspace::CheckRoom(size_t bytes) const {
  if (bytes > kMaxMemoryBytes - memory_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMaxMemoryBytes >> 20, " MiB of memory"));
  }
  return absl::OkStatus();
}

absl::Status Workspace::Take(size_t bytes) {
  BATON_RETURN_IF_ERROR(CheckRoom(bytes));
  memory_bytes_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<Value> Workspace::NewText(Text text) {
  BATON_RETURN_IF_ERROR(Take(text.MemoryBytes()));
  texts_.push_back(std::move(text));
  return Value{&texts_.back()};
}

absl::StatusOr<Value> Workspace::NewText(absl::string_view bytes, bool trusted) {
  TextBuilder builder(*this);
  BATON_RETURN_IF_ERROR(builder.Append(bytes, trusted));
  return builder.Finish();
}

absl::StatusOr<Value> Workspace::NewSlice(const Text& text, size_t begin, size_t end) {
  TextBuilder builder(*this);
  BATON_RETURN_IF_ERROR(builder.AppendSlice(text, begin, end));
  return builder.Finish();
}

absl::StatusOr<Value> Workspace::NewList(std::vector<Value> items, ListTraits traits) {
  BATON_RETURN_IF_ERROR(Take(sizeof(List) + items.capacity() * sizeof(Value)));
  int depth = 0;
  bool trusted = traits.trusted_size;
  for (const Value& item : items) {
    BATON_RETURN_IF_ERROR(StepByte());
    BATON_ASSIGN_OR_RETURN(const int child_depth, ChildDepth(item));
    depth = std::max(depth, child_depth);
    trusted = trusted && TrustOf(item);
  }
  lists_.push_back({.items = std::move(items),
                    .depth = depth + 1,
                    .generator = traits.generator,
                    .trusted_size = traits.trusted_size,
                    .trusted = trusted});
  return Value{&lists_.back()};
}

absl::StatusOr<Value> Workspace::NewDict(const std::vector<std::pair<Value, Value>>& items,
                                         const Text* json_source) {
  BATON_RETURN_IF_ERROR(Take(sizeof(Dict) + items.size() * 2 * sizeof(Value)));
  Dict dict;
  dict.json_source = json_source;
  dict.items.reserve(items.size());
  int depth = 0;
  for (const auto& [key, value] : items) {
    BATON_RETURN_IF_ERROR(Step());
    if (key.text() == nullptr && !key.IsNumber()) {
      return absl::InvalidArgumentError(absl::StrCat("a dict key cannot be a ", Describe(key)));
    }
    BATON_ASSIGN_OR_RETURN(const int child_depth, ChildDepth(value));
    depth = std::max(depth, child_depth);
    // Whether two keys are one decides the number of items.
    dict.trusted_size = dict.trusted_size && TrustOf(key);
    dict.trusted = dict.trusted && TrustOf(key) && TrustOf(value);
    bool replaced = false;
    for (auto& [old_key, old_value] : dict.items) {
      BATON_ASSIGN_OR_RETURN(replaced, Equals(*this, old_key, key));
      if (!replaced) continue;
      old_value = value;
      break;
    }
    if (!replaced) dict.items.emplace_back(key, value);
  }
  dict.depth = depth + 1;
  dicts_.push_back(std::move(dict));
  return Value{&dicts_.back()};
}

absl::StatusOr<Value> Workspace::NewNamespace(
    std::vector<std::pair<absl::string_view, Value>> attributes) {
  BATON_RETURN_IF_ERROR(
      Take(sizeof(Namespace) + attributes.capacity() * sizeof(attributes.front())));
  namespaces_.push_back({.attributes = std::move(attributes)});
  return Value{&namespaces_.back()};
}

absl::StatusOr<Loop*> Workspace::NewLoop(const List* items) {
  BATON_RETURN_IF_ERROR(Take(sizeof(Loop)));
  loops_.push_back({.items = items});
  return &loops_.back();
}

absl::Status Held::Take(size_t bytes) {
  BATON_RETURN_IF_ERROR(workspace_.Take(bytes));
  bytes_ += bytes;
  return absl::OkStatus();
}

void Held::GiveBack(size_t bytes) {
  workspace_.GiveBack(bytes);
  bytes_ -= bytes;
}

absl::Status TextBuilder::MakeRoom(size_t bytes, size_t runs) {
  if (bytes > kMaxTextBytes - text_.size()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMaxTextBytes >> 20, " MiB of text"));
  }
  BATON_RETURN_IF_ERROR(workspace_.Step(1 + bytes / 256 + runs / 4));
  const size_t old_bytes = held_.bytes();
  const size_t new_bytes = text_.MemoryBytesWithRoom(bytes, runs);
  if (new_bytes == old_bytes) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(held_.Take(new_bytes));  // the old memory lives until the text has moved
  text_.MakeRoom(bytes, runs);
  held_.GiveBack(old_bytes);
  return absl::OkStatus();
}

absl::Status TextBuilder::Append(absl::string_view bytes, bool trusted) {
  BATON_RETURN_IF_ERROR(MakeRoom(bytes.size(), 1));
  text_.Append(bytes, trusted);
  return absl::OkStatus();
}

absl::Status TextBuilder::AppendSlice(const Text& text, size_t begin, size_t end) {
  if (begin >= end) return workspace_.Step();
  BATON_RETURN_IF_ERROR(MakeRoom(end - begin, text.RunsBetween(begin, end)));
  text_.AppendSlice(text, begin, end);
  return absl::OkStatus();
}

absl::StatusOr<Value> TextBuilder::Finish() {
  held_.GiveBack(held_.bytes());
  return workspace_.NewText(std::move(text_));
}

absl::Status ListBuilder::MakeRoom(size_t items) {
  if (items_.size() + items <= items_.capacity()) return absl::OkStatus();
  const size_t capacity = std::max({items_.size() + items, 2 * items_.capacity(), size_t{4}});
  const size_t old_bytes = held_.bytes();
  BATON_RETURN_IF_ERROR(held_.Take(capacity * sizeof(Value)));  // as in TextBuilder
  items_.reserve(capacity);
  held_.GiveBack(old_bytes);
  return absl::OkStatus();
}

absl::Status ListBuilder::Add(const Value& item) {
  BATON_RETURN_IF_ERROR(workspace_.Step());
  BATON_RETURN_IF_ERROR(MakeRoom(1));
  items_.push_back(item);
  return absl::OkStatus();
}

absl::Status ListBuilder::AddAll(absl::Span<const Value> items) {
  BATON_RETURN_IF_ERROR(workspace_.Step(1 + items.size() / 16));
  BATON_RETURN_IF_ERROR(MakeRoom(items.size()));
  items_.insert(items_.end(), items.begin(), items.end());
  return absl::OkStatus();
}

absl::StatusOr<Value> ListBuilder::Finish() {
  held_.GiveBack(held_.bytes());
  return workspace_.NewList(std::move(items_), traits_);
}

}  // namespace baton::jinja
