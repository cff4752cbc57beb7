// Decides how many tokens it pays to guess.
#pragma once

namespace baton {

// The share of one sequence's guesses that come true. A guess whose rows were not computed counts
// too, once its token is known: so guessing begins again where it pays again. Not thread-safe.
class Acceptance {
 public:
  // `first_rate`: the rate as long as no guess is known.
  explicit Acceptance(double first_rate) : first_rate_(first_rate) {}
  // The first `accepted` guesses of a run came true; `refused`: the next one did not.
  void Observe(int accepted, bool refused);
  // A token came without a guess: what was observed before counts a little less, so after
  // a while guesses are tried anew.
  void Fade();
  // The probability that the next guess comes true.
  double rate() const;

 private:
  double first_rate_;
  double tried_ = 0;  // guesses, of which later ones count more
  double true_ = 0;   // those that came true
};

// A step without the guesses of one sequence, and what a guess costs there.
struct StepWithoutGuesses {
  double fixed_rows = 0;    // its fixed time in rows (RowCosts)
  int rows = 0;             // its rows, that of the sequence too
  double other_tokens = 0;  // tokens that it makes for the others, as far as is expected
  double guess_rows = 1;    // time that a guess takes, in rows
};

// How likely guesses are to come true.
struct GuessOdds {
  double acceptance = 0;         // acceptance rate of each guess but the forced ones
  int forced = 0;                // guesses that come first and spell what a grammar forces
  double forced_acceptance = 1;  // acceptance rate of each forced guess
};

// The tokens that the sequence gets from its row and `guesses` rows more, as far as is expected.
double ExpectedTokens(const GuessOdds& odds, int guesses);
// The number of guesses, at most `most`, with which the step makes the most tokens in its time.
int BestGuessLength(const StepWithoutGuesses& step, const GuessOdds& odds, int most);

}  // namespace baton
