#include "common/protocol/layer_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using internal::v1::KvShape;
using internal::v1::LayerStateKind;
using ::testing::AllOf;
using ::testing::HasSubstr;

KvShape Shape(const std::vector<std::pair<LayerStateKind, uint32_t>>& states) {
  KvShape shape;
  shape.set_layers(3);
  for (const auto& [kind, window] : states) {
    shape.add_layer_states()->set_kind(kind);
    shape.mutable_layer_states()->rbegin()->set_window(window);
  }
  return shape;
}

constexpr LayerStateKind kRows = internal::v1::LAYER_STATE_KIND_ROWS;
constexpr LayerStateKind kLastRows = internal::v1::LAYER_STATE_KIND_LAST_ROWS;

TEST(LayerStates, RowsAndLastRowsAreGoodAndSoIsNoList) {
  EXPECT_EQ(LayerStatesFault(Shape({})), std::nullopt);
  EXPECT_EQ(LayerStatesFault(Shape({{kLastRows, 1}, {kRows, 0}, {kLastRows, 4096}})), std::nullopt);
}

TEST(LayerStates, AKindThatNoVersionCarriesYetIsRefusedByLayerAndName) {
  for (const auto& [kind, name] :
       {std::pair(internal::v1::LAYER_STATE_KIND_LATENT_ROWS,
                  "layer 1: LAYER_STATE_KIND_LATENT_ROWS is not carried"),
        std::pair(internal::v1::LAYER_STATE_KIND_BLOB,
                  "layer 1: LAYER_STATE_KIND_BLOB is not carried"),
        std::pair(internal::v1::LAYER_STATE_KIND_UNSPECIFIED,
                  "layer 1: LAYER_STATE_KIND_UNSPECIFIED is not"),
        std::pair(static_cast<LayerStateKind>(77), "layer 1: unknown kind 77 is not carried")}) {
    const KvShape shape = Shape({{kRows, 0}, {kind, 0}, {kRows, 0}});
    EXPECT_THAT(LayerStatesFault(shape).value_or(""), HasSubstr(name));
    EXPECT_THAT(std::string(CheckSameLayerStates(shape, shape).message()), HasSubstr(name));
  }
}

TEST(LayerStates, AWindowBelongsToLastRowsAlone) {
  EXPECT_THAT(LayerStatesFault(Shape({{kRows, 8}, {kRows, 0}, {kRows, 0}})).value_or(""),
              HasSubstr("layer 0: LAYER_STATE_KIND_ROWS has no window, but it is 8"));
  for (const uint32_t window : {0u, UINT32_MAX}) {
    EXPECT_THAT(LayerStatesFault(Shape({{kRows, 0}, {kRows, 0}, {kLastRows, window}})).value_or(""),
                HasSubstr("layer 2: LAYER_STATE_KIND_LAST_ROWS has a window from 1"));
  }
}

TEST(LayerStates, AListThatIsNotOneForEachLayerIsRefused) {
  for (const KvShape& shape : {Shape({{kRows, 0}}), Shape({4, {kRows, 0}})}) {
    EXPECT_THAT(LayerStatesFault(shape).value_or(""), HasSubstr("one for each of the 3 layers"));
  }
}

TEST(LayerStates, ADifferenceNamesTheFirstLayerAndWhatBothSidesHave) {
  const KvShape ours = Shape({{kRows, 0}, {kLastRows, 512}, {kLastRows, 512}});
  EXPECT_TRUE(CheckSameLayerStates(ours, ours).ok());
  const KvShape other_window = Shape({{kRows, 0}, {kLastRows, 512}, {kLastRows, 128}});
  absl::Status status = CheckSameLayerStates(ours, other_window);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("layer 2 is LAYER_STATE_KIND_LAST_ROWS with window 128"),
                    HasSubstr("this worker's is LAYER_STATE_KIND_LAST_ROWS with window 512")));
  // A list of rows alone says the same as no list.
  EXPECT_TRUE(CheckSameLayerStates(Shape({}), Shape({3, {kRows, 0}})).ok());
  status = CheckSameLayerStates(ours, Shape({}));
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer 1 is LAYER_STATE_KIND_ROWS"));
}

}  // namespace
}  // namespace baton
