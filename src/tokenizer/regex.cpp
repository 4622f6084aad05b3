#include "tokenizer/regex.h"

#include <algorithm>

#include "tokenizer/unicode.h"

namespace lithe::tokenizer {

/// One search in one text.
class Regex::Run {
 public:
  Run(const Regex& regex, const char* begin, const char* end, RegexScratch& scratch)
      : regex_(regex), begin_(begin), end_(end), scratch_(scratch) {}

  /// The end of a match of the code from `pc` on that begins at `p`, or nullptr.
  const char* match(std::uint32_t pc, const char* p);

 private:
  std::uint32_t sets_at(const char* p, std::uint32_t& length) const {
    const auto lead = static_cast<std::uint8_t>(*p);
    length = utf8_length(lead);
    return lead < 0x80 ? regex_.masks_[lead] : regex_.sets_of(utf8_decode(p, length));
  }
  bool holds_at(std::uint8_t set, const char* p, std::uint32_t& length) const {
    return (sets_at(p, length) >> set & 1) != 0;
  }
  static const char* previous(const char* p) {
    do --p;
    while ((*p & 0xC0) == 0x80);
    return p;
  }
  bool is_word(const char* p) const {
    std::uint32_t length;
    return holds_at(static_cast<std::uint8_t>(regex_.word_set_), p, length);
  }
  bool at_word_edge(const char* p) const {
    const bool before = p > begin_ && is_word(previous(p)), after = p < end_ && is_word(p);
    return before != after;
  }
  /// Takes as much as it may; nullptr if that is too little.
  const char* span(const Instruction& i, const char* p, std::uint32_t pc);
  bool holds(const Instruction& i, std::uint32_t pc, const char* p);

  const Regex& regex_;
  const char *begin_, *end_;
  RegexScratch& scratch_;
};

const char* Regex::Run::span(const Instruction& i, const char* p, std::uint32_t pc) {
  const char* low = p;  // after the least
  std::uint32_t count = 0, length;
  while (count < i.b && p < end_ && holds_at(i.set, p, length)) {
    p += length;
    if (++count == i.a) low = p;
  }
  if (count < i.a) return nullptr;
  if (!i.possessive && p > low) scratch_.choices.push_back({pc + 1, low, p});
  const std::uint64_t cost = std::min<std::uint64_t>(count, scratch_.steps_left);
  scratch_.steps_left -= cost;
  return p;
}

bool Regex::Run::holds(const Instruction& i, std::uint32_t pc, const char* p) {
  switch (i.op) {
    case Op::word_edge:
      return at_word_edge(p);
    case Op::line_begin:
      return p == begin_ || p[-1] == '\n';
    case Op::line_end:
      return p == end_ || *p == '\n';
    default: {
      const Instruction& next = regex_.code_[pc + 1];
      bool found;
      if (next.op == Op::set && regex_.code_[pc + 2].op == Op::accept) {  // (?!\S)
        std::uint32_t length;
        found = p < end_ && holds_at(next.set, p, length);
      } else {
        found = match(pc + 1, p) != nullptr;
      }
      return found == (i.op == Op::look);
    }
  }
}

const char* Regex::Run::match(std::uint32_t pc, const char* p) {
  std::vector<RegexScratch::Choice>& choices = scratch_.choices;
  const std::size_t base = choices.size();
  while (true) {
    if (scratch_.steps_left == 0) break;
    --scratch_.steps_left;
    const Instruction& i = regex_.code_[pc];
    bool ok = true;
    switch (i.op) {
      case Op::set: {
        std::uint32_t length;
        ok = p < end_ && holds_at(i.set, p, length);
        if (ok) p += length;
        ++pc;
        break;
      }
      case Op::span: {
        const char* const after = span(i, p, pc);
        ok = after != nullptr;
        if (ok) p = after;
        ++pc;
        break;
      }
      case Op::either:
        choices.push_back({i.a, nullptr, p});
        ++pc;
        break;
      case Op::jump:
        pc = i.a;
        break;
      case Op::look:
      case Op::look_not:
        ok = holds(i, pc, p);
        pc = i.a;
        break;
      case Op::word_edge:
      case Op::line_begin:
      case Op::line_end:
        ok = holds(i, pc, p);
        ++pc;
        break;
      case Op::accept:
        choices.resize(base);
        return p;
    }
    if (ok) continue;
    if (choices.size() == base) return nullptr;
    RegexScratch::Choice& choice = choices.back();
    pc = choice.pc;
    if (choice.low == nullptr) {
      p = choice.at;
      choices.pop_back();
    } else {
      p = choice.at = previous(choice.at);
      if (p == choice.low) choices.pop_back();
    }
  }
  choices.resize(base);
  return nullptr;
}

Regex::Found Regex::search(const char* begin, const char* from, const char* end, RegexScratch& scratch,
                           Match& match) const {
  Run run(*this, begin, end, scratch);
  for (const char* p = from;;) {
    std::uint32_t sets = 0, length = 1;
    if (p < end) {
      const auto lead = static_cast<std::uint8_t>(*p);
      length = utf8_length(lead);
      sets = lead < 0x80 ? masks_[lead] : sets_of(utf8_decode(p, length));
    }
    if (any_empty_ || (sets & any_first_) != 0) {
      for (const Entry& entry : entries_) {
        if (!entry.maybe_empty && (sets & entry.first) == 0) continue;
        if (const char* const stop = run.match(entry.pc, p)) {
          match = {p, stop};
          return Found::yes;
        }
        if (scratch.steps_left == 0) return Found::exhausted;
      }
    }
    if (p == end) return Found::no;
    p += length;
  }
}

}  // namespace lithe::tokenizer
