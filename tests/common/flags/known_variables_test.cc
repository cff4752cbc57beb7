#include "common/flags/known_variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kFlags = {"model", "max-model-len"};

TEST(KnownVariables, AMisspeltOneIsNamedWithTheNearestFlags) {
  setenv("BATON_MODLE", "x", 1);
  setenv("BATON_MAXMODELLEN", "10", 1);
  setenv("BATON_QUITE_ANOTHER_THING", "", 1);
  EXPECT_THAT(
      UnknownVariables(kFlags),
      ElementsAre(
          "the variable BATON_MAXMODELLEN is ignored: no flag has it; did you mean "
          "'BATON_MAX_MODEL_LEN'?",
          "the variable BATON_MODLE is ignored: no flag has it; did you mean 'BATON_MODEL'?",
          "the variable BATON_QUITE_ANOTHER_THING is ignored: no flag has it"));
  for (const char* name : {"BATON_MODLE", "BATON_MAXMODELLEN", "BATON_QUITE_ANOTHER_THING"}) {
    unsetenv(name);
  }
  EXPECT_THAT(UnknownVariables(kFlags), IsEmpty());
}

TEST(KnownVariables, AreCheckedByOneProcessForThoseThatItStarts) {
  unsetenv("BATON_VARIABLES_CHECKED");
  EXPECT_TRUE(TakeVariablesCheck());
  EXPECT_FALSE(TakeVariablesCheck());
  EXPECT_TRUE(IsKnownVariable("BATON_VARIABLES_CHECKED", "1", {}));
}

TEST(KnownVariables, AreThoseOfEveryProgramsFlagsOfScriptsAndOfServices) {
  for (const auto& [name, value] :
       {std::pair("BATON_MODEL", "m"), std::pair("BATON_MAX_QUEUE_TIME", "1s"),
        std::pair("BATON_REQUEST_RATE", "4"), std::pair("BATON_API_KEY", "k"),
        std::pair("BATON_CONFIG", "f"), std::pair("BATON_TEST_MODEL", "m"),
        std::pair("BATON_FRONT_LISTEN", ":443"), std::pair("BATON_FAILPOINTS", "x"),
        std::pair("BATON_ROUTER_SERVICE_HOST", "10.0.0.1"),
        std::pair("BATON_ROUTER_SERVICE_PORT", "50051"),
        std::pair("BATON_ROUTER_SERVICE_PORT_HTTP", "8080"),
        std::pair("BATON_ROUTER_PORT", "tcp://10.0.0.1:50051"),
        std::pair("BATON_ROUTER_PORT_50051_TCP", "tcp://10.0.0.1:50051"),
        std::pair("BATON_ROUTER_PORT_50051_TCP_ADDR", "10.0.0.1")}) {
    EXPECT_TRUE(IsKnownVariable(name, value, kFlags)) << name;
  }
  EXPECT_FALSE(IsKnownVariable("BATON_HTTP_PORT", "8080", kFlags)) << "no Service's has a number";
  EXPECT_FALSE(IsKnownVariable("BATON_PORT_OF_HTTP", "8080", kFlags));
}

}  // namespace
}  // namespace baton
