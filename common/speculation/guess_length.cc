#include "common/speculation/guess_length.h"

namespace baton {
namespace {

constexpr double kKeptOfGuess = 0.95;  // weight that a guess keeps when another is known
constexpr double kTriedBefore = 2;     // guesses that a sequence begins with, at the first rate

}  // namespace

void Acceptance::Observe(int accepted, bool refused) {
  for (int i = 0; i < accepted + (refused ? 1 : 0); ++i) {
    tried_ = kKeptOfGuess * tried_ + 1;
    true_ = kKeptOfGuess * true_ + (i < accepted ? 1 : 0);
  }
}

void Acceptance::Fade() {
  tried_ *= kKeptOfGuess;
  true_ *= kKeptOfGuess;
}

double Acceptance::rate() const {
  return (true_ + first_rate_ * kTriedBefore) / (tried_ + kTriedBefore);
}

double ExpectedTokens(const GuessOdds& odds, int guesses) {
  double tokens = 1;
  double all_true = 1;  // probability that all guesses before come true
  for (int i = 0; i < guesses; ++i) {
    all_true *= i < odds.forced ? odds.forced_acceptance : odds.acceptance;
    tokens += all_true;
  }
  return tokens;
}

int BestGuessLength(const StepWithoutGuesses& step, const GuessOdds& odds, int most) {
  const auto tokens_per_time = [&](int guesses) {
    return (step.other_tokens + ExpectedTokens(odds, guesses)) /
           (step.fixed_rows + step.rows + guesses * step.guess_rows);
  };
  // Each guess adds less than the one before, so the first that does not pay is the last.
  int best = 0;
  while (best < most && tokens_per_time(best + 1) > tokens_per_time(best)) ++best;
  return best;
}

}  // namespace baton
