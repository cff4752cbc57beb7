#include "common/tokenizer/bpe_encoder.h"

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

struct Model {
  std::array<int32_t, 256> byte_ids;
  std::vector<BpeEncoder::Merge> merges;
};

// A model with tokens of the letters a and b, whose merges join tokens that exist. "c" has no
// token.
Model RandomModel(std::mt19937& random) {
  Model model;
  model.byte_ids.fill(BpeEncoder::kNoToken);
  std::vector<std::string> tokens = {"a", "b"};
  model.byte_ids['a'] = 0;
  model.byte_ids['b'] = 1;
  std::map<std::string, int32_t> ids = {{"a", 0}, {"b", 1}};
  const size_t merges = random() % 12;
  for (size_t i = 0; i < merges; ++i) {
    const auto left = static_cast<int32_t>(random() % tokens.size());
    const auto right = static_cast<int32_t>(random() % tokens.size());
    const std::string text = tokens[static_cast<size_t>(left)] + tokens[static_cast<size_t>(right)];
    const auto [found, is_new] = ids.try_emplace(text, static_cast<int32_t>(tokens.size()));
    if (is_new) tokens.push_back(text);
    model.merges.push_back({left, right, found->second});
  }
  std::shuffle(model.merges.begin(), model.merges.end(), random);
  return model;
}

// BPE by its definition: the leftmost pair of the lowest rank merges until no pair has a merge.
std::vector<int32_t> NaiveEncode(const Model& model, const std::string& piece) {
  std::vector<int32_t> ids;
  for (const char byte : piece) ids.push_back(model.byte_ids[static_cast<uint8_t>(byte)]);
  std::erase(ids, BpeEncoder::kNoToken);
  bool merged = true;
  while (merged) {
    merged = false;
    for (const BpeEncoder::Merge& merge : model.merges) {
      for (size_t i = 0; i + 1 < ids.size() && !merged; ++i) {
        if (ids[i] != merge.left || ids[i + 1] != merge.right) continue;
        ids[i] = merge.merged;
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        merged = true;
      }
      if (merged) break;
    }
  }
  return ids;
}

TEST(BpeEncoder, MergesAsTheDefinitionSays) {
  std::mt19937 random(1);
  BpeEncoder::Scratch scratch;
  for (int round = 0; round < 50'000; ++round) {
    const Model model = RandomModel(random);
    std::string piece(random() % 24, '\0');
    for (char& byte : piece) byte = "aaaabbbbc"[random() % 9];
    std::vector<int32_t> ids;
    const std::optional<size_t> left_out =
        BpeEncoder(model.byte_ids, model.merges).Encode(piece, scratch, ids);
    ASSERT_EQ(ids, NaiveEncode(model, piece)) << piece;
    ASSERT_EQ(left_out.value_or(std::string::npos), piece.find('c')) << piece;
  }
}

TEST(BpeEncoder, TheLeftmostOfEqualPairsMergesFirst) {
  std::array<int32_t, 256> byte_ids;
  byte_ids.fill(BpeEncoder::kNoToken);
  byte_ids['a'] = 0;
  const BpeEncoder encoder(byte_ids, {{.left = 0, .right = 0, .merged = 1}});
  BpeEncoder::Scratch scratch;
  std::vector<int32_t> ids;
  encoder.Encode("aaa", scratch, ids);
  EXPECT_THAT(ids, ElementsAre(1, 0));
}

TEST(BpeEncoder, HeapOperationsAreLinearInThePiece) {
  std::mt19937 random(2);
  BpeEncoder::Scratch scratch;
  for (int round = 0; round < 200; ++round) {
    const Model model = RandomModel(random);
    const BpeEncoder encoder(model.byte_ids, model.merges);
    std::string piece(10'000, 'a');
    if (round % 2 == 0) {
      for (char& byte : piece) byte = "ab"[random() % 2];
    }
    const uint64_t before = scratch.heap_operations;
    std::vector<int32_t> ids;
    encoder.Encode(piece, scratch, ids);
    // There are n - 1 pairs at first and two more for each of at most n - 1 merges. Each is
    // inserted once and removed once.
    EXPECT_LE(scratch.heap_operations - before, 6 * piece.size());
  }
}

}  // namespace
}  // namespace baton
