#include "client/terminal/terminal_lines.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "common/base/standard_error.h"
#include "common/rpc/limits.h"

namespace baton {
namespace {

constexpr int kHistoryLines = 500;
// Sequences that make a terminal mark pastes, and the marks (ECMA-48 private mode 2004, as
// xterm's ctlseqs document it).
constexpr char kMarkPastes[] = "\x1b[?2004h";
constexpr char kMarkNoPastes[] = "\x1b[?2004l";
constexpr char kPasteBegins[] = "\\e[200~";  // in the notation of libedit's bind
constexpr wchar_t kPasteEnds[] = L"\x1b[201~";

// Makes `locale` that of this thread while it lives. A program's own locale cannot change while
// other threads run.
class ThreadLocale {
 public:
  explicit ThreadLocale(locale_t locale) : before_(uselocale(locale)) {}
  ~ThreadLocale() { uselocale(before_); }
  ThreadLocale(const ThreadLocale&) = delete;
  ThreadLocale& operator=(const ThreadLocale&) = delete;

 private:
  const locale_t before_;
};

// The prompt, which is the client data of `editor`.
char* PromptOf(EditLine* editor) {
  std::string* prompt = nullptr;
  el_get(editor, EL_CLIENTDATA, &prompt);
  return prompt->data();
}

// Ctrl-C.
unsigned char EmptyLine(EditLine* editor, wint_t) {
  const LineInfoW& line = *el_wline(editor);
  const auto length = static_cast<int>(line.lastchar - line.buffer);
  if (length == 0) {
    WriteNotice("\n/bye or Ctrl-D ends the chat\n");
    return CC_REDISPLAY;
  }
  el_cursor(editor, static_cast<int>(line.lastchar - line.cursor));
  el_deletestr(editor, length);
  return CC_REFRESH;
}

bool EndsWithMark(const std::wstring& text) {
  constexpr size_t kLength = sizeof(kPasteEnds) / sizeof(wchar_t) - 1;
  return text.size() >= kLength && text.compare(text.size() - kLength, kLength, kPasteEnds) == 0;
}

// Terminals send a pasted newline as the Enter key does, CR. Of other control characters only the
// tab is text.
std::wstring TextOf(const std::wstring& pasted) {
  std::wstring text;
  for (size_t i = 0; i < pasted.size(); ++i) {
    const wchar_t c = pasted[i];
    if (c == L'\n' && i > 0 && pasted[i - 1] == L'\r') continue;
    if (c == L'\r') {
      text += L'\n';
    } else if (c >= L' ' || c == L'\n' || c == L'\t') {
      text += c;
    }
  }
  return text;
}

// Behind the mark at which a paste begins: reads it whole and inserts it.
unsigned char InsertPaste(EditLine* editor, wint_t) {
  std::wstring pasted;
  bool too_long = false;
  wchar_t next = 0;
  while (!EndsWithMark(pasted)) {
    if (el_wgetc(editor, &next) != 1) return CC_EOF;
    pasted += next;
    if (pasted.size() > kMaxPromptBytes) {  // what is left out must still be read
      too_long = true;
      pasted.erase(0, kMaxPromptBytes / 2);
    }
  }
  if (too_long) {
    WriteNotice(absl::StrCat("\nthe paste has more than ", kMaxPromptBytes,
                             " characters and is left out; give it by `baton run < FILE`\n"));
    return CC_REDISPLAY;
  }
  pasted.resize(pasted.size() - (sizeof(kPasteEnds) / sizeof(wchar_t) - 1));
  const std::wstring text = TextOf(pasted);
  if (!text.empty() && el_winsertstr(editor, text.c_str()) != 0) return CC_ERROR;
  return CC_REFRESH;
}

}  // namespace

std::unique_ptr<TerminalLines> TerminalLines::Open() {
  std::unique_ptr<TerminalLines> lines(new TerminalLines);
  lines->utf8_ = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (lines->utf8_ == nullptr) return nullptr;
  const ThreadLocale locale(lines->utf8_);
  const int fd = dup(STDERR_FILENO);
  if (fd < 0) return nullptr;
  lines->out_.reset(fdopen(fd, "w"));
  if (lines->out_ == nullptr) {
    close(fd);
    return nullptr;
  }
  FILE* const out = lines->out_.get();
  lines->history_.reset(history_init());
  lines->editor_.reset(el_init("baton", stdin, out, out));
  EditLine* const editor = lines->editor_.get();
  if (lines->history_ == nullptr || editor == nullptr) return nullptr;

  HistEvent event;
  history(lines->history_.get(), &event, H_SETSIZE, kHistoryLines);
  history(lines->history_.get(), &event, H_SETUNIQUE, 1);
  el_set(editor, EL_CLIENTDATA, &lines->prompt_);
  el_set(editor, EL_PROMPT, &PromptOf);
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_HIST, history, lines->history_.get());
  // While a line is typed Ctrl-C is a key: the signal would not reach libedit.
  el_set(editor, EL_SETTY, "-d", "intr=", nullptr);
  el_set(editor, EL_ADDFN, "empty-line", "empties the line", &EmptyLine);
  el_set(editor, EL_BIND, "^C", "empty-line", nullptr);
  el_set(editor, EL_ADDFN, "insert-paste", "inserts what is pasted", &InsertPaste);
  el_set(editor, EL_BIND, kPasteBegins, "insert-paste", nullptr);
  el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  return lines;
}

TerminalLines::~TerminalLines() {
  editor_.reset();  // it writes to out_ and reads history_
  history_.reset();
  if (utf8_ != nullptr) freelocale(utf8_);
}

std::optional<std::string> TerminalLines::Read(const std::string& prompt) {
  const ThreadLocale locale(utf8_);
  prompt_ = prompt;
  el_resize(editor_.get());  // the window may have another size since the line before
  fputs(kMarkPastes, out_.get());
  int length = 0;
  const char* const typed = el_gets(editor_.get(), &length);
  fputs(kMarkNoPastes, out_.get());
  fflush(out_.get());
  if (typed == nullptr || length <= 0) return std::nullopt;
  std::string line(typed, static_cast<size_t>(length));
  if (line.back() == '\n') line.pop_back();
  if (!line.empty()) {
    HistEvent event;
    history(history_.get(), &event, H_ENTER, line.c_str());
  }
  return line;
}

}  // namespace baton
