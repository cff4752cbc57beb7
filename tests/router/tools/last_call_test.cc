#include "router/tools/last_call.h"

#include <initializer_list>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

using PartKind = AnswerPart::Kind;

// Whether a call is cut whose arguments come in these pieces.
bool IsCut(std::initializer_list<const char*> pieces) {
  LastCall call;
  call.Add({.kind = PartKind::kCall, .name = "f"});
  for (const char* piece : pieces) call.Add({.kind = PartKind::kArguments, .text = piece});
  return call.is_cut();
}

TEST(LastCall, IsCutUntilItsArgumentsAreWhole) {
  for (const char* begun : {"", " ", "{", "{ ", "{\"a", "{\"a\": \"}\"", "{\"a\": [1, {}]"}) {
    EXPECT_TRUE(IsCut({begun})) << begun;
  }
  EXPECT_FALSE(IsCut({"{}"}));
  EXPECT_FALSE(IsCut({"{\"a\"", ": \"}", "\"}"}));
  EXPECT_FALSE(IsCut({"{} more {"})) << "what stands behind the arguments";
  EXPECT_FALSE(IsCut({"no JSON"})) << "which would not become any";
}

TEST(LastCall, IsTheLastOneThatHasBegunWithTheArgumentsOfItsOwnPart) {
  LastCall call;
  EXPECT_FALSE(call.is_cut()) << "there is none";
  call.Add({.kind = PartKind::kCall, .name = "f", .text = "{\"a\":"});
  EXPECT_TRUE(call.is_cut());
  call.Add({.kind = PartKind::kArguments, .text = "1}"});
  call.Add({.kind = PartKind::kText, .text = "{"});
  call.Add({.kind = PartKind::kReasoning, .text = "{"});
  EXPECT_FALSE(call.is_cut());
  call.Add({.kind = PartKind::kCall, .call = 1, .name = "g"});
  EXPECT_TRUE(call.is_cut());
}

TEST(LastCall, OfACustomToolIsNeverCutSinceItsTextIsNoJson) {
  LastCall call;
  call.Add({.kind = PartKind::kCall, .name = "apply_patch", .is_custom = true});
  EXPECT_FALSE(call.is_cut());
  call.Add({.kind = PartKind::kArguments, .text = "{\"a", .is_custom = true});
  EXPECT_FALSE(call.is_cut());
}

}  // namespace
}  // namespace baton
