// Measures how the time of a token grows with the sequences that a decode worker generates at once,
// and so how many of them it can carry.
#pragma once

#include <optional>

namespace baton {

// Fits  seconds per token = alone + more * sequences  to what decode workers showed, older samples
// counting less. By Little's law the seconds per token of a worker are its sequences over its
// tokens per second. The sequences are known from reports alone, so their error is in both sides of
// a plain regression and would pass for growth; the tokens are counted, so they are taken as the
// instrument: more = cov(seconds, tokens) / cov(sequences, tokens).
//
// Pure; not thread-safe.
class StepTime {
 public:
  static constexpr double kHalfLife = 256;  // samples after which one counts half
  static constexpr double kLeastSamples = 8;
  static constexpr double kLeastSpread = 0.05;  // spread of the tokens relative to their mean
  // A worker is never said to carry more than this times what one was seen to.
  static constexpr double kBeyondSeen = 2;

  // One worker over some seconds in which it generated.
  struct Sample {
    double sequences = 0;  // mean number
    double tokens_per_second = 0;
    double used_blocks = 0;      // mean number of KV blocks used or promised
    double total_blocks = 0;     // 0: unknown
    bool always_waited = false;  // some sequence waited for a place all the time
  };
  // REQUIRES: sequences and tokens_per_second are above 0.
  void Add(const Sample& sample);

  // What ends a worker's capacity.
  enum class Bound {
    kObjective,  // tokens would take longer than they may
    kMemory,     // its KV cache is full
    kPlaces,     // it lets others wait
    kSeen,       // none was seen with half as many
  };
  struct Capacity {
    double sequences = 1;
    double seconds_per_token = 0;  // per sequence at that number
    Bound bound = Bound::kObjective;
    bool objective_is_missed = false;  // by a lone sequence: it does not count
    // The line, and what it is compared with.
    double alone_seconds = 0, more_seconds = 0, limit_seconds = 0;
    double tokens_per_second() const { return sequences / seconds_per_token; }
  };
  // What a worker carries so that a token takes at most so many seconds in the mean. 0: twice what
  // it takes a lone sequence, where tokens per second over seconds per token are largest
  // (Kleinrock's power). None: it is not known how the time grows.
  std::optional<Capacity> Find(double objective_seconds) const;

 private:
  struct Line {
    double alone = 0, more = 0;  // seconds
  };
  std::optional<Line> Fit() const;

  // Weighted sums over the samples.
  double weight_ = 0, sequences_ = 0, seconds_ = 0, tokens_ = 0;
  double tokens_squared_ = 0, seconds_tokens_ = 0, sequences_tokens_ = 0;
  double used_blocks_ = 0, total_blocks_ = 0;
  double most_sequences_ = 0;   // seen, less what is forgotten
  double most_with_queue_ = 0;  // the same while others waited; 0: none did
};

}  // namespace baton
