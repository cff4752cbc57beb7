#include "common/backend/batch.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(InputToken, IsAnIdOrAPendingRowAlsoWhereBothAre0) {
  EXPECT_FALSE(InputToken().pending());
  EXPECT_EQ(InputToken().id(), 0);
  EXPECT_FALSE(InputToken::Id(0).pending());
  EXPECT_EQ(InputToken::Id(7).id(), 7);
  EXPECT_TRUE(InputToken::PendingRow(0).pending());
  EXPECT_EQ(InputToken::PendingRow(7).pending_row(), 7);
}

TEST(Batch, HasAsManyRowsAsItsSequencesAlsoWhereNothingIsEmbedded) {
  Batch batch;
  EXPECT_EQ(batch.rows(), 0);
  batch.sequences = {{.first_row = 0, .row_count = 3}, {.first_row = 3, .row_count = 1}};
  EXPECT_EQ(batch.rows(), 4);
}

}  // namespace
}  // namespace baton
