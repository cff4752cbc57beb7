// Decode passes of the CUDA backend that are replayed as graphs, against the same passes computed
// operation by operation: whatever changes from one to the next must be in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "common/backend/make_backend.h"
#include "common/base/check.h"
#include "common/model/transformer.h"
#include "test_device.h"

namespace baton {
namespace {

constexpr int kBlockSize = 16;
constexpr int kSequences = 16;
constexpr int kMaxTokens = 340;  // over the border of an attention split

template <class T>
T OrDie(absl::StatusOr<T> value) {
  BATON_CHECK(value.ok(), "what a test needs");
  return *std::move(value);
}

// One model on a backend, with sequences of random tokens that grow.
class Side {
 public:
  explicit Side(bool recorded)
      : backend_(OrDie(MakeBackend({.device = "cuda"}))),
        model_(OrDie(
            Transformer::Load(OrDie(GgufFile::Open(BATON_TEST_DATA "/tiny/tiny-llama-f32.gguf")),
                              *backend_, [](double) {}))),
        cache_(OrDie(KvCache::Create(*backend_, model_->MakeKvLayout(kBlockSize, KvType::kF16),
                                     kSequences * kBlocks))),
        tables_(kSequences),
        lengths_(kSequences) {
    BATON_CHECK(model_->Reserve(128).ok(), "the device must have the memory");
    if (recorded) recordings_ = backend_->MakeRecordings();
    for (int block = 0; block < kSequences * kBlocks; ++block) {
      tables_[static_cast<size_t>(block % kSequences)].push_back(block);
    }
    std::mt19937 random(7);
    std::vector<uint16_t> halves(CacheBytes().size() / 2);
    for (uint16_t& half : halves)
      half = static_cast<uint16_t>(0x3400 + random() % 0x800);  // 1/4..1
    backend_->Upload(halves.data(), 2 * halves.size(), cache_->Block(0));
  }

  // Passes are recorded for so many tokens in all sequences, for which there is memory.
  void RecordFor(int all_tokens) {
    recorded_tokens_ = all_tokens;
    const PassLimits limits = {.rows = kSequences,
                               .sequences = kSequences,
                               .tokens = kMaxTokens,
                               .cache_tokens = all_tokens,
                               .heads = model_->config().heads,
                               .cache = cache_->LayerView(0)};
    BATON_CHECK(backend_->ReservePasses(limits).ok(), "the device must have the memory");
  }
  // The sequence has so many tokens, whose K and V are what the cache is filled with.
  void Begin(int sequence, int tokens) { lengths_[static_cast<size_t>(sequence)] = tokens; }

  // The logits of the last tokens, [sequences, vocab_size], of padding's rows none.
  std::vector<float> Append(const std::vector<int>& sequences, int tokens_each, unsigned seed) {
    std::mt19937 random(seed);
    Batch batch;
    batch.recorded_tokens = recorded_tokens_;
    for (const int s : sequences) {
      const auto sequence = static_cast<size_t>(s);
      batch.sequences.push_back(
          {.first_row = batch.rows(),
           .row_count = tokens_each,
           .first_position = lengths_[sequence],
           .block_table = tables_[sequence].data(),
           .table_entries = cache_->layout().TableEntriesFor(lengths_[sequence] + tokens_each)});
      for (int i = 0; i < tokens_each; ++i) {
        batch.tokens.push_back(InputToken::Id(static_cast<int32_t>(random() % 256)));
      }
      batch.logits_rows.push_back(batch.rows() - 1);
      lengths_[sequence] += tokens_each;
    }
    const int count = recordings_ == nullptr ? batch.rows() : recordings_->PassRows(batch.rows());
    model_->Enqueue(
        batch, *cache_, recordings_.get(), [&](int layer) { EXPECT_EQ(layer, layers_++); },
        [&](int, Tensor rows) { logits_[count] = rows; });
    EXPECT_EQ(layers_, model_->config().layers);
    layers_ = 0;
    const Tensor& logits = logits_[count];
    std::vector<float> values(sequences.size() * static_cast<size_t>(logits.columns));
    backend_->Download(logits.data, values.size() * sizeof(float), values.data());
    return values;
  }

  std::vector<uint8_t> CacheBytes() {
    std::vector<uint8_t> bytes(static_cast<size_t>(cache_->block_count()) *
                               cache_->layout().block_bytes());
    backend_->Download(cache_->Block(0), bytes.size(), bytes.data());
    return bytes;
  }
  int length(int sequence) const { return lengths_[static_cast<size_t>(sequence)]; }

