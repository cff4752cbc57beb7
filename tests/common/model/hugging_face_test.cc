// A Hugging Face folder and the GGUF file with the same numbers compute the same.
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/gguf/quantisation.h"
#include "common/hugging_face/open_model_file.h"
#include "tests/support/hugging_face_twin.h"
#include "tests/support/model_runner.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

const std::string kArch = BATON_TEST_DATA "/arch/";

std::vector<float> LogitsOf(GgufFile file, Quantisation quantisation) {
  const GgufFile model = GgufFile::Quantised(std::move(file), quantisation);
  ModelRunner runner({.path = "", .file = &model});
  return runner.Forward(
      {{.sequence = runner.AddSequence(), .tokens = {5, 17, 101, 33, 250, 8, 90, 90, 12, 299}}});
}

TEST(HuggingFaceFolder, HasTheLogitsOfItsTwinAlsoWhenBothAreQuantised) {
  struct Folder {
    std::string name;
    std::string twin;
    size_t vocab_size;
  };
  for (const Folder& model : {Folder{"llama-hf", "llama-hf-twin-f16.gguf", 310},
                              Folder{"qwen3-hf", "qwen3-hf-twin-f32.gguf", 312}}) {
    SCOPED_TRACE(model.name);
    std::vector<std::vector<float>> different;
    for (const Quantisation quantisation :
         {Quantisation::kNone, Quantisation::kQ8_0, Quantisation::kQ4_0}) {
      const std::vector<float> folder = LogitsOf(*OpenModelFile(kArch + model.name), quantisation);
      const std::vector<float> twin = LogitsOf(*OpenModelFile(kArch + model.twin), quantisation);
      ASSERT_EQ(folder.size(), 10 * model.vocab_size);
      EXPECT_EQ(folder, twin);
      different.push_back(folder);
    }
    EXPECT_NE(different[0], different[1]);
    EXPECT_NE(different[1], different[2]);
  }
}

TEST(HuggingFaceFolder, OfGptOssHasTheLogitsOfItsTwin) {
  const std::string twin = kArch + "gpt-oss-mxfp4.gguf";
  const TemporaryFolder folder("gpt_oss");
  WriteTwin(*OpenModelFile(twin), GptOssTwin(), folder.path());
  const std::vector<float> logits = LogitsOf(*OpenModelFile(folder.path()), Quantisation::kNone);
  ASSERT_EQ(logits.size(), 10u * 300);
  EXPECT_EQ(logits, LogitsOf(*OpenModelFile(twin), Quantisation::kNone));
}

}  // namespace
}  // namespace baton
