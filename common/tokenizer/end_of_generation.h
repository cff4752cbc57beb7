// The tokens that end a generation, other than those that a file names by their ids.
#pragma once

#include <cstdint>
#include <vector>

#include "common/tokenizer/vocabulary.h"

namespace baton {

// Appends the control tokens that end a turn, a text or a file in the formats that are known, by
// their literals, because files name only some of them by their ids. The literals are those that
// llama.cpp counts as ends (src/llama-vocab.cpp, special_eog_ids). A token of another kind never
// ends anything: "</s>", say, is also a tag of HTML.
void AppendKnownEnds(const Vocabulary& vocabulary, std::vector<int32_t>& ends);

}  // namespace baton