 private:
  static constexpr int kBlocks = (kMaxTokens + kBlockSize - 1) / kBlockSize;

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Transformer> model_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<PassRecordings> recordings_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<int> lengths_;
  std::map<int, Tensor> logits_;  // [rows of the pass]: where it leaves them, replayed or not
  int layers_ = 0;
  int64_t recorded_tokens_ = 0;
};

class RecordedPasses : public testing::Test {
 protected:
  RecordedPasses() { cuda_shim::SetStreamsWait(true); }
  ~RecordedPasses() override { cuda_shim::SetStreamsWait(false); }
};

std::vector<int> FirstOnes(int count) {
  std::vector<int> sequences;
  for (int i = 0; i < count; ++i) sequences.push_back(i);
  return sequences;
}

TEST_F(RecordedPasses, ComputeWhatTheirOperationsWouldAsLengthsAndCompanyChange) {
  Side plain(/*recorded=*/false);
  Side recorded(/*recorded=*/true);
  std::mt19937 random(1);
  const int launches_before = cuda_shim::GraphLaunches();
  unsigned seed = 0;
  // Tables and tasks of several shapes; one sequence crosses the border of a split.
  for (Side* side : {&plain, &recorded}) {
    side->Begin(0, 255);
    side->Begin(1, 30);
    side->Begin(2, 1);
    side->Begin(3, 150);
  }
  for (int step = 0; step < 30; ++step) {
    // No more, with padding, than products sum as they do one row.
    std::vector<int> sequences = FirstOnes(6);
    std::shuffle(sequences.begin(), sequences.end(), random);
    sequences.resize(step % 3 == 0 ? 3 : 1 + random() % 4);
    std::sort(sequences.begin(), sequences.end());
    const std::vector<float> expected = plain.Append(sequences, 1, seed);
    const std::vector<float> logits = recorded.Append(sequences, 1, seed++);
    ASSERT_EQ(logits, expected) << "step " << step << ", " << sequences.size() << " sequences";
  }
  EXPECT_GT(recorded.length(0), 256);
  EXPECT_EQ(recorded.CacheBytes(), plain.CacheBytes()) << "padding has touched a block";
  EXPECT_GT(cuda_shim::GraphLaunches(), launches_before + 8);
}

TEST_F(RecordedPasses, FollowATableThatGrowsWithinAShape) {
  Side plain(/*recorded=*/false);
  Side recorded(/*recorded=*/true);
  for (Side* side : {&plain, &recorded}) side->Begin(0, 42);
  const int captured_before = cuda_shim::GraphsCaptured();
  for (unsigned seed = 0; seed < 12; ++seed) {
    const std::vector<float> expected = plain.Append({0}, 1, seed);
    ASSERT_EQ(recorded.Append({0}, 1, seed), expected) << seed;
  }
  EXPECT_EQ(recorded.length(0), 54);  // three blocks, then four
  EXPECT_EQ(cuda_shim::GraphsCaptured(), captured_before + 1);
}

TEST_F(RecordedPasses, ServeAllSequencesThatTheyWereRecordedFor) {
  Side plain(/*recorded=*/false);
  Side recorded(/*recorded=*/true);
  recorded.RecordFor(2 * kMaxTokens);
  const int captured_before = cuda_shim::GraphsCaptured();
  unsigned seed = 0;
  for (const auto& [first, second] : {std::pair(1, 2), {255, 20}, {300, 310}, {3, 3}}) {
    for (Side* side : {&plain, &recorded}) {
      side->Begin(0, first);
      side->Begin(1, second);
    }
    for (int step = 0; step < 3; ++step) {
      const std::vector<float> expected = plain.Append({0, 1}, 1, seed);
      ASSERT_EQ(recorded.Append({0, 1}, 1, seed++), expected) << first << ", step " << step;
    }
  }
  EXPECT_EQ(cuda_shim::GraphsCaptured(), captured_before + 1);
}

// As where sequences have a long beginning in common: all together have more tokens than the cache.
TEST_F(RecordedPasses, OfMoreTokensThanThereIsMemoryForHaveTheirAttentionInParts) {
  Side plenty(/*recorded=*/true);
  Side little(/*recorded=*/true);
  little.RecordFor(256);
  constexpr int kRows = 12;
  for (Side* side : {&plenty, &little}) {
    for (int sequence = 0; sequence < kRows; ++sequence) side->Begin(sequence, 300 + sequence);
  }
  for (unsigned seed = 0; seed < 3; ++seed) {
    const std::vector<float> expected = plenty.Append(FirstOnes(kRows), 1, seed);
    const int launched_before = cuda_shim::GraphLaunches();
    ASSERT_EQ(little.Append(FirstOnes(kRows), 1, seed), expected) << seed;
    EXPECT_EQ(cuda_shim::GraphLaunches(), launched_before);
  }
}

TEST_F(RecordedPasses, AreRecordedAnewWhenMemoryHasMoved) {
  Side plain(/*recorded=*/false);
  Side recorded(/*recorded=*/true);
  unsigned seed = 0;
  const int captured_before = cuda_shim::GraphsCaptured();
  for (const int prompt : {4, 40}) {
    for (Side* side : {&plain, &recorded}) side->Append({3, 4}, prompt / 2, seed);
    ++seed;
    for (int step = 0; step < 5; ++step) {
      const std::vector<float> expected = plain.Append({0, 1}, 1, seed);
      ASSERT_EQ(recorded.Append({0, 1}, 1, seed++), expected) << prompt << ", step " << step;
    }
  }
  EXPECT_GT(cuda_shim::GraphsCaptured(), captured_before + 1);
}

TEST_F(RecordedPasses, OfManyRowsComeNearThoseOfFewerRows) {
  Side plain(/*recorded=*/false);
  Side recorded(/*recorded=*/true);
  for (unsigned seed = 0; seed < 4; ++seed) {
    const std::vector<float> expected = plain.Append(FirstOnes(13), 1, seed);
    const std::vector<float> logits = recorded.Append(FirstOnes(13), 1, seed);
    ASSERT_EQ(logits.size(), expected.size());
    for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 0.02f);
  }
}

}  // namespace
}  // namespace baton
