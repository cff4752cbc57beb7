// Splits the calls off the text of an answer, for the families of call_syntax.h.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include <nlohmann/json.hpp>

#include "router/tools/answer_parts.h"
#include "router/tools/call_head.h"
#include "router/tools/call_syntax.h"
#include "router/tools/json_scanner.h"
#include "router/tools/xml_call.h"

namespace baton {

// Bytes that are held back until it is certain whether a call begins, or goes on.
inline constexpr size_t kMaxHeadBytes = 512;
// Bytes of a call that has to be read whole.
inline constexpr size_t kMaxWholeCallBytes = size_t{256} << 10;

// Not thread-safe. Takes time linear in the text.
class CallParser {
 public:
  // The seed and the choice decide the ids.
  CallParser(CallSyntax syntax, std::shared_ptr<const ToolSchemas> tools, uint64_t seed,
             int choice);

  void Add(absl::string_view text, AnswerParts& parts);
  void Finish(AnswerParts& parts);

 private:
  enum class State {
    kText,
    kHead,       // behind the prefix a call may begin
    kWhole,      // a call that is read whole
    kArguments,  // inside the arguments
    kRest,       // in the rest of the call's object
    kAfterCall,
    kAfterSection,
  };
  absl::string_view Rest() const { return absl::string_view(held_).substr(at_); }
  // Each returns whether there is more to do now.
  bool Step(AnswerParts& parts);
  bool StepText(AnswerParts& parts);
  bool StepHead(AnswerParts& parts);
  bool StepWhole(AnswerParts& parts);
  bool StepArguments(AnswerParts& parts);
  bool StepRest();
  bool StepAfterCall();
  bool StepAfterSection();

  CallHead ReadHead(absl::string_view text) const;
  Fit ScanWhole();
  std::optional<WholeCall> TakeWhole() const;
  void BeginCall(const std::string& name, AnswerParts& parts);
  // The prefix is text, and so is what follows unless it begins another call.
  bool Reject(AnswerParts& parts);
  void AddText(absl::string_view text, AnswerParts& parts);
  bool Enter(State state);

  const CallSyntax syntax_;
  const std::shared_ptr<const ToolSchemas> tools_;
  const uint64_t seed_;
  const int choice_;

  State state_ = State::kText;
  std::string held_;
  size_t at_ = 0;         // bytes of held_ that are done
  size_t prefix_ = 0;     // kHead: bytes of the marker or separator
  bool in_list_ = false;  // the section has had a call
  bool is_bare_ = false;  // the section has no marker
  int calls_ = 0;
  bool is_behind_call_ = false;  // no text has come since the last call, but blanks
  JsonScanner scanner_;
  XmlCallScanner xml_;
  bool is_xml_ = false;
  size_t whole_begin_ = 0;  // kWhole: behind at_
  size_t scanned_ = 0;      // kWhole: bytes behind whole_begin_
};

}  // namespace baton
